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
