//! 1. The key, before any other work; where it is in the body, as soon as that is read.

use bytes::Bytes;
use hapax_core::{
    BodyForm, BodyKeyError, Key, KeyPolicy, OperationPolicy, Pointer, Problem, ProblemKind,
};
use http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{CONTENT_ENCODING, CONTENT_TYPE},
};

use super::{
    body::{BufferBudget, Content, DecodeError, ReadLimits, content, is_large, read_aside},
    field_names::KeyPlace,
};

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

/// The key at a place of a request's body; `None` where nothing is there, and where the media type
/// is one that has no such places.
///
/// # Errors
/// The problem `key-invalid` for a value that is there and no acceptable key, and `body-invalid`
/// for a body that cannot be read as what it is said to be: it may have a key, so it is never taken
/// for one without. `overloaded` where there is no room to read it.
pub async fn body_key(
    policy: &OperationPolicy,
    place: &Pointer,
    headers: &HeaderMap,
    content: Option<&Bytes>,
    budget: &BufferBudget,
) -> Result<Option<Key>, Problem> {
    let Some(content) = content else {
        return Err(Problem::new(
            ProblemKind::BodyInvalid,
            format!(
                "The key of this operation is in the body, whose {CONTENT_ENCODING} is not known \
                 here. Send it with gzip, deflate, br or zstd, or without."
            ),
        ));
    };
    let media_type = headers.get(CONTENT_TYPE);
    let (form, policy) = (policy.fingerprint.body, policy.key.policy);
    let key = match is_large(content.len()) {
        false => {
            let media_type = media_type.map(HeaderValue::as_bytes);
            Key::from_body(content, media_type, form, place, &policy)
        }
        true => {
            let what = (content.clone(), media_type.cloned(), place.clone());
            let key = read_aside(
                budget,
                what,
                move |(content, media_type, _)| {
                    let media_type = media_type.as_ref().map(HeaderValue::as_bytes);
                    Key::from_body_cost(content, media_type, form)
                },
                move |(content, media_type, place)| {
                    let media_type = media_type.as_ref().map(HeaderValue::as_bytes);
                    Key::from_body(content, media_type, form, place, &policy)
                },
            );
            Box::pin(key).await.map_err(|error| error.problem())?
        }
    };
    key.map_err(|error| {
        let kind = match &error {
            BodyKeyError::Key(_) => ProblemKind::KeyInvalid,
            _ => ProblemKind::BodyInvalid,
        };
        Problem::new(kind, error.to_string())
    })
}

/// The content of a request's body, as far as its operation needs it. Where neither its key nor its
/// intent is in there, the body stays coded if it is not what its coding says or too large: only a
/// record that was stored under other rules may be compared by it.
///
/// # Errors
/// [`DecodeError`]; nothing was claimed or sent.
pub async fn needed_content(
    policy: &OperationPolicy,
    place: &KeyPlace,
    headers: &HeaderMap,
    sent: &Bytes,
    limits: ReadLimits,
    budget: &BufferBudget,
) -> Result<Content, DecodeError> {
    let of_no_interest =
        policy.fingerprint.body == Some(BodyForm::None) && matches!(place, KeyPlace::Header(_));
    match content(headers, sent, limits, budget).await {
        Err(error) if of_no_interest && !error.is_passing() => Ok(Content::CODED),
        content => content,
    }
}

/// The problem of a request without a key where one is required.
pub fn key_missing(place: &KeyPlace) -> Problem {
    let what = match place {
        KeyPlace::Header(name) if *name == super::headers::IDEMPOTENCY_KEY => {
            "an Idempotency-Key".to_owned()
        }
        KeyPlace::Header(name) => format!("a key in the header {name}"),
        KeyPlace::Body(place) => format!("a key in its body, at {place}"),
    };
    let detail = format!(
        "This operation requires {what}: one fresh random value, such as a UUID, for each intent, \
         sent again unchanged with each of its retries."
    );
    Problem::new(ProblemKind::KeyMissing, detail)
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
