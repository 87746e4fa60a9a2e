//! Keyed requests that hapax cannot make take effect once, refused before anything is read or
//! claimed.

use bytes::Bytes;
use hapax_core::{Problem, ProblemKind};
use http::{
    HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header::CONTENT_TYPE, request::Parts,
};

use crate::{answer_body::AnswerBody, shared::Route, tunnel};

/// Set by a proxy before us that took the request from early data (RFC 8470, section 5.1).
const EARLY_DATA: HeaderName = HeaderName::from_static("early-data");

/// The status codes of gRPC: not implemented here, whatever the service does.
const GRPC_UNIMPLEMENTED: HeaderValue = HeaderValue::from_static("12");

const GRPC_MESSAGE: HeaderValue = HeaderValue::from_static(
    "hapax does not protect gRPC calls: send this one without an Idempotency-Key, or make the \
     operation unprotected and the method idempotent",
);

/// Why a request is refused.
#[derive(Debug, PartialEq)]
pub(crate) enum Unsuited {
    /// As any other.
    Problem(Problem),
    /// As gRPC does.
    Grpc(HeaderValue),
}

/// Whether a request of this operation is refused for what it is. One without a key passes where
/// the operation requires none.
pub(crate) fn check(route: &Route, head: &Parts) -> Option<Unsuited> {
    // A key in the body is not known yet, and may be there.
    let key = route.fields.key.header();
    let is_keyed = key.is_none_or(|key| head.headers.contains_key(key));
    if !is_keyed && !route.operation.policy().key.required {
        return None;
    }
    if let Some(content_type) = grpc(&head.headers) {
        return Some(Unsuited::Grpc(content_type.clone()));
    }
    problem(head).map(Unsuited::Problem)
}

fn problem(head: &Parts) -> Option<Problem> {
    if tunnel::asked(head).is_some() {
        let detail = "A request that takes effect once cannot turn its connection into a tunnel. \
                      Send it without Upgrade.";
        return Some(Problem::new(ProblemKind::UpgradeRefused, detail));
    }
    if !head.method.is_safe() && head.headers.contains_key(EARLY_DATA) {
        let detail = "The request came as early data, which anybody who recorded it can send \
                      again. Send it once the handshake is complete.";
        return Some(Problem::new(ProblemKind::EarlyData, detail));
    }
    None
}

/// The content type of a gRPC call.
fn grpc(headers: &HeaderMap) -> Option<&HeaderValue> {
    const START: &[u8] = b"application/grpc";
    let value = headers.get(CONTENT_TYPE)?;
    let start = value.as_bytes().get(..START.len())?;
    let next = value.as_bytes().get(START.len());
    let ends = next.is_none_or(|byte| matches!(byte, b'+' | b';' | b'-' | b' '));
    (start.eq_ignore_ascii_case(START) && ends).then_some(value)
}

/// The answer that gRPC clients understand: 200, and the status of the call in the head, which is
/// all there is ("Trailers-Only").
pub(crate) fn refuse_grpc(content_type: HeaderValue) -> Response<AnswerBody> {
    let mut response = Response::new(AnswerBody::from(Bytes::new()));
    *response.status_mut() = StatusCode::OK;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, content_type);
    headers.insert(HeaderName::from_static("grpc-status"), GRPC_UNIMPLEMENTED);
    headers.insert(HeaderName::from_static("grpc-message"), GRPC_MESSAGE);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grpc_call_is_known_by_its_content_type() {
        for (content_type, expected) in [
            ("application/grpc", true),
            ("application/grpc+proto", true),
            ("application/grpc-web+proto", true),
            ("Application/gRPC; x=y", true),
            ("application/grpcx", false),
            ("application/json", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
            assert_eq!(grpc(&headers).is_some(), expected, "{content_type}");
        }
    }
}
