//! A client that retries safely: one key for one intent, kept until the outcome is known.
//!
//! An [`Intent`] owns its key before the first attempt and cannot be changed. A [`Client`] sends it
//! until its outcome is known, as far as its [`Policy`] and a [`Budget`] go, and tells one of three
//! things: the answer, a refusal, or that the outcome is unknown ([`Outcome`]).
//!
//! ```no_run
//! use hapax_client::{Client, Intent, Outcome, Policy};
//!
//! # async fn pay() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::new(Policy::default())?;
//! let intent = Intent::post("https://api.example/payments".parse()?)
//!     .json(&serde_json::json!({ "amount": 1200, "currency": "EUR" }))?
//!     .build()?;
//! match client.send(intent).await? {
//!     Outcome::Done(done) => println!("{} {:?}", done.response.status(), done.response.body()),
//!     Outcome::Refused(refused) if refused.why.ended_before() => println!("{}", refused.why),
//!     Outcome::Refused(refused) => println!("nothing happened: {}", refused.why),
//!     // It may have happened. Keep it, and find out later; never make a new intent of it.
//!     Outcome::Unknown(operation) => println!("not known yet: {}", operation.why),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! What is sent again, and when, is decided by one state machine without clock, randomness and
//! network: [`course::Course`].
#![forbid(unsafe_code)]

mod attempt;
mod backoff;
mod budget;
pub mod course;
mod drive;
mod facts;
mod heed;
#[cfg(feature = "hyper")]
mod hyper_client;
mod intent;
mod journal;
mod latency;
pub mod observation;
mod outcome;
mod policy;
mod retry_after;
mod seconds;
mod service;
mod status;

pub use hapax_core::{Key, ProblemKind};

pub use backoff::{Backoff, Jitter};
pub use budget::{Budget, Budgets, ShareOfLoad, Taken, TokenBucket};
pub use facts::facts;
pub use heed::{Heed, HeedLayer};
#[cfg(feature = "hyper")]
pub use hyper_client::{HyperService, TlsError};
pub use intent::{Intent, IntentBuilder, IntentError, KeySource, KeyStyle, UuidV7};
#[cfg(feature = "journal")]
pub use journal::SqliteJournal;
pub use journal::{Begun, Ended, Journal, JournalError};
pub use outcome::{Done, Operation, Outcome, Refusal, Refused};
pub use policy::{AttemptTimeout, Policy};
pub use retry_after::retry_after;
pub use service::{BoxError, Client, Event, Reached, SendError, Settings, Watch};
