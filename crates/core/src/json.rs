//! JSON as intents are compared by: strict to read (RFC 8259), exact in its numbers, one canonical
//! text for every value.
//!
//! Members have no order and are unique, `null` is a value, arrays are ordered, strings are kept
//! character by character, without Unicode normalisation. A number is its exact decimal value.

use std::{borrow::Cow, cmp::Ordering};

use crate::{Pointer, pointer::array_index};

/// Whether a byte stands for itself in a string (RFC 8259, section 7).
const PLAIN: [bool; 256] = {
    let mut plain = [true; 256];
    let mut control = 0;
    while control < 0x20 {
        plain[control] = false;
        control += 1;
    }
    plain[b'"' as usize] = false;
    plain[b'\\' as usize] = false;
    plain
};

mod canonical;
mod cost;
mod number;
mod parse;
mod serde_form;

pub use number::Number;
pub use parse::{JsonError, JsonFault};

/// A JSON value. What it can it borrows from the text `'t` that it was read from.
///
/// Equal values are equal intents: however a document spells its whitespace, escapes, numbers and
/// member order, it parses to the same value.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Json<'t> {
    /// `null`, which is not the same as an absent member.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number, exact.
    Number(Number<'t>),
    /// A string.
    String(Cow<'t, str>),
    /// An array, in its order.
    Array(Vec<Json<'t>>),
    /// An object.
    Object(Members<'t>),
}

impl<'t> Json<'t> {
    /// The deepest nesting of arrays and objects that is read: 128.
    pub const MAX_DEPTH: usize = 128;

    /// Reads one JSON text (RFC 8259) and nothing behind it.
    ///
    /// Beyond the grammar: UTF-8 without a byte order mark, at most [`Self::MAX_DEPTH`] levels, no
    /// lone surrogates, no member name twice in an object (compared after unescaping), no exponent
    /// of more than 37 digits. Each of them is where readers of JSON disagree about the value.
    ///
    /// # Errors
    /// [`JsonError`]: what is wrong and where, never what is there.
    pub fn parse(text: &'t [u8]) -> Result<Self, JsonError> {
        parse::document(text)
    }

    /// How much memory reading this text and writing its canonical form takes at the most, in bytes:
    /// many times its length, if it is made for that. Whether it is JSON does not matter, and finding
    /// out costs a small part of the reading.
    pub fn parsing_cost(text: &[u8]) -> usize {
        cost::Shape::of(text).cost(text.len())
    }

    /// Appends the canonical text: JSON itself, as in RFC 8785, but with exact numbers.
    ///
    /// RFC 8785 passes numbers through IEEE 754 doubles, which makes 9007199254740993 and
    /// 9007199254740992 one number; here each decimal value has a text of its own. Where a double
    /// prints as the number was written, as almost always, the text is the same as in RFC 8785.
    pub fn canonical(&self, out: &mut Vec<u8>) {
        canonical::write(self, out);
    }

    /// The value at a place, if there is one.
    pub fn get(&self, place: &Pointer) -> Option<&Self> {
        place.tokens().try_fold(self, Self::child)
    }

    /// Takes the value at a place out; later elements of an array move up. The whole document
    /// cannot be taken out.
    pub fn remove(&mut self, place: &Pointer) -> Option<Self> {
        let (last, parents) = place.split_last()?;
        match self.descend(parents)? {
            Self::Object(members) => members.remove(last),
            Self::Array(items) => {
                array_index(last).filter(|&at| at < items.len()).map(|at| items.remove(at))
            }
            _ => None,
        }
    }

    /// Puts a member where an object has none of its name, and says whether it did. Neither
    /// replaces a value, `null` included, nor makes the objects on the way.
    pub fn insert_absent(&mut self, place: &Pointer, value: &Json<'static>) -> bool {
        match place.split_last().and_then(|(last, parents)| Some((last, self.descend(parents)?))) {
            Some((last, Self::Object(members))) => members.insert_absent(last, value),
            _ => false,
        }
    }

    /// Sorts the elements of the array at a place, so that two arrays with the same elements, each as
    /// often, become equal. Any other value stays as it is.
    pub fn sort_array(&mut self, place: &Pointer) {
        let way: Vec<Box<str>> = place.tokens().map(Box::from).collect();
        if let Some(Self::Array(items)) = self.descend(&way) {
            items.sort_by_cached_key(|item| {
                let mut text = Vec::new();
                item.canonical(&mut text);
                text
            });
        }
    }

    /// Makes each number the IEEE 754 double next to it, in the text that RFC 8785 has for it:
    /// numbers that are one double become equal. `false`, and some of them are as they were, when
    /// one is outside of the range of doubles: too large, or not zero and next to zero.
    #[must_use = "numbers outside of the range are not rounded"]
    pub fn round_numbers(&mut self) -> bool {
        match self {
            Self::Null | Self::Bool(_) | Self::String(_) => true,
            Self::Number(number) => match number.rounded() {
                Some(rounded) => {
                    // Most are their own double, and stay where they are.
                    if rounded != *number {
                        *number = rounded;
                    }
                    true
                }
                None => false,
            },
            Self::Array(items) => items.iter_mut().all(Self::round_numbers),
            Self::Object(Members(members)) => {
                members.iter_mut().all(|(_, value)| value.round_numbers())
            }
        }
    }

    /// The same value with a text of its own.
    pub fn into_owned(self) -> Json<'static> {
        match self {
            Self::Null => Json::Null,
            Self::Bool(value) => Json::Bool(value),
            Self::Number(number) => Json::Number(number.into_owned()),
            Self::String(text) => Json::String(text.into_owned().into()),
            Self::Array(items) => Json::Array(items.into_iter().map(Self::into_owned).collect()),
            Self::Object(Members(members)) => {
                let own = |(name, value): (Cow<'_, str>, Json<'_>)| {
                    (name.into_owned().into(), value.into_owned())
                };
                Json::Object(Members(members.into_iter().map(own).collect()))
            }
        }
    }

    /// The text of a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    fn child(&self, token: &str) -> Option<&Self> {
        match self {
            Self::Object(members) => members.get(token),
            Self::Array(items) => items.get(array_index(token)?),
            _ => None,
        }
    }

    fn descend(&mut self, way: &[Box<str>]) -> Option<&mut Self> {
        way.iter().try_fold(self, |value, token| match value {
            Self::Object(members) => members.get_mut(token),
            Self::Array(items) => items.get_mut(array_index(token)?),
            _ => None,
        })
    }
}

/// The members of an object: unique names, in the order of their UTF-16 code units (RFC 8785,
/// section 3.2.3).
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Members<'t>(Vec<(Cow<'t, str>, Json<'t>)>);

impl<'t> Members<'t> {
    /// Sorts members that came in any order. `None` when a name is there twice.
    pub fn new(mut members: Vec<(Cow<'t, str>, Json<'t>)>) -> Option<Self> {
        members.sort_unstable_by(|(a, _), (b, _)| utf16_order(a, b));
        let twice = |pair: &[(Cow<'t, str>, Json<'t>)]| matches!(pair, [(a, _), (b, _)] if a == b);
        (!members.windows(2).any(twice)).then_some(Self(members))
    }

    /// The member of this name.
    pub fn get(&self, name: &str) -> Option<&Json<'t>> {
        self.find(name).ok().and_then(|at| self.0.get(at)).map(|(_, value)| value)
    }

    /// The members in canonical order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Json<'t>)> {
        self.0.iter().map(|(name, value)| (&**name, value))
    }

    fn get_mut(&mut self, name: &str) -> Option<&mut Json<'t>> {
        self.find(name).ok().and_then(|at| self.0.get_mut(at)).map(|(_, value)| value)
    }

    fn remove(&mut self, name: &str) -> Option<Json<'t>> {
        self.find(name).ok().map(|at| self.0.remove(at).1)
    }

    fn insert_absent(&mut self, name: &str, value: &Json<'static>) -> bool {
        match self.find(name) {
            Ok(_) => false,
            Err(at) => {
                self.0.insert(at, (name.to_owned().into(), value.clone()));
                true
            }
        }
    }

    fn find(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(other, _)| utf16_order(other, name))
    }
}

/// Compares by UTF-16 code units without encoding them.
///
/// UTF-8 and UTF-16 order text alike, but for one thing: UTF-16 puts U+10000 and above
/// (surrogates 0xD800 to 0xDFFF; UTF-8 lead bytes 0xF0 to 0xF4) before U+E000 to U+FFFF (lead
/// bytes 0xEE and 0xEF). The first bytes that differ are both lead bytes or both continuations.
fn utf16_order(a: &str, b: &str) -> Ordering {
    const fn rank(byte: u8) -> u8 {
        match byte {
            0xee | 0xef => byte + 0x10,
            _ => byte,
        }
    }
    match a.bytes().zip(b.bytes()).find(|(a, b)| a != b) {
        Some((a, b)) => rank(a).cmp(&rank(b)),
        None => a.len().cmp(&b.len()),
    }
}

#[cfg(test)]
pub(crate) mod tests;
