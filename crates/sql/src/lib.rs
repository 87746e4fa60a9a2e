//! SQL stores of hapax.
//!
//! [`SqliteStore`] keeps records in one SQLite file: the embedded store, for one machine. Several
//! processes may share the file.
#![forbid(unsafe_code)]

mod sqlite;
pub mod telemetry;

#[cfg(feature = "faults")]
pub use sqlite::Fault;
pub use sqlite::{OpenError, SqliteConfig, SqliteStore};
