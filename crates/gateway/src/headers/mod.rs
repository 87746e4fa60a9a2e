//! Which header fields travel, and which end here.
//!
//! A gateway terminates one connection and opens another, so the fields that speak of a connection
//! end at it (RFC 9110, section 7.6.1). Fields of our own end at it too, by
//! [`hapax::http::headers`].

use hapax::http::headers::{HOP_BY_HOP, lists, members};
use http::header::{self, CONNECTION, CONTENT_LENGTH, COOKIE, EXPECT, HOST, TE, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version, request};
use thiserror::Error;

use crate::{config::host, server::Unclear};

/// Why a request cannot be passed on, whatever its route.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum RequestFault {
    /// A tunnel was asked for; the gateway passes on requests only.
    #[error("CONNECT is not served here; send the request itself")]
    Connect,
    /// A length and a transfer coding at once, of which two readers may believe different ones
    /// (RFC 9112, section 6.3), or lines that end in a bare LF.
    #[error(
        "it is not clear where the request ends; send either Content-Length or Transfer-Encoding, \
         and end every line with CR LF"
    )]
    Framing,
    /// A `Host` that is none, more than one, or none where HTTP/1.1 demands one (RFC 9112, section 3.2).
    #[error("the request needs exactly one Host field, with a host in it")]
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
            Self::Framing | Self::Host | Self::Target => StatusCode::BAD_REQUEST,
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
    if head.extensions.get::<Unclear>().is_some() {
        return Err(RequestFault::Framing);
    }
    let hosts = head.headers.get_all(HOST).iter().count();
    let host_needed = head.version == Version::HTTP_11 && head.uri.authority().is_none();
    let is_host = host::of_request(head).is_some();
    if hosts > 1 || (hosts == 0 && host_needed) || !is_host {
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
/// (RFC 9110, section 8.6), and a 204 keeps none. `http_2` says that it came over HTTP/2, where a
/// body without a length can have trailer fields.
pub(crate) fn from_upstream(headers: &mut HeaderMap, status: StatusCode, http_2: bool) {
    let chunked = headers.contains_key(TRANSFER_ENCODING);
    let may_have_trailers = chunked || (http_2 && !headers.contains_key(CONTENT_LENGTH));
    if chunked || status == StatusCode::NO_CONTENT {
        headers.remove(CONTENT_LENGTH);
    } else if headers.contains_key(CONTENT_LENGTH) {
        match content_length(headers) {
            Some(length) => headers.insert(CONTENT_LENGTH, HeaderValue::from(length)),
            None => headers.remove(CONTENT_LENGTH),
        };
    }
    if !may_have_trailers {
        headers.remove(header::TRAILER);
    }
    remove_hop_by_hop(headers);
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

/// The one length that all `Content-Length` lines agree on.
pub(crate) fn content_length(headers: &HeaderMap) -> Option<u64> {
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
