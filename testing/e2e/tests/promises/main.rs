//! The promises of hapax, shown on the built binary in front of a real upstream process.
//!
//! A module is a theme; the name of a test is a promise. Those that begin with `t01` and the like
//! show a failure shape of `docs/requirements.md`.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests: they block on other processes, and change databases behind the gateway's back"
)]

mod answers;
mod api_keys;
mod asynchronous;
mod authorization;
mod bodies;
mod body_keys;
mod browsers;
mod certificates;
mod codings;
mod copies;
mod crashes;
mod credentials;
mod crowds;
mod disk;
mod documents;
mod duplicates;
mod expiry;
mod forms;
mod hang_up;
mod intent;
mod keys;
mod kinds;
mod moments;
mod near_misses;
mod observe;
mod operating;
mod outcomes;
mod records;
mod resolve;
mod shutdown;
mod start;
mod store;
mod store_down;
mod tenants;
mod tokens;
mod told;
mod transport;
mod unkeyed;
mod unknown;
mod versions;

use std::time::Duration;

/// What cannot take longer, on a machine that also compiles.
pub(crate) const SOON: Duration = Duration::from_secs(20);
