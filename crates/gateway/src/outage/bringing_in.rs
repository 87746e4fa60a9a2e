//! Bringing in what ran without a record, once the store is back. Each run is brought in under a
//! token of its own, so that after a crash at any moment the next one may begin from the start.

use std::{collections::HashMap, io, sync::Arc};

use hapax::Operation;
use hapax_core::{
    Admission, AppliedOutcome, Classified, Fingerprint, Judgement, NewClaim, OnUnknown,
    OperationPolicy, OutcomeClass, Owner, PolicyDigest, RecordId, Retention, Ruling, Settlement,
    State, Statement, StoreTime, StoredResponse, Unprotected,
};
use hapax_store::{BroughtIn, StandingState};
use metrics::{counter, gauge};
use tracing::{error, info};

use super::{
    Outage, OutageError,
    hexadecimal::{bytes, exactly, hexadecimal},
    judge_by,
};
use crate::{
    metric_definitions::{UNPROTECTED_BROUGHT_IN, UNPROTECTED_PENDING},
    spool::{Begun, Ended, Line, Spool, VERSION},
};

/// Who says it in a record's history.
const ACTOR: &str = "hapax";

impl Outage {
    /// Brings in what this process's own runs came to, and what others left behind, if the store is
    /// there.
    pub(super) async fn bring_in(&self) -> Result<(), OutageError> {
        let nothing = self.passed.lock().runs.is_empty();
        if nothing || self.hapax.store().standing() != StandingState::Ready {
            return Ok(());
        }
        loop {
            let next = {
                let passed = self.passed.lock();
                let ended = passed.runs.iter().find(|(_, end)| end.is_some());
                ended.map(|(begun, end)| {
                    let id = record_id(begun);
                    let kept = id.and_then(|id| passed.by_record.get(&id));
                    let kept = kept.filter(|it| it.run == begun.run);
                    let response = kept.and_then(|it| it.ended.as_ref()?.response.clone());
                    (begun.clone(), end.clone(), response)
                })
            };
            let Some((begun, end, response)) = next else { break };
            self.bring_in_one(&begun, end.as_ref(), response).await?;
            match record_id(&begun) {
                Some(id) => self.forget(&id, &begun.run),
                None => self.passed.lock().runs.retain(|(there, _)| there.run != begun.run),
            }
        }
        // What is under way is noted in the file, so it stays as long as something is.
        self.clear()?;
        self.bring_in_left_behind().await
    }

    fn clear(&self) -> io::Result<()> {
        let Some(spool) = self.spool.lock().clone() else { return Ok(()) };
        // Under the lock: nothing is begun meanwhile that would be cut off.
        let passed = self.passed.lock();
        if !passed.runs.is_empty() {
            return Ok(());
        }
        gauge!(UNPROTECTED_PENDING).set(0.0);
        spool.clear()
    }

    /// Brings in what processes noted that are gone. What has no end in their files may have
    /// happened.
    pub(super) async fn bring_in_left_behind(&self) -> Result<(), OutageError> {
        let database = self.database.clone();
        let found = tokio::task::spawn_blocking(move || Spool::left_behind(&database)).await;
        for (spool, lines) in found.map_err(io::Error::other)?? {
            let mut ends = HashMap::new();
            for line in &lines {
                if let Line::Ended(ended) = line {
                    ends.insert(ended.run.as_str(), ended);
                }
            }
            for line in &lines {
                if let Line::Begun(begun) = line {
                    self.bring_in_one(begun, ends.get(begun.run.as_str()).copied(), None).await?;
                }
            }
            let removed = tokio::task::spawn_blocking(move || spool.remove()).await;
            removed.map_err(io::Error::other)??;
        }
        Ok(())
    }

    async fn bring_in_one(
        &self,
        begun: &Begun,
        end: Option<&Ended>,
        response: Option<StoredResponse>,
    ) -> Result<(), OutageError> {
        let operation = self.operation_of(begun);
        let policy = operation.as_deref().map(Operation::policy);
        let settlement = settlement(policy, end, response.clone());
        let Some(ran) = unprotected(begun, policy, settlement) else {
            let what = format!("run {} cannot be read", begun.run);
            return Err(io::Error::new(io::ErrorKind::InvalidData, what).into());
        };
        let (token, statement) = (ran.claim.owner, ran.statement.clone());
        let brought_in = self.hapax.store().bring_in(ran).await?;
        let result = match brought_in {
            BroughtIn::Recorded => "recorded",
            BroughtIn::Again => "again",
            BroughtIn::Beside { found } => {
                let record = found.record.id;
                error!(%record, "it ran unprotected beside what the store knows of its key");
                let is_uncertain = found.record.state(found.now) == State::Uncertain;
                if let Some(ruling) = success(policy, end, response).filter(|_| is_uncertain) {
                    let of = found.record.ownership();
                    let retention = retention(policy);
                    let judgement = Judgement { token, of, ruling, retention, statement };
                    self.hapax.store().judge(judgement, None).await?;
                }
                "beside"
            }
        };
        info!(record = %begun.record, result, "brought in what ran unprotected");
        counter!(UNPROTECTED_BROUGHT_IN, "result" => result).increment(1);
        Ok(())
    }

    /// The operation that a run was of: with the policy that it was admitted under, else as it is
    /// now.
    fn operation_of(&self, begun: &Begun) -> Option<Arc<Operation>> {
        let operations = self.operations.lock();
        let of_it = || operations.iter().filter(|it| it.name().as_str() == begun.operation);
        let same = of_it().find(|it| hexadecimal(&it.digest().0) == begun.policy);
        same.or_else(|| of_it().next()).cloned()
    }
}

/// What a run came to, if nothing was known of its key before.
fn settlement(
    policy: Option<&OperationPolicy>,
    end: Option<&Ended>,
    response: Option<StoredResponse>,
) -> Settlement {
    let unknown = |observed| Settlement::Unknown { observed };
    let Some(end) = end else { return unknown(None) };
    let retention = retention(policy);
    match judge_by(policy.is_some_and(|policy| policy.store_refusals), end, true) {
        // The service still knows the answer that this process does not have any more.
        Classified::Outcome(_)
            if response.is_none()
                && policy.is_some_and(|policy| policy.on_unknown == OnUnknown::Probe) =>
        {
            unknown(None)
        }
        Classified::Outcome(class) => {
            let status = end.status.unwrap_or_default();
            Settlement::Outcome { class, status, response, retention }
        }
        Classified::NotApplied => {
            Settlement::NotApplied { every_attempt: end.said.is_some(), retention }
        }
        Classified::Uncertain { show } => unknown(response.filter(|_| show)),
    }
}

/// The success of a run whose key had a record: it speaks for the effect id.
fn success(
    policy: Option<&OperationPolicy>,
    end: Option<&Ended>,
    response: Option<StoredResponse>,
) -> Option<Ruling> {
    let end = end?;
    let refusals = policy.is_some_and(|policy| policy.store_refusals);
    let class = OutcomeClass::Succeeded;
    let succeeded = judge_by(refusals, end, false) == Classified::Outcome(class);
    let status = end.status.filter(|_| succeeded)?;
    Some(Ruling::Applied(AppliedOutcome { class, status, response }))
}

fn retention(policy: Option<&OperationPolicy>) -> Retention {
    policy.map(|policy| policy.retention).unwrap_or_default()
}

fn record_id(begun: &Begun) -> Option<RecordId> {
    exactly(&begun.record).map(RecordId::from_bytes)
}

fn unprotected(
    begun: &Begun,
    policy: Option<&OperationPolicy>,
    settlement: Settlement,
) -> Option<Unprotected> {
    if begun.v != VERSION {
        return None;
    }
    let claim = NewClaim {
        id: record_id(begun)?,
        owner: Owner::from_bytes(exactly(&begun.run)?),
        fingerprint: Fingerprint::from_bytes(&bytes(&begun.fingerprint)?)?,
        policy: PolicyDigest(exactly(&begun.policy)?),
        lease: policy.map_or(std::time::Duration::ZERO, |policy| policy.lease),
        admission: Admission::WithClaim,
        secret_version: begun.secret_version,
    };
    let reason = format!("sent while the store was not available, as run {}", begun.run);
    let statement = Statement { actor: ACTOR.to_owned(), reason };
    let begun = StoreTime::from_micros(begun.at);
    Some(Unprotected { claim, begun, settlement, statement })
}
