//! What has become of an operation so far.

use hapax_core::{
    Attempt, EffectId, Handle, OperationName, OutcomeClass, RecordId, Scope, State, StoreTime,
};
use hapax_store::StoreError;

use crate::Hapax;

/// What has become of an operation so far. It reveals nothing of its request and answer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OperationStatus {
    /// The operation's name; `None` where its policy is of a version that is unknown here.
    pub operation: Option<OperationName>,
    /// The identity that travelled downstream.
    pub effect_id: EffectId,
    /// The present attempt.
    pub attempt: Attempt,
    /// Its state, on the store's clock.
    pub state: State,
    /// When it was first claimed.
    pub created: StoreTime,
    /// Its outcome, if it has one.
    pub outcome: Option<OutcomeStatus>,
}

/// What is known of an outcome without the response.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct OutcomeStatus {
    /// Whether the effect exists.
    pub succeeded: bool,
    /// The status that was answered, unless it was settled without one.
    pub status: Option<u16>,
    /// Whether a retry gets the response.
    pub kept: bool,
    /// When it was settled.
    pub at: StoreTime,
    /// Until when the response is replayed.
    pub replayed_until: StoreTime,
}

impl Hapax {
    /// What has become of a record; `None` where there is none, or none of which an effect id can
    /// be told.
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot be asked.
    pub async fn status(&self, id: RecordId) -> Result<Option<OperationStatus>, StoreError> {
        let Some(found) = self.bounded(self.inner.store.find(id)).await? else { return Ok(None) };
        let record = &found.record;
        let Some(secret) = self.inner.secrets.of(record.secret_version) else { return Ok(None) };
        let policy = self.pinned_policy(record.policy).await?;
        let outcome = record.ending.and_then(|ending| {
            Some(OutcomeStatus {
                succeeded: ending.class? == OutcomeClass::Succeeded,
                status: ending.status.filter(|status| *status != 0),
                kept: ending.kept && found.now < ending.until.outcome,
                at: ending.at,
                replayed_until: ending.until.outcome,
            })
        });
        Ok(Some(OperationStatus {
            operation: policy.map(|policy| policy.operation.clone()),
            effect_id: EffectId::new(secret, &id, ""),
            attempt: record.attempt,
            state: record.state(found.now),
            created: record.created,
            outcome,
        }))
    }

    /// The effect id that a new record would have.
    pub fn effect_id(&self, id: &RecordId) -> Option<EffectId> {
        let secret = self.inner.secrets.of(self.inner.secrets.version())?;
        Some(EffectId::new(secret, id, ""))
    }

    /// A reference to a record that is of use to its scope alone, for addresses.
    pub fn handle(&self, id: RecordId, scope: &Scope) -> Option<Handle> {
        let secret = self.inner.secrets.of(self.inner.secrets.version())?;
        Some(Handle::new(secret, id, scope))
    }

    /// The record that a reference names, if it was made for this scope.
    pub fn open_handle(&self, handle: &Handle, scope: &Scope) -> Option<RecordId> {
        self.inner.secrets.all().find_map(|secret| handle.open(secret, scope))
    }
}
