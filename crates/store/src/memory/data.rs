//! The tables, and what each write does to them. What is legal is decided by [`Record`] alone.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Duration,
};

use hapax_core::{
    Advance, AdvanceReason, Attempt, ClaimNumber, Ending, EndingKind, Found, NewClaim,
    OperationName, OwnState, Ownership, PolicyDigest, Progress, Record, RecordId, Seen, Settlement,
    Step, StoreTime, StoredResponse, WriteRefused,
};

use super::{
    node::{Mark, NodeId},
    observed::ObservedTable,
    reconciling::Watch,
};
use crate::{Claimed, HistoryEntry, ListFilter, Listed, SecretPin, Swept, Written};

/// Everything that a store in memory holds, as a value: what goes back in time with it.
///
/// It is what [`MemoryStore`](super::MemoryStore) keeps behind its lock. Here a write takes its time
/// as an argument and asks no mark: for models and simulations, which have the whole world as a
/// value, and guard each write by an [`Anchor`](super::Anchor) themselves.
#[derive(Clone, Default)]
pub struct Data {
    /// The incarnation; attempts are made under it.
    pub(super) epoch: u32,
    /// Where the mark of each node stands.
    pub(super) marks: BTreeMap<NodeId, Mark>,
    pub(super) policies: HashMap<PolicyDigest, (OperationName, String)>,
    pub(super) secrets: HashMap<u32, [u8; 16]>,
    pub(super) observed: ObservedTable,
    /// In the order of claims, as on disk; the one index in key order is narrow.
    pub(super) rows: BTreeMap<ClaimNumber, Row>,
    pub(super) index: HashMap<RecordId, ClaimNumber>,
    pub(super) last_claim: i64,
    /// What will be over, by when. A record has at most one entry in each.
    outcomes_over: BTreeSet<(StoreTime, ClaimNumber)>,
    pub(super) tombstones_over: BTreeSet<(StoreTime, ClaimNumber)>,
}

/// A record with what belongs to it.
#[derive(Clone)]
pub struct Row {
    /// The record.
    pub record: Record,
    /// The stored outcome, or the observed answer of an uncertain record.
    pub response: Option<StoredResponse>,
    pub(super) steps: Vec<Step>,
    pub(super) history: Vec<HistoryEntry>,
    /// There while its outcome is looked for.
    pub watch: Option<Watch>,
}

impl Data {
    /// The incarnation; attempts are made under it.
    pub const fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Makes it another incarnation.
    pub const fn raise_epoch(&mut self) {
        self.epoch += 1;
    }

    /// Every row, in the order of claims.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.values()
    }

    /// Stores a policy's canonical text.
    pub fn remember_policy(
        &mut self,
        digest: PolicyDigest,
        operation: OperationName,
        text: String,
    ) {
        self.policies.entry(digest).or_insert((operation, text));
    }

    /// Stores the fingerprint of a version of the effect secret, or compares it with the stored one.
    pub fn pin_secret(&mut self, version: u32, fingerprint: [u8; 16]) -> SecretPin {
        match self.secrets.entry(version).or_insert(fingerprint) {
            pinned if *pinned == fingerprint => SecretPin::Same,
            _ => SecretPin::Different,
        }
    }

    /// Claims a record that nobody has.
    pub fn claim(&mut self, claim: &NewClaim, now: StoreTime) -> Claimed {
        match self.row(&claim.id) {
            Some(row) if row.record.is_live_claim_of(&claim.owner) => {
                Claimed::Ours(Box::new(row.record.clone()))
            }
            Some(row) => Claimed::Theirs(Box::new(row.found(now))),
            None => Claimed::Ours(Box::new(self.insert(claim, now))),
        }
    }

    /// Takes a record away, as if it had never been: a fault.
    pub fn remove(&mut self, id: &RecordId) {
        if let Some(row) = self.index.remove(id).and_then(|claim| self.rows.remove(&claim)) {
            self.forget(&row.record);
        }
    }

    pub(super) fn insert(&mut self, claim: &NewClaim, now: StoreTime) -> Record {
        self.last_claim += 1;
        let number = ClaimNumber(self.last_claim);
        let record = Record::new(claim, number, self.epoch, now);
        let row = Row {
            record: record.clone(),
            response: None,
            steps: Vec::new(),
            history: Vec::new(),
            watch: None,
        };
        self.rows.insert(number, row);
        self.index.insert(claim.id, number);
        record
    }

    /// Moves a record to its next attempt, if it still is as it was seen.
    pub fn advance(&mut self, advance: &Advance, now: StoreTime) -> Claimed {
        let epoch = self.epoch;
        let Some(row) = self.row_mut(&advance.claim.id) else {
            return Claimed::Gone;
        };
        if row.record.is_live_claim_of(&advance.claim.owner) {
            return Claimed::Ours(Box::new(row.record.clone()));
        }
        let Ok((next, superseded)) = row.record.advance(advance, epoch, now) else {
            return Claimed::Theirs(Box::new(row.found(now)));
        };
        let before = std::mem::replace(&mut row.record, next);
        (row.response, row.watch) = (None, None);
        if superseded.is_some() {
            row.note(now, before.attempt, "superseded");
        }
        match advance.reason {
            AdvanceReason::Resend { .. } => row.note(now, row.record.attempt, "resent"),
            AdvanceReason::Resume => row.note(now, row.record.attempt, "resumed"),
            AdvanceReason::LeaseOver | AdvanceReason::Released => {}
        }
        let moved = row.record.clone();
        if let Some(ending) = before.ending {
            self.tombstones_over.remove(&(ending.until.tombstone, before.claim));
        }
        Claimed::Ours(Box::new(moved))
    }

    /// Makes an executing record whose lease is over uncertain, if it still is as it was seen.
    pub fn doubt(&mut self, id: &RecordId, seen: &Seen, now: StoreTime) -> Option<Found> {
        let row = self.row_mut(id)?;
        if let Ok(next) = row.record.doubt(seen, now) {
            row.replace(next, now);
        }
        Some(row.found(now))
    }

    /// Admits the effect.
    pub fn admit(
        &mut self,
        by: &Ownership,
        lease: Duration,
        resend_before: Option<StoreTime>,
        now: StoreTime,
    ) -> Written {
        self.write(by, now, |record| record.admit(by, lease, resend_before, now))
    }

    /// Extends the lease.
    pub fn renew(&mut self, by: &Ownership, lease: Duration, now: StoreTime) -> Written {
        self.write(by, now, |record| record.renew(by, lease, now))
    }

    /// Ends the attempt, or makes it uncertain.
    pub fn settle(&mut self, by: &Ownership, settlement: Settlement, now: StoreTime) -> Written {
        let settled_before = self.row(&by.id).is_some_and(|row| row.record.ending.is_some());
        let written = self.write(by, now, |record| record.settle(by, &settlement, now));
        if let (Written::Done(record), false) = (&written, settled_before) {
            self.keep_response(record.claim, settlement);
            if let Some(ending) = record.ending {
                // A stub has none: it was judged as a whole again.
                let steps = record.progress != Progress::Whole;
                self.remember_until(record.claim, &ending, steps);
            }
        }
        written
    }

    /// An owner's write, if the record's rules permit it.
    fn write(
        &mut self,
        by: &Ownership,
        now: StoreTime,
        step: impl FnOnce(&Record) -> Result<Record, WriteRefused>,
    ) -> Written {
        let Some(row) = self.row_mut(&by.id) else {
            return Written::Missing;
        };
        match step(&row.record) {
            Ok(next) => {
                row.replace(next.clone(), now);
                Written::Done(Box::new(next))
            }
            Err(why) => Written::Refused { why, found: Box::new(row.found(now)) },
        }
    }

    fn keep_response(&mut self, claim: ClaimNumber, settlement: Settlement) {
        let Some(row) = self.rows.get_mut(&claim) else { return };
        match settlement {
            Settlement::Outcome { response, .. } => row.response = response,
            Settlement::NotApplied { .. } => (row.response, row.steps) = (None, Vec::new()),
            // What was observed before stays evidence when nothing newer was observed.
            Settlement::Unknown { observed: None } => {}
            Settlement::Unknown { observed } => row.response = observed,
        }
    }

    pub(super) fn remember_until(&mut self, claim: ClaimNumber, ending: &Ending, steps: bool) {
        if ending.kept || steps {
            self.outcomes_over.insert((ending.until.outcome, claim));
        }
        self.tombstones_over.insert((ending.until.tombstone, claim));
    }

    /// Forgets what is over at `now`, which both clocks have passed.
    pub fn sweep(&mut self, now: StoreTime, limit: usize) -> Swept {
        let mut swept = Swept::default();
        while swept.bodies < limit
            && let Some(claim) = pop_over(&mut self.outcomes_over, now)
        {
            if let Some(row) = self.rows.get_mut(&claim) {
                (row.response, row.steps) = (None, Vec::new());
                swept.bodies += 1;
            }
        }
        while swept.purged < limit
            && let Some(claim) = pop_over(&mut self.tombstones_over, now)
        {
            if let Some(row) = self.rows.remove(&claim) {
                self.forget(&row.record);
                swept.purged += 1;
            }
        }
        self.observed.sweep(now, limit);
        swept
    }

    pub(super) fn forget(&mut self, record: &Record) {
        self.index.remove(&record.id);
        if let Some(ending) = record.ending {
            // Purged in the same step as its body was due: the body is gone with the row.
            self.outcomes_over.remove(&(ending.until.outcome, record.claim));
        }
    }

    /// Forgets when what is stored of a record is over.
    #[cfg(test)]
    pub(super) fn forget_due(&mut self, record: &Record) {
        if let Some(ending) = record.ending {
            self.outcomes_over.remove(&(ending.until.outcome, record.claim));
            self.tombstones_over.remove(&(ending.until.tombstone, record.claim));
        }
    }

    /// The record with its response, if it is there.
    pub fn find(&self, id: &RecordId, now: StoreTime) -> Option<Found> {
        self.row(id).map(|row| row.found(now))
    }

    pub(super) fn list(&self, filter: &ListFilter, now: StoreTime) -> Vec<Listed> {
        let before = filter.before.unwrap_or(ClaimNumber(i64::MAX));
        let rows = self.rows.range(..before).rev().map(|(_, row)| row);
        rows.filter(|row| filter.id.is_none_or(|id| id == row.record.id))
            .map(|row| self.listed(row, now))
            .filter(|listed| filter.state.is_none_or(|state| state == listed.state))
            .filter(|listed| filter.operation.is_none() || filter.operation == listed.operation)
            .take(filter.limit)
            .collect()
    }

    fn listed(&self, row: &Row, now: StoreTime) -> Listed {
        Listed {
            operation: self.policies.get(&row.record.policy).map(|(name, _)| name.clone()),
            record: row.record.clone(),
            state: row.record.state(now),
            body_bytes: row.response.as_ref().map(|response| response.body.len() as u64),
        }
    }

    pub(super) fn history(&self, claim: ClaimNumber) -> Vec<HistoryEntry> {
        self.rows.get(&claim).map(|row| row.history.clone()).unwrap_or_default()
    }

    /// A row, if it is there.
    pub fn row(&self, id: &RecordId) -> Option<&Row> {
        self.rows.get(self.index.get(id)?)
    }

    /// A row, to be tampered with: faults and seeded bugs.
    pub fn row_mut(&mut self, id: &RecordId) -> Option<&mut Row> {
        self.rows.get_mut(self.index.get(id)?)
    }
}

impl Row {
    pub(super) fn found(&self, now: StoreTime) -> Found {
        let mut record = self.record.clone();
        // A clock that went back behind a sweep: the outcome counts again, its response is gone.
        if let Some(ending) = &mut record.ending
            && now < ending.until.outcome
        {
            ending.kept = self.response.is_some();
        }
        Found { record, response: self.response.clone(), now }
    }

    /// Moves the present attempt on, noting what is beside the plain course.
    pub(super) fn replace(&mut self, next: Record, now: StoreTime) {
        let before = std::mem::replace(&mut self.record, next);
        let was_uncertain = before.own_state == OwnState::Uncertain;
        self.watch_over(was_uncertain, now);
        let ended = if before.ending.is_none() { self.record.ending } else { None };
        let what = match ended.map(|ending| ending.kind) {
            Some(EndingKind::Released) => "released",
            Some(EndingKind::Outcome) if was_uncertain => "settled-late",
            None if self.record.own_state == OwnState::Uncertain && !was_uncertain => "uncertain",
            _ => return,
        };
        self.note(now, before.attempt, what);
    }

    pub(super) fn note(&mut self, at: StoreTime, attempt: Attempt, what: &str) {
        self.history.push(HistoryEntry { at, attempt, what: what.to_owned(), statement: None });
    }
}

fn pop_over(due: &mut BTreeSet<(StoreTime, ClaimNumber)>, now: StoreTime) -> Option<ClaimNumber> {
    let first = *due.first()?;
    (first.0 <= now).then(|| {
        due.remove(&first);
        first.1
    })
}
