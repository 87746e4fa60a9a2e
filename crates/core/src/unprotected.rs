//! What ran without a record, because the store was not available, as it is brought in afterwards.

use crate::{
    Advance, AdvanceReason, AppliedOutcome, ClaimNumber, Judgement, NewClaim, OutcomeClass, Record,
    Ruling, Settlement, State, Statement, StoreTime,
};

/// An execution without a record: what is known of it when the store is back.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Unprotected {
    /// The claim that it would have made. Its owner is a token of this run alone.
    pub claim: NewClaim,
    /// When it began.
    pub begun: StoreTime,
    /// What it came to; `None` while it may be under way.
    pub end: Option<RunEnd>,
    /// Who noted it, and which run it was: the same text for no other one, so that it is recognised
    /// when it is brought in again.
    pub statement: Statement,
}

/// What an execution without a record came to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RunEnd {
    /// What that is, if nothing was known of the key before.
    pub settlement: Settlement,
    /// The same in words, for the history.
    pub seen: String,
}

/// What the end of an execution without a record does to the record of its key.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Concluded {
    /// The record is its own, and is settled.
    Settle,
    /// The key was freed, and the effect exists: it is taken for this.
    Follow,
    /// The record's outcome was unknown, and this is it: the success speaks for the effect id.
    Judge(Box<Judgement>),
    /// Another attempt executes. Its end has to be known before the success can be told.
    Later,
    /// What the store knows stands.
    Stands,
}

impl Unprotected {
    /// The word for it in the history.
    pub const WORD: &'static str = "ran-unprotected";

    /// The word for its end in the history.
    pub const ENDED: &'static str = "ended-unprotected";

    /// The record of an execution whose key nobody had, before it is settled. While it may be under
    /// way it has a lease like any other.
    pub fn record(&self, number: ClaimNumber, epoch: u32, now: StoreTime) -> Record {
        let record = Record::new(&self.claim, number, epoch, self.begun.min(now));
        match self.end {
            Some(_) => record,
            None => Record { lease_end: Some(now.after(self.claim.lease)), ..record },
        }
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

    /// A record beside which it ran. An effect may be there that the record's own attempts know
    /// nothing of, so a refusal of theirs is not final and frees nothing (`protocol.md` 8).
    pub fn beside(&self, there: &Record, now: StoreTime) -> Record {
        let proven = self
            .end
            .as_ref()
            .is_some_and(|end| matches!(end.settlement, Settlement::NotApplied { .. }));
        let open = matches!(there.state(now), State::Executing | State::Uncertain);
        Record { clean: there.clean && (proven || !open), ..there.clone() }
    }

    /// What its end does to the record of its key, beside which it was noted.
    pub fn conclude(&self, there: &Record, end: &RunEnd, now: StoreTime) -> Concluded {
        if there.owner == self.claim.owner && there.ending.is_none() {
            return Concluded::Settle;
        }
        let Settlement::Outcome { class, status, response, retention } = &end.settlement else {
            return Concluded::Stands;
        };
        if *class != OutcomeClass::Succeeded {
            return Concluded::Stands;
        }
        match there.state(now) {
            State::Released => Concluded::Follow,
            State::Claimed | State::Executing => Concluded::Later,
            State::Uncertain => {
                let (class, status, response) = (*class, *status, response.clone());
                Concluded::Judge(Box::new(Judgement {
                    token: self.claim.owner,
                    of: there.ownership(),
                    ruling: Ruling::Applied(AppliedOutcome { class, status, response }),
                    retention: *retention,
                    statement: self.ended(end),
                }))
            }
            State::Succeeded | State::FailedTerminal | State::Tombstone => Concluded::Stands,
        }
    }

    /// What the history says of its end.
    pub fn ended(&self, end: &RunEnd) -> Statement {
        let Statement { actor, reason } = &self.statement;
        Statement { actor: actor.clone(), reason: format!("{reason}: {}", end.seen) }
    }
}
