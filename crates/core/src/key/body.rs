//! A key that is a member of the request's body.

use std::borrow::Cow;

use thiserror::Error;

use super::{Key, KeyError, KeyPolicy};
use crate::{
    BodyForm, BodyInvalid, Json, Pointer,
    fingerprint::{MediaType, check_charset},
    form, multipart,
};

/// Why no key can be read from a body: it is refused, since it may hold one.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum BodyKeyError {
    /// The body is not what its media type says.
    #[error(transparent)]
    Body(BodyInvalid),
    /// What is at the place is no acceptable key.
    #[error(transparent)]
    Key(KeyError),
}

impl Key {
    /// The key at a place in a body whose content codings are removed; `None` when nothing is there.
    ///
    /// In JSON it is a string, or a whole number of at most 21 digits, which stands for its digits;
    /// in a form or a multipart body the field or part that is named by a pointer of one token. A
    /// body of another media type has no key. `form` is how the operation's rules have the body
    /// compared, where they name it.
    ///
    /// The floors of the policy apply; whether it looks like a secret or like personal data does
    /// not matter, because it is in the body anyway, which is neither logged nor stored.
    ///
    /// # Errors
    /// [`BodyKeyError`]; none of them is cured by sending the same body again.
    pub fn from_body(
        content: &[u8],
        media_type: Option<&[u8]>,
        form: Option<BodyForm>,
        place: &Pointer,
        policy: &KeyPolicy,
    ) -> Result<Option<Self>, BodyKeyError> {
        let media_type = media_type.map(MediaType::read);
        let form = read_as(media_type.as_ref(), form);
        let invalid = BodyKeyError::Body;
        if content.is_empty() || matches!(form, BodyForm::Raw | BodyForm::None) {
            return Ok(None);
        }
        if form != BodyForm::Multipart {
            // In another charset other bytes would be the name, and the key.
            check_charset(media_type.as_ref()).map_err(|fault| {
                invalid(if form == BodyForm::Form { BodyInvalid::FormCharset } else { fault })
            })?;
        }
        let found: Option<Cow<'_, [u8]>> = match form {
            BodyForm::Json | BodyForm::Jcs => {
                let body = Json::parse(content).map_err(|it| invalid(BodyInvalid::Json(it)))?;
                match body.get(place) {
                    None => None,
                    Some(Json::String(text)) => Some(Cow::Owned(text.as_bytes().to_vec())),
                    Some(Json::Number(number)) => {
                        let whole =
                            number.as_whole().ok_or(BodyKeyError::Key(KeyError::NotText))?;
                        Some(Cow::Owned(whole.as_bytes().to_vec()))
                    }
                    Some(_) => return Err(BodyKeyError::Key(KeyError::NotText)),
                }
            }
            _ => {
                let Some(name) = place.only_token() else { return Ok(None) };
                if form == BodyForm::Multipart {
                    let boundary = media_type.as_ref().and_then(MediaType::boundary);
                    let values = multipart::values(content, boundary.as_deref(), name);
                    let values = values.map_err(|it| invalid(BodyInvalid::Multipart(it)))?;
                    only(values.into_iter().map(Cow::Borrowed))?
                } else {
                    let values = form::values(content, name);
                    let values = values.ok_or(invalid(BodyInvalid::FormSeparator))?;
                    only(values.into_iter().map(Cow::Owned))?
                }
            }
        };
        let Some(found) = found else { return Ok(None) };
        policy.check_floors(&found).map_err(BodyKeyError::Key)?;
        Self::from_bytes(&found).map(Some).map_err(BodyKeyError::Key)
    }

    /// How much memory [`from_body`](Self::from_body) takes at the most, in bytes: see
    /// [`BodyForm::reading_cost`].
    pub fn from_body_cost(
        content: &[u8],
        media_type: Option<&[u8]>,
        form: Option<BodyForm>,
    ) -> usize {
        read_as(media_type.map(MediaType::read).as_ref(), form).reading_cost(content)
    }
}

/// As what a key is looked for in a body.
fn read_as(media_type: Option<&MediaType<'_>>, form: Option<BodyForm>) -> BodyForm {
    match form {
        None | Some(BodyForm::Raw | BodyForm::None) => {
            media_type.map_or(BodyForm::Raw, MediaType::natural_form)
        }
        Some(form) => form,
    }
}

/// The one value that there is.
fn only<'b>(
    mut values: impl Iterator<Item = Cow<'b, [u8]>>,
) -> Result<Option<Cow<'b, [u8]>>, BodyKeyError> {
    match (values.next(), values.next()) {
        (Some(_), Some(_)) => Err(BodyKeyError::Key(KeyError::SeveralFields)),
        (value, _) => Ok(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANY: KeyPolicy = KeyPolicy::NO_FLOOR;
    const JSON: &str = "application/json";
    const FORM: &str = "application/x-www-form-urlencoded";

    fn read(media_type: &str, body: &str, place: &str) -> Result<Option<String>, BodyKeyError> {
        let place = Pointer::parse(place).unwrap();
        let key = Key::from_body(body.as_bytes(), Some(media_type.as_bytes()), None, &place, &ANY)?;
        Ok(key.map(|key| String::from_utf8_lossy(key.as_bytes()).into_owned()))
    }

    fn found(media_type: &str, body: &str, place: &str) -> Option<String> {
        read(media_type, body, place).unwrap_or_else(|error| panic!("{body}: {error}"))
    }

    #[test]
    fn a_string_or_a_whole_number_at_the_place_is_the_key() {
        for (body, place, key) in [
            (r#"{"id":"r-1"}"#, "/id", "r-1"),
            (r#"{"id":"\u0072-1"}"#, "/id", "r-1"),
            (r#"{"id":42}"#, "/id", "42"),
            (r#"{"id":-42.0}"#, "/id", "-42"),
            (r#"{"id":9007199254740993}"#, "/id", "9007199254740993"),
            (r#"{"a":[{"id":"x"}]}"#, "/a/0/id", "x"),
            (r#""x""#, "", "x"),
        ] {
            assert_eq!(found(JSON, body, place).as_deref(), Some(key), "{body}");
        }
        for (body, place) in [("{}", "/id"), ("", "/id"), (r#"{"a":{}}"#, "/a/id"), ("[]", "/0")] {
            assert_eq!(found(JSON, body, place), None, "{body}");
        }
    }

    #[test]
    fn what_is_there_and_no_text_is_refused() {
        for body in ["null", "true", "[]", "{}", "1.5", "1e30"] {
            let body = format!(r#"{{"id":{body}}}"#);
            assert_eq!(read(JSON, &body, "/id"), Err(BodyKeyError::Key(KeyError::NotText)));
        }
        let empty = read(JSON, r#"{"id":""}"#, "/id");
        assert_eq!(empty, Err(BodyKeyError::Key(KeyError::Empty)));
        let long = format!(r#"{{"id":"{}"}}"#, "x".repeat(256));
        let too_long = Err(BodyKeyError::Key(KeyError::TooLong { length: 256 }));
        assert_eq!(read(JSON, &long, "/id"), too_long);
        for twice in ["id=1&id=1", "id=1&%69d=2"] {
            assert_eq!(read(FORM, twice, "/id"), Err(BodyKeyError::Key(KeyError::SeveralFields)));
        }
    }

    #[test]
    fn a_form_has_it_in_a_field_and_multipart_in_a_part() {
        assert_eq!(found(FORM, "a=1&i%64=x%20y+z", "/id").as_deref(), Some("x y z"));
        assert_eq!(found(FORM, "id=%zz%25", "/id").as_deref(), Some("%zz%"));
        assert_eq!(found(FORM, "a=1", "/id"), None);
        assert_eq!(found(FORM, "id=1", "/id/0"), None);
        let multipart =
            "--b\r\nContent-Disposition: form-data; name=\"id\"\r\n\r\nx-1\r\n--b--\r\n";
        let media_type = "multipart/form-data; boundary=b";
        assert_eq!(found(media_type, multipart, "/id").as_deref(), Some("x-1"));
        assert_eq!(found(media_type, multipart, "/other"), None);
    }

    #[test]
    fn what_may_hold_a_key_and_cannot_be_read_is_refused_and_what_cannot_has_none() {
        let invalid = |media_type: &str, body: &str| {
            matches!(read(media_type, body, "/id"), Err(BodyKeyError::Body(_)))
        };
        assert!(invalid(JSON, "{"));
        assert!(invalid(JSON, r#"{"id":1,"id":2}"#));
        assert!(invalid("application/json; charset=utf-16", r#"{"id":"x"}"#));
        assert!(invalid("application/x-www-form-urlencoded; charset=utf-16", "id=x"));
        assert!(invalid("multipart/form-data", "--b--"));
        assert!(invalid(FORM, "a=1;id=pay-1"));
        for unclear in ["name*=utf-8''id", "name=\"id\"; filename=a b.txt", "name=id; name=id"] {
            let part =
                format!("--b\r\nContent-Disposition: form-data; {unclear}\r\n\r\nx\r\n--b--");
            assert!(invalid("multipart/form-data; boundary=b", &part), "{unclear}");
        }
        assert_eq!(found("text/plain", "id=x", "/id"), None);
        let named = Key::from_body(
            br#"{"id":"x"}"#,
            None,
            Some(BodyForm::Json),
            &Pointer::parse("/id").unwrap(),
            &ANY,
        );
        assert!(named.is_ok_and(|key| key.is_some()), "the rules say what it is");
    }

    #[test]
    fn the_refusal_of_another_charset_says_of_what() {
        let charset = |media_type, body| match read(media_type, body, "/id") {
            Err(error) => error.to_string(),
            Ok(key) => panic!("{body}: {key:?}"),
        };
        let form = charset("application/x-www-form-urlencoded; charset=latin1", "id=x");
        assert!(form.contains("form") && !form.contains("JSON"), "{form}");
        let json = charset("application/json; charset=latin1", r#"{"id":"x"}"#);
        assert!(json.contains("JSON"), "{json}");
    }

    #[test]
    fn floors_apply_where_there_are_some() {
        let place = Pointer::parse("/id").unwrap();
        let default = KeyPolicy::default();
        let read = |body: &str| {
            Key::from_body(body.as_bytes(), Some(b"application/json"), None, &place, &default)
        };
        let short = KeyError::TooShort { length: 2, min_length: 16 };
        assert_eq!(read(r#"{"id":"42"}"#), Err(BodyKeyError::Key(short)));
        assert!(read(r#"{"id":"8e03978e-40d5-43dd-bc93-6894a57f9324"}"#).is_ok());
    }
}
