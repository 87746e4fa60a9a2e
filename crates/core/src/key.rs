//! The client's idempotency key: one key is one intent.
//!
//! A key from the request's field is parsed ([`KeySyntax`]), held against the floors of a
//! [`KeyPolicy`] and refused when it looks like a secret or like personal data: keys are meant to
//! be random, and they end up in logs and stores that are no place for either.

use std::{borrow::Cow, fmt};

use serde::{Deserialize, Serialize};
use thiserror::Error;

mod body;
mod entropy;
mod field;
mod stamp;
mod suspicion;

pub use body::BodyKeyError;

/// An idempotency key: 1 to 255 bytes, compared exactly, case included.
///
/// `Debug` does not show it.
#[derive(Clone, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Key(Box<[u8]>);

impl Key {
    /// The longest key, in bytes after parsing.
    pub const MAX_LENGTH: usize = 255;

    /// Reads the lines of an `Idempotency-Key` field, as received and in order. `None` when there
    /// is no line at all.
    ///
    /// A field that is present and not acceptable is always an error. RFC 9651 (section 4.2) lets
    /// a recipient ignore a malformed field, which would execute the request unprotected.
    /// Parameters of the item are accepted and are no part of the key.
    ///
    /// # Errors
    /// Any [`KeyError`]; none of them is cured by sending the same field again.
    pub fn from_field<'a>(
        lines: impl IntoIterator<Item = &'a [u8]>,
        policy: &KeyPolicy,
    ) -> Result<Option<Self>, KeyError> {
        let mut lines = lines.into_iter();
        let Some(line) = lines.next() else { return Ok(None) };
        if lines.next().is_some() {
            return Err(KeyError::SeveralFields);
        }
        let characters = field::characters(line, policy.syntax)?;
        check_length(&characters)?;
        policy.check(&characters)?;
        Ok(Some(Self(match characters {
            Cow::Borrowed(characters) => characters.into(),
            Cow::Owned(characters) => characters.into(),
        })))
    }

    /// A key from another source than the field: an event or message id, a natural key. No floor
    /// applies, because its author is not the caller.
    ///
    /// # Errors
    /// [`KeyError::Empty`] and [`KeyError::TooLong`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, KeyError> {
        check_length(bytes)?;
        Ok(Self(bytes.into()))
    }

    /// The key's characters, without quotes and escapes.
    pub const fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The key as the value of an `Idempotency-Key` field: an RFC 9651 String with its quotes.
    /// `None` for a key with characters that a String cannot carry (outside 0x20 to 0x7e).
    pub fn to_field(&self) -> Option<String> {
        let text = sfv::StringRef::from_bytes(&self.0).ok()?;
        Some(sfv::ItemSerializer::new().bare_item(text).finish())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

/// Which field values are read as a key.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeySyntax {
    /// A String in double quotes, or the bare characters that most deployed clients send: visible
    /// ASCII without quotes, commas, semicolons and backslashes. `abc` and `"abc"` are one key, so
    /// that a client which learns to quote between two attempts keeps its protection.
    #[default]
    Lenient,
    /// A String in double quotes only, as the draft standard has it.
    Strict,
}

/// What a key from the request's field must look like.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KeyPolicy {
    /// Which field values are read as a key. Default: [`KeySyntax::Lenient`].
    pub syntax: KeySyntax,
    /// The least number of characters. Default: 16.
    pub min_length: usize,
    /// The least randomness, in bits. Default: 64. It is held against an estimate, so a key is
    /// refused only when the estimate stays below three quarters of it. 0 switches the check off.
    pub min_bits: u32,
}

impl KeyPolicy {
    /// No floor: for keys that are not made for this request, such as event ids and members of the
    /// body.
    pub const NO_FLOOR: Self = Self { syntax: KeySyntax::Lenient, min_length: 1, min_bits: 0 };

    fn check(&self, key: &[u8]) -> Result<(), KeyError> {
        self.check_length(key)?;
        match suspicion::find(key) {
            Some(error) => Err(error),
            None => self.check_bits(key),
        }
    }

    fn check_floors(&self, key: &[u8]) -> Result<(), KeyError> {
        check_length(key)?;
        self.check_length(key)?;
        self.check_bits(key)
    }

    const fn check_length(&self, key: &[u8]) -> Result<(), KeyError> {
        if key.len() < self.min_length {
            return Err(KeyError::TooShort { length: key.len(), min_length: self.min_length });
        }
        Ok(())
    }

    fn check_bits(&self, key: &[u8]) -> Result<(), KeyError> {
        if self.min_bits > 0 {
            let least = self.min_bits - self.min_bits / 4;
            let bits = entropy::estimate(key, least);
            if bits < least {
                return Err(KeyError::Predictable { bits, min_bits: self.min_bits });
            }
        }
        Ok(())
    }
}

impl Default for KeyPolicy {
    fn default() -> Self {
        Self { syntax: KeySyntax::Lenient, min_length: 16, min_bits: 64 }
    }
}

/// A structured field type (RFC 9651) that was sent where a String belongs.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum FieldType {
    /// `?1`
    Boolean,
    /// `:YWJj:`
    ByteSequence,
    /// `@1659578233`
    Date,
    /// `1.5`
    Decimal,
    /// `%"caf%c3%a9"`
    DisplayString,
    /// `(a b)`
    InnerList,
    /// `42`
    Integer,
    /// `abc`
    Token,
}

impl fmt::Display for FieldType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Boolean => "Boolean",
            Self::ByteSequence => "Byte Sequence",
            Self::Date => "Date",
            Self::Decimal => "Decimal",
            Self::DisplayString => "Display String",
            Self::InnerList => "Inner List",
            Self::Integer => "Integer",
            Self::Token => "Token",
        })
    }
}

/// Why a key is refused, and what to send instead. Never shows the key.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum KeyError {
    /// More than one field line, or field of a form.
    #[error("the key was sent in more than one field; send exactly one")]
    SeveralFields,
    /// No characters.
    #[error("the key is empty; send 1 to 255 characters, best a random UUID")]
    Empty,
    /// More than [`Key::MAX_LENGTH`] characters.
    #[error("the key has {length} characters; send at most 255, best a random UUID")]
    TooLong {
        /// Its length after parsing, in bytes.
        length: usize,
    },
    /// Not the syntax of a key.
    #[error(
        "the key is malformed at byte {at}; send it in double quotes, in printable ASCII, with a \
         backslash before each double quote and backslash"
    )]
    Malformed {
        /// The offset in the field value, in bytes.
        at: usize,
    },
    /// Well-formed, but no String.
    #[error("the key is a {found}, not a String; send it in double quotes")]
    WrongType {
        /// The type that was sent.
        found: FieldType,
    },
    /// In the body, and neither a string nor a whole number.
    #[error(
        "the key in the body is no text; send a string, or a whole number of at most 21 digits"
    )]
    NotText,
    /// Below the policy's minimum length.
    #[error(
        "the key has {length} character{}; send at least {min_length}, best a random UUID",
        if *length == 1 { "" } else { "s" }
    )]
    TooShort {
        /// Its length, in bytes.
        length: usize,
        /// What the policy asks for.
        min_length: usize,
    },
    /// Below the policy's minimum randomness.
    #[error(
        "the key is predictable, it carries about {bits} bits of randomness; send at least \
         {min_bits} bits, best a random UUID"
    )]
    Predictable {
        /// The estimate, in bits.
        bits: u32,
        /// What the policy asks for, in bits.
        min_bits: u32,
    },
    /// It holds an e-mail address.
    #[error("the key holds an e-mail address; send no personal data, best a random UUID")]
    EmailAddress,
    /// It holds a payment card number.
    #[error("the key holds what looks like a card number; send none, best a random UUID")]
    CardNumber,
    /// It holds a JSON Web Token.
    #[error("the key holds a JSON Web Token; revoke the token and send a random UUID as the key")]
    WebToken,
    /// It holds a credential of a known format.
    #[error(
        "the key holds what looks like a secret; revoke the secret and send a random UUID as the \
         key"
    )]
    Secret,
}

const fn check_length(key: &[u8]) -> Result<(), KeyError> {
    match key.len() {
        0 => Err(KeyError::Empty),
        1..=Key::MAX_LENGTH => Ok(()),
        length => Err(KeyError::TooLong { length }),
    }
}

#[cfg(test)]
mod tests;
