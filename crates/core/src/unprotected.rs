//! What ran without a record, because the store was not available, as it is brought in afterwards.

use crate::{
    Advance, AdvanceReason, ClaimNumber, Ending, NewClaim, Record, Settlement, State, Statement,
    StoreTime, WriteRefused,
};

/// An execution without a record: what is known of it when the store is back.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Unprotected {
    /// The claim that it would have made. Its owner token is the execution's own, so that it is
    /// recognised when it is brought in again.
    pub claim: NewClaim,
    /// When it began.
    pub begun: StoreTime,
    /// What it came to, if nothing was known of the key before.
    pub settlement: Settlement,
    /// Who noted it, and what was seen.
    pub statement: Statement,
}

impl Unprotected {
    /// The word for it in the history.
    pub const WORD: &'static str = "ran-unprotected";

    /// The record of an execution whose key nobody had, before it is settled.
    pub fn record(&self, number: ClaimNumber, epoch: u32, now: StoreTime) -> Record {
        Record::new(&self.claim, number, epoch, self.begun.min(now))
    }

    /// Whether a record is this execution's.
    pub fn is_of(&self, record: &Record) -> bool {
        record.owner == self.claim.owner
    }

    /// The execution as the next attempt under the stub of a key that was free.
    ///
    /// # Errors
    /// [`WriteRefused`] when the record is no such stub.
    pub fn under_stub(
        &self,
        stub: &Record,
        epoch: u32,
        now: StoreTime,
    ) -> Result<(Record, Advance, Option<Ending>), WriteRefused> {
        let reason = AdvanceReason::Released;
        let advance = Advance { seen: stub.seen(), reason, claim: self.claim.clone() };
        let (next, superseded) = stub.advance(&advance, epoch, now)?;
        Ok((next, advance, superseded))
    }

    /// Whether a record in this state takes it as its next attempt.
    pub const fn follows(state: State) -> bool {
        matches!(state, State::Released)
    }
}
