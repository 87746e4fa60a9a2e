//! What a client got.

use std::fmt;

use bytes::Bytes;
use serde_json::Value;

/// An answer as it came over the wire.
#[derive(Clone)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The fields in order, names in lower case, values as received.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The body, without its framing.
    pub body: Bytes,
    /// The trailer fields.
    pub trailers: Vec<(String, Vec<u8>)>,
    /// Whether the message ended as it should.
    pub complete: bool,
}

impl Answer {
    /// The values of a field, as text.
    pub fn all(&self, name: &str) -> Vec<String> {
        let of_name = self.headers.iter().filter(|(field, _)| field == name);
        of_name.map(|(_, value)| String::from_utf8_lossy(value).into_owned()).collect()
    }

    /// The first value of a field, as text.
    pub fn field(&self, name: &str) -> Option<String> {
        self.all(name).into_iter().next()
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The name of the problem, if it is one of hapax's own.
    pub fn problem(&self) -> Option<String> {
        if self.field("content-type")? != "application/problem+json" {
            return None;
        }
        let problem: Value = serde_json::from_slice(&self.body).ok()?;
        Some(problem["type"].as_str()?.strip_prefix("urn:hapax:problem:")?.to_owned())
    }

    /// Whether it says of itself that it is a replay.
    pub fn is_replay(&self) -> bool {
        self.field("idempotent-replayed").as_deref() == Some("true")
    }

    /// Asserts that this is a first answer of the service, stored for retries.
    #[track_caller]
    pub fn assert_stored(&self, status: u16) -> &Self {
        assert_eq!(self.status, status, "{self:?}");
        assert!(self.complete, "{self:?}");
        assert_eq!(self.field("idempotent-replayed"), None, "{self:?}");
        self.assert_expires();
        self
    }

    /// Asserts that this is a replay of `first`: the same status and bytes, marked, with nothing
    /// that belongs to the first exchange alone.
    #[track_caller]
    pub fn assert_replays(&self, first: &Self) -> &Self {
        assert_eq!(self.status, first.status, "{self:?}\nis no replay of {first:?}");
        assert!(self.body == first.body, "other bytes: {self:?}\nis no replay of {first:?}");
        assert!(self.complete, "{self:?}");
        assert!(self.is_replay(), "{self:?}");
        assert_eq!(self.field("idempotency-expires"), first.field("idempotency-expires"));
        for replayed in ["content-type", "content-language", "location", "etag", "link"] {
            assert_eq!(self.all(replayed), first.all(replayed), "{replayed}: {self:?}");
        }
        for never in ["set-cookie", "ratelimit-remaining", "x-served-by"] {
            assert_eq!(self.field(never), None, "{never} is replayed: {self:?}");
        }
        // It has one of its own.
        let id = self.field("x-request-id");
        assert!(id.is_none() || id != first.field("x-request-id"), "{self:?}");
        self
    }

    /// Asserts that this is one of hapax's own problems, as RFC 9457 and the wire rules have it.
    #[track_caller]
    pub fn assert_problem(&self, status: u16, name: &str) -> &Self {
        assert_eq!((self.status, self.problem().as_deref()), (status, Some(name)), "{self:?}");
        let problem: Value = serde_json::from_slice(&self.body).expect("JSON");
        assert_eq!(problem["status"], status, "{self:?}");
        for member in ["title", "detail"] {
            assert!(problem[member].as_str().is_some_and(|text| !text.is_empty()), "{self:?}");
        }
        assert_eq!(self.field("cache-control").as_deref(), Some("no-store"), "{self:?}");
        assert_eq!(self.field("idempotent-replayed"), None, "{self:?}");
        assert_eq!(self.field("idempotency-expires"), None, "{self:?}");
        self
    }

    /// Asserts `Retry-After` in seconds.
    #[track_caller]
    pub fn assert_retry_after(&self, seconds: u64) -> &Self {
        let said = self.field("retry-after").and_then(|value| value.parse().ok());
        assert_eq!(said, Some(seconds), "{self:?}");
        self
    }

    /// Asserts what `Hapax-Outcome` says.
    #[track_caller]
    pub fn assert_outcome(&self, said: &str) -> &Self {
        assert_eq!(self.field("hapax-outcome").as_deref(), Some(said), "{self:?}");
        self
    }

    /// Asserts that this answer of the service settled nothing: it is marked as unknown.
    #[track_caller]
    pub fn assert_unresolved(&self, status: u16) -> &Self {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.problem(), None, "{self:?}");
        assert_eq!(self.field("idempotency-expires"), None, "{self:?}");
        self.assert_outcome("unknown");
        assert!(self.field("retry-after").is_some(), "{self:?}");
        self
    }

    /// Asserts an `Idempotency-Expires` in the form of RFC 3339, in UTC.
    #[track_caller]
    pub fn assert_expires(&self) -> &Self {
        let expires = self.field("idempotency-expires").unwrap_or_default();
        assert!(is_rfc_3339(&expires), "Idempotency-Expires {expires:?}: {self:?}");
        self
    }
}

/// `2026-01-02T03:04:05Z`, with or without a fraction.
fn is_rfc_3339(text: &str) -> bool {
    let shape = b"dddd-dd-ddTdd:dd:dd";
    let Some((whole, rest)) = text.as_bytes().split_at_checked(shape.len()) else { return false };
    let fits = |(byte, shape): (&u8, &u8)| match shape {
        b'd' => byte.is_ascii_digit(),
        other => byte == other,
    };
    let rest = rest.strip_suffix(b"Z");
    let fraction = rest.map(|rest| rest.strip_prefix(b".").unwrap_or(rest));
    whole.iter().zip(shape).all(fits)
        && fraction.is_some_and(|digits| digits.iter().all(u8::is_ascii_digit))
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}{}", self.status, if self.complete { "" } else { " (incomplete)" })?;
        for (name, value) in &self.headers {
            writeln!(f, "  {name}: {}", String::from_utf8_lossy(value))?;
        }
        let shown = self.body.split_at_checked(400).map_or(&self.body[..], |(start, _)| start);
        write!(f, "  ({} bytes) {}", self.body.len(), String::from_utf8_lossy(shown))
    }
}
