//! Idempotent operations: claim, execute, settle, answer.
//!
//! [`Hapax`] is the engine. A door (the gateway; later the tower layer and the consumers) turns
//! what arrives into an [`Intent`] and hands it over with a closure that produces the effect;
//! [`Hapax::run`] claims the record, decides, executes at most once at a time, settles, and
//! answers every copy. The work runs in a task of its own: a caller that hangs up changes nothing.
//!
//! The feature `http` adds `http`: what HTTP requests and answers are to the engine.
#![forbid(unsafe_code)]

mod answer;
mod background;
mod catch_unwind;
mod claim;
mod engine;
mod execution;
#[cfg(feature = "http")]
pub mod http;
mod intent;
pub mod metric_definitions;
mod operation;
mod reply_slot;
mod settle;
mod waiters;

pub use answer::{Answer, FirstOutcome};
pub use background::BackgroundOptions;
pub use engine::{Hapax, Options, Secrets, SecretsError};
pub use execution::{Ended, Executed, Execution, Reply, Sent};
pub use intent::Intent;
pub use operation::Operation;
