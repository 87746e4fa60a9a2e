//! The body of an intent, in the form that it is compared in.

use thiserror::Error;

use super::{Algorithm, BodyForm, Charset, Components, FingerprintRules, MediaType};
use crate::{Json, JsonError, MultipartFault, form, multipart};

/// Why a body cannot be compared, or its key not be read. Never shows any of it.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum BodyInvalid {
    /// Not acceptable as JSON.
    #[error("the body cannot be read as JSON: {0}")]
    Json(JsonError),
    /// JSON in another charset than its only one (RFC 8259, section 8.1).
    #[error("JSON is UTF-8 and the Content-Type says otherwise; send it in UTF-8, without charset")]
    Charset,
    /// A form in another charset than the one that its key is read in.
    #[error(
        "the key of this operation is read from forms in UTF-8 and the Content-Type says otherwise; \
         send the form in UTF-8, without charset"
    )]
    FormCharset,
    /// A form that has another key for a service that divides it at `;` too.
    #[error(
        "a field of the form has a \";\", and for a service that divides fields there it is or has \
         the key; send it as %3B"
    )]
    FormSeparator,
    /// A number that RFC 8785 has no text for.
    #[error(
        "a number of the body is outside of the range of a double; send it as a string, in quotes"
    )]
    NumberRange,
    /// Not acceptable as multipart.
    #[error("the body cannot be read as multipart: {0}")]
    Multipart(MultipartFault),
}

/// Pushes a body whose content codings are removed.
pub(super) fn push(
    algorithm: Algorithm,
    rules: &FingerprintRules,
    form: BodyForm,
    media_type: Option<&MediaType<'_>>,
    content: &[u8],
    parts: &mut Components,
) -> Result<(), BodyInvalid> {
    let mut fault = Ok(());
    match form {
        // An empty body is an intent of its own, whatever its form.
        _ if content.is_empty() && form != BodyForm::None => parts.push(content),
        BodyForm::Json | BodyForm::Jcs => {
            let body = Json::parse(content).map_err(BodyInvalid::Json)?;
            parts.build(|out| {
                out.reserve(content.len());
                fault = canonical_json(rules, form, body, out);
            });
        }
        BodyForm::Form => parts.build(|out| form::canonical(content, algorithm.marked(), out)),
        BodyForm::Multipart => parts.build(|out| {
            let boundary = media_type.and_then(MediaType::boundary);
            let read = multipart::canonical(content, boundary.as_deref(), out);
            fault = read.map_err(BodyInvalid::Multipart);
        }),
        BodyForm::Raw => parts.push(content),
        BodyForm::None => {}
    }
    fault
}

/// How much memory [`push`] takes at the most, in bytes.
pub(super) fn cost(rules: &FingerprintRules, form: BodyForm, content: &[u8]) -> usize {
    let read = form.reading_cost(content);
    // To be sorted, each element is kept as its text too.
    if rules.unordered.is_empty() { read } else { read.saturating_mul(2) }
}

/// Refuses JSON in a charset that is not its own: a service that believes it reads other text.
pub(crate) fn check_charset(media_type: Option<&MediaType<'_>>) -> Result<(), BodyInvalid> {
    match media_type.map(MediaType::charset) {
        None | Some(Charset::Utf8) => Ok(()),
        Some(Charset::Other) => Err(BodyInvalid::Charset),
    }
}

/// Never empty, so that an empty body has a canonical form of its own.
fn canonical_json(
    rules: &FingerprintRules,
    form: BodyForm,
    mut body: Json<'_>,
    out: &mut Vec<u8>,
) -> Result<(), BodyInvalid> {
    for (place, value) in &rules.defaults {
        body.insert_absent(place, value);
    }
    if form == BodyForm::Jcs && !body.round_numbers() {
        return Err(BodyInvalid::NumberRange);
    }
    // From the last to the first, so that no removal moves an element that is still named.
    for place in rules.exclude.iter().rev() {
        body.remove(place);
    }
    // The inner before the outer, so that what is sorted is in its canonical form.
    for place in rules.unordered.iter().rev() {
        body.sort_array(place);
    }
    if rules.include.is_empty() {
        body.canonical(out);
        return Ok(());
    }
    // The places are in the version; only what is there needs telling. A separator that JSON
    // does not have unescaped tells an absent part from any value.
    for place in &rules.include {
        if let Some(part) = body.get(place) {
            part.canonical(out);
        }
        out.push(0);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Fingerprint, IntentParts, JsonFault, json::tests::json};

    fn by(rules: &str, media_type: &str, body: &[u8]) -> Result<Fingerprint, BodyInvalid> {
        let rules: FingerprintRules = serde_json::from_str(rules).expect(rules);
        rules.fingerprint(&IntentParts {
            operation: "payments.create",
            method: "POST",
            path: "/v1/payments",
            query: None,
            content_encoding: None,
            media_type: Some(media_type.as_bytes()),
            headers: &[],
            body,
            decoded: None,
        })
    }

    fn json_by(rules: &str, body: &str) -> Fingerprint {
        by(rules, "application/json", body.as_bytes()).unwrap_or_else(|e| panic!("{body}: {e}"))
    }

    #[test]
    fn json_is_utf_8_whatever_its_media_type_says() {
        for fine in [
            "application/json",
            "application/json; charset=utf-8",
            "application/json;charset=\"UTF8\"",
            "application/json; charset=utf-8; charset=UTF-8",
            "application/json; v",
        ] {
            assert!(by("{}", fine, b"{}").is_ok(), "{fine}");
        }
        for refused in [
            "application/json; charset=iso-8859-1",
            "application/json; charset=utf-16",
            "application/json; charset=utf-8; charset=utf-7",
            "application/json; charset=",
            "application/json; charset",
            "application/json; v; Charset=utf-16",
            "application/json; charset=utf-16 x",
        ] {
            assert_eq!(by("{}", refused, b"{}"), Err(BodyInvalid::Charset), "{refused}");
        }
        let mark = by("{}", "application/json", b"\xef\xbb\xbf{}");
        let why = JsonFault::ByteOrderMark;
        assert_eq!(mark, Err(BodyInvalid::Json(JsonError { at: 0, why })));
        assert!(by("{}", "text/plain; charset=iso-8859-1", b"\xe9").is_ok());
    }

    #[test]
    fn under_jcs_numbers_are_doubles_and_under_json_exact() {
        const JCS: &str = r#"{"body":"jcs"}"#;
        for (a, b) in [("9007199254740993", "9007199254740992"), ("0.1", "0.1000000000000000001")] {
            assert_eq!(json_by(JCS, a), json_by(JCS, b));
            assert_ne!(json_by("{}", a), json_by("{}", b));
        }
        assert_ne!(json_by(JCS, "1"), json_by(JCS, "1.0000000000000002"));
        assert_ne!(json_by(JCS, "1"), json_by(r#"{"body":"json"}"#, "1"));
        for refused in ["1e309", "[-1e400]", r#"{"a":{"b":1e-400}}"#] {
            let body = by(JCS, "application/json", refused.as_bytes());
            assert_eq!(body, Err(BodyInvalid::NumberRange), "{refused}");
        }
        assert!(by(JCS, "application/json", b"[0e-999,1.7976931348623157e308,5e-324]").is_ok());
    }

    #[test]
    fn a_declared_array_has_no_order_and_its_repetitions_count() {
        const RULES: &str = r#"{"unordered":["/items","/to/tags"],"exclude":["/at"]}"#;
        let of = |body: &str| json_by(RULES, body);
        for (a, b) in [
            (r#"{"items":[1,2,2]}"#, r#"{"items":[2,1,2]}"#),
            (r#"{"items":[{"a":1,"b":2},"x"]}"#, r#"{"items":["x",{"b":2.0,"a":1}]}"#),
            (r#"{"to":{"tags":["b","a"]},"at":1}"#, r#"{"to":{"tags":["a","b"]},"at":2}"#),
            (r#"{"items":{"z":1}}"#, r#"{"items":{"z":1}}"#),
        ] {
            assert_eq!(of(a), of(b), "{a} and {b}");
        }
        for (a, b) in [
            (r#"{"items":[1,2,2]}"#, r#"{"items":[1,1,2]}"#),
            (r#"{"items":[1,2,2]}"#, r#"{"items":[1,2]}"#),
            (r#"{"items":[[1,2]]}"#, r#"{"items":[[2,1]]}"#),
            (r#"{"others":[1,2]}"#, r#"{"others":[2,1]}"#),
            (r#"{"items":[12]}"#, r#"{"items":[1,2]}"#),
            (r#"{"items":[]}"#, r#"{}"#),
        ] {
            assert_ne!(of(a), of(b), "{a} and {b}");
        }
        let whole = r#"{"unordered":[""]}"#;
        assert_eq!(json_by(whole, "[1,2]"), json_by(whole, "[2,1]"));
    }

    #[test]
    fn defaults_apply_before_arrays_are_sorted_and_doubles_made() {
        let rules = r#"{"body":"jcs","defaults":{"/n":{"$number":"1.00000000000000000001"}}}"#;
        assert_eq!(json_by(rules, "{}"), json_by(rules, r#"{"n":1}"#));
        let rules = r#"{"defaults":{"/tags":["b","a"]},"unordered":["/tags"]}"#;
        assert_eq!(json_by(rules, "{}"), json_by(rules, r#"{"tags":["a","b"]}"#));
    }

    proptest! {
        /// Two arrays are one intent exactly if their elements are the same, each as often.
        #[test]
        fn unordered_arrays_are_multisets(
            a in proptest::collection::vec(json(), 0..4),
            b in proptest::collection::vec(json(), 0..4),
            turn in 0_usize..4,
        ) {
            let text = |items: &[Json<'_>]| {
                let mut text = Vec::new();
                Json::Array(items.to_vec()).canonical(&mut text);
                String::from_utf8(text).expect("UTF-8")
            };
            let of = |items: &[Json<'_>]| json_by(r#"{"unordered":[""]}"#, &text(items));
            let mut turned = a.clone();
            turned.rotate_left(turn % a.len().max(1));
            prop_assert_eq!(of(&a), of(&turned));
            let mut left = b.clone();
            let same = a.len() == b.len() && a.iter().all(|item| {
                let at = left.iter().position(|other| other == item);
                at.map(|at| left.remove(at)).is_some()
            });
            prop_assert_eq!(of(&a) == of(&b), same);
        }

        /// Under `jcs` two values are one intent exactly if they are when their numbers are doubles.
        #[test]
        fn strict_values_differ_exactly_as_doubles_do(a in json(), b in json()) {
            let rounded = |value: &Json<'_>| {
                let mut value = value.clone().into_owned();
                value.round_numbers().then_some(value)
            };
            let of = |value: &Json<'_>| {
                let mut text = Vec::new();
                value.canonical(&mut text);
                by(r#"{"body":"jcs"}"#, "application/json", &text).ok()
            };
            let (digests, doubles) = ((of(&a), of(&b)), (rounded(&a), rounded(&b)));
            prop_assert_eq!(digests.0.is_some(), doubles.0.is_some());
            if doubles.0.is_some() && doubles.1.is_some() {
                prop_assert_eq!(digests.0 == digests.1, doubles.0 == doubles.1);
            }
        }
    }
}
