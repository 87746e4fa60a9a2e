//! A rough estimate of the randomness in a key.
//!
//! It is built to tell counters, dates, words and filler from random identifiers, not to measure:
//! what is unforeseen pays by the alphabet it seems to be drawn from, what continues a run or repeats
//! earlier text pays next to nothing, and a date or a time pays as a whole. A truly random
//! hexadecimal key of 16 characters has 64 bits and must practically never fall below 48.

use std::cell::LazyCell;

use super::stamp;

/// Hundredths of a bit per character, by the alphabet that a segment seems to be drawn from.
mod cost {
    /// Digits: log2(10).
    pub(super) const DIGIT: u32 = 332;
    /// Hexadecimal in one case: log2(16).
    pub(super) const HEX: u32 = 400;
    /// Letters and digits in one case: log2(36).
    pub(super) const ONE_CASE: u32 = 517;
    /// Letters in both cases, and digits: log2(62).
    pub(super) const BOTH_CASES: u32 = 595;
    /// All visible ASCII: log2(94).
    pub(super) const VISIBLE: u32 = 655;
    /// A letter of what may be a word: English has 1 to 4 bits a letter.
    pub(super) const WORD: u32 = 330;
    /// A letter of a short word in a key with a date: such a key is composed, and this is a label.
    pub(super) const LABEL: u32 = 150;
    /// A separator.
    pub(super) const SEPARATOR: u32 = 100;
}

/// The shortest repeat of earlier text that counts as one. Among 16 random hexadecimal characters
/// a repeat of 3 is common (2 %), one of 4 is not (0.1 %).
const MIN_REPEAT: usize = 4;

/// The longest word that can be a label: 10 random letters have 47 bits, and alone are no key.
const LONGEST_LABEL: usize = 10;

/// How many different symbols (no letter, digit or usual separator) make a key look like drawn
/// from all visible characters, rather than composed of parts.
const RICH: u32 = 3;

/// The estimate, in bits; what is beyond `enough` is not looked for.
pub(super) fn estimate(key: &[u8], enough: u32) -> u32 {
    let rich = symbols(key) >= RICH;
    // Most random keys have no word that it would matter for.
    let dated = LazyCell::new(|| is_dated(key));
    let mut total = 0;
    let mut foreseen = 0;
    let mut repeat = 0;
    let mut segment = Segment::default();
    let mut pairs = Pairs::default();
    let mut at = 0;
    // Whether a date ends here: then a counter may follow without a separator.
    let mut behind_whole = false;
    while let Some(&byte) = key.get(at)
        && total / 100 < enough
    {
        let (before, rest) = key.split_at_checked(at).unwrap_or_default();
        if segment.left == 0 {
            segment = Segment::at_start_of(rest, || *dated);
        }
        if repeat == 0
            && let Some((length, cost)) = whole(key, at, &segment, behind_whole)
            && length > longest_repeat(key, at)
        {
            total += stretch(foreseen) + cost;
            foreseen = 0;
            behind_whole = true;
            segment.left = segment.left.saturating_sub(length);
            (at..at + length).for_each(|at| pairs.note(key, at));
            at += length;
            continue;
        }
        behind_whole = false;
        segment.left = segment.left.saturating_sub(1);

        if repeat > 0 || continues_run(before, byte) {
            foreseen += 1;
        } else {
            total += stretch(foreseen) + if rich { cost::VISIBLE } else { segment.cost(byte) };
            foreseen = 0;
        }
        // The first character of a repeat pays in full: it says where the repeat points to.
        repeat = match repeat {
            // Most texts begin with two characters that were not there before.
            0 if pairs.may_have(key, at) => match longest_repeat(key, at) {
                repeats @ MIN_REPEAT.. => repeats - 1,
                _ => 0,
            },
            0 => 0,
            _ => repeat - 1,
        };
        pairs.note(key, at);
        at += 1;
    }
    (total + stretch(foreseen)) / 100
}

/// What pays as a whole at this place, its length and its cost: a date, a time, leading zeros.
fn whole(key: &[u8], at: usize, segment: &Segment, behind_whole: bool) -> Option<(usize, u32)> {
    let (before, rest) = key.split_at_checked(at)?;
    if !rest.first()?.is_ascii_digit() {
        return None;
    }
    if let Some(stamp) = stamp::at(key, at, segment.composed) {
        return Some((stamp.length, stamp.cost));
    }
    let starts = behind_whole || !before.last().is_some_and(u8::is_ascii_digit);
    if !(segment.composed && starts) {
        return None;
    }
    let zeros = stamp::leading_zeros(rest);
    let length = u32::try_from(zeros).unwrap_or(u32::MAX);
    (zeros > 0).then(|| (zeros, stretch(length)))
}

/// Whether the key has a date or a time that is not there by chance.
fn is_dated(key: &[u8]) -> bool {
    let mut segment = Segment::default();
    (0..key.len()).any(|at| {
        if segment.left == 0 {
            segment = Segment::at_start_of(key.get(at..).unwrap_or_default(), || false);
        }
        segment.left = segment.left.saturating_sub(1);
        stamp::at(key, at, segment.composed).is_some_and(|stamp| stamp.sure)
    })
}

/// What a stretch of foreseen characters costs: two bits to say that it goes on, and the bits of
/// its length. Less for the first would hold short runs, which random digits do have, against
/// random keys.
const fn stretch(length: u32) -> u32 {
    match length.checked_ilog2() {
        Some(log) => 100 * (2 + log),
        None => 0,
    }
}

/// Whether `byte` is at least the third of a run (`aaa`) or of a sequence (`123`, `cba`).
fn continues_run(before: &[u8], byte: u8) -> bool {
    let [.., a, b] = *before else { return false };
    let step = i16::from(byte) - i16::from(b);
    step.abs() <= 1 && step == i16::from(b) - i16::from(a)
}

/// The length of the longest text that starts at `at` and has started before; it may overlap
/// itself.
fn longest_repeat(key: &[u8], at: usize) -> usize {
    let rest = key.get(at..).unwrap_or_default();
    let shared = |from: usize| {
        let earlier = key.get(from..).unwrap_or_default();
        earlier.iter().zip(rest).take_while(|(a, b)| a == b).count()
    };
    (0..at).map(shared).max().unwrap_or_default()
}

/// The pairs of characters that were there, by a hash of one in 64.
#[derive(Default)]
struct Pairs(u64);

impl Pairs {
    fn note(&mut self, key: &[u8], at: usize) {
        self.0 |= Self::bit(key, at);
    }

    /// Whether the pair that begins here may have been there.
    fn may_have(&self, key: &[u8], at: usize) -> bool {
        self.0 & Self::bit(key, at) != 0
    }

    fn bit(key: &[u8], at: usize) -> u64 {
        match key.get(at..).unwrap_or_default() {
            [a, b, ..] => 1 << (a.wrapping_mul(37).wrapping_add(*b) & 63),
            _ => 0,
        }
    }
}

/// How many different symbols there are, beside the usual separators.
fn symbols(key: &[u8]) -> u32 {
    let is_symbol = |byte: &&u8| CLASS[usize::from(**byte)] & class::SYMBOL != 0;
    key.iter().filter(is_symbol).fold(0_u128, |seen, &byte| seen | 1 << byte).count_ones()
}

/// What a byte is, in bits.
mod class {
    pub(super) const DIGIT: u8 = 1;
    pub(super) const LOWER: u8 = 2;
    pub(super) const UPPER: u8 = 4;
    pub(super) const HEX: u8 = 8;
    /// What [`symbols`](super::symbols) counts.
    pub(super) const SYMBOL: u8 = 16;
    pub(super) const ALPHANUMERIC: u8 = DIGIT | LOWER | UPPER;
}

const CLASS: [u8; 256] = {
    let mut classes = [0; 256];
    let mut character = 0_u8;
    while character < 0x80 {
        let mut class = 0;
        class |= if character.is_ascii_digit() { class::DIGIT } else { 0 };
        class |= if character.is_ascii_lowercase() { class::LOWER } else { 0 };
        class |= if character.is_ascii_uppercase() { class::UPPER } else { 0 };
        class |= if character.is_ascii_hexdigit() { class::HEX } else { 0 };
        let separator = matches!(character, b'-' | b'_' | b'.' | b':' | b'/' | b'+' | b'=');
        class |= if character.is_ascii_punctuation() && !separator { class::SYMBOL } else { 0 };
        classes[character as usize] = class;
        character += 1;
    }
    classes
};

/// What a run of letters and digits has shown so far.
#[derive(Default)]
struct Seen {
    left: usize,
    digits: usize,
    /// How often a letter follows a digit, or a digit a letter.
    changes: usize,
    last: u8,
    /// What any of them is, any behind the first, and all of them.
    any: u8,
    behind: u8,
    all: u8,
}

impl Seen {
    const fn note(&mut self, class: u8) {
        if self.left == 0 {
            self.all = class;
        } else {
            self.changes += ((self.last ^ class) & class::DIGIT) as usize;
            self.behind |= class;
            self.all &= class;
        }
        self.digits += (class & class::DIGIT) as usize;
        self.any |= class;
        self.last = class;
        self.left += 1;
    }
}

/// A maximal run of letters and digits, and what its characters cost.
#[derive(Default)]
struct Segment {
    left: usize,
    letter: u32,
    digit: u32,
    /// Whether it is a word, a number, or one and then the other.
    composed: bool,
}

impl Segment {
    fn at_start_of(rest: &[u8], dated: impl FnOnce() -> bool) -> Self {
        let mut seen = Seen::default();
        for byte in rest {
            let class = CLASS[usize::from(*byte)];
            if class & class::ALPHANUMERIC == 0 {
                break;
            }
            seen.note(class);
        }
        let Seen { left, digits, changes, any, behind, all, .. } = seen;
        let letters = left - digits;
        // "Order" is a word in one case.
        let both_cases = any & class::LOWER != 0 && behind & class::UPPER != 0;
        let hex = all & class::HEX != 0;

        let (letter, digit, composed) = if both_cases {
            (cost::BOTH_CASES, cost::BOTH_CASES, false)
        } else if changes > 0 && hex {
            (cost::HEX, cost::HEX, false)
        } else if changes <= 1 {
            let label = (1..=LONGEST_LABEL).contains(&letters) && dated();
            (if label { cost::LABEL } else { cost::WORD }, cost::DIGIT, true)
        } else {
            (cost::ONE_CASE, cost::ONE_CASE, false)
        };
        Self { left, letter, digit, composed }
    }

    const fn cost(&self, byte: u8) -> u32 {
        if byte.is_ascii_alphabetic() {
            self.letter
        } else if byte.is_ascii_digit() {
            self.digit
        } else {
            cost::SEPARATOR
        }
    }
}
