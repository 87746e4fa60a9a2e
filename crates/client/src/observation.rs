//! What a client sees of an attempt: facts, before anything is decided.

use std::time::Duration;

use hapax_core::{ProblemKind, Said};
use serde::Deserialize;

/// What came of sending a request, or of asking for its status.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Observation {
    /// Not one byte of it reached the service: no connection, or one that was closed before.
    NeverSent {
        /// Whether trying again is in vain, as with a certificate that is not trusted.
        lasting: bool,
    },
    /// It may have reached the service, and there is no complete answer.
    Lost,
    /// A complete answer.
    Answered(Answer),
    /// What the status of the operation says.
    Status {
        /// What has become of it.
        state: OperationState,
        /// `Retry-After`, from now on.
        retry_after: Option<Duration>,
    },
}

/// The facts of an answer.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The problem of hapax that it is.
    pub problem: Option<ProblemKind>,
    /// Whether it is kept for the key: a replay (`Idempotent-Replayed: true`), or a first answer that
    /// says until when it is replayed (`Idempotency-Expires`).
    pub kept: bool,
    /// `Hapax-Outcome`.
    pub said: Option<Said>,
    /// `Retry-After`, from now on.
    pub retry_after: Option<Duration>,
    /// `Idempotency-Expires`, from now on.
    pub expires_in: Option<Duration>,
    /// Whether it names the operation's status (`Link` with `rel="status"`, RFC 8631).
    pub names_status: bool,
}

/// What an operation's status says.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub enum OperationState {
    /// It has an outcome, which the same request with the same key gets.
    Ended,
    /// Nothing happened; the same request with the same key executes.
    NotApplied,
    /// It is under way, or nobody knows yet.
    GoesOn,
    /// There was no status to be had.
    NotTold,
}
