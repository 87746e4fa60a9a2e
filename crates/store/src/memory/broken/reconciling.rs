//! Finding out what uncertain records came to.

use std::time::Duration;

use hapax_core::{
    EndedBy, Ending, EndingKind, Judgement, OwnState, Owner, Ownership, Proof, RunEnd, Settlement,
    Statement, StoreTime, Unprotected, Until,
};

use super::{Broken, Bug};
use crate::memory::data::Row;
use crate::{BroughtIn, Doubted, Doubts, Due, PutOff, Reconcile, Reply, TakeDue, Written};

/// As somebody would have it who looks at the attempt alone.
const RELEASED: Ending = Ending {
    kind: EndingKind::Released,
    class: None,
    status: None,
    kept: false,
    at: StoreTime::from_micros(0),
    until: Until { outcome: StoreTime::from_micros(0), tombstone: StoreTime::from_micros(0) },
    by: EndedBy::Owner,
};

impl Reconcile for Broken {
    fn doubt_abandoned(&self, limit: usize) -> Reply<'_, Doubted> {
        Box::pin(async move {
            self.write(|data, now| match self.bug {
                Some(Bug::LiveExecutionsAreDoubted) => {
                    data.doubt_abandoned(limit, now.after(Duration::from_secs(86_400)))
                }
                Some(Bug::LaterAttemptsAreNotNoticed) => {
                    let is_later = |row: &Row| row.record.attempt.number() > 1;
                    let later = data.rows.extract_if(.., |_, row| is_later(row));
                    let later = later.collect::<Vec<_>>();
                    let doubted = data.doubt_abandoned(limit, now);
                    data.rows.extend(later);
                    doubted
                }
                _ => data.doubt_abandoned(limit, now),
            })
        })
    }

    fn take_due(&self, mut take: TakeDue) -> Reply<'_, Vec<Due>> {
        Box::pin(async move {
            self.write(|data, now| {
                if self.has(Bug::DueOfAnyOperation) {
                    take.operations =
                        data.policies.values().map(|(name, _)| name.clone()).collect();
                }
                let due = data.take_due(&take, now);
                for row in data.rows.values_mut() {
                    let Some(watch) = &mut row.watch else { continue };
                    match self.bug {
                        Some(Bug::DueIsTakenTwice) => watch.held = None,
                        Some(Bug::HoldsLast) => {
                            watch.held = watch.held.map(|(holder, until)| {
                                (holder, until.after(Duration::from_secs(86_400)))
                            });
                        }
                        _ => {}
                    }
                }
                due
            })
        })
    }

    fn put_off(&self, mut put_off: PutOff) -> Reply<'_, bool> {
        Box::pin(async move {
            self.write(|data, now| {
                let watch = data.row(&put_off.of.id).and_then(|row| row.watch.as_ref());
                match (self.bug, watch.and_then(|watch| watch.held)) {
                    (Some(Bug::AnybodyPutsOff), Some((holder, _))) => put_off.holder = holder,
                    (Some(Bug::PutOffIsDueAtOnce), _) => put_off.after = Duration::ZERO,
                    _ => {}
                }
                data.put_off(&put_off, now)
            })
        })
    }

    fn judge(&self, mut judgement: Judgement, mut holder: Option<Owner>) -> Reply<'_, Written> {
        Box::pin(async move {
            self.write(|data, now| {
                let id = judgement.of.id;
                if let Some(row) = data.row_mut(&id) {
                    match self.bug {
                        Some(Bug::VerdictIgnoresTheAttempt) => {
                            judgement.of = row.record.ownership();
                            row.record.own_state = OwnState::Uncertain;
                        }
                        Some(Bug::VerdictOverwrites) => row.record.ending = None,
                        Some(Bug::VerdictIgnoresTheHold) => holder = None,
                        Some(Bug::EndingIsAnybodys) => {
                            if let Some(Ending { by: EndedBy::Verdict(token), .. }) =
                                row.record.ending
                            {
                                judgement.token = token;
                            }
                        }
                        Some(Bug::RepeatedVerdictIsRefused) if row.record.ending.is_some() => {
                            judgement.of.attempt = judgement.of.attempt.next(0);
                        }
                        _ => {}
                    }
                }
                let written = data.judge(&judgement, holder, now);
                match (self.bug, data.row_mut(&id)) {
                    (Some(Bug::VerdictForgetsTheReason), Some(row)) => {
                        row.history.iter_mut().for_each(|entry| entry.statement = None);
                    }
                    (Some(Bug::VerdictStays), Some(row)) => {
                        let record = row.record.clone();
                        data.forget_due(&record);
                    }
                    _ => {}
                }
                written
            })
        })
    }

    fn prove(&self, mut proof: Proof) -> Reply<'_, Written> {
        Box::pin(async move {
            self.write(|data, now| {
                let Some(row) = data.row_mut(&proof.of.id) else { return Written::Missing };
                match self.bug {
                    Some(Bug::ProofIsDoneTwice) if row.record.owner == proof.token => {
                        proof.token = Owner::from_bytes([9; 16]);
                    }
                    Some(Bug::ProofReplacesTheNext) => {
                        row.record.ending.get_or_insert(RELEASED);
                    }
                    Some(Bug::ProofTakesAnyIntent) => proof.fingerprint = row.record.fingerprint,
                    _ => {}
                }
                let written = data.prove(&proof, now);
                if let (Some(Bug::LateProofIsForgotten), Some(row)) =
                    (self.bug, data.row_mut(&proof.of.id))
                {
                    row.history.retain(|entry| entry.what != Proof::TOO_LATE);
                }
                written
            })
        })
    }

    fn close_earlier(
        &self,
        of: Ownership,
        closing: Owner,
        statement: Statement,
    ) -> Reply<'_, Written> {
        Box::pin(async move {
            self.write(|data, now| {
                let before = data.row(&of.id).map(|row| row.record.clone());
                let written = data.close_earlier(&of, closing, &statement, now);
                if self.has(Bug::ClosingFencesNothing)
                    && let (Some(row), Some(before)) = (data.row_mut(&of.id), before)
                {
                    row.record = before;
                }
                written
            })
        })
    }

    fn bring_in(&self, mut unprotected: Unprotected) -> Reply<'_, BroughtIn> {
        Box::pin(async move {
            self.write(|data, now| {
                let id = unprotected.claim.id;
                match self.bug {
                    Some(Bug::BroughtInReplaces) => {
                        if let Some(number) = data.index.remove(&id) {
                            data.rows.remove(&number);
                        }
                    }
                    Some(Bug::BroughtInBeginsNow) => unprotected.begun = now,
                    Some(Bug::BroughtInTwice) => {
                        unprotected.statement.reason.push_str(&now.to_string());
                    }
                    Some(Bug::RunsAreOver) => {
                        let settlement = Settlement::Unknown { observed: None };
                        let over = || RunEnd { settlement, seen: "nothing".to_owned() };
                        unprotected.end.get_or_insert_with(over);
                    }
                    _ => {}
                }
                let clean = data.row(&id).map(|row| row.record.clean);
                let brought_in = data.bring_in(&unprotected, now);
                if self.has(Bug::BesideStaysClean)
                    && let (Some(row), Some(clean)) = (data.row_mut(&id), clean)
                {
                    row.record.clean = clean;
                }
                brought_in
            })
        })
    }

    fn doubts(&self) -> Reply<'_, Vec<Doubts>> {
        Box::pin(async move {
            if !self.has(Bug::SettledAreInDoubt) {
                return self.store.doubts().await;
            }
            self.unguarded(|data, now| {
                for row in data.rows.values_mut() {
                    if row.record.own_state == OwnState::Uncertain {
                        row.record.ending = None;
                    }
                }
                data.doubts(now)
            })
        })
    }
}
