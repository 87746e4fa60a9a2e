//! Paths, and what a pattern of them goes with.

use super::{Cow, Segment};

/// Whether some path is one of both patterns.
pub(in crate::config) fn overlap(one: &[Segment], other: &[Segment]) -> bool {
    use Segment::{Literal, Parameter, Rest};
    for (a, b) in one.iter().zip(other) {
        match (a, b) {
            (Rest, _) | (_, Rest) => return true,
            (Literal(a), Literal(b)) if a != b => return false,
            (Literal(literal), Parameter(_)) | (Parameter(_), Literal(literal))
                if literal.is_empty() =>
            {
                return false;
            }
            _ => {}
        }
    }
    one.len() == other.len()
}

/// Whether every path of `inner` is one of `outer`.
pub(in crate::config) fn contains(outer: &[Segment], inner: &[Segment]) -> bool {
    use Segment::{Literal, Parameter, Rest};
    for (outer, inner) in outer.iter().zip(inner) {
        match (outer, inner) {
            (Rest, _) => return true,
            (Literal(a), Literal(b)) if a == b => {}
            (Parameter(_), Literal(literal)) if !literal.is_empty() => {}
            (Parameter(_), Parameter(_)) => {}
            _ => return false,
        }
    }
    outer.len() == inner.len()
}

/// The path in its one spelling: percent-encoded only what has to be, in upper-case digits.
pub(in crate::config) fn normalised(path: &str) -> Cow<'_, str> {
    if !path.contains('%') {
        return Cow::Borrowed(path);
    }
    let mut parts = path.split('%');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_at_checked(2).map(|(hex, rest)| (u8_from_hex(hex), hex, rest)) {
            Some((Some(byte), _, rest)) if is_unreserved(byte) => {
                out.push(char::from(byte));
                out.push_str(rest);
            }
            Some((Some(_), hex, rest)) => {
                out.push('%');
                out.push_str(&hex.to_ascii_uppercase());
                out.push_str(rest);
            }
            // No encoding at all: it stays what it is.
            _ => {
                out.push('%');
                out.push_str(part);
            }
        }
    }
    Cow::Owned(out)
}

/// The byte of two hexadecimal digits.
pub(super) fn u8_from_hex(hex: &str) -> Option<u8> {
    let digits = hex.len() == 2 && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
    if digits { u8::from_str_radix(hex, 16).ok() } else { None }
}

/// Characters that mean the same with and without encoding (RFC 3986, section 2.3).
const fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}
