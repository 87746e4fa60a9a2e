//! Percent-encoding (RFC 3986, section 2.1), byte by byte.

/// Appends what `text` spells with percent-encodings in upper case, which is the same resource by
/// RFC 3986 (section 6.2.2.1).
///
/// A text with a `%` that encodes nothing is no URI and stays as it is, to the byte: half-decoded
/// it could meet another text (`%%32%46` and `%2F`).
pub(crate) fn upper_case(text: &[u8], out: &mut Vec<u8>) {
    normalise(text, out, |_| false);
}

/// As [`upper_case`], and letters, digits and `-._~` are never encoded, which is the same resource
/// by RFC 3986 (section 6.2.2.2).
pub(crate) fn unreserved(text: &[u8], out: &mut Vec<u8>) {
    normalise(text, out, |byte| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
    });
}

/// The byte encoded by a `%` and the two digits that `behind` starts with, and the rest of it.
pub(crate) fn decode_behind(behind: &[u8]) -> Option<(u8, &[u8])> {
    let [high, low, rest @ ..] = behind else { return None };
    Some((hex(*high)? << 4 | hex(*low)?, rest))
}

fn normalise(text: &[u8], out: &mut Vec<u8>, literal: impl Fn(u8) -> bool) {
    let start = out.len();
    let mut parts = text.split(|&byte| byte == b'%');
    out.extend_from_slice(parts.next().unwrap_or_default());
    for part in parts {
        let (Some((byte, rest)), Some(digits)) = (decode_behind(part), part.get(..2)) else {
            out.truncate(start);
            return out.extend_from_slice(text);
        };
        if literal(byte) {
            out.push(byte);
        } else {
            out.push(b'%');
            out.extend(digits.iter().map(u8::to_ascii_uppercase));
        }
        out.extend_from_slice(rest);
    }
}

const fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(normal: fn(&[u8], &mut Vec<u8>), text: &str) -> String {
        let mut out = Vec::new();
        normal(text.as_bytes(), &mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    #[test]
    fn only_the_case_of_encodings_changes() {
        for (text, normal) in [
            ("/a%2fb", "/a%2Fb"),
            ("/a%7eb", "/a%7Eb"),
            ("/%zz/%2f", "/%zz/%2f"),
            ("/%2f%", "/%2f%"),
            ("/%2f%2", "/%2f%2"),
        ] {
            assert_eq!(run(upper_case, text), normal);
        }
    }

    #[test]
    fn unreserved_characters_are_decoded_and_no_others() {
        for (text, normal) in [
            ("a=%7e%41%2d", "a=~A-"),
            ("a=%2b+%20", "a=%2B+%20"),
            ("a%3db%26c%3b%25", "a%3Db%26c%3B%25"),
            ("%%32%46", "%%32%46"),
        ] {
            assert_eq!(run(unreserved, text), normal);
        }
    }
}
