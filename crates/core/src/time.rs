//! Time as the store tells it.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

/// A moment on the store's clock: microseconds since the Unix epoch.
///
/// Leases and retention are judged by this clock alone; a node's own clock never decides
/// (`protocol.md` 12, 23). Arithmetic saturates, so no configured duration can overflow it.
#[derive(
    Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize,
)]
pub struct StoreTime(i64);

impl StoreTime {
    /// A moment from microseconds since the Unix epoch.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since the Unix epoch.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// How long after `earlier` this is; zero when it is not after it.
    pub fn since(self, earlier: Self) -> Duration {
        let micros = self.0.saturating_sub(earlier.0);
        Duration::from_micros(u64::try_from(micros).unwrap_or(0))
    }

    /// This moment plus `by`.
    pub fn after(self, by: Duration) -> Self {
        Self(self.0.saturating_add(micros(by)))
    }

    /// This moment minus `by`.
    pub fn before(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(micros(by)))
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

impl fmt::Display for StoreTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}us", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_instead_of_wrapping() {
        let last = StoreTime::from_micros(i64::MAX);
        assert_eq!(last.after(Duration::MAX), last);
        let first = StoreTime::from_micros(i64::MIN);
        assert_eq!(first.before(Duration::MAX), first);
        assert_eq!(first.since(last), Duration::ZERO);
    }
}
