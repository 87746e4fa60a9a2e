//! The store's clock.

use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use hapax_core::StoreTime;

/// The clock that a store judges leases and retention by.
///
/// A server's store asks its server; an embedded one asks its process, and all processes on one
/// file share the machine's clock.
pub trait Clock: Send + Sync {
    /// The present moment.
    fn now(&self) -> StoreTime;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> StoreTime {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        StoreTime::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
    }
}

/// A clock that moves when told, for tests.
#[derive(Debug)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// A clock at some moment in 2026.
    pub const fn new() -> Self {
        Self(AtomicI64::new(1_780_000_000_000_000))
    }

    /// Moves it on.
    pub fn advance(&self, by: Duration) {
        let micros = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
        self.0.fetch_add(micros, Ordering::SeqCst);
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> StoreTime {
        StoreTime::from_micros(self.0.load(Ordering::SeqCst))
    }
}
