//! What a store of records must do, an in-memory one, and the suite that proves it.
//!
//! A store is a set of small capabilities ([`Claims`], [`Owned`], [`Lookup`], …); [`Store`] is all
//! of them. Which write is legal and what it writes is decided by
//! [`Record`](hapax_core::Record)'s own methods; a store makes that decision atomic and durable.
//! The `conformance` feature brings the suite that every store runs, yours too.
#![forbid(unsafe_code)]

mod capability;
mod clock;
#[cfg(feature = "conformance")]
pub mod conformance;
mod error;
mod memory;
mod reconcile;

pub use capability::{
    Claimed, Claims, HistoryEntry, Inspect, ListFilter, Listed, Lookup, Observation, Observations,
    Owned, Policies, Reply, SecretPin, Secrets, Standing, StandingState, Steps, Store, Sweep,
    Swept, Written,
};
pub use clock::{Clock, ManualClock, SystemClock};
pub use error::{Certainty, StoreError};
pub use memory::{
    Anchor as MemoryAnchor, Data as MemoryData, MemorySnapshot, MemoryStore, Row as MemoryRow,
    Watch as MemoryWatch,
};
pub use reconcile::{BroughtIn, Doubted, Doubts, Due, PutOff, Reconcile, TakeDue, evidence_word};
