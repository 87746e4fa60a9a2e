//! 9. The response: live answers passed on, stored ones replayed, problems explained.

use std::{
    fmt::Write,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use hapax_core::{Problem, StoreTime, StoredResponse, retry_after_seconds, says_not_applied};
use http::{
    HeaderMap, HeaderName, HeaderValue, Response, StatusCode,
    header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE},
};
use metrics::counter;
use tracing::debug;

use super::headers::{HAPAX_OUTCOME, IDEMPOTENCY_EXPIRES, IDEMPOTENT_REPLAYED};
use crate::{Answer, FirstOutcome, metric_definitions::PROBLEMS};

/// The response to an attempt: the live one, or one made of what is stored.
///
/// `Idempotency-Expires` says until when a stored one is replayed, `Idempotent-Replayed: true` that
/// it was, `Hapax-Outcome: unknown` that it settled nothing, and `not-applied` that it freed the
/// key where its status does not say so by itself.
pub fn respond<B: From<Bytes>>(answer: Answer<Response<B>>) -> Response<B> {
    match answer {
        Answer::First { mut live, outcome } => {
            let status = live.status().as_u16();
            let headers = live.headers_mut();
            match outcome {
                FirstOutcome::Stored { expires: Some(expires) } => set_expires(headers, expires),
                FirstOutcome::Stored { expires: None } => {}
                // What the status says by itself is not said again.
                FirstOutcome::Freed if says_not_applied(status) => {}
                FirstOutcome::Freed => {
                    headers.insert(HAPAX_OUTCOME, HeaderValue::from_static("not-applied"));
                }
                FirstOutcome::Untouched => {}
                FirstOutcome::Unknown { retry_after } => set_unknown(headers, retry_after),
            }
            live
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

/// A problem as its response (RFC 9457); it is counted.
pub fn refuse<B: From<Bytes>>(problem: &Problem) -> Response<B> {
    refuse_as(problem, &problem.kind.type_uri())
}

/// As [`refuse`], with a type of the door's own.
pub fn refuse_as<B: From<Bytes>>(problem: &Problem, type_uri: &str) -> Response<B> {
    counter!(PROBLEMS, "type" => problem.kind.name()).increment(1);
    debug!(problem = problem.kind.name(), status = problem.status, "refused");
    let mut response = Response::new(B::from(Bytes::from(problem.to_json_as(type_uri))));
    *response.status_mut() =
        StatusCode::from_u16(problem.status).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(seconds) = problem.retry_after_seconds() {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    let challenge = problem.challenge.as_ref().and_then(|text| HeaderValue::from_str(text).ok());
    if let Some(challenge) = challenge {
        headers.insert(WWW_AUTHENTICATE, challenge);
    } else if problem.status == StatusCode::UNAUTHORIZED.as_u16() {
        // A 401 carries a challenge (RFC 9110, section 15.5.2); what is missing is the scope.
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Hapax realm=\"scope\""));
    }
    if let Some(says) = problem.says {
        headers.insert(HAPAX_OUTCOME, HeaderValue::from_static(says));
    }
    response
}

fn stored<B: From<Bytes>>(stored: StoredResponse) -> Response<B> {
    let mut response = Response::new(B::from(stored.body));
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

/// A moment in RFC 3339, with milliseconds; `None` for one that it cannot say.
pub fn moment(time: StoreTime) -> Option<HeaderValue> {
    let text = humantime::format_rfc3339_millis(sayable(time)?).to_string();
    HeaderValue::try_from(text).ok()
}

/// Year 9999 is the last that RFC 3339 can say.
fn sayable(time: StoreTime) -> Option<SystemTime> {
    let micros = u64::try_from(time.as_micros()).unwrap_or(0);
    let moment = SystemTime::UNIX_EPOCH.checked_add(Duration::from_micros(micros));
    moment.filter(|moment| *moment <= last_moment())
}

fn set_expires(headers: &mut HeaderMap, expires: StoreTime) {
    let Some(moment) = sayable(expires) else { return };
    let mut text = String::with_capacity("2026-11-30T00:53:20Z".len());
    // Writing to a string does not fail.
    let _ = write!(text, "{}", humantime::format_rfc3339_seconds(moment));
    if let Ok(value) = HeaderValue::try_from(text) {
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
        let response: Response<Bytes> = refuse(&problem.retry_after(Duration::from_millis(1)));
        assert_eq!(response.status(), 409);
        assert_eq!(response.headers()[CACHE_CONTROL], "no-store");
        assert_eq!(response.headers()[RETRY_AFTER], "1");
        assert_eq!(response.headers()[HAPAX_OUTCOME], "unknown");
    }

    #[test]
    fn a_401_has_a_challenge_whatever_the_problem_knows_of_one() {
        let challenge = |problem: Problem| {
            let response: Response<Bytes> = refuse(&problem);
            response.headers().get(WWW_AUTHENTICATE).cloned()
        };
        let missing = || Problem::new(ProblemKind::ScopeMissing, "");
        let general = HeaderValue::from_static("Hapax realm=\"scope\"");
        assert_eq!(challenge(missing()), Some(general.clone()));
        assert_eq!(challenge(missing().challenging("Bearer")), Some("Bearer".parse().unwrap()));
        assert_eq!(challenge(missing().challenging("no\nfield")), Some(general));
        assert_eq!(challenge(Problem::new(ProblemKind::InFlight, "")), None);
    }

    #[test]
    fn a_stored_response_keeps_repeats_order_and_bytes() {
        let header = |name: &'static str, value: &'static [u8]| {
            (Bytes::from_static(name.as_bytes()), Bytes::from_static(value))
        };
        let response: Response<Bytes> = stored(StoredResponse {
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
