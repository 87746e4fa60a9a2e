//! What handlers can do to the application's own SQLite database, and what stays true.
#![cfg(all(feature = "axum", feature = "sqlite"))]
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // a test that cannot go on fails
#![allow(clippy::disallowed_methods)] // what a test collects, it made

mod kit;

use std::{
    future::poll_fn,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
    time::{Duration, Instant},
};

use axum::{
    Router,
    http::{Extensions, StatusCode, request::Parts},
    response::IntoResponse,
    routing::post,
};
use hapax::{Begun, Execution, Hapax, Interrupted, Scope, StepError, Tx, sqlx};
use hapax_core::InFlight;
use kit::{Got, request};
use parking_lot::Mutex;
use sqlx::{
    SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteConnection, SqlitePoolOptions},
};
use tempfile::TempDir;
use tokio::sync::{Notify, Semaphore};

const KEY: &str = "8e03978e-40d5-43dd-bc93-6894a57f9324";
const OTHER: &str = "0b2f4a0e-7a51-4a39-a8d3-3c2f1b1b8d11";

struct Shop {
    pool: SqlitePool,
    hapax: Hapax,
    _directory: Arc<TempDir>,
}

impl Shop {
    async fn open() -> Self {
        let directory = Arc::new(tempfile::tempdir().unwrap());
        let shop = Self::at(directory).await;
        sqlx::query("CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT NOT NULL UNIQUE)")
            .execute(&shop.pool)
            .await
            .unwrap();
        shop
    }

    async fn at(directory: Arc<TempDir>) -> Self {
        let file = directory.path().join("shop.db");
        let options = SqliteConnectOptions::new().filename(&file).create_if_missing(true);
        let pool = SqlitePoolOptions::new().connect_with(options).await.unwrap();
        let hapax = Hapax::sqlite(&pool).single_tenant().open().await.unwrap();
        Self { pool, hapax, _directory: directory }
    }

    /// The same database as another process has it.
    async fn elsewhere(&self) -> Self {
        Self::at(Arc::clone(&self._directory)).await
    }

    async fn orders(&self) -> i64 {
        sqlx::query_scalar("SELECT count(*) FROM orders").fetch_one(&self.pool).await.unwrap()
    }

    /// How many orders begin like this.
    async fn made(&self, item: &str) -> i64 {
        sqlx::query_scalar("SELECT count(*) FROM orders WHERE item LIKE ? || '%'")
            .bind(item)
            .fetch_one(&self.pool)
            .await
            .unwrap()
    }

    /// Another order can be made, soon.
    async fn still_serves(&self) {
        let make = |mut tx: Tx| async move {
            match insert(&mut tx, "another").await {
                Ok(()) => StatusCode::CREATED,
                Err(_) => StatusCode::INTERNAL_SERVER_ERROR,
            }
        };
        let app = Router::new().route("/another", self.hapax.operation("another").post(make));
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let got = Got::from(&app, request("/another", OTHER, "1")).await;
            if got.status == 201 {
                return;
            }
            assert!(Instant::now() < deadline, "{got:?}");
        }
    }
}

async fn insert(tx: &mut SqliteConnection, item: &str) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO orders (item) VALUES (?)").bind(item).execute(tx).await.map(drop)
}

fn acme() -> Scope {
    Scope::principal(b"acme").unwrap()
}

async fn begin(shop: &Shop, key: &str) -> Execution<hapax::Held> {
    match shop.hapax.claim("pay", &acme(), key, "x").await {
        Ok(Begun::Execute(x)) => x,
        other => panic!("not ours: {other:?}"),
    }
}

/// Polls a future so often and gives it up then; whether it was at its end.
async fn cut_after(polls: usize, future: impl Future) -> bool {
    let mut future = pin!(future);
    let mut left = polls;
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(_) => Poll::Ready(true),
        Poll::Pending => {
            left -= 1;
            if left == 0 { Poll::Ready(false) } else { Poll::Pending }
        }
    })
    .await
}

#[tokio::test]
async fn a_step_that_was_given_up_at_any_moment_and_done_again_writes_once() {
    let shop = Shop::open().await;
    for polls in 1.. {
        let key = format!("order-{polls}");
        let mut x = begin(&shop, &key).await;
        let item = format!("item-{polls}-");
        let step = async |tx: &mut SqliteConnection| {
            let insert = sqlx::query("INSERT INTO orders (item) VALUES (? || random())");
            insert.bind(&item).execute(tx).await.map(drop)
        };
        if cut_after(polls, x.step("ordered", step)).await {
            return;
        }
        let again = x.step("ordered", step).await;
        if again.is_ok() {
            x.succeed(&()).await.unwrap();
        } else {
            // It was done; the next attempt finds that out.
            x.give_back().await;
            let mut x = begin(&shop, &key).await;
            x.step("ordered", step).await.unwrap();
            x.succeed(&()).await.unwrap();
        }
        assert_eq!(shop.made(&item).await, 1, "given up after {polls} polls: {again:?}");
    }
}

#[tokio::test]
async fn a_last_transaction_that_ends_after_the_answer_does_not_hold_the_lock() {
    let shop = Shop::open().await;
    let (begun, gate) = (Arc::new(Notify::new()), Arc::new(Semaphore::new(0)));
    let handler = {
        let (begun, gate) = (begun.clone(), gate.clone());
        move |x: Execution| async move {
            let (has_begun, gate) = (begun.clone(), gate.clone());
            tokio::spawn(x.finish(async move |tx| {
                has_begun.notify_one();
                gate.acquire().await.unwrap().forget();
                insert(tx, "stray").await.map_err(|_| Interrupted::Fenced)
            }));
            begun.notified().await;
            StatusCode::CREATED
        }
    };
    let app = Router::new().route("/pay", shop.hapax.operation("pay").post(handler));
    let mut asked = tokio::spawn(async move { Got::from(&app, request("/pay", KEY, "1")).await });
    let early = tokio::time::timeout(Duration::from_millis(20), &mut asked).await;
    assert!(early.is_err(), "the answer is to be stored, and somebody else writes");
    gate.add_permits(1);
    let got = tokio::time::timeout(Duration::from_secs(10), asked).await.expect("it answers");
    let got = got.unwrap();
    assert!(got.status == 201 || got.problem() == "outcome-unknown", "{got:?}");
    shop.still_serves().await;
}

#[tokio::test]
async fn a_transaction_that_hangs_has_a_third_of_the_lease_also_in_a_step() {
    let shop = Shop::open().await;
    shop.hapax.define("pay", |policy| policy.lease = Duration::from_millis(600));
    let mut x = begin(&shop, KEY).await;
    let hangs = async |tx: &mut SqliteConnection| {
        insert(tx, "hangs").await?;
        std::future::pending::<Result<(), sqlx::Error>>().await
    };
    let cut = tokio::time::timeout(Duration::from_secs(5), x.step("ordered", hangs)).await;
    let cut = cut.expect("it has a third of the lease");
    assert!(matches!(cut, Err(StepError::Interrupted(_))), "{cut:?}");
    shop.still_serves().await;
    drop(x);
}

#[tokio::test]
async fn a_copy_that_waits_for_another_process_gets_its_answer_when_it_is_there() {
    let (here, gate) = (Shop::open().await, Arc::new(Semaphore::new(0)));
    let there = here.elsewhere().await;
    let begun = Arc::new(Notify::new());
    let steps = {
        let (begun, gate) = (begun.clone(), gate.clone());
        move |mut x: Execution| async move {
            let act = async |_| {
                begun.notify_one();
                gate.acquire().await.unwrap().forget();
                Ok::<_, StatusCode>(1)
            };
            let charged: Result<u8, _> = x.call("charge", act).await;
            charged.map(|_| StatusCode::CREATED)
        }
    };
    let one = Router::new().route("/pay", here.hapax.operation("pay").post(steps));
    let waits =
        |p: &mut hapax::OperationPolicy| p.in_flight = InFlight::Wait(Duration::from_secs(30));
    let copy = there.hapax.operation("pay").policy(waits);
    let two = Router::new().route("/pay", copy.post(|_: Tx| async { StatusCode::OK }));
    let first = tokio::spawn(async move { Got::from(&one, request("/pay", KEY, "1")).await });
    begun.notified().await;
    let mut second = tokio::spawn(async move { Got::from(&two, request("/pay", KEY, "1")).await });
    let early = tokio::time::timeout(Duration::from_millis(50), &mut second).await;
    assert!(early.is_err(), "it waits");
    gate.add_permits(1);
    assert_eq!(first.await.unwrap().status, 201);
    let second = tokio::time::timeout(Duration::from_secs(5), second).await.expect("in time");
    let second = second.unwrap();
    assert_eq!(second.header("idempotent-replayed"), Some("true"), "{second:?}");
}

#[tokio::test]
async fn an_attempt_that_is_taken_after_the_answer_is_none() {
    let shop = Shop::open().await;
    let (begun, gate) = (Arc::new(Notify::new()), Arc::new(Semaphore::new(0)));
    let slow = {
        let (begun, gate) = (begun.clone(), gate.clone());
        move |_: Tx| async move {
            begun.notify_one();
            gate.acquire().await.unwrap().forget();
            StatusCode::CREATED
        }
    };
    // Extensions live as long as somebody keeps them.
    let kept: Arc<Mutex<Vec<Extensions>>> = Arc::default();
    let late = Arc::new(Mutex::new(None));
    let careless = {
        let (kept, late) = (kept.clone(), late.clone());
        move |head: Parts| async move {
            kept.lock().push(head.extensions.clone());
            *late.lock() =
                Some(tokio::spawn(async move { Tx::take(&head.extensions).await.is_ok() }));
            // It waits for its turn by now.
            tokio::task::yield_now().await;
            StatusCode::SERVICE_UNAVAILABLE.into_response()
        }
    };
    let app = Router::new()
        .route("/slow", shop.hapax.operation("slow").post(slow))
        .route("/late", post(careless).layer(shop.hapax.operation("late")));
    let first = tokio::spawn({
        let app = app.clone();
        async move { Got::from(&app, request("/slow", KEY, "1")).await }
    });
    begun.notified().await;
    assert_eq!(Got::from(&app, request("/late", KEY, "1")).await.status, 503);
    gate.add_permits(1);
    assert_eq!(first.await.unwrap().status, 201);
    let late = late.lock().take().unwrap();
    assert!(!late.await.unwrap(), "the request was answered");
    shop.still_serves().await;
    assert_eq!(kept.lock().len(), 1);
}

#[tokio::test]
async fn a_claim_that_is_given_up_half_way_does_not_lock_the_key() {
    let shop = Shop::open().await;
    for polls in 1.. {
        let is_cut = Arc::new(AtomicBool::new(true));
        let handler = {
            let is_cut = is_cut.clone();
            move |head: Parts| async move {
                let polls = if is_cut.load(Ordering::SeqCst) { polls } else { usize::MAX };
                let taken = cut_after(polls, Execution::take(&head.extensions)).await;
                if taken { StatusCode::CREATED } else { StatusCode::SERVICE_UNAVAILABLE }
            }
        };
        let conflict = |p: &mut hapax::OperationPolicy| p.in_flight = InFlight::Conflict;
        let layer = shop.hapax.operation("pay").policy(conflict);
        let app = Router::new().route("/pay", post(handler).layer(layer));
        let key = format!("cut-{polls}-b0e5a9f2d7c84e1f9a63");
        let first = Got::from(&app, request("/pay", &key, "1")).await;
        is_cut.store(false, Ordering::SeqCst);
        // It is given back as soon as it is there, long before its lease is over.
        until_made(&app, &key).await;
        if first.status == 201 {
            return;
        }
        assert_eq!(first.status, 503, "{first:?}");
    }
}

#[tokio::test]
async fn a_statement_that_does_not_end_is_cut_too() {
    let shop = Shop::open().await;
    let endless = |mut tx: Tx| async move {
        let text = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) \
                    SELECT count(*) FROM c";
        match sqlx::query(text).execute(&mut *tx).await {
            Ok(_) => StatusCode::CREATED,
            Err(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    };
    let short = |p: &mut hapax::OperationPolicy| p.lease = Duration::from_millis(300);
    let layer = shop.hapax.operation("endless").policy(short);
    let app = Router::new().route("/endless", layer.post(endless));
    let asked = Got::from(&app, request("/endless", KEY, "1"));
    let got = tokio::time::timeout(Duration::from_secs(5), asked).await.expect("it is answered");
    assert_eq!(got.status, 500, "{got:?}");
    shop.still_serves().await;
}

#[tokio::test]
async fn a_transaction_that_is_kept_and_dropped_outside_of_a_runtime_does_no_harm() {
    let shop = Shop::open().await;
    let gate = Arc::new(std::sync::Barrier::new(2));
    let handler = {
        let gate = gate.clone();
        move |tx: Tx| async move {
            std::thread::spawn(move || {
                gate.wait();
                drop(tx);
            });
            StatusCode::CREATED
        }
    };
    let app = Router::new().route("/keep", shop.hapax.operation("keep").post(handler));
    assert_eq!(Got::from(&app, request("/keep", KEY, "1")).await.status, 500);
    tokio::task::spawn_blocking(move || gate.wait()).await.unwrap();
    shop.still_serves().await;
}

/// A unique item that is there already takes the whole transaction with it.
#[tokio::test]
async fn what_is_written_after_the_transaction_was_lost_is_not_there() {
    for answer in [StatusCode::CREATED, StatusCode::CONFLICT, StatusCode::BAD_REQUEST] {
        let shop = Shop::open().await;
        insert(&mut shop.pool.acquire().await.unwrap(), "book").await.unwrap();
        let handler = move |mut tx: Tx| async move {
            let lost = sqlx::query("INSERT OR ROLLBACK INTO orders (item) VALUES ('book')");
            let _ = lost.execute(&mut *tx).await;
            // Nobody has noticed.
            let _ = insert(&mut tx, "pen").await;
            answer
        };
        let app = Router::new().route("/orders", shop.hapax.operation("orders").post(handler));
        for _ in 0..2 {
            let got = Got::from(&app, request("/orders", KEY, "1")).await;
            assert_eq!((got.status, got.problem()), (500, "handler-failed".to_owned()));
        }
        assert_eq!(shop.orders().await, 1, "{answer}: an effect without a record");
        shop.still_serves().await;
    }
}

#[tokio::test]
async fn a_handler_cannot_commit() {
    let shop = Shop::open().await;
    let handler = |mut tx: Tx| async move {
        insert(&mut tx, "pen").await.unwrap();
        let _ = sqlx::raw_sql("COMMIT").execute(&mut *tx).await;
        let _ = sqlx::raw_sql("BEGIN; INSERT INTO orders (item) VALUES ('ink'); COMMIT")
            .execute(&mut *tx)
            .await;
        StatusCode::CREATED
    };
    let app = Router::new().route("/orders", shop.hapax.operation("orders").post(handler));
    assert_eq!(Got::from(&app, request("/orders", KEY, "1")).await.status, 500);
    assert_eq!(shop.orders().await, 0);
    shop.still_serves().await;
}

#[tokio::test]
async fn a_handler_that_changes_the_schema_or_the_connection_keeps_the_promise() {
    for text in [
        "CREATE TABLE more (id INTEGER)",
        "DROP TABLE IF EXISTS nothing; CREATE INDEX items ON orders (item)",
        "PRAGMA defer_foreign_keys = ON",
        "PRAGMA read_uncommitted = ON",
        "SAVEPOINT mine",
        "PRAGMA query_only = ON",
        "VACUUM",
        "PRAGMA synchronous = OFF",
        "PRAGMA journal_mode = DELETE",
        "PRAGMA wal_checkpoint(TRUNCATE)",
    ] {
        let shop = Shop::open().await;
        let handler = move |mut tx: Tx| async move {
            insert(&mut tx, "pen").await.unwrap();
            let _ = sqlx::raw_sql(text).execute(&mut *tx).await;
            StatusCode::CREATED
        };
        let app = Router::new().route("/orders", shop.hapax.operation("orders").post(handler));
        let got = Got::from(&app, request("/orders", KEY, "1")).await;
        let made = shop.orders().await;
        assert_eq!(made, i64::from(got.status == 201), "{text}: {got:?}");
        if got.status == 201 {
            let again = Got::from(&app, request("/orders", KEY, "1")).await;
            assert_eq!(again.header("idempotent-replayed"), Some("true"), "{text}");
        }
        shop.still_serves().await;
        assert_eq!(shop.orders().await, made + 1, "{text}");
    }
}

/// One key, one order, whatever is given up when: by the client, by its holder, or by a shutdown.
#[tokio::test]
async fn a_client_that_hangs_up_at_any_moment_has_one_order() {
    let shop = Shop::open().await;
    for way in ["tx", "steps"] {
        for polls in 1.. {
            let item = format!("{way}-{polls}-");
            let app = one_order(&shop.hapax, way, &item);
            let key = format!("{way}-{polls}-b0e5a9f2d7c84e1f9a63");
            let first = cut_after(polls, Got::from(&app, request("/pay", &key, "1"))).await;
            let got = until_made(&app, &key).await;
            assert!(!first || got.header("idempotent-replayed").is_some(), "{got:?}");
            assert_eq!(shop.made(&item).await, 1, "{way}, given up after {polls} polls");
            if first {
                break;
            }
        }
    }
}

#[tokio::test]
async fn a_shutdown_at_any_moment_leaves_one_order() {
    let shop = Shop::open().await;
    for way in ["tx", "steps"] {
        for turns in (0..40).step_by(3) {
            let one = shop.elsewhere().await;
            let item = format!("{way}-{turns}-");
            let key = format!("{way}-{turns}-b0e5a9f2d7c84e1f9a63");
            let app = one_order(&one.hapax, way, &item);
            let asked = tokio::spawn({
                let (app, key) = (app.clone(), key.clone());
                async move { Got::from(&app, request("/pay", &key, "1")).await }
            });
            for _ in 0..turns {
                tokio::task::yield_now().await;
                std::thread::yield_now();
            }
            assert_eq!(one.hapax.shutdown(Duration::ZERO).await, 0);
            let told = asked.await.unwrap();
            let was_told = told.status == 201;
            if was_told {
                assert_eq!(shop.made(&item).await, 1, "{way} {turns}: {told:?}");
            }
            let got = until_made(&one_order(&shop.hapax, way, &item), &key).await;
            assert!(!was_told || got.header("idempotent-replayed").is_some(), "{got:?}");
            assert_eq!(shop.made(&item).await, 1, "{way}, shut down after {turns} turns");
        }
    }
}

#[tokio::test]
async fn a_holder_that_gives_its_end_up_at_any_moment_has_one_order() {
    let shop = Shop::open().await;
    for polls in 1.. {
        let (key, item) = (format!("order-{polls}"), format!("held-{polls}-"));
        let finish = async |x: Execution<hapax::Held>| {
            x.finish(async |tx| make(tx, &item).await.map_err(|_| Interrupted::Fenced)).await
        };
        let x = begin(&shop, &key).await;
        let ended = cut_after(polls, finish(x)).await;
        loop {
            match shop.hapax.claim("pay", &acme(), &key, "x").await {
                Ok(Begun::Execute(x)) => finish(x).await.unwrap(),
                Ok(Begun::Replay(_)) => break,
                Ok(Begun::Later(_)) => tokio::task::yield_now().await,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(shop.made(&item).await, 1, "given up after {polls} polls");
        if ended {
            return;
        }
    }
}

/// Every status with every word of the handler: a caller is not shown a success that is not there.
#[tokio::test]
async fn a_success_that_is_answered_is_there_and_what_is_there_is_replayed() {
    let shop = Shop::open().await;
    for said in ["", "applied", "not-applied", "unknown", "perhaps"] {
        for status in [200, 201, 204, 206, 299, 300, 302, 303, 304, 307, 400, 409, 418, 422, 500] {
            let item = format!("said-{said}-{status}-");
            let handler = {
                let item = item.clone();
                move |mut tx: Tx| async move {
                    make(&mut tx, &item).await.unwrap();
                    let answer = http::Response::builder().status(status);
                    let answer = match said {
                        "" => answer,
                        said => answer.header("hapax-outcome", said),
                    };
                    answer.header("set-cookie", "a=b").body(axum::body::Body::empty()).unwrap()
                }
            };
            let app = Router::new().route("/pay", shop.hapax.operation("pay").post(handler));
            let key = format!("{said}-{status}-b0e5a9f2d7c84e1f9a63");
            let first = Got::from(&app, request("/pay", &key, "1")).await;
            let made = shop.made(&item).await;
            // With `not-applied` it is the handler that takes it back.
            if (200..300).contains(&first.status) && said != "not-applied" {
                assert_eq!(made, 1, "{said} {status}: {first:?}");
            }
            let again = Got::from(&app, request("/pay", &key, "1")).await;
            let replayed = again.header("idempotent-replayed").is_some();
            assert_eq!(shop.made(&item).await, made, "{said} {status}: {again:?}");
            assert!(replayed || made == 0, "{said} {status}: {again:?}");
            assert!(!replayed || again.header("set-cookie").is_none());
        }
    }
}

#[tokio::test]
async fn triggers_of_the_application_on_the_records_commit_with_them_or_nothing_does() {
    for (trigger, status, made) in [
        (
            "CREATE TRIGGER t AFTER INSERT ON hapax_ending BEGIN \
          INSERT INTO orders (item) VALUES ('by a trigger'); END",
            201,
            2,
        ),
        (
            "CREATE TRIGGER t AFTER INSERT ON hapax_ending BEGIN \
          SELECT RAISE(ROLLBACK, 'no'); END",
            500,
            0,
        ),
        (
            "CREATE TRIGGER t BEFORE INSERT ON hapax_ending BEGIN \
          SELECT RAISE(IGNORE); END",
            503,
            0,
        ),
    ] {
        let shop = Shop::open().await;
        sqlx::raw_sql(trigger).execute(&shop.pool).await.unwrap();
        let app = one_order(&shop.hapax, "tx", "x");
        let got = Got::from(&app, request("/pay", KEY, "1")).await;
        assert_eq!((got.status, shop.orders().await), (status, made), "{trigger}: {got:?}");
        sqlx::raw_sql("DROP TRIGGER t").execute(&shop.pool).await.unwrap();
        until_made(&app, KEY).await;
        assert_eq!(shop.made("x").await, 1);
    }
}

#[tokio::test]
async fn a_database_behind_a_symbolic_link_is_the_same_database() {
    let shop = Shop::open().await;
    let app = one_order(&shop.hapax, "tx", "x");
    until_made(&app, KEY).await;
    let link = shop._directory.path().join("link.db");
    std::os::unix::fs::symlink(shop._directory.path().join("shop.db"), &link).unwrap();
    let options = SqliteConnectOptions::new().filename(&link);
    let pool = SqlitePoolOptions::new().connect_with(options).await.unwrap();
    // Its secret lies beside the file; a new one would make every effect new.
    match Hapax::sqlite(&pool).single_tenant().open().await {
        Ok(hapax) => {
            let got = Got::from(&one_order(&hapax, "tx", "x"), request("/pay", KEY, "1")).await;
            assert_eq!(got.header("idempotent-replayed"), Some("true"), "{got:?}");
        }
        Err(error) => assert!(error.to_string().contains("effect"), "{error}"),
    }
    assert_eq!(shop.made("x").await, 1);
}

async fn make(tx: &mut SqliteConnection, item: &str) -> Result<(), sqlx::Error> {
    let insert = sqlx::query("INSERT INTO orders (item) VALUES (? || random())");
    insert.bind(item).execute(tx).await.map(drop)
}

/// Makes an order: in one transaction, or in the last one of several.
fn one_order(hapax: &Hapax, way: &str, item: &str) -> Router {
    let layer = hapax.operation("pay");
    let item = item.to_owned();
    let route = match way {
        "tx" => layer.post(move |mut tx: Tx| async move {
            make(&mut tx, &item).await.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
            Ok::<_, StatusCode>(StatusCode::CREATED)
        }),
        _ => layer.post(move |mut x: Execution| async move {
            let step = async |tx: &mut SqliteConnection| {
                sqlx::query("SELECT 1").execute(tx).await.map(drop)
            };
            x.step("looked", step).await.map_err(|_| Interrupted::TooLong)?;
            x.finish(async |tx| {
                make(tx, &item).await.map_err(|_| Interrupted::TooLong)?;
                Ok::<_, Interrupted>(StatusCode::CREATED)
            })
            .await
        }),
    };
    Router::new().route("/pay", route)
}

/// Asks until the order is made.
async fn until_made(app: &Router, key: &str) -> Got {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let got = Got::from(app, request("/pay", key, "1")).await;
        if got.status == 201 {
            return got;
        }
        assert!(Instant::now() < deadline, "{got:?}");
    }
}
