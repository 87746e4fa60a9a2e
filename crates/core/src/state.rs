//! The states of a record, and every step between them: [`State::on`] is the whole table.

use thiserror::Error;

/// The state of a record as a whole: what its own row and the ending of its attempt come to.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum State {
    /// Intent reserved, effect not admitted.
    Claimed,
    /// One attempt may be producing the effect.
    Executing,
    /// A stub: nothing happened; it keeps the attempt number.
    Released,
    /// The effect happened; the outcome is stored.
    Succeeded,
    /// A stable failure is stored.
    FailedTerminal,
    /// The effect may exist.
    Uncertain,
    /// The outcome's retention is over; identity, class and times stay.
    Tombstone,
}

/// What can happen to a record.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Event {
    /// The effect may begin.
    Admit,
    /// The effect exists.
    Succeed,
    /// A stable failure that a retry is shown again.
    FailTerminal,
    /// Nothing happened by any admitted attempt.
    NotApplied,
    /// It is not known what happened: a crash, a lost answer, a lease that ran out.
    Doubt,
    /// The next claimant continues with the next attempt.
    TakeOver,
    /// A permitted second execution under the same effect id.
    Resend,
    /// The continuation of an execution whose steps account for every effect.
    Resume,
    /// A later attempt that executes nothing closes the earlier ones, to learn what they came to.
    Close,
    /// Proof that the effect exists, of a record that was freed because it was said not to.
    Prove,
    /// The retention of what is stored is over.
    Expire,
}

impl State {
    /// The whole table of legal steps.
    ///
    /// # Errors
    /// [`IllegalTransition`] for a step that the table does not have.
    pub fn on(self, event: Event) -> Result<Self, IllegalTransition> {
        use Event as E;
        Ok(match (self, event) {
            (Self::Claimed, E::Admit) => Self::Executing,
            (Self::Claimed | Self::Released, E::TakeOver) => Self::Claimed,
            (Self::Claimed | Self::Executing | Self::Uncertain, E::NotApplied) => Self::Released,
            (Self::Executing | Self::Uncertain, E::Succeed) => Self::Succeeded,
            (Self::Executing | Self::Uncertain, E::FailTerminal) => Self::FailedTerminal,
            (Self::Claimed | Self::Executing | Self::Uncertain, E::Doubt) => Self::Uncertain,
            (Self::Uncertain, E::Resend | E::Resume) => Self::Claimed,
            (Self::Uncertain, E::Close) => Self::Uncertain,
            (Self::Released, E::Prove) => Self::Succeeded,
            (Self::Succeeded | Self::FailedTerminal, E::Expire) => Self::Tombstone,
            (state, event) => return Err(IllegalTransition { state, event }),
        })
    }
}

/// A step that the table of states does not have.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
#[error("a record that is {state:?} takes no {event:?}")]
pub struct IllegalTransition {
    /// Where the record is.
    pub state: State,
    /// What was to happen.
    pub event: Event,
}
