//! JSON Pointer (RFC 6901): the place of a value in a JSON document.

use std::{cmp::Ordering, fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A JSON Pointer, such as `/items/0/price`; the empty text is the whole document.
///
/// Pointers order by their tokens, a shorter token first: a place comes before the places in it,
/// and array indices come in their numeric order.
#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Pointer {
    tokens: Vec<Box<str>>,
}

impl Pointer {
    /// Reads the text form: every token behind a `/`, with `~0` for `~` and `~1` for `/`.
    ///
    /// # Errors
    /// [`PointerError`] for a text that is not empty and does not start with `/`, and for a `~`
    /// without its 0 or 1.
    pub fn parse(text: &str) -> Result<Self, PointerError> {
        if text.is_empty() {
            return Ok(Self { tokens: Vec::new() });
        }
        let tokens = text.strip_prefix('/').ok_or(PointerError::NoSlash)?;
        let tokens = tokens.split('/').map(unescape).collect::<Result<_, _>>()?;
        Ok(Self { tokens })
    }

    /// Whether it is the place of the whole document.
    pub fn is_root(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Whether `other` is this place or inside it.
    pub fn contains(&self, other: &Self) -> bool {
        other.tokens.starts_with(&self.tokens)
    }

    /// Whether `other` is inside an element of the array at this place, or such an element, as far as
    /// its text tells: a member of an object may have the name of an index.
    pub(crate) fn has_element(&self, other: &Self) -> bool {
        self.contains(other)
            && other.tokens.get(self.tokens.len()).is_some_and(|token| array_index(token).is_some())
    }

    /// The way to the place: member names and array indices, unescaped.
    pub fn tokens(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.tokens.iter().map(AsRef::as_ref)
    }

    /// The token of a place in the top level; `None` for any other place.
    pub(crate) fn only_token(&self) -> Option<&str> {
        match self.tokens.as_slice() {
            [only] => Some(only),
            _ => None,
        }
    }

    /// The last token and the way to the value that holds it; `None` for the whole document.
    pub(crate) fn split_last(&self) -> Option<(&str, &[Box<str>])> {
        self.tokens.split_last().map(|(last, parents)| (&**last, parents))
    }
}

impl Ord for Pointer {
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |pointer| Self::tokens(pointer).map(|token| (token.len(), token));
        key(self).cmp(key(other))
    }
}

impl PartialOrd for Pointer {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for token in self.tokens() {
            write!(f, "/{}", token.replace('~', "~0").replace('/', "~1"))?;
        }
        Ok(())
    }
}

impl FromStr for Pointer {
    type Err = PointerError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl TryFrom<String> for Pointer {
    type Error = PointerError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text)
    }
}

impl From<Pointer> for String {
    fn from(pointer: Pointer) -> Self {
        pointer.to_string()
    }
}

/// Why a text is no JSON Pointer.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum PointerError {
    /// It does not start with a slash.
    #[error("a JSON Pointer starts with \"/\", as in \"/amount\"")]
    NoSlash,
    /// A tilde that escapes nothing.
    #[error("a \"~\" in a JSON Pointer is followed by 0 (for ~) or 1 (for /)")]
    BadEscape,
}

/// The position a token names in an array: decimal without leading zeros (RFC 6901, section 4).
/// `-`, the place behind the last element, names no value.
pub(crate) fn array_index(token: &str) -> Option<usize> {
    let canonical = token == "0" || !token.starts_with('0');
    let digits = token.bytes().all(|byte| byte.is_ascii_digit());
    if canonical && digits { token.parse().ok() } else { None }
}

fn unescape(token: &str) -> Result<Box<str>, PointerError> {
    let mut parts = token.split('~');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (escaped, rest) = match part.strip_prefix('0') {
            Some(rest) => ('~', rest),
            None => ('/', part.strip_prefix('1').ok_or(PointerError::BadEscape)?),
        };
        text.push(escaped);
        text.push_str(rest);
    }
    Ok(text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pointers_of_rfc_6901_survive_a_round_trip() {
        for text in ["", "/", "/foo", "/foo/0", "/a~1b", "/c%d", "/e^f", "/k\"l", "/ ", "/m~0n"] {
            assert_eq!(Pointer::parse(text).map(|p| p.to_string()).as_deref(), Ok(text));
        }
        let tokens = |text| Pointer::parse(text).map(|p| p.tokens().map(str::to_owned).collect());
        assert_eq!(tokens("/a~1b"), Ok(vec!["a/b".to_owned()]));
        assert_eq!(tokens("/~01"), Ok(vec!["~1".to_owned()]));
        assert_eq!(tokens("/"), Ok(vec![String::new()]));
    }

    #[test]
    fn what_is_no_pointer_is_refused() {
        assert_eq!(Pointer::parse("amount"), Err(PointerError::NoSlash));
        for text in ["/~", "/~2", "/a~/0", "/a/~b"] {
            assert_eq!(Pointer::parse(text), Err(PointerError::BadEscape), "{text}");
        }
    }

    #[test]
    fn a_place_comes_before_what_is_in_it_and_indices_in_numeric_order() {
        let mut pointers: Vec<Pointer> =
            ["/i/10", "/i/9/a", "/i", "/i/9"].iter().flat_map(|text| text.parse()).collect();
        pointers.sort();
        let texts: Vec<String> = pointers.iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["/i", "/i/9", "/i/9/a", "/i/10"]);
    }

    #[test]
    fn an_index_has_one_spelling() {
        for (token, index) in [
            ("0", Some(0)),
            ("17", Some(17)),
            ("00", None),
            ("01", None),
            ("+1", None),
            ("-", None),
            ("", None),
            ("99999999999999999999999", None),
        ] {
            assert_eq!(array_index(token), index, "{token}");
        }
    }
}
