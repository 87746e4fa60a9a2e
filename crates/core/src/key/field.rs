//! From a field line to the characters of the key (RFC 9651).

use std::{borrow::Cow, convert::Infallible};

use sfv::{
    BareItemFromInput, Parser, StringRef,
    visitor::{Ignored, ParameterVisitor},
};

use super::{FieldType, KeyError, KeySyntax};

/// The characters of the key in one field line; the length is not judged here.
///
/// Only spaces are trimmed, as RFC 9651 (section 4.2) has it: a tab is malformed.
pub(super) fn characters(line: &[u8], syntax: KeySyntax) -> Result<Cow<'_, [u8]>, KeyError> {
    let value = trim_start(line);
    if let Some(text) = plain(line) {
        return Ok(Cow::Borrowed(text));
    }
    match (value.first(), syntax) {
        (None, _) => Err(KeyError::Empty),
        (Some(b'('), _) if is_list(line) => {
            Err(KeyError::WrongType { found: FieldType::InnerList })
        }
        (Some(b'"'), _) | (_, KeySyntax::Strict) => string(line),
        (Some(b'?' | b':' | b'@' | b'%'), KeySyntax::Lenient) => other_type(line),
        (_, KeySyntax::Lenient) => bare(line),
    }
}

/// What almost every client sends: a String without escapes, and nothing beside it. The parser
/// says the same of it, and takes longer.
fn plain(line: &[u8]) -> Option<&[u8]> {
    let [b'"', text @ .., b'"'] = line else { return None };
    let stands_for_itself =
        |byte: &u8| matches!(byte, 0x20..=0x7e) && !matches!(byte, b'"' | b'\\');
    text.iter().all(stands_for_itself).then_some(text)
}

fn string(line: &[u8]) -> Result<Cow<'_, [u8]>, KeyError> {
    match item(line)? {
        BareItemFromInput::String(Cow::Borrowed(text)) => {
            Ok(Cow::Borrowed(StringRef::as_str(text).as_bytes()))
        }
        BareItemFromInput::String(Cow::Owned(text)) => {
            Ok(Cow::Owned(String::from(text).into_bytes()))
        }
        other => Err(KeyError::WrongType { found: field_type(&other) }),
    }
}

/// A value that starts like a type no client means as a bare key: refused where it is one, a bare
/// key where it only starts alike.
fn other_type(line: &[u8]) -> Result<Cow<'_, [u8]>, KeyError> {
    match item(line) {
        Ok(found) => Err(KeyError::WrongType { found: field_type(&found) }),
        Err(_) => bare(line),
    }
}

fn is_list(line: &[u8]) -> bool {
    Parser::new(line).parse_list_with_visitor(Ignored).is_ok()
}

fn bare(line: &[u8]) -> Result<Cow<'_, [u8]>, KeyError> {
    let value = trim_start(line);
    let start = line.len() - value.len();
    let value = trim_end(value);
    match value.iter().position(|&byte| !may_be_bare(byte)) {
        None => Ok(Cow::Borrowed(value)),
        Some(at) => Err(KeyError::Malformed { at: start + at }),
    }
}

/// Visible ASCII without what quotes, separates or escapes: a single quote is always a mistake for
/// a double one, and the others would make the key another item under RFC 9651.
const fn may_be_bare(byte: u8) -> bool {
    matches!(byte, 0x21..=0x7e) && !matches!(byte, b'"' | b'\'' | b',' | b';' | b'\\')
}

fn item(line: &[u8]) -> Result<BareItemFromInput<'_>, KeyError> {
    Parser::new(line)
        .parse_item_with_visitor(|item| Ok::<_, Infallible>(WithoutParameters(item)))
        .map_err(|error| malformed(&error))
}

fn malformed(error: &sfv::Error) -> KeyError {
    KeyError::Malformed { at: error.index().unwrap_or_default() }
}

/// Keeps the item and drops its parameters: they are no part of the key.
struct WithoutParameters<'a>(BareItemFromInput<'a>);

impl<'a> ParameterVisitor<'a> for WithoutParameters<'a> {
    type Out = BareItemFromInput<'a>;
    type Error = Infallible;

    fn parameter(
        &mut self,
        _: &'a sfv::KeyRef,
        _: BareItemFromInput<'a>,
    ) -> Result<(), Infallible> {
        Ok(())
    }

    fn finish(self) -> Result<Self::Out, Infallible> {
        Ok(self.0)
    }
}

const fn field_type(item: &BareItemFromInput<'_>) -> FieldType {
    match item {
        BareItemFromInput::Boolean(_) => FieldType::Boolean,
        BareItemFromInput::ByteSequence(_) => FieldType::ByteSequence,
        BareItemFromInput::Date(_) => FieldType::Date,
        BareItemFromInput::Decimal(_) => FieldType::Decimal,
        BareItemFromInput::DisplayString(_) => FieldType::DisplayString,
        BareItemFromInput::Integer(_) => FieldType::Integer,
        // A String never gets here: `string` has taken it.
        BareItemFromInput::String(_) | BareItemFromInput::Token(_) => FieldType::Token,
    }
}

const fn trim_start(mut value: &[u8]) -> &[u8] {
    while let [b' ', rest @ ..] = value {
        value = rest;
    }
    value
}

const fn trim_end(mut value: &[u8]) -> &[u8] {
    while let [rest @ .., b' '] = value {
        value = rest;
    }
    value
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn quoted(text: &[u8]) -> Vec<u8> {
        [b"\"", text, b"\""].concat()
    }

    proptest! {
        /// The short way says what the parser says.
        #[test]
        fn what_is_plain_is_what_the_parser_reads(
            text in prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..6),
                "[ -~]{0,40}".prop_map(String::into_bytes),
            ],
        ) {
            let line = quoted(&text);
            if let Some(plain) = plain(&line) {
                prop_assert_eq!(string(&line), Ok(Cow::Borrowed(plain)));
                prop_assert_eq!(plain, text);
            } else {
                let needs_parser = |byte: &u8| !matches!(byte, b' '..=b'~') || b"\"\\".contains(byte);
                prop_assert!(text.iter().any(needs_parser));
            }
        }
    }
}
