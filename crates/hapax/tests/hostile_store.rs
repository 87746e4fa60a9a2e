//! Promises of the engine under a store that fails in unusual ways, named after the promise.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // a test that cannot go on fails

mod common;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use common::{LOST, PAY, id, intent, policy, problem, replied, resend, told};
use hapax::{
    Answer, Attempt, Executed, Execution, Hapax, NotDone, Operation, Options, Scope, Secrets,
};
use hapax_core::{
    Advance, BeginStep, ClaimNumber, EffectSecret, Found, InFlight, Judgement, NewClaim, Observed,
    ObservedEnd, OperationName, OperationPolicy, Owner, Ownership, PolicyDigest, ProblemKind,
    Proof, RecordId, Seen, Settlement, Statement, Step, StepEnd, StepName, StoreTime, Unprotected,
    Would,
};
use hapax_store::{
    BroughtIn, Claimed, Claims, Doubted, Doubts, Due, HistoryEntry, Inspect, ListFilter, Listed,
    Lookup, ManualClock, MemoryStore, Observation, Observations, Owned, Policies, PutOff,
    Reconcile, Reply as Answered, SecretPin, Standing, StandingState, Steps, StoreError, Sweep,
    Swept, TakeDue, Written,
};
use parking_lot::Mutex;
use tokio::{sync::Semaphore, time::timeout};

#[tokio::test(start_paused = true)]
async fn a_claim_whose_answer_was_lost_does_not_lock_the_key_when_the_store_fails_next() {
    let world = world(policy()).await;
    // The claim is written, its answer is lost, and the store is then away for a moment.
    world.store.inner().lose_next_answer(true);
    world.store.inner().fail_next(StoreError::Locked(Duration::from_secs(2)));
    let first = world.pay(replied(201, "made")).await;
    if let Answer::Problem(told) = first {
        assert_eq!(told.kind, ProblemKind::StoreUnavailable);
        assert_eq!(world.effects(), 0);
        // "Send the same request with the same key again."
        world.clock.advance(Duration::from_secs(31));
        let again = world.pay(replied(201, "made")).await;
        assert!(matches!(again, Answer::First { .. }), "nothing was executed, yet: {again:?}");
    }
    assert_eq!(world.effects(), 1);
}

#[tokio::test]
async fn an_effect_whose_record_is_gone_is_not_executed_again() {
    let world = Arc::new(world(policy()).await);
    let other = world.clone();
    let first = world.attempt(PAY, move |_| async move {
        // The rows are gone, and the store does not notice by itself.
        other.store.swap(MemoryStore::new(other.clock.clone()));
        replied(201, "made")
    });
    assert_eq!(problem(first.await), ProblemKind::OutcomeUnknown);
    // "Ask again with the same key."
    let again = world.pay(replied(201, "made twice")).await;
    assert_eq!(world.effects(), 1, "{again:?}");
}

#[tokio::test(start_paused = true)]
async fn a_waiter_is_answered_in_time_while_reads_hang() {
    let world = world(policy()).await;
    let elsewhere = world.node().await;
    let leading = elsewhere.attempt(PAY, |_| std::future::pending());
    let waiting = async {
        while elsewhere.effects() == 0 {
            tokio::task::yield_now().await;
        }
        world.store.hang_reads();
        timeout(Duration::from_secs(10), world.pay(LOST)).await
    };
    tokio::select! {
        _ = leading => panic!("the leader never ends"),
        waited = waiting => assert!(waited.is_ok(), "it waits for the store, not for its own bound"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_retry_is_answered_in_time_while_the_policy_cannot_be_read() {
    let old = world(policy()).await;
    old.pay(LOST).await;
    let new = join(old.store.inner().node(), old.clock.clone(), resend()).await;
    new.store.hang_reads();
    let answer = timeout(Duration::from_secs(10), new.pay(LOST)).await;
    assert!(answer.is_ok(), "store time is bounded");
}

#[tokio::test]
async fn a_waiter_never_gets_the_answer_to_another_intent() {
    let world = Arc::new(world(policy()).await);
    // The first executes; a copy has lost its claim, and the store's answer to it takes a while.
    let first_gate = Arc::new(Semaphore::new(0));
    let first = held(&world, PAY, &first_gate, replied(422, "one is bad"));
    world.until_effects(1).await;
    let slow_answer = world.store.hold_next_claim_answer();
    let other = world.clone();
    let copy = tokio::spawn(async move { other.pay(replied(201, "copy")).await });
    settle_down().await;
    // The first frees the key; another intent takes it and executes.
    first_gate.add_permits(1);
    first.await.unwrap();
    let second_gate = Arc::new(Semaphore::new(0));
    let second = held(&world, "{\"amount\":2}", &second_gate, replied(422, "two is bad"));
    world.until_effects(2).await;
    // Only now the copy learns that somebody was executing its intent.
    slow_answer.add_permits(1);
    settle_down().await;
    second_gate.add_permits(1);
    second.await.unwrap();
    match copy.await.unwrap() {
        Answer::Shared { response } => {
            panic!("answered {:?} to amount 1", response.body);
        }
        Answer::Problem(told) => assert_eq!(told.kind, ProblemKind::InFlight),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_first_caller_is_not_told_to_retry_where_a_resend_is_over() {
    let world = Arc::new(world(resend()).await);
    let clock = world.clock.clone();
    let slow = world.attempt(PAY, move |_| async move {
        clock.advance(Duration::from_secs(3600));
        LOST
    });
    assert_eq!(told(slow.await), (ProblemKind::OutcomeUnknown, 409, 60));
    assert_eq!(told(world.pay(LOST).await), (ProblemKind::OutcomeUnknown, 409, 60));
}

#[tokio::test]
async fn the_longest_wait_there_is_is_a_wait() {
    let forever = OperationPolicy { in_flight: InFlight::Wait(Duration::MAX), ..policy() };
    assert_eq!(forever.check(), []);
    let world = Arc::new(world(forever).await);
    let gate = Arc::new(Semaphore::new(0));
    let first = held(&world, PAY, &gate, replied(201, "made"));
    world.until_effects(1).await;
    let other = world.clone();
    let copy = tokio::spawn(async move { other.pay(replied(201, "copy")).await });
    settle_down().await;
    gate.add_permits(1);
    first.await.unwrap();
    let copy = copy.await.unwrap();
    assert!(matches!(copy, Answer::Replayed { .. }), "{copy:?}");
}

#[tokio::test(start_paused = true)]
async fn shutdown_ends_the_waiters_too() {
    let patient =
        OperationPolicy { in_flight: InFlight::Wait(Duration::from_secs(600)), ..policy() };
    let world = Arc::new(world(patient).await);
    let elsewhere = Arc::new(world.node().await);
    let leader = elsewhere.clone();
    let leading =
        tokio::spawn(async move { leader.attempt(PAY, |_| std::future::pending()).await });
    elsewhere.until_effects(1).await;
    let other = world.clone();
    let copy = tokio::spawn(async move { other.pay(LOST).await });
    settle_down().await;
    assert_eq!(world.hapax.shutdown(Duration::from_secs(1)).await, 0, "tasks left");
    assert_eq!(problem(copy.await.unwrap()), ProblemKind::InFlight);
    leading.abort();
}

#[tokio::test(start_paused = true)]
async fn a_caller_told_that_nothing_was_executed_was_told_the_truth() {
    let world = Arc::new(world(policy()).await);
    let slow_answer = world.store.hold_next_claim_answer();
    assert_eq!(problem(world.pay(replied(201, "made")).await), ProblemKind::StoreUnavailable);
    slow_answer.add_permits(1);
    settle_down().await;
    assert_eq!(world.effects(), 0);
    // And the key was given back.
    assert!(matches!(world.pay(replied(201, "made")).await, Answer::First { .. }));
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_told_in_time_that_nothing_was_executed_and_that_is_the_truth() {
    let world = world(policy()).await;
    let acme = Scope::principal(b"acme").unwrap();
    let each = || {
        let effects = Arc::clone(&world.effects);
        let act = move |_: Execution, item: String| {
            effects.fetch_add(1, Ordering::SeqCst);
            async move { Ok::<_, ()>(item) }
        };
        let items = ["a".to_owned(), "b".to_owned()];
        world.hapax.each("ship", &acme, items, |item| item, act)
    };
    let slow_answer = world.store.hold_next_claim_answer();
    let told = timeout(Duration::from_secs(60), each()).await.expect("in time");
    for told in told {
        let Err(NotDone::Later(why)) = told else { panic!("{told:?}") };
        assert_eq!(why.kind(), ProblemKind::StoreUnavailable);
    }
    slow_answer.add_permits(1);
    settle_down().await;
    assert_eq!(world.effects(), 0);
    assert!(each().await.iter().all(Result::is_ok), "the keys were given back");
}

#[tokio::test(start_paused = true)]
async fn a_caller_is_told_in_time_while_its_ending_is_refused_at_once_every_time() {
    let world = Arc::new(world(policy()).await);
    let other = Arc::clone(&world);
    let paying = world.attempt(PAY, move |_| async move {
        for _ in 0..100 {
            other.store.inner().fail_next(StoreError::Locked(Duration::ZERO));
        }
        replied(201, "made")
    });
    let told = timeout(Duration::from_secs(3), paying).await.expect("in time");
    assert_eq!(problem(told), ProblemKind::OutcomeUnknown);
    // It is stored all the same, once the store takes it.
    assert_eq!(world.hapax.shutdown(Duration::from_secs(600)).await, 0);
    let again = world.node().await.pay(LOST).await;
    assert!(matches!(again, Answer::Replayed { .. }), "{again:?}");
}

#[tokio::test(start_paused = true)]
async fn a_caller_is_told_in_time_while_its_claims_answer_is_lost_every_time() {
    let world = Arc::new(world(policy()).await);
    for _ in 0..100 {
        world.store.inner().lose_next_answer(false);
    }
    let told = timeout(Duration::from_secs(3), world.pay(LOST)).await.expect("in time");
    assert_eq!(problem(told), ProblemKind::StoreUnavailable);
    assert_eq!(world.effects(), 0);
}

/// An engine on a store that can be tampered with.
struct World {
    hapax: Hapax,
    store: Arc<Tampered>,
    clock: Arc<ManualClock>,
    operation: Arc<Operation>,
    effects: Arc<AtomicUsize>,
}

async fn world(policy: OperationPolicy) -> World {
    let clock = Arc::new(ManualClock::new());
    join(MemoryStore::new(clock.clone()), clock, policy).await
}

async fn join(store: MemoryStore, clock: Arc<ManualClock>, policy: OperationPolicy) -> World {
    let store = Arc::new(Tampered {
        inner: Mutex::new(store),
        reads_hang: Mutex::new(false),
        slow_claim: Mutex::new(None),
    });
    let secrets = Secrets::single(EffectSecret::from_bytes([7; 32]));
    let hapax = Hapax::new(store.clone(), secrets, Options::default());
    let operation = hapax.register(policy).await.unwrap();
    World { hapax, store, clock, operation, effects: Arc::default() }
}

impl World {
    /// The same operation in another process.
    async fn node(&self) -> World {
        let policy = self.operation.policy().clone();
        join(self.store.inner().node(), self.clock.clone(), policy).await
    }

    async fn attempt<F, Fut>(&self, body: &'static str, execute: F) -> Answer<&'static str>
    where
        F: FnOnce(Attempt) -> Fut + Send + 'static,
        Fut: Future<Output = Executed<&'static str>> + Send + 'static,
    {
        let intent = intent(self.operation.name(), body);
        let fingerprint = self.operation.fingerprint(&intent).unwrap();
        let id = id(&self.operation);
        let effects = Arc::clone(&self.effects);
        let execute = move |execution| {
            effects.fetch_add(1, Ordering::SeqCst);
            execute(execution)
        };
        self.hapax.run(&self.operation, id, fingerprint, intent, execute).await
    }

    async fn pay(&self, ended: Executed<&'static str>) -> Answer<&'static str> {
        self.attempt(PAY, |_| async move { ended }).await
    }

    fn effects(&self) -> usize {
        self.effects.load(Ordering::SeqCst)
    }

    async fn until_effects(&self, count: usize) {
        while self.effects() < count {
            tokio::task::yield_now().await;
        }
    }
}

/// An attempt that executes until its gate opens.
fn held(
    world: &Arc<World>,
    body: &'static str,
    gate: &Arc<Semaphore>,
    ended: Executed<&'static str>,
) -> tokio::task::JoinHandle<Answer<&'static str>> {
    let (world, gate) = (world.clone(), gate.clone());
    tokio::spawn(async move {
        let execute = |_| async move {
            gate.acquire().await.unwrap().forget();
            ended
        };
        world.attempt(body, execute).await
    })
}

/// Lets every task run to where it waits.
async fn settle_down() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

/// A store in memory whose reads may hang, whose claims' answers may be late, and whose rows may
/// go without its noticing.
struct Tampered {
    inner: Mutex<MemoryStore>,
    reads_hang: Mutex<bool>,
    slow_claim: Mutex<Option<Arc<Semaphore>>>,
}

impl Tampered {
    fn inner(&self) -> MemoryStore {
        self.inner.lock().clone()
    }

    fn swap(&self, store: MemoryStore) {
        *self.inner.lock() = store;
    }

    fn hang_reads(&self) {
        *self.reads_hang.lock() = true;
    }

    /// The next claim is decided at once, and its answer comes when the gate opens.
    fn hold_next_claim_answer(&self) -> Arc<Semaphore> {
        let gate = Arc::new(Semaphore::new(0));
        *self.slow_claim.lock() = Some(gate.clone());
        gate
    }

    async fn read(&self) {
        let hangs = *self.reads_hang.lock();
        if hangs {
            std::future::pending::<()>().await;
        }
    }
}

impl Claims for Tampered {
    fn claim(&self, claim: NewClaim) -> Answered<'_, Claimed> {
        Box::pin(async move {
            let gate = self.slow_claim.lock().take();
            let answer = self.inner().claim(claim).await;
            if let Some(gate) = gate {
                gate.acquire().await.unwrap().forget();
            }
            answer
        })
    }

    fn claim_all(&self, claims: Vec<NewClaim>) -> Answered<'_, Vec<Claimed>> {
        Box::pin(async move {
            let gate = self.slow_claim.lock().take();
            let answer = self.inner().claim_all(claims).await;
            if let Some(gate) = gate {
                gate.acquire().await.unwrap().forget();
            }
            answer
        })
    }

    fn advance(&self, advance: Advance) -> Answered<'_, Claimed> {
        Box::pin(async move { self.inner().advance(advance).await })
    }

    fn doubt(&self, id: RecordId, seen: Seen) -> Answered<'_, Option<Found>> {
        Box::pin(async move { self.inner().doubt(id, seen).await })
    }
}

impl Owned for Tampered {
    fn admit(
        &self,
        by: Ownership,
        lease: Duration,
        resend_before: Option<StoreTime>,
    ) -> Answered<'_, Written> {
        Box::pin(async move { self.inner().admit(by, lease, resend_before).await })
    }

    fn renew(&self, by: Ownership, lease: Duration) -> Answered<'_, Written> {
        Box::pin(async move { self.inner().renew(by, lease).await })
    }

    fn settle(&self, by: Ownership, settlement: Settlement) -> Answered<'_, Written> {
        Box::pin(async move { self.inner().settle(by, settlement).await })
    }
}

impl Steps for Tampered {
    fn begin_step(&self, by: Ownership, step: BeginStep, lease: Duration) -> Answered<'_, Written> {
        Box::pin(async move { self.inner().begin_step(by, step, lease).await })
    }

    fn end_step(
        &self,
        by: Ownership,
        step: StepName,
        end: StepEnd,
        lease: Duration,
    ) -> Answered<'_, Written> {
        Box::pin(async move { self.inner().end_step(by, step, end, lease).await })
    }

    fn steps(&self, claim: ClaimNumber) -> Answered<'_, Vec<Step>> {
        Box::pin(async move { self.inner().steps(claim).await })
    }
}

impl Reconcile for Tampered {
    fn doubt_abandoned(&self, limit: usize) -> Answered<'_, Doubted> {
        Box::pin(async move { self.inner().doubt_abandoned(limit).await })
    }

    fn take_due(&self, take: TakeDue) -> Answered<'_, Vec<Due>> {
        Box::pin(async move { self.inner().take_due(take).await })
    }

    fn put_off(&self, put_off: PutOff) -> Answered<'_, bool> {
        Box::pin(async move { self.inner().put_off(put_off).await })
    }

    fn judge(&self, judgement: Judgement, holder: Option<Owner>) -> Answered<'_, Written> {
        Box::pin(async move { self.inner().judge(judgement, holder).await })
    }

    fn prove(&self, proof: Proof) -> Answered<'_, Written> {
        Box::pin(async move { self.inner().prove(proof).await })
    }

    fn close_earlier(
        &self,
        of: Ownership,
        closing: Owner,
        statement: Statement,
    ) -> Answered<'_, Written> {
        Box::pin(async move { self.inner().close_earlier(of, closing, statement).await })
    }

    fn bring_in(&self, unprotected: Unprotected) -> Answered<'_, BroughtIn> {
        Box::pin(async move { self.inner().bring_in(unprotected).await })
    }

    fn doubts(&self) -> Answered<'_, Vec<Doubts>> {
        Box::pin(async move { self.inner().doubts().await })
    }
}

impl Lookup for Tampered {
    fn find(&self, id: RecordId) -> Answered<'_, Option<Found>> {
        Box::pin(async move {
            self.read().await;
            self.inner().find(id).await
        })
    }
}

impl Policies for Tampered {
    fn remember_policy(
        &self,
        digest: PolicyDigest,
        operation: OperationName,
        text: String,
    ) -> Answered<'_, ()> {
        Box::pin(async move { self.inner().remember_policy(digest, operation, text).await })
    }

    fn policy(&self, digest: PolicyDigest) -> Answered<'_, Option<String>> {
        Box::pin(async move {
            self.read().await;
            self.inner().policy(digest).await
        })
    }
}

impl hapax_store::Secrets for Tampered {
    fn pinned_secret(&self, version: u32) -> Answered<'_, Option<[u8; 16]>> {
        Box::pin(async move { self.inner().pinned_secret(version).await })
    }

    fn pin_secret(&self, version: u32, fingerprint: [u8; 16]) -> Answered<'_, SecretPin> {
        Box::pin(async move { self.inner().pin_secret(version, fingerprint).await })
    }
}

impl Sweep for Tampered {
    fn sweep(&self, own_clock: StoreTime, limit: usize) -> Answered<'_, Swept> {
        Box::pin(async move { self.inner().sweep(own_clock, limit).await })
    }
}

impl Inspect for Tampered {
    fn list(&self, filter: ListFilter) -> Answered<'_, Vec<Listed>> {
        Box::pin(async move { self.inner().list(filter).await })
    }

    fn operations(&self) -> Answered<'_, Vec<OperationName>> {
        Box::pin(async move { self.inner().operations().await })
    }

    fn history(&self, claim: ClaimNumber) -> Answered<'_, Vec<HistoryEntry>> {
        Box::pin(async move { self.inner().history(claim).await })
    }
}

impl Observations for Tampered {
    fn arrive(&self, observation: Observation) -> Answered<'_, Would> {
        Box::pin(async move { self.inner().arrive(observation).await })
    }

    fn finish(&self, id: RecordId, end: ObservedEnd) -> Answered<'_, ()> {
        Box::pin(async move { self.inner().finish(id, end).await })
    }

    fn observed(&self, limit: usize) -> Answered<'_, Vec<Observed>> {
        Box::pin(async move { self.inner().observed(limit).await })
    }
}

impl Standing for Tampered {
    fn beat(&self) -> Answered<'_, ()> {
        Box::pin(async move { self.inner().beat().await })
    }

    fn distrust(&self, reason: String) {
        self.inner().distrust(reason);
    }

    fn standing(&self) -> StandingState {
        self.inner().standing()
    }
}
