//! An axum handler whose effect has several parts, on the store in memory: what callers get,
//! wherever it is interrupted.
#![cfg(feature = "axum")]
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // a test that cannot go on fails
#![allow(clippy::disallowed_methods)] // what a test collects, it made

mod kit;

use std::time::Duration;

use axum::{
    Json, Router,
    body::Body,
    http::{Request, StatusCode},
    response::{IntoResponse, Response},
    routing::post,
};
use hapax::{Attempt, Called, EffectId, Execution, Interrupted, OperationLayer, Step, StepError};
use hapax_core::{InFlight, OnUnknown, State};
use kit::{Got, World, request};
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Deserialize, Serialize)]
struct Pay {
    amount: u64,
}

#[derive(Debug)]
enum AppError {
    Provider(StatusCode),
    Interrupted(Interrupted),
}

impl From<StatusCode> for AppError {
    fn from(status: StatusCode) -> Self {
        Self::Provider(status)
    }
}

impl From<Interrupted> for AppError {
    fn from(why: Interrupted) -> Self {
        Self::Interrupted(why)
    }
}

impl<E> From<StepError<E>> for AppError
where
    Self: From<E>,
{
    fn from(error: StepError<E>) -> Self {
        error.into_error()
    }
}

impl IntoResponse for AppError {
    fn into_response(self) -> Response {
        match self {
            Self::Provider(status) => status.into_response(),
            Self::Interrupted(why) => why.into_response(),
        }
    }
}

fn app(world: &World, layer: OperationLayer) -> Router {
    let provider = world.provider.clone();
    let pay = move |mut x: Execution, attempt: Attempt, Json(pay): Json<Pay>| {
        let provider = provider.clone();
        async move {
            x.pure("limits", async || provider.tried("limits", "").await).await?;
            let reserved: u64 = x
                .call("reserve", async |id| provider.act("reserve", &id.to_string()).await)
                .await?;
            let charge = Step::new("charge").resend_for(Duration::from_secs(3600));
            let charged: u64 =
                x.call(charge, async |id| provider.act("charge", &id.to_string()).await).await?;
            x.idempotent("notify", async |id| provider.tried("notify", &id.to_string()).await)
                .await?;
            let number = attempt.number().number();
            let said =
                json!({ "amount": pay.amount, "at": [reserved, charged], "attempt": number });
            Ok::<_, AppError>((StatusCode::CREATED, Json(said)))
        }
    };
    Router::new().route("/payments", post(pay).layer(layer))
}

fn pay() -> Request<Body> {
    request("/payments", "8e03978e-40d5-43dd-bc93-6894a57f9324", "{\"amount\":7}")
}

#[tokio::test]
async fn a_handler_of_several_steps_does_each_once_and_retries_are_replayed() {
    let world = World::new();
    let app = app(&world, world.hapax.operation("pay"));
    let first = Got::from(&app, pay()).await;
    assert_eq!((first.status, first.header("idempotent-replayed")), (201, None));
    assert!(first.header("idempotency-expires").is_some());
    let again = Got::from(&app, pay()).await;
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!((again.status, &again.body), (201, &first.body));
    assert_eq!(world.provider.acts(), ["limits", "reserve", "charge", "notify"]);
    assert_eq!(world.state().await, State::Succeeded);
}

#[tokio::test]
async fn k6_wherever_a_step_fails_the_retry_goes_on_after_the_last_one_with_the_same_ids() {
    for (failing, state_after, again) in [
        // Before the first step nothing has happened.
        ("limits", State::Released, &["limits", "reserve", "charge", "notify"][..]),
        // Refused with certainty: it is done anew.
        ("!charge", State::Uncertain, &["limits", "charge", "notify"]),
        // Unknown, and permitted to be done again with its effect id.
        ("charge", State::Uncertain, &["limits", "charge", "notify"]),
        // Nothing is stored of a step that may be repeated.
        ("notify", State::Uncertain, &["limits", "notify"]),
    ] {
        let world = World::new();
        let app = app(&world, world.hapax.operation("pay"));
        world.provider.fail_once(failing);
        let first = Got::from(&app, pay()).await;
        assert_eq!(first.status, 502, "{failing}: {first:?}");
        assert_eq!(world.state().await, state_after, "{failing}");
        let said = if state_after == State::Released { "not-applied" } else { "unknown" };
        assert_eq!(first.header("hapax-outcome"), Some(said), "{failing}");
        let before = world.provider.acts();
        let second = Got::from(&app, pay()).await;
        assert_eq!(second.status, 201, "{failing}: {second:?}");
        assert_eq!(world.provider.acts()[before.len()..], *again, "{failing}");
        for step in ["reserve", "charge", "notify"] {
            let ids = world.provider.ids(step);
            assert!(ids.windows(2).all(|pair| pair[0] == pair[1]), "{failing} {step}: {ids:?}");
        }
        assert_eq!(world.state().await, State::Succeeded, "{failing}");
    }
}

#[tokio::test]
async fn a_step_in_doubt_that_may_not_be_done_again_holds() {
    let world = World::new();
    let app = app(&world, world.hapax.operation("pay"));
    world.provider.fail_once("reserve");
    assert_eq!(Got::from(&app, pay()).await.status, 502);
    // The observed answer is shown to retries, and nothing is executed.
    let again = Got::from(&app, pay()).await;
    assert_eq!((again.status, again.header("hapax-outcome")), (502, Some("unknown")));
    assert_eq!(world.provider.acts(), ["limits", "reserve"]);
    // Where the operation permits it, the step follows.
    let world = World::new();
    let permits = world.hapax.operation("pay").policy(|policy| {
        policy.on_unknown = OnUnknown::Resend;
        policy.collapse_for = Some(Duration::from_secs(3600));
    });
    let app = self::app(&world, permits);
    world.provider.fail_once("reserve");
    assert_eq!(Got::from(&app, pay()).await.status, 502);
    assert_eq!(Got::from(&app, pay()).await.status, 201);
    assert_eq!(world.provider.ids("reserve").len(), 2);
}

#[tokio::test]
async fn a_step_in_doubt_is_not_done_again_when_its_memory_is_over() {
    let world = World::new();
    let app = app(&world, world.hapax.operation("pay"));
    world.provider.fail_once("charge");
    assert_eq!(Got::from(&app, pay()).await.status, 502);
    world.clock.advance(Duration::from_secs(3600));
    assert_eq!(Got::from(&app, pay()).await.status, 502, "the observed answer");
    assert_eq!(world.provider.ids("charge").len(), 1);
}

#[tokio::test]
async fn a_handler_that_panics_within_a_step_leaves_it_in_doubt_and_one_between_goes_on() {
    for (panicking, acts) in [
        ("limits", 5),
        // In doubt, on hold.
        ("reserve", 2),
        // Only to be done again with its id.
        ("charge", 6),
        ("notify", 6),
    ] {
        let world = World::new();
        let app = app(&world, world.hapax.operation("pay"));
        world.provider.panic_once(panicking);
        let first = Got::from(&app, pay()).await;
        let kind = if panicking == "limits" { "handler-failed" } else { "outcome-unknown" };
        assert_eq!(first.problem(), kind, "{panicking}");
        let second = Got::from(&app, pay()).await;
        let expected = if panicking == "reserve" { 409 } else { 201 };
        assert_eq!(second.status, expected, "{panicking}: {second:?}");
        assert_eq!(world.provider.acts().len(), acts, "{panicking}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_hangs_is_cut_and_its_step_is_in_doubt() {
    let world = World::new();
    let app = app(&world, world.hapax.operation("pay"));
    world.provider.hang_once("charge");
    let first = Got::from(&app, pay()).await;
    assert_eq!((first.problem(), first.status), ("outcome-unknown".to_owned(), 503));
    assert_eq!(Got::from(&app, pay()).await.status, 201);
    assert_eq!(world.provider.ids("charge").len(), 2);
}

#[tokio::test]
async fn p08_a_client_that_hangs_up_does_not_end_the_handler() {
    let world = World::new();
    let app = app(&world, world.hapax.operation("pay"));
    let gate = world.provider.hold("charge");
    let first = tokio::spawn({
        let app = app.clone();
        async move { Got::from(&app, pay()).await }
    });
    world.provider.until("charge").await;
    first.abort();
    assert!(first.await.is_err());
    gate.add_permits(1);
    let again = Got::from(&app, pay()).await;
    assert_eq!((again.status, again.header("idempotent-replayed")), (201, Some("true")));
    assert_eq!(world.provider.ids("charge").len(), 1);
}

#[tokio::test]
async fn a_drain_waits_for_the_handler_and_then_abandons_it() {
    let world = World::new();
    let app = app(&world, world.hapax.operation("pay"));
    let _gate = world.provider.hold("charge");
    let first = tokio::spawn({
        let app = app.clone();
        async move { Got::from(&app, pay()).await }
    });
    world.provider.until("charge").await;
    let left = world.hapax.shutdown(Duration::from_millis(10)).await;
    assert_eq!(left, 0, "abandoned and settled");
    assert_eq!(first.await.unwrap().problem(), "outcome-unknown");
    assert_eq!(world.state().await, State::Uncertain);
    assert_eq!(Got::from(&app, pay()).await.problem(), "draining");
}

#[tokio::test]
async fn copies_wait_for_the_handler_or_are_told_that_it_is_under_way() {
    let world = World::new();
    let waiting = app(&world, world.hapax.operation("pay"));
    let conflict = world.hapax.operation("pay").policy(|p| p.in_flight = InFlight::Conflict);
    let conflict = app(&world, conflict);
    let gate = world.provider.hold("charge");
    let spawn = |app: &Router| {
        let app = app.clone();
        tokio::spawn(async move { Got::from(&app, pay()).await })
    };
    let first = spawn(&waiting);
    world.provider.until("charge").await;
    assert_eq!(Got::from(&conflict, pay()).await.problem(), "in-flight");
    let changed = request("/payments", "8e03978e-40d5-43dd-bc93-6894a57f9324", "{\"amount\":8}");
    assert_eq!(Got::from(&waiting, changed).await.problem(), "key-reused");
    let copy = spawn(&waiting);
    gate.add_permits(1);
    let (first, copy) = (first.await.unwrap(), copy.await.unwrap());
    assert_eq!((first.status, copy.status, &first.body), (201, 201, &copy.body));
    assert_eq!(world.provider.ids("charge").len(), 1);
}

#[tokio::test]
async fn a_refusal_before_the_first_step_frees_the_key_and_one_after_it_does_not() {
    let world = World::new();
    let refuse = |mut x: Execution| async move {
        let late = x.attempt().number().number() == 2;
        if late {
            let called = async |_| Called::<(), ()>::Applied(());
            x.call("something", called).await.map_err(|_| StatusCode::IM_A_TEAPOT)?;
        }
        Err::<(), _>(StatusCode::UNPROCESSABLE_ENTITY)
    };
    let app = Router::new().route("/refuse", world.hapax.operation("refuse").post(refuse));
    let ask =
        |body| Got::from(&app, request("/refuse", "8e03978e-40d5-43dd-bc93-6894a57f9324", body));
    let first = ask("{\"a\":1}").await;
    assert_eq!((first.status, first.header("hapax-outcome")), (422, None));
    // The corrected request runs under the same key.
    let second = ask("{\"a\":2}").await;
    assert_eq!((second.status, second.header("hapax-outcome")), (422, Some("unknown")));
    assert_eq!(ask("{\"a\":3}").await.problem(), "key-reused");
    assert_eq!(ask("{\"a\":2}").await.status, 422);
}

#[tokio::test]
async fn a_handler_that_goes_on_after_it_was_told_to_stop_has_no_outcome() {
    let world = World::new();
    let provider = world.provider.clone();
    let careless = move |mut x: Execution| {
        let provider = provider.clone();
        async move {
            let charge = async |id: EffectId| provider.act("charge", &id.to_string()).await;
            let _: Result<u64, _> = x.call("charge", charge).await;
            // The same name for something else: refused, and not looked at.
            let again = x.call("charge", async |_| Ok::<_, ()>("another type".to_owned())).await;
            assert!(again.is_err());
            StatusCode::CREATED
        }
    };
    let app = Router::new().route("/payments", world.hapax.operation("pay").post(careless));
    let told = Got::from(&app, pay()).await;
    assert_eq!(told.header("hapax-outcome"), Some("unknown"), "{told:?}");
    assert_eq!(world.state().await, State::Uncertain);
}

#[tokio::test]
async fn what_a_handler_has_undone_is_not_done_again_under_the_same_identities() {
    let world = World::new();
    let provider = world.provider.clone();
    let refund = move |mut x: Execution| {
        let provider = provider.clone();
        async move {
            for step in ["charge", "refund"] {
                let act = async |id: EffectId| provider.act(step, &id.to_string()).await;
                x.call(step, act).await.map_err(|_: StepError<_>| StatusCode::BAD_GATEWAY)?;
            }
            let undone = [("hapax-outcome", "not-applied")];
            Ok::<_, StatusCode>((StatusCode::SERVICE_UNAVAILABLE, undone))
        }
    };
    let app = Router::new().route("/payments", world.hapax.operation("pay").post(refund));
    assert_eq!(Got::from(&app, pay()).await.status, 503);
    assert_eq!(world.state().await, State::FailedTerminal);
    // The provider would take another charge for the one that it remembers.
    let again = Got::from(&app, pay()).await;
    assert_eq!((again.status, again.header("idempotent-replayed")), (503, Some("true")));
    assert_eq!(world.provider.acts(), ["charge", "refund"]);
}
