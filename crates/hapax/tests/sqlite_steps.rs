//! Steps and last transactions on SQLite: what an execution that was interrupted goes on with.
#![cfg(feature = "sqlite")]
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // a test that cannot go on fails

use std::time::Duration;

use hapax::{
    Begun, Done, Execution, Hapax, Interrupted, Scope, Step, StepError,
    sqlx::{
        Error, SqliteConnection, SqlitePool, query, query_scalar,
        sqlite::{SqliteConnectOptions, SqlitePoolOptions},
    },
};

async fn pool(dir: &tempfile::TempDir) -> SqlitePool {
    let file = dir.path().join("app.db");
    let options = SqliteConnectOptions::new().filename(file).create_if_missing(true);
    let pool = SqlitePoolOptions::new().connect_with(options).await.unwrap();
    query("CREATE TABLE acts (what TEXT NOT NULL)").execute(&pool).await.unwrap();
    pool
}

#[derive(Debug)]
struct Stopped;

impl From<Error> for Stopped {
    fn from(_: Error) -> Self {
        Self
    }
}

impl From<Interrupted> for Stopped {
    fn from(_: Interrupted) -> Self {
        Self
    }
}

impl<E> From<StepError<E>> for Stopped {
    fn from(_: StepError<E>) -> Self {
        Self
    }
}

async fn act(tx: &mut SqliteConnection, what: &str) -> Result<u64, Error> {
    query("INSERT INTO acts VALUES (?)").bind(what).execute(&mut *tx).await?;
    query_scalar("SELECT count(*) FROM acts").fetch_one(tx).await
}

async fn acts(pool: &SqlitePool) -> Vec<String> {
    query_scalar("SELECT what FROM acts ORDER BY rowid").fetch_all(pool).await.unwrap()
}

#[tokio::test]
async fn an_execution_whose_steps_are_all_done_ends_with_its_last_transaction() {
    let dir = tempfile::tempdir().unwrap();
    let pool = pool(&dir).await;
    let h = Hapax::sqlite(&pool).single_tenant().open().await.unwrap();
    let tenant = Scope::single_tenant();
    let order = |stops: bool| {
        let act = move |mut x: Execution| async move {
            let first: u64 = x.step("first", async |tx| act(tx, "first").await).await?;
            if stops {
                return Err(Stopped);
            }
            x.finish(async |tx| Ok(first + act(tx, "last").await?)).await
        };
        h.once("orders.make", &tenant, "order-1", "x", act)
    };
    order(true).await.unwrap_err();
    let bound = Duration::from_secs(10);
    let done = tokio::time::timeout(bound, order(false)).await.unwrap().unwrap();
    assert_eq!(done, Done { value: 3, replayed: false });
    assert!(order(false).await.unwrap().replayed);
    assert_eq!(acts(&pool).await, ["first", "last"]);
}

#[tokio::test]
async fn a_held_claim_whose_steps_are_all_done_ends_with_its_last_transaction() {
    let dir = tempfile::tempdir().unwrap();
    let pool = pool(&dir).await;
    let h = Hapax::sqlite(&pool).single_tenant().open().await.unwrap();
    let tenant = Scope::single_tenant();
    let claim = || h.claim("orders.make", &tenant, "order-1", "x");
    let Ok(Begun::Execute(mut x)) = claim().await else { panic!("not ours") };
    let first: u64 = x.step("first", async |tx| act(tx, "first").await).await.unwrap();
    x.give_back().await;
    let Ok(Begun::Execute(mut x)) = claim().await else { panic!("it does not go on") };
    let again: u64 = x.step("first", async |tx| act(tx, "first").await).await.unwrap();
    assert_eq!(first, again);
    x.finish(async |tx| Ok::<_, Stopped>(act(tx, "last").await?)).await.unwrap();
    let Ok(Begun::Replay(outcome)) = claim().await else { panic!("not replayed") };
    assert_eq!(outcome.value::<u64>().unwrap(), 2);
    assert_eq!(acts(&pool).await, ["first", "last"]);
}

#[tokio::test]
async fn nothing_follows_a_step_in_doubt_not_even_the_last_transaction() {
    let dir = tempfile::tempdir().unwrap();
    let pool = pool(&dir).await;
    let h = Hapax::sqlite(&pool).single_tenant().open().await.unwrap();
    let tenant = Scope::single_tenant();
    let order = |calls: bool| {
        let act = move |mut x: Execution| async move {
            if calls {
                let charge = Step::new("charge").resend_for(Duration::from_secs(3600));
                x.call(charge, async |_| Err::<(), _>(Stopped)).await?;
            }
            x.finish(async |tx| Ok::<u64, Stopped>(act(tx, "last").await?)).await
        };
        h.once("orders.make", &tenant, "order-1", "x", act)
    };
    order(true).await.unwrap_err();
    order(false).await.unwrap_err();
    assert!(acts(&pool).await.is_empty());
}
