//! What a caller gets.

use std::{convert::Infallible, time::Duration};

use hapax_core::{Problem, StoreTime, StoredResponse};

/// What a caller gets for an attempt. `T` is the live answer of the closure that executed.
///
/// ```
/// use hapax::Answer;
///
/// fn words(answer: &Answer<&str>) -> String {
///     match answer {
///         Answer::First { live, .. } => format!("done now: {live}"),
///         Answer::Replayed { .. } => "done before".to_owned(),
///         Answer::Observed { .. } | Answer::Shared { .. } => "nothing final".to_owned(),
///         Answer::Problem(problem) => problem.detail.to_string(),
///     }
/// }
/// # let _ = words;
/// ```
#[derive(Debug)]
pub enum Answer<T> {
    /// This attempt executed; here is the live answer.
    First {
        /// What the closure handed back.
        live: T,
        /// What became of it.
        outcome: FirstOutcome,
    },
    /// The stored outcome. Authorization comes before it is shown.
    Replayed {
        /// What was stored.
        response: StoredResponse,
        /// Until when it is replayed.
        expires: StoreTime,
    },
    /// A complete answer that settled nothing: shown, marked as unresolved.
    Observed {
        /// What was observed.
        response: StoredResponse,
        /// When it is worth asking again.
        retry_after: Duration,
    },
    /// The answer of the attempt that this copy waited for, which freed the key.
    Shared {
        /// What that attempt was answered.
        response: StoredResponse,
    },
    /// Anything else.
    Problem(Problem),
}

impl Answer<Infallible> {
    /// The same answer where a live one would be possible.
    pub(crate) fn widen<T>(self) -> Answer<T> {
        match self {
            Self::First { live, .. } => match live {},
            Self::Replayed { response, expires } => Answer::Replayed { response, expires },
            Self::Observed { response, retry_after } => Answer::Observed { response, retry_after },
            Self::Shared { response } => Answer::Shared { response },
            Self::Problem(problem) => Answer::Problem(problem),
        }
    }
}

/// What became of the attempt that executed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FirstOutcome {
    /// It is stored; retries are answered from it.
    Stored {
        /// Until when it is replayed; `None` where the response was not kept.
        expires: Option<StoreTime>,
    },
    /// Nothing happened, by any attempt: the key is free for a corrected one.
    Freed,
    /// The attempt was not even claimed: the answer is that of something before.
    Untouched,
    /// It is not known whether it took effect.
    Unknown {
        /// When it is worth asking again.
        retry_after: Duration,
    },
}
