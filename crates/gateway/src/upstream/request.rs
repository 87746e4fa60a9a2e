//! A request's head, as it is written to the upstream.

use http::header::{CONNECTION, CONTENT_LENGTH, HOST, TE, TRAILER, TRANSFER_ENCODING, UPGRADE};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderMap, HeaderValue, Method, Request, Uri, Version, request};

use super::body::Framing;
use super::{NeverSent, OutBody};

/// Puts target, `Host`, version and framing into the form this hop needs.
pub(super) fn prepare(
    request: Request<OutBody>,
    upstream: &str,
) -> Result<Request<OutBody>, NeverSent> {
    let (mut head, body) = request.into_parts();
    let target = origin_form(&head)?;
    set_host(&mut head, upstream);
    set_framing(&head.method, &mut head.headers, &body);
    head.uri = Uri::from(target);
    head.version = Version::HTTP_11;
    Ok(Request::from_parts(head, body))
}

/// Gives a prepared request the form of HTTP/2: the authority in the target, no field of a
/// connection (RFC 9113, sections 8.2.2 and 8.3.1).
pub(super) fn as_http_2(
    request: Request<OutBody>,
    scheme: Scheme,
    upstream: &str,
) -> Result<Request<OutBody>, NeverSent> {
    let (mut head, body) = request.into_parts();
    if head.version != Version::HTTP_2 {
        let host = head.headers.remove(HOST);
        let named = host.as_ref().map_or(&b""[..], HeaderValue::as_bytes);
        let authority = if named.is_empty() { upstream.as_bytes() } else { named };
        let mut target = Uri::default().into_parts();
        target.scheme = Some(scheme);
        target.authority = Some(Authority::try_from(authority).map_err(|_| NeverSent::Target)?);
        target.path_and_query = head.uri.path_and_query().cloned();
        head.uri = Uri::from_parts(target).map_err(|_| NeverSent::Target)?;
        head.version = Version::HTTP_2;
    }
    for name in [CONNECTION, TRANSFER_ENCODING, UPGRADE] {
        head.headers.remove(name);
    }
    Ok(Request::from_parts(head, body))
}

/// Gives a prepared request the form of HTTP/1.1.
pub(super) fn as_http_1(request: Request<OutBody>) -> Result<Request<OutBody>, NeverSent> {
    if request.version() != Version::HTTP_2 {
        return Ok(request);
    }
    let (mut head, body) = request.into_parts();
    set_host(&mut head, "");
    set_framing(&head.method, &mut head.headers, &body);
    if head.headers.contains_key(TE) {
        head.headers.insert(CONNECTION, HeaderValue::from_static("te"));
    }
    head.uri = Uri::from(origin_form(&head)?);
    head.version = Version::HTTP_11;
    Ok(Request::from_parts(head, body))
}

/// Path and query, byte for byte.
fn origin_form(head: &request::Parts) -> Result<PathAndQuery, NeverSent> {
    if head.method == Method::CONNECT {
        return Err(NeverSent::Target);
    }
    head.uri.path_and_query().cloned().ok_or(NeverSent::Target)
}

fn set_host(head: &mut request::Parts, upstream: &str) {
    let named = head.uri.authority().map(|authority| {
        let whole = authority.as_str();
        whole.rsplit_once('@').map_or(whole, |(_, host)| host)
    });
    let host = match named {
        Some(host) => host,
        None if head.headers.contains_key(HOST) => return,
        // An HTTP/1.0 client may not send one, and we must.
        None => upstream,
    };
    // An authority's characters are all allowed in a field value.
    if let Ok(host) = HeaderValue::from_str(host) {
        head.headers.insert(HOST, host);
    }
}

/// Writes the framing that the body really has: hyper believes these fields more than the body.
fn set_framing(method: &Method, headers: &mut HeaderMap, body: &OutBody) {
    let had_length = headers.remove(CONTENT_LENGTH).is_some();
    headers.remove(TRANSFER_ENCODING);
    match body.framing() {
        Framing::Length(0) => {
            headers.remove(TRAILER);
            // Where content is expected, its absence is said (RFC 9110, section 8.6).
            let expected = [Method::POST, Method::PUT, Method::PATCH].contains(method);
            if had_length || expected {
                headers.insert(CONTENT_LENGTH, HeaderValue::from(0));
            }
        }
        Framing::Length(length) => {
            headers.remove(TRAILER);
            headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
        }
        Framing::Chunked => {
            headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        }
    }
}
