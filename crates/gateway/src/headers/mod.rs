//! Which header fields travel, and which end here.
//!
//! A gateway terminates one connection and opens another, so the fields that speak of a connection
//! end at it (RFC 9110, section 7.6.1). Fields of our own end at it too: what a client or a service
//! writes into them must never be taken for what we wrote.

mod replay;

use http::header::{
    self, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, EXPECT, HOST, TE, TRANSFER_ENCODING,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version, request};
use thiserror::Error;

pub use self::replay::{never_replayed, storable};

/// The key of a client, and the effect id that the service gets in its place.
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Marks a replayed answer: `Idempotent-Replayed: true`.
pub const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// Until when a retry with this key is answered from the record.
pub const IDEMPOTENCY_EXPIRES: HeaderName = HeaderName::from_static("idempotency-expires");

/// Every field that starts like this is ours.
const OURS: &str = "hapax-";

/// Fields of a connection, whether `Connection` names them or not (RFC 9110, section 7.6.1).
const HOP_BY_HOP: [HeaderName; 6] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    TE,
    TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Why a request cannot be passed on, whatever its route.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum RequestFault {
    /// A tunnel was asked for; the gateway passes on requests only.
    #[error("CONNECT is not served here; send the request itself")]
    Connect,
    /// More than one `Host`, or none where HTTP/1.1 demands one (RFC 9112, section 3.2).
    #[error("the request needs exactly one Host field")]
    Host,
    /// The target is neither a path nor a URL with one (RFC 9112, section 3.2); only OPTIONS asks
    /// for `*`.
    #[error("the request's target has no path; write it with one, as in /v1/payments")]
    Target,
    /// A transfer coding other than `chunked` (RFC 9112, section 6.1).
    #[error("the transfer coding is not supported; send the body chunked or with its length")]
    TransferCoding,
}

impl RequestFault {
    /// The status to refuse with: 400 for what is malformed, 501 for what is not served.
    pub fn status(self) -> StatusCode {
        match self {
            Self::Host | Self::Target => StatusCode::BAD_REQUEST,
            Self::Connect | Self::TransferCoding => StatusCode::NOT_IMPLEMENTED,
        }
    }
}

/// Checks what every request must fulfil before anything is done for it.
///
/// # Errors
/// [`RequestFault`]; nothing was read, claimed or sent.
pub fn check_request(head: &request::Parts) -> Result<(), RequestFault> {
    if head.method == Method::CONNECT {
        return Err(RequestFault::Connect);
    }
    let asks_for_all = head.method == Method::OPTIONS && head.uri.path() == "*";
    if !head.uri.path().starts_with('/') && !asks_for_all {
        return Err(RequestFault::Target);
    }
    if has_foreign_transfer_coding(&head.headers) {
        return Err(RequestFault::TransferCoding);
    }
    let hosts = head.headers.get_all(HOST).iter().count();
    let host_needed = head.version == Version::HTTP_11 && head.uri.authority().is_none();
    if hosts > 1 || (hosts == 0 && host_needed) {
        return Err(RequestFault::Host);
    }
    Ok(())
}

/// Takes from a request's head what ends at this hop, before it goes upstream.
///
/// Removes the fields of the client's connection and every field its `Connection` names, and
/// `Expect` (the gateway reads the body itself). `TE: trailers` is renewed for our own connection
/// (RFC 9110, section 10.1.4), and the `Cookie` lines that HTTP/2 may split become one again
/// (RFC 9113, section 8.2.3).
///
/// Call it before adding fields of our own: a client's `Connection: hapax-attempt` would remove
/// them.
pub fn to_upstream(headers: &mut HeaderMap, version: Version) {
    let wants_trailers = lists(headers, &TE, "trailers");
    remove_hop_by_hop(headers);
    headers.remove(EXPECT);
    if wants_trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
        headers.insert(CONNECTION, HeaderValue::from_static("te"));
    }
    if version == Version::HTTP_2 {
        join_cookies(headers);
    }
}

/// Takes from a response's head what ends at this hop, and makes its framing unambiguous.
///
/// A `Content-Length` beside `Transfer-Encoding` is dropped (RFC 9112, section 6.3): kept, it would
/// cut the body or smuggle its rest as the next answer. Repeated equal lengths become one
/// (RFC 9110, section 8.6), and a 204 keeps none.
pub(crate) fn from_upstream(headers: &mut HeaderMap, status: StatusCode) {
    let chunked = headers.contains_key(TRANSFER_ENCODING);
    if chunked || status == StatusCode::NO_CONTENT {
        headers.remove(CONTENT_LENGTH);
    } else if headers.contains_key(CONTENT_LENGTH) {
        match content_length(headers) {
            Some(length) => headers.insert(CONTENT_LENGTH, HeaderValue::from(length)),
            None => headers.remove(CONTENT_LENGTH),
        };
    }
    if !chunked {
        headers.remove(header::TRAILER);
    }
    remove_hop_by_hop(headers);
}

/// Removes every field that only we may set from a client's request, also where a `_` stands for a
/// `-`: many servers (CGI, WSGI, Rack, PHP) read both as one.
pub fn strip_ours_from_request(headers: &mut HeaderMap) {
    remove_ours(headers);
}

/// Removes every other field that a service which takes `_` for `-` may read as this one.
pub(crate) fn strip_look_alikes(headers: &mut HeaderMap, field: &HeaderName) {
    remove_where(headers, |name| name != field && is_read_as(name.as_str(), field.as_str()));
}

/// Whether `Connection` names this field: it then ends at this hop, and what was decided by it is
/// not what the service sees.
pub(crate) fn ends_here(headers: &HeaderMap, name: &HeaderName) -> bool {
    headers.contains_key(CONNECTION) && lists(headers, &CONNECTION, name.as_str())
}

/// The one value of a field: `None` where there is no line or more than one.
pub(crate) fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a HeaderValue> {
    let mut lines = headers.get_all(name).into_iter();
    lines.next().filter(|_| lines.next().is_none())
}

/// Removes every field that only we may set from a service's answer: `Hapax-*`,
/// `Idempotent-Replayed`, `Idempotency-Expires`. Read `Hapax-Outcome` before.
pub fn strip_ours_from_response(headers: &mut HeaderMap) {
    remove_ours(headers);
    headers.remove(IDEMPOTENT_REPLAYED);
    headers.remove(IDEMPOTENCY_EXPIRES);
}

/// Whether the content is a stream of server-sent events, which has no end to wait for.
pub fn is_event_stream(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(CONTENT_TYPE) else {
        return false;
    };
    let media_type = value.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default();
    media_type.trim_ascii().eq_ignore_ascii_case(b"text/event-stream")
}

/// Whether a transfer coding other than plain `chunked` is in use: its bytes would be passed on as
/// if they were the content.
pub(crate) fn has_foreign_transfer_coding(headers: &HeaderMap) -> bool {
    let mut codings = members(headers, &TRANSFER_ENCODING);
    match (codings.next(), codings.next()) {
        (None, _) => false,
        (Some(only), None) => !only.eq_ignore_ascii_case(b"chunked"),
        (Some(_), Some(_)) => true,
    }
}

/// Whether a list field has this member, in any case.
pub(crate) fn lists(headers: &HeaderMap, name: &HeaderName, member: &str) -> bool {
    members(headers, name).any(|found| found.eq_ignore_ascii_case(member.as_bytes()))
}

/// The members of a list field over all its lines, trimmed; empty ones are skipped (RFC 9110,
/// section 5.6.1).
pub(crate) fn members<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> impl Iterator<Item = &'a [u8]> + use<'a> {
    let lines = headers.get_all(name).into_iter();
    lines
        .flat_map(|line| line.as_bytes().split(|byte| *byte == b','))
        .map(<[u8]>::trim_ascii)
        .filter(|member| !member.is_empty())
}

/// The one length that all `Content-Length` lines agree on.
fn content_length(headers: &HeaderMap) -> Option<u64> {
    let mut lengths = members(headers, &CONTENT_LENGTH).map(|digits| {
        let plain = digits.iter().all(u8::is_ascii_digit);
        std::str::from_utf8(digits).ok().filter(|_| plain)?.parse::<u64>().ok()
    });
    let first = lengths.next()??;
    lengths.all(|length| length == Some(first)).then_some(first)
}

fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<_> = members(headers, &CONNECTION)
        .filter_map(|option| HeaderName::from_bytes(option).ok())
        // Not a connection's: without them the message means something else.
        .filter(|name| *name != HOST && *name != CONTENT_LENGTH)
        .collect();
    for name in named.iter().chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
}

fn remove_ours(headers: &mut HeaderMap) {
    remove_where(headers, is_ours);
}

fn remove_where(headers: &mut HeaderMap, which: impl Fn(&HeaderName) -> bool) {
    let found: Vec<_> = headers.keys().filter(|name| which(name)).cloned().collect();
    for name in found {
        headers.remove(name);
    }
}

fn is_ours(name: &HeaderName) -> bool {
    name.as_str().get(..OURS.len()).is_some_and(|start| is_read_as(start, OURS))
}

/// Whether a name is this one to a server that takes `_` for `-`.
fn is_read_as(name: &str, field: &str) -> bool {
    let dashed = name.bytes().map(|byte| if byte == b'_' { b'-' } else { byte });
    dashed.eq(field.bytes())
}

fn join_cookies(headers: &mut HeaderMap) {
    let crumbs: Vec<_> = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if crumbs.len() < 2 {
        return;
    }
    // Valid values joined by "; " are a valid value.
    if let Ok(joined) = HeaderValue::from_bytes(&crumbs.join(&b"; "[..])) {
        headers.insert(COOKIE, joined);
    }
}

#[cfg(test)]
mod tests;
