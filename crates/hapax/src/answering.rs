//! From a decision to what the caller is told.

use std::{convert::Infallible, sync::Arc, time::Duration};

use hapax_core::{
    AdvanceReason, Attempt, Comparison, Decision, DecisionRules, Evidence, Fingerprint, Found,
    InFlight, OnUnknown, OutcomeClass, PinnedPolicy, Problem, ProblemKind, Record, RecordId,
    StoreTime, StoredResponse, decide,
};
use hapax_store::StoreError;

use crate::{
    Answer, Hapax, Intent, Operation,
    claim::{Attempting, Taken},
};

/// What the store knows of a key, by reading alone.
#[derive(Debug)]
pub enum Recalled<T> {
    /// It is known, and this is what a request with it gets.
    Known(Answer<T>),
    /// It is free; the number that its next attempt has at least.
    Free {
        /// The lowest one, unless there were attempts before.
        next: Attempt,
    },
    /// The store could not be read in time.
    Unread,
}

impl Attempting {
    /// The decision on a record, by the policy it was admitted under and the present one.
    ///
    /// `evidence` is what the service was just found to know of an uncertain record.
    ///
    /// Without the intent at hand, a record of another fingerprint version cannot be compared.
    pub(crate) async fn decide(
        &self,
        found: &Found,
        intent: Option<&dyn Intent>,
        evidence: Option<Evidence>,
    ) -> Result<(Decision, DecisionRules), StoreError> {
        let record = &found.record;
        let present = self.operation.pinned();
        let other;
        let pinned = if record.policy == self.operation.digest() {
            Some(present)
        } else {
            // Rare, so that its future is not part of every attempt's.
            other = Box::pin(self.engine.pinned_policy(record.policy)).await?;
            other.as_deref()
        };
        let rules = DecisionRules::stricter(pinned.unwrap_or(present), present);
        let rules = evidence.map_or(rules, |evidence| rules.after(evidence));
        let compared = match pinned {
            None => Comparison::UnknownVersion,
            Some(_) if record.fingerprint.version() == self.fingerprint.version() => {
                compared(record.fingerprint == self.fingerprint)
            }
            Some(pinned) => Box::pin(compare(&record.fingerprint, pinned, intent)).await,
        };
        Ok((decide(record, compared, found.now, &rules), rules))
    }

    /// The answer to a decision that executes nothing, and its word in the metrics.
    pub(crate) fn answer(
        &self,
        decision: Decision,
        found: Box<Found>,
        rules: &DecisionRules,
    ) -> (&'static str, Answer<Infallible>) {
        let Found { record, response, now } = *found;
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
            (Decision::Hold | Decision::Probe, response) => {
                self.unknown(&record, response, rules, now)
            }
            // These execute or wait, and are not answers.
            (Decision::Advance(_) | Decision::Doubt | Decision::InFlight, _) => {
                ("in_flight", Answer::Problem(self.in_flight_problem()))
            }
        }
    }

    /// The answer for an outcome that nobody knows: the observed response if there is one.
    fn unknown(
        &self,
        record: &Record,
        observed: Option<StoredResponse>,
        rules: &DecisionRules,
        now: StoreTime,
    ) -> (&'static str, Answer<Infallible>) {
        let problem = self.unknown_problem(rules.goes_on(record, now).is_some());
        match (observed, problem.retry_after) {
            (Some(response), Some(retry_after)) => {
                ("observed", Answer::Observed { response, retry_after })
            }
            _ => ("hold", Answer::Problem(problem)),
        }
    }

    /// `outcome-unknown`; where it goes on, the next retry executes, so ordinary clients are to
    /// retry.
    pub(crate) fn unknown_problem(&self, goes_on: bool) -> Problem {
        let options = &self.engine.inner.options;
        if goes_on {
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
        .retry_after(match self.operation.policy().on_unknown {
            OnUnknown::Probe => options.retry_probed,
            OnUnknown::Hold | OnUnknown::Resend => options.retry_held,
        })
    }

    pub(crate) fn in_flight<R>(&self) -> Taken<R> {
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
        self.engine.store_problem(error)
    }
}

/// Compares an intent with a record's under the version that this was stored with, which is not the
/// present one.
async fn compare(
    stored: &Fingerprint,
    pinned: &PinnedPolicy,
    intent: Option<&dyn Intent>,
) -> Comparison {
    let made_by = pinned.fingerprint.prepare_for(stored.version());
    let (Some(made_by), Some(intent)) = (made_by, intent) else {
        return Comparison::UnknownVersion;
    };
    let made = match intent.fingerprint_aside(&made_by) {
        Some(making) => making.await,
        None => Some(intent.fingerprint(&made_by)),
    };
    match made {
        Some(Ok(fingerprint)) => compared(fingerprint == *stored),
        // Under the rules it was stored with, this body is no intent at all.
        Some(Err(_)) => Comparison::Different,
        // Not now.
        None => Comparison::UnknownVersion,
    }
}

const fn compared(same: bool) -> Comparison {
    if same { Comparison::Same } else { Comparison::Different }
}

impl Hapax {
    /// What the store knows of a key, by reading alone. For doors that go on while the store takes
    /// no writes: nobody takes anything over here, and nothing is asked.
    pub async fn recall<T>(
        &self,
        operation: &Arc<Operation>,
        id: RecordId,
        fingerprint: Fingerprint,
    ) -> Recalled<T> {
        let (engine, operation) = (self.clone(), Arc::clone(operation));
        let in_flight = InFlight::Conflict;
        let attempting = Attempting { engine, operation, id, fingerprint, in_flight };
        let found = match self.bounded(self.inner.store.find(id)).await {
            Ok(Some(found)) => found,
            Ok(None) => return Recalled::Free { next: Attempt::first(0) },
            Err(error) => return self.not_recalled(&error),
        };
        let (decision, rules) = match attempting.decide(&found, None, None).await {
            Ok(decided) => decided,
            Err(error) => return self.not_recalled(&error),
        };
        let (word, answer) = match decision {
            Decision::Advance(AdvanceReason::Released) => {
                let attempt = found.record.attempt;
                return Recalled::Free { next: attempt.next(attempt.epoch()) };
            }
            // Nobody executes it, and without the store nobody goes on with it.
            Decision::Advance(AdvanceReason::Resend { .. } | AdvanceReason::Resume)
            | Decision::Doubt => {
                attempting.unknown(&found.record, found.response, &rules, found.now)
            }
            Decision::Advance(AdvanceReason::LeaseOver) => {
                let reason = "it is claimed, and cannot be taken over".to_owned();
                let problem = self.store_problem(&StoreError::Unavailable { reason });
                ("store_unavailable", Answer::Problem(problem))
            }
            decision => attempting.answer(decision, Box::new(found), &rules),
        };
        attempting.count(word);
        Recalled::Known(answer.widen())
    }

    /// What is damaged or has lost history is not there to be read, and not to be passed by.
    fn not_recalled<T>(&self, error: &StoreError) -> Recalled<T> {
        match error {
            StoreError::Corrupt { .. } | StoreError::Regressed { .. } => {
                Recalled::Known(Answer::Problem(self.store_problem(error)))
            }
            _ => Recalled::Unread,
        }
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
        Problem::new(kind, detail).retry_after(self.inner.options.retry_in_flight)
    }
}

pub(crate) fn policy_unknown() -> Problem {
    Problem::new(
        ProblemKind::PolicyUnknown,
        "Nothing was executed: this key was first used under a policy that this instance does not \
         know. Send the same request again; another instance may know it.",
    )
    .retry_after(Duration::from_secs(1))
}
