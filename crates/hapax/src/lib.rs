//! Operations that take effect once, however often they are asked for.
//!
//! A handler of an axum service takes a [`Tx`]: the claim of the client's `Idempotency-Key`, the
//! handler's own rows and the stored answer commit in one transaction. A retry gets the same answer,
//! byte for byte; another request under the key is refused; a crash at any statement leaves
//! nothing behind.
//!
//! ```no_run
//! use axum::{Json, Router, http::StatusCode};
//! use hapax::{
//!     Hapax, Tx,
//!     sqlx::{SqlitePool, query},
//! };
//!
//! async fn create(mut tx: Tx, Json(item): Json<String>) -> Result<Json<i64>, StatusCode> {
//!     let insert = query("INSERT INTO orders (item) VALUES (?)").bind(item);
//!     let inserted = insert.execute(&mut *tx).await;
//!     let inserted = inserted.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
//!     Ok(Json(inserted.last_insert_rowid()))
//! }
//!
//! # async fn start() -> Result<(), Box<dyn std::error::Error>> {
//! let pool = SqlitePool::connect("sqlite:orders.db").await?;
//! let h = Hapax::sqlite(&pool).single_tenant().open().await?;
//! let app: Router = Router::new().route("/orders", h.operation("orders.create").post(create));
//! # drop(app);
//! # Ok(())
//! # }
//! ```
//!
//! A handler whose effect has several parts, some of them elsewhere, takes an [`Execution`]: what
//! each part came to is stored, and an attempt that was interrupted goes on after the last one,
//! with the same identities. Services that know nothing of hapax are protected as a whole by
//! [`OperationLayer::bracketed`], receivers of events by [`Hapax::webhook`], jobs, consumers and
//! batches by [`Hapax::once`], [`Hapax::claim`] and [`Hapax::each`].
//!
//! The repository's `docs/library.md` says what each answer of a handler means, how recovery works
//! and what SQLite's one writer asks of a handler; `GUARANTEES.md` what exactly holds.
//!
//! # Features
//!
//! None is on by default.
//!
//! | feature | brings |
//! |---|---|
//! | `axum` | [`Tx`] and [`Execution`] as arguments of axum handlers, routes that the compiler checks; `tower` |
//! | `sqlite` | records in the application's own SQLite database, through sqlx: [`Hapax::sqlite`]; `tower` |
//! | `tower` | the layer for any tower service that speaks HTTP: [`Hapax::operation`]; `http` |
//! | `http` | [`http`]: what HTTP requests and answers are to the engine, for doors of one's own |
//! | `testing` | [`testing`]: a harness that repeats, fails and kills a handler at every step |
//!
//! # The engine
//!
//! [`Hapax`] is the engine. A door turns what arrives into an [`Intent`] and hands it over with a
//! closure that produces the effect; [`Hapax::run`] claims the record, decides, executes at most
//! once at a time, settles, and answers every copy. Whatever of it waits runs in a task of its own: a
//! caller that hangs up changes nothing.
#![forbid(unsafe_code)]
#![allow(
    clippy::manual_async_fn,
    reason = "an async fn holds its arguments twice; the future of an attempt is one allocation, \
              and the usual allocators keep those up to 1 KiB ready"
)]

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
mod detached;
mod drive;
pub mod effect_secret;
mod engine;
mod executed;
mod execution;
#[doc(hidden)]
pub mod failpoints;
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
mod owners;
mod patience;
mod points;
mod poll_once;
mod prober;
mod proof;
mod protected;
mod reconcile;
mod reconciler;
mod reply_slot;
mod running;
mod settle;
#[cfg(feature = "sqlite")]
mod sqlite;
mod status;
mod step;
mod stepped;
#[cfg(feature = "testing")]
pub mod testing;
#[cfg(feature = "sqlite")]
mod transaction;
mod wait;
mod waiters;

pub use answer::{Answer, FirstOutcome};
pub use answering::Recalled;
pub use attempt::{Attempt, Sent};
pub use background::BackgroundOptions;
pub use engine::{Hapax, Options, Secrets, SecretsError};
pub use executed::{Ended, Executed, Reply};
pub use execution::{ByReturn, Execution};
pub use intent::{FingerprintAside, Intent};
pub use job::{Begun, Done, Held, NotDone, Outcome, Refusal};
#[cfg(feature = "tower")]
pub use layer::{Access, Event, NotTaken, OperationLayer, OperationService, Rejected};
pub use operation::Operation;
pub use prober::{Finding, Prober, Probing, Question};
pub use status::{OperationStatus, OutcomeStatus};
pub use step::{Called, Interrupted, Step, StepError, Upgrade};

#[cfg(feature = "axum")]
pub use crate::axum::{TakesAttempt, TakesAttemptAt};
pub use hapax_core::{
    AppliedOutcome, BodyForm, EffectId, EffectSecret, FingerprintRules, InFlight, KeyPolicy,
    KeyRules, KeySource, KeySyntax, OnUnknown, OperationName, OperationPolicy, OutcomeClass,
    OutcomeRule, OutcomeRules, Pointer, PolicyError, ProblemKind, Retention, Scope, Told, Verdict,
};

#[cfg(feature = "sqlite")]
pub use crate::{
    sqlite::{SetupError, Sqlite},
    transaction::Tx,
};
#[cfg(feature = "sqlite")]
pub use sqlx;
