//! `application/x-www-form-urlencoded` bodies (WHATWG URL Standard, section 5.1), on bytes.
//!
//! The canonical form merges what no server tells apart: the spelling of characters (`+`, `%20`)
//! and the order between fields of different names. It keeps what some server does tell apart,
//! because a false difference is the safe side:
//!
//! - `a` and `a=`, a field without a value and one with an empty value;
//! - a `%` that encodes nothing and an encoded one: `%zz` is not `%25zz`;
//! - bytes that are no UTF-8, which are not replaced by U+FFFD;
//! - a `;` that is encoded and one that is not, where some servers divide fields, and the order of
//!   all fields where there is such a one;
//! - the order of fields that a server may gather into one value: see [`gathered_name`].

use crate::{fingerprint::push_built, percent};

/// What is told apart from its encoded self.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Marked {
    /// Nothing: as a service that decodes gets it.
    Nothing,
    /// `%`: what the first algorithm tells apart.
    Percent,
    /// `%` and `;`.
    PercentAndSemicolon,
}

impl Marked {
    const fn has(self, byte: u8) -> bool {
        match self {
            Self::Nothing => false,
            Self::Percent => byte == b'%',
            Self::PercentAndSemicolon => matches!(byte, b'%' | b';'),
        }
    }
}

/// Appends the canonical form of a body. Every byte sequence has one, and bodies of different
/// meaning have different ones.
pub(crate) fn canonical(body: &[u8], marked: Marked, out: &mut Vec<u8>) {
    let mut fields = Vec::with_capacity(count(body));
    fields.extend(self::fields(body));
    // Between fields that are not the same to everybody, any order may count.
    if !(marked.has(b';') && body.contains(&b';')) {
        let name = |text| gathered_name(Decoded::new(name_and_value(text).0, marked));
        fields.sort_by(|a, b| name(a).cmp(name(b)));
    }
    // A marked byte is two.
    out.reserve(fields.len() * FIELD + 2 * body.len());
    let push = |text, out: &mut Vec<u8>| {
        push_built(out, |out| out.extend(Decoded::new(text, marked)));
    };
    for text in fields {
        let (name, value) = name_and_value(text);
        push(name, out);
        out.push(u8::from(value.is_some()));
        push(value.unwrap_or_default(), out);
    }
}

/// How many bytes the canonical form of a field has beside its name and value.
const FIELD: usize = 2 * size_of::<u64>() + 1;

/// How much memory [`canonical`] takes at the most, in bytes.
pub(crate) fn cost(body: &[u8]) -> usize {
    // The list of the fields, as much again to sort it, and what is written.
    let field = 2 * size_of::<&[u8]>() + FIELD;
    count(body).saturating_mul(field).saturating_add(body.len().saturating_mul(2)) + 1024
}

/// How many fields there are at the most.
fn count(body: &[u8]) -> usize {
    memchr::memchr_iter(b'&', body).count() + 1
}

/// The values of the fields of this name, in order, as a service that decodes them gets them: a `%`
/// that encodes nothing stays. `None` where there is another for a service that takes a `;` between
/// fields for a `&`.
pub(crate) fn values(body: &[u8], name: &str) -> Option<Vec<Vec<u8>>> {
    let is_it =
        |field: &[u8]| Decoded::new(name_and_value(field).0, Marked::Nothing).eq(name.bytes());
    let mut values = Vec::new();
    for field in fields(body) {
        if field.contains(&b';') && field.split(|&byte| byte == b';').any(is_it) {
            return None;
        }
        if is_it(field) {
            let value = name_and_value(field).1.unwrap_or_default();
            values.push(Decoded::new(value, Marked::Nothing).collect());
        }
    }
    Some(values)
}

fn fields(body: &[u8]) -> impl Iterator<Item = &[u8]> {
    body.split(|&byte| byte == b'&').filter(|text| !text.is_empty())
}

fn name_and_value(field: &[u8]) -> (&[u8], Option<&[u8]>) {
    let mut parts = field.splitn(2, |&byte| byte == b'=');
    (parts.next().unwrap_or_default(), parts.next())
}

/// What a name has to share with another for the order between them to matter.
///
/// Rails and PHP gather `items[][name]` and `items[][price]` into one list whose grouping depends
/// on the order across both names, PHP reads `a.b` as `a_b`, ASP.NET ignores case.
fn gathered_name(name: Decoded<'_>) -> impl Iterator<Item = u8> {
    name.take_while(|&byte| byte != b'[').map(|byte| match byte {
        b'.' | b' ' => b'_',
        _ => byte.to_ascii_lowercase(),
    })
}

/// The bytes of a name or value. A marked one is followed by a byte that says whether it was
/// encoded, so that the result still tells `%zz` from `%25zz`.
struct Decoded<'t> {
    text: &'t [u8],
    marked: Marked,
    mark: Option<u8>,
}

impl<'t> Decoded<'t> {
    const fn new(text: &'t [u8], marked: Marked) -> Self {
        Self { text, marked, mark: None }
    }
}

impl Iterator for Decoded<'_> {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        if let Some(mark) = self.mark.take() {
            return Some(mark);
        }
        let (byte, behind) = self.text.split_first()?;
        self.text = behind;
        let encoded = if *byte == b'%' { percent::decode_behind(behind) } else { None };
        let byte = match encoded {
            Some((decoded, rest)) => {
                self.text = rest;
                decoded
            }
            None if *byte == b'+' => return Some(b' '),
            None => *byte,
        };
        self.mark = self.marked.has(byte).then(|| u8::from(encoded.is_some()));
        Some(byte)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn form(body: &str) -> Vec<u8> {
        by(Marked::PercentAndSemicolon, body)
    }

    fn by(marked: Marked, body: &str) -> Vec<u8> {
        let mut out = Vec::new();
        canonical(body.as_bytes(), marked, &mut out);
        out
    }

    #[test]
    fn spellings_of_one_form_are_one() {
        for (a, b) in [
            ("a=1&b=2", "b=2&a=1"),
            ("a=x+y", "a=x%20y"),
            ("a=%c3%bc", "a=%C3%BC"),
            ("a=%41", "%61=A"),
            ("a=1&&b=2&", "a=1&b=2"),
            ("a=b=c", "a=b%3Dc"),
            ("a=1&b=2&a=3", "b=2&a=1&a=3"),
        ] {
            assert_eq!(form(a), form(b), "{a} and {b}");
        }
    }

    #[test]
    fn different_forms_stay_different() {
        for (a, b) in [
            ("a=1", "a=2"),
            ("a=1&a=2", "a=2&a=1"),
            ("a", "a="),
            ("a", ""),
            ("=", ""),
            ("a=%zz", "a=%25zz"),
            ("a=%%32%35", "a=%25"),
            ("a=%", "a=%25"),
            ("a=%ff", "a=%fe"),
            ("a=%ff", "a=%EF%BF%BD"),
            ("a=x+y", "a=x%2By"),
            ("a=1%26b=2", "a=1&b=2"),
            ("ab=c", "a=bc"),
            ("i[][n]=a&i[][q]=1&i[][n]=b", "i[][n]=a&i[][n]=b&i[][q]=1"),
            ("i%5B%5D[n]=a&i[][q]=1", "i[][q]=1&i[][n]=a"),
            ("a.b=1&a_b=2", "a_b=2&a.b=1"),
            ("a=1&A=2", "A=2&a=1"),
            ("to=a;amount=5", "to=a%3Bamount=5"),
            ("to=a;amount=5", "to=a%3bamount=5"),
            ("a;b=1", "a%3Bb=1"),
            ("x=1&a=2;x=3", "a=2;x=3&x=1"),
        ] {
            assert_ne!(form(a), form(b), "{a} and {b}");
        }
    }

    #[test]
    fn the_first_algorithm_reads_a_semicolon_as_it_did() {
        for (a, b) in [("a=1;b=2", "a=1%3Bb=2"), ("b=1;&a=2", "a=2&b=1;")] {
            assert_eq!(by(Marked::Percent, a), by(Marked::Percent, b), "{a} and {b}");
        }
        assert_ne!(by(Marked::Percent, "a=%zz"), by(Marked::Percent, "a=%25zz"));
    }

    #[test]
    fn the_values_of_a_field_are_those_of_every_reader() {
        let found = |body: &str| {
            let values = values(body.as_bytes(), "id")?;
            Some(
                values
                    .iter()
                    .map(|it| String::from_utf8_lossy(it).into_owned())
                    .collect::<Vec<_>>(),
            )
        };
        let some = |values: &[&str]| Some(values.iter().map(|&it| it.to_owned()).collect());
        for (body, values) in [
            ("a=1&i%64=x%20y", some(&["x y"])),
            ("id=%zz%25", some(&["%zz%"])),
            ("id=1&id=2", some(&["1", "2"])),
            ("id", some(&[""])),
            ("id=a%3Bb", some(&["a;b"])),
            ("a=1;b=2&id=3", some(&["3"])),
            ("a=1;b=2", some(&[])),
            ("a=1;id=2", None),
            ("a=1;i%64=2", None),
            ("id=1;b=2", None),
            ("id;b=2", None),
            ("a=1;id", None),
            ("a;id=2&b=3", None),
        ] {
            assert_eq!(found(body), values, "{body}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_have_a_form(body: Vec<u8>) {
            canonical(&body, Marked::Percent, &mut Vec::new());
            canonical(&body, Marked::PercentAndSemicolon, &mut Vec::new());
        }

        #[test]
        fn encoding_more_changes_nothing(text in "[a-z%&=+; ]{0,20}") {
            let encode = |text: &str| {
                text.bytes().map(|byte| format!("%{byte:02x}")).collect::<String>()
            };
            let plain = text.replace('%', "%25").replace('&', "%26").replace('+', "%2b");
            let plain = plain.replace(' ', "+").replace('=', "%3D").replace(';', "%3B");
            prop_assert_eq!(form(&format!("n={plain}")), form(&format!("n={}", encode(&text))));
        }

        #[test]
        fn different_raw_values_stay_different(a in "[%02345zF+]{0,8}", b in "[%02345zF+]{0,8}") {
            // The reference decodes to tokens: (was it an escape character, byte).
            fn tokens(text: &str) -> Vec<(bool, u8)> {
                let bytes = text.as_bytes();
                let (mut at, mut out) = (0, Vec::new());
                while at < bytes.len() {
                    let pair = text.get(at + 1..at + 3);
                    let pair = pair.and_then(|pair| u8::from_str_radix(pair, 16).ok());
                    match (bytes[at], pair) {
                        (b'%', Some(byte)) if !text[at + 1..].starts_with('+') => {
                            out.push((false, byte));
                            at += 2;
                        }
                        (b'%', _) => out.push((true, b'%')),
                        (b'+', _) => out.push((false, b' ')),
                        (byte, _) => out.push((false, byte)),
                    }
                    at += 1;
                }
                out
            }
            let same = form(&format!("n={a}")) == form(&format!("n={b}"));
            prop_assert_eq!(same, tokens(&a) == tokens(&b));
        }
    }
}
