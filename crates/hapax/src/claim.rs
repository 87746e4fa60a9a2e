//! From an intent to a claimed record or an answer: claim, decide, wait.

use std::{sync::Arc, time::Duration};

use hapax_core::{
    Admission, Advance, AdvanceReason, Comparison, Decision, DecisionRules, Fingerprint, Found,
    NewClaim, OutcomeClass, Owner, PinnedPolicy, Problem, ProblemKind, Record, RecordId, decide,
};
use hapax_store::{Certainty, Claimed, StoreError};
use metrics::{counter, gauge};
use tokio::time::{Instant, sleep, sleep_until};
use tracing::{debug, warn};

use crate::{
    Answer, Executed, Execution, Hapax, Intent, Operation,
    metric_definitions::{DECISIONS, WAITING},
    reply_slot::ReplySlot,
    waiters::Freed,
};

/// How often a claim is tried again when the record moves under it. Each turn another attempt got
/// ahead, so running out of turns means that the key is busy.
const TURNS: usize = 8;

/// How waiters across processes poll.
const POLL: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(250));

/// One attempt on its way.
pub(crate) struct Attempting {
    pub(crate) engine: Hapax,
    pub(crate) operation: Arc<Operation>,
    pub(crate) id: RecordId,
    pub(crate) fingerprint: Fingerprint,
}

/// What taking the record came to.
enum Taken<T> {
    Ours(Record),
    Answered(&'static str, Answer<T>),
}

impl Attempting {
    /// The whole way of an attempt; answers through the slot, whatever happens.
    pub(crate) async fn run<T, F, Fut>(
        self,
        intent: impl Intent,
        execute: F,
        mut slot: ReplySlot<T>,
    ) where
        T: Send + 'static,
        F: FnOnce(Execution) -> Fut + Send + 'static,
        Fut: Future<Output = Executed<T>> + Send + 'static,
    {
        let taken = self.take(&intent, &mut slot).await;
        // It holds the request; what is executed holds its own.
        drop(intent);
        let record = match taken {
            Ok(Taken::Ours(record)) => record,
            Ok(Taken::Answered(decision, answer)) => {
                self.count(decision);
                return slot.send(answer);
            }
            Err(error) => {
                self.count("store_unavailable");
                return slot.send(Answer::Problem(self.store_problem(&error)));
            }
        };
        if !slot.is_open() {
            // The caller was told that nothing was executed; keep that true.
            self.count("store_unavailable");
            return self.undo(&record).await;
        }
        let Some(secret) = self.engine.inner.secrets.of(record.secret_version) else {
            self.count("policy_unknown");
            self.undo(&record).await;
            return slot.send(Answer::Problem(policy_unknown()));
        };
        self.count("execute");
        let effect_id = hapax_core::EffectId::new(secret, &record.id, "");
        let execution = Execution::new(effect_id, record.attempt, record.clean);
        self.execute_and_settle(record, execution, execute, slot).await;
    }

    /// Claims the record, or finds out what to answer instead.
    async fn take<T>(
        &self,
        intent: &dyn Intent,
        slot: &mut ReplySlot<T>,
    ) -> Result<Taken<T>, StoreError> {
        let store = &self.engine.inner.store;
        let claim = self.new_claim()?;
        for _ in 0..TURNS {
            let claimed = self.insist(slot, || store.claim(claim.clone())).await?;
            let mut found = match claimed {
                Claimed::Ours(record) => return Ok(Taken::Ours(record)),
                Claimed::Theirs(found) => found,
                Claimed::Gone => continue,
            };
            for _ in 0..TURNS {
                let (decision, rules) = self.decide(&found, Some(intent)).await?;
                match decision {
                    Decision::Advance(reason) => {
                        let seen = found.record.seen();
                        let advance = Advance { seen, reason, claim: claim.clone() };
                        match self.insist(slot, || store.advance(advance.clone())).await? {
                            Claimed::Ours(record) => return Ok(Taken::Ours(record)),
                            Claimed::Theirs(now) => found = now,
                            Claimed::Gone => break,
                        }
                    }
                    Decision::Doubt => {
                        let seen = found.record.seen();
                        match self.insist(slot, || store.doubt(self.id, seen)).await? {
                            Some(now) => *found = now,
                            None => break,
                        }
                    }
                    Decision::InFlight => return Ok(self.wait(intent, slot).await),
                    decided => {
                        let (word, answer) = self.answer(decided, *found, &rules);
                        return Ok(Taken::Answered(word, answer));
                    }
                }
            }
        }
        Ok(self.in_flight())
    }

    fn new_claim(&self) -> Result<NewClaim, StoreError> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|error| StoreError::Unavailable {
            reason: format!("no randomness for an owner token: {error}"),
        })?;
        Ok(NewClaim {
            id: self.id,
            owner: Owner::from_bytes(random),
            fingerprint: self.fingerprint,
            policy: self.operation.digest(),
            lease: self.operation.policy().lease,
            // Nothing happens between the claim and the send, so one write is both.
            admission: Admission::WithClaim,
            secret_version: self.engine.inner.secrets.version(),
        })
    }

    /// Waits for the attempt under way, as long as the policy says.
    async fn wait<T>(&self, intent: &dyn Intent, slot: &mut ReplySlot<T>) -> Taken<T> {
        let hapax_core::InFlight::Wait(patience) = self.operation.policy().in_flight else {
            return self.in_flight();
        };
        let waiting = gauge!(WAITING);
        waiting.increment(1);
        // A wait that no clock can hold is one of a year.
        let deadline = Instant::now().checked_add(patience);
        let deadline = deadline.unwrap_or_else(|| Instant::now() + Duration::from_secs(31_536_000));
        let taken = self.wait_until(deadline, intent, slot).await;
        waiting.decrement(1);
        taken
    }

    async fn wait_until<T>(
        &self,
        deadline: Instant,
        intent: &dyn Intent,
        slot: &mut ReplySlot<T>,
    ) -> Taken<T> {
        let inner = &self.engine.inner;
        let mut pause = POLL.0;
        loop {
            // Woken in process; polled across processes. A leader may have ended between the claim
            // and here, so the first look comes at once.
            let leader = inner.waiters.follow(&self.id, &self.fingerprint);
            let look = async {
                if let Some(mut leader) = leader
                    && let Some(freed) = leader.freed().await
                {
                    return Looked::Freed(freed);
                }
                let found = self.engine.bounded(inner.store.find(self.id)).await;
                // A failing read leaves the wait as it is; its bound ends it.
                if let Ok(Some(found)) = found
                    && let Ok((decision, rules)) = self.decide(&found, Some(intent)).await
                    && decision != Decision::InFlight
                {
                    return Looked::Decided(decision, Box::new(found), rules);
                }
                sleep(pause).await;
                Looked::Nothing
            };
            let looked = tokio::select! {
                biased;
                looked = look => looked,
                () = sleep_until(deadline) => return self.in_flight(),
                () = inner.abandon.cancelled() => return self.in_flight(),
                () = slot.closed() => return self.in_flight(),
            };
            match looked {
                Looked::Freed(freed) => return shared(freed),
                Looked::Decided(decision, found, rules) => {
                    return self.after_waiting(decision, *found, &rules);
                }
                Looked::Nothing => pause = (pause * 2).min(POLL.1),
            }
        }
    }

    /// A copy that waited answers from what it found; it never executes in turn. The next retry
    /// does, where that is permitted.
    fn after_waiting<T>(
        &self,
        decision: Decision,
        found: Found,
        rules: &DecisionRules,
    ) -> Taken<T> {
        let decision = match decision {
            Decision::Advance(AdvanceReason::Resend { .. }) => Decision::Hold,
            // Nothing final is said from a read that may be stale.
            decided if decided.needs_authority() => Decision::InFlight,
            decided => decided,
        };
        let (word, answer) = self.answer(decision, found, rules);
        Taken::Answered(word, answer)
    }

    /// The decision on a record, by the policy it was admitted under and the present one.
    ///
    /// Without the intent at hand, a record of another fingerprint version cannot be compared.
    pub(crate) async fn decide(
        &self,
        found: &Found,
        intent: Option<&dyn Intent>,
    ) -> Result<(Decision, DecisionRules), StoreError> {
        let record = &found.record;
        let present = self.operation.pinned();
        let pinned = self.engine.pinned_policy(record.policy).await?;
        let rules = DecisionRules::stricter(pinned.as_deref().unwrap_or(present), present);
        let compared = self.compare(&record.fingerprint, pinned.as_deref(), intent);
        Ok((decide(record, compared, found.now, &rules), rules))
    }

    /// Compares intents under the version that the record's was stored with.
    fn compare(
        &self,
        stored: &Fingerprint,
        pinned: Option<&PinnedPolicy>,
        intent: Option<&dyn Intent>,
    ) -> Comparison {
        let Some(pinned) = pinned else {
            return Comparison::UnknownVersion;
        };
        let same = |fingerprint: &Fingerprint| {
            if fingerprint == stored { Comparison::Same } else { Comparison::Different }
        };
        if stored.version() == self.operation.fingerprinter().version() {
            return same(&self.fingerprint);
        }
        let pinned = pinned.fingerprint.prepare();
        let (true, Some(intent)) = (stored.version() == pinned.version(), intent) else {
            return Comparison::UnknownVersion;
        };
        match intent.fingerprint(&pinned) {
            Ok(fingerprint) => same(&fingerprint),
            // Under the rules it was stored with, this body is no intent at all.
            Err(_) => Comparison::Different,
        }
    }

    /// The answer to a decision that executes nothing, and its word in the metrics.
    pub(crate) fn answer<T>(
        &self,
        decision: Decision,
        found: Found,
        rules: &DecisionRules,
    ) -> (&'static str, Answer<T>) {
        let Found { record, response, now } = found;
        let problem = |kind, detail: &'static str| Answer::Problem(Problem::new(kind, detail));
        match (decision, response) {
            (Decision::Replay, Some(response)) => {
                let expires = record.ending.map_or(now, |ending| ending.until.outcome);
                ("replay", Answer::Replayed { response, expires })
            }
            (Decision::Replay | Decision::NotKept, _) => (
                "not_kept",
                problem(
                    ProblemKind::OutcomeNotKept,
                    "The operation was settled, but its response was not kept. It is not executed \
                     again.",
                ),
            ),
            (Decision::KeyReused, _) => (
                "key_reused",
                problem(
                    ProblemKind::KeyReused,
                    "This key was first used for another request. Send the same request again, \
                     or use a new key for a new intent.",
                ),
            ),
            (Decision::KeyExpired(class), _) => (
                "key_expired",
                problem(
                    ProblemKind::KeyExpired,
                    match class {
                        Some(OutcomeClass::Succeeded) => {
                            "The operation succeeded; its response is no longer kept. It is not \
                         executed again under this key."
                        }
                        Some(OutcomeClass::FailedTerminal) => {
                            "The operation failed; its response is no longer kept. It is not executed \
                         again under this key."
                        }
                        None => "This key is no longer valid. It is not executed again.",
                    },
                ),
            ),
            (Decision::PolicyUnknown, _) => ("policy_unknown", Answer::Problem(policy_unknown())),
            (Decision::Hold, response) => self.unknown(&record, response, rules, now),
            // These execute or wait, and are not answers.
            (Decision::Advance(_) | Decision::Doubt | Decision::InFlight, _) => {
                ("in_flight", Answer::Problem(self.in_flight_problem()))
            }
        }
    }

    /// The answer for an outcome that nobody knows: the observed response if there is one.
    pub(crate) fn unknown<T>(
        &self,
        record: &Record,
        observed: Option<hapax_core::StoredResponse>,
        rules: &DecisionRules,
        now: hapax_core::StoreTime,
    ) -> (&'static str, Answer<T>) {
        let resend = rules.resend_before(record).is_some_and(|before| now < before);
        let problem = self.unknown_problem(resend);
        match (observed, problem.retry_after) {
            (Some(response), Some(retry_after)) => {
                ("observed", Answer::Observed { response, retry_after })
            }
            _ => ("hold", Answer::Problem(problem)),
        }
    }

    /// `outcome-unknown`; with `resend` the next retry executes, so ordinary clients are to retry.
    pub(crate) fn unknown_problem(&self, resend: bool) -> Problem {
        let options = &self.engine.inner.options;
        if resend {
            return Problem::new(
                ProblemKind::OutcomeUnknown,
                "The operation may have taken effect. Send the same request with the same key \
                 again: it continues under the same identity downstream.",
            )
            .with_status(503)
            .retry_after(options.retry_in_flight);
        }
        Problem::new(
            ProblemKind::OutcomeUnknown,
            "The operation may have taken effect and its outcome is not known. It is not executed \
             again. Ask again with the same key; do not send it under a new one.",
        )
        .retry_after(options.retry_held)
    }

    fn in_flight<T>(&self) -> Taken<T> {
        Taken::Answered("in_flight", Answer::Problem(self.in_flight_problem()))
    }

    fn in_flight_problem(&self) -> Problem {
        Problem::new(
            ProblemKind::InFlight,
            "A request with this key is being executed. Ask again with the same key.",
        )
        .retry_after(self.engine.inner.options.retry_in_flight)
    }

    pub(crate) fn store_problem(&self, error: &StoreError) -> Problem {
        let (kind, detail) = match error {
            StoreError::Regressed { .. } => (
                ProblemKind::StoreRegressed,
                "Nothing was executed: the store has lost history and an operator has to look at \
                 it.",
            ),
            _ => (
                ProblemKind::StoreUnavailable,
                "Nothing was executed: the store of operations is not available. Send the same \
                 request with the same key again.",
            ),
        };
        Problem::new(kind, detail).retry_after(self.engine.inner.options.retry_in_flight)
    }

    fn count(&self, decision: &'static str) {
        debug!(decision, "decided");
        let operation = self.operation.name().as_str().to_owned();
        counter!(DECISIONS, "operation" => operation, "decision" => decision).increment(1);
    }

    /// Issues a claim until it is known what it came to.
    ///
    /// The caller waits for the store's timeout at most and is then told that nothing was
    /// executed; the write goes on, and what it may still claim is undone by [`Self::run`].
    async fn insist<'a, T, R>(
        &'a self,
        slot: &mut ReplySlot<T>,
        write: impl Fn() -> hapax_store::Reply<'a, R>,
    ) -> Result<R, StoreError> {
        let inner = &self.engine.inner;
        let deadline = Instant::now() + inner.options.store_timeout;
        let mut pause = Duration::from_millis(20);
        let mut was_lost = false;
        loop {
            let mut writing = write();
            let written = loop {
                tokio::select! {
                    written = &mut writing => break written,
                    () = sleep_until(deadline), if slot.is_open() => {
                        let late = StoreError::Unavailable { reason: "timeout".to_owned() };
                        slot.send(Answer::Problem(self.store_problem(&late)));
                    }
                }
            };
            let error = match written {
                Ok(done) => return Ok(done),
                Err(error) => error,
            };
            // After a lost answer no other failure says what became of that write: it has to be
            // issued until the store tells, or the record would be nobody's.
            was_lost |= error.certainty() == Certainty::MayBeWritten;
            let regressed = matches!(error, StoreError::Regressed { .. });
            if !was_lost || regressed || inner.abandon.is_cancelled() {
                return Err(error);
            }
            warn!(%error, "a claim's answer was lost; issuing it again");
            tokio::select! {
                () = sleep(pause) => {}
                () = inner.abandon.cancelled() => {}
            }
            pause = (pause * 2).min(Duration::from_secs(1));
        }
    }
}

fn policy_unknown() -> Problem {
    Problem::new(
        ProblemKind::PolicyUnknown,
        "Nothing was executed: this key was first used under a policy that this instance does not \
         know. Send the same request again; another instance may know it.",
    )
    .retry_after(Duration::from_secs(1))
}

/// What a look at the attempt under way showed.
enum Looked {
    Nothing,
    Freed(Freed),
    Decided(Decision, Box<Found>, DecisionRules),
}

fn shared<T>(freed: Freed) -> Taken<T> {
    let answer = match freed {
        Freed::Response(response) => Answer::Shared { response },
        Freed::Problem(problem) => Answer::Problem(problem),
    };
    Taken::Answered("shared", answer)
}
