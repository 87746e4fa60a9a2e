//! From an execution to a durable ending: drive it, classify what came back, settle, answer.

use std::time::Duration;

use bytes::Bytes;
use hapax_core::{
    AnswerFacts, Classified, Decision, EndingKind, Found, OutcomeClass, Problem, ProblemKind,
    Record, Settlement, WriteRefused, classify,
};
use hapax_store::{StoreError, Written};
use metrics::{counter, gauge, histogram};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep, sleep_until},
};
use tracing::{Instrument, error, info, warn};

use crate::{
    Answer, Attempt, Ended, Executed, FirstOutcome, Hapax, Reply, Sent,
    catch_unwind::catch,
    claim::Attempting,
    metric_definitions::{
        DOWNSTREAM_REPLAYS, EXECUTING, EXECUTION_SECONDS, EXECUTIONS, FENCED, RECORDS_MISSING,
        SETTLE_RETRIES,
    },
    reply_slot::{Early, ReplySlot},
    waiters::{Freed, Leading},
};

/// The pauses between settles that the store refused to take.
const SETTLE_PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

impl Attempting {
    /// Executes an admitted record, settles it, answers the caller and the waiters.
    pub(crate) async fn execute_and_settle<T, F, Fut>(
        &self,
        record: Record,
        attempt: Attempt,
        execute: F,
        slot: ReplySlot<T>,
    ) where
        T: Send + 'static,
        F: FnOnce(Attempt) -> Fut + Send + 'static,
        Fut: Future<Output = Executed<T>> + Send + 'static,
    {
        let leading = self.engine.inner.waiters.lead(self.id, self.fingerprint);
        let executing = gauge!(EXECUTING);
        executing.increment(1);
        let begun = Instant::now();
        let (sent, facts) = (attempt.sent().clone(), attempt.clone());
        let executing_it = async move { execute(attempt).await };
        let executed = self.drive(&record, &sent, executing_it).await;
        executing.decrement(1);
        let operation = self.operation.name().as_str().to_owned();
        histogram!(EXECUTION_SECONDS, "operation" => operation.clone())
            .record(begun.elapsed().as_secs_f64());
        let classified = self.classify(&record, &executed.ended);
        if let Classified::Uncertain { .. } = classified {
            let (effect_id, attempt) = (facts.effect_id(), record.attempt);
            let ended = ended_word(&executed.ended);
            warn!(%effect_id, %attempt, %ended, "the outcome of this attempt is unknown");
        }
        counter!(EXECUTIONS, "operation" => operation, "result" => classified_word(classified))
            .increment(1);
        self.settle(&record, classified, executed, leading, slot).await;
    }

    /// Runs the execution to its end, its timeout, its panic or the end of the drain, renewing the
    /// lease while it lives.
    async fn drive<T>(
        &self,
        record: &Record,
        sent: &Sent,
        execution: impl Future<Output = Executed<T>>,
    ) -> Executed<T> {
        let policy = self.operation.policy();
        let cut = || {
            let ended = if sent.may_have_left() { Ended::Lost } else { Ended::NeverSent };
            Executed { ended, live: None }
        };
        let mut renewing = None;
        let timeout = sleep(policy.timeout);
        let first_renewal = sleep(policy.lease / 3);
        let execution = catch(execution);
        tokio::pin!(timeout, first_renewal, execution);
        loop {
            tokio::select! {
                biased;
                executed = &mut execution => return executed.unwrap_or_else(|| {
                    error!("the execution panicked");
                    cut()
                }),
                () = &mut timeout => {
                    info!(timeout = ?policy.timeout, "no complete answer in time");
                    return cut();
                }
                () = self.engine.inner.abandon.cancelled() => return cut(),
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
            by_head: reply.response.is_none(),
            said: reply.said,
            clean: record.clean,
            store_refusals: self.operation.policy().store_refusals,
        })
    }

    async fn settle<T: Send>(
        &self,
        record: &Record,
        classified: Classified,
        executed: Executed<T>,
        leading: Leading,
        slot: ReplySlot<T>,
    ) {
        let Executed { ended, live } = executed;
        let reply = match ended {
            Ended::Answered(reply) => Some(reply),
            Ended::NeverSent | Ended::Lost => None,
        };
        let settlement = self.settlement(classified, reply.as_ref());
        let Some(written) = self.store_settlement(record, settlement, &slot).await else {
            return;
        };
        match written {
            Written::Done(settled) => {
                let (outcome, problem) = self.after_settling(&settled, classified).await;
                match (classified, reply) {
                    (Classified::NotApplied, reply) => leading.free(freed(reply, &problem)),
                    _ => drop(leading),
                }
                slot.send(match live {
                    Some(live) => Answer::First { live, outcome },
                    None => Answer::Problem(problem),
                });
            }
            Written::Refused { why, found } => {
                drop(leading);
                self.answer_fenced(why, *found, &slot).await;
            }
            Written::Missing => {
                // Not a fence: the store has lost history, and a retry would find nothing there.
                error!(record = %record.id, "the record of an execution is gone");
                counter!(RECORDS_MISSING).increment(1);
                self.engine.inner.store.distrust("the record of an execution is gone".to_owned());
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
    pub(crate) async fn store_settlement(
        &self,
        record: &Record,
        settlement: Settlement,
        early: &dyn Early,
    ) -> Option<Written> {
        let inner = &self.engine.inner;
        let deadline = Instant::now() + inner.options.store_timeout;
        let mut pause = SETTLE_PAUSE.0;
        loop {
            let mut writing = inner.store.settle(record.ownership(), settlement.clone());
            let written = loop {
                tokio::select! {
                    written = &mut writing => break written,
                    () = sleep_until(deadline), if early.is_open() => {
                        early.refuse(self.unknown_problem(false));
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
                early.refuse(self.unknown_problem(false));
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

    /// What became of a settled attempt, and what its caller is told where there is no live answer.
    async fn after_settling(
        &self,
        settled: &Record,
        classified: Classified,
    ) -> (FirstOutcome, Problem) {
        match classified {
            Classified::Outcome(_) => {
                let ending = settled.ending.filter(|ending| ending.kind == EndingKind::Outcome);
                let expires = ending.map_or(settled.created, |ending| ending.until.outcome);
                (FirstOutcome::Stored { expires }, self.unknown_problem(false))
            }
            Classified::NotApplied => (FirstOutcome::Freed, unreachable_problem()),
            Classified::Uncertain { .. } => {
                let problem = self.unknown_problem(self.goes_on().await);
                let retry_after = problem.retry_after.unwrap_or_default();
                (FirstOutcome::Unknown { retry_after }, problem)
            }
        }
    }

    /// Whether the next retry of this record, uncertain now, would execute: by the one decision.
    async fn goes_on(&self) -> bool {
        let found = self.engine.bounded(self.engine.inner.store.find(self.id)).await;
        let Ok(Some(found)) = found else { return false };
        let decided = self.decide(&found, None).await;
        matches!(decided, Ok((Decision::Advance(_), _)))
    }

    /// Another attempt ended this one: the record says what happened.
    async fn answer_fenced<T: Send>(&self, why: WriteRefused, found: Found, slot: &ReplySlot<T>) {
        warn!(%why, record = %found.record.id, "the record moved on while this attempt executed");
        counter!(FENCED).increment(1);
        let answer = match self.decide(&found, None).await {
            Ok((decision, rules)) => self.answer(decision, found, &rules).1.widen(),
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
        let nobody = ReplySlot::<()>::answered();
        self.store_settlement(record, settlement, &nobody).await;
    }
}

/// What waiting copies get when the key was freed.
fn freed(reply: Option<Reply>, problem: &Problem) -> Freed {
    let Some(Reply { response: Some(mut response), retry_after, .. }) = reply else {
        return Freed::Problem(problem.clone());
    };
    if let Some(after) = retry_after {
        response.headers.push((Bytes::from_static(b"retry-after"), after));
    }
    Freed::Response(response)
}

/// How an execution ended, for the log.
fn ended_word(ended: &Ended) -> String {
    match ended {
        Ended::Answered(reply) => format!("with status {}", reply.status),
        Ended::NeverSent => "not sent, after an earlier attempt that was".to_owned(),
        Ended::Lost => "without a complete answer".to_owned(),
    }
}

/// The words of the `result` label.
const fn classified_word(classified: Classified) -> &'static str {
    match classified {
        Classified::Outcome(OutcomeClass::Succeeded) => "succeeded",
        Classified::Outcome(OutcomeClass::FailedTerminal) => "failed_terminal",
        Classified::NotApplied => "not_applied",
        Classified::Uncertain { .. } => "uncertain",
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
