//! A store in memory: for tests, for demonstrations, and as the shortest reading of the protocol.

use std::{collections::BTreeSet, fmt, sync::Arc, time::Duration};

use hapax_core::{
    Advance, BeginStep, ClaimNumber, Found, NewClaim, Observed, ObservedEnd, OperationName,
    Ownership, PolicyDigest, RecordId, Seen, Settlement, Step, StepEnd, StepName, StoreTime, Would,
};
use parking_lot::Mutex;

use crate::{
    Claimed, Claims, Clock, HistoryEntry, Inspect, ListFilter, Listed, Lookup, Observation,
    Observations, Owned, Policies, Reply, SecretPin, Secrets, Standing, StandingState, Steps,
    StoreError, Sweep, Swept, Written,
};

#[cfg(test)]
pub(crate) mod broken;
mod data;
mod faults;
mod node;
mod observed;
mod reconciling;
mod steps;

pub use data::{Data, Row};
pub use faults::MemorySnapshot;
pub use node::Anchor;
pub use reconciling::Watch;

use node::Node;

/// A node's handle on a store in memory. Clones are the same node; [`node`](Self::node) makes
/// another one on the same data, as another process would be.
///
/// Nothing of it survives the process. Faults can be put in its way: it can go back in time
/// ([`snapshot`](Self::snapshot), [`restore`](Self::restore)), fail and lose answers.
#[derive(Clone)]
pub struct MemoryStore {
    shared: Arc<Shared>,
    node: Arc<Node>,
}

/// What all nodes have in common. The lock is never held across an await.
struct Shared {
    data: Mutex<Data>,
    clock: Arc<dyn Clock>,
}

impl MemoryStore {
    /// The first node of an empty store, whose leases and retention are judged by `clock`.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self::join(Arc::new(Shared { data: Mutex::new(Data::default()), clock }))
    }

    /// Another node on the same data, with a mark of its own.
    pub fn node(&self) -> Self {
        Self::join(Arc::clone(&self.shared))
    }

    fn join(shared: Arc<Shared>) -> Self {
        let node = Arc::new(Node::join(&mut shared.data.lock()));
        Self { shared, node }
    }

    /// A write to a record: the fault hooks apply to it.
    fn write_record<T>(&self, write: impl FnOnce(&mut Data, StoreTime) -> T) -> Answer<T> {
        self.node.with_faults(|| self.commit(write))
    }

    /// A write, guarded by the node's mark. The clock is read under the lock, so that its time
    /// and the order of the writes agree.
    fn commit<T>(&self, write: impl FnOnce(&mut Data, StoreTime) -> T) -> Answer<T> {
        let mut data = self.shared.data.lock();
        self.node.advance_mark(&mut data)?;
        let now = self.shared.clock.now();
        Ok(write(&mut data, now))
    }

    fn read<T>(&self, read: impl FnOnce(&Data, StoreTime) -> T) -> T {
        let data = self.shared.data.lock();
        let now = self.shared.clock.now();
        read(&data, now)
    }
}

type Answer<T> = Result<T, StoreError>;

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("node", &self.node).finish_non_exhaustive()
    }
}

impl Claims for MemoryStore {
    fn claim(&self, claim: NewClaim) -> Reply<'_, Claimed> {
        Box::pin(async move { self.write_record(|data, now| data.claim(&claim, now)) })
    }

    fn claim_all(&self, claims: Vec<NewClaim>) -> Reply<'_, Vec<Claimed>> {
        Box::pin(async move {
            self.write_record(|data, now| {
                claims.iter().map(|claim| data.claim(claim, now)).collect()
            })
        })
    }

    fn advance(&self, advance: Advance) -> Reply<'_, Claimed> {
        Box::pin(async move { self.write_record(|data, now| data.advance(&advance, now)) })
    }

    fn doubt(&self, id: RecordId, seen: Seen) -> Reply<'_, Option<Found>> {
        Box::pin(async move { self.write_record(|data, now| data.doubt(&id, &seen, now)) })
    }
}

impl Owned for MemoryStore {
    fn admit(
        &self,
        by: Ownership,
        lease: Duration,
        resend_before: Option<StoreTime>,
    ) -> Reply<'_, Written> {
        Box::pin(async move {
            self.write_record(|data, now| data.admit(&by, lease, resend_before, now))
        })
    }

    fn renew(&self, by: Ownership, lease: Duration) -> Reply<'_, Written> {
        Box::pin(async move { self.write_record(|data, now| data.renew(&by, lease, now)) })
    }

    fn settle(&self, by: Ownership, settlement: Settlement) -> Reply<'_, Written> {
        Box::pin(async move { self.write_record(|data, now| data.settle(&by, settlement, now)) })
    }
}

impl Steps for MemoryStore {
    fn begin_step(&self, by: Ownership, step: BeginStep, lease: Duration) -> Reply<'_, Written> {
        Box::pin(
            async move { self.write_record(|data, now| data.begin_step(&by, &step, lease, now)) },
        )
    }

    fn end_step(
        &self,
        by: Ownership,
        step: StepName,
        end: StepEnd,
        lease: Duration,
    ) -> Reply<'_, Written> {
        Box::pin(async move {
            self.write_record(|data, now| data.end_step(&by, &step, end, lease, now))
        })
    }

    fn steps(&self, claim: ClaimNumber) -> Reply<'_, Vec<Step>> {
        Box::pin(async move { Ok(self.read(|data, _| data.steps(claim))) })
    }
}

impl Lookup for MemoryStore {
    fn find(&self, id: RecordId) -> Reply<'_, Option<Found>> {
        Box::pin(async move { Ok(self.read(|data, now| data.find(&id, now))) })
    }
}

impl Policies for MemoryStore {
    fn remember_policy(
        &self,
        digest: PolicyDigest,
        operation: OperationName,
        text: String,
    ) -> Reply<'_, ()> {
        Box::pin(
            async move { self.commit(|data, _| data.remember_policy(digest, operation, text)) },
        )
    }

    fn policy(&self, digest: PolicyDigest) -> Reply<'_, Option<String>> {
        Box::pin(async move {
            Ok(self.read(|data, _| data.policies.get(&digest).map(|(_, text)| text.clone())))
        })
    }
}

impl Secrets for MemoryStore {
    fn pinned_secret(&self, version: u32) -> Reply<'_, Option<[u8; 16]>> {
        Box::pin(async move { Ok(self.read(|data, _| data.secrets.get(&version).copied())) })
    }

    fn pin_secret(&self, version: u32, fingerprint: [u8; 16]) -> Reply<'_, SecretPin> {
        Box::pin(async move { self.commit(|data, _| data.pin_secret(version, fingerprint)) })
    }
}

impl Sweep for MemoryStore {
    fn sweep(&self, own_clock: StoreTime, limit: usize) -> Reply<'_, Swept> {
        Box::pin(async move { self.commit(|data, now| data.sweep(now.min(own_clock), limit)) })
    }
}

impl Inspect for MemoryStore {
    fn list(&self, filter: ListFilter) -> Reply<'_, Vec<Listed>> {
        Box::pin(async move { Ok(self.read(|data, now| data.list(&filter, now))) })
    }

    fn operations(&self) -> Reply<'_, Vec<OperationName>> {
        Box::pin(async move {
            let names =
                |data: &Data| data.policies.values().map(|(name, _)| name.clone()).collect();
            let names: BTreeSet<_> = self.read(|data, _| names(data));
            Ok(names.into_iter().collect())
        })
    }

    fn history(&self, claim: ClaimNumber) -> Reply<'_, Vec<HistoryEntry>> {
        Box::pin(async move { Ok(self.read(|data, _| data.history(claim))) })
    }
}

impl Observations for MemoryStore {
    fn arrive(&self, observation: Observation) -> Reply<'_, Would> {
        Box::pin(async move { self.commit(|data, now| data.observed.arrive(observation, now)) })
    }

    fn finish(&self, id: RecordId, end: ObservedEnd) -> Reply<'_, ()> {
        Box::pin(async move { self.commit(|data, now| data.observed.finish(&id, end, now)) })
    }

    fn observed(&self, limit: usize) -> Reply<'_, Vec<Observed>> {
        Box::pin(async move { Ok(self.read(|data, _| data.observed.list(limit))) })
    }
}

impl Standing for MemoryStore {
    fn beat(&self) -> Reply<'_, ()> {
        Box::pin(async move { self.commit(|_, _| ()) })
    }

    fn standing(&self) -> StandingState {
        self.node.standing()
    }

    fn distrust(&self, reason: String) {
        self.node.distrust(reason);
    }
}
