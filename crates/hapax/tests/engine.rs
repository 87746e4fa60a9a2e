//! The engine on the in-memory store: what each attempt gets, whatever happens to the first.
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
use hapax::{Answer, Attempt, Ended, Executed, FirstOutcome, Hapax, Operation, Options, Secrets};
use hapax_core::{EffectSecret, InFlight, OperationPolicy, Pointer, ProblemKind, State};
use hapax_store::{Inspect, ListFilter, ManualClock, MemoryStore, StoreError};
use tokio::sync::Semaphore;

/// An engine on a store in memory, and how often an effect was produced.
struct World {
    hapax: Hapax,
    store: MemoryStore,
    clock: Arc<ManualClock>,
    operation: Arc<Operation>,
    effects: Arc<AtomicUsize>,
}

async fn world(policy: OperationPolicy) -> World {
    let clock = Arc::new(ManualClock::new());
    let store = MemoryStore::new(clock.clone());
    join(store, clock, policy).await
}

async fn join(store: MemoryStore, clock: Arc<ManualClock>, policy: OperationPolicy) -> World {
    let secrets = Secrets::single(EffectSecret::from_bytes([7; 32]));
    let hapax = Hapax::new(Arc::new(store.clone()), secrets, Options::default());
    let operation = hapax.register(policy).await.unwrap();
    World { hapax, store, clock, operation, effects: Arc::default() }
}

impl World {
    async fn attempt<F, Fut>(&self, body: &'static str, execute: F) -> Answer<&'static str>
    where
        F: FnOnce(Attempt) -> Fut + Send + 'static,
        Fut: Future<Output = Executed<&'static str>> + Send + 'static,
    {
        let intent = intent(self.operation.name(), body);
        let fingerprint = self.operation.fingerprint(&intent).unwrap();
        let effects = Arc::clone(&self.effects);
        let execute = move |execution| {
            effects.fetch_add(1, Ordering::SeqCst);
            execute(execution)
        };
        self.hapax.run(&self.operation, id(&self.operation), fingerprint, intent, execute).await
    }

    async fn pay(&self, ended: Executed<&'static str>) -> Answer<&'static str> {
        self.attempt(PAY, |_| async move { ended }).await
    }

    fn effects(&self) -> usize {
        self.effects.load(Ordering::SeqCst)
    }

    async fn state(&self) -> State {
        let all = self.store.list(ListFilter { limit: 9, ..Default::default() }).await.unwrap();
        assert_eq!(all.len(), 1);
        all[0].state
    }
}

#[tokio::test]
async fn the_first_executes_and_every_retry_is_replayed() {
    let world = world(policy()).await;
    let first = world.pay(replied(201, "made")).await;
    assert!(matches!(first, Answer::First { live: "made", outcome: FirstOutcome::Stored { .. } }));
    for _ in 0..3 {
        let Answer::Replayed { response, .. } = world.pay(replied(500, "again")).await else {
            panic!("not replayed");
        };
        assert_eq!((response.status, &response.body[..]), (201, &b"made"[..]));
    }
    assert_eq!(world.effects(), 1);
}

#[tokio::test]
async fn t02_changed_intent_is_refused_in_every_state() {
    for (ended, after) in [
        (replied(201, "made"), State::Succeeded),
        (replied(402, "no"), State::FailedTerminal),
        (replied(500, "?"), State::Uncertain),
        (LOST, State::Uncertain),
    ] {
        let world = world(resend()).await;
        world.pay(ended).await;
        assert_eq!(world.state().await, after);
        let changed = world.attempt("{\"amount\":2}", |_| async { replied(201, "two") }).await;
        assert_eq!(problem(changed), ProblemKind::KeyReused);
        assert_eq!(world.effects(), 1);
        assert_eq!(world.state().await, after);
    }
}

#[tokio::test]
async fn t02_changed_intent_is_refused_while_in_flight() {
    let world = Arc::new(world(policy()).await);
    let (gate, first) = held(&world, replied(201, "made")).await;
    let changed = world.attempt("{\"amount\":2}", |_| async { replied(201, "two") }).await;
    assert_eq!(problem(changed), ProblemKind::KeyReused);
    gate.add_permits(1);
    assert!(matches!(first.await, Ok(Answer::First { .. })));
}

#[tokio::test]
async fn p08_a_caller_that_hangs_up_changes_nothing() {
    let world = Arc::new(world(policy()).await);
    let (gate, caller) = held(&world, replied(201, "made")).await;
    caller.abort();
    assert!(caller.await.is_err());
    gate.add_permits(1);
    // The retry waits for the execution that goes on, and gets its bytes.
    assert!(matches!(world.pay(LOST).await, Answer::Replayed { .. }));
    assert_eq!(world.effects(), 1);
}

#[tokio::test]
async fn a_panicking_execution_is_an_unknown_outcome() {
    let world = world(policy()).await;
    let broken = world.attempt(PAY, |_| async { panic!("on purpose") }).await;
    assert_eq!(told(broken), (ProblemKind::OutcomeUnknown, 409, 60));
    assert_eq!(world.state().await, State::Uncertain);
    assert_eq!(problem(world.pay(replied(201, "made")).await), ProblemKind::OutcomeUnknown);
    assert_eq!(world.effects(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_execution_past_its_timeout_is_an_unknown_outcome() {
    let world = world(policy()).await;
    let stuck = world.attempt(PAY, |_| std::future::pending()).await;
    assert_eq!(problem(stuck), ProblemKind::OutcomeUnknown);
    assert_eq!(world.state().await, State::Uncertain);
}

#[tokio::test]
async fn p01_copies_at_once_execute_once_and_the_others_get_the_same() {
    let world = Arc::new(world(policy()).await);
    let copies: Vec<_> = (0..64)
        .map(|_| {
            let world = world.clone();
            tokio::spawn(async move {
                let slow = |_| async {
                    tokio::task::yield_now().await;
                    replied(201, "made")
                };
                world.attempt(PAY, slow).await
            })
        })
        .collect();
    let mut firsts = 0;
    for copy in copies {
        match copy.await.unwrap() {
            Answer::First { live, .. } => {
                assert_eq!(live, "made");
                firsts += 1;
            }
            Answer::Replayed { response, .. } => assert_eq!(&response.body[..], b"made"),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((firsts, world.effects()), (1, 1));
}

/// An attempt that executes by now, and ends so when its gate opens.
async fn held(
    world: &Arc<World>,
    ended: Executed<&'static str>,
) -> (Arc<Semaphore>, tokio::task::JoinHandle<Answer<&'static str>>) {
    let gate = Arc::new(Semaphore::new(0));
    let (opened, other) = (gate.clone(), world.clone());
    let attempt = tokio::spawn(async move {
        let until_it_opens = |_| async move {
            let _ = opened.acquire().await;
            ended
        };
        other.attempt(PAY, until_it_opens).await
    });
    while world.effects() == 0 {
        tokio::task::yield_now().await;
    }
    (gate, attempt)
}

/// Runs `first` to the point where it executes, starts a copy that waits for it, then lets it end.
async fn with_a_waiter(world: World, ended: Executed<&'static str>) -> [Answer<&'static str>; 2] {
    let world = Arc::new(world);
    let (gate, first) = held(&world, ended).await;
    let other = world.clone();
    let waiter = tokio::spawn(async move { other.pay(replied(201, "not again")).await });
    // The copy has lost its claim once it is the only task left to run.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    gate.add_permits(1);
    let answers = [first.await.unwrap(), waiter.await.unwrap()];
    assert_eq!(world.effects(), 1, "a copy that waited never executes in turn");
    answers
}

#[tokio::test]
async fn a_waiter_gets_the_leaders_answer_when_the_key_was_freed() {
    let [first, waiter] = with_a_waiter(world(policy()).await, replied(422, "bad")).await;
    assert!(matches!(first, Answer::First { outcome: FirstOutcome::Freed, .. }));
    let Answer::Shared { response } = waiter else { panic!("{waiter:?}") };
    assert_eq!((response.status, &response.body[..]), (422, &b"bad"[..]));
}

#[tokio::test]
async fn a_waiter_does_not_execute_where_the_outcome_is_unknown() {
    let [first, waiter] = with_a_waiter(world(resend()).await, LOST).await;
    assert_eq!(told(first), (ProblemKind::OutcomeUnknown, 503, 1));
    assert_eq!(told(waiter), (ProblemKind::OutcomeUnknown, 503, 1));
    let [first, waiter] = with_a_waiter(world(policy()).await, replied(500, "oops")).await;
    assert!(matches!(first, Answer::First { outcome: FirstOutcome::Unknown { .. }, .. }));
    assert!(matches!(waiter, Answer::Observed { .. }));
}

#[tokio::test]
async fn a_waiter_is_told_when_the_service_was_not_reachable() {
    let never = Executed { ended: Ended::NeverSent, live: None };
    let answers = with_a_waiter(world(policy()).await, never).await;
    for answer in answers {
        assert_eq!(problem(answer), ProblemKind::UpstreamUnreachable);
    }
}

#[tokio::test]
async fn conflict_answers_copies_at_once() {
    let world =
        Arc::new(world(OperationPolicy { in_flight: InFlight::Conflict, ..policy() }).await);
    let other = world.clone();
    let first = tokio::spawn(async move { other.attempt(PAY, |_| std::future::pending()).await });
    while world.effects() == 0 {
        tokio::task::yield_now().await;
    }
    let copy = world.pay(replied(201, "made")).await;
    assert_eq!(told(copy), (ProblemKind::InFlight, 409, 1));
    first.abort();
}

#[tokio::test]
async fn hold_shows_what_was_observed_and_never_executes_again() {
    let world = world(policy()).await;
    let first = world.pay(replied(500, "oops")).await;
    assert!(matches!(first, Answer::First { live: "oops", outcome: FirstOutcome::Unknown { .. } }));
    let Answer::Observed { response, retry_after } = world.pay(replied(201, "made")).await else {
        panic!("not observed");
    };
    assert_eq!((response.status, retry_after), (500, Duration::from_secs(60)));
    assert_eq!(world.effects(), 1);
}

#[tokio::test]
async fn resend_executes_again_under_the_same_effect_id_with_the_next_attempt() {
    let world = world(resend()).await;
    let seen = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let tell = |ended| {
        let seen = seen.clone();
        move |execution: Attempt| async move {
            seen.lock().push((
                execution.effect_id(),
                execution.number().number(),
                execution.is_clean(),
            ));
            ended
        }
    };
    let first = world.attempt(PAY, tell(LOST)).await;
    assert_eq!(told(first), (ProblemKind::OutcomeUnknown, 503, 1));
    // A refusal of the second attempt proves nothing about the first.
    let refused = world.attempt(PAY, tell(replied(422, "no"))).await;
    assert!(matches!(refused, Answer::First { outcome: FirstOutcome::Unknown { .. }, .. }));
    let second = world.attempt(PAY, tell(replied(201, "made"))).await;
    assert!(matches!(second, Answer::First { outcome: FirstOutcome::Stored { .. }, .. }));
    let seen = seen.lock();
    let effect_id = seen[0].0;
    assert_eq!(*seen, [(effect_id, 1, true), (effect_id, 2, false), (effect_id, 3, false)]);
}

#[tokio::test]
async fn a_resend_ends_with_the_downstreams_memory() {
    let world = world(resend()).await;
    world.pay(LOST).await;
    world.clock.advance(Duration::from_secs(3600 - 60));
    assert_eq!(told(world.pay(LOST).await), (ProblemKind::OutcomeUnknown, 409, 60));
    assert_eq!(world.effects(), 1);
}

#[tokio::test]
async fn never_sent_frees_the_key_and_the_retry_executes() {
    let world = world(policy()).await;
    let never = Executed { ended: Ended::NeverSent, live: None };
    assert_eq!(problem(world.pay(never).await), ProblemKind::UpstreamUnreachable);
    assert_eq!(world.state().await, State::Released);
    let retry = world.attempt("{\"amount\":2}", |execution| async move {
        assert_eq!((execution.number().number(), execution.is_clean()), (2, true));
        replied(201, "made")
    });
    assert!(matches!(retry.await, Answer::First { outcome: FirstOutcome::Stored { .. }, .. }));
}

#[tokio::test]
async fn never_sent_on_a_second_attempt_leaves_the_first_unknown() {
    let world = world(resend()).await;
    world.pay(LOST).await;
    let never = Executed { ended: Ended::NeverSent, live: None };
    assert_eq!(problem(world.pay(never).await), ProblemKind::OutcomeUnknown);
    assert_eq!(world.state().await, State::Uncertain);
}

#[tokio::test]
async fn p11_a_store_that_fails_at_the_claim_means_nothing_was_executed() {
    let world = world(policy()).await;
    world.store.fail_next(StoreError::Full);
    assert_eq!(problem(world.pay(replied(201, "made")).await), ProblemKind::StoreUnavailable);
    assert_eq!(world.effects(), 0);
    assert!(matches!(world.pay(replied(201, "made")).await, Answer::First { .. }));
}

#[tokio::test(start_paused = true)]
async fn a_settle_that_fails_is_issued_again_until_it_is_stored() {
    let world = world(policy()).await;
    let store = world.store.clone();
    let first = world.attempt(PAY, move |_| async move {
        store.fail_next(StoreError::Full);
        replied(201, "made")
    });
    assert!(matches!(first.await, Answer::First { outcome: FirstOutcome::Stored { .. }, .. }));
    assert!(matches!(world.pay(LOST).await, Answer::Replayed { .. }));
}

#[tokio::test(start_paused = true)]
async fn p25_lost_answers_are_resolved_not_guessed() {
    for committed in [true, false] {
        let world = world(policy()).await;
        world.store.lose_next_answer(committed);
        let store = world.store.clone();
        let first = world.attempt(PAY, move |_| async move {
            store.lose_next_answer(committed);
            replied(201, "made")
        });
        assert!(matches!(first.await, Answer::First { outcome: FirstOutcome::Stored { .. }, .. }));
        assert!(matches!(world.pay(LOST).await, Answer::Replayed { .. }));
        assert_eq!(world.effects(), 1);
    }
}

#[tokio::test]
async fn a_regressed_store_answers_store_regressed_and_executes_nothing() {
    let world = world(policy()).await;
    let before = world.store.snapshot();
    world.pay(replied(201, "made")).await;
    world.store.restore(before);
    for _ in 0..2 {
        let answer = world.pay(replied(201, "twice")).await;
        assert_eq!(problem(answer), ProblemKind::StoreRegressed);
    }
    assert_eq!(world.effects(), 1);
}

#[tokio::test]
async fn t08_a_record_whose_lease_ran_out_becomes_uncertain_and_its_owner_may_still_settle() {
    let world = Arc::new(world(policy()).await);
    let (gate, first) = held(&world, replied(201, "made")).await;
    world.clock.advance(Duration::from_secs(31));
    // Another process finds it overdue.
    let elsewhere = join(world.store.node(), world.clock.clone(), policy()).await;
    assert_eq!(problem(elsewhere.pay(LOST).await), ProblemKind::OutcomeUnknown);
    assert_eq!(elsewhere.effects(), 0);
    gate.add_permits(1);
    assert!(matches!(first.await, Ok(Answer::First { .. })), "a late truthful settle is welcome");
    assert!(matches!(elsewhere.pay(LOST).await, Answer::Replayed { .. }));
}

#[tokio::test]
async fn p02_an_attempt_that_was_superseded_is_fenced_and_answers_from_the_record() {
    let world = Arc::new(world(resend()).await);
    let (gate, paused) = held(&world, replied(500, "stale")).await;
    world.clock.advance(Duration::from_secs(31));
    let elsewhere = join(world.store.node(), world.clock.clone(), resend()).await;
    let second = elsewhere.pay(replied(201, "made")).await;
    assert!(matches!(second, Answer::First { live: "made", .. }));
    gate.add_permits(1);
    let Ok(Answer::Replayed { response, .. }) = paused.await else { panic!("not fenced") };
    assert_eq!(&response.body[..], b"made");
}

#[tokio::test]
async fn t12_a_record_is_compared_under_the_rules_it_was_stored_with() {
    let old = world(policy()).await;
    old.attempt("{\"amount\":1,\"at\":1}", |_| async { replied(201, "made") }).await;
    let mut changed = policy();
    changed.fingerprint.exclude = vec![Pointer::parse("/at").unwrap()];
    let new = join(old.store.node(), old.clock.clone(), changed).await;
    let same = new.attempt("{\"at\":1,\"amount\":1}", |_| async { LOST }).await;
    assert!(matches!(same, Answer::Replayed { .. }));
    // Under the rules of then, the time was part of the intent.
    let other = new.attempt("{\"amount\":1,\"at\":2}", |_| async { LOST }).await;
    assert_eq!(problem(other), ProblemKind::KeyReused);
    assert_eq!(new.effects(), 0);
}

#[tokio::test]
async fn a_pinned_policy_only_gets_stricter() {
    let old = world(resend()).await;
    old.pay(LOST).await;
    // The same operation at another upstream: its memory says nothing about the first one's.
    let moved = OperationPolicy { target: "http://127.0.0.1:2".to_owned(), ..resend() };
    let new = join(old.store.node(), old.clock.clone(), moved).await;
    assert_eq!(told(new.pay(LOST).await), (ProblemKind::OutcomeUnknown, 409, 60));
    assert_eq!(new.effects(), 0);
}

#[tokio::test(start_paused = true)]
async fn shutdown_waits_for_executions_then_makes_the_rest_uncertain() {
    let world = Arc::new(world(policy()).await);
    let other = world.clone();
    let stuck = tokio::spawn(async move { other.attempt(PAY, |_| std::future::pending()).await });
    while world.effects() == 0 {
        tokio::task::yield_now().await;
    }
    let hapax = world.hapax.clone();
    let stopping = tokio::spawn(async move { hapax.shutdown(Duration::from_secs(5)).await });
    tokio::task::yield_now().await;
    assert_eq!(problem(world.pay(LOST).await), ProblemKind::Draining);
    assert_eq!(stopping.await.unwrap(), 0);
    assert_eq!(problem(stuck.await.unwrap()), ProblemKind::OutcomeUnknown);
    assert_eq!(world.state().await, State::Uncertain);
}

#[tokio::test(start_paused = true)]
async fn shutdown_waits_for_what_goes_on_without_its_caller_and_nothing_new_begins() {
    let world = world(policy()).await;
    let gate = Arc::new(Semaphore::new(0));
    let held = Arc::clone(&gate);
    let going = world.hapax.go_on(async move { held.acquire().await.unwrap().forget() }).unwrap();
    drop(going);
    let hapax = world.hapax.clone();
    let stopping = tokio::spawn(async move { hapax.shutdown(Duration::from_secs(5)).await });
    while !world.hapax.is_draining() {
        tokio::task::yield_now().await;
    }
    assert!(!stopping.is_finished());
    let refused = world.hapax.go_on(async { panic!("nothing new begins") });
    assert_eq!(refused.unwrap_err().kind, ProblemKind::Draining);
    gate.add_permits(1);
    assert_eq!(stopping.await.unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_is_not_waited_for_before_a_shutdown_does_not_begin_after_it() {
    let world = world(policy()).await;
    let intent = intent(world.operation.name(), PAY);
    let fingerprint = world.operation.fingerprint(&intent).unwrap();
    let (operation, effects) = (&world.operation, Arc::clone(&world.effects));
    let attempt = world.hapax.run(operation, id(operation), fingerprint, intent, |_| async move {
        effects.fetch_add(1, Ordering::SeqCst);
        LOST
    });
    let begun = tokio::time::Instant::now();
    assert_eq!(world.hapax.under_way(), 0);
    assert_eq!(world.hapax.shutdown(Duration::from_secs(5)).await, 0);
    assert_eq!(begun.elapsed(), Duration::ZERO, "there was nothing to wait for");
    assert_eq!(problem(attempt.await), ProblemKind::Draining);
    assert_eq!(world.effects(), 0);
}
