//! Paths, and what a pattern of them goes with.

use super::Cow;

/// One part of a path pattern.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(in crate::config) enum Segment {
    /// Exactly this.
    Literal(Box<str>),
    /// Any one segment that is not empty, under this name.
    Parameter(Box<str>),
    /// One or more segments, whatever they are. Always the last.
    Rest,
}

impl Segment {
    /// Smaller is more special.
    pub(super) const fn rank(&self) -> u8 {
        match self {
            Self::Literal(_) => 0,
            Self::Parameter(_) => 1,
            Self::Rest => 2,
        }
    }
}

/// Whether a path is one of the pattern's.
pub(in crate::config) fn matches(mut pattern: &[Segment], path: &str) -> bool {
    let Some(path) = path.strip_prefix('/') else { return false };
    for part in path.split('/') {
        let Some((segment, rest)) = pattern.split_first() else { return false };
        let fits = match segment {
            Segment::Rest => return true,
            Segment::Parameter(_) => !part.is_empty(),
            Segment::Literal(literal) => **literal == *part,
        };
        if !fits {
            return false;
        }
        pattern = rest;
    }
    pattern.is_empty()
}

/// What a pattern leaves open of a path that it goes with, by name: the parameters, and `*` for the
/// rest.
pub(in crate::config) fn parameters<'p>(
    pattern: &'p [Segment],
    path: &'p str,
) -> Vec<(&'p str, &'p str)> {
    let mut left = path.strip_prefix('/').unwrap_or(path);
    let mut open = Vec::new();
    for segment in pattern {
        if *segment == Segment::Rest {
            open.push(("*", left));
            break;
        }
        let (part, rest) = left.split_once('/').unwrap_or((left, ""));
        if let Segment::Parameter(name) = segment {
            open.push((name, part));
        }
        left = rest;
    }
    open
}

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
