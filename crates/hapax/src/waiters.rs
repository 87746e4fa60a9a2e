//! Copies that wait in the same process for the attempt that executes.

use std::{collections::HashMap, sync::Arc};

use hapax_core::{Problem, RecordId, StoredResponse};
use parking_lot::Mutex;
use tokio::sync::watch;

/// The attempts of this process that execute now, by record.
#[derive(Default)]
pub(crate) struct Waiters {
    leaders: Mutex<HashMap<RecordId, watch::Receiver<Lead>>>,
}

/// How the leading attempt stands.
#[derive(Clone, Debug)]
pub(crate) enum Lead {
    /// It executes.
    Running,
    /// The store tells the rest.
    Settled,
    /// It freed the key, so the store tells nothing: waiters get its answer instead of executing
    /// in turn (`protocol.md` 22).
    Freed(Freed),
}

/// What the leading attempt was answered when it freed the key.
#[derive(Clone, Debug)]
pub(crate) enum Freed {
    /// The service's refusal.
    Response(StoredResponse),
    /// Our own word: the service was not reachable.
    Problem(Problem),
}

impl Waiters {
    /// Makes this attempt the one that others of its record wait for.
    pub(crate) fn lead(self: &Arc<Self>, id: RecordId) -> Leading {
        let (sender, receiver) = watch::channel(Lead::Running);
        self.leaders.lock().insert(id, receiver);
        Leading { waiters: self.clone(), id, sender }
    }

    /// The leading attempt of a record in this process, if there is one.
    pub(crate) fn follow(&self, id: &RecordId) -> Option<watch::Receiver<Lead>> {
        self.leaders.lock().get(id).cloned()
    }
}

/// The leading attempt's end of it; when it is dropped, waiters look into the store.
pub(crate) struct Leading {
    waiters: Arc<Waiters>,
    id: RecordId,
    sender: watch::Sender<Lead>,
}

impl Leading {
    /// Tells the waiters how it ended.
    pub(crate) fn end(self, lead: Lead) {
        self.sender.send_replace(lead);
    }
}

impl Drop for Leading {
    fn drop(&mut self) {
        let mut leaders = self.waiters.leaders.lock();
        // A later attempt of the same record may lead by now; its entry is not ours to remove.
        let ours =
            |follower: &watch::Receiver<Lead>| follower.same_channel(&self.sender.subscribe());
        if leaders.get(&self.id).is_some_and(ours) {
            leaders.remove(&self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ended_lead_does_not_remove_its_successor() {
        let waiters = Arc::new(Waiters::default());
        let id = RecordId::from_bytes([1; 32]);
        let first = waiters.lead(id);
        let second = waiters.lead(id);
        drop(first);
        assert!(waiters.follow(&id).is_some());
        drop(second);
        assert!(waiters.follow(&id).is_none());
    }

    #[tokio::test]
    async fn followers_see_the_end_also_after_the_leader_is_gone() {
        let waiters = Arc::new(Waiters::default());
        let id = RecordId::from_bytes([1; 32]);
        let leading = waiters.lead(id);
        let mut follower = waiters.follow(&id).expect("leading");
        leading.end(Lead::Settled);
        assert!(follower.changed().await.is_ok());
        assert!(matches!(*follower.borrow(), Lead::Settled));
    }
}
