//! What an execution comes back with.

use bytes::Bytes;
use hapax_core::{Said, StoredResponse, Told};

/// What an execution came back with.
///
/// ```
/// use hapax::{Ended, Executed, Reply};
///
/// /// A service answered 204; nothing of it is to be replayed but that.
/// fn answered() -> Executed<()> {
///     let response = Some(Default::default());
///     let (said, told, retry_after) = (None, None, None);
///     let reply = Reply { status: 204, said, told, replayed: false, response, retry_after };
///     Executed { ended: Ended::Answered(reply), live: Some(()) }
/// }
/// # assert!(answered().live.is_some());
/// ```
#[derive(Debug)]
pub struct Executed<T> {
    /// How it ended.
    pub ended: Ended,
    /// The live answer for the caller, if there is one to pass on.
    pub live: Option<T>,
}

impl<T> Executed<T> {
    /// Something was sent, and no complete answer came back.
    pub(crate) const fn lost() -> Self {
        Self { ended: Ended::Lost, live: None }
    }
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

impl Ended {
    pub(crate) const fn reply_mut(&mut self) -> Option<&mut Reply> {
        match self {
            Self::Answered(reply) => Some(reply),
            Self::NeverSent | Self::Lost => None,
        }
    }
}

/// A service's answer, as far as settling needs it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Reply {
    /// The status code.
    pub status: u16,
    /// `Hapax-Outcome`, if the service sent it.
    pub said: Option<Said>,
    /// What its body says of the effect, where the operation's policy has that read
    /// ([`OutcomeRules`](hapax_core::OutcomeRules)).
    pub told: Option<Told>,
    /// Whether the service marked it as a replay of its own.
    pub replayed: bool,
    /// What a retry may be shown of it; `None` for one that is settled by its head: over the cap,
    /// or an event stream.
    pub response: Option<StoredResponse>,
    /// `Retry-After`, for copies that share a refusal; never stored.
    pub retry_after: Option<Bytes>,
}
