//! By what one request is found again in logs: its id and its trace. Neither is ever identity.

use std::time::{SystemTime, UNIX_EPOCH};

use http::{HeaderMap, HeaderName, HeaderValue};
use tracing::{Span, debug_span};
use uuid::Uuid;

use hapax::http::headers::only;

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The longest request id that is taken from a caller.
const LONGEST: usize = 128;

/// By what a request is found again.
#[derive(Debug)]
pub(crate) struct Correlation {
    /// The field of the id, and the id.
    id: Option<(HeaderName, HeaderValue)>,
    /// The trace id of a valid `traceparent`.
    trace: Option<HeaderValue>,
}

impl Correlation {
    /// What a request carries; one without an id of its own, or with one that is not fit for logs,
    /// gets one, which the service sees as well.
    pub(crate) fn of(headers: &mut HeaderMap, field: Option<&HeaderName>) -> Self {
        let trace = only(headers, &TRACEPARENT).and_then(trace_id);
        let id = field.map(|field| {
            let own = only(headers, field).filter(|id| is_fit(id)).cloned();
            let id = own.or_else(|| HeaderValue::try_from(made().to_string()).ok());
            let id = id.unwrap_or_else(|| HeaderValue::from_static("-"));
            headers.insert(field, id.clone());
            (field.clone(), id)
        });
        Self { id, trace }
    }

    /// Under what everything about the request is logged.
    pub(crate) fn span(&self) -> Span {
        let text = |value: &HeaderValue| value.to_str().unwrap_or_default().to_owned();
        let id = self.id.as_ref().map(|(_, id)| text(id));
        let trace = self.trace.as_ref().map(text);
        debug_span!("request", id, trace)
    }

    /// Tells the caller the id, unless the service has named one.
    pub(crate) fn say(self, headers: &mut HeaderMap) {
        if let Some((field, id)) = self.id {
            headers.entry(field).or_insert(id);
        }
    }
}

/// An id of our own, a UUIDv7. It is no secret, so no system call is made for each request.
fn made() -> Uuid {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut random = [0; 10];
    fastrand::fill(&mut random);
    let millis = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
    uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid()
}

/// Short, and nothing in it that means something in a log.
fn is_fit(id: &HeaderValue) -> bool {
    let fits = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:+/=@~".contains(byte);
    (1..=LONGEST).contains(&id.len()) && id.as_bytes().iter().all(fits)
}

/// The trace id of a `traceparent` (W3C Trace Context, section 3.2): version, trace id, parent id
/// and flags in lower-case hexadecimal, the ids not all zero. Later versions may say more behind.
fn trace_id(value: &HeaderValue) -> Option<HeaderValue> {
    let bytes = value.as_bytes();
    let (version, trace) = (bytes.get(..2)?, bytes.get(3..35)?);
    let (parent, flags) = (bytes.get(36..52)?, bytes.get(53..55)?);
    let is_hex = |part: &[u8]| part.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let is_some = |part: &[u8]| part.iter().any(|byte| *byte != b'0');
    let dashes = [2, 35, 52].iter().all(|at| bytes.get(*at) == Some(&b'-'));
    let length = match version {
        b"00" => bytes.len() == 55,
        b"ff" => false,
        _ => matches!(bytes.get(55), None | Some(b'-')),
    };
    let valid = [version, trace, parent, flags].into_iter().all(is_hex)
        && is_some(trace)
        && is_some(parent)
        && dashes
        && length;
    valid.then(|| HeaderValue::from_bytes(trace).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELD: HeaderName = HeaderName::from_static("x-request-id");
    const VALID: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn correlate(headers: &[(&'static str, &'static str)]) -> (Correlation, HeaderMap) {
        let fields = headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(name, value);
        }
        let correlation = Correlation::of(&mut headers, Some(&FIELD));
        (correlation, headers)
    }

    #[test]
    fn a_request_id_of_the_caller_travels_and_comes_back() {
        let (correlation, headers) = correlate(&[("x-request-id", "order-7/a")]);
        assert_eq!(headers[FIELD], "order-7/a");
        let mut answer = HeaderMap::new();
        correlation.say(&mut answer);
        assert_eq!(answer[FIELD], "order-7/a");
    }

    #[test]
    fn one_that_does_not_belong_into_a_log_is_replaced() {
        for given in [
            &[][..],
            &[("x-request-id", "")],
            &[("x-request-id", "a b")],
            &[("x-request-id", "\"injected\"")],
            &[("x-request-id", "a"), ("x-request-id", "b")],
        ] {
            let (_, headers) = correlate(given);
            let lines: Vec<_> = headers.get_all(FIELD).iter().collect();
            assert_eq!(lines.len(), 1, "{given:?}");
            let id = Uuid::parse_str(lines[0].to_str().unwrap()).unwrap();
            assert_eq!(id.get_version_num(), 7);
        }
    }

    #[test]
    fn the_services_own_id_is_not_overruled() {
        let (correlation, _) = correlate(&[]);
        let mut answer = HeaderMap::new();
        answer.insert(FIELD, HeaderValue::from_static("theirs"));
        correlation.say(&mut answer);
        assert_eq!(answer[FIELD], "theirs");
    }

    #[test]
    fn only_a_valid_traceparent_is_a_trace() {
        for (given, valid) in [
            (VALID, true),
            ("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what", true),
            ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what", false),
            ("ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", false),
            ("00-00000000000000000000000000000000-00f067aa0ba902b7-01", false),
            ("00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01", false),
            ("00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01", false),
            ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7", false),
            ("", false),
        ] {
            let (correlation, _) = correlate(&[("traceparent", given)]);
            let found = correlation.trace.is_some();
            assert_eq!(found, valid, "{given}");
        }
    }
}
