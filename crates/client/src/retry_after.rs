//! `Retry-After` (RFC 9110, section 10.2.3).

use std::time::{Duration, SystemTime};

/// How long to wait, from the time of the answer on, as a field says it: whole seconds, or a date in
/// any of the three forms that a recipient has to know (RFC 9110, section 5.6.7). A date that is over
/// is no wait. `None` for anything else: a field that cannot be read is not there.
pub fn retry_after(value: &[u8], now: SystemTime) -> Option<Duration> {
    let text = std::str::from_utf8(value.trim_ascii()).ok()?;
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // So many digits that no number holds them are as long as it gets.
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read_and_nothing_else() {
        // Sun, 06 Nov 1994 08:49:37 GMT
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        for (value, seconds) in [
            ("0", Some(0)),
            ("120", Some(120)),
            (" 7 ", Some(7)),
            ("99999999999999999999999999", Some(u64::MAX)),
            ("Sun, 06 Nov 1994 08:49:47 GMT", Some(10)),
            ("Sunday, 06-Nov-94 08:49:47 GMT", Some(10)),
            ("Sun Nov  6 08:49:47 1994", Some(10)),
            ("Sun, 06 Nov 1994 08:49:27 GMT", Some(0)),
            ("-1", None),
            ("+1", None),
            ("1.5", None),
            ("1s", None),
            ("", None),
            ("soon", None),
            ("1, 2", None),
            ("٣", None),
        ] {
            let wait = retry_after(value.as_bytes(), now);
            assert_eq!(wait, seconds.map(Duration::from_secs), "{value:?}");
        }
        assert_eq!(retry_after(b"\xff1", now), None);
    }
}
