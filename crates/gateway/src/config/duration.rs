//! Durations as people write them.

use std::time::Duration;

use humantime::DurationError;

use super::{Fault, suggest::shown};

/// The longest duration there is: far beyond any use, and far within every clock.
const LONGEST: Duration = Duration::from_secs(100 * 365 * DAY);

/// The shortest but none at all: what timers and stores can tell apart.
const SHORTEST: Duration = Duration::from_millis(1);

const DAY: u64 = 86_400;

/// The units in which durations are written.
const UNITS: [&str; 5] = ["ms", "s", "m", "h", "d"];

/// Reads a number and a unit, or several. The example is a right value for the remedy.
pub(super) fn parse(text: &str, example: &str) -> Result<Duration, Fault> {
    let help = || format!("write a number and a unit (ms, s, m, h, d), such as {example:?}");
    let wrong = |what: String| Err(Fault::new(what, help()));
    let mut words = text.split(|c: char| !c.is_alphabetic()).filter(|word| !word.is_empty());
    match humantime::parse_duration(text) {
        // Months and years have no length, and M is easily written for minutes.
        Ok(_) if words.clone().any(|word| !UNITS.contains(&word)) => {
            let other = words.find(|word| !UNITS.contains(word)).unwrap_or_default();
            wrong(format!("{} is not a unit of time", shown(other)))
        }
        Ok(duration) if duration > LONGEST => {
            wrong(format!("{} is longer than 100 years", shown(text)))
        }
        Ok(duration) if !duration.is_zero() && duration < SHORTEST => {
            wrong(format!("{} is shorter than a millisecond", shown(text)))
        }
        Ok(duration) if !duration.subsec_nanos().is_multiple_of(1_000_000) => {
            wrong(format!("{} is no whole number of milliseconds", shown(text)))
        }
        Ok(duration) => Ok(duration),
        Err(DurationError::Empty) => wrong("the duration is empty".to_owned()),
        Err(DurationError::UnknownUnit { unit, .. }) if unit.is_empty() => {
            wrong(format!("{} has no unit of time", shown(text)))
        }
        Err(DurationError::UnknownUnit { unit, .. }) => {
            wrong(format!("{} is not a unit of time", shown(&unit)))
        }
        Err(DurationError::NumberOverflow) => wrong(format!("{} is out of any range", shown(text))),
        Err(_) => wrong(format!("{} is not a duration", shown(text))),
    }
}

/// The duration in the largest unit that shows it whole: `24h`, `30d`, `90s`, `1500ms`.
pub(crate) fn show(duration: Duration) -> String {
    const MINUTE: u64 = 60;
    const HOUR: u64 = 60 * MINUTE;
    let seconds = duration.as_secs();
    match duration.subsec_nanos() {
        0 if seconds >= 2 * DAY && seconds.is_multiple_of(DAY) => format!("{}d", seconds / DAY),
        0 if seconds >= HOUR && seconds.is_multiple_of(HOUR) => format!("{}h", seconds / HOUR),
        0 if seconds >= 2 * MINUTE && seconds.is_multiple_of(MINUTE) => {
            format!("{}m", seconds / MINUTE)
        }
        0 => format!("{seconds}s"),
        _ => format!("{}ms", duration.as_millis()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_shown_is_the_same_duration() {
        for text in ["30s", "24h", "30d", "60s", "90s", "5m", "1500ms", "1h", "2d", "25h", "0s"] {
            let duration = parse(text, "30s").expect(text);
            assert_eq!(show(duration), text);
        }
    }

    #[test]
    fn each_wrong_duration_says_why() {
        for (text, what) in [
            ("", "the duration is empty"),
            ("30", r#""30" has no unit of time"#),
            ("30 parsecs", r#""parsecs" is not a unit of time"#),
            ("soon", r#""soon" is not a duration"#),
            ("-1s", r#""-1s" is not a duration"#),
            ("1us", r#""us" is not a unit of time"#),
            ("0.1ms", r#""0.1ms" is shorter than a millisecond"#),
            ("1M", r#""M" is not a unit of time"#),
            ("30sec", r#""sec" is not a unit of time"#),
            ("1y", r#""y" is not a unit of time"#),
            ("36501d", r#""36501d" is longer than 100 years"#),
            ("99999999999999999999s", r#""99999999999999999999s" is out of any range"#),
        ] {
            let help = r#"write a number and a unit (ms, s, m, h, d), such as "30s""#;
            assert_eq!(parse(text, "30s"), Err(Fault::new(what, help)), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".*", digits in "[0-9]{0,22}(\\.[0-9]{0,22})?[a-zµ]{0,3}") {
            let _ = parse(&text, "30s");
            if let Ok(duration) = parse(&digits, "30s") {
                prop_assert_eq!(parse(&show(duration), "30s"), Ok(duration));
            }
        }
    }
}
