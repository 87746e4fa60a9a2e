//! Dates, times and counters in a key: many digits that take few bits.

/// Characters that can be foreseen as a whole.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Stamp {
    /// How many characters it has.
    pub(super) length: usize,
    /// What they cost together, in hundredths of a bit.
    pub(super) cost: u32,
    /// Whether random characters practically never look like it.
    pub(super) sure: bool,
}

/// What stamps cost, in hundredths of a bit. Who guesses tries the days and hours around now first.
mod cost {
    pub(super) const DATE: u32 = 900;
    /// Hour and minute.
    pub(super) const MINUTE: u32 = 800;
    /// Hour, minute and second.
    pub(super) const SECOND: u32 = 1_000;
    pub(super) const UNIX_TIME: u32 = 1_000;
    /// At the beginning of a longer number. One random number in 2,000 begins with a valid date, so
    /// it costs the days of 131 years, log2(131 * 365), and two bits to say that it is a date.
    pub(super) const LONG_DATE: u32 = 1_760;
    /// The time behind such a date: log2(86,400).
    pub(super) const LONG_TIME: u32 = 1_640;
}

/// Seconds since 1970: 2001-01-01 to 2100-01-01.
const UNIX_SECONDS: std::ops::Range<u64> = 978_307_200..4_102_444_800;

/// The date, with a time or without, or the Unix time that starts at `at`. A number starts there;
/// without separators it has to be `composed`: a number alone, or beside one word.
pub(super) fn at(key: &[u8], at: usize, composed: bool) -> Option<Stamp> {
    let (before, rest) = key.split_at_checked(at)?;
    if before.last().is_some_and(u8::is_ascii_digit) {
        return None;
    }
    match digits(rest) {
        4 => separated(rest),
        // Also as `20261129T195300Z`, which alternates between digits and letters.
        8 if composed || matches!(rest.get(8), Some(b'T' | b't')) => {
            date(rest.first_chunk()?).then(|| with_time(rest, 8))
        }
        10 | 13 if composed && unix_time(rest) => {
            let length = digits(rest);
            Some(Stamp { length, cost: cost::UNIX_TIME, sure: true })
        }
        9.. if composed => run(rest),
        _ => None,
    }
}

/// `2026-11-29`, and its time.
fn separated(rest: &[u8]) -> Option<Stamp> {
    let [y, e, a, r, one, m, o, other, d, b] = *rest.first_chunk()?;
    let separators = one == other && b"-/._".contains(&one);
    let ends = !rest.get(10).is_some_and(u8::is_ascii_digit);
    (separators && ends && date(&[y, e, a, r, m, o, d, b])).then(|| with_time(rest, 10))
}

/// `20261129`, and what follows of the same number: a time, milliseconds, a counter.
fn run(rest: &[u8]) -> Option<Stamp> {
    if !date(rest.first_chunk()?) {
        return None;
    }
    let tail = rest.get(8..).unwrap_or_default();
    let (seconds, minutes) = (time::<6>(tail), time::<4>(tail));
    Some(match digits(rest) {
        12 if minutes => Stamp { length: 12, cost: cost::DATE + cost::MINUTE, sure: true },
        14 | 17 if seconds => Stamp { length: 14, cost: cost::DATE + cost::SECOND, sure: true },
        _ if seconds => Stamp { length: 14, cost: cost::LONG_DATE + cost::LONG_TIME, sure: false },
        _ => Stamp { length: 8, cost: cost::LONG_DATE, sure: false },
    })
}

/// The date of this length, and the time that may follow it.
fn with_time(rest: &[u8], length: usize) -> Stamp {
    let date = Stamp { length, cost: cost::DATE, sure: true };
    let behind = rest.get(length..).unwrap_or_default();
    let separator = usize::from(matches!(behind, [b'T' | b't' | b' ' | b'-' | b'_' | b':', ..]));
    let tail = behind.get(separator..).unwrap_or_default();
    let colon = |at: usize| tail.get(at) == Some(&b':');
    let part = |at: usize| tail.get(at..at + 2).unwrap_or_default();
    let (time, cost) = match digits(tail) {
        2 if colon(2) && time::<4>(&[part(0), part(3)].concat()) => {
            if colon(5) && time::<6>(&[part(0), part(3), part(6)].concat()) {
                (8, cost::SECOND)
            } else {
                (5, cost::MINUTE)
            }
        }
        4 if time::<4>(tail) => (4, cost::MINUTE),
        6 if time::<6>(tail) => (6, cost::SECOND),
        _ => return date,
    };
    let zone = match tail.get(time..).unwrap_or_default() {
        [b'Z' | b'z', next, ..] if next.is_ascii_alphanumeric() => 0,
        [b'Z' | b'z', ..] => 1,
        _ => 0,
    };
    Stamp { length: length + separator + time + zone, cost: date.cost + cost, sure: true }
}

/// The zeros in front of a number that starts here. Its last digit is none of them.
pub(super) fn leading_zeros(rest: &[u8]) -> usize {
    let zeros = rest.iter().take_while(|&&byte| byte == b'0').count();
    if zeros == digits(rest) { zeros.saturating_sub(1) } else { zeros }
}

/// Whether this is a day from 1970 to 2100, as `YYYYMMDD`.
fn date(text: &[u8; 8]) -> bool {
    let [y, e, a, r, m, o, d, b] = text;
    let (Some(year), Some(month), Some(day)) =
        (number(&[*y, *e, *a, *r]), number(&[*m, *o]), number(&[*d, *b]))
    else {
        return false;
    };
    let days = match month {
        2 => 29,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    };
    (1970..=2100).contains(&year) && (1..=days).contains(&day)
}

/// Whether this begins with a time of day of `N` digits, as `HHMM` or `HHMMSS`.
fn time<const N: usize>(text: &[u8]) -> bool {
    text.first_chunk::<N>().is_some_and(|time| {
        let mut parts = time.chunks(2).map(number);
        parts.next().flatten().is_some_and(|hour| hour < 24)
            && parts.all(|part| part.is_some_and(|part| part < 60))
    })
}

/// Whether this number, which stands alone or behind a word, is a time in seconds (10 digits) or
/// milliseconds (13).
fn unix_time(rest: &[u8]) -> bool {
    // The first 10 of 13 digits are the seconds.
    let seconds = rest.get(..10).and_then(number);
    let ends = !rest.get(digits(rest)).is_some_and(u8::is_ascii_alphanumeric);
    ends && seconds.is_some_and(|seconds| UNIX_SECONDS.contains(&seconds))
}

fn digits(text: &[u8]) -> usize {
    text.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

/// The value of up to 19 digits.
fn number(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0, |value, &byte| {
        byte.is_ascii_digit().then(|| value * 10 + u64::from(byte - b'0'))
    })
}
