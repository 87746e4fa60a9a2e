//! Keys that carry what must not be in a key: secrets and personal data.
//!
//! Keys are written to logs, traces and support tickets by everybody on the way. What is looked
//! for here is unmistakable; a random key practically never trips it.

use super::KeyError;

/// What a key carries that it must not. A canonical UUID or ULID is never suspected.
pub(super) fn find(key: &[u8]) -> Option<KeyError> {
    if is_uuid(key) || is_ulid(key) {
        None
    } else if has_secret(key) {
        Some(KeyError::Secret)
    } else if has_web_token(key) {
        Some(KeyError::WebToken)
    } else if has_email(key) {
        Some(KeyError::EmailAddress)
    } else if has_card_number(key) {
        Some(KeyError::CardNumber)
    } else {
        None
    }
}

/// 8-4-4-4-12 hexadecimal digits (RFC 9562), in either case.
fn is_uuid(key: &[u8]) -> bool {
    key.len() == 36
        && key.iter().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// 26 characters of Crockford's base 32, the first at most 7, in either case.
fn is_ulid(key: &[u8]) -> bool {
    key.len() == 26
        && matches!(key, [b'0'..=b'7', ..])
        && key.iter().all(|byte| {
            byte.is_ascii_alphanumeric()
                && !matches!(byte.to_ascii_uppercase(), b'I' | b'L' | b'O' | b'U')
        })
}

/// How the credentials of well-known services start.
const SECRET_PREFIXES: &[&[u8]] = &[
    // Stripe, and the many that took over its format.
    b"sk_live_",
    b"sk_test_",
    b"rk_live_",
    b"rk_test_",
    b"whsec_",
    // GitHub and GitLab.
    b"ghp_",
    b"gho_",
    b"ghu_",
    b"ghs_",
    b"ghr_",
    b"github_pat_",
    b"glpat-",
    // Slack.
    b"xoxa-",
    b"xoxb-",
    b"xoxp-",
    b"xoxr-",
    b"xoxs-",
    // Package registries and clouds.
    b"npm_",
    b"pypi-",
    b"dop_v1_",
    b"shpat_",
    b"sk-ant-",
    b"sk-proj-",
    b"ya29.",
    // A whole Authorization field.
    b"Bearer ",
    b"Basic ",
    b"-----BEGIN",
];

fn has_secret(key: &[u8]) -> bool {
    // So short a prefix counts at the very start only: elsewhere random keys would meet it.
    key.starts_with(b"sk_")
        || token_starts(key).any(|rest| {
            SECRET_PREFIXES.iter().any(|prefix| rest.starts_with(prefix)) || is_cloud_key(rest)
        })
}

/// An AWS access key id (20 characters) or a Google API key (39).
fn is_cloud_key(text: &[u8]) -> bool {
    let is_id = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit();
    match text {
        [b'A', b'K' | b'S', b'I', b'A', id @ ..] => leading(id, is_id) == 16,
        [b'A', b'I', b'z', b'a', key @ ..] => leading(key, is_base64url) == 35,
        _ => false,
    }
}

/// `eyJ….….…`: base64url of `{"`, and two more parts (RFC 7519).
fn has_web_token(key: &[u8]) -> bool {
    token_starts(key).filter(|rest| rest.starts_with(b"eyJ")).any(|rest| {
        let length = leading(rest, |byte| is_base64url(byte) || byte == b'.');
        let mut parts = rest.get(..length).unwrap_or_default().split(|&byte| byte == b'.');
        let header = parts.next().unwrap_or_default();
        let payload = parts.next().unwrap_or_default();
        header.len() >= 8 && payload.len() >= 2 && parts.next().is_some()
    })
}

/// `name@label.tld`, also with the `@` percent-encoded.
fn has_email(key: &[u8]) -> bool {
    starts_of(key, b"@").chain(starts_of(key, b"%40")).any(|(before, after)| {
        let named = before.last().is_some_and(|&byte| {
            byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'%' | b'+' | b'-')
        });
        let length =
            leading(after, |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'));
        let mut labels = after.get(..length).unwrap_or_default().split(|&byte| byte == b'.');
        let host = labels.next().unwrap_or_default();
        let is_tld = |label: &[u8]| leading(label, |byte| byte.is_ascii_alphabetic()) >= 2;
        named && !host.is_empty() && labels.any(is_tld)
    })
}

/// A payment card number (ISO/IEC 7812): 13 to 19 digits in one run or grouped as printed on
/// cards, with a correct check digit and a prefix and length that a known brand issues. The whole
/// run must be it, so that longer ids, and ids of other prefixes, do not trip it.
fn has_card_number(key: &[u8]) -> bool {
    let mut groups: Vec<&[u8]> = Vec::new();
    for token in key.split(|byte| !byte.is_ascii_alphanumeric()) {
        if !token.is_empty() && token.iter().all(u8::is_ascii_digit) {
            if is_card_number(token.iter().copied()) {
                return true;
            }
            groups.push(token);
        } else if is_grouped_card_number(&groups) {
            return true;
        } else {
            groups.clear();
        }
    }
    is_grouped_card_number(&groups)
}

fn is_grouped_card_number(groups: &[&[u8]]) -> bool {
    let printed: &[&[usize]] = &[&[4, 4, 4, 4], &[4, 4, 4, 4, 3], &[4, 6, 5], &[4, 6, 4]];
    printed.iter().any(|sizes| {
        groups.len() == sizes.len() && groups.iter().zip(*sizes).all(|(g, size)| g.len() == *size)
    }) && is_card_number(groups.iter().flat_map(|group| group.iter().copied()))
}

fn is_card_number(digits: impl DoubleEndedIterator<Item = u8> + Clone) -> bool {
    let length = digits.clone().count();
    let prefix = digits.clone().take(4).fold(0, |n, digit| n * 10 + u32::from(digit - b'0'));
    is_issued(prefix, length) && luhn(digits)
}

/// The first four digits and lengths in use.
const fn is_issued(prefix: u32, length: usize) -> bool {
    match prefix {
        4000..=4999 => matches!(length, 13 | 16 | 19), // Visa
        5100..=5599 | 2221..=2720 => length == 16,     // Mastercard
        3400..=3499 | 3700..=3799 => length == 15,     // American Express
        3000..=3059 | 3095 | 3600..=3699 | 3800..=3999 => length == 14, // Diners Club
        6011 | 6440..=6599 => matches!(length, 16 | 19), // Discover
        3528..=3589 => matches!(length, 16..=19),      // JCB
        6200..=6299 => matches!(length, 16..=19),      // UnionPay
        _ => false,
    }
}

/// The check digit of ISO/IEC 7812-1, annex B.
fn luhn(digits: impl DoubleEndedIterator<Item = u8>) -> bool {
    let sum: u32 = digits
        .rev()
        .map(|digit| u32::from(digit - b'0'))
        .enumerate()
        .map(|(at, digit)| if at % 2 == 1 { digit * 2 - digit / 5 * 9 } else { digit })
        .sum();
    sum.is_multiple_of(10)
}

/// The rests of the key that start where a token may start: at its beginning and behind anything
/// but a letter, a digit or `_`.
fn token_starts(key: &[u8]) -> impl Iterator<Item = &[u8]> {
    let inside = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    (0..key.len())
        .filter_map(|at| key.split_at_checked(at))
        .filter(move |(before, _)| !before.last().is_some_and(inside))
        .map(|(_, rest)| rest)
}

/// What stands before and behind each occurrence of `mark`.
fn starts_of<'k>(key: &'k [u8], mark: &'k [u8]) -> impl Iterator<Item = (&'k [u8], &'k [u8])> {
    (0..key.len())
        .filter_map(|at| key.split_at_checked(at))
        .filter_map(move |(before, rest)| Some((before, rest.strip_prefix(mark)?)))
}

/// How many bytes of the class `text` starts with.
fn leading(text: &[u8], class: impl Fn(u8) -> bool) -> usize {
    text.iter().take_while(|&&byte| class(byte)).count()
}

const fn is_base64url(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}
