//! Idempotent operations: claim, execute, settle, answer.
//!
//! [`Hapax`] is the engine. A door (the gateway; later the tower layer and the consumers) turns
//! what arrives into an [`Intent`] and hands it over with a closure that produces the effect;
//! [`Hapax::run`] claims the record, decides, executes at most once at a time, settles, and
//! answers every copy. The work runs in a task of its own: a caller that hangs up changes nothing.
//!
//! The feature `http` adds `http`: what HTTP requests and answers are to the engine. The feature
//! `testing` adds `testing`: a harness that repeats, fails and kills handlers at every step.
#![forbid(unsafe_code)]

mod answer;
mod answering;
mod attempt;
#[cfg(feature = "axum")]
mod axum;
mod background;
mod catch_unwind;
mod claim;
#[cfg(feature = "tower")]
mod desk;
mod drive;
pub mod effect_secret;
mod engine;
mod executed;
mod execution;
#[cfg(feature = "http")]
pub mod http;
mod intent;
mod job;
#[cfg(feature = "tower")]
mod layer;
#[cfg(feature = "sqlite")]
mod local;
pub mod metric_definitions;
mod operation;
mod points;
mod protected;
mod reply_slot;
mod running;
mod settle;
#[cfg(feature = "sqlite")]
mod sqlite;
mod step;
mod stepped;
#[cfg(feature = "testing")]
pub mod testing;
#[cfg(feature = "sqlite")]
mod transaction;
mod wait;
mod waiters;

pub use answer::{Answer, FirstOutcome};
pub use attempt::{Attempt, Sent};
pub use background::BackgroundOptions;
pub use engine::{Hapax, Options, Secrets, SecretsError};
pub use executed::{Ended, Executed, Reply};
pub use execution::{ByReturn, Execution};
pub use intent::Intent;
pub use job::{Begun, Done, Held, NotDone, Outcome, Refusal};
#[cfg(feature = "tower")]
pub use layer::{Access, Event, NotTaken, OperationLayer, OperationService, Rejected};
pub use operation::Operation;
pub use step::{Called, Interrupted, Step, StepError, Upgrade};

#[cfg(feature = "axum")]
pub use crate::axum::{TakesAttempt, TakesAttemptAt};
pub use hapax_core::{
    EffectId, EffectSecret, InFlight, OnUnknown, OperationName, OperationPolicy, OutcomeClass,
    PolicyError, ProblemKind, Retention, Scope,
};

#[cfg(feature = "sqlite")]
pub use crate::{
    sqlite::{SetupError, Sqlite},
    transaction::Tx,
};
#[cfg(feature = "sqlite")]
pub use sqlx;
