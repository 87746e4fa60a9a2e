//! SQL stores of hapax.
//!
//! [`SqliteStore`] keeps records in one SQLite file: the embedded store, for one machine. Several
//! processes may share the file.
//!
//! With the feature `sqlx`, `Transactions` keeps records in an application's own transactions on
//! the same file: what it writes, the record and the stored response commit together or not at all.
#![forbid(unsafe_code)]

mod sqlite;
pub mod telemetry;

#[cfg(feature = "faults")]
pub use sqlite::Fault;
pub use sqlite::{OpenError, SqliteConfig, SqliteStore};
#[cfg(feature = "sqlx")]
pub use sqlite::{OpenTransaction, Transactions};
