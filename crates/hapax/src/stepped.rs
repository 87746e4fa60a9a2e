//! The way of an attempt whose effect is told by steps: take, execute, settle.

use std::{pin::pin, sync::Arc};

use hapax_core::{
    Admission, Classified, OutcomeClass, OwnState, Progress, Record, classify, classify_steps,
};
use hapax_store::Written;
use tracing::{info, warn};

use crate::{
    Attempt, Ended, Executed, Intent,
    claim::{Attempting, Taken},
    drive::Driven,
    points::Kind,
    reply_slot::{Early, ReplySlot},
    running::Running,
    settle::Settling,
    waiters::Leading,
};

impl Attempting {
    /// The whole way of an attempt; answers through the slot, whatever happens.
    pub(crate) async fn run_steps<T, F, Fut>(
        self,
        intent: &dyn Intent,
        execute: F,
        slot: ReplySlot<T>,
    ) where
        T: Send + 'static,
        F: FnOnce(Arc<Running>) -> Fut + Send + 'static,
        Fut: Future<Output = Box<Executed<T>>> + Send + 'static,
    {
        let taken = self.take_steps(intent, &slot).await;
        self.run_taken_steps(taken, execute, slot).await;
    }

    /// Executes what was taken, or answers.
    pub(crate) async fn run_taken_steps<T, F, Fut>(
        &self,
        taken: Taken<Arc<Running>>,
        execute: F,
        slot: ReplySlot<T>,
    ) where
        T: Send + 'static,
        F: FnOnce(Arc<Running>) -> Fut + Send + 'static,
        Fut: Future<Output = Box<Executed<T>>> + Send + 'static,
    {
        let Some(running) = self.ours(taken, &slot) else { return };
        let leading = self.engine.inner.waiters.lead(self.id, self.fingerprint);
        let limits = pin!(std::future::ready(self.limits(&running.record())));
        let execution = Box::pin(execute(Arc::clone(&running)));
        let driven = self.drive(limits, execution).await;
        self.settle_steps(&running, driven, leading, slot).await;
    }

    /// Claims the record for an execution that is told by steps, with what earlier attempts left.
    pub(crate) async fn take_steps(
        &self,
        intent: &dyn Intent,
        early: &dyn Early,
    ) -> Taken<Arc<Running>> {
        let taken = self.take(intent, Admission::BySteps, early).await;
        self.with_steps(taken).await
    }

    /// What was taken, with the steps that earlier attempts left.
    pub(crate) async fn with_steps(
        &self,
        taken: Taken<(Box<Record>, Attempt)>,
    ) -> Taken<Arc<Running>> {
        let (record, attempt) = match taken {
            Taken::Ours(taken) => taken,
            Taken::Answered(decision, answer) => return Taken::Answered(decision, answer),
        };
        let steps = if record.clean {
            Vec::new()
        } else {
            let read = self.engine.inner.store.steps(record.claim);
            match self.engine.bounded(read).await {
                Ok(steps) => steps,
                Err(error) => {
                    Box::pin(self.undo(&record)).await;
                    return self.store_failed(&error);
                }
            }
        };
        Taken::Ours(Arc::new(Running::new(self.clone(), attempt, *record, steps)))
    }

    /// Settles by what the handler answered, and by what its steps say.
    pub(crate) async fn settle_steps<T: Send>(
        &self,
        running: &Running,
        driven: Driven<Box<Executed<T>>>,
        leading: Leading,
        slot: ReplySlot<T>,
    ) {
        let (record, whole) = running.close();
        #[cfg(feature = "sqlite")]
        let parked = running.take_parked();
        let executed = match driven {
            // Whatever the handler says over a step that did not come to its end.
            Driven::Ended(executed) if !self.is_believed(&record, whole, &executed.ended) => {
                warn!(record = %self.id, "a handler answered in spite of an interruption");
                Box::new(Executed::lost())
            }
            Driven::Ended(executed) => executed,
            Driven::Panicked | Driven::TimedOut | Driven::Abandoned => Box::new(Executed::lost()),
        };
        #[cfg(feature = "sqlite")]
        let has_finished = parked.is_some();
        #[cfg(not(feature = "sqlite"))]
        let has_finished = false;
        let classified = match self.classify_stepped(&record, has_finished, &executed.ended) {
            // What was undone is not to be done again under the same identities: for the other
            // side that would be the call that it remembers.
            Classified::NotApplied if running.has_done() => {
                Classified::Outcome(OutcomeClass::FailedTerminal)
            }
            classified => classified,
        };
        self.count_stepped(running, &record, classified, &executed.ended);
        let settling = Settling { classified, executed, leading, slot };
        #[cfg(feature = "sqlite")]
        if let Some(open) = parked {
            return Box::pin(self.settle_parked(open, &record, settling)).await;
        }
        let is_outcome = matches!(classified, Classified::Outcome(_));
        if is_outcome && record.own_state == OwnState::Claimed {
            match self.admit_late(&record, &settling.slot).await {
                Some(Written::Done(_)) => {}
                Some(written) => return self.answer_settled(written, settling).await,
                None => return,
            }
        }
        self.settle(&record, settling).await;
    }

    /// Counts an execution, and says of what nobody knows whether it happened.
    fn count_stepped(
        &self,
        running: &Running,
        record: &Record,
        classified: Classified,
        ended: &Ended,
    ) {
        let goes_on = record.progress == Progress::Accounted;
        match (classified, running.in_doubt()) {
            (Classified::Uncertain { .. }, Some((step, _))) => {
                let effect_id = running.attempt.effect_id_of(step.as_str());
                warn!(%step, %effect_id, "whether this step happened is not known");
                self.count_result(classified);
            }
            (Classified::Uncertain { .. }, None) if goes_on => {
                info!("interrupted between its steps; it goes on with the next retry");
                self.count_result(classified);
            }
            _ => self.count_executed(&running.attempt, classified, ended),
        }
    }

    /// Whether an answer can be an outcome: that of an execution which was interrupted, or has a
    /// step in doubt, is at most a failure that settles nothing.
    fn is_believed(&self, record: &Record, whole: bool, ended: &Ended) -> bool {
        let Ended::Answered(reply) = ended else { return true };
        let whole = whole && !matches!(record.progress, Progress::InDoubt { .. });
        let clean = hapax_core::AnswerFacts { clean: true, ..self.facts(reply, record) };
        whole || !matches!(classify(clean), Classified::Outcome(_))
    }

    /// What an answer amounts to. `has_finished`: the handler has come to its last transaction.
    fn classify_stepped(&self, record: &Record, has_finished: bool, ended: &Ended) -> Classified {
        let before_admission = record.own_state == OwnState::Claimed;
        let Ended::Answered(reply) = ended else {
            return match before_admission && record.clean {
                true => Classified::NotApplied,
                false => Classified::Uncertain { show: false },
            };
        };
        let facts = self.facts(reply, record);
        if !before_admission || matches!(record.progress, Progress::InDoubt { .. }) {
            return classify_steps(facts, record.progress);
        }
        match classify(facts) {
            outcome @ Classified::Outcome(_) if has_finished => outcome,
            // Nothing was to be done, and that is the outcome.
            success @ Classified::Outcome(OutcomeClass::Succeeded) => success,
            _ if record.clean => Classified::NotApplied,
            _ => Classified::Uncertain { show: true },
        }
    }

    /// Admits an execution that had no step and has an outcome all the same.
    async fn admit_late(&self, record: &Record, early: &dyn Early) -> Option<Written> {
        let store = &self.engine.inner.store;
        let lease = self.operation.policy().lease;
        let admitting = || self.writes(Kind::Admit, store.admit(record.ownership(), lease, None));
        match self.insist(early, admitting).await {
            Ok(written) => Some(written),
            Err(error) => {
                warn!(%error, record = %self.id, "an outcome could not be admitted");
                early.refuse(self.store_problem(&error));
                None
            }
        }
    }
}
