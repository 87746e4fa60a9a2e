//! What this process knows of requests without a record, and of those that may yet get one.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use hapax::{Operation, OperationStatus, OutcomeStatus};
use hapax_core::{
    Attempt, Classified, EffectId, Fingerprint, Problem, RecordId, State, StoreTime, StoredResponse,
};
use http::Response;
use metrics::gauge;

use super::{
    Outage, Passing,
    words::{in_flight, kept, key_reused, ran_without_record},
};
use crate::{
    answer_body::AnswerBody,
    metric_definitions::UNPROTECTED_PENDING,
    spool::{Begun, Ended, Line},
};

/// The largest answer that is kept in memory until it can be stored, and all of them together.
const KEPT: (usize, usize) = (64 << 10, 32 << 20);

/// What is known of a key without asking the store.
pub(super) type Known = Result<Response<AnswerBody>, Problem>;

#[derive(Default)]
pub(super) struct Passed {
    /// The latest run of each record.
    by_record: HashMap<RecordId, Run>,
    /// All runs in the order of their beginning.
    runs: Vec<Noted>,
    /// How many requests of a record are being claimed, or execute once they are.
    claiming: HashMap<RecordId, usize>,
    /// The bytes of the answers that are kept.
    kept: usize,
}

/// What this process knows of a record that ran without being one.
pub(super) struct Run {
    pub(super) run: String,
    pub(super) operation: Arc<Operation>,
    pub(super) fingerprint: Fingerprint,
    pub(super) effect_id: EffectId,
    pub(super) attempt: Attempt,
    pub(super) begun: StoreTime,
    pub(super) ended: Option<RunEnded>,
}

pub(super) struct RunEnded {
    /// What it amounts to if nothing was known of the key before.
    pub(super) as_first: Classified,
    /// What its caller was told.
    pub(super) word: &'static str,
    pub(super) status: Option<u16>,
    pub(super) at: StoreTime,
    pub(super) response: Option<StoredResponse>,
}

/// A run as it is on disk.
#[derive(Clone)]
pub(super) struct Noted {
    pub(super) begun: Begun,
    pub(super) end: Option<Ended>,
    /// Whether the store knows that it is under way.
    pub(super) is_in_store: bool,
}

impl Run {
    /// What a request gets whose key this run had; `None`: it may run again.
    fn answer(&self, passing: &Passing) -> Option<Known> {
        if !self.is_of(passing) {
            return Some(Err(key_reused()));
        }
        let Some(ended) = &self.ended else { return Some(Err(in_flight())) };
        match (ended.as_first, &ended.response) {
            // Nothing happened.
            (Classified::NotApplied, _) => None,
            (Classified::Outcome(_), Some(response)) => {
                Some(Ok(kept(response.clone(), ended.word)))
            }
            _ => Some(Err(ran_without_record())),
        }
    }

    /// Whether it is the same intent, by the rules that the run was admitted under.
    fn is_of(&self, passing: &Passing) -> bool {
        if self.fingerprint.version() == passing.fingerprint.version() {
            return self.fingerprint == passing.fingerprint;
        }
        let same = self.operation.fingerprint(&passing.intent);
        same.is_ok_and(|fingerprint| fingerprint == self.fingerprint)
    }

    fn kept(&self) -> usize {
        let response = self.ended.as_ref().and_then(|ended| ended.response.as_ref());
        response.map_or(0, |response| response.body.len())
    }

    fn status(&self) -> OperationStatus {
        let state = match self.ended.as_ref().map(|ended| ended.word) {
            None => State::Executing,
            Some("applied") => State::Succeeded,
            Some("not_applied") => State::Released,
            Some(_) => State::Uncertain,
        };
        let succeeded = self.ended.as_ref().filter(|_| state == State::Succeeded);
        let outcome = succeeded.map(|ended| OutcomeStatus {
            succeeded: true,
            status: ended.status,
            kept: ended.response.is_some(),
            at: ended.at,
            // Nothing is promised before it is stored.
            replayed_until: ended.at,
        });
        OperationStatus {
            operation: Some(self.operation.name().clone()),
            effect_id: self.effect_id,
            attempt: self.attempt,
            state,
            created: self.begun,
            outcome,
        }
    }
}

impl Passed {
    pub(super) fn known(&self, passing: &Passing) -> Option<Known> {
        self.by_record.get(&passing.id)?.answer(passing)
    }

    pub(super) fn status(&self, id: &RecordId) -> Option<OperationStatus> {
        self.by_record.get(id).map(Run::status)
    }

    pub(super) const fn runs(&self) -> &Vec<Noted> {
        &self.runs
    }

    pub(super) fn is_claiming(&self, id: &RecordId) -> bool {
        self.claiming.contains_key(id)
    }

    /// Makes this the run of its record.
    pub(super) fn begin(&mut self, id: RecordId, run: Run, begun: Begun) {
        self.put(id, run);
        self.runs.push(Noted { begun, end: None, is_in_store: false });
        self.tell();
    }

    /// What it came to. An answer is kept where it is of use and there is room.
    pub(super) fn end(&mut self, id: &RecordId, ended: Ended, mut came_to: RunEnded) {
        let size = came_to.response.as_ref().map_or(0, |response| response.body.len());
        let is_of_use = came_to.as_first != Classified::NotApplied;
        let fits = size <= KEPT.0 && self.kept.saturating_add(size) <= KEPT.1;
        came_to.response = came_to.response.filter(|_| is_of_use && fits);
        if let Some(run) = self.by_record.get_mut(id).filter(|it| it.run == ended.run) {
            run.ended = Some(came_to);
            self.kept = self.kept.saturating_add(run.kept());
        }
        if let Some(noted) = self.runs.iter_mut().find(|noted| noted.begun.run == ended.run) {
            noted.end = Some(ended);
        }
    }

    /// The answer that is kept of a run.
    pub(super) fn response(&self, id: &RecordId, run: &str) -> Option<StoredResponse> {
        let there = self.by_record.get(id).filter(|there| there.run == run)?;
        there.ended.as_ref()?.response.clone()
    }

    /// The store knows that it is under way.
    pub(super) fn is_in_store(&mut self, run: &str) {
        if let Some(noted) = self.runs.iter_mut().find(|noted| noted.begun.run == run) {
            noted.is_in_store = true;
        }
    }

    /// It did not run, or has a record.
    pub(super) fn forget(&mut self, id: Option<RecordId>, run: &str) {
        if let Some(id) = id
            && self.by_record.get(&id).is_some_and(|there| there.run == run)
            && let Some(gone) = self.by_record.remove(&id)
        {
            self.kept = self.kept.saturating_sub(gone.kept());
        }
        self.runs.retain(|noted| noted.begun.run != run);
        self.tell();
    }

    /// The lines of all runs.
    pub(super) fn lines(&self) -> Vec<Line> {
        let lines = self.runs.iter().flat_map(|noted| {
            let end = noted.end.clone().map(Line::Ended);
            [Some(Line::Begun(noted.begun.clone())), end]
        });
        lines.flatten().collect()
    }

    fn put(&mut self, id: RecordId, run: Run) {
        if let Some(before) = self.by_record.insert(id, run) {
            self.kept = self.kept.saturating_sub(before.kept());
        }
    }

    fn tell(&self) {
        gauge!(UNPROTECTED_PENDING).set(self.runs.len() as f64);
    }
}

/// A request that is being claimed. Until it is dropped or given up, nothing passes under its key:
/// it may execute as soon as the claim is there.
pub(crate) struct Claiming {
    outage: Arc<Outage>,
    id: RecordId,
    is_over: AtomicBool,
}

impl Claiming {
    /// Begins it, unless something is known of the key.
    pub(super) fn begin(outage: &Arc<Outage>, passing: &Passing) -> Result<Arc<Self>, Box<Known>> {
        let mut passed = outage.passed.lock();
        if let Some(known) = passed.known(passing) {
            return Err(Box::new(known));
        }
        *passed.claiming.entry(passing.id).or_default() += 1;
        drop(passed);
        let (outage, is_over) = (Arc::clone(outage), AtomicBool::new(false));
        Ok(Arc::new(Self { outage, id: passing.id, is_over }))
    }

    /// Its caller was told that nothing was executed, and nothing will be.
    pub(crate) fn give_up(&self) {
        if self.is_over.swap(true, Ordering::Relaxed) {
            return;
        }
        let mut passed = self.outage.passed.lock();
        if let Some(count) = passed.claiming.get_mut(&self.id) {
            *count -= 1;
            if *count == 0 {
                passed.claiming.remove(&self.id);
            }
        }
    }
}

impl Drop for Claiming {
    fn drop(&mut self) {
        self.give_up();
    }
}
