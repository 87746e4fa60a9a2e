//! What becomes of unknown outcomes whose service can be asked, on the in-memory store.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // a test that cannot go on fails

#[allow(dead_code, reason = "each test file uses its part")]
mod common;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use common::{LOST, PAY, id, intent, policy, replied, told};
use hapax::{
    Answer, AppliedOutcome, BackgroundOptions, Executed, Finding, FirstOutcome, Hapax, Operation,
    Options, Prober, Probing, Question, Recalled, Secrets, Verdict,
};
use hapax_core::{
    Admission, EffectSecret, Judgement, Key, NewClaim, OnUnknown, OperationName, OperationPolicy,
    OutcomeClass, Owner, ProblemKind, RecordId, Retention, Ruling, Scope, Settlement, State,
    Statement, StoredResponse,
};
use hapax_store::{
    Claimed, Claims, Inspect, Lookup, ManualClock, MemoryStore, Owned, Reconcile, StoreError,
    Written,
};
use parking_lot::Mutex;
use tokio::{sync::oneshot, task::JoinHandle};

const DEADLINE: Duration = Duration::from_secs(60);

/// A service that is asked, with what it is to say.
struct Service {
    says: Mutex<Verdict>,
    closes: AtomicBool,
    asked: AtomicUsize,
    closed: Mutex<Vec<u32>>,
    slow: Mutex<Duration>,
}

impl Service {
    fn that_says(verdict: Verdict) -> Arc<Self> {
        Arc::new(Self {
            says: Mutex::new(verdict),
            closes: AtomicBool::new(false),
            asked: AtomicUsize::new(0),
            closed: Mutex::default(),
            slow: Mutex::default(),
        })
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

impl Prober for Service {
    fn probe(&self, _: Question) -> Probing<'_> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let (verdict, slow) = (self.says.lock().clone(), *self.slow.lock());
        Box::pin(async move {
            tokio::time::sleep(slow).await;
            Finding { verdict, seen: "GET answered".to_owned() }
        })
    }

    fn closes(&self) -> bool {
        self.closes.load(Ordering::SeqCst)
    }

    fn close(&self, question: Question) -> Probing<'_> {
        self.closed.lock().push(question.attempt.number());
        let verdict = Verdict::NotApplied;
        Box::pin(async move { Finding { verdict, seen: "POST closed it".to_owned() } })
    }
}

struct World {
    hapax: Hapax,
    store: MemoryStore,
    clock: Arc<ManualClock>,
    operation: Arc<Operation>,
    effects: Arc<AtomicUsize>,
}

fn probed() -> OperationPolicy {
    OperationPolicy { on_unknown: OnUnknown::Probe, ..policy() }
}

async fn world(policy: OperationPolicy, service: &Arc<Service>) -> World {
    let clock = Arc::new(ManualClock::new());
    let store = MemoryStore::new(clock.clone());
    let secrets = Secrets::single(EffectSecret::from_bytes([7; 32]));
    let hapax = Hapax::new(Arc::new(store.clone()), secrets, Options::default());
    let operation = hapax.register(policy).await.unwrap();
    hapax.probe_with(&operation, Arc::clone(service) as Arc<dyn Prober>);
    World { hapax, store, clock, operation, effects: Arc::default() }
}

impl World {
    async fn pay(&self, ended: Executed<&'static str>) -> Answer<&'static str> {
        let intent = intent(self.operation.name(), PAY);
        let fingerprint = self.operation.fingerprint(&intent).unwrap();
        let effects = Arc::clone(&self.effects);
        let execute = move |_| {
            effects.fetch_add(1, Ordering::SeqCst);
            async move { ended }
        };
        self.hapax.run(&self.operation, id(&self.operation), fingerprint, intent, execute).await
    }

    /// The first attempt, whose answer is lost.
    async fn lose(&self) {
        assert_eq!(told(self.pay(LOST).await), (ProblemKind::OutcomeUnknown, 409, 5));
    }

    fn effects(&self) -> usize {
        self.effects.load(Ordering::SeqCst)
    }

    async fn state(&self) -> State {
        let found = self.store.find(id(&self.operation)).await.unwrap().unwrap();
        found.record.state(found.now)
    }

    async fn words(&self) -> Vec<String> {
        let found = self.store.find(id(&self.operation)).await.unwrap().unwrap();
        let history = self.store.history(found.record.claim).await.unwrap();
        history.into_iter().map(|entry| entry.what).collect()
    }

    async fn until(&self, state: State) {
        for _ in 0..2000 {
            if self.state().await == state {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("it is {:?}, not {state:?}", self.state().await);
    }

    /// Loses the answer to the first attempt with another key.
    async fn lose_another(&self, operation: &Arc<Operation>, key: &str) {
        let intent = intent(operation.name(), PAY);
        let fingerprint = operation.fingerprint(&intent).unwrap();
        let key = Key::from_bytes(key.as_bytes()).unwrap();
        let id = RecordId::new(&Scope::single_tenant(), operation.name(), &key);
        let execute = |_| async { LOST };
        let answer = self.hapax.run(operation, id, fingerprint, intent, execute).await;
        assert_eq!(told(answer).0, ProblemKind::OutcomeUnknown);
    }

    /// An operator says so of the record as it is.
    async fn judge(&self, ruling: Ruling) {
        let of = self.store.find(id(&self.operation)).await.unwrap().unwrap().record.ownership();
        let statement = Statement { actor: "ada".to_owned(), reason: "INC-42".to_owned() };
        let token = Owner::from_bytes([42; 16]);
        let retention = Retention::default();
        let judgement = Judgement { token, of, ruling, retention, statement };
        let judged = self.store.judge(judgement, None).await.unwrap();
        assert!(matches!(judged, Written::Done(_)), "{judged:?}");
    }

    fn in_the_background(&self) {
        let ms = Duration::from_millis;
        self.hapax.start_background(BackgroundOptions {
            reconcile: ms(5),
            probe_pause: (ms(5), ms(20)),
            ..BackgroundOptions::default()
        });
    }
}

fn applied() -> Verdict {
    let body = Bytes::from_static(b"{\"id\":7}");
    let response = Some(StoredResponse { status: 201, headers: Vec::new(), body });
    Verdict::Applied(AppliedOutcome { class: OutcomeClass::Succeeded, status: 201, response })
}

#[tokio::test]
async fn a_retry_gets_the_outcome_that_the_service_knows() {
    let service = Service::that_says(applied());
    let world = world(probed(), &service).await;
    world.lose().await;
    for _ in 0..2 {
        let Answer::Replayed { response, .. } = world.pay(replied(200, "again")).await else {
            panic!("not replayed");
        };
        assert_eq!((response.status, &response.body[..]), (201, &b"{\"id\":7}"[..]));
    }
    assert_eq!((world.effects(), service.asked()), (1, 1));
    assert_eq!(world.words().await, ["uncertain", "judged-applied"]);
}

#[tokio::test]
async fn what_is_not_there_yet_is_executed_again_only_where_the_service_collapses() {
    let service = Service::that_says(Verdict::NotSeenYet);
    let held = world(probed(), &service).await;
    held.lose().await;
    assert_eq!(told(held.pay(replied(200, "again")).await).0, ProblemKind::OutcomeUnknown);
    assert_eq!(held.effects(), 1);
    let hour = Some(Duration::from_secs(3600));
    let collapsing = world(OperationPolicy { collapse_for: hour, ..probed() }, &service).await;
    collapsing.lose().await;
    let again = collapsing.pay(replied(200, "again")).await;
    assert!(matches!(again, Answer::First { live: "again", .. }), "{again:?}");
    assert_eq!(collapsing.effects(), 2);
    assert_eq!(collapsing.words().await, ["uncertain", "superseded", "resent"]);
}

#[tokio::test]
async fn a_service_that_cannot_be_asked_permits_nothing() {
    let service = Service::that_says(Verdict::Unknown);
    let hour = Some(Duration::from_secs(3600));
    let world = world(OperationPolicy { collapse_for: hour, ..probed() }, &service).await;
    world.lose().await;
    assert_eq!(told(world.pay(replied(200, "again")).await).0, ProblemKind::OutcomeUnknown);
    assert_eq!((world.effects(), world.state().await), (1, State::Uncertain));
}

#[tokio::test]
async fn many_retries_ask_once() {
    let service = Service::that_says(applied());
    let world = Arc::new(world(probed(), &service).await);
    world.lose().await;
    *service.slow.lock() = Duration::from_millis(100);
    let retries = (0..16).map(|_| {
        let world = Arc::clone(&world);
        tokio::spawn(async move { world.pay(replied(200, "again")).await })
    });
    for retry in retries.collect::<Vec<_>>() {
        let answer = retry.await.unwrap();
        assert!(matches!(answer, Answer::Replayed { .. }), "{answer:?}");
    }
    assert_eq!((world.effects(), service.asked()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_retry_does_not_wait_for_a_slow_service_for_ever() {
    let service = Service::that_says(applied());
    let world = world(probed(), &service).await;
    world.lose().await;
    *service.slow.lock() = Duration::from_secs(3600);
    let begun = tokio::time::Instant::now();
    assert_eq!(told(world.pay(replied(200, "again")).await).0, ProblemKind::OutcomeUnknown);
    assert!(begun.elapsed() <= Duration::from_secs(3), "{:?}", begun.elapsed());
    *service.slow.lock() = Duration::ZERO;
    let then = world.pay(replied(200, "again")).await;
    assert!(matches!(then, Answer::Replayed { .. }), "what was given up leaves no trace: {then:?}");
}

#[tokio::test(start_paused = true)]
async fn a_deadline_makes_not_there_final_when_both_clocks_have_passed_it() {
    let service = Service::that_says(Verdict::NotSeenYet);
    let world = world(OperationPolicy { deadline: Some(DEADLINE), ..probed() }, &service).await;
    world.lose().await;
    let held = || async { told(world.pay(replied(200, "again")).await).0 };
    assert_eq!(held().await, ProblemKind::OutcomeUnknown);
    tokio::time::advance(DEADLINE).await;
    assert_eq!(held().await, ProblemKind::OutcomeUnknown, "the store's clock has not passed it");
    world.clock.advance(DEADLINE);
    assert_eq!(held().await, ProblemKind::OutcomeUnknown, "nor has a lease more");
    world.clock.advance(Duration::from_secs(30));
    assert_eq!(held().await, ProblemKind::OutcomeUnknown, "what came in time may be at work");
    let at_work = world.operation.policy().timeout;
    world.clock.advance(at_work);
    tokio::time::advance(at_work).await;
    let again = world.pay(replied(201, "new")).await;
    assert!(matches!(again, Answer::First { live: "new", .. }), "{again:?}");
    assert_eq!(world.effects(), 2);
    assert_eq!(world.words().await[1..], ["judged-not-applied"]);
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_jumps_forward_does_not_make_not_there_final() {
    let service = Service::that_says(Verdict::NotSeenYet);
    let world = world(OperationPolicy { deadline: Some(DEADLINE), ..probed() }, &service).await;
    world.lose().await;
    world.clock.advance(Duration::from_secs(86_400));
    for _ in 0..2 {
        assert_eq!(told(world.pay(replied(200, "again")).await).0, ProblemKind::OutcomeUnknown);
    }
    assert_eq!(world.effects(), 1);
}

#[tokio::test]
async fn a_closer_is_an_attempt_of_its_own_and_frees_the_key() {
    let service = Service::that_says(Verdict::NotSeenYet);
    service.closes.store(true, Ordering::SeqCst);
    let world = world(probed(), &service).await;
    world.lose().await;
    let again = world.pay(replied(201, "new")).await;
    assert!(matches!(again, Answer::First { live: "new", .. }), "{again:?}");
    assert_eq!(*service.closed.lock(), [2]);
    let found = world.store.find(id(&world.operation)).await.unwrap().unwrap();
    assert_eq!((found.record.attempt.number(), world.effects()), (3, 2));
    let words = ["uncertain", "superseded", "closing", "judged-not-applied"];
    assert_eq!(world.words().await, words);
}

#[tokio::test]
async fn the_background_finds_out_without_a_retry() {
    let service = Service::that_says(Verdict::Unknown);
    let world = world(probed(), &service).await;
    world.lose().await;
    world.in_the_background();
    while service.asked() < 3 {
        tokio::time::sleep(Duration::from_millis(5)).await;
        // The pause between two looks is on the store's clock.
        world.clock.advance(Duration::from_millis(50));
    }
    assert_eq!(world.state().await, State::Uncertain, "asked in vain, it changes nothing");
    *service.says.lock() = applied();
    world.clock.advance(Duration::from_secs(1));
    world.until(State::Succeeded).await;
    assert_eq!(world.effects(), 1);
    assert_eq!(world.words().await, ["uncertain", "probed-unknown", "judged-applied"]);
    assert_eq!(world.hapax.shutdown(Duration::from_secs(5)).await, 0);
}

#[tokio::test]
async fn a_failing_store_stops_nothing_for_good() {
    let service = Service::that_says(applied());
    let world = world(probed(), &service).await;
    world.lose().await;
    for _ in 0..20 {
        world.store.fail_next(StoreError::Full);
    }
    world.in_the_background();
    for _ in 0..2000 {
        if world.state().await == State::Succeeded {
            break;
        }
        // A hold that was not given back ends on the store's clock.
        world.clock.advance(Duration::from_secs(1));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!((world.state().await, world.effects()), (State::Succeeded, 1));
}

#[tokio::test]
async fn a_service_that_never_answers_stops_the_background_for_itself_alone() {
    let (silent, other) = (Service::that_says(applied()), Service::that_says(applied()));
    *silent.slow.lock() = Duration::from_secs(3600);
    let world = world(probed(), &silent).await;
    let name = OperationName::new("refund").unwrap();
    let refunds = world.hapax.register(OperationPolicy { name, ..probed() }).await.unwrap();
    world.hapax.probe_with(&refunds, Arc::clone(&other) as Arc<dyn Prober>);
    // More than are looked into at once, and due before the one of the other operation.
    for number in 0..20 {
        world.lose_another(&world.operation, &format!("payment-{number}")).await;
    }
    world.lose_another(&refunds, "refund").await;
    world.in_the_background();
    for _ in 0..2000 {
        if other.asked() > 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!((silent.asked(), other.asked()), (8, 1));
}

/// A first attempt that is under way, past its lease.
struct Late {
    end: oneshot::Sender<Executed<&'static str>>,
    caller: JoinHandle<Answer<&'static str>>,
}

impl Late {
    async fn begin(world: &Arc<World>) -> Self {
        let (begun, has_begun) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        let paying = Arc::clone(world);
        let caller = tokio::spawn(async move {
            let intent = intent(paying.operation.name(), PAY);
            let fingerprint = paying.operation.fingerprint(&intent).unwrap();
            let execute = move |_| async move {
                begun.send(()).unwrap();
                ended.await.unwrap()
            };
            let id = id(&paying.operation);
            paying.hapax.run(&paying.operation, id, fingerprint, intent, execute).await
        });
        has_begun.await.unwrap();
        world.clock.advance(Duration::from_secs(60));
        world.store.doubt_abandoned(10).await.unwrap();
        Self { end, caller }
    }

    async fn answered(self, executed: Executed<&'static str>) -> Answer<&'static str> {
        self.end.send(executed).unwrap();
        self.caller.await.unwrap()
    }
}

fn held() -> OperationPolicy {
    OperationPolicy { on_unknown: OnUnknown::Hold, ..policy() }
}

#[tokio::test]
async fn a_success_that_comes_after_not_applied_is_the_outcome() {
    let world = Arc::new(world(held(), &Service::that_says(Verdict::Unknown)).await);
    let late = Late::begin(&world).await;
    world.judge(Ruling::NotApplied).await;
    let first = late.answered(replied(201, "first")).await;
    let Answer::First { live: "first", outcome: FirstOutcome::Stored { .. } } = first else {
        panic!("{first:?}");
    };
    let retry = world.pay(replied(200, "again")).await;
    assert!(matches!(retry, Answer::Replayed { .. }), "{retry:?}");
    assert_eq!(world.effects(), 0, "the retry executes nothing");
    let words = ["uncertain", "judged-not-applied", "applied-after-all"];
    assert_eq!(world.words().await, words);
}

#[tokio::test]
async fn what_the_service_tells_after_not_applied_is_the_outcome() {
    let service = Service::that_says(applied());
    let world = Arc::new(world(probed(), &service).await);
    world.lose().await;
    *service.slow.lock() = Duration::from_millis(300);
    let asking = Arc::clone(&world);
    let retry = tokio::spawn(async move { asking.pay(replied(200, "again")).await });
    while service.asked() == 0 {
        tokio::task::yield_now().await;
    }
    world.judge(Ruling::NotApplied).await;
    let retry = retry.await.unwrap();
    assert!(matches!(retry, Answer::Replayed { .. }), "{retry:?}");
    assert_eq!((world.effects(), world.state().await), (1, State::Succeeded));
}

#[tokio::test]
async fn a_success_that_comes_when_the_freed_key_was_used_again_is_noted() {
    let world = Arc::new(world(held(), &Service::that_says(Verdict::Unknown)).await);
    let late = Late::begin(&world).await;
    world.judge(Ruling::NotApplied).await;
    world.pay(replied(201, "second")).await;
    // The second one stands, and is what the first caller is told too.
    let first = late.answered(replied(201, "first")).await;
    let Answer::Replayed { response, .. } = first else { panic!("{first:?}") };
    assert_eq!(&response.body[..], b"second");
    assert_eq!(world.words().await, ["uncertain", "judged-not-applied", "applied-too-late"]);
}

#[tokio::test]
async fn nobody_is_told_that_a_freed_key_is_in_flight() {
    let world = Arc::new(world(held(), &Service::that_says(Verdict::Unknown)).await);
    for (number, end) in [LOST, replied(402, "no")].into_iter().enumerate() {
        let late = Late::begin(&world).await;
        world.judge(Ruling::NotApplied).await;
        let told = told(late.answered(end).await);
        assert_eq!(told, (ProblemKind::OutcomeUnknown, 503, 1), "{number}");
    }
    let late = Late::begin(&world).await;
    world.judge(Ruling::NotApplied).await;
    let refused = late.answered(replied(400, "refused")).await;
    assert!(matches!(refused, Answer::First { outcome: FirstOutcome::Freed, .. }), "{refused:?}");
}

/// The answer of the attempt and the verdict have one status, and other bytes: what is stored is
/// what everybody gets.
#[tokio::test]
async fn an_answer_that_comes_after_a_verdict_is_answered_from_the_record() {
    let world = Arc::new(world(held(), &Service::that_says(Verdict::Unknown)).await);
    let late = Late::begin(&world).await;
    let Verdict::Applied(outcome) = applied() else { unreachable!() };
    world.judge(Ruling::Applied(outcome)).await;
    let first = late.answered(replied(201, "first")).await;
    let Answer::Replayed { response, .. } = first else { panic!("{first:?}") };
    assert_eq!(&response.body[..], b"{\"id\":7}");
}

#[tokio::test]
async fn what_nobody_executes_is_not_recalled_as_in_flight() {
    for (on_unknown, status) in [(OnUnknown::Hold, 409), (OnUnknown::Resend, 503)] {
        let collapse_for = Some(Duration::from_secs(86_400));
        let service = Service::that_says(Verdict::Unknown);
        let policy = OperationPolicy { on_unknown, collapse_for, ..policy() };
        let World { hapax, store, clock, operation, .. } = world(policy, &service).await;
        let (id, intent) = (id(&operation), intent(operation.name(), PAY));
        let fingerprint = operation.fingerprint(&intent).unwrap();
        let recall = async || hapax.recall::<()>(&operation, id, fingerprint).await;
        let Recalled::Free { next } = recall().await else { panic!("nobody had it") };
        assert_eq!(next.to_wire(), 1);
        let claim = NewClaim {
            id,
            owner: Owner::from_bytes([1; 16]),
            fingerprint,
            policy: operation.digest(),
            lease: Duration::from_secs(30),
            admission: Admission::WithClaim,
            secret_version: 1,
        };
        let Ok(Claimed::Ours(record)) = store.claim(claim).await else { panic!("it is free") };
        let known = |recalled| match recalled {
            Recalled::Known(Answer::Problem(problem)) => (problem.kind, problem.status),
            other => panic!("{other:?}"),
        };
        assert_eq!(known(recall().await), (ProblemKind::InFlight, 409));
        clock.advance(Duration::from_secs(31));
        assert_eq!(
            known(recall().await),
            (ProblemKind::OutcomeUnknown, status),
            "its lease is over"
        );
        let unknown = Settlement::Unknown { observed: None };
        store.settle(record.ownership(), unknown).await.unwrap();
        assert_eq!(known(recall().await), (ProblemKind::OutcomeUnknown, status));
        let (every_attempt, retention) = (true, operation.policy().retention);
        let freed = Settlement::NotApplied { every_attempt, retention };
        store.settle(record.ownership(), freed).await.unwrap();
        let Recalled::Free { next } = recall().await else { panic!("it is free again") };
        assert_eq!(next.to_wire(), 2);
    }
}
