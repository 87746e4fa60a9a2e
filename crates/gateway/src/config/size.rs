//! Numbers of bytes as people write them.

use std::fmt;

use super::{Fault, suggest::shown};

/// The units, each 1,024 times the one before.
const UNITS: [(&str, u32); 4] = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("B", 0)];

/// Reads a whole number and a unit: `1MiB`.
pub(super) fn parse(text: &str, example: &str) -> Result<usize, Fault> {
    let wrong = || wrong(shown(text), example);
    let (number, shift) = UNITS
        .iter()
        .find_map(|(unit, shift)| Some((text.strip_suffix(unit)?.trim_end(), *shift)))
        .ok_or_else(wrong)?;
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let number = if digits { number.parse::<usize>().ok() } else { None };
    number.and_then(|number| number.checked_mul(1 << shift)).ok_or_else(wrong)
}

pub(super) fn wrong(shown: impl fmt::Display, example: &str) -> Fault {
    let help = format!("write a whole number and a unit (B, KiB, MiB, GiB), such as {example:?}");
    Fault::new(format!("{shown} is not a number of bytes"), help)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_exact_and_everything_else_is_refused() {
        for (text, bytes) in [
            ("0B", Some(0)),
            ("1B", Some(1)),
            ("1KiB", Some(1024)),
            ("1 MiB", Some(1 << 20)),
            ("2GiB", Some(2 << 30)),
            ("1MB", None),
            ("1", None),
            ("", None),
            ("B", None),
            ("+1B", None),
            ("-1B", None),
            ("1.5MiB", None),
            ("99999999999GiB", None),
            ("99999999999999999999999B", None),
        ] {
            assert_eq!(parse(text, "1MiB").ok(), bytes, "{text}");
        }
        assert_eq!(
            parse("1MB", "1MiB").unwrap_err().to_string(),
            "\"1MB\" is not a number of bytes\n  help: write a whole number and a unit \
             (B, KiB, MiB, GiB), such as \"1MiB\""
        );
    }
}
