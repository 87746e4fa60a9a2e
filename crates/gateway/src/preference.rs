//! What a caller prefers (RFC 7240), as far as the operation honours it.

use std::time::Duration;

use hapax_core::InFlight;
use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::{sync::oneshot, time::sleep};

use crate::config::Prefer;

const PREFER: HeaderName = HeaderName::from_static("prefer");
const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");

/// What a caller prefers and gets.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Preference {
    /// An answer at once, or after [`wait`](Self::wait), while the operation goes on.
    pub(crate) respond_async: bool,
    /// How long it waits, within the operation's bound.
    pub(crate) wait: Option<Duration>,
}

impl Preference {
    /// The preferences in a request that are honoured. The first of each counts (RFC 7240, section
    /// 2), and what cannot be read is no preference.
    pub(crate) fn of(headers: &HeaderMap, honoured: Prefer) -> Self {
        let mut preference = Self::default();
        if honoured == Prefer::default() {
            return preference;
        }
        let lines = headers.get_all(PREFER).iter().map(HeaderValue::as_bytes);
        for member in lines.flat_map(|line| outside_quotes(line, b',')) {
            // What stands behind a semicolon are parameters of the preference.
            let token = outside_quotes(member, b';').next().unwrap_or_default();
            let mut parts = token.splitn(2, |byte| *byte == b'=').map(<[u8]>::trim_ascii);
            match (parts.next(), parts.next()) {
                // An empty value is none (RFC 7240, section 2).
                (Some(name), None | Some(b"" | b"\"\""))
                    if name.eq_ignore_ascii_case(b"respond-async") =>
                {
                    preference.respond_async = honoured.respond_async;
                }
                (Some(name), Some(value)) if name.eq_ignore_ascii_case(b"wait") => {
                    let asked = seconds(value).zip(honoured.wait);
                    let within = asked.map(|(asked, most)| asked.min(most));
                    preference.wait = preference.wait.or(within);
                }
                _ => {}
            }
        }
        preference
    }

    /// What it gets while another attempt is under way, where the policy says `usual`.
    pub(crate) fn in_flight(self, usual: InFlight) -> InFlight {
        match self.wait {
            Some(wait) if wait.is_zero() => InFlight::Conflict,
            Some(wait) => InFlight::Wait(wait),
            None if self.respond_async => InFlight::Conflict,
            None => usual,
        }
    }

    /// Ends when an execution that has begun is to be answered for without its end; never for a
    /// caller that does not want that, and never before there is one.
    pub(crate) async fn answers_early(self, begun: oneshot::Receiver<()>) {
        if !self.respond_async || begun.await.is_err() {
            return std::future::pending().await;
        }
        sleep(self.wait.unwrap_or_default()).await;
    }

    /// Says in an answer what was honoured: whoever executes waits for the end, unless it wants an
    /// answer before.
    pub(crate) fn say(self, headers: &mut HeaderMap, responded_async: bool, executed: bool) {
        if responded_async && self.respond_async {
            headers.append(PREFERENCE_APPLIED, HeaderValue::from_static("respond-async"));
        }
        if let Some(wait) = self.wait.filter(|_| !executed || self.respond_async)
            && let Ok(value) = HeaderValue::try_from(format!("wait={}", wait.as_secs()))
        {
            headers.append(PREFERENCE_APPLIED, value);
        }
    }
}

/// The parts of a field's line; a separator in a quoted string separates nothing.
fn outside_quotes(line: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let (mut quoted, mut escaped) = (false, false);
    line.split(move |byte| {
        let separates = *byte == separator && !quoted;
        quoted ^= *byte == b'"' && !escaped;
        escaped = quoted && *byte == b'\\' && !escaped;
        separates
    })
}

/// Delta-seconds, also as a quoted string.
fn seconds(value: &[u8]) -> Option<Duration> {
    let value = value.strip_prefix(b"\"").and_then(|v| v.strip_suffix(b"\"")).unwrap_or(value);
    let is_plain = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(value).ok().filter(|_| is_plain)?;
    // One that no number holds is longer than anything that is honoured.
    Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preferences_are_read_as_rfc_7240_writes_them() {
        let honoured = Prefer { respond_async: true, wait: Some(Duration::from_secs(30)) };
        let wait = |seconds| Some(Duration::from_secs(seconds));
        for (lines, respond_async, waits) in [
            (&["respond-async, wait=10"][..], true, wait(10)),
            (&["Respond-Async", "WAIT = 5"], true, wait(5)),
            (&["wait=5, wait=7"], false, wait(5)),
            (&["wait=99999999999999999999999"], false, wait(30)),
            (&["wait=\"7\"; foo=bar, lenient"], false, wait(7)),
            (&["respond-async; x=\"y\""], true, None),
            (&["wait=-1, wait=, wait, respond-async=1"], false, None),
            (&["return=minimal"], false, None),
            (&["foo=\"a, respond-async, b\""], false, None),
            (&["foo=\"a\\\"\", respond-async"], true, None),
            (&["foo=\"a;b\"; x=\"c, wait=1\", wait=2"], false, wait(2)),
            (&["respond-async="], true, None),
            (&["respond-async=\"\"; x"], true, None),
            (&[], false, None),
        ] {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(PREFER, HeaderValue::from_static(line));
            }
            let preference = Preference::of(&headers, honoured);
            assert_eq!(preference, Preference { respond_async, wait: waits }, "{lines:?}");
            assert_eq!(Preference::of(&headers, Prefer::default()), Preference::default());
        }
    }

    #[test]
    fn a_wish_goes_before_the_policy() {
        let usual = InFlight::Wait(Duration::from_secs(2));
        let of = |respond_async, wait: Option<u64>| {
            Preference { respond_async, wait: wait.map(Duration::from_secs) }.in_flight(usual)
        };
        assert_eq!(of(false, None), usual);
        assert_eq!(of(false, Some(9)), InFlight::Wait(Duration::from_secs(9)));
        assert_eq!(of(true, None), InFlight::Conflict);
        assert_eq!(of(true, Some(0)), InFlight::Conflict);
    }
}
