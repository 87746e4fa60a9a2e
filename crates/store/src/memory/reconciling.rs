//! Finding out what uncertain records came to. What is legal is decided by [`Record`].

use std::collections::BTreeMap;

use hapax_core::{
    Concluded, Evidence, Judgement, OperationName, OwnState, Owner, Ownership, Progress, Proof,
    Record, Ruling, RunEnd, Settlement, State, Statement, StoreTime, Unprotected, WriteRefused,
};

use super::{
    MemoryStore,
    data::{Data, Row},
};
use crate::{
    BroughtIn, Claimed, Doubted, Doubts, Due, HistoryEntry, PutOff, Reconcile, Reply, TakeDue,
    Written, evidence_word,
};

/// How the outcome of an uncertain record is looked for.
#[derive(Clone, Debug, Hash)]
pub struct Watch {
    pub(super) due: StoreTime,
    pub(super) probes: u32,
    pub(super) evidence: Option<Evidence>,
    /// Who looks into it, and until when that counts.
    pub(super) held: Option<(Owner, StoreTime)>,
}

impl Watch {
    const fn new(due: StoreTime) -> Self {
        Self { due, probes: 0, evidence: None, held: None }
    }

    /// Who looks into it now, or did last.
    pub fn holder(&self) -> Option<Owner> {
        self.held.map(|(holder, _)| holder)
    }

    fn is_held_by(&self, holder: &Owner) -> bool {
        self.held.is_some_and(|(there, _)| there == *holder)
    }
}

impl Row {
    /// Begins to look for the outcome of what became uncertain, and ends with it.
    pub(super) fn watch_over(&mut self, was_uncertain: bool, now: StoreTime) {
        if self.record.ending.is_some() {
            self.watch = None;
        } else if self.record.own_state == OwnState::Uncertain && !was_uncertain {
            self.watch = Some(Watch::new(now));
        }
    }

    fn say(&mut self, now: StoreTime, what: &str, statement: &Statement) {
        let attempt = self.record.attempt;
        let statement = Some(statement.clone());
        self.history.push(HistoryEntry { at: now, attempt, what: what.to_owned(), statement });
    }

    /// Whether this was noted before.
    fn has_said(&self, statement: &Statement) -> bool {
        self.history.iter().any(|entry| entry.statement.as_ref() == Some(statement))
    }

    fn brought_in(&self, ran: &Unprotected, now: StoreTime) -> BroughtIn {
        if self.record.owner == ran.claim.owner {
            BroughtIn::Recorded
        } else {
            BroughtIn::Beside { found: Box::new(self.found(now)) }
        }
    }

    fn is_uncertain(&self, now: StoreTime) -> bool {
        self.record.state(now) == State::Uncertain
    }
}

impl Data {
    /// Makes executing records whose lease is over uncertain.
    pub fn doubt_abandoned(&mut self, limit: usize, now: StoreTime) -> Doubted {
        let mut doubted = Doubted::default();
        for row in self.rows.values_mut() {
            let Ok(next) = row.record.doubt(&row.record.seen(), now) else { continue };
            if row.is_uncertain(now) {
                continue;
            }
            if doubted.records == limit {
                doubted.more = true;
                break;
            }
            row.replace(next, now);
            doubted.records += 1;
        }
        doubted
    }

    /// Takes uncertain records that are due and that nobody holds.
    pub fn take_due(&mut self, take: &TakeDue, now: StoreTime) -> Vec<Due> {
        let policies = &self.policies;
        let operation_of = |record: &Record| policies.get(&record.policy).map(|(name, _)| name);
        let is_due = |row: &Row| {
            let free = |watch: &Watch| {
                watch.due <= now && watch.held.is_none_or(|(_, until)| until <= now)
            };
            row.is_uncertain(now)
                && row.watch.as_ref().is_some_and(free)
                && operation_of(&row.record).is_some_and(|name| take.operations.contains(name))
        };
        let mut due = self
            .rows
            .iter()
            .filter(|(_, row)| is_due(row))
            .map(|(claim, row)| (row.watch.as_ref().map(|watch| watch.due), *claim))
            .collect::<Vec<_>>();
        due.sort_unstable();
        due.truncate(take.limit);
        let mut taken = Vec::with_capacity(due.len());
        for (_, claim) in due {
            let Some(row) = self.rows.get_mut(&claim) else { continue };
            let (found, Some(operation)) = (row.found(now), operation_of(&row.record)) else {
                continue;
            };
            let operation: OperationName = operation.clone();
            let Some(watch) = &mut row.watch else { continue };
            watch.held = Some((take.holder, now.after(take.lease)));
            taken.push(Due { found, operation, probes: watch.probes });
        }
        taken
    }

    /// Lets go of a record that stays uncertain, until it is due again.
    pub fn put_off(&mut self, put_off: &PutOff, now: StoreTime) -> bool {
        let PutOff { of, holder, after, evidence, statement } = put_off;
        let Some(row) = self.row_mut(&of.id) else { return false };
        let is_it = row.record.ownership() == *of && row.is_uncertain(now);
        let Some(watch) = row.watch.as_mut().filter(|watch| is_it && watch.is_held_by(holder))
        else {
            return false;
        };
        let is_new = watch.evidence != Some(*evidence);
        *watch = Watch {
            due: now.after(*after),
            probes: watch.probes.saturating_add(1),
            evidence: Some(*evidence),
            held: None,
        };
        if is_new {
            row.say(now, evidence_word(*evidence), statement);
        }
        true
    }

    /// Ends the attempt of an uncertain record by what is certain now.
    pub fn judge(
        &mut self,
        judgement: &Judgement,
        holder: Option<Owner>,
        now: StoreTime,
    ) -> Written {
        let Some(row) = self.row_mut(&judgement.of.id) else { return Written::Missing };
        let ended_before = row.record.ending.is_some();
        let lost = holder.is_some_and(|holder| {
            !ended_before && row.watch.as_ref().is_none_or(|watch| !watch.is_held_by(&holder))
        });
        let judged =
            if lost { Err(WriteRefused::Fenced) } else { row.record.judge(judgement, now) };
        let next = match judged {
            Ok(next) => next,
            Err(why) => return Written::Refused { why, found: Box::new(row.found(now)) },
        };
        if ended_before {
            return Written::Done(Box::new(next));
        }
        (row.record, row.watch) = (next.clone(), None);
        row.say(now, judgement.word(), &judgement.statement);
        match &judgement.ruling {
            Ruling::Applied(outcome) => row.response = outcome.response.clone(),
            Ruling::NotApplied => (row.response, row.steps) = (None, Vec::new()),
        }
        if let Some(ending) = next.ending {
            self.remember_until(next.claim, &ending, next.progress != Progress::Whole);
        }
        Written::Done(Box::new(next))
    }

    /// Settles a record that was freed by proof that the effect exists.
    pub fn prove(&mut self, proof: &Proof, now: StoreTime) -> Written {
        let epoch = self.epoch;
        let Some(row) = self.row_mut(&proof.of.id) else { return Written::Missing };
        let next = match row.record.prove(proof, epoch, now) {
            Ok(next) => next,
            Err(why) => {
                if row.record.denies(&proof.of) && !row.has_said(&proof.statement) {
                    row.say(now, Proof::TOO_LATE, &proof.statement);
                }
                return Written::Refused { why, found: Box::new(row.found(now)) };
            }
        };
        if row.record.owner == proof.token {
            return Written::Done(Box::new(next));
        }
        let stub = std::mem::replace(&mut row.record, next.clone());
        row.response.clone_from(&proof.response);
        row.say(now, Proof::BINDS, &proof.statement);
        if let Some(ending) = stub.ending {
            self.tombstones_over.remove(&(ending.until.tombstone, stub.claim));
        }
        if let Some(ending) = next.ending {
            self.remember_until(next.claim, &ending, false);
        }
        Written::Done(Box::new(next))
    }

    /// Moves an uncertain record to an attempt that closes the earlier ones.
    pub fn close_earlier(
        &mut self,
        of: &Ownership,
        closing: Owner,
        statement: &Statement,
        now: StoreTime,
    ) -> Written {
        let epoch = self.epoch;
        let Some(row) = self.row_mut(&of.id) else { return Written::Missing };
        if row.record.is_closed_by(&closing) {
            return Written::Done(Box::new(row.record.clone()));
        }
        match row.record.close(of, closing, epoch, now) {
            Ok((next, _)) => {
                row.note(now, row.record.attempt, "superseded");
                row.record = next.clone();
                row.say(now, "closing", statement);
                Written::Done(Box::new(next))
            }
            Err(why) => Written::Refused { why, found: Box::new(row.found(now)) },
        }
    }

    pub(super) fn bring_in(&mut self, ran: &Unprotected, now: StoreTime) -> BroughtIn {
        let is_new = match self.row_mut(&ran.claim.id) {
            None => {
                self.insert(&ran.claim, ran.begun.min(now));
                let epoch = self.epoch;
                if let Some(row) = self.row_mut(&ran.claim.id) {
                    row.record = ran.record(row.record.claim, epoch, now);
                }
                true
            }
            Some(row) if row.has_said(&ran.statement) => false,
            Some(_) => {
                if !self.follow(ran, now)
                    && let Some(row) = self.row_mut(&ran.claim.id)
                {
                    row.record = ran.beside(&row.record, now);
                }
                true
            }
        };
        let Some(row) = self.row_mut(&ran.claim.id) else { return BroughtIn::Again };
        if is_new {
            row.say(now, Unprotected::WORD, &ran.statement);
        }
        match &ran.end {
            None if !is_new => BroughtIn::Again,
            None => row.brought_in(ran, now),
            Some(end) => self.conclude(ran, end, now),
        }
    }

    fn conclude(&mut self, ran: &Unprotected, end: &RunEnd, now: StoreTime) -> BroughtIn {
        let statement = ran.ended(end);
        let Some(row) = self.row_mut(&ran.claim.id) else { return BroughtIn::Again };
        if row.has_said(&statement) {
            return BroughtIn::Again;
        }
        let concluded = ran.conclude(&row.record, end, now);
        if concluded == Concluded::Later {
            return BroughtIn::Later;
        }
        row.say(now, Unprotected::ENDED, &statement);
        match concluded {
            Concluded::Settle => self.settle_run(ran, end, now),
            Concluded::Follow => {
                if self.follow(ran, now) {
                    self.settle_run(ran, end, now);
                }
            }
            Concluded::Judge(judgement) => drop(self.judge(&judgement, None, now)),
            Concluded::Later | Concluded::Stands => {}
        }
        self.row_mut(&ran.claim.id).map_or(BroughtIn::Again, |row| row.brought_in(ran, now))
    }

    /// Takes the stub of a free key for a run, where that may follow it.
    fn follow(&mut self, ran: &Unprotected, now: StoreTime) -> bool {
        let Some(row) = self.row_mut(&ran.claim.id) else { return false };
        if !Unprotected::follows(row.record.state(now)) {
            return false;
        }
        let advance = ran.advance(&row.record);
        matches!(self.advance(&advance, now), Claimed::Ours(_))
    }

    /// What proves nothing about the attempts before it leaves the record uncertain.
    fn settle_run(&mut self, ran: &Unprotected, end: &RunEnd, now: StoreTime) {
        let Some(row) = self.row_mut(&ran.claim.id) else { return };
        let by = row.record.ownership();
        let settled = self.settle(&by, end.settlement.clone(), now);
        if let Written::Refused { why: WriteRefused::NotClean, .. } = settled {
            self.settle(&by, Settlement::Unknown { observed: None }, now);
        }
    }

    pub(super) fn doubts(&self, now: StoreTime) -> Vec<Doubts> {
        let mut by_operation = BTreeMap::<Option<OperationName>, Vec<StoreTime>>::new();
        for row in self.rows.values().filter(|row| row.is_uncertain(now)) {
            let operation = self.policies.get(&row.record.policy).map(|(name, _)| name.clone());
            let since = row.record.first_admitted.unwrap_or(row.record.created);
            by_operation.entry(operation).or_default().push(since);
        }
        let of = |(operation, since)| Doubts { operation, since, now };
        by_operation.into_iter().map(of).collect()
    }
}

impl Reconcile for MemoryStore {
    fn doubt_abandoned(&self, limit: usize) -> Reply<'_, Doubted> {
        Box::pin(async move { self.write_record(|data, now| data.doubt_abandoned(limit, now)) })
    }

    fn take_due(&self, take: TakeDue) -> Reply<'_, Vec<Due>> {
        Box::pin(async move { self.write_record(|data, now| data.take_due(&take, now)) })
    }

    fn put_off(&self, put_off: PutOff) -> Reply<'_, bool> {
        Box::pin(async move { self.write_record(|data, now| data.put_off(&put_off, now)) })
    }

    fn judge(&self, judgement: Judgement, holder: Option<Owner>) -> Reply<'_, Written> {
        Box::pin(async move { self.write_record(|data, now| data.judge(&judgement, holder, now)) })
    }

    fn prove(&self, proof: Proof) -> Reply<'_, Written> {
        Box::pin(async move { self.write_record(|data, now| data.prove(&proof, now)) })
    }

    fn close_earlier(
        &self,
        of: Ownership,
        closing: Owner,
        statement: Statement,
    ) -> Reply<'_, Written> {
        Box::pin(async move {
            self.write_record(|data, now| data.close_earlier(&of, closing, &statement, now))
        })
    }

    fn bring_in(&self, unprotected: Unprotected) -> Reply<'_, BroughtIn> {
        Box::pin(async move { self.write_record(|data, now| data.bring_in(&unprotected, now)) })
    }

    fn doubts(&self) -> Reply<'_, Vec<Doubts>> {
        Box::pin(async move { Ok(self.read(|data, now| data.doubts(now))) })
    }
}
