//! Numbers by their exact decimal value.

use std::{borrow::Cow, fmt};

use super::JsonFault;

/// A JSON number: its exact decimal value, in the one canonical spelling that it has.
///
/// `1.0`, `1`, `10e-1` are one number, and so are `-0` and `0`. The spelling is that of ECMAScript
/// (as RFC 8785 prescribes), applied to the exact digits instead of a double's: plain up to 21
/// digits before and 6 zeros behind the point, else with an exponent.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Number<'t>(Cow<'t, str>);

/// The longest exponent, in digits without leading zeros, both as read and as spelled: within
/// `i128` whatever the digits of the number add to it. No reader can make use of a longer one.
const MAX_EXPONENT_DIGITS: u32 = 37;

/// The most digits before the point, and the most zeros behind it, without an exponent.
const PLAIN_DIGITS: i128 = 21;
const PLAIN_ZEROS: i128 = 5;

impl<'t> Number<'t> {
    /// The canonical spelling: a number in JSON.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text of a whole number that is spelled without an exponent: at most 21 digits.
    pub fn as_whole(&self) -> Option<&str> {
        let digits = self.0.strip_prefix('-').unwrap_or(&self.0);
        digits.bytes().all(|byte| byte.is_ascii_digit()).then_some(&*self.0)
    }

    /// The IEEE 754 double next to it, spelled as ECMAScript does (RFC 8785, section 3.2.2.3);
    /// `None` where that is infinite, or zero and the number is not.
    pub(super) fn rounded(&self) -> Option<Number<'static>> {
        let double: f64 = self.0.parse().ok()?;
        let is_zero = double == 0.0 && &*self.0 != "0";
        if !double.is_finite() || is_zero {
            return None;
        }
        let mut buffer = ryu_js::Buffer::new();
        Some(Number(Cow::Owned(buffer.format_finite(double).to_owned())))
    }

    /// The same number with a text of its own.
    pub(super) fn into_owned(self) -> Number<'static> {
        Number(self.0.into_owned().into())
    }

    /// From a number that the grammar of RFC 8259 has accepted, and its parts: digits before the
    /// point, digits behind it, exponent with its sign; the latter two may be empty.
    pub(super) fn new(
        text: &'t str,
        negative: bool,
        whole: &str,
        fraction: &str,
        exponent: &str,
    ) -> Result<Self, JsonFault> {
        if fraction.is_empty() && exponent.is_empty() && whole.len() <= 21 {
            // An integer of this size is its own canonical spelling.
            return Ok(Self(Cow::Borrowed(if negative && whole == "0" { "0" } else { text })));
        }
        let all = [whole, fraction].concat();
        let significant = all.trim_start_matches('0');
        let digits = significant.trim_end_matches('0');
        if digits.is_empty() {
            return Ok(Self("0".into()));
        }
        // The value is 0.digits * 10^point.
        let leading_zeros = (all.len() - significant.len()) as i128;
        let point = whole.len() as i128 - leading_zeros + parse_exponent(exponent)?;
        check_exponent(point - 1)?;
        let sign = if negative { "-" } else { "" };
        Ok(Self(spell(sign, digits, point).into()))
    }
}

impl fmt::Display for Number<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn parse_exponent(text: &str) -> Result<i128, JsonFault> {
    let negative = text.starts_with('-');
    let digits = text.trim_start_matches(['+', '-']).trim_start_matches('0');
    if digits.is_empty() {
        return Ok(0);
    }
    let value: i128 = digits.parse().map_err(|_| JsonFault::ExponentTooLarge)?;
    check_exponent(if negative { -value } else { value })
}

const fn check_exponent(exponent: i128) -> Result<i128, JsonFault> {
    match exponent.unsigned_abs().checked_ilog10() {
        Some(MAX_EXPONENT_DIGITS..) => Err(JsonFault::ExponentTooLarge),
        _ => Ok(exponent),
    }
}

/// Spells 0.digits * 10^point as ECMAScript's Number::toString does, with all the digits.
fn spell(sign: &str, digits: &str, point: i128) -> String {
    let count = digits.len() as i128;
    let zeros = |n: i128| "0".repeat(usize::try_from(n).unwrap_or_default());
    let split = |at: i128| digits.split_at_checked(usize::try_from(at).unwrap_or_default());
    if count <= point && point <= PLAIN_DIGITS {
        format!("{sign}{digits}{}", zeros(point - count))
    } else if 0 < point && point <= PLAIN_DIGITS {
        let (whole, fraction) = split(point).unwrap_or_default();
        [sign, whole, ".", fraction].concat()
    } else if (-PLAIN_ZEROS..=0).contains(&point) {
        format!("{sign}0.{}{digits}", zeros(-point))
    } else {
        let (first, rest) = split(1).unwrap_or_default();
        let dot = if rest.is_empty() { "" } else { "." };
        [sign, first, dot, rest, &format!("e{:+}", point - 1)].concat()
    }
}
