//! What a client gets: live answers passed on, stored ones replayed, problems explained.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use hapax::{Answer, FirstOutcome};
use hapax_core::{Problem, StoreTime, StoredResponse, retry_after_seconds};
use http::{
    HeaderMap, HeaderName, HeaderValue, Response, StatusCode,
    header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE},
    response::Parts,
};
use http_body::{Body, Frame, SizeHint};
use metrics::counter;
use tracing::debug;

use crate::{
    body::{BoxError, Resumed, Tapped, Watching},
    headers::{IDEMPOTENCY_EXPIRES, IDEMPOTENT_REPLAYED},
    metric_definitions::PROBLEMS,
    upstream::UpstreamBody,
};

/// What the gateway says, and the service may say, of an effect id.
pub(crate) const HAPAX_OUTCOME: HeaderName = HeaderName::from_static("hapax-outcome");

/// An answer of the service that is passed on as it is.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) head: Parts,
    pub(crate) body: AnswerBody,
}

/// The body of an answer.
#[derive(Debug)]
pub struct AnswerBody(Content);

#[derive(Debug)]
enum Content {
    Full { content: Option<Bytes>, trailers: Option<HeaderMap> },
    Upstream(UpstreamBody),
    Resumed(Resumed<UpstreamBody>),
    Watched(Tapped<UpstreamBody, Watching>),
}

impl AnswerBody {
    pub(crate) fn full(content: Bytes, trailers: Option<HeaderMap>) -> Self {
        Self(Content::Full { content: Some(content).filter(|c| !c.is_empty()), trailers })
    }

    pub(crate) const fn upstream(body: UpstreamBody) -> Self {
        Self(Content::Upstream(body))
    }

    pub(crate) const fn resumed(body: Resumed<UpstreamBody>) -> Self {
        Self(Content::Resumed(body))
    }

    pub(crate) const fn watched(body: Tapped<UpstreamBody, Watching>) -> Self {
        Self(Content::Watched(body))
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let polled = match &mut self.0 {
            Content::Full { content, trailers } => {
                let frame = content.take().map(Frame::data);
                return Poll::Ready(frame.or_else(|| trailers.take().map(Frame::trailers)).map(Ok));
            }
            Content::Upstream(body) => Pin::new(body).poll_frame(cx),
            Content::Resumed(body) => Pin::new(body).poll_frame(cx),
            Content::Watched(body) => Pin::new(body).poll_frame(cx),
        };
        polled.map(|frame| frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Content::Full { content, trailers } => content.is_none() && trailers.is_none(),
            Content::Upstream(body) => body.is_end_stream(),
            Content::Resumed(body) => body.is_end_stream(),
            Content::Watched(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            // A declared length would leave the trailers out: only a chunked body has any.
            Content::Full { trailers: Some(_), .. } => SizeHint::new(),
            Content::Full { content, .. } => {
                SizeHint::with_exact(content.as_ref().map_or(0, |content| content.len() as u64))
            }
            Content::Upstream(body) => body.size_hint(),
            Content::Resumed(body) => body.size_hint(),
            Content::Watched(body) => body.size_hint(),
        }
    }
}

/// The response to an attempt.
pub(crate) fn respond(answer: Answer<Live>) -> Response<AnswerBody> {
    match answer {
        Answer::First { live, outcome } => {
            let Live { mut head, body } = live;
            match outcome {
                FirstOutcome::Stored { expires } => set_expires(&mut head.headers, expires),
                FirstOutcome::Freed => {}
                FirstOutcome::Unknown { retry_after } => {
                    set_unknown(&mut head.headers, retry_after);
                }
            }
            Response::from_parts(head, body)
        }
        Answer::Replayed { response, expires } => {
            let mut response = stored(response);
            let headers = response.headers_mut();
            headers.insert(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"));
            set_expires(headers, expires);
            response
        }
        Answer::Observed { response, retry_after } => {
            let mut response = stored(response);
            set_unknown(response.headers_mut(), retry_after);
            response
        }
        Answer::Shared { response } => stored(response),
        Answer::Problem(problem) => refuse(&problem),
    }
}

/// A problem as its response (RFC 9457).
pub(crate) fn refuse(problem: &Problem) -> Response<AnswerBody> {
    counter!(PROBLEMS, "type" => problem.kind.name()).increment(1);
    debug!(problem = problem.kind.name(), status = problem.status, "refused");
    let body = AnswerBody::full(Bytes::from(problem.to_json()), None);
    let mut response = Response::new(body);
    *response.status_mut() =
        StatusCode::from_u16(problem.status).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(seconds) = problem.retry_after_seconds() {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    if response.status() == StatusCode::UNAUTHORIZED {
        // A 401 carries a challenge (RFC 9110, section 15.5.2); what is missing is the scope.
        let challenge = HeaderValue::from_static("Hapax realm=\"scope\"");
        response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    }
    let headers = response.headers_mut();
    if let Some(says) = problem.says {
        headers.insert(HAPAX_OUTCOME, HeaderValue::from_static(says));
    }
    response
}

fn stored(stored: StoredResponse) -> Response<AnswerBody> {
    let mut response = Response::new(AnswerBody::full(stored.body, None));
    // What was stored came from a valid response, so nothing is lost here.
    *response.status_mut() = StatusCode::from_u16(stored.status).unwrap_or(StatusCode::OK);
    for (name, value) in stored.headers {
        if let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(&name), HeaderValue::from_maybe_shared(value))
        {
            response.headers_mut().append(name, value);
        }
    }
    response
}

fn set_expires(headers: &mut HeaderMap, expires: StoreTime) {
    let micros = u64::try_from(expires.as_micros()).unwrap_or(0);
    let moment = SystemTime::UNIX_EPOCH.checked_add(Duration::from_micros(micros));
    // Year 9999 is the last that RFC 3339 can say; a later moment is not said.
    let text = moment.filter(|moment| *moment <= last_moment());
    let text = text.map(|moment| humantime::format_rfc3339_seconds(moment).to_string());
    if let Some(Ok(value)) = text.map(HeaderValue::try_from) {
        headers.insert(IDEMPOTENCY_EXPIRES, value);
    }
}

fn last_moment() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(253_402_300_799)
}

fn set_unknown(headers: &mut HeaderMap, retry_after: Duration) {
    headers.insert(HAPAX_OUTCOME, HeaderValue::from_static("unknown"));
    // The service knows better when it will be back.
    headers.entry(RETRY_AFTER).or_insert_with(|| retry_after_seconds(retry_after).into());
}

#[cfg(test)]
mod tests {
    use hapax_core::ProblemKind;

    use super::*;

    #[test]
    fn moments_that_rfc3339_cannot_say_are_not_said() {
        let mut headers = HeaderMap::new();
        set_expires(&mut headers, StoreTime::from_micros(i64::MAX));
        assert!(headers.is_empty());
        set_expires(&mut headers, StoreTime::from_micros(-1));
        assert_eq!(headers[IDEMPOTENCY_EXPIRES], "1970-01-01T00:00:00Z");
        set_expires(&mut headers, StoreTime::from_micros(1_796_000_000_900_000));
        assert_eq!(headers[IDEMPOTENCY_EXPIRES], "2026-11-30T00:53:20Z");
    }

    #[test]
    fn a_problem_is_not_cached_and_says_what_it_knows() {
        let problem = Problem::new(ProblemKind::InFlight, "busy");
        let response = refuse(&problem.retry_after(Duration::from_millis(1)));
        assert_eq!(response.status(), 409);
        assert_eq!(response.headers()[CACHE_CONTROL], "no-store");
        assert_eq!(response.headers()[RETRY_AFTER], "1");
        assert_eq!(response.headers()[HAPAX_OUTCOME], "unknown");
    }

    #[test]
    fn a_stored_response_keeps_repeats_order_and_bytes() {
        let header = |name: &'static str, value: &'static [u8]| {
            (Bytes::from_static(name.as_bytes()), Bytes::from_static(value))
        };
        let response = stored(StoredResponse {
            status: 201,
            headers: vec![
                header("link", b"<a>"),
                header("link", b"<b>"),
                header("etag", b"\"\xe9\""),
            ],
            body: Bytes::from_static(b"\0\xff"),
        });
        assert_eq!(response.status(), 201);
        let links: Vec<_> = response.headers().get_all("link").iter().collect();
        assert_eq!(links, ["<a>", "<b>"]);
        assert_eq!(response.headers()["etag"].as_bytes(), b"\"\xe9\"");
    }
}
