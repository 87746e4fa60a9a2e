//! 4. The intent: all of a request that a fingerprint may cover.

use std::sync::Arc;

use bytes::Bytes;
use hapax_core::{
    BodyInvalid, Fingerprint, Fingerprinter, IntentParts, OperationName, Problem, ProblemKind,
};
use http::{
    HeaderMap, HeaderName, HeaderValue, Uri,
    header::{CONNECTION, CONTENT_ENCODING, CONTENT_TYPE},
    request::Parts,
};

use super::{
    body::{BufferBudget, Content, ReadError, is_large, read_aside},
    headers,
};
use crate::{FingerprintAside, Intent, Operation};

/// A request as an intent: all of it, since older records may be compared by other parts.
#[derive(Clone, Debug)]
pub struct RequestIntent {
    operation: OperationName,
    head: Arc<Parts>,
    target: Option<Uri>,
    body: Bytes,
    content: Content,
    /// Where the content is large.
    aside: Option<BufferBudget>,
}

impl RequestIntent {
    /// The intent of a request whose head says everything as the client sent it. A coded body is
    /// compared byte by byte, unless [`with_content`](Self::with_content) says what it holds.
    pub fn new(operation: &OperationName, head: &Arc<Parts>, body: &Bytes) -> Self {
        Self {
            operation: operation.clone(),
            head: Arc::clone(head),
            target: None,
            body: body.clone(),
            content: Content::CODED,
            aside: None,
        }
    }

    /// The same with the target that the client sent, for a head whose own was rewritten on the
    /// way: a nested router takes the prefix away, and two requests that differ in it alone are
    /// two intents.
    #[must_use]
    pub fn with_target(self, target: Uri) -> Self {
        Self { target: Some(target), ..self }
    }

    /// The same with the body's content, for a body whose codings were removed.
    #[must_use]
    pub fn with_content(self, content: Content) -> Self {
        Self { content, ..self }
    }

    /// The same, fingerprinted beside the async workers and in memory of this budget where its content
    /// is large. Say so last: what is added later is not looked at.
    #[must_use]
    pub fn within(self, budget: &BufferBudget) -> Self {
        let content = self.content.of(&self.body).unwrap_or(&self.body);
        let aside = is_large(content.len()).then(|| budget.clone());
        Self { aside, ..self }
    }

    /// The request's head.
    pub const fn head(&self) -> &Arc<Parts> {
        &self.head
    }
}

impl RequestIntent {
    fn with_parts<T>(
        &self,
        fingerprinter: &Fingerprinter,
        act: impl FnOnce(&IntentParts<'_>) -> T,
    ) -> T {
        let headers = &self.head.headers;
        let target = self.target.as_ref().unwrap_or(&self.head.uri);
        let lines: Vec<(&str, &[u8])> = headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_bytes()))
            .filter(|(name, _)| fingerprinter.covers_header(name))
            .collect();
        act(&IntentParts {
            operation: self.operation.as_str(),
            method: self.head.method.as_str(),
            path: target.path(),
            query: target.query(),
            media_type: headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes),
            content_encoding: headers.get(CONTENT_ENCODING).map(HeaderValue::as_bytes),
            headers: &lines,
            body: &self.body,
            decoded: self.content.of(&self.body).map(AsRef::as_ref),
        })
    }

    async fn read_aside(
        &self,
        budget: &BufferBudget,
        fingerprinter: &Fingerprinter,
    ) -> Result<Result<Fingerprint, BodyInvalid>, ReadError> {
        let what = (self.clone(), fingerprinter.clone());
        read_aside(
            budget,
            what,
            |(intent, by)| intent.with_parts(by, |parts| by.cost(parts)),
            |(intent, by)| intent.fingerprint(by),
        )
        .await
    }
}

impl Intent for RequestIntent {
    fn fingerprint(&self, fingerprinter: &Fingerprinter) -> Result<Fingerprint, BodyInvalid> {
        self.with_parts(fingerprinter, |parts| fingerprinter.fingerprint(parts))
    }

    fn fingerprint_aside<'a>(
        &'a self,
        fingerprinter: &'a Fingerprinter,
    ) -> Option<FingerprintAside<'a>> {
        let budget = self.aside.as_ref()?;
        Some(Box::pin(async { self.read_aside(budget, fingerprinter).await.ok() }))
    }
}

/// The fingerprint of a request under the rules of its operation.
///
/// # Errors
/// The problem `body-invalid` for a body that cannot be read as the form that the rules name, and
/// `overloaded` where there is no room to read it.
pub async fn fingerprint(
    operation: &Operation,
    intent: &RequestIntent,
) -> Result<Fingerprint, Problem> {
    let made = match &intent.aside {
        None => operation.fingerprint(intent),
        Some(budget) => Box::pin(intent.read_aside(budget, operation.fingerprinter()))
            .await
            .map_err(|error| error.problem())?,
    };
    made.map_err(|error| Problem::new(ProblemKind::BodyInvalid, error.to_string()))
}

/// What is compared must be what the service sees: one line of each field that says how the body
/// is to be read, and none of them, nor of the `compared` ones, taken away at this hop.
///
/// # Errors
/// The problem `body-invalid`.
pub fn check_compared(compared: &[HeaderName], headers: &HeaderMap) -> Result<(), Problem> {
    let refuse = |field: &HeaderName, what: &str| {
        let detail = format!("The request's {field} {what}.");
        Err(Problem::new(ProblemKind::BodyInvalid, detail))
    };
    for field in [&CONTENT_TYPE, &CONTENT_ENCODING] {
        if headers.get_all(field).iter().nth(1).is_some() {
            return refuse(field, "is there more than once; send one line");
        }
    }
    if !headers.contains_key(CONNECTION) {
        return Ok(());
    }
    let of_this_hop = [&CONTENT_TYPE, &CONTENT_ENCODING]
        .into_iter()
        .chain(compared)
        .find(|field| headers::ends_here(headers, field));
    match of_this_hop {
        Some(field) => refuse(field, "is named by Connection and so would not reach the service"),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use hapax_core::FingerprintRules;
    use http::Request;

    use super::*;

    fn intent(uri: &str, body: &str) -> RequestIntent {
        let request = Request::post(uri).header(CONTENT_TYPE, "application/json");
        let head = Arc::new(request.body(()).unwrap().into_parts().0);
        RequestIntent::new(
            &OperationName::new("pay").unwrap(),
            &head,
            &Bytes::from(body.to_owned()),
        )
    }

    #[test]
    fn the_target_that_the_client_sent_counts_not_what_a_router_made_of_it() {
        let fingerprinter = FingerprintRules::default().prepare();
        let print = |intent: RequestIntent| intent.fingerprint(&fingerprinter).unwrap();
        let sent = print(intent("/eu/payments?a=1", "{}"));
        let routed = || intent("/payments", "{}");
        assert_ne!(print(routed()), sent);
        assert_eq!(print(routed().with_target(Uri::from_static("/eu/payments?a=1"))), sent);
        assert_ne!(print(routed().with_target(Uri::from_static("/us/payments?a=1"))), sent);
        assert_ne!(print(routed().with_target(Uri::from_static("/eu/payments?a=2"))), sent);
    }

    #[tokio::test]
    async fn a_large_body_is_read_aside_to_the_same_fingerprint_and_a_small_one_at_once() {
        let fingerprinter = FingerprintRules::default().prepare();
        let budget = BufferBudget::new(8 << 20);
        let of = |length: usize| {
            let body = format!("\"{}\"", "a".repeat(length - 2));
            intent("/payments", &body).with_content(Content::AS_SENT).within(&budget)
        };
        assert!(of(64 << 10).fingerprint_aside(&fingerprinter).is_none());
        let large = Arc::new(of((64 << 10) + 1));
        let made = large.fingerprint_aside(&fingerprinter).unwrap().await.unwrap();
        assert_eq!(made.unwrap(), large.fingerprint(&fingerprinter).unwrap());

        let small = BufferBudget::new(1);
        let no_room = RequestIntent::clone(&large).within(&small);
        assert!(no_room.fingerprint_aside(&fingerprinter).unwrap().await.is_none());
    }

    #[test]
    fn what_is_compared_is_there_once_and_reaches_the_service() {
        let compared = [HeaderName::from_static("if-match")];
        let check = |lines: &[(&'static str, &str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in lines {
                headers.append(*name, HeaderValue::from_str(value).unwrap());
            }
            check_compared(&compared, &headers).map_err(|problem| problem.kind)
        };
        assert_eq!(check(&[]), Ok(()));
        let passes = [("content-type", "text/plain"), ("connection", "x-other")];
        assert_eq!(check(&passes), Ok(()));
        for refused in [
            [("content-type", "text/plain"), ("content-type", "text/plain")],
            [("content-encoding", "gzip"), ("content-encoding", "br")],
            [("content-type", "text/plain"), ("connection", "close, Content-Type")],
            [("if-match", "\"1\""), ("connection", "if-match")],
        ] {
            assert_eq!(check(&refused), Err(ProblemKind::BodyInvalid), "{refused:?}");
        }
    }
}
