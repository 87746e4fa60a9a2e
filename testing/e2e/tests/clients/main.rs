//! Clients and proxies of other makers, with connections that break: one effect, and each client
//! ends with the first outcome.
//!
//! The clients are in `testing/e2e/clients`, as `docs/recipes` shows them. A module is a client, and
//! [`cases`] what all of them promise.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests: they block on other processes, and measure real time"
)]

mod browser;
mod call;
mod cases;
mod curl;
mod driver;
mod fetch;
mod hapax;
mod hapax_browser;
mod hapax_python;
mod hapax_typescript;
mod proxies;
mod recipes;
mod requests;
mod scene;
mod stripe;
mod stripe_node;
mod stripe_python;

use std::time::Duration;

/// What cannot take longer, on a machine that also compiles.
pub(crate) const SOON: Duration = Duration::from_secs(20);
