//! The media type of a body (RFC 9110, section 8.3.1).

use std::borrow::Cow;

use super::{BodyForm, push_sized};

/// A `Content-Type` value taken apart.
#[derive(Debug)]
pub(crate) struct MediaType<'a> {
    /// Type and subtype in lower case.
    essence: Cow<'a, [u8]>,
    /// From the first `;` on, as sent.
    parameters: &'a [u8],
}

impl<'a> MediaType<'a> {
    /// Any value has a reading; one that is no media type is compared as it is.
    pub(crate) fn read(value: &'a [u8]) -> Self {
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
    pub(crate) fn natural_form(&self) -> BodyForm {
        match &*self.essence {
            b"application/x-www-form-urlencoded" => BodyForm::Form,
            b"multipart/form-data" => BodyForm::Multipart,
            json if json.ends_with(b"/json") || json.ends_with(b"+json") => BodyForm::Json,
            _ => BodyForm::Raw,
        }
    }

    /// The charset that a body of text is said to be in.
    pub(crate) fn charset(&self) -> Charset {
        let Some(charsets) = self.values(b"charset") else {
            // What is no list of parameters is read by everybody in a way of his own.
            let text = self.parameters.to_ascii_lowercase();
            let named = memchr::memmem::find(&text, b"charset").is_some();
            return if named { Charset::Other } else { Charset::Utf8 };
        };
        let all_utf8 = charsets.iter().all(|charset| Charset::named(charset) == Charset::Utf8);
        if all_utf8 { Charset::Utf8 } else { Charset::Other }
    }

    /// The boundary between the parts of the body, if exactly one is given.
    pub(crate) fn boundary(&self) -> Option<Cow<'a, [u8]>> {
        self.only(b"boundary")
    }

    /// The value of a parameter, if it is there exactly once.
    pub(crate) fn only(&self, name: &[u8]) -> Option<Cow<'a, [u8]>> {
        let mut values = self.values(name)?.into_iter();
        values.next().filter(|_| values.next().is_none())
    }

    /// The value of a parameter as every reader has it, or that there is none. `None` where this is
    /// not all by the grammar, where it is there more than once or in another form (`name*`, RFC
    /// 8187, and `name*0`, RFC 2231), and where its value is an encoded word (RFC 2047).
    pub(crate) fn only_plain(&self, name: &[u8]) -> Option<Option<Cow<'a, [u8]>>> {
        if self.essence.is_empty() || !self.essence.iter().all(|&byte| is_token(byte)) {
            return None;
        }
        let mut found = None;
        for parameter in self.parameters() {
            let Parameter { name: other, value, .. } = parameter?;
            let (stem, extended) = match other.iter().position(|&byte| byte == b'*') {
                Some(at) => (other.get(..at).unwrap_or_default(), true),
                None => (other, false),
            };
            if !stem.eq_ignore_ascii_case(name) {
                continue;
            }
            if extended || found.is_some() || memchr::memmem::find(&value, b"=?").is_some() {
                return None;
            }
            found = Some(value);
        }
        Some(found)
    }

    /// `tchar` of RFC 9110, section 5.6.2.
    pub(crate) fn is_token(byte: u8) -> bool {
        is_token(byte)
    }

    /// Appends the essence and those parameters that are not to be left out, by their name in lower
    /// case and their value.
    pub(super) fn canonical(&self, out: &mut Vec<u8>, leave_out: impl Fn(&[u8], &[u8]) -> bool) {
        push_sized(&self.essence, out);
        let start = out.len();
        for parameter in self.parameters() {
            let Some(Parameter { name, value, .. }) = parameter else {
                // No parameters by the grammar: as they are, behind a tag of their own.
                out.truncate(start);
                out.push(2);
                return push_sized(self.parameters, out);
            };
            let name = name.to_ascii_lowercase();
            if !name.is_empty() && !leave_out(&name, &value) {
                out.push(1);
                push_sized(&name, out);
                push_sized(&value, out);
            }
        }
    }

    /// The values of a parameter; `None` when the parameters are none by the grammar.
    fn values(&self, name: &[u8]) -> Option<Vec<Cow<'a, [u8]>>> {
        let all: Option<Vec<_>> = self.parameters().collect();
        let of_name = all?.into_iter().filter(|it| it.name.eq_ignore_ascii_case(name));
        Some(of_name.map(|parameter| parameter.value).collect())
    }

    /// The parameters in order; `None` is the last, where they are none by the grammar.
    fn parameters(&self) -> impl Iterator<Item = Option<Parameter<'a>>> {
        let mut rest = Some(self.parameters.trim_ascii());
        std::iter::from_fn(move || {
            let text = rest.take().filter(|text| !text.is_empty())?;
            let parameter = Parameter::read(text);
            rest = parameter.as_ref().map(|parameter| parameter.behind);
            Some(parameter)
        })
    }
}

/// A charset, as far as bodies are compared by it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Charset {
    /// UTF-8, or nothing that says otherwise.
    Utf8,
    /// Another one, or several.
    Other,
}

impl Charset {
    /// `utf8` is no registered name, and what many clients send.
    pub(super) fn named(name: &[u8]) -> Self {
        match name.to_ascii_lowercase().as_slice() {
            b"utf-8" | b"utf8" => Self::Utf8,
            _ => Self::Other,
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
    use crate::fingerprint::Algorithm;

    fn canonical(value: &str) -> Vec<u8> {
        let mut out = Vec::new();
        let media_type = MediaType::read(value.as_bytes());
        let form = Algorithm::LATEST.form(None, Some(&media_type));
        Algorithm::LATEST.canonical_media_type(&media_type, form, &mut out);
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
            ("multipart/form-data; boundary=json", BodyForm::Multipart),
            ("multipart/mixed; boundary=json", BodyForm::Raw),
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
            "application/json; charset=utf8",
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
