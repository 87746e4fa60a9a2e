//! From an execution to a durable ending: drive it, classify what came back, settle, answer.

use std::time::Duration;

use hapax_core::{
    AnswerFacts, Classified, EndingKind, Found, Problem, ProblemKind, Record, Settlement,
    WriteRefused, classify,
};
use hapax_store::{StoreError, Written};
use metrics::{counter, gauge, histogram};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep, sleep_until},
};
use tracing::{Instrument, error, info, warn};

use crate::{
    Answer, Ended, Executed, Execution, FirstOutcome, Hapax, Reply,
    catch_unwind::catch,
    claim::{Attempting, ReplySlot},
    execution::result_word,
    metric_definitions::{
        DOWNSTREAM_REPLAYS, EXECUTING, EXECUTION_SECONDS, EXECUTIONS, FENCED, RECORDS_MISSING,
        SETTLE_RETRIES,
    },
    waiters::{Freed, Lead, Leading},
};

/// The pauses between settles that the store refused to take.
const SETTLE_PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

impl Attempting {
    /// Executes an admitted record, settles it, answers the caller and the waiters.
    pub(crate) async fn execute_and_settle<T, F, Fut>(
        &self,
        record: Record,
        execution: Execution,
        execute: F,
        slot: ReplySlot<T>,
    ) where
        T: Send + 'static,
        F: FnOnce(Execution) -> Fut + Send + 'static,
        Fut: Future<Output = Executed<T>> + Send + 'static,
    {
        let leading = self.engine.inner.waiters.lead(self.id);
        let executing = gauge!(EXECUTING);
        executing.increment(1);
        let begun = Instant::now();
        let executed = self.drive(&record, async move { execute(execution).await }).await;
        executing.decrement(1);
        let operation = self.operation.name().as_str().to_owned();
        histogram!(EXECUTION_SECONDS, "operation" => operation.clone())
            .record(begun.elapsed().as_secs_f64());
        let classified = self.classify(&record, &executed.ended);
        counter!(EXECUTIONS, "operation" => operation, "result" => classified_word(classified))
            .increment(1);
        self.settle(&record, classified, executed, leading, slot).await;
    }

    /// Runs the execution to its end, its timeout, its panic or the end of the drain, renewing the
    /// lease while it lives.
    async fn drive<T>(
        &self,
        record: &Record,
        execution: impl Future<Output = Executed<T>>,
    ) -> Executed<T> {
        let policy = self.operation.policy();
        let lost = || Executed { ended: Ended::Lost, live: None };
        let mut renewing = None;
        let timeout = sleep(policy.timeout);
        let first_renewal = sleep(policy.lease / 3);
        let execution = catch(execution);
        tokio::pin!(timeout, first_renewal, execution);
        loop {
            tokio::select! {
                executed = &mut execution => return executed.unwrap_or_else(|| {
                    error!("the execution panicked; its outcome is unknown");
                    lost()
                }),
                () = &mut timeout => {
                    info!(timeout = ?policy.timeout, "no complete answer in time; unknown");
                    return lost();
                }
                () = self.engine.inner.abandon.cancelled() => return lost(),
                // Most executions end long before, so the renewing task is rare.
                () = &mut first_renewal, if renewing.is_none() => {
                    renewing = Some(Renewing::start(&self.engine, record, policy.lease));
                }
            }
        }
    }

    fn classify(&self, record: &Record, ended: &Ended) -> Classified {
        let reply = match ended {
            Ended::Answered(reply) => reply,
            // Never sent says nothing about earlier attempts.
            Ended::NeverSent if record.clean => return Classified::NotApplied,
            Ended::NeverSent | Ended::Lost => return Classified::Uncertain { show: false },
        };
        if reply.replayed && record.clean {
            warn!("the service answered a first attempt with a replay: this effect id was used");
            counter!(DOWNSTREAM_REPLAYS).increment(1);
        }
        classify(AnswerFacts {
            status: reply.status,
            complete: true,
            by_head: reply.by_head,
            said: reply.said,
            clean: record.clean,
            store_refusals: self.operation.policy().store_refusals,
        })
    }

    async fn settle<T>(
        &self,
        record: &Record,
        classified: Classified,
        executed: Executed<T>,
        leading: Leading,
        mut slot: ReplySlot<T>,
    ) {
        let Executed { ended, live } = executed;
        let reply = match ended {
            Ended::Answered(reply) => Some(reply),
            Ended::NeverSent | Ended::Lost => None,
        };
        let settlement = self.settlement(classified, reply.as_ref());
        let Some(written) = self.store_settlement(record, settlement, &mut slot).await else {
            return;
        };
        match written {
            Written::Done(settled) => {
                self.answer_settled(&settled, classified, reply, live, leading, &mut slot);
            }
            Written::Refused { why, found } => {
                drop(leading);
                self.answer_fenced(why, *found, &mut slot).await;
            }
            Written::Missing => {
                error!(record = %record.id, "the record is gone: the store has lost history");
                counter!(RECORDS_MISSING).increment(1);
                drop(leading);
                slot.send(Answer::Problem(self.unknown_problem(false)));
            }
        }
    }

    fn settlement(&self, classified: Classified, reply: Option<&Reply>) -> Settlement {
        let retention = self.operation.policy().retention;
        let response = || reply.and_then(|reply| reply.response.clone());
        match classified {
            Classified::Outcome(class) => Settlement::Outcome {
                class,
                status: reply.map_or(0, |reply| reply.status),
                response: response(),
                retention,
            },
            Classified::NotApplied => Settlement::NotApplied {
                // The service's word speaks for every attempt; a refusal for its own alone.
                every_attempt: reply.is_some_and(|reply| reply.said.is_some()),
                retention,
            },
            Classified::Uncertain { show } => {
                Settlement::Unknown { observed: if show { response() } else { None } }
            }
        }
    }

    /// Settles until the store has taken it. The caller waits for the store's timeout at most and
    /// is then told that the outcome is unknown, since for it, it is.
    async fn store_settlement<T>(
        &self,
        record: &Record,
        settlement: Settlement,
        slot: &mut ReplySlot<T>,
    ) -> Option<Written> {
        let inner = &self.engine.inner;
        let deadline = Instant::now() + inner.options.store_timeout;
        let mut pause = SETTLE_PAUSE.0;
        loop {
            let mut writing = inner.store.settle(record.ownership(), settlement.clone());
            let written = loop {
                tokio::select! {
                    written = &mut writing => break written,
                    () = sleep_until(deadline), if slot.is_open() => {
                        slot.send(Answer::Problem(self.unknown_problem(false)));
                    }
                }
            };
            let failed = match written {
                Ok(written) => return Some(written),
                Err(failed) => failed,
            };
            counter!(SETTLE_RETRIES).increment(1);
            let regressed = matches!(failed, StoreError::Regressed { .. });
            if regressed || inner.abandon.is_cancelled() {
                error!(error = %failed, record = %record.id, "an ending could not be stored");
                slot.send(Answer::Problem(self.unknown_problem(false)));
                return None;
            }
            warn!(error = %failed, "an ending could not be stored yet; trying again");
            tokio::select! {
                () = sleep(pause) => {}
                () = inner.abandon.cancelled() => {}
            }
            pause = (pause * 2).min(SETTLE_PAUSE.1);
        }
    }

    fn answer_settled<T>(
        &self,
        settled: &Record,
        classified: Classified,
        reply: Option<Reply>,
        live: Option<T>,
        leading: Leading,
        slot: &mut ReplySlot<T>,
    ) {
        let (outcome, lead, otherwise) = match classified {
            Classified::Outcome(_) => {
                let expires = settled
                    .ending
                    .filter(|ending| ending.kind == EndingKind::Outcome)
                    .map_or(settled.created, |ending| ending.until.outcome);
                let unknown = self.unknown_problem(false);
                (FirstOutcome::Stored { expires }, Lead::Settled, unknown)
            }
            Classified::NotApplied => {
                let problem = unreachable_problem();
                let freed = match reply.and_then(|reply| reply.response) {
                    Some(response) => Freed::Response(response),
                    None => Freed::Problem(problem.clone()),
                };
                (FirstOutcome::Freed, Lead::Freed(freed), problem)
            }
            Classified::Uncertain { .. } => {
                let rules = hapax_core::DecisionRules::stricter(
                    self.operation.pinned(),
                    self.operation.pinned(),
                );
                let resend = rules.resend_before(settled).is_some();
                let problem = self.unknown_problem(resend);
                let retry_after = problem.retry_after.unwrap_or_default();
                (FirstOutcome::Unknown { retry_after }, Lead::Settled, problem)
            }
        };
        leading.end(lead);
        slot.send(match live {
            Some(live) => Answer::First { live, outcome },
            None => Answer::Problem(otherwise),
        });
    }

    /// Another attempt ended this one: the record says what happened.
    async fn answer_fenced<T>(&self, why: WriteRefused, found: Found, slot: &mut ReplySlot<T>) {
        warn!(%why, record = %found.record.id, "the record moved on while this attempt executed");
        counter!(FENCED).increment(1);
        let answer = match self.decide(&found).await {
            Ok((decision, rules)) => self.answer(decision, found, &rules).1,
            Err(_) => Answer::Problem(self.unknown_problem(false)),
        };
        slot.send(answer);
    }

    /// Gives back a record that was claimed but not executed. Its owner alone can say so.
    pub(crate) async fn undo(&self, record: &Record) {
        let settlement = if record.clean {
            let retention = self.operation.policy().retention;
            Settlement::NotApplied { every_attempt: false, retention }
        } else {
            Settlement::Unknown { observed: None }
        };
        let mut nobody = ReplySlot::<()>::answered();
        self.store_settlement(record, settlement, &mut nobody).await;
    }
}

const fn classified_word(classified: Classified) -> &'static str {
    match classified {
        Classified::Outcome(class) => result_word(Some(class)),
        Classified::NotApplied => "not_applied",
        Classified::Uncertain { .. } => result_word(None),
    }
}

fn unreachable_problem() -> Problem {
    Problem::new(
        ProblemKind::UpstreamUnreachable,
        "Nothing was executed: the service could not be reached. Send the same request with the \
         same key again.",
    )
    .retry_after(Duration::from_secs(1))
    .not_applied()
}

/// Renews a lease until it is dropped.
struct Renewing(JoinHandle<()>);

impl Renewing {
    fn start(engine: &Hapax, record: &Record, lease: Duration) -> Self {
        let (store, ownership) = (engine.inner.store.clone(), record.ownership());
        let renewing = async move {
            loop {
                match store.renew(ownership, lease).await {
                    Ok(Written::Done(_)) => {}
                    // Losing the lease is no permission to stop or to run again: the settle finds
                    // out who owns the record.
                    Ok(_) => return warn!("the lease was lost while the execution is under way"),
                    Err(error) => warn!(%error, "the lease could not be renewed yet"),
                }
                sleep(lease / 3).await;
            }
        };
        Self(tokio::spawn(renewing.in_current_span()))
    }
}

impl Drop for Renewing {
    fn drop(&mut self) {
        self.0.abort();
    }
}
