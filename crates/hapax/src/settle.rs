//! From an execution to a durable ending: drive it, classify what came back, settle, answer.

use std::{
    pin::{Pin, pin},
    time::Duration,
};

use bytes::Bytes;
use hapax_core::{
    AnswerFacts, Classified, Decision, EndingKind, Found, OutcomeClass, Problem, ProblemKind,
    Record, Settlement, WriteRefused, classify, classify_unanswered,
};
use hapax_store::{StoreError, Written};
use metrics::{counter, gauge, histogram};
use tokio::time::Instant;
use tracing::{error, warn};

use crate::{
    Answer, Attempt, Ended, Executed, FirstOutcome, Reply,
    claim::Attempting,
    drive::{Driven, Limits},
    failpoints::{self, Failpoint},
    metric_definitions::{
        DOWNSTREAM_REPLAYS, EXECUTING, EXECUTION_SECONDS, EXECUTIONS, FENCED, RECORDS_MISSING,
        SETTLE_RETRIES,
    },
    patience::Patience,
    points::{Kind, Moment},
    reply_slot::{Early, ReplySlot},
    waiters::{Freed, Leading},
};

/// The pauses between settles that the store refused to take.
const SETTLE_PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// An execution that is over, and those who are to be told what it came to.
pub(crate) struct Settling<T> {
    /// What its end amounts to.
    pub(crate) classified: Classified,
    pub(crate) executed: Box<Executed<T>>,
    pub(crate) leading: Leading,
    pub(crate) slot: ReplySlot<T>,
}

impl Attempting {
    /// Executes an admitted record, settles it, answers the caller and the waiters.
    pub(crate) fn execute_and_settle<T, F, Fut>(
        &self,
        record: Box<Record>,
        attempt: Attempt,
        execute: F,
        slot: ReplySlot<T>,
    ) -> impl Future<Output = ()>
    where
        T: Send + 'static,
        F: FnOnce(Attempt) -> Fut + Send + 'static,
        Fut: Future<Output = Box<Executed<T>>> + Send + 'static,
    {
        let facts = attempt.clone();
        let execution = Box::pin(async {
            failpoints::pass(Failpoint::Claimed).await;
            // A service tells by its answer, so there is nothing to interrupt.
            let _ = self.pass(Kind::Service, Moment::Before).await;
            let executed = execute(attempt).await;
            let _ = self.pass(Kind::Service, Moment::Acted).await;
            failpoints::pass(Failpoint::Answered).await;
            executed
        });
        async move {
            let leading = self.engine.inner.waiters.lead(self.id, self.fingerprint);
            let limits = pin!(std::future::ready(self.limits(&record)));
            let executed = match self.drive(limits, execution).await {
                Driven::Ended(executed) => executed,
                _ => {
                    let sent = facts.sent().may_have_left();
                    let ended = if sent { Ended::Lost } else { Ended::NeverSent };
                    Box::new(Executed { ended, live: None })
                }
            };
            let classified = self.classify(&record, &executed.ended);
            self.count_executed(&facts, classified, &executed.ended);
            self.settle(&record, Settling { classified, executed, leading, slot }).await;
        }
    }

    /// Drives an execution, measured.
    pub(crate) fn drive<T>(
        &self,
        granted: Pin<&mut impl Future<Output = Limits>>,
        execution: Pin<Box<impl Future<Output = T>>>,
    ) -> impl Future<Output = Driven<T>> {
        async move {
            let executing = gauge!(EXECUTING);
            executing.increment(1);
            let begun = Instant::now();
            let driven = self.engine.drive(granted, execution).await;
            executing.decrement(1);
            histogram!(EXECUTION_SECONDS, "operation" => self.operation.label())
                .record(begun.elapsed().as_secs_f64());
            driven
        }
    }

    /// What an execution may take whose claim is committed: the lease is renewed while it lives.
    pub(crate) fn limits(&self, record: &Record) -> Limits {
        let policy = self.operation.policy();
        Limits { timeout: policy.timeout, lease: Some((record.ownership(), policy.lease)) }
    }

    pub(crate) fn count_executed(&self, attempt: &Attempt, classified: Classified, ended: &Ended) {
        if let Classified::Uncertain { .. } = classified {
            let (effect_id, number) = (attempt.effect_id(), attempt.number());
            let ended = ended_word(ended);
            warn!(%effect_id, attempt = %number, %ended, "the outcome of this attempt is unknown");
        }
        self.count_result(classified);
    }

    pub(crate) fn count_result(&self, classified: Classified) {
        let (operation, result) = (self.operation.label(), classified_word(classified));
        counter!(EXECUTIONS, "operation" => operation, "result" => result).increment(1);
    }

    fn classify(&self, record: &Record, ended: &Ended) -> Classified {
        let reply = match ended {
            Ended::Answered(reply) => reply,
            Ended::NeverSent => return classify_unanswered(false, record.clean),
            Ended::Lost => return classify_unanswered(true, record.clean),
        };
        if reply.replayed && record.clean {
            warn!("the service answered a first attempt with a replay: this effect id was used");
            counter!(DOWNSTREAM_REPLAYS).increment(1);
        }
        classify(self.facts(reply, record))
    }

    /// What is known of a complete answer.
    pub(crate) fn facts(&self, reply: &Reply, record: &Record) -> AnswerFacts {
        AnswerFacts {
            status: reply.status,
            complete: true,
            by_head: reply.response.is_none(),
            said: reply.said,
            told: reply.told,
            clean: record.is_accounted(),
            store_refusals: self.operation.policy().store_refusals,
        }
    }

    /// Stores what an attempt came to, and answers.
    pub(crate) fn settle<T: Send>(
        &self,
        record: &Record,
        mut settling: Settling<T>,
    ) -> impl Future<Output = ()> {
        async move {
            let settlement = self.settlement(&mut settling);
            let written = self.store_settlement(record, settlement, &settling.slot).await;
            let Some(written) = written else { return };
            failpoints::pass(Failpoint::Settled).await;
            if let Written::Refused { why: WriteRefused::NotClean, found } = &written
                && settling.classified.is_refusal()
                && found.record.ownership() == record.ownership()
            {
                // A write that was given up half-way was done all the same, or something ran beside
                // this attempt. Left as it is, the record would be in flight until its lease is over.
                settling.classified = Classified::Uncertain { show: false };
                let unknown = Settlement::Unknown { observed: None };
                let again = Box::pin(self.store_settlement(record, unknown, &settling.slot)).await;
                let Some(written) = again else { return };
                return self.answer_settled(written, settling).await;
            }
            self.answer_settled(written, settling).await;
        }
    }

    /// Answers the caller and those who wait, once it is durable what the attempt came to.
    ///
    /// What is rare is boxed, so that its future is not part of every attempt's.
    pub(crate) async fn answer_settled<T: Send>(&self, written: Written, settling: Settling<T>) {
        match (written, settling.classified) {
            (Written::Done(settled), Classified::Outcome(_)) => {
                let ending = settled.ending.filter(|ending| ending.kind == EndingKind::Outcome);
                let kept = ending.filter(|ending| ending.kept);
                let expires = kept.map(|ending| ending.until.outcome);
                let problem = || self.unknown_problem(false);
                settling.answer(FirstOutcome::Stored { expires }, problem);
            }
            (Written::Done(_), Classified::NotApplied) => {
                let Settling { executed, leading, slot, .. } = settling;
                let Executed { ended, live } = *executed;
                let problem = freed_problem(&ended);
                leading.free(freed(ended, &problem));
                slot.send(match live {
                    Some(live) => Answer::First { live, outcome: FirstOutcome::Freed },
                    None => Answer::Problem(problem),
                });
            }
            (Written::Done(_), Classified::Uncertain { .. }) => {
                let problem = self.unknown_problem(Box::pin(self.goes_on()).await);
                let retry_after = problem.retry_after.unwrap_or_default();
                settling.answer(FirstOutcome::Unknown { retry_after }, || problem);
            }
            (Written::Refused { why, found }, _) => {
                let Settling { leading, slot, .. } = settling;
                drop(leading);
                Box::pin(self.answer_fenced(why, found, &slot)).await;
            }
            (Written::Missing, _) => {
                // Not a fence: the store has lost history, and a retry would find nothing there.
                error!(record = %self.id, "the record of an execution is gone");
                counter!(RECORDS_MISSING).increment(1);
                self.engine.inner.store.distrust("the record of an execution is gone".to_owned());
                settling.slot.send(Answer::Problem(self.unknown_problem(false)));
            }
        }
    }

    /// What is stored of it; takes the response that is.
    pub(crate) fn settlement<T>(&self, settling: &mut Settling<T>) -> Settlement {
        let retention = self.operation.policy().retention;
        let reply = settling.executed.ended.reply_mut();
        let (status, said) = reply.as_ref().map_or((0, false), |it| (it.status, it.said.is_some()));
        let response = reply
            .filter(|_| settling.classified.stores_answer())
            .and_then(|reply| reply.response.take());
        settling.classified.settlement(status, said, response, retention)
    }

    /// Settles until the store has taken it. The caller waits for the store's timeout at most and
    /// is then told that the outcome is unknown, since for it, it is.
    pub(crate) fn store_settlement(
        &self,
        record: &Record,
        settlement: Settlement,
        early: &dyn Early,
    ) -> impl Future<Output = Option<Written>> {
        async move {
            let inner = &self.engine.inner;
            let mut patience = Patience::of(self, early, || self.unknown_problem(false));
            let mut pause = SETTLE_PAUSE.0;
            let mut was_told = false;
            loop {
                let writing = self.writes(
                    Kind::Settle,
                    inner.store.settle(record.ownership(), settlement.clone()),
                );
                let mut written = patience.wait(writing).await;
                // Boxed, so that what is rare is not part of every attempt's future.
                if let Ok(Written::Refused { why: why @ WriteRefused::Fenced, found }) = written {
                    let proving = Box::pin(self.refused(record, &settlement, why, found));
                    written = patience.wait(proving).await;
                }
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
                if !std::mem::replace(&mut was_told, true) {
                    warn!(error = %failed, "an ending could not be stored yet; trying until it is");
                }
                patience.pause(pause).await;
                pause = (pause * 2).min(SETTLE_PAUSE.1);
            }
        }
    }

    /// Whether the next retry of this record, uncertain now, would execute: by the one decision.
    async fn goes_on(&self) -> bool {
        let found = self.engine.bounded(self.engine.inner.store.find(self.id)).await;
        let Ok(Some(found)) = found else { return false };
        let decided = self.decide(&found, None, None).await;
        matches!(decided, Ok((Decision::Advance(_), _)))
    }

    /// Another attempt ended this one: the record says what happened.
    async fn answer_fenced<T: Send>(
        &self,
        why: WriteRefused,
        found: Box<Found>,
        slot: &ReplySlot<T>,
    ) {
        warn!(%why, record = %found.record.id, "the record moved on while this attempt executed");
        counter!(FENCED).increment(1);
        let answer = match self.decide(&found, None, None).await {
            // Nobody is at it: the next retry executes.
            Ok((Decision::Advance(_), _)) => Answer::Problem(self.unknown_problem(true)),
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

impl<T> Settling<T> {
    /// Lets those who wait look into the store, and answers the caller: with the live answer, or
    /// with a problem where there is none.
    fn answer(self, outcome: FirstOutcome, problem: impl FnOnce() -> Problem) {
        drop(self.leading);
        self.slot.send(match self.executed.live {
            Some(live) => Answer::First { live, outcome },
            None => Answer::Problem(problem()),
        });
    }
}

/// What waiting copies get when the key was freed.
pub(crate) fn freed(ended: Ended, problem: &Problem) -> Freed {
    let Ended::Answered(Reply { response: Some(mut response), retry_after, .. }) = ended else {
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

/// What a caller is told whose attempt freed the key without an answer of its own.
pub(crate) fn freed_problem(ended: &Ended) -> Problem {
    match ended {
        Ended::Answered(_) | Ended::NeverSent => Problem::new(
            ProblemKind::UpstreamUnreachable,
            "Nothing was executed: the service could not be reached. Send the same request with \
             the same key again.",
        ),
        Ended::Lost => Problem::new(
            ProblemKind::HandlerFailed,
            "The service failed and nothing was applied. Send the same request with the same key \
             again.",
        ),
    }
    .retry_after(Duration::from_secs(1))
    .not_applied()
}
