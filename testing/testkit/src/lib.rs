//! The harness of the end-to-end tests: the built binary `hapax`, a real upstream process behind
//! it, and clients in front of it.
//!
//! The tests are in `tests/promises`, by theme. They are blocking code: what runs at the same time
//! is started ([`Gateway::start`], [`Pending`]) and waited for with a bound. Nothing sleeps to give
//! something else time; order is made with gates in the upstream ([`Upstream::open`]) and with
//! [`eventually`].
//!
//! The binary is the one beside the test executable's directory, or `HAPAX_BIN`.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test harness: what it did not expect fails the test, with a message"
)]

mod answer;
mod browser;
mod client;
mod clock;
mod command;
mod disk;
mod downstream;
mod fault_proxy;
mod gateway;
pub mod history;
mod others;
mod process;
mod proxy;
mod raw;
mod scene;
mod stage;
mod tls;
mod token;
mod upstream;
mod wait;

pub use self::{
    answer::Answer,
    browser::Browser,
    client::{Pending, Request, copies, fresh_key, start},
    clock::Clock,
    command::{Ran, hapax, hapax_command, hapax_reading, run},
    disk::{Call, DiskFault, Trouble, Volume},
    downstream::Downstream,
    fault_proxy::{Counts, Fault, FaultProxy, Way},
    gateway::{Gateway, ONE_SERVICE, Serve},
    others::{Client, hapax_typescript, is_missing, node_modules},
    process::Process,
    proxy::{Proxy, ProxyKind},
    raw::Connection,
    scene::Scene,
    stage::Stage,
    tls::{Authority, Pair, TlsClient},
    token::Issuer,
    upstream::{Arrival, Asked, Effect, Upstream, UpstreamKind},
    wait::{eventually, pause, until},
};
