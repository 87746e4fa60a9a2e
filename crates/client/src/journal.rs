//! Intents that are written down before they are sent, so that a process that comes after this one
//! can go on with them.

#[cfg(feature = "journal")]
mod sqlite;

use std::{error::Error, time::SystemTime};

use hapax_core::Key;
use thiserror::Error;

#[cfg(feature = "journal")]
pub use sqlite::SqliteJournal;

use crate::{
    intent::Intent,
    outcome::{Outcome, Refused},
};

/// Where intents are kept until their outcomes are known.
///
/// Both methods may wait for a disk; they are called where that stops nobody.
pub trait Journal: Send + Sync {
    /// Writes an intent down: when this returns, it is durable. An intent that is there already stays as
    /// it is, and may have been sent.
    ///
    /// # Errors
    /// Where it cannot be written. Nothing is sent then.
    fn begin(&self, intent: &Intent) -> Result<Begun, JournalError>;

    /// Writes down how the intent of a key ended, so that it is not resumed.
    ///
    /// # Errors
    /// Where it cannot be written. It is resumed then, which is harmless.
    fn end(&self, key: &Key, ended: Ended) -> Result<(), JournalError>;
}

/// What was there of an intent when it was written down.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Begun {
    /// Nothing, or that it ended and nothing of it happened: it is sent as for the first time.
    New,
    /// It may have been sent before.
    Again {
        /// When it was made, and so its key.
        made: SystemTime,
    },
}

/// How an intent ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ended {
    /// With an answer of this status.
    Done(u16),
    /// Refused, or never sent: nothing of it happened.
    Refused,
}

impl Ended {
    /// `None` where the outcome is not known: the intent is kept.
    pub fn of(outcome: &Outcome) -> Option<Self> {
        match outcome {
            Outcome::Done(done) => Some(Self::Done(done.response.status().as_u16())),
            Outcome::Refused(Refused { why, response: Some(response), .. })
                if why.ended_before() =>
            {
                Some(Self::Done(response.status().as_u16()))
            }
            Outcome::Refused(_) => Some(Self::Refused),
            Outcome::Unknown(_) => None,
        }
    }
}

/// A journal that cannot be read or written.
#[derive(Debug, Error)]
#[error("{reason}")]
pub struct JournalError {
    reason: String,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl JournalError {
    /// An error for this reason.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), source: None }
    }

    /// With the error behind it.
    #[must_use]
    pub fn because(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }
}
