//! From an intent to a claimed record or an answer: claim, decide, wait.

use std::{convert::Infallible, sync::Arc, time::Duration};

use hapax_core::{
    Admission, Advance, Decision, Fingerprint, InFlight, NewClaim, Problem, Record, RecordId,
};
use hapax_store::{Certainty, Claimed, StoreError};
use tracing::warn;

use crate::{
    Answer, Attempt, Executed, Hapax, Intent, Operation,
    answering::policy_unknown,
    patience::Patience,
    points::Kind,
    reconcile::Looked,
    reply_slot::{Early, ReplySlot},
};

/// How often a claim is tried again when the record moves under it. Each turn another attempt got
/// ahead, so running out of turns means that the key is busy.
pub(crate) const TURNS: usize = 8;

/// One attempt on its way.
#[derive(Clone)]
pub(crate) struct Attempting {
    pub(crate) engine: Hapax,
    pub(crate) operation: Arc<Operation>,
    pub(crate) id: RecordId,
    pub(crate) fingerprint: Fingerprint,
    /// What it gets while another one is under way.
    pub(crate) in_flight: InFlight,
}

/// What taking the record came to.
pub(crate) enum Taken<R = Box<Record>> {
    /// It is ours.
    Ours(R),
    /// Nothing is to be executed: the word of the decision, and what the caller gets.
    Answered(&'static str, Answer<Infallible>),
}

impl Attempting {
    pub(crate) fn new(
        engine: Hapax,
        operation: Arc<Operation>,
        id: RecordId,
        fingerprint: Fingerprint,
    ) -> Self {
        let in_flight = operation.policy().in_flight;
        Self { engine, operation, id, fingerprint, in_flight }
    }

    /// The whole way of an attempt whose effect is one call; answers through the slot, whatever
    /// happens.
    pub(crate) fn run<T, F, Fut>(
        self,
        intent: impl Intent,
        execute: F,
        slot: ReplySlot<T>,
    ) -> impl Future<Output = ()>
    where
        T: Send + 'static,
        F: FnOnce(Attempt) -> Fut + Send + 'static,
        Fut: Future<Output = Box<Executed<T>>> + Send + 'static,
    {
        async move {
            // Nothing happens between the claim and the send, so one write is both.
            let taken = self.take(&intent, Admission::WithClaim, &slot).await;
            // It holds the request; what is executed holds its own.
            drop(intent);
            let Some((record, attempt)) = self.ours(taken, &slot) else { return };
            self.execute_and_settle(record, attempt, execute, slot).await;
        }
    }

    /// What is ours, or its caller has its answer.
    pub(crate) fn ours<R, T>(&self, taken: Taken<R>, slot: &ReplySlot<T>) -> Option<R> {
        match taken {
            Taken::Ours(ours) => Some(ours),
            Taken::Answered(decision, answer) => {
                self.count(decision);
                slot.send(answer.widen());
                None
            }
        }
    }

    /// Claims the record for a caller that still waits, with what the execution is told of it; or
    /// finds out what to answer instead.
    pub(crate) fn take(
        &self,
        intent: &dyn Intent,
        admission: Admission,
        early: &dyn Early,
    ) -> impl Future<Output = Taken<(Box<Record>, Attempt)>> {
        async move {
            let claim = match self.new_claim(admission) {
                Ok(claim) => claim,
                Err(error) => return self.store_failed(&error),
            };
            self.take_by(&claim, None, intent, early).await
        }
    }

    /// As [`take`](Self::take), by this claim, which may have been issued already.
    pub(crate) fn take_by(
        &self,
        claim: &NewClaim,
        claimed: Option<Claimed>,
        intent: &dyn Intent,
        early: &dyn Early,
    ) -> impl Future<Output = Taken<(Box<Record>, Attempt)>> {
        async move {
            let taken = self.take_record(claim, claimed, intent, early).await;
            let record = match taken.unwrap_or_else(|error| self.store_failed(&error)) {
                Taken::Ours(record) => record,
                Taken::Answered(decision, answer) => return Taken::Answered(decision, answer),
            };
            self.attempt_at(record, early).await
        }
    }

    /// What an execution is told of a record that is ours by now.
    async fn attempt_at(
        &self,
        record: Box<Record>,
        early: &dyn Early,
    ) -> Taken<(Box<Record>, Attempt)> {
        if !early.is_open() {
            // The caller was told that nothing was executed; keep that true.
            Box::pin(self.undo(&record)).await;
            let late = StoreError::Unavailable { reason: "timeout".to_owned() };
            return self.store_failed(&late);
        }
        match self.attempt_of(&record) {
            Ok(attempt) => {
                self.count("execute");
                Taken::Ours((record, attempt))
            }
            Err((decision, problem)) => {
                Box::pin(self.undo(&record)).await;
                Taken::Answered(decision, Answer::Problem(problem))
            }
        }
    }

    /// The facts of an attempt, if its effect secret is known here.
    pub(crate) fn attempt_of(&self, record: &Record) -> Result<Attempt, (&'static str, Problem)> {
        let secret = self.engine.inner.secrets.of(record.secret_version);
        let secret = secret.ok_or_else(|| ("policy_unknown", policy_unknown()))?;
        Ok(Attempt::new(self.operation.policy(), record, secret))
    }

    pub(crate) fn store_failed<R>(&self, error: &StoreError) -> Taken<R> {
        Taken::Answered("store_unavailable", Answer::Problem(self.store_problem(error)))
    }

    fn take_record(
        &self,
        claim: &NewClaim,
        mut claimed: Option<Claimed>,
        intent: &dyn Intent,
        early: &dyn Early,
    ) -> impl Future<Output = Result<Taken, StoreError>> {
        async move {
            let store = &self.engine.inner.store;
            for _ in 0..TURNS {
                let claimed = match claimed.take() {
                    Some(claimed) => claimed,
                    None => {
                        self.insist(early, || self.writes(Kind::Claim, store.claim(claim.clone())))
                            .await?
                    }
                };
                if let Some(taken) = self.take_claimed(claimed, claim, intent, early).await? {
                    return Ok(taken);
                }
            }
            Ok(self.in_flight())
        }
    }

    /// What a claim came to, once the record stands still; `None`: it is gone, claim again.
    ///
    /// What is rare is boxed, so that its future is not part of every attempt's.
    fn take_claimed(
        &self,
        claimed: Claimed,
        claim: &NewClaim,
        intent: &dyn Intent,
        early: &dyn Early,
    ) -> impl Future<Output = Result<Option<Taken>, StoreError>> {
        async move {
            let store = &self.engine.inner.store;
            let mut found = match claimed {
                Claimed::Ours(record) => return Ok(Some(Taken::Ours(record))),
                Claimed::Theirs(found) => found,
                Claimed::Gone => return Ok(None),
            };
            let mut evidence = None;
            for _ in 0..TURNS {
                let (decision, rules) = self.decide(&found, Some(intent), evidence.take()).await?;
                match decision {
                    Decision::Advance(reason) => {
                        let seen = found.record.seen();
                        let advance = Box::new(Advance { seen, reason, claim: claim.clone() });
                        let write = || self.writes(Kind::Claim, store.advance((*advance).clone()));
                        match Box::pin(self.insist(early, write)).await? {
                            Claimed::Ours(record) => return Ok(Some(Taken::Ours(record))),
                            Claimed::Theirs(now) => found = now,
                            Claimed::Gone => return Ok(None),
                        }
                    }
                    Decision::Doubt => {
                        let seen = Box::new(found.record.seen());
                        match Box::pin(self.insist(early, || store.doubt(self.id, *seen))).await? {
                            Some(now) => *found = now,
                            None => return Ok(None),
                        }
                    }
                    Decision::Probe => match Box::pin(self.ask(&found)).await {
                        Looked::Moved(now) => found = now,
                        Looked::Gone => return Ok(None),
                        Looked::Still { evidence: learned, of, .. } => {
                            evidence = Some(learned);
                            // A closer is an attempt of its own.
                            (found.record.attempt, found.record.owner) = (of.attempt, of.owner);
                        }
                    },
                    Decision::InFlight => {
                        return Ok(Some(Box::pin(self.wait(intent, early)).await));
                    }
                    decided => {
                        let (word, answer) = self.answer(decided, found, &rules);
                        return Ok(Some(Taken::Answered(word, answer)));
                    }
                }
            }
            Ok(Some(self.in_flight()))
        }
    }

    pub(crate) fn new_claim(&self, admission: Admission) -> Result<NewClaim, StoreError> {
        let owner = self.engine.inner.owners.give().map_err(|error| StoreError::Unavailable {
            reason: format!("no randomness for an owner token: {error}"),
        })?;
        Ok(NewClaim {
            id: self.id,
            owner,
            fingerprint: self.fingerprint,
            policy: self.operation.digest(),
            lease: self.operation.policy().lease,
            admission,
            secret_version: self.engine.inner.secrets.version(),
        })
    }

    pub(crate) fn count(&self, decision: &'static str) {
        self.operation.count(decision);
    }

    /// Issues a claim until it is known what it came to.
    ///
    /// The caller waits for the store's timeout at most and is then told that nothing was
    /// executed; the write goes on, and what it may still claim is undone by whoever asked.
    pub(crate) fn insist<'a, R>(
        &'a self,
        early: &dyn Early,
        write: impl Fn() -> hapax_store::Reply<'a, R>,
    ) -> impl Future<Output = Result<R, StoreError>> {
        async move {
            let inner = &self.engine.inner;
            let late = || self.store_problem(&StoreError::Unavailable { reason: String::new() });
            let mut patience = Patience::of(self, early, late);
            let mut pause = Duration::from_millis(20);
            let mut was_lost = false;
            loop {
                let error = match patience.wait(write()).await {
                    Ok(done) => return Ok(done),
                    Err(error) => error,
                };
                // After a lost answer no other failure says what became of that write: it has to be
                // issued until the store tells, or the record would be nobody's.
                let is_lost = error.certainty() == Certainty::MayBeWritten;
                if is_lost && !was_lost {
                    warn!(%error, "a claim's answer was lost; it is issued until there is one");
                }
                was_lost |= is_lost;
                let regressed = matches!(error, StoreError::Regressed { .. });
                if !was_lost || regressed || inner.abandon.is_cancelled() {
                    return Err(error);
                }
                patience.pause(pause).await;
                pause = (pause * 2).min(Duration::from_secs(1));
            }
        }
    }
}
