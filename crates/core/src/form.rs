//! `application/x-www-form-urlencoded` bodies (WHATWG URL Standard, section 5.1), on bytes.
//!
//! The canonical form merges what no server tells apart: the spelling of characters (`+`, `%20`)
//! and the order between fields of different names. It keeps what some server does tell apart,
//! because a false difference is the safe side:
//!
//! - `a` and `a=`, a field without a value and one with an empty value;
//! - a `%` that encodes nothing and an encoded one: `%zz` is not `%25zz`;
//! - bytes that are no UTF-8, which are not replaced by U+FFFD;
//! - the order of fields that a server may gather into one value: see [`gathered_name`].

use crate::{fingerprint::push_sized, percent};

/// Appends the canonical form of a body. Every byte sequence has one, and bodies of different
/// meaning have different ones.
pub(crate) fn canonical(body: &[u8], out: &mut Vec<u8>) {
    let mut fields: Vec<Field> = body
        .split(|&byte| byte == b'&')
        .filter(|text| !text.is_empty())
        .map(Field::parse)
        .collect();
    fields.sort_by(|a, b| gathered_name(&a.name).cmp(gathered_name(&b.name)));
    for Field { name, value } in fields {
        push_sized(&name, out);
        out.push(u8::from(value.is_some()));
        push_sized(&value.unwrap_or_default(), out);
    }
}

/// The values of the fields of this name, in order, as a service that decodes them gets them: a `%`
/// that encodes nothing stays.
pub(crate) fn values<'b>(body: &'b [u8], name: &'b str) -> impl Iterator<Item = Vec<u8>> + 'b {
    let fields = body.split(|&byte| byte == b'&').filter(|text| !text.is_empty());
    fields.filter_map(move |text| {
        let mut parts = text.splitn(2, |&byte| byte == b'=');
        let found = parts.next().map(|text| decode_with(text, &[], &[])).unwrap_or_default();
        let value = parts.next().unwrap_or_default();
        (found == name.as_bytes()).then(|| decode_with(value, &[], &[]))
    })
}

struct Field {
    name: Vec<u8>,
    value: Option<Vec<u8>>,
}

impl Field {
    fn parse(text: &[u8]) -> Self {
        let mut parts = text.splitn(2, |&byte| byte == b'=');
        let name = parts.next().map(decode).unwrap_or_default();
        Self { name, value: parts.next().map(decode) }
    }
}

/// What a name has to share with another for the order between them to matter.
///
/// Rails and PHP gather `items[][name]` and `items[][price]` into one list whose grouping depends
/// on the order across both names, PHP reads `a.b` as `a_b`, ASP.NET ignores case.
fn gathered_name(name: &[u8]) -> impl Iterator<Item = u8> {
    name.iter().take_while(|&&byte| byte != b'[').map(|byte| match byte {
        b'.' | b' ' => b'_',
        _ => byte.to_ascii_lowercase(),
    })
}

/// Decodes a name or value. A byte `%` is followed by a byte that says whether it was encoded, so
/// that the result still tells `%zz` from `%25zz`.
fn decode(text: &[u8]) -> Vec<u8> {
    decode_with(text, &[1], &[0])
}

/// Decodes, and marks each `%` that was encoded and each that stood for itself.
fn decode_with(mut text: &[u8], encoded: &[u8], raw: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    while let [byte, behind @ ..] = text {
        text = behind;
        match byte {
            b'+' => out.push(b' '),
            b'%' => match percent::decode_behind(behind) {
                Some((decoded, rest)) => {
                    out.push(decoded);
                    if decoded == b'%' {
                        out.extend_from_slice(encoded);
                    }
                    text = rest;
                }
                None => {
                    out.push(b'%');
                    out.extend_from_slice(raw);
                }
            },
            _ => out.push(*byte),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn form(body: &str) -> Vec<u8> {
        let mut out = Vec::new();
        canonical(body.as_bytes(), &mut out);
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
        ] {
            assert_ne!(form(a), form(b), "{a} and {b}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_have_a_form(body: Vec<u8>) {
            canonical(&body, &mut Vec::new());
        }

        #[test]
        fn encoding_more_changes_nothing(text in "[a-z%&=+ ]{0,20}") {
            let encode = |text: &str| {
                text.bytes().map(|byte| format!("%{byte:02x}")).collect::<String>()
            };
            let plain = text.replace('%', "%25").replace('&', "%26").replace('+', "%2b");
            let plain = plain.replace(' ', "+").replace('=', "%3D");
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
