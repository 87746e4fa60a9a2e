//! 1. The key, before any other work.

use hapax_core::{Key, KeyPolicy, Problem, ProblemKind};
use http::{HeaderMap, HeaderName, HeaderValue};

/// The key in a request's field `header`; `None` where there is no such field.
///
/// # Errors
/// The problem `key-invalid` for a field that is there and is not exactly one acceptable key: it
/// is never ignored.
pub fn key(
    policy: &KeyPolicy,
    header: &HeaderName,
    headers: &HeaderMap,
) -> Result<Option<Key>, Problem> {
    let lines = headers.get_all(header).iter().map(HeaderValue::as_bytes);
    Key::from_field(lines, policy)
        .map_err(|error| Problem::new(ProblemKind::KeyInvalid, error.to_string()))
}

/// The problem of a request without a key where one is required.
pub fn key_missing() -> Problem {
    Problem::new(
        ProblemKind::KeyMissing,
        "This operation requires an Idempotency-Key: one fresh random value, such as a UUID, for \
         each intent, sent again unchanged with each of its retries.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_is_there_is_never_ignored() {
        let header = HeaderName::from_static("webhook-id");
        let read = |lines: &[&'static str]| {
            let mut headers = HeaderMap::new();
            headers.insert("idempotency-key", HeaderValue::from_static("another field"));
            for line in lines {
                headers.append(&header, HeaderValue::from_static(line));
            }
            let key = key(&KeyPolicy::default(), &header, &headers);
            key.map(|key| key.is_some()).map_err(|problem| problem.kind)
        };
        assert_eq!(read(&[]), Ok(false));
        assert_eq!(read(&["\"8e03978e-40d5-43dd-bc93-6894a57f9324\""]), Ok(true));
        let invalid = Err(ProblemKind::KeyInvalid);
        assert_eq!(read(&[""]), invalid);
        assert_eq!(read(&["short"]), invalid);
        let twice = ["8e03978e-40d5-43dd-bc93-6894a57f9324"; 2];
        assert_eq!(read(&twice), invalid);
    }
}
