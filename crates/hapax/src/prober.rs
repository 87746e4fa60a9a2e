//! Asking a service what became of an effect.

use std::{pin::Pin, time::Duration};

use hapax_core::{Attempt, EffectId, RecordId, Verdict};

/// Asks the service of an operation what became of an effect, by the identity that it was given.
///
/// ```
/// use hapax::{Finding, Prober, Probing, Question, Verdict};
///
/// /// Looks into a ledger that is at hand.
/// struct Ledger;
///
/// impl Prober for Ledger {
///     fn probe(&self, question: Question) -> Probing<'_> {
///         Box::pin(async move {
///             // `SELECT … WHERE operation = question.effect_id`, and nothing was found.
///             let seen = "no entry in the ledger".to_owned();
///             Finding { verdict: Verdict::NotSeenYet, seen }
///         })
///     }
/// }
/// ```
pub trait Prober: Send + Sync {
    /// Looks, without changing anything. What is not there is [`Verdict::NotSeenYet`]: the request
    /// may still be under way. A failure to look is [`Verdict::Unknown`].
    fn probe(&self, question: Question) -> Probing<'_>;

    /// Whether [`close`](Self::close) does something.
    fn closes(&self) -> bool {
        false
    }

    /// Has the service refuse every attempt up to the one in question from now on, and tell what
    /// the earlier ones came to, in one atomic act: what is not there is [`Verdict::NotApplied`].
    fn close(&self, question: Question) -> Probing<'_> {
        let _ = question;
        Box::pin(std::future::ready(Finding::nothing("it does not close")))
    }

    /// How long one look may take. 5 s unless said otherwise.
    fn timeout(&self) -> Duration {
        Duration::from_secs(5)
    }
}

/// A look under way. Dropping it gives it up.
pub type Probing<'a> = Pin<Box<dyn Future<Output = Finding> + Send + 'a>>;

/// What is asked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Question {
    /// The record.
    pub record: RecordId,
    /// The identity that the service was given.
    pub effect_id: EffectId,
    /// The last attempt that may have been sent; for a closer, the attempt that closes.
    pub attempt: Attempt,
}

/// What a look came to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Finding {
    /// What it amounts to.
    pub verdict: Verdict,
    /// What was seen, for the record's history: nothing of the request's or the answer's content.
    pub seen: String,
}

impl Finding {
    /// Nothing was learned, for this reason.
    pub fn nothing(why: impl Into<String>) -> Self {
        Self { verdict: Verdict::Unknown, seen: why.into() }
    }
}
