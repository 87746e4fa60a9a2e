//! The media type of a body (RFC 9110, section 8.3.1).

use std::borrow::Cow;

use super::BodyForm;

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

    /// Appends essence and parameters, without `charset=utf-8`: the charset of JSON and forms
    /// anyway. Another charset gives the same bytes another meaning, so it stays.
    pub(super) fn canonical(&self, out: &mut Vec<u8>) {
        push_sized(&self.essence, out);
        let start = out.len();
        let mut rest = self.parameters.trim_ascii();
        while !rest.is_empty() {
            let Some((name, value, behind)) = parameter(rest) else {
                // No parameters by the grammar: as they are, behind a tag of their own.
                out.truncate(start);
                out.push(2);
                return push_sized(self.parameters, out);
            };
            let utf8 = name.eq_ignore_ascii_case(b"charset") && value.eq_ignore_ascii_case(b"utf-8");
            if !name.is_empty() && !utf8 {
                out.push(1);
                push_sized(&name.to_ascii_lowercase(), out);
                push_sized(&value, out);
            }
            rest = behind;
        }
    }
}

/// The first of `; name=value; …`, and what is behind it. The name is empty between two
/// semicolons, which RFC 9110 (section 5.6.6) allows.
fn parameter(text: &[u8]) -> Option<(&[u8], Cow<'_, [u8]>, &[u8])> {
    let text = text.strip_prefix(b";")?.trim_ascii_start();
    let (name, text) = token(text);
    if name.is_empty() {
        return ends(text).then_some((name, Cow::Borrowed(name), text));
    }
    let text = text.strip_prefix(b"=")?;
    let (value, text) = match text.strip_prefix(b"\"") {
        Some(quoted) => quoted_string(quoted).map(|(value, text)| (Cow::Owned(value), text))?,
        None => Some(token(text))
            .filter(|(value, _)| !value.is_empty())
            .map(|(value, text)| (Cow::Borrowed(value), text))?,
    };
    let text = text.trim_ascii_start();
    ends(text).then_some((name, value, text))
}

fn ends(text: &[u8]) -> bool {
    matches!(text, [] | [b';', ..])
}

fn token(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text.iter().position(|&byte| !is_token(byte)).unwrap_or(text.len());
    text.split_at_checked(end).unwrap_or_default()
}

/// `tchar` of RFC 9110, section 5.6.2.
pub(super) const fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_'
                | b'`' | b'|' | b'~'
        )
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

fn push_sized(part: &[u8], out: &mut Vec<u8>) {
    out.extend((part.len() as u64).to_be_bytes());
    out.extend_from_slice(part);
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
