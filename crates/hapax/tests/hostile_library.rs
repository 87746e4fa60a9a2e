//! What the library promises to code that uses it wrongly, gives steps up half-way, or outlives the
//! engine, on the store in memory.
#![cfg(feature = "axum")]
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // a test that cannot go on fails
#![allow(clippy::disallowed_methods)] // what a test collects, it made

mod kit;

use std::{future::pending, time::Duration};

use axum::{Json, Router, http::StatusCode, response::IntoResponse, routing::post};
use hapax::{
    Access, Begun, Called, EffectId, Execution, Hapax, Interrupted, NotDone, OnUnknown,
    OperationPolicy, Scope, Step, StepError,
};
use hapax_core::{InFlight, ProblemKind, State};
use hapax_store::StoreError;
use kit::{Got, World, engine, request};
use serde_json::json;

const KEY: &str = "8e03978e-40d5-43dd-bc93-6894a57f9324";

fn acme() -> Scope {
    Scope::principal(b"acme").unwrap()
}

/// Gives up a call when it is under way.
async fn give_up(world: &World, x: &mut Execution<hapax::Held>, step: Step<'_>) {
    let provider = &world.provider;
    let call = x.call(step, async |id| {
        provider.act("charge", &id.to_string()).await;
        pending::<Result<u64, StatusCode>>().await
    });
    tokio::select! {
        biased;
        _ = call => panic!("it hangs"),
        () = provider.until("charge") => {}
    }
}

async fn begin(world: &World, key: &str) -> Execution<hapax::Held> {
    match world.hapax.claim("pay", &acme(), key, "x").await {
        Ok(Begun::Execute(x)) => x,
        other => panic!("not ours: {other:?}"),
    }
}

#[tokio::test]
async fn a_call_that_was_given_up_is_not_done_again_after_its_memory_not_even_by_the_same_attempt()
{
    let world = World::new();
    let step = Step::new("charge").resend_for(Duration::from_secs(60));
    let mut x = begin(&world, KEY).await;
    give_up(&world, &mut x, step.clone()).await;
    world.clock.advance(Duration::from_secs(3600));
    let again = x.call(step, async |id| world.provider.act("charge", &id.to_string()).await).await;
    assert!(matches!(again, Err(StepError::Interrupted(Interrupted::InDoubt { .. }))), "{again:?}");
    assert_eq!(world.provider.acts(), ["charge"], "the provider has forgotten the first one");
}

#[tokio::test]
async fn what_nobody_knows_is_never_told_as_done() {
    let (world, acme) = (World::new(), acme());
    let once = || {
        let provider = world.provider.clone();
        world.hapax.once("pay", &acme, KEY, "x", move |mut x| async move {
            // Swallowed: the call may have happened or not.
            let _ =
                x.call("charge", async |id| provider.act("charge", &id.to_string()).await).await;
            Ok::<u64, StatusCode>(7)
        })
    };
    world.provider.fail_once("charge");
    for _ in 0..3 {
        let told = once().await;
        assert!(matches!(told, Err(NotDone::Unresolved(_))), "{told:?}");
    }
    let claimed = world.hapax.claim("pay", &acme, KEY, "x").await;
    assert!(matches!(claimed, Ok(Begun::Unresolved(_))), "{claimed:?}");
    assert_eq!(world.provider.acts(), ["charge"]);
}

#[tokio::test]
async fn what_failed_for_good_is_never_told_as_done() {
    let world = World::new();
    begin(&world, KEY).await.fail(&7_u64).await.unwrap();
    let acme = acme();
    let once = world.hapax.once("pay", &acme, KEY, "x", |_| async { Ok::<u64, StatusCode>(1) });
    let told = once.await;
    assert!(matches!(told, Err(NotDone::Refused(_))), "{told:?}");
}

#[tokio::test]
async fn a_handler_that_passes_an_interruption_over_is_not_believed() {
    // By what the handler answers over it.
    for status in [StatusCode::CREATED, StatusCode::CONFLICT] {
        let world = World::new();
        let provider = world.provider.clone();
        let handler = move |mut x: Execution| {
            let provider = provider.clone();
            async move {
                let _ = x.call("ordered", async |_| Ok::<_, StatusCode>(1_u64)).await;
                let _ = x
                    .call("charge", async |id| provider.act("charge", &id.to_string()).await)
                    .await;
                (status, Json("paid")).into_response()
            }
        };
        world.provider.fail_once("charge");
        let app = Router::new().route("/pay", world.hapax.operation("pay").post(handler));
        for _ in 0..2 {
            let got = Got::from(&app, request("/pay", KEY, "1")).await;
            assert_eq!((got.status, got.problem()), (409, "outcome-unknown".to_owned()), "{got:?}");
        }
        assert_eq!(world.provider.acts(), ["charge"]);
    }
}

#[tokio::test]
async fn data_that_cannot_be_read_is_no_outcome_whatever_the_handler_answers() {
    for status in [StatusCode::CREATED, StatusCode::CONFLICT] {
        let world = World::new();
        let handler = move |mut x: Execution| async move {
            if x.attempt().number().number() == 1 {
                let _ = x.call("ordered", async |_| Ok::<_, StatusCode>("text".to_owned())).await;
                return StatusCode::BAD_GATEWAY.into_response();
            }
            // After a deployment that forgot the version.
            let _ = x.call("ordered", async |_| Ok::<_, StatusCode>(1_u64)).await;
            (status, Json("paid")).into_response()
        };
        let app = Router::new().route("/pay", world.hapax.operation("pay").post(handler));
        let ask = || Got::from(&app, request("/pay", KEY, "1"));
        assert_eq!(ask().await.status, 502);
        let got = ask().await;
        assert_eq!((got.status, got.header("idempotency-expires")), (503, None), "{got:?}");
        assert_eq!(world.state().await, State::Uncertain, "a retry by a repaired handler goes on");
    }
}

#[tokio::test]
async fn two_parts_of_one_name_are_not_taken_for_one_part_done_twice() {
    let world = World::new();
    let mut x = begin(&world, KEY).await;
    let charge = async |x: &mut Execution<hapax::Held>| {
        x.call("charge", async |id| world.provider.act("charge", &id.to_string()).await).await
    };
    assert_eq!(charge(&mut x).await.ok(), Some(1));
    // The second of two customers would be shipped to without being charged.
    let second = charge(&mut x).await;
    assert!(matches!(second, Err(StepError::Interrupted(Interrupted::Misused(_)))), "{second:?}");
    x.give_back().await;
    // In the next attempt it is found again, once.
    let mut x = begin(&world, KEY).await;
    assert_eq!(charge(&mut x).await.ok(), Some(1));
    assert!(charge(&mut x).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_step_is_not_waited_for_after_the_engine_was_shut_down() {
    let world = World::new();
    let mut x = begin(&world, KEY).await;
    let failing = |n: usize| {
        for _ in 0..n {
            world.store.fail_next(StoreError::Full);
        }
    };
    let call = x.call("charge", async |id| {
        world.provider.act("charge", &id.to_string()).await;
        // The store is gone for good.
        failing(100_000);
        Ok::<_, StatusCode>(1_u64)
    });
    let shut_down = async {
        world.provider.until("charge").await;
        world.hapax.shutdown(Duration::from_secs(1)).await
    };
    let both = async { tokio::join!(call, shut_down) };
    let (called, _) = tokio::time::timeout(Duration::from_secs(60), both).await.expect("it ends");
    assert!(matches!(called, Err(StepError::Interrupted(Interrupted::Store(_)))), "{called:?}");
}

#[tokio::test]
async fn a_batch_at_a_shutdown_is_told_that_nothing_was_done() {
    let world = World::new();
    world.hapax.shutdown(Duration::ZERO).await;
    let act = |_: Execution, n: String| async move { Ok::<_, StatusCode>(n) };
    let items = ["a".to_owned(), "b".to_owned()];
    for told in world.hapax.each("pay", &acme(), items, |n| n, act).await {
        let Err(NotDone::Later(why)) = told else { panic!("{told:?}") };
        assert_eq!(why.kind(), ProblemKind::Draining);
    }
}

#[tokio::test]
async fn an_execution_that_is_dropped_outside_of_a_runtime_is_taken_over_when_its_lease_is_over() {
    let world = World::new();
    let other = engine(&world.store);
    for hapax in [&world.hapax, &other] {
        hapax.define("pay", |policy| policy.in_flight = InFlight::Conflict);
    }
    let x = begin(&world, KEY).await;
    std::thread::spawn(move || drop(x)).join().unwrap();
    let claimed = world.hapax.claim("pay", &acme(), KEY, "x").await;
    assert!(matches!(claimed, Ok(Begun::Later(_))), "{claimed:?}");
    world.clock.advance(Duration::from_secs(31));
    let x = begin(&world, KEY).await;
    assert_eq!(x.attempt().number().number(), 2);
    // Another process finds it held, and nobody holds it twice.
    assert!(matches!(other.claim("pay", &acme(), KEY, "x").await, Ok(Begun::Later(_))));
}

#[tokio::test]
async fn a_thousand_steps_are_a_thousand_steps_and_none_is_done_again() {
    let world = World::new();
    let all = async |x: &mut Execution<hapax::Held>| {
        for n in 0..1000 {
            let name = format!("part-{n}");
            let act = async |id: EffectId| world.provider.act("part", &id.to_string()).await;
            let did = x.call(name.as_str(), act).await.unwrap();
            assert_eq!(did, n + 1);
        }
    };
    let mut x = begin(&world, KEY).await;
    all(&mut x).await;
    x.give_back().await;
    let mut x = begin(&world, KEY).await;
    all(&mut x).await;
    x.succeed(&()).await.unwrap();
    let mut ids = world.provider.ids("part");
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 1000, "each under an identity of its own");
}

#[tokio::test]
async fn names_that_are_none_do_nothing_and_lock_nothing() {
    let world = World::new();
    let mut x = begin(&world, KEY).await;
    for name in ["", "a b", "é", "a/b", &"x".repeat(129)] {
        let act = async |_: EffectId| -> Result<u64, ()> { panic!("it is no step") };
        let told = x.call(name, act).await;
        let misused = matches!(told, Err(StepError::Interrupted(Interrupted::Misused(_))));
        assert!(misused, "{name}: {told:?}");
    }
    x.give_back().await;
    begin(&world, KEY).await.succeed(&()).await.unwrap();
}

#[tokio::test]
async fn the_shortest_lease_there_is_locks_nothing_for_good() {
    let world = World::new();
    world.hapax.define("pay", |policy| policy.lease = Duration::from_millis(1));
    let acme = acme();
    let once = world.hapax.once("pay", &acme, KEY, "x", |mut x| async move {
        tokio::time::sleep(Duration::from_millis(50)).await;
        x.call("charge", async |_| Ok::<_, StatusCode>(1_u64)).await.map_err(|_| ())
    });
    let told = tokio::time::timeout(Duration::from_secs(60), once).await.expect("it ends");
    assert!(told.is_ok(), "{told:?}");
}

/// How an effect is told changes with a deployment, while records of the other way are in every
/// state.
#[tokio::test]
async fn a_record_begun_in_one_way_is_not_executed_in_another() {
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Way {
        Steps,
        Whole,
    }
    let app = |world: &World, hapax: &Hapax, way: Way| {
        let provider = world.provider.clone();
        let policy = |p: &mut OperationPolicy| {
            p.in_flight = InFlight::Conflict;
            p.on_unknown = OnUnknown::Resend;
            p.collapse_for = Some(Duration::from_secs(86_400));
        };
        let layer = hapax.operation("pay").policy(policy);
        let steps = {
            let provider = provider.clone();
            move |mut x: Execution| async move {
                let act = async |id: EffectId| provider.act("charge", &id.to_string()).await;
                let charged = x.call("charge", act).await;
                charged.map(|number| number.to_string()).map_err(|_| StatusCode::BAD_GATEWAY)
            }
        };
        let whole = move || async move {
            match provider.act("charge", "").await {
                Called::Applied(number) => Ok(number.to_string()),
                _ => Err(StatusCode::BAD_GATEWAY),
            }
        };
        match way {
            Way::Steps => Router::new().route("/pay", post(steps).layer(layer)),
            Way::Whole => Router::new().route("/pay", post(whole).layer(layer.bracketed())),
        }
    };
    for (before, after) in [(Way::Steps, Way::Whole), (Way::Whole, Way::Steps)] {
        for state in ["uncertain", "executing", "lease over", "succeeded"] {
            let world = World::new();
            let old = app(&world, &world.hapax, before);
            let new = app(&world, &engine(&world.store), after);
            match state {
                "uncertain" => world.provider.fail_once("charge"),
                "succeeded" => {}
                _ => world.provider.hang_once("charge"),
            }
            let first = tokio::spawn({
                let old = old.clone();
                async move { Got::from(&old, request("/pay", KEY, "1")).await }
            });
            world.provider.until("charge").await;
            if matches!(state, "uncertain" | "succeeded") {
                first.await.unwrap();
            }
            if state == "lease over" {
                world.clock.advance(Duration::from_secs(31));
            }
            for _ in 0..2 {
                let got = Got::from(&new, request("/pay", KEY, "1")).await;
                let succeeded = got.header("idempotent-replayed") == Some("true");
                assert_eq!(succeeded, state == "succeeded", "{before:?} {state}: {got:?}");
                let shows_nothing_new = got.status != 200 || succeeded;
                assert!(shows_nothing_new, "{before:?} {state}: {got:?}");
            }
            assert_eq!(world.provider.acts(), ["charge"], "{before:?} {state}");
        }
    }
}

#[tokio::test]
async fn an_authorization_that_panics_or_hangs_shows_nothing_and_executes_nothing() {
    let world = World::new();
    let provider = world.provider.clone();
    let handler = move |mut x: Execution| async move {
        let act = async |id: EffectId| provider.act("charge", &id.to_string()).await;
        x.call("charge", act).await.map(|number: u64| number.to_string())
    };
    let layer = world.hapax.operation("pay").authorize_replay(|head| async move {
        match head.headers.get("x-do").map(|value| value.as_bytes()) {
            Some(b"panic") => panic!("on purpose"),
            Some(b"hang") => pending().await,
            _ => Access::Granted,
        }
    });
    let app = Router::new().route("/pay", layer.post(handler));
    assert_eq!(Got::from(&app, request("/pay", KEY, "1")).await.status, 200);
    for what in ["panic", "hang"] {
        let mut asked = request("/pay", KEY, "1");
        asked.headers_mut().insert("x-do", what.parse().unwrap());
        let app = app.clone();
        let asked = tokio::spawn(async move { Got::from(&app, asked).await });
        let told = tokio::time::timeout(Duration::from_millis(20), asked).await;
        assert!(!matches!(told, Ok(Ok(_))), "{what}: {told:?}");
    }
    let again = Got::from(&app, request("/pay", KEY, "1")).await;
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!((world.provider.acts().len(), world.hapax.under_way()), (1, 0));
}

#[tokio::test]
async fn the_same_intent_is_the_same_whatever_its_order_and_another_number_is_another() {
    let (world, acme) = (World::new(), acme());
    let once = |intent: serde_json::Value| {
        let act = |_: Execution| async { Ok::<u64, ()>(1) };
        let (hapax, acme) = (&world.hapax, &acme);
        async move { hapax.once("pay", acme, KEY, &intent, act).await }
    };
    assert!(
        !once(json!({ "a": 1, "b": { "c": 9_007_199_254_740_993_u64 } })).await.unwrap().replayed
    );
    assert!(
        once(json!({ "b": { "c": 9_007_199_254_740_993_u64 }, "a": 1 })).await.unwrap().replayed
    );
    assert!(
        once(json!({ "a": 1.0, "b": { "c": 9_007_199_254_740_993_u64 } })).await.unwrap().replayed
    );
    for other in [
        json!({ "a": 1, "b": { "c": 9_007_199_254_740_992_u64 } }),
        json!({ "a": "1", "b": { "c": 9_007_199_254_740_993_u64 } }),
        json!({ "a": 1, "b": { "c": 9_007_199_254_740_993_u64, "d": null } }),
        json!([{ "a": 1, "b": { "c": 9_007_199_254_740_993_u64 } }]),
    ] {
        let told = once(other.clone()).await;
        assert!(matches!(told, Err(NotDone::Refused(_))), "{other}: {told:?}");
    }
}

#[tokio::test]
async fn a_batch_does_each_of_its_items_whatever_is_wrong_with_another() {
    struct Odd(u8);
    impl serde::Serialize for Odd {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            match self.0 {
                9 => Err(serde::ser::Error::custom("on purpose")),
                n => n.serialize(serializer),
            }
        }
    }
    let (world, acme) = (World::new(), acme());
    let provider = world.provider.clone();
    let act = move |mut x: Execution, item: Odd| {
        let provider = provider.clone();
        async move {
            let name = format!("ship-{}", item.0);
            x.call("ship", async |id| provider.act(&name, &id.to_string()).await)
                .await
                .map_err(|_| ())
        }
    };
    fn key(item: &Odd) -> &[u8] {
        match item.0 {
            1 | 2 => b"one",
            7 => b"",
            8 => &[0xff; 256],
            9 => b"nine",
            _ => b"three",
        }
    }
    let none = world.hapax.each("ship", &acme, Vec::<Odd>::new(), key, act.clone()).await;
    assert!(none.is_empty());
    let items = [1, 1, 2, 7, 8, 9, 3].map(Odd);
    let told = world.hapax.each("ship", &acme, items, key, act).await;
    let word = |told: &Result<hapax::Done<u64>, NotDone<()>>| match told {
        Ok(done) if done.replayed => "replayed",
        Ok(_) => "done",
        Err(NotDone::Refused(_)) => "refused",
        Err(_) => "later",
    };
    let words: Vec<_> = told.iter().map(word).collect();
    assert_eq!(words, ["done", "replayed", "refused", "refused", "refused", "refused", "done"]);
    let mut acts = world.provider.acts();
    acts.sort();
    assert_eq!(acts, ["ship-1", "ship-3"]);
}
