//! Gateways and services that are killed at any moment, paused past their leases, or put into
//! another time, in front of every kind of service. The histories are judged.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests: they block on other processes"
)]

mod loops;
mod paused;
mod shifted;
mod storm;

use std::time::Duration;

/// What cannot take longer, on a machine that also compiles.
pub(crate) const SOON: Duration = Duration::from_secs(20);
