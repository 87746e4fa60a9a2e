//! A store with one bug in it, as they are made: on top of the store in memory, which has none.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use hapax_core::{
    Advance, BeginStep, ClaimNumber, Found, Judgement, NewClaim, Observed, ObservedEnd,
    OperationName, OwnState, Owner, Ownership, PolicyDigest, Proof, Record, RecordId, Retention,
    Seen, Settlement, State, Statement, Step, StepEnd, StepName, StoreTime, StoredResponse,
    Unprotected, Would, WriteRefused,
};
use hapax_store::{
    BroughtIn, Claimed, Claims, Doubted, Doubts, Due, HistoryEntry, Inspect, ListFilter, Listed,
    Lookup, MemoryStore, Observation, Observations, Owned, Policies, PutOff, Reconcile, Reply,
    SecretPin, Secrets, Standing, StandingState, Steps, StoreError, Sweep, Swept, SystemClock,
    TakeDue, Written,
};
use parking_lot::Mutex;
use tokio::{sync::Barrier, time::timeout};

use crate::SOON;

/// One way to get it wrong.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Bug {
    /// A claim looks first, and inserts then. The first two claims look at the same moment.
    ReadThenInsert,
    /// An answer is stored whoever owns the record by now.
    NoFence,
    /// A 5xx frees the key.
    ReleasesOn5xx,
    /// A sweep drops endings before their records, and not together.
    SweepsWithAGap,
    /// A refusal of a later attempt is taken for proof about the earlier ones.
    RefusalIsProof,
}

/// A node on a store. Nodes share the records and what the bug has made of them.
#[derive(Clone)]
pub(crate) struct Broken {
    pub(crate) store: MemoryStore,
    bug: Option<Bug>,
    /// The renewals of this node do not come through.
    is_cut_off: Arc<AtomicBool>,
    shared: Arc<Shared>,
}

struct Shared {
    looking: Barrier,
    /// What the owners of attempts that were over have stored.
    overwritten: Mutex<HashMap<RecordId, StoredResponse>>,
    has_gap: AtomicBool,
}

impl Broken {
    pub(crate) fn new(bug: Option<Bug>) -> Self {
        Self {
            store: MemoryStore::new(Arc::new(SystemClock)),
            bug,
            is_cut_off: Arc::default(),
            shared: Arc::new(Shared {
                looking: Barrier::new(2),
                overwritten: Mutex::default(),
                has_gap: AtomicBool::new(false),
            }),
        }
    }

    /// Another node on the same records.
    pub(crate) fn node(&self) -> Self {
        Self { store: self.store.node(), is_cut_off: Arc::default(), ..self.clone() }
    }

    /// As if this node were paused, as far as its leases are concerned.
    pub(crate) fn cut_off(&self) {
        self.is_cut_off.store(true, Ordering::SeqCst);
    }

    fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    async fn read_then_insert(&self, claim: NewClaim) -> Result<Claimed, StoreError> {
        if let Some(found) = self.store.find(claim.id).await? {
            return Ok(Claimed::Theirs(Box::new(found)));
        }
        timeout(SOON, self.shared.looking.wait()).await.expect("two look at once");
        Ok(match self.store.claim(claim).await? {
            // The second insert goes through as well.
            Claimed::Theirs(found) => Claimed::Ours(Box::new(found.record)),
            claimed => claimed,
        })
    }

    /// What is found, as the bug has left it.
    fn as_left(&self, mut found: Found) -> Found {
        let Found { record, response, now } = &mut found;
        if let Some(stored) = self.shared.overwritten.lock().get(&record.id) {
            *response = Some(stored.clone());
        }
        if self.shared.has_gap.load(Ordering::SeqCst) && record.ending.is_some() {
            // Its own state is what is left of it.
            (record.own_state, record.ending, *response) = (OwnState::Executing, None, None);
            record.lease_end = Some(now.before(Duration::from_secs(1)));
        }
        found
    }

    fn claimed(&self, claimed: Claimed) -> Claimed {
        match claimed {
            Claimed::Ours(record) if self.has(Bug::RefusalIsProof) => {
                Claimed::Ours(Box::new(Record { clean: true, ..*record }))
            }
            Claimed::Theirs(found) => Claimed::Theirs(Box::new(self.as_left(*found))),
            claimed => claimed,
        }
    }

    fn misread(&self, settlement: Settlement) -> Settlement {
        let retention =
            Retention { outcome: Duration::from_secs(3600), tombstone: Duration::from_secs(7200) };
        let freed = Settlement::NotApplied { every_attempt: true, retention };
        match &settlement {
            Settlement::Unknown { .. } if self.has(Bug::ReleasesOn5xx) => freed,
            Settlement::NotApplied { .. } if self.has(Bug::RefusalIsProof) => freed,
            _ => settlement,
        }
    }
}

impl Claims for Broken {
    fn claim(&self, claim: NewClaim) -> Reply<'_, Claimed> {
        Box::pin(async move {
            let claimed = if self.has(Bug::ReadThenInsert) {
                self.read_then_insert(claim).await
            } else {
                self.store.claim(claim).await
            };
            Ok(self.claimed(claimed?))
        })
    }

    fn claim_all(&self, claims: Vec<NewClaim>) -> Reply<'_, Vec<Claimed>> {
        self.store.claim_all(claims)
    }

    fn advance(&self, advance: Advance) -> Reply<'_, Claimed> {
        Box::pin(async move { Ok(self.claimed(self.store.advance(advance).await?)) })
    }

    fn doubt(&self, id: RecordId, seen: Seen) -> Reply<'_, Option<Found>> {
        Box::pin(async move {
            let found = self.store.doubt(id, seen).await?.map(|found| self.as_left(found));
            Ok(found.map(|mut found| {
                if found.record.state(found.now) == State::Executing
                    && found.record.lease_over(found.now)
                {
                    found.record.own_state = OwnState::Uncertain;
                }
                found
            }))
        })
    }
}

impl Owned for Broken {
    fn admit(
        &self,
        by: Ownership,
        lease: Duration,
        resend_before: Option<StoreTime>,
    ) -> Reply<'_, Written> {
        self.store.admit(by, lease, resend_before)
    }

    fn renew(&self, by: Ownership, lease: Duration) -> Reply<'_, Written> {
        if self.is_cut_off.load(Ordering::SeqCst) {
            let reason = "cut off on purpose".to_owned();
            return Box::pin(async { Err(StoreError::Unavailable { reason }) });
        }
        self.store.renew(by, lease)
    }

    fn settle(&self, by: Ownership, settlement: Settlement) -> Reply<'_, Written> {
        let settlement = self.misread(settlement);
        Box::pin(async move {
            let written = self.store.settle(by, settlement.clone()).await?;
            if let (
                true,
                Written::Refused { why: WriteRefused::Fenced, found },
                Settlement::Outcome { response: Some(response), .. },
            ) = (self.has(Bug::NoFence), &written, settlement)
            {
                self.shared.overwritten.lock().insert(by.id, response);
                return Ok(Written::Done(Box::new(found.record.clone())));
            }
            Ok(written)
        })
    }
}

impl Lookup for Broken {
    fn find(&self, id: RecordId) -> Reply<'_, Option<Found>> {
        Box::pin(async move { Ok(self.store.find(id).await?.map(|found| self.as_left(found))) })
    }
}

impl Sweep for Broken {
    fn sweep(&self, own_clock: StoreTime, limit: usize) -> Reply<'_, Swept> {
        if self.has(Bug::SweepsWithAGap) {
            self.shared.has_gap.store(true, Ordering::SeqCst);
        }
        self.store.sweep(own_clock, limit)
    }
}

impl Standing for Broken {
    fn beat(&self) -> Reply<'_, ()> {
        self.store.beat()
    }

    fn standing(&self) -> StandingState {
        self.store.standing()
    }

    fn distrust(&self, reason: String) {
        self.store.distrust(reason);
    }
}

/// What has no bug.
macro_rules! passes {
    ($capability:ident { $($name:ident($($arg:ident: $of:ty),*) -> $answer:ty;)* }) => {
        impl $capability for Broken {
            $(fn $name(&self, $($arg: $of),*) -> Reply<'_, $answer> {
                self.store.$name($($arg),*)
            })*
        }
    };
}

passes!(Steps {
    begin_step(by: Ownership, step: BeginStep, lease: Duration) -> Written;
    end_step(by: Ownership, step: StepName, end: StepEnd, lease: Duration) -> Written;
    steps(claim: ClaimNumber) -> Vec<Step>;
});

passes!(Reconcile {
    doubt_abandoned(limit: usize) -> Doubted;
    take_due(take: TakeDue) -> Vec<Due>;
    put_off(put_off: PutOff) -> bool;
    judge(judgement: Judgement, holder: Option<Owner>) -> Written;
    prove(proof: Proof) -> Written;
    close_earlier(of: Ownership, closing: Owner, statement: Statement) -> Written;
    bring_in(unprotected: Unprotected) -> BroughtIn;
    doubts() -> Vec<Doubts>;
});

passes!(Policies {
    remember_policy(digest: PolicyDigest, operation: OperationName, text: String) -> ();
    policy(digest: PolicyDigest) -> Option<String>;
});

passes!(Secrets {
    pinned_secret(version: u32) -> Option<[u8; 16]>;
    pin_secret(version: u32, fingerprint: [u8; 16]) -> SecretPin;
});

passes!(Inspect {
    list(filter: ListFilter) -> Vec<Listed>;
    operations() -> Vec<OperationName>;
    history(claim: ClaimNumber) -> Vec<HistoryEntry>;
});

passes!(Observations {
    arrive(observation: Observation) -> Would;
    finish(id: RecordId, end: ObservedEnd) -> ();
    observed(limit: usize) -> Vec<Observed>;
});
