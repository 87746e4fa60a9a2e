//! The record protocol for one key, checked in every order of events on the product's own code.
//!
//! Two gateways, the background, a service and whatever may go wrong between them are a value, the
//! `World`. What a write does, what is decided on what was found, what an answer or evidence amounts
//! to: all that is called in `hapax-core` and in the tables of the store in memory. Written here are
//! the service, the faults, and the order in which the engine issues its writes.
//!
//! [`BASES`] are the configurations in which every [`Promise`] has to hold, [`SHOWN`] are the
//! mutations: one rule each switched off by a wrapper around the product's code, never in it. What
//! each shows is a [`Rule`] of the protocol.
//!
//! **Not modelled, because it is not built:** a settle that re-inserts a lost record (6), the roll
//! call of several nodes after a change of incarnation (18), and in a regression: that every record
//! from before it is taken for executing (19), that a probe binds only with the digest of the intent
//! (19), that issued keys are new by epochs (19); everything of PostgreSQL and MySQL. They join with
//! the issues that build them.
//!
//! **Not modelled, and built:** steps and transactions of handlers, what runs while the store is
//! down, verdicts of operators, waiting copies of one process that share an answer, tombstones that
//! end, and the second clock of a prober, which is the store's here.
#![forbid(unsafe_code)]

mod action;
mod bases;
mod check;
mod look;
mod model;
mod mutation;
mod promise;
mod reconciler;
mod rule;
mod service;
mod setup;
mod tampered;
mod turn;
mod worker;
mod world;

pub use bases::{BASES, LARGER};
pub use check::{Checked, Trace, check};
pub use model::{Model, Reached};
pub use mutation::{Mutation, SHOWN, Shown};
pub use promise::Promise;
pub use rule::{RULES, Rule};
pub use setup::{Budget, Restore, ServiceKind, Setup};
