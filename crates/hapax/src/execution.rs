//! One attempt at an effect: what it is told, and what it comes back with.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use bytes::Bytes;
use hapax_core::{Attempt, EffectId, Said, StoredResponse};

/// What an execution is told of itself.
#[derive(Clone, Debug)]
pub struct Execution {
    effect_id: EffectId,
    attempt: Attempt,
    clean: bool,
    sent: Sent,
}

impl Execution {
    pub(crate) fn new(effect_id: EffectId, attempt: Attempt, clean: bool) -> Self {
        Self { effect_id, attempt, clean, sent: Sent::default() }
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

    /// Where the execution keeps whether anything may have left this process.
    ///
    /// It begins as "may have": an execution that is cut short, by its timeout or at the end of a
    /// drain, has an unknown outcome. One that [says](Sent::set) `false` while it only prepares,
    /// and `true` before its first byte goes out, was not applied if it is cut before that.
    pub const fn sent(&self) -> &Sent {
        &self.sent
    }
}

/// Whether anything of an execution may have left this process. Clones are one.
#[derive(Clone, Debug)]
pub struct Sent(Arc<AtomicBool>);

impl Default for Sent {
    fn default() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }
}

impl Sent {
    /// Says whether anything may have left by now.
    pub fn set(&self, sent: bool) {
        self.0.store(sent, Ordering::SeqCst);
    }

    /// Whether anything may have left.
    pub fn may_have_left(&self) -> bool {
        self.0.load(Ordering::SeqCst)
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
    /// `Hapax-Outcome`, if the service sent it.
    pub said: Option<Said>,
    /// Whether the service marked it as a replay of its own.
    pub replayed: bool,
    /// What a retry may be shown of it; `None` for one that is settled by its head: over the cap,
    /// or an event stream.
    pub response: Option<StoredResponse>,
    /// `Retry-After`, for copies that share a refusal; never stored.
    pub retry_after: Option<Bytes>,
}
