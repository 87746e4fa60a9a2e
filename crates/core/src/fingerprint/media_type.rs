//! The media type of a body (RFC 9110, section 8.3.1).

use std::borrow::Cow;

use super::{BodyForm, push_sized};

/// A `Content-Type` value taken apart.
pub(super) struct MediaType<'a> {
    /// Type and subtype in lower case.
    essence: Cow<'a, [u8]>,
    /// From the first `;` on, as sent.
    parameters: &'a [u8],
}

impl<'a> MediaType<'a> {
    /// Any value has a reading; one that is no media type is compared as it is.
    pub(super) fn read(value: &'a [u8]) -> Self {
        let end = value.iter().position(|&byte| byte == b';').unwrap_or(value.len());
        let (essence, parameters) = value.split_at_checked(end).unwrap_or_default();
        let essence = essence.trim_ascii();
        let essence = match essence.iter().any(u8::is_ascii_uppercase) {
            true => Cow::Owned(essence.to_ascii_lowercase()),
            false => Cow::Borrowed(essence),
        };
        Self { essence, parameters }
    }

    /// How a body of this type is compared unless the rules say otherwise.
    pub(super) fn natural_form(&self) -> BodyForm {
        match &*self.essence {
            b"application/x-www-form-urlencoded" => BodyForm::Form,
            json if json.ends_with(b"/json") || json.ends_with(b"+json") => BodyForm::Json,
            _ => BodyForm::Raw,
        }
    }

    /// Appends essence and parameters. `charset=utf-8` is left out where it says nothing: it is the
    /// charset of JSON and forms anyway. Elsewhere servers have defaults of their own, and another
    /// charset gives the same bytes another meaning.
    pub(super) fn canonical(&self, out: &mut Vec<u8>) {
        push_sized(&self.essence, out);
        let start = out.len();
        let always_utf8 = self.natural_form() != BodyForm::Raw;
        let mut rest = self.parameters.trim_ascii();
        while !rest.is_empty() {
            let Some(Parameter { name, value, behind }) = Parameter::read(rest) else {
                // No parameters by the grammar: as they are, behind a tag of their own.
                out.truncate(start);
                out.push(2);
                return push_sized(self.parameters, out);
            };
            let says_nothing = always_utf8
                && name.eq_ignore_ascii_case(b"charset")
                && value.eq_ignore_ascii_case(b"utf-8");
            if !name.is_empty() && !says_nothing {
                out.push(1);
                push_sized(&name.to_ascii_lowercase(), out);
                push_sized(&value, out);
            }
            rest = behind;
        }
    }
}

/// One parameter, and what is behind it.
struct Parameter<'a> {
    /// Empty between two semicolons, which RFC 9110 (section 5.6.6) allows.
    name: &'a [u8],
    value: Cow<'a, [u8]>,
    behind: &'a [u8],
}

impl<'a> Parameter<'a> {
    /// The first of `; name=value; …`.
    fn read(text: &'a [u8]) -> Option<Self> {
        let (name, rest) = token(text.strip_prefix(b";")?.trim_ascii_start());
        let (value, rest) = match rest {
            _ if name.is_empty() => (Cow::Borrowed(name), rest),
            [b'=', b'"', quoted @ ..] => {
                let (value, rest) = quoted_string(quoted)?;
                (Cow::Owned(value), rest)
            }
            [b'=', rest @ ..] => {
                let (value, rest) = token(rest);
                (Cow::Borrowed(value), rest)
            }
            _ => return None,
        };
        let behind = rest.trim_ascii_start();
        matches!(behind, [] | [b';', ..]).then_some(Self { name, value, behind })
    }
}

fn token(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text.iter().position(|&byte| !is_token(byte)).unwrap_or(text.len());
    text.split_at_checked(end).unwrap_or_default()
}

/// `tchar` of RFC 9110, section 5.6.2.
pub(super) fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// The value of a quoted string whose opening quote is gone, and what is behind the closing one.
fn quoted_string(mut text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut value = Vec::new();
    loop {
        text = match text {
            [b'"', behind @ ..] => return Some((value, behind)),
            [b'\\', byte, behind @ ..] | [byte, behind @ ..] => {
                value.push(*byte);
                behind
            }
            [] => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(value: &str) -> Vec<u8> {
        let mut out = Vec::new();
        MediaType::read(value.as_bytes()).canonical(&mut out);
        out
    }

    #[test]
    fn the_media_type_decides_the_form() {
        for (value, form) in [
            ("application/json", BodyForm::Json),
            ("Application/JSON ; charset=utf-8", BodyForm::Json),
            ("application/problem+json", BodyForm::Json),
            ("text/json", BodyForm::Json),
            ("application/x-www-form-urlencoded;charset=UTF-8", BodyForm::Form),
            ("application/jsonl", BodyForm::Raw),
            ("application/xml", BodyForm::Raw),
            ("multipart/form-data; boundary=json", BodyForm::Raw),
            ("json", BodyForm::Raw),
            ("", BodyForm::Raw),
        ] {
            assert_eq!(MediaType::read(value.as_bytes()).natural_form(), form, "{value}");
        }
    }

    #[test]
    fn spellings_of_one_media_type_are_one() {
        for value in [
            "application/json",
            " APPLICATION/json ",
            "application/json;",
            "application/json; charset=utf-8",
            "application/json;charset=UTF-8",
            "application/json ; Charset=\"Utf-8\" ; ",
            "application/json;;charset=utf-8",
        ] {
            assert_eq!(canonical(value), canonical("application/json"), "{value}");
        }
        assert_eq!(canonical("a/b;X=\"y\""), canonical("a/b; x=y"));
    }

    #[test]
    fn different_media_types_stay_different() {
        let values = [
            "a/b",
            "a/b2",
            "a/b; charset=iso-8859-1",
            "a/b; charset=utf-16",
            "a/b; charset=utf-8",
            "a/b; charset=utf-8; v=1",
            "a/b; v=2",
            "a/b; v=1; v=2",
            "a/b; v=2; v=1",
            "a/b; v=\"1; w=2\"",
            "a/b; v=1; w=2",
            "a/b; v",
            "a/b; =1",
            "a/b; v=\"1",
            "a/b; v=",
            "a/b; v=\"1\"2",
            "a/b; v=1 x",
            "a/b charset=utf-8",
            "",
        ];
        for (at, a) in values.iter().enumerate() {
            for b in values.iter().skip(at + 1) {
                assert_ne!(canonical(a), canonical(b), "{a} and {b}");
            }
        }
    }
}
