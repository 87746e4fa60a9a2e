//! What can go wrong with a store, and whether the write may have happened.

use std::time::Duration;

use thiserror::Error;

/// A store's failure. Each says whether the write behind it may have happened.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum StoreError {
    /// Nothing was written: the store could not be reached or refused.
    #[error("the store is not available: {reason}")]
    Unavailable {
        /// The cause, for the operator.
        reason: String,
    },
    /// Nothing was written: another process, or an open transaction of this one, held the store's
    /// lock for too long.
    #[error(
        "the store stayed locked for {0:?}, by another process or an open transaction of this one"
    )]
    Locked(Duration),
    /// Nothing was written: no space left.
    #[error("the store's disk is full; free space on it")]
    Full,
    /// Nothing was written: the file or directory cannot be written.
    #[error("the store cannot be written; check the permissions of its file and directory")]
    ReadOnly,
    /// Nothing was written: the store is damaged.
    #[error("the store is damaged: {reason}; restore it from a backup")]
    Corrupt {
        /// The cause, for the operator.
        reason: String,
    },
    /// Nothing was written: the store lost history, or is not the one this node opened.
    #[error("the store has lost history: {reason}; restart this node once that is understood")]
    Regressed {
        /// What was noticed.
        reason: String,
    },
    /// Nothing was written: a constraint of the application's tables does not hold. Its own
    /// statements are the reason, so the same work fails again.
    #[error("the transaction breaks a constraint and was rolled back: {reason}")]
    Constraint {
        /// What the database said.
        reason: String,
    },
    /// It may have been written, in part: the application's transaction was over before the store
    /// came to end it.
    #[error(
        "the transaction was ended by somebody else: by a COMMIT or ROLLBACK among the \
         application's statements, which belongs to hapax alone, or by the database after an error"
    )]
    EndedElsewhere,
    /// It may have been written: the commit's answer was lost. Issue the same write again with
    /// the same owner (`protocol.md` 7).
    #[error("the answer of a commit was lost: {reason}")]
    AnswerLost {
        /// The cause, for the operator.
        reason: String,
    },
}

/// Whether the write behind a failure may have happened.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Certainty {
    /// It did not.
    NotWritten,
    /// It may have.
    MayBeWritten,
}

impl StoreError {
    /// Whether the write may have happened.
    pub const fn certainty(&self) -> Certainty {
        match self {
            Self::AnswerLost { .. } | Self::EndedElsewhere => Certainty::MayBeWritten,
            _ => Certainty::NotWritten,
        }
    }
}
