//! What ran without a record, because the store was not available, as it is brought in afterwards.

use crate::{
    Advance, AdvanceReason, ClaimNumber, NewClaim, Record, Settlement, State, Statement, StoreTime,
};

/// An execution without a record: what is known of it when the store is back.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Unprotected {
    /// The claim that it would have made.
    pub claim: NewClaim,
    /// When it began.
    pub begun: StoreTime,
    /// What it came to, if nothing was known of the key before.
    pub settlement: Settlement,
    /// Who noted it, and which run it was: the same text for no other one, so that it is recognised
    /// when it is brought in again.
    pub statement: Statement,
}

impl Unprotected {
    /// The word for it in the history.
    pub const WORD: &'static str = "ran-unprotected";

    /// The record of an execution whose key nobody had, before it is settled.
    pub fn record(&self, number: ClaimNumber, epoch: u32, now: StoreTime) -> Record {
        Record::new(&self.claim, number, epoch, self.begun.min(now))
    }

    /// The move of the stub of a free key to this execution.
    pub fn advance(&self, stub: &Record) -> Advance {
        let reason = AdvanceReason::Released;
        Advance { seen: stub.seen(), reason, claim: self.claim.clone() }
    }

    /// Whether a record in this state takes it as its next attempt.
    pub const fn follows(state: State) -> bool {
        matches!(state, State::Released)
    }
}
