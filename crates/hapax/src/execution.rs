//! One attempt at an effect: what it is told, and what it comes back with.

use hapax_core::{Attempt, EffectId, OutcomeClass, Said, StoredResponse};

/// What an execution is told of itself.
#[derive(Clone, Debug)]
pub struct Execution {
    effect_id: EffectId,
    attempt: Attempt,
    clean: bool,
}

impl Execution {
    pub(crate) const fn new(effect_id: EffectId, attempt: Attempt, clean: bool) -> Self {
        Self { effect_id, attempt, clean }
    }

    /// The identity to carry downstream: the same for every attempt of this record.
    pub const fn effect_id(&self) -> EffectId {
        self.effect_id
    }

    /// The attempt's fencing number, for `Hapax-Attempt`.
    pub const fn attempt(&self) -> Attempt {
        self.attempt
    }

    /// Whether no earlier attempt can have had an effect.
    pub const fn is_clean(&self) -> bool {
        self.clean
    }
}

/// What an execution came back with.
#[derive(Debug)]
pub struct Executed<T> {
    /// How it ended.
    pub ended: Ended,
    /// The live answer for the caller, if there is one to pass on.
    pub live: Option<T>,
}

/// How an execution ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Ended {
    /// The service answered.
    Answered(Reply),
    /// Nothing left this process: the service could not be reached.
    NeverSent,
    /// Something was sent and no complete answer came back.
    Lost,
}

/// A service's answer, as far as settling needs it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Reply {
    /// The status code.
    pub status: u16,
    /// Whether it is settled by its head: over the cap, or an event stream.
    pub by_head: bool,
    /// `Hapax-Outcome`, if the service sent it.
    pub said: Option<Said>,
    /// Whether the service marked it as a replay of its own.
    pub replayed: bool,
    /// What a retry may be shown of it; `None` for one that is settled by its head.
    pub response: Option<StoredResponse>,
}

/// The words of the `result` label, and of logs.
pub(crate) const fn result_word(class: Option<OutcomeClass>) -> &'static str {
    match class {
        Some(OutcomeClass::Succeeded) => "succeeded",
        Some(OutcomeClass::FailedTerminal) => "failed_terminal",
        None => "uncertain",
    }
}
