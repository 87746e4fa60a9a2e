//! Which fields of an answer are kept and replayed.

use bytes::Bytes;
use http::header;
use http::{HeaderMap, HeaderName};

use super::{HOP_BY_HOP, IDEMPOTENCY_EXPIRES, IDEMPOTENT_REPLAYED, is_ours};

/// What describes the outcome itself.
const KEPT: [(HeaderName, &str); 8] = [
    (header::CONTENT_TYPE, "content-type"),
    (header::CONTENT_LANGUAGE, "content-language"),
    (header::CONTENT_ENCODING, "content-encoding"),
    (header::LOCATION, "location"),
    (header::CONTENT_LOCATION, "content-location"),
    (header::ETAG, "etag"),
    (header::LAST_MODIFIED, "last-modified"),
    (header::LINK, "link"),
];

/// What speaks of one exchange, or to one receiver.
const NEVER: [HeaderName; 36] = [
    // Credentials: the retry may come from where the first attempt did not.
    header::AUTHORIZATION,
    header::COOKIE,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::SET_COOKIE,
    header::WWW_AUTHENTICATE,
    HeaderName::from_static("authentication-control"),
    HeaderName::from_static("authentication-info"),
    HeaderName::from_static("dpop"),
    HeaderName::from_static("dpop-nonce"),
    HeaderName::from_static("proxy-authentication-info"),
    HeaderName::from_static("set-cookie2"),
    HeaderName::from_static("x-access-token"),
    HeaderName::from_static("x-amz-security-token"),
    HeaderName::from_static("x-api-key"),
    HeaderName::from_static("x-auth-token"),
    HeaderName::from_static("x-csrf-token"),
    HeaderName::from_static("x-refresh-token"),
    HeaderName::from_static("x-session-token"),
    HeaderName::from_static("x-xsrf-token"),
    // What the receiver's browser is to forget.
    HeaderName::from_static("clear-site-data"),
    // Message origination: a replay has its own time (RFC 9110, section 6.6.1).
    header::AGE,
    header::DATE,
    // Framing, written anew for every message.
    header::CONTENT_LENGTH,
    header::TRAILER,
    // Traces and timings of the first exchange.
    HeaderName::from_static("b3"),
    HeaderName::from_static("baggage"),
    HeaderName::from_static("server-timing"),
    HeaderName::from_static("traceparent"),
    HeaderName::from_static("traceresponse"),
    HeaderName::from_static("tracestate"),
    HeaderName::from_static("x-amzn-trace-id"),
    HeaderName::from_static("x-cloud-trace-context"),
    HeaderName::from_static("x-request-id"),
    // Ours, set at every answer.
    IDEMPOTENT_REPLAYED,
    IDEMPOTENCY_EXPIRES,
];

/// Families of [`NEVER`]: rate limits, traces, and what one page was granted.
const NEVER_PREFIXES: [&str; 6] =
    ["access-control-", "ratelimit", "x-ratelimit", "x-rate-limit", "x-b3-", "x-datadog-"];

/// The fields of an answer that a replay repeats: a raw multimap, keeping repeats, order and bytes.
///
/// Kept are the fields that describe the outcome, and `extras` of the operation; never those of
/// [`never_replayed`], even if listed.
pub(in crate::http) fn storable(headers: &HeaderMap, extras: &[HeaderName]) -> Vec<(Bytes, Bytes)> {
    headers
        .iter()
        .filter_map(|(name, value)| {
            let name = match KEPT.iter().find(|(kept, _)| kept == name) {
                Some((_, name)) => Bytes::from_static(name.as_bytes()),
                None if !extras.contains(name) || never_replayed(name) => return None,
                None => Bytes::copy_from_slice(name.as_str().as_bytes()),
            };
            Some((name, Bytes::copy_from_slice(value.as_bytes())))
        })
        .collect()
}

/// Whether a field must not be replayed: credentials and cookies, the time and the rate limits of
/// one exchange, traces, what belongs to a connection, and fields of our own.
///
/// Configuration refuses these as extras, with this function.
pub fn never_replayed(name: &HeaderName) -> bool {
    NEVER.contains(name)
        || HOP_BY_HOP.contains(name)
        || is_ours(name)
        || NEVER_PREFIXES.iter().any(|prefix| name.as_str().starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_describes_the_outcome_has_its_name_and_may_be_replayed() {
        for (name, text) in KEPT {
            assert_eq!(name.as_str(), text);
            assert!(!never_replayed(&name), "{name}");
        }
    }
}
