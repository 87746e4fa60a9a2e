//! 7. and 8.: what the service answered, as far as settling needs it.

use bytes::Bytes;
use hapax_core::{OutcomeRules, Said, StoredResponse, Told};
use http::{HeaderMap, HeaderName, Response, header::RETRY_AFTER};
use http_body::Body;
use tracing::warn;

use super::{
    body::{Collected, ResponseBody, collect_capped, content_of_answer},
    headers,
};
use crate::Reply;

/// Reads an answer as far as settling needs it; what is left is for the caller.
///
/// An event stream, and a body larger than `cap` bytes, are settled by their head: the reply holds
/// no response to replay, and the body streams on from its first byte. A complete answer is
/// stored with the fields that may be replayed, `replayed` among them. Where `outcome` has a 2xx
/// answer read, the reply holds what it tells: unknown, unless all of it is there and can be read.
/// Fields that only we may set are taken from the answer, after `Hapax-Outcome` and
/// `Idempotent-Replayed` were read.
///
/// There is no time limit in here: bound the future, and drop it to give the answer up.
///
/// # Errors
/// [`BrokenOff`] when the body ends before it is complete: the outcome is
/// [lost](crate::Ended::Lost).
pub async fn read_reply<B>(
    answer: Response<B>,
    cap: usize,
    replayed: &[HeaderName],
    outcome: Option<&OutcomeRules>,
) -> Result<(Reply, Response<ResponseBody<B>>), BrokenOff<B::Error>>
where
    B: Body<Data = Bytes> + Unpin,
{
    let (mut head, body) = answer.into_parts();
    let retry_after = head.headers.get(RETRY_AFTER);
    let mut reply = Reply {
        status: head.status.as_u16(),
        said: said(&head.headers),
        told: outcome.map(|_| Told::Unknown),
        replayed: head.headers.get(headers::IDEMPOTENT_REPLAYED).is_some_and(|v| v == "true"),
        response: None,
        retry_after: retry_after.map(|value| Bytes::copy_from_slice(value.as_bytes())),
    };
    headers::strip_ours_from_response(&mut head.headers);
    if headers::is_event_stream(&head.headers) {
        return Ok((reply, Response::from_parts(head, ResponseBody::streaming(body))));
    }
    let body = match collect_capped(body, cap).await {
        Collected::OverCap(resumed) => ResponseBody::resumed(resumed),
        Collected::Broken { received, error } => {
            return Err(BrokenOff { status: reply.status, received, error });
        }
        Collected::Complete { bytes, trailers } => {
            if let Some(rules) = outcome.filter(|_| head.status.is_success()) {
                reply.told = Some(told(rules, &head.headers, &bytes).await);
            }
            reply.response = Some(StoredResponse {
                status: reply.status,
                headers: headers::storable(&head.headers, replayed),
                body: bytes.clone(),
            });
            ResponseBody::whole(bytes, trailers)
        }
    };
    Ok((reply, Response::from_parts(head, body)))
}

/// An answer that ended before it was complete: it proves nothing.
#[derive(Debug)]
pub struct BrokenOff<E> {
    /// The status code that its head had.
    pub status: u16,
    /// How many bytes of its body had arrived.
    pub received: usize,
    /// Why it ended.
    pub error: E,
}

/// What the service says of the effect in `Hapax-Outcome`. A field that is there and cannot be read
/// is no word to rely on, so it counts as `unknown`.
pub fn said(headers: &HeaderMap) -> Option<Said> {
    if !headers.contains_key(headers::HAPAX_OUTCOME) {
        return None;
    }
    let word = headers::only(headers, &headers::HAPAX_OUTCOME)
        .and_then(|line| Said::parse(line.as_bytes()));
    if word.is_none() {
        warn!("Hapax-Outcome is not one of applied, not-applied, unknown; taken as unknown");
    }
    word.or(Some(Said::Unknown))
}

/// What the body of a complete answer tells.
pub async fn told(rules: &OutcomeRules, headers: &HeaderMap, body: &Bytes) -> Told {
    match content_of_answer(headers, body).await {
        Some(content) => rules.read(&content),
        None => Told::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use hapax_core::{OutcomeRule, Pointer};
    use http::StatusCode;
    use http_body::Frame;
    use http_body_util::{BodyExt, Empty};

    use super::super::body::scripted::{Scripted, Step};
    use super::*;

    fn answer(
        fields: &[(&str, &str)],
        steps: impl IntoIterator<Item = Step>,
    ) -> Response<Scripted> {
        let mut response = Response::builder().status(StatusCode::CREATED);
        for (name, value) in fields {
            response = response.header(*name, *value);
        }
        response.body(Scripted::new(steps)).unwrap()
    }

    fn data(text: &'static str) -> Step {
        Step::Frame(Frame::data(Bytes::from_static(text.as_bytes())))
    }

    #[tokio::test]
    async fn a_complete_answer_is_kept_and_passed_on() {
        let fields = [
            ("etag", "\"1\""),
            ("x-balance", "12"),
            ("x-other", "no"),
            ("retry-after", "3"),
            ("hapax-outcome", "applied"),
            ("idempotent-replayed", "true"),
        ];
        let extras = [HeaderName::from_static("x-balance")];
        let answer = answer(&fields, [data("ab"), data("cd")]);
        let (reply, live) = read_reply(answer, 4, &extras, None).await.unwrap();
        let kept = |name: &'static str, value: &'static str| (name.into(), value.into());
        let expected = Reply {
            status: 201,
            said: Some(Said::Applied),
            told: None,
            replayed: true,
            response: Some(StoredResponse {
                status: 201,
                headers: vec![kept("etag", "\"1\""), kept("x-balance", "12")],
                body: "abcd".into(),
            }),
            retry_after: Some("3".into()),
        };
        assert_eq!(reply, expected);
        assert_eq!(live.status(), 201);
        let names: Vec<_> = live.headers().keys().map(HeaderName::as_str).collect();
        assert_eq!(names, ["etag", "x-balance", "x-other", "retry-after"], "without ours");
        assert_eq!(live.into_body().collect().await.unwrap().to_bytes(), "abcd");
    }

    #[tokio::test]
    async fn an_event_stream_and_a_large_body_are_settled_by_their_head_and_stream_on() {
        let stream = [("content-type", "text/event-stream")];
        for (fields, cap) in [(&stream[..], 9), (&[], 3)] {
            let answer = answer(fields, [data("ab"), data("cd"), data("ef")]);
            let (reply, live) = read_reply(answer, cap, &[], None).await.unwrap();
            assert_eq!((reply.status, reply.response), (201, None));
            assert_eq!(live.into_body().collect().await.unwrap().to_bytes(), "abcdef");
        }
        // Nobody waits for the end of a stream.
        let endless = answer(&stream, [data("ab"), Step::Never]);
        assert!(read_reply(endless, 9, &[], None).await.is_ok());
    }

    #[tokio::test]
    async fn an_answer_that_breaks_off_is_no_reply() {
        let broken =
            read_reply(answer(&[], [data("ab"), Step::Break]), 9, &[], None).await.unwrap_err();
        assert_eq!((broken.status, broken.received), (201, 2));
    }

    #[tokio::test]
    async fn where_the_body_tells_the_outcome_it_is_read_if_all_of_it_is_there() {
        let rule = OutcomeRule {
            at: Pointer::parse("/errors").unwrap(),
            absent: Some(Told::Applied),
            values: Vec::new(),
            present: Some(Told::NotApplied),
        };
        let rules = OutcomeRules::new(vec![rule]);
        let told = async |fields: &[(&str, &str)], body: &'static str, cap: usize| {
            let answer = answer(fields, [data(body)]);
            read_reply(answer, cap, &[], Some(&rules)).await.unwrap().0.told
        };
        assert_eq!(told(&[], r#"{"data":1}"#, 99).await, Some(Told::Applied));
        assert_eq!(told(&[], r#"{"errors":[]}"#, 99).await, Some(Told::NotApplied));
        assert_eq!(told(&[], "no JSON", 99).await, Some(Told::Unknown));
        assert_eq!(told(&[], r#"{"data":1}"#, 3).await, Some(Told::Unknown), "over the cap");
        let stream = [("content-type", "text/event-stream")];
        assert_eq!(told(&stream, r#"{"data":1}"#, 99).await, Some(Told::Unknown));
        let coded = [("content-encoding", "own")];
        assert_eq!(told(&coded, r#"{"data":1}"#, 99).await, Some(Told::Unknown));
    }

    #[test]
    fn a_word_that_cannot_be_read_counts_as_unknown() {
        let said = |words: &[&str]| {
            let fields: Vec<_> = words.iter().map(|word| ("hapax-outcome", *word)).collect();
            said(answer(&fields, []).headers())
        };
        assert_eq!(said(&[]), None);
        assert_eq!(said(&["not-applied"]), Some(Said::NotApplied));
        for unclear in [&["perhaps"][..], &[""], &["applied", "applied"], &["applied, applied"]] {
            assert_eq!(said(unclear), Some(Said::Unknown), "{unclear:?}");
        }
    }

    #[tokio::test]
    async fn a_body_that_ends_at_once_is_complete() {
        let (reply, _) = read_reply(Response::new(Empty::new()), 0, &[], None).await.unwrap();
        assert!(reply.response.is_some_and(|response| response.body.is_empty()));
    }
}
