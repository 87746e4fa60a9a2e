//! Records in an application's own transactions, through its driver, sqlx: the claim, what the
//! application writes, and the outcome commit together or not at all.
//!
//! What is legal, what it writes and how it is read is shared with the store's own writer; here
//! are the statements' way through sqlx, and the beginning and end of a transaction.

mod driver;
mod open_transaction;
mod records;
mod rules;
mod transactions;

pub use open_transaction::OpenTransaction;
pub use transactions::Transactions;
