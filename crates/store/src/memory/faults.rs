//! Faults that tests put in the way of a store in memory.

use hapax_core::RecordId;

use super::{Data, MemoryStore, node::Fault};
use crate::StoreError;

/// The whole of a store's data at some moment, marks included.
pub struct MemorySnapshot(Data);

impl MemoryStore {
    /// Keeps the data as it is now.
    pub fn snapshot(&self) -> MemorySnapshot {
        MemorySnapshot(self.shared.data.lock().clone())
    }

    /// Puts the data back to a snapshot under the feet of all nodes, as restoring a backup does.
    /// Each node that wrote since then notices at its next write.
    pub fn restore(&self, snapshot: MemorySnapshot) {
        *self.shared.data.lock() = snapshot.0;
    }

    /// Makes the data another incarnation: every node that is here notices at its next write.
    /// Later attempts are made under a higher epoch.
    pub fn change_incarnation(&self) {
        self.shared.data.lock().epoch += 1;
    }

    /// Fails this node's next write to a record with `error`, without writing. Calls queue up.
    pub fn fail_next(&self, error: StoreError) {
        self.node.put_in_the_way(Fault::Fail(error));
    }

    /// Loses the answer of this node's next write to a record: it fails with
    /// [`StoreError::AnswerLost`], whether the write happened (`committed`) or not. Calls queue
    /// up.
    pub fn lose_next_answer(&self, committed: bool) {
        self.node.put_in_the_way(Fault::LoseAnswer { committed });
    }

    /// Removes the lease data of a record: it is locked then, not free.
    pub fn erase_lease(&self, id: RecordId) {
        if let Some(row) = self.shared.data.lock().row_mut(&id) {
            row.record.lease_end = None;
        }
    }
}

impl std::fmt::Debug for MemorySnapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemorySnapshot")
            .field("records", &self.0.rows.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hapax_core::PolicyDigest;

    use super::*;
    use crate::{ManualClock, Policies, Standing, StandingState, SystemClock};

    fn locked() -> StoreError {
        StoreError::Locked(std::time::Duration::from_secs(2))
    }

    async fn claim(node: &MemoryStore) -> Result<(), StoreError> {
        use hapax_core::{Admission, Fingerprint, FingerprintVersion, NewClaim, Owner};
        let claim = NewClaim {
            id: RecordId::from_bytes([1; 32]),
            owner: Owner::from_bytes([1; 16]),
            fingerprint: Fingerprint::new(FingerprintVersion::from_bytes([1; 16]), [1; 32]),
            policy: PolicyDigest([1; 32]),
            lease: std::time::Duration::from_secs(30),
            admission: Admission::WithClaim,
            secret_version: 1,
        };
        crate::Claims::claim(node, claim).await.map(drop)
    }

    #[tokio::test]
    async fn failures_queue_up_for_writes_to_records_and_pass() {
        let node = MemoryStore::new(Arc::new(SystemClock));
        node.fail_next(locked());
        node.fail_next(StoreError::Full);
        assert_eq!(node.policy(PolicyDigest([0; 32])).await, Ok(None), "reads are not in the way");
        assert_eq!(node.beat().await, Ok(()), "nor are heartbeats");
        assert_eq!(claim(&node).await, Err(locked()));
        assert_eq!(node.standing(), StandingState::Failing { reason: locked().to_string() });
        assert_eq!(claim(&node).await, Err(StoreError::Full));
        assert_eq!(claim(&node).await, Ok(()));
        assert_eq!(node.standing(), StandingState::Ready);
    }

    #[tokio::test]
    async fn a_node_that_joins_after_a_restore_is_not_taken_for_one_that_was_forgotten() {
        let first = MemoryStore::new(Arc::new(ManualClock::new()));
        let before = first.snapshot();
        let forgotten = first.node();
        first.restore(before);
        let joined = first.node();
        assert_eq!(joined.beat().await, Ok(()));
        assert!(matches!(forgotten.beat().await, Err(StoreError::Regressed { .. })));
        assert_eq!(joined.beat().await, Ok(()));
    }
}
