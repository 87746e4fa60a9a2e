//! Asking for the status of an operation.

use std::time::Duration;

use bytes::Bytes;
use http::{
    HeaderMap, Method, Request, Uri,
    header::{ACCEPT, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue},
    uri::PathAndQuery,
};
use http_body_util::Full;
use serde::Deserialize;

use crate::{
    attempt::{Seen, Timing},
    facts::status_link,
    intent::Intent,
    observation::{Observation, OperationState},
};

/// Where an answer says that the status is. The question carries the caller's credentials, so it goes
/// to nobody else than the request did.
pub(crate) fn address(of: &Uri, headers: &HeaderMap) -> Option<Uri> {
    let link = status_link(headers)?;
    let link = link.parse::<Uri>().ok()?;
    let is_same = match link.authority() {
        Some(authority) => Some(authority) == of.authority() && link.scheme() == of.scheme(),
        None => link.path().starts_with('/') && !link.path().starts_with("//"),
    };
    if !is_same {
        return None;
    }
    let mut parts = of.clone().into_parts();
    parts.path_and_query = link.path_and_query().cloned();
    Uri::from_parts(parts).ok()
}

/// Where the status of an operation is by its effect id, at the gateway that an intent was sent to.
pub(crate) fn by_effect_id(of: &Uri, effect_id: &str) -> Option<Uri> {
    let path = format!("/.well-known/idempotency/operations/{effect_id}");
    let mut parts = of.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(path).ok()?);
    Uri::from_parts(parts).ok()
}

/// The question: with the fields of the intent, which say whose it is and what its key is.
pub(crate) fn question(intent: &Intent, address: Uri) -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::new(Bytes::new()));
    *request.method_mut() = Method::GET;
    *request.uri_mut() = address;
    let headers = request.headers_mut();
    *headers = intent.headers().clone();
    headers.remove(CONTENT_TYPE);
    headers.remove(CONTENT_ENCODING);
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    request
}

/// What the answer says.
pub(crate) fn read(seen: Seen) -> Seen {
    let (state, retry_after) = match &seen.observation {
        Observation::Answered(answer) if answer.status == 200 => {
            (seen.response.as_ref().map_or(OperationState::NotTold, state), answer.retry_after)
        }
        // Not there, or not for this caller.
        Observation::Answered(answer) if answer.status < 500 && answer.status != 429 => {
            (OperationState::NotTold, answer.retry_after)
        }
        Observation::Answered(answer) => (OperationState::GoesOn, answer.retry_after),
        _ => (OperationState::GoesOn, None),
    };
    let why = match state {
        OperationState::Ended => "its status says that it has an outcome".to_owned(),
        OperationState::NotApplied => "its status says that nothing happened".to_owned(),
        OperationState::GoesOn => format!("its status: {}", seen.why),
        OperationState::NotTold => format!("its status is not told: {}", seen.why),
    };
    // What the status answers is no evidence of the operation's own answer.
    seen_status(state, retry_after, why)
}

/// There is nowhere to ask.
pub(crate) fn not_told() -> Seen {
    seen_status(OperationState::NotTold, None, "its status is nowhere to be asked for".to_owned())
}

fn seen_status(state: OperationState, retry_after: Option<Duration>, why: String) -> Seen {
    let observation = Observation::Status { state, retry_after };
    Seen { observation, response: None, cut: false, why, timing: Timing::Failed }
}

fn state(response: &http::Response<Bytes>) -> OperationState {
    #[derive(Deserialize)]
    struct Status {
        state: String,
    }
    let status = serde_json::from_slice::<Status>(response.body());
    match status.as_ref().map(|status| status.state.as_str()) {
        Ok("succeeded" | "failed") => OperationState::Ended,
        Ok("not-applied") => OperationState::NotApplied,
        Ok("executing" | "unknown") => OperationState::GoesOn,
        _ => OperationState::NotTold,
    }
}

#[cfg(test)]
mod tests {
    use http::header::LINK;

    use super::*;

    #[test]
    fn the_status_is_asked_for_where_the_request_went_and_nowhere_else() {
        let of = Uri::from_static("https://api.example:8443/payments?x=1");
        for (link, found) in [
            ("</s/1?of=2>; rel=\"status\"", Some("https://api.example:8443/s/1?of=2")),
            ("<https://api.example:8443/s>; rel=\"status\"", Some("https://api.example:8443/s")),
            ("<http://api.example:8443/s>; rel=\"status\"", None),
            ("<https://api.example/s>; rel=\"status\"", None),
            ("<https://evil.example/s>; rel=\"status\"", None),
            ("<//evil.example/s>; rel=\"status\"", None),
            ("<s>; rel=\"status\"", None),
            ("<>; rel=\"status\"", None),
            ("</s>; rel=\"next\"", None),
        ] {
            let headers = HeaderMap::from_iter([(LINK, HeaderValue::from_static(link))]);
            let address = address(&of, &headers).map(|address| address.to_string());
            assert_eq!(address.as_deref(), found, "{link}");
        }
    }
}
