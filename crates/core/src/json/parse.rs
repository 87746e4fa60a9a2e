//! The reader: RFC 8259 to the letter, and stricter where readers are known to disagree.

use std::{borrow::Cow, mem};

use thiserror::Error;

use super::{Json, Members, Number, PLAIN, cost::Shape};

/// Where and why a text is not accepted as JSON.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
#[error("{why} (byte {at})")]
pub struct JsonError {
    /// The offset of the fault, in bytes.
    pub at: usize,
    /// What is wrong there.
    pub why: JsonFault,
}

/// What makes a text not acceptable as JSON.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum JsonFault {
    /// Not UTF-8 (RFC 8259, section 8.1).
    #[error("the JSON text is not UTF-8; encode it in UTF-8")]
    NotUtf8,
    /// A byte order mark (RFC 8259, section 8.1).
    #[error("the JSON text starts with a byte order mark; leave it out")]
    ByteOrderMark,
    /// The text ends within a value, or is empty.
    #[error("the JSON text ends before its value does; send it whole")]
    EndOfText,
    /// A character that the grammar does not have here.
    #[error("a character does not belong here; send JSON as in RFC 8259")]
    Unexpected,
    /// Something behind the value.
    #[error("something follows the JSON value; send one value only")]
    Trailing,
    /// More than [`Json::MAX_DEPTH`] levels.
    #[error("arrays and objects are nested too deep; use at most 128 levels")]
    TooDeep,
    /// No number by the grammar (RFC 8259, section 6).
    #[error("a number is malformed; write it as in 0, -12, 3.5 or 6e-7")]
    BadNumber,
    /// An exponent that no reader can make use of.
    #[error("a number's exponent has more than 37 digits; use a smaller one")]
    ExponentTooLarge,
    /// A raw control character in a string (RFC 8259, section 7).
    #[error("a string has an unescaped control character; escape it")]
    ControlCharacter,
    /// An unknown or incomplete escape (RFC 8259, section 7).
    #[error(r#"a string has a bad escape; use \" \\ \/ \b \f \n \r \t or \u and 4 hex digits"#)]
    BadEscape,
    /// Half of a surrogate pair, which is no character.
    #[error("a string has a lone surrogate; escape characters beyond U+FFFF as pairs")]
    LoneSurrogate,
    /// A member name twice in one object, compared after unescaping. The position is that of the
    /// object.
    #[error("an object has two members of one name; send each name once")]
    DuplicateMember,
}

impl JsonFault {
    const fn at(self, at: usize) -> JsonError {
        JsonError { at, why: self }
    }
}

pub(super) fn document(bytes: &[u8]) -> Result<Json<'_>, JsonError> {
    if bytes.starts_with(b"\xef\xbb\xbf") {
        return Err(JsonFault::ByteOrderMark.at(0));
    }
    // Once for the whole text, so that strings can be cut from it.
    let text = str::from_utf8(bytes).map_err(|e| JsonFault::NotUtf8.at(e.valid_up_to()))?;
    let mut reader = Reader::new(text);
    reader.skip_whitespace();
    let value = reader.value()?;
    reader.skip_whitespace();
    match reader.peek() {
        None => Ok(value),
        Some(_) => Err(reader.fault(JsonFault::Trailing)),
    }
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
    /// The members of all objects that are not read to their end, the inner behind the outer: each
    /// object gets a list of its own, of just its length, when it is known.
    members: Vec<(Cow<'t, str>, Json<'t>)>,
    /// The elements of all arrays, likewise.
    items: Vec<Json<'t>>,
}

impl<'t> Reader<'t> {
    fn new(text: &'t str) -> Self {
        let (members, items) = match text.len() {
            ..Shape::LARGE => (Vec::new(), Vec::new()),
            // Lists of this size are not copied while they grow.
            _ => {
                let shape = Shape::of(text.as_bytes());
                (Vec::with_capacity(shape.members), Vec::with_capacity(shape.items))
            }
        };
        Self { text, at: 0, depth: 0, members, items }
    }

    fn value(&mut self) -> Result<Json<'t>, JsonError> {
        match self.peek() {
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::array),
            Some(b'"') => self.string().map(Json::String),
            Some(b'-' | b'0'..=b'9') => self.number().map(Json::Number),
            Some(b't') => self.word("true", Json::Bool(true)),
            Some(b'f') => self.word("false", Json::Bool(false)),
            Some(b'n') => self.word("null", Json::Null),
            _ => Err(self.unexpected()),
        }
    }

    /// Bounds the recursion, so that no text can exhaust the stack.
    fn nested(
        &mut self,
        read: fn(&mut Self) -> Result<Json<'t>, JsonError>,
    ) -> Result<Json<'t>, JsonError> {
        if self.depth == Json::MAX_DEPTH {
            return Err(self.fault(JsonFault::TooDeep));
        }
        self.depth += 1;
        let value = read(self)?;
        self.depth -= 1;
        Ok(value)
    }

    fn object(&mut self) -> Result<Json<'t>, JsonError> {
        let start = self.at;
        self.at += 1;
        let from = self.members.len();
        if self.depth == 1 {
            // Most documents are one object of about this size.
            self.members.reserve(8);
        }
        self.skip_whitespace();
        if !self.take(b'}') {
            loop {
                if self.peek() != Some(b'"') {
                    return Err(self.unexpected());
                }
                let name = self.string()?;
                self.skip_whitespace();
                self.require(b':')?;
                self.skip_whitespace();
                let value = self.value()?;
                self.members.push((name, value));
                self.skip_whitespace();
                if self.take(b'}') {
                    break;
                }
                self.require(b',')?;
                self.skip_whitespace();
            }
        }
        let members = match self.depth {
            1 => mem::take(&mut self.members),
            _ => self.members.split_off(from),
        };
        let members = Members::new(members).ok_or(JsonFault::DuplicateMember.at(start))?;
        Ok(Json::Object(members))
    }

    fn array(&mut self) -> Result<Json<'t>, JsonError> {
        self.at += 1;
        let from = self.items.len();
        self.skip_whitespace();
        if !self.take(b']') {
            loop {
                let value = self.value()?;
                self.items.push(value);
                self.skip_whitespace();
                if self.take(b']') {
                    break;
                }
                self.require(b',')?;
                self.skip_whitespace();
            }
        }
        Ok(Json::Array(match from {
            0 if self.is_for_one_array() => mem::take(&mut self.items),
            _ => self.items.split_off(from),
        }))
    }

    /// Whether the array that ends, within no other, can take the list of elements as it is: it is
    /// the document, or one of a small document and not much shorter than the list.
    fn is_for_one_array(&self) -> bool {
        let fits = self.items.len() >= self.items.capacity() / 2;
        self.depth == 1 || (fits && self.text.len() < Shape::LARGE)
    }

    fn string(&mut self) -> Result<Cow<'t, str>, JsonError> {
        self.at += 1;
        let plain = self.plain();
        if self.take(b'"') {
            return Ok(Cow::Borrowed(plain));
        }
        let mut text = plain.to_owned();
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(Cow::Owned(text));
                }
                Some(b'\\') => text.push(self.escape()?),
                Some(_) => return Err(self.fault(JsonFault::ControlCharacter)),
                None => return Err(self.fault(JsonFault::EndOfText)),
            }
            text.push_str(self.plain());
        }
    }

    /// What of a string stands for itself.
    fn plain(&mut self) -> &'t str {
        let start = self.at;
        self.skip_while(|byte| PLAIN[usize::from(byte)]);
        self.since(start)
    }

    fn escape(&mut self) -> Result<char, JsonError> {
        let start = self.at;
        self.at += 1;
        let character = match self.peek() {
            Some(byte @ (b'"' | b'\\' | b'/')) => char::from(byte),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode_escape(start),
            Some(_) => return Err(JsonFault::BadEscape.at(start)),
            None => return Err(self.fault(JsonFault::EndOfText)),
        };
        self.at += 1;
        Ok(character)
    }

    /// `\uXXXX`, or two of them for a character beyond U+FFFF.
    fn unicode_escape(&mut self, start: usize) -> Result<char, JsonError> {
        let unit = self.code_unit(start)?;
        let code = match unit {
            0xd800..=0xdbff if self.peek() == Some(b'\\') => {
                let second = self.at;
                self.at += 1;
                if self.peek() != Some(b'u') {
                    return Err(JsonFault::LoneSurrogate.at(start));
                }
                let low = self.code_unit(second)?;
                if !matches!(low, 0xdc00..=0xdfff) {
                    return Err(JsonFault::LoneSurrogate.at(start));
                }
                0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00)
            }
            _ => unit,
        };
        char::from_u32(code).ok_or(JsonFault::LoneSurrogate.at(start))
    }

    /// The 4 digits behind the `u` that the reader stands at.
    fn code_unit(&mut self, start: usize) -> Result<u32, JsonError> {
        self.at += 1;
        let mut unit = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|byte| char::from(byte).to_digit(16));
            unit = unit << 4 | digit.ok_or(JsonFault::BadEscape.at(start))?;
            self.at += 1;
        }
        Ok(unit)
    }

    fn number(&mut self) -> Result<Number<'t>, JsonError> {
        let start = self.at;
        let malformed = JsonFault::BadNumber.at(start);
        let negative = self.take(b'-');
        let whole = self.digits();
        if whole.is_empty() || (whole.starts_with('0') && whole.len() > 1) {
            return Err(malformed);
        }
        let mut fraction = "";
        if self.take(b'.') {
            fraction = self.digits();
            if fraction.is_empty() {
                return Err(malformed);
            }
        }
        let mut exponent = "";
        if self.take(b'e') || self.take(b'E') {
            let signed = self.at;
            let _ = self.take(b'+') || self.take(b'-');
            if self.digits().is_empty() {
                return Err(malformed);
            }
            exponent = self.since(signed);
        }
        let text = self.since(start);
        Number::new(text, negative, whole, fraction, exponent).map_err(|why| why.at(start))
    }

    fn digits(&mut self) -> &'t str {
        let start = self.at;
        self.skip_while(|byte| byte.is_ascii_digit());
        self.since(start)
    }

    fn word(&mut self, word: &str, value: Json<'t>) -> Result<Json<'t>, JsonError> {
        for byte in word.bytes() {
            self.require(byte)?;
        }
        Ok(value)
    }

    fn skip_whitespace(&mut self) {
        // Mostly there is none.
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn skip_while(&mut self, class: impl Fn(u8) -> bool) {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        self.at += rest.iter().position(|&byte| !class(byte)).unwrap_or(rest.len());
    }

    /// What was read since `start`: both ends stand at ASCII characters or at the end of the text.
    fn since(&self, start: usize) -> &'t str {
        self.text.get(start..self.at).unwrap_or_default()
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let there = self.peek() == Some(byte);
        self.at += usize::from(there);
        there
    }

    fn require(&mut self, byte: u8) -> Result<(), JsonError> {
        if self.take(byte) { Ok(()) } else { Err(self.unexpected()) }
    }

    fn unexpected(&self) -> JsonError {
        self.fault(match self.peek() {
            Some(_) => JsonFault::Unexpected,
            None => JsonFault::EndOfText,
        })
    }

    const fn fault(&self, why: JsonFault) -> JsonError {
        why.at(self.at)
    }
}
