//! Bringing in what ran without a record, once the store is back. Each run is brought in under a
//! token of its own, so that after a crash at any moment the next one may begin from the start.

use std::{io, sync::Arc};

use hapax::Operation;
use hapax_core::{
    Admission, Classified, Fingerprint, NewClaim, OnUnknown, OperationPolicy, Owner, PolicyDigest,
    RecordId, RunEnd, Settlement, Statement, StoreTime, StoredResponse, Unprotected,
};
use hapax_store::{BroughtIn, StandingState};
use metrics::counter;
use tracing::{error, info, warn};

use super::{
    Outage, OutageError,
    hexadecimal::{bytes, exactly, hexadecimal},
    others::{ends, frees},
    passed::Noted,
    words::{judge, seen},
};
use crate::{
    causes::with_causes,
    metric_definitions::UNPROTECTED_BROUGHT_IN,
    spool::{Begun, Ended, Line, Other, Spool, VERSION},
};

/// Who says it in a record's history.
const ACTOR: &str = "hapax";

/// What is known of a run's end.
enum End<'a> {
    /// Its process lives and has noted none, or will tell it by itself.
    Open,
    Noted(&'a Ended, Option<StoredResponse>),
    /// Its process is gone without having noted one.
    NeverNoted,
}

/// What is left to do of a run.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Left {
    Nothing,
    /// Another attempt executes under its key.
    Later,
}

impl Outage {
    /// Brings in this process's own runs, those under way too, and what other processes noted, if
    /// the store is there.
    pub(super) async fn bring_in(self: &Arc<Self>) -> Result<(), OutageError> {
        if self.hapax.store().standing() != StandingState::Ready {
            return Ok(());
        }
        let runs = self.passed.lock().runs().clone();
        for Noted { begun, end, is_in_store } in runs {
            self.bring_in_own(&begun, end, is_in_store).await?;
        }
        // What is under way is noted in the file, so it stays as long as something is.
        self.on_disk(Self::clear).await.map_err(io::Error::from)??;
        self.on_disk(Self::catch_up).await.map_err(io::Error::from)?;
        if self.others.hold_something() { self.bring_in_others().await } else { Ok(()) }
    }

    async fn bring_in_own(
        &self,
        begun: &Begun,
        end: Option<Ended>,
        is_in_store: bool,
    ) -> Result<(), OutageError> {
        let id = record_id(begun);
        let Some(end) = end else {
            if !is_in_store {
                self.bring_in_one(begun, End::Open).await?;
                self.passed.lock().is_in_store(&begun.run);
            }
            return Ok(());
        };
        let response = id.and_then(|id| self.passed.lock().response(&id, &begun.run));
        if self.bring_in_one(begun, End::Noted(&end, response)).await? == Left::Nothing {
            self.passed.lock().forget(id, &begun.run);
        }
        Ok(())
    }

    /// Brings in what other processes noted. Of those that live, that it may be under way: they tell
    /// its end. What has no end in the files of those that are gone may have happened.
    pub(super) async fn bring_in_others(&self) -> Result<(), OutageError> {
        let database = self.database.clone();
        let own = self.spool.lock().clone();
        let reading = move || Spool::others(&database, own.as_deref().map(Spool::path));
        let others = tokio::task::spawn_blocking(reading).await.map_err(io::Error::other)??;
        let mut failed = None;
        for other in others {
            match other {
                Ok(Other { lines, left_behind: Some(spool) }) => {
                    self.bring_in_left_behind(&lines, spool).await?;
                }
                Ok(Other { lines, left_behind: None }) => self.bring_in_under_way(&lines).await?,
                Err(error) if error.is_held => {
                    let error = with_causes(&error);
                    warn!(error, "what another process noted is not known here");
                }
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(()), |error| Err(error.into()))
    }

    async fn bring_in_left_behind(&self, lines: &[Line], spool: Spool) -> Result<(), OutageError> {
        let ends = ends(lines);
        let mut left = Left::Nothing;
        for line in lines {
            let Line::Begun(begun) = line else { continue };
            let end = match ends.get(&*begun.run) {
                Some(end) => End::Noted(end, None),
                None => End::NeverNoted,
            };
            if self.bring_in_one(begun, end).await? == Left::Later {
                left = Left::Later;
            }
        }
        if left == Left::Nothing {
            let removed = tokio::task::spawn_blocking(move || spool.remove()).await;
            removed.map_err(io::Error::other)??;
        }
        Ok(())
    }

    async fn bring_in_under_way(&self, lines: &[Line]) -> Result<(), OutageError> {
        let ends = ends(lines);
        for line in lines {
            let Line::Begun(begun) = line else { continue };
            let is_free = ends.get(&*begun.run).is_some_and(|end| frees(end));
            let is_in_store = self.others.is_in_store(&begun.run);
            if !is_free && !is_in_store {
                match self.bring_in_one(begun, End::Open).await {
                    Err(error @ OutageError::UnknownRun { .. }) => {
                        warn!(%error, "what another process noted is not known here");
                        continue;
                    }
                    brought_in => brought_in?,
                };
                self.others.note_in_store(begun.run.clone(), record_id(begun));
            }
        }
        Ok(())
    }

    async fn bring_in_one(&self, begun: &Begun, end: End<'_>) -> Result<Left, OutageError> {
        let operation = self.operation_of(begun);
        let policy = operation.as_deref().map(Operation::policy);
        let end = match end {
            End::Open => None,
            End::NeverNoted => Some(RunEnd {
                settlement: Settlement::Unknown { observed: None },
                seen: "its process was gone before it noted an end".to_owned(),
            }),
            End::Noted(end, response) => {
                Some(RunEnd { settlement: settlement(policy, end, response), seen: seen(end) })
            }
        };
        let is_over = end.is_some();
        let happened =
            !matches!(&end, Some(end) if matches!(end.settlement, Settlement::NotApplied { .. }));
        let Some(ran) = unprotected(begun, policy, end) else {
            return Err(OutageError::UnknownRun { run: begun.run.clone() });
        };
        let result = match self.hapax.store().bring_in(ran).await? {
            BroughtIn::Recorded => "recorded",
            BroughtIn::Again => "again",
            BroughtIn::Beside { .. } if !happened => "recorded",
            BroughtIn::Beside { found } => {
                let record = found.record.id;
                error!(%record, "it ran unprotected beside what the store knows of its key");
                "beside"
            }
            BroughtIn::Later => return Ok(Left::Later),
        };
        info!(record = %begun.record, result, is_over, "brought in what ran unprotected");
        if is_over {
            counter!(UNPROTECTED_BROUGHT_IN, "result" => result).increment(1);
        }
        Ok(Left::Nothing)
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
    end: &Ended,
    response: Option<StoredResponse>,
) -> Settlement {
    let retention = policy.map(|policy| policy.retention).unwrap_or_default();
    match judge(policy.is_some_and(|policy| policy.store_refusals), end, true) {
        // The service still knows the answer that this process does not have any more.
        Classified::Outcome(_)
            if response.is_none()
                && policy.is_some_and(|policy| policy.on_unknown == OnUnknown::Probe) =>
        {
            Settlement::Unknown { observed: None }
        }
        Classified::Outcome(class) => {
            let status = end.status.unwrap_or_default();
            Settlement::Outcome { class, status, response, retention }
        }
        Classified::NotApplied => {
            Settlement::NotApplied { every_attempt: end.said.is_some(), retention }
        }
        Classified::Uncertain { show } => {
            Settlement::Unknown { observed: response.filter(|_| show) }
        }
    }
}

fn record_id(begun: &Begun) -> Option<RecordId> {
    exactly(&begun.record).map(RecordId::from_bytes)
}

fn unprotected(
    begun: &Begun,
    policy: Option<&OperationPolicy>,
    end: Option<RunEnd>,
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
    Some(Unprotected { claim, begun, end, statement })
}
