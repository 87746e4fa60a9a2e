//! The points that an attempt passes, where the harness of `testing` may disturb it. Without that
//! feature nothing is asked there, and passing one is no code.

#[cfg(not(feature = "testing"))]
mod never;
#[cfg(feature = "testing")]
mod rehearsed;

#[cfg(feature = "testing")]
pub(crate) use rehearsed::Points;

/// What a point of an attempt is.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[allow(dead_code, unreachable_pub, reason = "each feature adds some of them")]
#[non_exhaustive]
pub enum Kind {
    /// The claim of the record.
    Claim,
    /// The beginning of a `Tx`, with the claim in it.
    Begin,
    /// A service that is protected as a whole.
    Service,
    /// `Execution::pure`.
    Pure,
    /// `Execution::idempotent`.
    Idempotent,
    /// `Execution::call`.
    Call,
    /// `Execution::step`.
    Step,
    /// `Execution::finish`.
    Finish,
    /// The write that admits an execution whose first step stores nothing of its own.
    Admit,
    /// The handler of a `Tx` has answered.
    Handler,
    /// The outcome is stored.
    Settle,
    /// The transaction of a `Tx` commits, the outcome in it.
    Commit,
}

/// Where within a point.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Moment {
    /// Nothing of it is done.
    Before,
    /// That it begins is stored.
    Begun,
    /// It is done, and nothing of that is stored.
    Acted,
    /// What it came to is stored.
    Ended,
    /// It is over.
    Over,
}
