//! The store in memory with one bug in it, to show that the conformance suite notices.

use std::{collections::HashMap, sync::Arc, time::Duration};

use bytes::Bytes;
use hapax_core::{
    Admission, Advance, AdvanceReason, EndingKind, Found, NewClaim, OwnState, Ownership, Progress,
    RecordId, Seen, Settlement, StoreTime, StoredResponse, WriteRefused,
};
use parking_lot::Mutex;

use super::{Answer, Data, MemoryStore};
use crate::{Claimed, Claims, Lookup, Owned, Reply, Written};

mod bug;
mod reading;
mod reconciling;
mod stepping;
mod sweeping;

pub(crate) use bug::Bug;

pub(crate) struct Broken {
    pub(crate) store: MemoryStore,
    bug: Option<Bug>,
    cache: Arc<Mutex<HashMap<RecordId, Option<Found>>>>,
}

impl Broken {
    pub(crate) fn new(store: MemoryStore, bug: Option<Bug>) -> Self {
        Self { store, bug, cache: Arc::default() }
    }

    fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    fn write<T>(&self, write: impl FnOnce(&mut Data, StoreTime) -> T) -> Answer<T> {
        if self.has(Bug::NoMark) || self.has(Bug::MarkOnClaimsOnly) {
            return self.unguarded(write);
        }
        self.guarded(write)
    }

    fn guarded<T>(&self, write: impl FnOnce(&mut Data, StoreTime) -> T) -> Answer<T> {
        if self.has(Bug::NoMark) {
            return self.unguarded(write);
        }
        if self.has(Bug::IncarnationIsIgnored) {
            self.store.shared.data.lock().epoch = 0;
        }
        let written = self.store.write_record(|data, now| {
            if self.has(Bug::OneMarkForAll) {
                data.marks.values_mut().for_each(|mark| *mark += 1);
            }
            write(data, now)
        });
        if self.has(Bug::LostAnswerIsARegression) && written.is_err() {
            self.store.shared.data.lock().marks.values_mut().for_each(|mark| *mark += 2);
        }
        written
    }

    fn unguarded<T>(&self, write: impl FnOnce(&mut Data, StoreTime) -> T) -> Answer<T> {
        let now = self.store.shared.clock.now();
        Ok(write(&mut self.store.shared.data.lock(), now))
    }

    fn taken(&self, by: Ownership, data: &Data) -> Ownership {
        match data.row(&by.id).map(|row| row.record.ownership()) {
            Some(there) if self.has(Bug::OnlyTheIdIsCompared) => there,
            Some(there) if self.has(Bug::OwnerIsNotCompared) && there.attempt == by.attempt => {
                there
            }
            _ => by,
        }
    }

    fn claim_now(&self, claim: &NewClaim, data: &mut Data, now: StoreTime) -> Claimed {
        if self.has(Bug::NumbersAreReused) {
            data.last_claim = data.rows.last_key_value().map_or(0, |(number, _)| number.0);
        }
        let there = data.find(&claim.id, now);
        match (self.bug, there) {
            (Some(Bug::OwnClaimIsNotRecognised), Some(found)) => Claimed::Theirs(Box::new(found)),
            (Some(Bug::AnyFirstAttemptIsOwn), Some(found)) if found.record.ending.is_none() => {
                Claimed::Ours(Box::new(found.record))
            }
            (Some(Bug::ClaimReplacesTheEnded), Some(found)) if found.record.ending.is_some() => {
                data.rows.remove(&found.record.claim);
                Claimed::Ours(Box::new(data.insert(claim, now)))
            }
            _ => data.claim(claim, now),
        }
    }

    fn advance_now(&self, mut advance: Advance, data: &mut Data, now: StoreTime) -> Claimed {
        let claim = advance.claim.clone();
        let Some(row) = data.row_mut(&claim.id) else {
            return match self.bug {
                Some(Bug::AdvanceInserts) => Claimed::Ours(Box::new(data.insert(&claim, now))),
                _ => Claimed::Gone,
            };
        };
        let before = row.record.clone();
        let pretend = &mut row.record;
        match self.bug {
            Some(Bug::LiveLeaseIsIgnored) => pretend.lease_end = Some(now),
            Some(Bug::NoLeaseIsFree) if pretend.lease_end.is_none() => {
                pretend.lease_end = Some(now);
            }
            Some(Bug::AbandonedExecutionIsFree) if pretend.own_state == OwnState::Executing => {
                pretend.own_state = OwnState::Claimed;
                advance.seen = pretend.seen();
            }
            Some(Bug::AnythingIsResent)
                if matches!(advance.reason, AdvanceReason::Resend { .. }) =>
            {
                (pretend.own_state, pretend.ending) = (OwnState::Uncertain, None);
                advance.seen = pretend.seen();
            }
            Some(Bug::DoubtIsResumed) if advance.reason == AdvanceReason::Resume => {
                pretend.progress = Progress::Accounted;
                advance.seen = pretend.seen();
            }
            Some(Bug::StepPermissionLasts) => {
                pretend.progress = lasting(pretend.progress, now);
                advance.seen = pretend.seen();
            }
            Some(Bug::SeenIsIgnored | Bug::ReadThenAdvance) => advance.seen = pretend.seen(),
            Some(Bug::AnyIntentTakesOver) => advance.claim.fingerprint = pretend.fingerprint,
            Some(Bug::OwnAdvanceIsNotRecognised) if pretend.owner == claim.owner => {
                return Claimed::Theirs(Box::new(row.found(now)));
            }
            _ => {}
        }
        if let (Some(Bug::ResendPermissionLasts), AdvanceReason::Resend { before }) =
            (self.bug, &mut advance.reason)
        {
            *before = now.after(Duration::MAX);
        }
        let answer = data.advance(&advance, now);
        let Some(row) = data.row_mut(&claim.id) else { return answer };
        if !matches!(answer, Claimed::Ours(_)) {
            row.record = before;
            return answer;
        }
        match self.bug {
            Some(Bug::StubKeepsItsIntent) => row.record.fingerprint = before.fingerprint,
            Some(Bug::LaterAttemptTakesTheNewSecret) => {
                row.record.secret_version = claim.secret_version;
            }
            Some(Bug::TakeoverWithoutSlot) => {
                row.history.retain(|entry| entry.what != "superseded")
            }
            Some(Bug::ResendIsClean) => row.record.clean = true,
            Some(Bug::AdvanceForgetsSteps) => row.steps.clear(),
            Some(Bug::ResendEndsTheDoubt) => row.record.progress = Progress::Accounted,
            Some(Bug::TakeoverCleans) if advance.reason == AdvanceReason::LeaseOver => {
                row.record.clean = true;
            }
            _ => {}
        }
        Claimed::Ours(Box::new(row.record.clone()))
    }

    fn doubt_now(
        &self,
        id: &RecordId,
        seen: &Seen,
        data: &mut Data,
        now: StoreTime,
    ) -> Option<Found> {
        let row = data.row_mut(id)?;
        match self.bug {
            Some(Bug::DoubtIgnoresTheLease) => row.record.lease_end = Some(now),
            Some(Bug::DoubtsAnything) => {
                row.record.own_state = OwnState::Uncertain;
                return Some(row.found(now));
            }
            Some(Bug::NoLeaseIsFree) => {
                row.record.lease_end.get_or_insert(now);
            }
            _ => {}
        }
        data.doubt(id, seen, now)
    }

    fn admit_now(
        &self,
        by: &Ownership,
        lease: Duration,
        mut before: Option<StoreTime>,
        data: &mut Data,
        now: StoreTime,
    ) -> Written {
        if let Some(row) = data.row_mut(&by.id) {
            match (self.bug, row.record.own_state) {
                (Some(Bug::AdmissionTrustsTheClaim), _) => before = Some(now.after(Duration::MAX)),
                (Some(Bug::AdmissionIsRepeated), OwnState::Executing)
                | (Some(Bug::UncertainIsAdmitted), OwnState::Uncertain) => {
                    row.record.own_state = OwnState::Claimed;
                }
                _ => {}
            }
        }
        data.admit(by, lease, before, now)
    }

    fn renew_now(
        &self,
        by: &Ownership,
        lease: Duration,
        data: &mut Data,
        now: StoreTime,
    ) -> Written {
        let before = data.row(&by.id).map(|row| row.record.clone());
        if let (true, Some(row)) = (self.has(Bug::UncertainIsRenewed), data.row_mut(&by.id))
            && row.record.own_state == OwnState::Uncertain
        {
            row.record.own_state = OwnState::Executing;
        }
        let written = data.renew(by, lease, now);
        if let (true, Some(row)) = (self.has(Bug::RenewalIsNotStored), data.row_mut(&by.id)) {
            row.record = before.unwrap_or_else(|| row.record.clone());
        }
        written
    }

    fn settle_now(
        &self,
        by: &Ownership,
        settlement: Settlement,
        data: &mut Data,
        now: StoreTime,
    ) -> Written {
        let settlement = self.misread(settlement);
        let Some(row) = data.row_mut(&by.id) else {
            return match self.bug {
                Some(Bug::MissingIsMade) => self.make_up(by, settlement, data, now),
                _ => Written::Missing,
            };
        };
        let (before, response) = (row.record.clone(), row.response.clone());
        let steps = row.steps.clone();
        let fenced =
            |found: Found| Written::Refused { why: WriteRefused::Fenced, found: Box::new(found) };
        match self.bug {
            Some(Bug::OutcomeIsOverwritten) => row.record.ending = None,
            Some(Bug::RepeatedSettleCountsAnew) if row.record.owner == by.owner => {
                row.record.ending = None;
            }
            Some(Bug::BareClaimTakesAnOutcome) if row.record.own_state == OwnState::Claimed => {
                row.record.own_state = OwnState::Executing;
            }
            Some(Bug::FailureIgnoresDoubt) if before.progress != Progress::Whole => {
                row.record.progress = Progress::Accounted;
            }
            Some(Bug::LateSettleIsFenced) if row.record.own_state == OwnState::Uncertain => {
                return fenced(row.found(now));
            }
            Some(Bug::RepeatedSettleIsFenced) if row.record.ending.is_some() => {
                return fenced(row.found(now));
            }
            Some(Bug::SettleAfterTakeoverCounts) if row.record.attempt > by.attempt => {
                return Written::Done(Box::new(row.record.clone()));
            }
            _ => {}
        }
        let written = data.settle(by, settlement, now);
        let Some(row) = data.row_mut(&by.id) else { return written };
        if self.has(Bug::ObservedAnswerStays) && response.is_some() {
            row.response = response;
        }
        if self.has(Bug::ReleaseKeepsSteps) {
            row.steps = steps;
        }
        if !matches!(written, Written::Done(_)) {
            row.record = before;
        } else if self.has(Bug::ReleaseDeletes)
            && row.record.ending.is_some_and(|ending| ending.kind == EndingKind::Released)
        {
            let record = row.record.clone();
            data.rows.remove(&record.claim);
            data.forget(&record);
        }
        written
    }

    fn misread(&self, settlement: Settlement) -> Settlement {
        match (self.bug, settlement) {
            (Some(Bug::RefusalReleases), Settlement::NotApplied { retention, .. }) => {
                Settlement::NotApplied { every_attempt: true, retention }
            }
            (Some(bug), Settlement::Outcome { class, status, response, retention }) => {
                let response = match (bug, response) {
                    (Bug::KeptIsAlwaysTrue, response) => Some(response.unwrap_or_default()),
                    (Bug::HeadersAreFolded, Some(response)) => Some(folded(response)),
                    (Bug::EmptyBodyIsNone, Some(response)) if response.body.is_empty() => None,
                    (_, response) => response,
                };
                Settlement::Outcome { class, status, response, retention }
            }
            (_, settlement) => settlement,
        }
    }

    fn make_up(
        &self,
        by: &Ownership,
        settlement: Settlement,
        data: &mut Data,
        now: StoreTime,
    ) -> Written {
        made(by, Admission::WithClaim, data, now);
        data.settle(by, settlement, now)
    }
}

/// Makes the record that an owner speaks of.
fn made(by: &Ownership, admission: Admission, data: &mut Data, now: StoreTime) {
    let Some(row) = data.rows.values().next() else { return };
    let claim = NewClaim {
        id: by.id,
        owner: by.owner,
        fingerprint: row.record.fingerprint,
        policy: row.record.policy,
        lease: Duration::ZERO,
        admission,
        secret_version: 1,
    };
    data.insert(&claim, now);
}

/// A permission that is over as if it were not.
fn lasting(progress: Progress, now: StoreTime) -> Progress {
    match progress {
        Progress::InDoubt { resend_before: Some(before) } if before <= now => {
            Progress::InDoubt { resend_before: Some(now.after(Duration::MAX)) }
        }
        other => other,
    }
}

fn folded(response: StoredResponse) -> StoredResponse {
    let mut headers = Vec::<(Bytes, Bytes)>::new();
    for (name, value) in response.headers {
        match headers.iter_mut().find(|(other, _)| *other == name) {
            Some((_, values)) => *values = [values, &b", "[..], &value].concat().into(),
            None => headers.push((name, value)),
        }
    }
    StoredResponse { headers, ..response }
}

impl Claims for Broken {
    fn claim(&self, claim: NewClaim) -> Reply<'_, Claimed> {
        Box::pin(async move {
            if !self.has(Bug::ReadThenInsert) {
                return self.guarded(|data, now| self.claim_now(&claim, data, now));
            }
            if let Some(found) = self.store.find(claim.id).await? {
                return Ok(Claimed::Theirs(Box::new(found)));
            }
            tokio::task::yield_now().await;
            self.guarded(|data, now| Claimed::Ours(Box::new(data.insert(&claim, now))))
        })
    }

    fn claim_all(&self, mut claims: Vec<NewClaim>) -> Reply<'_, Vec<Claimed>> {
        Box::pin(async move {
            if self.has(Bug::ManyAreReadThenInserted) {
                let mut known = Vec::new();
                for claim in &claims {
                    known.push(self.store.find(claim.id).await?);
                }
                tokio::task::yield_now().await;
                let claim_one = |data: &mut Data, now, (claim, known): (&_, Option<Found>)| {
                    known.map_or_else(
                        || Claimed::Ours(Box::new(data.insert(claim, now))),
                        |found| Claimed::Theirs(Box::new(found)),
                    )
                };
                return self.guarded(|data, now| {
                    let claims = claims.iter().zip(known);
                    claims.map(|claim| claim_one(data, now, claim)).collect()
                });
            }
            if self.has(Bug::AnswersComeInTheOrderOfIds) {
                claims.sort_by_key(|claim| claim.id);
            }
            self.guarded(|data, now| {
                let is_known = |claim: &NewClaim| data.row(&claim.id).is_some();
                if self.has(Bug::OneKnownKeyTakesAll) && claims.iter().any(is_known) {
                    let there = claims.iter().map(|claim| data.find(&claim.id, now));
                    return there
                        .map(|there| there.map_or(Claimed::Gone, |it| Claimed::Theirs(it.into())))
                        .collect();
                }
                claims.iter().map(|claim| self.claim_now(claim, data, now)).collect()
            })
        })
    }

    fn advance(&self, advance: Advance) -> Reply<'_, Claimed> {
        Box::pin(async move {
            if self.has(Bug::ReadThenAdvance)
                && let Some(found) = self.store.find(advance.claim.id).await?
            {
                if found.record.seen() != advance.seen {
                    return Ok(Claimed::Theirs(Box::new(found)));
                }
                tokio::task::yield_now().await;
                return self.guarded(|data, now| {
                    // An update without a condition: from what was read, over what is there.
                    if let Some(row) = data.row_mut(&advance.claim.id) {
                        row.record = found.record;
                    }
                    data.advance(&advance, now)
                });
            }
            self.guarded(|data, now| self.advance_now(advance, data, now))
        })
    }

    fn doubt(&self, id: RecordId, seen: Seen) -> Reply<'_, Option<Found>> {
        Box::pin(async move { self.write(|data, now| self.doubt_now(&id, &seen, data, now)) })
    }
}

impl Owned for Broken {
    fn admit(
        &self,
        by: Ownership,
        lease: Duration,
        resend_before: Option<StoreTime>,
    ) -> Reply<'_, Written> {
        Box::pin(async move {
            self.write(|data, now| {
                let by = self.taken(by, data);
                self.admit_now(&by, lease, resend_before, data, now)
            })
        })
    }

    fn renew(&self, by: Ownership, lease: Duration) -> Reply<'_, Written> {
        Box::pin(async move {
            self.write(|data, now| self.renew_now(&self.taken(by, data), lease, data, now))
        })
    }

    fn settle(&self, by: Ownership, settlement: Settlement) -> Reply<'_, Written> {
        Box::pin(async move {
            self.write(|data, now| self.settle_now(&self.taken(by, data), settlement, data, now))
        })
    }
}
