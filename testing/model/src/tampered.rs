//! The product's store behind a wrapper that drops one condition; without a mutation, the store.

use std::time::Duration;

use hapax_core::{
    Advance, AdvanceReason, EndingKind, Judgement, NewClaim, OwnState, Owner, Ownership, Record,
    RecordId, Settlement, Statement, StoreTime,
};
use hapax_store::{Claimed, MemoryData, Written};

use crate::Mutation;

/// Which write it is, where the mark may be left out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Write {
    Claim,
    TakeOver,
    Admit,
    Other,
}

/// The writes of the product's store.
#[derive(Clone, Copy)]
pub(crate) struct Tampered(pub(crate) Option<Mutation>);

impl Tampered {
    pub(crate) fn has(self, mutation: Mutation) -> bool {
        self.0 == Some(mutation)
    }

    /// Whether a write is guarded by the mark.
    pub(crate) fn guards(self, write: Write) -> bool {
        !matches!(
            (self.0, write),
            (Some(Mutation::ClaimsUnguarded), Write::Claim)
                | (Some(Mutation::TakesOverUnguarded), Write::TakeOver)
                | (Some(Mutation::AdmitsUnguarded), Write::Admit)
        )
    }

    pub(crate) fn claim(
        self,
        data: &mut MemoryData,
        claim: &NewClaim,
        again: bool,
        now: StoreTime,
    ) -> Claimed {
        let there = data.find(&claim.id, now);
        match there {
            Some(found)
                if again
                    && self.has(Mutation::TakesAnyFirstAttemptForItsOwn)
                    && found.record.attempt.number() == 1
                    && found.record.ending.is_none() =>
            {
                Claimed::Ours(Box::new(found.record))
            }
            _ => data.claim(claim, now),
        }
    }

    /// Moves a record on from what was `read` of it.
    pub(crate) fn advance(
        self,
        data: &mut MemoryData,
        read: &Record,
        mut advance: Advance,
        now: StoreTime,
    ) -> Claimed {
        match (self.0, &mut advance.reason) {
            (Some(Mutation::ClaimBelievesTheDecision), AdvanceReason::Resend { before }) => {
                *before = now.after(Duration::MAX);
            }
            (Some(Mutation::TakesOverBlindly), _) => {
                let row = data.row_mut(&advance.claim.id);
                let blind = row
                    .filter(|row| row.record.attempt == read.attempt && row.record.lease_over(now));
                if let Some(row) = blind {
                    row.record = Record { lease_end: row.record.lease_end, ..read.clone() };
                }
            }
            _ => {}
        }
        if self.has(Mutation::IntentIsNotCompared) {
            advance.claim.fingerprint = read.fingerprint;
        }
        data.advance(&advance, now)
    }

    pub(crate) fn admit(
        self,
        data: &mut MemoryData,
        by: Ownership,
        lease: Duration,
        before: Option<StoreTime>,
        now: StoreTime,
    ) -> Written {
        let before = match self.0 {
            Some(Mutation::AdmissionBelievesTheClaim) => Some(now.after(Duration::MAX)),
            _ => before,
        };
        data.admit(&by, lease, before, now)
    }

    /// Settles the attempt of `own`, as its process left it.
    pub(crate) fn settle(
        self,
        data: &mut MemoryData,
        own: &Record,
        settlement: Settlement,
        now: StoreTime,
    ) -> Written {
        let by = own.ownership();
        if let Some(row) = data.row_mut(&by.id) {
            let superseded = row.record.attempt > by.attempt;
            if superseded
                && self.has(Mutation::SettlesBesideATakeover)
                && let Ok(settled) = own.settle(&by, &settlement, now)
            {
                return Written::Done(Box::new(settled));
            }
            if self.has(Mutation::FailureIsTerminal) && row.record.ownership() == by {
                row.record.clean = true;
            }
        }
        let settlement = match settlement {
            Settlement::NotApplied { retention, .. } if self.has(Mutation::RefusalReleases) => {
                Settlement::NotApplied { every_attempt: true, retention }
            }
            settlement => settlement,
        };
        let written = data.settle(&by, settlement, now);
        self.delete_released(data, &by.id);
        written
    }

    pub(crate) fn judge(
        self,
        data: &mut MemoryData,
        judgement: &Judgement,
        holder: Option<Owner>,
        now: StoreTime,
    ) -> Written {
        let written = data.judge(judgement, holder, now);
        self.delete_released(data, &judgement.of.id);
        written
    }

    pub(crate) fn close_earlier(
        self,
        data: &mut MemoryData,
        of: &Ownership,
        closing: Owner,
        statement: &Statement,
        now: StoreTime,
    ) -> Written {
        let before = data.row_mut(&of.id).map(|row| row.record.clone());
        let written = data.close_earlier(of, closing, statement, now);
        if self.has(Mutation::ClosesWithoutCommitting)
            && let (Some(row), Some(before)) = (data.row_mut(&of.id), before)
        {
            row.record = before;
        }
        written
    }

    /// Drops what both clocks call over.
    pub(crate) fn sweep(self, data: &mut MemoryData, id: &RecordId, now: StoreTime) {
        let swept = data.sweep(now, 1);
        if swept.bodies > 0
            && self.has(Mutation::PurgesTheEndingFirst)
            && let Some(row) = data.row_mut(id)
        {
            row.record.ending = None;
        }
    }

    fn delete_released(self, data: &mut MemoryData, id: &RecordId) {
        let ending = data.row_mut(id).and_then(|row| row.record.ending);
        let released = ending.is_some_and(|ending| ending.kind == EndingKind::Released);
        if released && self.has(Mutation::ReleaseDeletes) {
            data.remove(id);
        }
    }
}

/// Whether the record is executing an attempt that it was not executing before.
pub(crate) fn was_admitted(before: Option<&Record>, after: Option<&Record>) -> bool {
    let executing =
        |record: &&Record| record.own_state == OwnState::Executing && record.ending.is_none();
    let at = |record: &Record| (record.attempt, record.owner);
    after
        .filter(executing)
        .is_some_and(|after| before.filter(executing).is_none_or(|before| at(before) != at(after)))
}
