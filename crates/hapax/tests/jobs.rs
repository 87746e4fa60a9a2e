//! Operations without HTTP, on the store in memory.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // a test that cannot go on fails
#![allow(clippy::disallowed_methods)] // what a test collects, it made

mod kit;

use std::{collections::HashMap, sync::Arc, time::Duration};

use axum::http::StatusCode;
use hapax::{Begun, Done, Execution, Interrupted, NotDone, Scope, StepError};
use hapax_core::{OutcomeClass, ProblemKind, State};
use kit::{World, engine};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

#[derive(Debug)]
#[expect(dead_code, reason = "shown when a test fails")]
enum JobError {
    Provider(StatusCode),
    Interrupted(Interrupted),
}

impl From<StatusCode> for JobError {
    fn from(status: StatusCode) -> Self {
        Self::Provider(status)
    }
}

impl From<Interrupted> for JobError {
    fn from(why: Interrupted) -> Self {
        Self::Interrupted(why)
    }
}

impl<E> From<StepError<E>> for JobError
where
    Self: From<E>,
{
    fn from(error: StepError<E>) -> Self {
        error.into_error()
    }
}

fn acme() -> Scope {
    Scope::principal(b"acme").unwrap()
}

async fn ship(world: &World, key: &str, what: &str) -> Result<Done<u64>, NotDone<JobError>> {
    let provider = world.provider.clone();
    let act = move |mut x: Execution| async move {
        let label = async |id: hapax::EffectId| provider.act("label", &id.to_string()).await;
        Ok::<u64, JobError>(x.call("label", label).await?)
    };
    world.hapax.once("orders.ship", &acme(), key, what, act).await
}

#[tokio::test]
async fn once_does_a_job_once_and_gives_its_value_ever_after() {
    let world = World::new();
    let first = ship(&world, "order-1", "to Berlin").await.unwrap();
    assert_eq!(first, Done { value: 1, replayed: false });
    // Another process, the same job.
    let other = World { hapax: engine(&world.store), ..World::new() };
    let again = ship(&other, "order-1", "to Berlin").await.unwrap();
    assert_eq!(again, Done { value: 1, replayed: true });
    assert_eq!(world.provider.acts().len() + other.provider.acts().len(), 1);
}

#[tokio::test]
async fn b1_another_intent_under_a_key_is_refused_and_another_key_is_another_job() {
    let world = World::new();
    ship(&world, "order-1", "to Berlin").await.unwrap();
    let Err(NotDone::Refused(refusal)) = ship(&world, "order-1", "to Paris").await else {
        panic!("not refused");
    };
    assert_eq!(refusal.kind(), ProblemKind::KeyReused);
    assert_eq!(ship(&world, "order-2", "to Berlin").await.unwrap().value, 2);
    let act = |_: Execution| async { Ok::<u64, JobError>(7) };
    let done =
        world.hapax.once("orders.ship", &Scope::single_tenant(), "order-1", "to Berlin", act).await;
    assert_eq!(done.unwrap().value, 7, "another scope");
}

#[tokio::test]
async fn a_failed_job_goes_on_or_is_unresolved_by_what_its_steps_say() {
    let world = World::new();
    world.provider.fail_once("!label");
    assert!(matches!(ship(&world, "order-1", "x").await, Err(NotDone::Failed(_))));
    assert_eq!(ship(&world, "order-1", "x").await.unwrap().value, 2, "it certainly did not happen");
    world.provider.fail_once("label");
    assert!(matches!(ship(&world, "order-2", "x").await, Err(NotDone::Failed(_))));
    let Err(NotDone::Unresolved(refusal)) = ship(&world, "order-2", "x").await else {
        panic!("not unresolved");
    };
    assert_eq!(refusal.kind(), ProblemKind::OutcomeUnknown);
    assert_eq!(world.provider.acts().len(), 3);
}

#[tokio::test]
async fn t09_copies_of_a_message_do_it_once() {
    let world = Arc::new(World::new());
    let gate = world.provider.hold("label");
    let copies: Vec<_> = (0..16)
        .map(|_| {
            let world = world.clone();
            tokio::spawn(async move { ship(&world, "order-1", "x").await })
        })
        .collect();
    world.provider.until("label").await;
    gate.add_permits(1);
    for copy in copies {
        assert_eq!(copy.await.unwrap().unwrap().value, 1);
    }
    assert_eq!(world.provider.acts().len(), 1);
}

#[tokio::test]
async fn p08_a_caller_that_is_dropped_does_not_end_the_job() {
    let world = Arc::new(World::new());
    let gate = world.provider.hold("label");
    let first = tokio::spawn({
        let world = world.clone();
        async move { ship(&world, "order-1", "x").await }
    });
    world.provider.until("label").await;
    first.abort();
    gate.add_permits(1);
    assert_eq!(ship(&world, "order-1", "x").await.unwrap(), Done { value: 1, replayed: true });
}

#[tokio::test]
async fn a_claim_is_settled_by_its_holder() {
    let world = World::new();
    let acme = acme();
    let claim = || world.hapax.claim("orders.ship", &acme, "order-1", "x");
    let Begun::Execute(mut x) = claim().await.unwrap() else { panic!("not ours") };
    assert!(matches!(
        world.hapax.claim("orders.ship", &acme, "order-1", "x").await,
        Ok(Begun::Later(_))
    ));
    let value = x.call("label", async |id| world.provider.act("label", &id.to_string()).await);
    let value = value.await.unwrap();
    x.succeed(&value).await.unwrap();
    let Begun::Replay(outcome) = claim().await.unwrap() else { panic!("not replayed") };
    assert_eq!((outcome.class, outcome.value::<u64>().unwrap()), (OutcomeClass::Succeeded, 1));
    let refused = world.hapax.claim("orders.ship", &acme, "order-1", "y").await.unwrap_err();
    assert_eq!(refused.kind(), ProblemKind::KeyReused);

    let Ok(Begun::Execute(x)) = world.hapax.claim("orders.ship", &acme, "order-2", "x").await
    else {
        panic!("not ours")
    };
    x.fail(&"no such address").await.unwrap();
    let Ok(Begun::Replay(outcome)) = world.hapax.claim("orders.ship", &acme, "order-2", "x").await
    else {
        panic!("not replayed")
    };
    assert_eq!(outcome.class, OutcomeClass::FailedTerminal);
    assert_eq!(outcome.value::<String>().unwrap(), "no such address");
}

#[tokio::test]
async fn a_claim_that_is_dropped_is_given_back_or_goes_on() {
    let world = World::new();
    let acme = acme();
    let claim = || world.hapax.claim("orders.ship", &acme, "order-1", "x");
    let Begun::Execute(x) = claim().await.unwrap() else { panic!("not ours") };
    drop(x);
    let mut x = until_ours(&world).await;
    assert_eq!(x.attempt().number().number(), 2, "attempts never go back");
    x.call("label", async |id| world.provider.act("label", &id.to_string()).await).await.unwrap();
    drop(x);
    let mut x = until_ours(&world).await;
    let label = x.call("label", async |_| -> Result<u64, ()> { panic!("it is done") }).await;
    assert_eq!(label.ok(), Some(1));
    x.give_back().await;
    assert_eq!(world.state().await, State::Uncertain);
    assert!(matches!(claim().await, Ok(Begun::Execute(_))), "it goes on");
}

#[tokio::test]
async fn a_claim_whose_steps_are_all_done_is_settled_without_another() {
    let world = World::new();
    let acme = acme();
    let claim = || world.hapax.claim("orders.ship", &acme, "order-1", "x");
    let Begun::Execute(mut x) = claim().await.unwrap() else { panic!("not ours") };
    x.call("label", async |id| world.provider.act("label", &id.to_string()).await).await.unwrap();
    x.give_back().await;
    let Begun::Execute(mut x) = claim().await.unwrap() else { panic!("it does not go on") };
    let label = x.call("label", async |_| -> Result<u64, ()> { panic!("it is done") }).await;
    x.succeed(&label.unwrap()).await.unwrap();
    let Begun::Replay(outcome) = claim().await.unwrap() else { panic!("not replayed") };
    assert_eq!(outcome.value::<u64>().unwrap(), 1);
}

async fn until_ours(world: &World) -> Execution<hapax::Held> {
    let claimed = async {
        loop {
            let begun = world.hapax.claim("orders.ship", &acme(), "order-1", "x").await;
            if let Ok(Begun::Execute(x)) = begun {
                return x;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), claimed).await.expect("it is given back")
}

#[derive(Serialize)]
struct Item {
    id: String,
    amount: u64,
}

fn item(id: &str, amount: u64) -> Item {
    Item { id: id.to_owned(), amount }
}

#[tokio::test]
async fn f1_a_batch_carries_many_operations_each_with_its_own_key_and_outcome() {
    let world = World::new();
    let pay = {
        let provider = world.provider.clone();
        move |mut x: Execution, item: Item| {
            let provider = provider.clone();
            async move {
                if item.amount == 0 {
                    return Err(JobError::Provider(StatusCode::UNPROCESSABLE_ENTITY));
                }
                x.call("charge", async |id| provider.act("charge", &id.to_string()).await).await?;
                Ok::<u64, JobError>(item.amount)
            }
        }
    };
    let acme = acme();
    let each =
        |items| world.hapax.each("payments.create", &acme, items, |i: &Item| &i.id, pay.clone());
    let results =
        each(vec![item("a", 1), item("b", 0), item("a", 1), item("a", 9), item("c", 3)]).await;
    let values: Vec<_> = results.iter().map(|r| r.as_ref().map(|d| d.value).ok()).collect();
    assert_eq!(values, [Some(1), None, Some(1), None, Some(3)]);
    assert!(matches!(results[1], Err(NotDone::Failed(JobError::Provider(_)))));
    assert!(results[2].as_ref().unwrap().replayed, "its copy in the batch did it");
    let Err(NotDone::Refused(refusal)) = &results[3] else { panic!("{:?}", results[3]) };
    assert_eq!(refusal.kind(), ProblemKind::KeyReused);
    assert_eq!(world.provider.acts().len(), 2);
    // The whole batch again, corrected: only what was not done is.
    let results = each(vec![item("a", 1), item("b", 2), item("c", 3)]).await;
    let done: Vec<_> = results.iter().map(|r| r.as_ref().unwrap().replayed).collect();
    assert_eq!(done, [true, false, true]);
    assert_eq!(world.provider.acts().len(), 3);
}

#[tokio::test]
async fn a_batch_of_hundreds_is_done_in_order() {
    let world = World::new();
    let items: Vec<_> = (0..300).map(|n| item(&format!("item-{n}"), n)).collect();
    let act = |_: Execution, item: Item| async move { Ok::<u64, JobError>(item.amount) };
    let results = world.hapax.each("count", &acme(), items, |i| &i.id, act).await;
    let values: Vec<_> = results.into_iter().map(|result| result.unwrap().value).collect();
    assert_eq!(values, (0..300).collect::<Vec<_>>());
    assert_eq!(world.hapax.under_way(), 0);
}

#[tokio::test]
async fn a_drain_waits_for_a_held_claim() {
    let world = Arc::new(World::new());
    let Ok(Begun::Execute(x)) = world.hapax.claim("orders.ship", &acme(), "order-1", "x").await
    else {
        panic!("not ours")
    };
    let gate = Arc::new(Semaphore::new(0));
    let drained = tokio::spawn({
        let (world, gate) = (world.clone(), gate.clone());
        async move {
            gate.add_permits(1);
            world.hapax.shutdown(Duration::from_secs(60)).await
        }
    });
    gate.acquire().await.unwrap().forget();
    x.succeed(&1).await.unwrap();
    assert_eq!(drained.await.unwrap(), 0);
}

#[tokio::test]
async fn a_value_that_cannot_be_stored_is_told_once_and_not_done_again() {
    let world = World::new();
    let act = |_: Execution| async {
        let no_json: HashMap<(u8, u8), u8> = HashMap::from([((1, 2), 3)]);
        Ok::<_, JobError>(no_json.into_iter().collect::<NoJson>())
    };
    let first = world.hapax.once("odd", &acme(), "order-1", "x", act).await;
    assert_eq!(first.unwrap().value.0.len(), 1);
    let again = world.hapax.once("odd", &acme(), "order-1", "x", act).await;
    let Err(NotDone::Refused(refusal)) = again else { panic!("{again:?}") };
    assert_eq!(refusal.kind(), ProblemKind::OutcomeNotKept);
}

/// A map whose keys JSON does not have.
#[derive(Debug, Deserialize, Serialize)]
struct NoJson(HashMap<(u8, u8), u8>);

impl FromIterator<((u8, u8), u8)> for NoJson {
    fn from_iter<I: IntoIterator<Item = ((u8, u8), u8)>>(entries: I) -> Self {
        Self(entries.into_iter().collect())
    }
}
