//! Statements and rows through sqlx.

use std::time::Duration;

use hapax_store::StoreError;
use sqlx::{Error, Row, Sqlite, query::Query, sqlite::SqliteArguments, sqlite::SqliteRow};

use crate::sqlite::{
    error::Failure,
    rows::Columns,
    writes::{Value, Write},
};

/// SQLite's own result codes.
mod code {
    pub(super) const ERROR: i32 = 1;
    pub(super) const BUSY: i32 = 5;
    pub(super) const LOCKED: i32 = 6;
    pub(super) const READ_ONLY: i32 = 8;
    pub(super) const CORRUPT: i32 = 11;
    pub(super) const FULL: i32 = 13;
    pub(super) const CONSTRAINT: i32 = 19;
    pub(super) const NOT_A_DATABASE: i32 = 26;
}

/// How long another process's lock is waited for: the connection's busy timeout.
pub(super) const LOCK_WAIT: Duration = Duration::from_secs(1);

impl Columns for SqliteRow {
    type Error = Error;

    fn integer(&self, column: usize) -> Result<Option<i64>, Error> {
        self.try_get(column)
    }

    fn blob(&self, column: usize) -> Result<Option<&[u8]>, Error> {
        self.try_get(column)
    }

    fn text(&self, column: usize) -> Result<Option<&str>, Error> {
        self.try_get(column)
    }

    fn unreadable(column: usize, why: String) -> Error {
        Error::ColumnDecode { index: column.to_string(), source: why.into() }
    }
}

/// A statement with its values.
pub(super) fn statement<'v>(
    sql: &'static str,
    values: impl IntoIterator<Item = Value<'v>>,
) -> Query<'v, Sqlite, SqliteArguments> {
    values.into_iter().fold(sqlx::query(sql), |query, value| match value {
        Value::Null => query.bind(None::<i64>),
        Value::Integer(number) => query.bind(number),
        Value::Bytes(bytes) => query.bind(bytes.into_owned()),
        Value::Text(text) => query.bind(text),
    })
}

impl<'a> Write<'a> {
    pub(super) fn statement(self) -> Query<'a, Sqlite, SqliteArguments> {
        statement(self.sql, self.values)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match &error {
            Error::ColumnDecode { .. } | Error::Decode(_) | Error::ColumnNotFound(_) => {
                Self::Unreadable(format!("a row cannot be read: {error}"))
            }
            _ => Self::Transaction(store_error(&error)),
        }
    }
}

/// What a failed statement means. Its transaction is rolled back, so nothing of it is written.
pub(super) fn store_error(error: &Error) -> StoreError {
    match primary_code(error) {
        Some(code::BUSY | code::LOCKED) => StoreError::Locked(LOCK_WAIT),
        Some(code::FULL) => StoreError::Full,
        Some(code::READ_ONLY) => StoreError::ReadOnly,
        Some(code::CORRUPT | code::NOT_A_DATABASE) => {
            StoreError::Corrupt { reason: error.to_string() }
        }
        _ => StoreError::Unavailable { reason: error.to_string() },
    }
}

/// What a failed COMMIT means.
///
/// SQLite checks constraints before it writes, and writes the page that makes a transaction count
/// last: one for which there was no room, or no lock, does not count. An I/O error may come after
/// it.
pub(super) fn commit_error(error: &Error) -> StoreError {
    match primary_code(error) {
        Some(code::CONSTRAINT) => StoreError::Constraint { reason: error.to_string() },
        // There is no transaction, or not the savepoint of one inside.
        Some(code::ERROR) => StoreError::EndedElsewhere,
        Some(code::BUSY | code::LOCKED | code::FULL | code::READ_ONLY) => store_error(error),
        _ => StoreError::AnswerLost { reason: error.to_string() },
    }
}

/// What it means that the transaction's savepoint cannot be used.
pub(super) fn savepoint_error(error: &Error) -> StoreError {
    match primary_code(error) {
        Some(code::ERROR) => StoreError::EndedElsewhere,
        _ => store_error(error),
    }
}

fn primary_code(error: &Error) -> Option<i32> {
    let extended = error.as_database_error()?.code()?.parse::<i32>().ok()?;
    Some(extended & 0xff)
}
