//! Copies that wait in the same process for the attempt that executes.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use hapax_core::{Fingerprint, Problem, RecordId, StoredResponse};
use parking_lot::Mutex;
use tokio::sync::watch;

/// The attempts of this process that execute now, by record.
#[derive(Default)]
pub(crate) struct Waiters {
    leads: Mutex<Leads>,
    next: AtomicU64,
}

#[derive(Default)]
struct Leads {
    leaders: HashMap<RecordId, Leader>,
    /// Who follows a lead whose key was freed and taken again before it could tell them.
    superseded: HashMap<u64, Followed>,
}

type Followed = watch::Sender<Option<Freed>>;

struct Leader {
    /// Which lead this is.
    lead: u64,
    /// Its intent.
    fingerprint: Fingerprint,
    /// There once somebody follows.
    followed: Option<Followed>,
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
        let (leader, leading) = self.new_lead(id, fingerprint);
        let mut leads = self.leads.lock();
        if let Some(Leader { lead, followed: Some(followed), .. }) =
            leads.leaders.insert(id, leader)
        {
            leads.superseded.insert(lead, followed);
        }
        leading
    }

    /// As [`lead`](Self::lead), unless somebody leads already.
    #[cfg(feature = "sqlite")]
    pub(crate) fn try_lead(
        self: &Arc<Self>,
        id: RecordId,
        fingerprint: Fingerprint,
    ) -> Option<Leading> {
        let (leader, leading) = self.new_lead(id, fingerprint);
        match self.leads.lock().leaders.entry(id) {
            Entry::Occupied(_) => {}
            Entry::Vacant(free) => {
                free.insert(leader);
                return Some(leading);
            }
        }
        None
    }

    /// Whether an attempt of this process executes, or is being settled.
    pub(crate) fn has_lead(&self, id: &RecordId) -> bool {
        self.leads.lock().leaders.contains_key(id)
    }

    fn new_lead(self: &Arc<Self>, id: RecordId, fingerprint: Fingerprint) -> (Leader, Leading) {
        let lead = self.next.fetch_add(1, Ordering::Relaxed);
        let leader = Leader { lead, fingerprint, followed: None };
        (leader, Leading { waiters: Arc::clone(self), id, lead })
    }

    /// The leading attempt of a record in this process, if there is one with the same intent: a
    /// freed key may have been taken by another one since.
    pub(crate) fn follow(&self, id: &RecordId, fingerprint: &Fingerprint) -> Option<Following> {
        let mut leads = self.leads.lock();
        let leader =
            leads.leaders.get_mut(id).filter(|leader| leader.fingerprint == *fingerprint)?;
        let followed = leader.followed.get_or_insert_with(|| watch::channel(None).0);
        Some(Following(followed.subscribe()))
    }
}

/// The leading attempt's end of it; when it is dropped, waiters look into the store.
pub(crate) struct Leading {
    waiters: Arc<Waiters>,
    id: RecordId,
    lead: u64,
}

impl Leading {
    /// Tells the waiters that the key was freed, and by what answer.
    pub(crate) fn free(self, freed: Freed) {
        if let Some(followed) = self.end() {
            followed.send_replace(Some(freed));
        }
    }

    /// Ends it, and says who is to be told. A later attempt of the same record may lead by now; its
    /// entry is not ours to remove.
    fn end(&self) -> Option<Followed> {
        let mut leads = self.waiters.leads.lock();
        match leads.leaders.entry(self.id) {
            Entry::Occupied(leader) if leader.get().lead == self.lead => leader.remove().followed,
            _ => leads.superseded.remove(&self.lead),
        }
    }
}

impl Drop for Leading {
    fn drop(&mut self) {
        drop(self.end());
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
    async fn followers_get_their_leaders_answer_also_when_the_freed_key_was_taken_again() {
        let waiters = Arc::new(Waiters::default());
        let first = waiters.lead(ID, intent(1));
        let mut follower = waiters.follow(&ID, &intent(1)).expect("leading");
        let second = waiters.lead(ID, intent(1));
        let mut of_second = waiters.follow(&ID, &intent(1)).expect("leading");
        first.free(Freed::Response(StoredResponse::default()));
        assert!(matches!(follower.freed().await, Some(Freed::Response(_))));
        drop(second);
        assert!(of_second.freed().await.is_none());
        assert!(waiters.leads.lock().superseded.is_empty());
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
