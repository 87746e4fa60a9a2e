//! Copies that wait in the same process for the attempt that executes.

#[cfg(feature = "sqlite")]
use std::collections::hash_map::Entry;
use std::{collections::HashMap, sync::Arc};

use hapax_core::{Fingerprint, Problem, RecordId, StoredResponse};
use parking_lot::Mutex;
use tokio::sync::watch;

/// The attempts of this process that execute now, by record, each with its intent.
#[derive(Default)]
pub(crate) struct Waiters {
    leaders: Mutex<HashMap<RecordId, (Fingerprint, Following)>>,
}

/// What the leading attempt was answered when it freed the key. The store tells nothing of it, so
/// waiters get this instead of executing in turn (`protocol.md` 22).
#[derive(Clone, Debug)]
pub(crate) enum Freed {
    /// The service's refusal.
    Response(StoredResponse),
    /// Our own word: the service was not reachable.
    Problem(Problem),
}

impl Waiters {
    /// Makes this attempt the one that others with the same intent wait for.
    pub(crate) fn lead(self: &Arc<Self>, id: RecordId, fingerprint: Fingerprint) -> Leading {
        let (sender, receiver) = watch::channel(None);
        self.leaders.lock().insert(id, (fingerprint, Following(receiver)));
        Leading { waiters: self.clone(), id, sender }
    }

    /// As [`lead`](Self::lead), unless somebody leads already.
    #[cfg(feature = "sqlite")]
    pub(crate) fn try_lead(
        self: &Arc<Self>,
        id: RecordId,
        fingerprint: Fingerprint,
    ) -> Option<Leading> {
        match self.leaders.lock().entry(id) {
            Entry::Occupied(_) => None,
            Entry::Vacant(free) => {
                let (sender, receiver) = watch::channel(None);
                free.insert((fingerprint, Following(receiver)));
                Some(Leading { waiters: self.clone(), id, sender })
            }
        }
    }

    /// The leading attempt of a record in this process, if there is one with the same intent: a
    /// freed key may have been taken by another one since.
    pub(crate) fn follow(&self, id: &RecordId, fingerprint: &Fingerprint) -> Option<Following> {
        let leaders = self.leaders.lock();
        let (intent, following) = leaders.get(id)?;
        (intent == fingerprint).then(|| following.clone())
    }
}

/// The leading attempt's end of it; when it is dropped, waiters look into the store.
pub(crate) struct Leading {
    waiters: Arc<Waiters>,
    id: RecordId,
    sender: watch::Sender<Option<Freed>>,
}

impl Leading {
    /// Tells the waiters that the key was freed, and by what answer.
    pub(crate) fn free(self, freed: Freed) {
        self.sender.send_replace(Some(freed));
    }
}

impl Drop for Leading {
    fn drop(&mut self) {
        let mut leaders = self.waiters.leaders.lock();
        // A later attempt of the same record may lead by now; its entry is not ours to remove.
        let ours = |(_, following): &(Fingerprint, Following)| {
            following.0.same_channel(&self.sender.subscribe())
        };
        if leaders.get(&self.id).is_some_and(ours) {
            leaders.remove(&self.id);
        }
    }
}

/// A waiter's end of it.
#[derive(Clone, Debug)]
pub(crate) struct Following(watch::Receiver<Option<Freed>>);

impl Following {
    /// Waits for the leading attempt to end; `None` when the store tells the rest.
    pub(crate) async fn freed(&mut self) -> Option<Freed> {
        let freed = self.0.wait_for(Option::is_some).await.ok()?;
        freed.clone()
    }
}

#[cfg(test)]
mod tests {
    use hapax_core::FingerprintRules;

    use super::*;

    const ID: RecordId = RecordId::from_bytes([1; 32]);

    fn intent(n: u8) -> Fingerprint {
        Fingerprint::new(FingerprintRules::default().version(), [n; 32])
    }

    #[test]
    fn an_ended_lead_does_not_remove_its_successor() {
        let waiters = Arc::new(Waiters::default());
        let first = waiters.lead(ID, intent(1));
        let second = waiters.lead(ID, intent(1));
        drop(first);
        assert!(waiters.follow(&ID, &intent(1)).is_some());
        drop(second);
        assert!(waiters.follow(&ID, &intent(1)).is_none());
    }

    #[tokio::test]
    async fn followers_see_the_end_also_after_the_leader_is_gone() {
        let waiters = Arc::new(Waiters::default());
        let leading = waiters.lead(ID, intent(1));
        let mut follower = waiters.follow(&ID, &intent(1)).expect("leading");
        let mut other = follower.clone();
        leading.free(Freed::Response(StoredResponse::default()));
        assert!(matches!(follower.freed().await, Some(Freed::Response(_))));
        assert!(other.freed().await.is_some());
        let leading = waiters.lead(ID, intent(1));
        let mut follower = waiters.follow(&ID, &intent(1)).expect("leading");
        drop(leading);
        assert!(follower.freed().await.is_none());
    }

    #[test]
    fn nobody_follows_another_intent() {
        let waiters = Arc::new(Waiters::default());
        let _leading = waiters.lead(ID, intent(1));
        assert!(waiters.follow(&ID, &intent(2)).is_none());
    }
}
