//! An axum handler whose effect is one transaction, on a real SQLite file: what callers get, and
//! what is in the database afterwards.
#![cfg(all(feature = "axum", feature = "sqlite"))]
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // a test that cannot go on fails
#![allow(clippy::disallowed_methods)] // what a test collects, it made

mod kit;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{
    Json, Router,
    body::{Body, Bytes},
    extract::{Path, State},
    http::{Request, StatusCode, request::Parts},
    response::{IntoResponse, Response},
    routing::post,
};
use hapax::{
    Access, Attempt, Execution, Hapax, Interrupted, Options, Scope, Secrets, StepError, Tx, sqlx,
};
use hapax_core::{EffectSecret, InFlight};
use hapax_sql::{Fault, SqliteConfig, SqliteStore, Transactions};
use hapax_store::ListFilter;
use kit::{Got, request};
use sqlx::{
    SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteConnection, SqlitePoolOptions},
};
use tempfile::TempDir;
use tokio::sync::{Notify, Semaphore};

const KEY: &str = "8e03978e-40d5-43dd-bc93-6894a57f9324";
const OTHER: &str = "0b2f4a0e-7a51-4a39-a8d3-3c2f1b1b8d11";

/// An application's database, and an engine in it.
struct Shop {
    pool: SqlitePool,
    hapax: Hapax,
    gate: Arc<Semaphore>,
    begun: Arc<Notify>,
    calls: Arc<AtomicUsize>,
    _directory: TempDir,
}

#[derive(Clone)]
struct App {
    gate: Arc<Semaphore>,
    begun: Arc<Notify>,
    calls: Arc<AtomicUsize>,
}

impl Shop {
    async fn open() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("shop.db");
        let options = SqliteConnectOptions::new().filename(&file).create_if_missing(true);
        let pool = SqlitePoolOptions::new().connect_with(options).await.unwrap();
        sqlx::query("CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT NOT NULL)")
            .execute(&pool)
            .await
            .unwrap();
        let hapax = Hapax::sqlite(&pool).single_tenant().open().await.unwrap();
        Self {
            pool,
            hapax,
            gate: Arc::new(Semaphore::new(0)),
            begun: Arc::default(),
            calls: Arc::default(),
            _directory: directory,
        }
    }

    fn app(&self) -> App {
        App { gate: self.gate.clone(), begun: self.begun.clone(), calls: self.calls.clone() }
    }

    fn router(&self) -> Router {
        let layer = self.hapax.operation("orders.create");
        Router::new().route("/orders/{what}", layer.post(create)).with_state(self.app())
    }

    async fn orders(&self) -> i64 {
        sqlx::query_scalar("SELECT count(*) FROM orders").fetch_one(&self.pool).await.unwrap()
    }

    async fn records(&self) -> usize {
        let filter = ListFilter { limit: 1000, ..Default::default() };
        self.hapax.store().list(filter).await.unwrap().len()
    }
}

async fn insert(tx: &mut SqliteConnection, item: &str) -> Result<i64, sqlx::Error> {
    let insert = sqlx::query("INSERT INTO orders (item) VALUES (?)").bind(item);
    Ok(insert.execute(&mut *tx).await?.last_insert_rowid())
}

#[derive(Debug)]
enum AppError {
    Database,
    Status(StatusCode),
    Interrupted(Interrupted),
}

impl From<sqlx::Error> for AppError {
    fn from(_: sqlx::Error) -> Self {
        Self::Database
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
            Self::Database => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
            Self::Status(status) => status.into_response(),
            Self::Interrupted(why) => why.into_response(),
        }
    }
}

/// Inserts an order, then does what the path says.
async fn create(
    State(app): State<App>,
    Path(what): Path<String>,
    mut tx: Tx,
    attempt: Attempt,
    Json(item): Json<String>,
) -> Result<Response, AppError> {
    app.calls.fetch_add(1, Ordering::SeqCst);
    assert_eq!(attempt.effect_id(), tx.attempt().effect_id());
    let order = insert(&mut tx, &item).await?;
    app.begun.notify_one();
    match what.as_str() {
        "make" => Ok((StatusCode::CREATED, Json(order)).into_response()),
        "fail" => Err(AppError::Status(StatusCode::INTERNAL_SERVER_ERROR)),
        "refuse" => Err(AppError::Status(StatusCode::CONFLICT)),
        "invalid" => Err(AppError::Status(StatusCode::UNPROCESSABLE_ENTITY)),
        "panic" => panic!("on purpose"),
        "hang" => std::future::pending().await,
        "slow" => {
            app.gate.acquire().await.unwrap().forget();
            Ok((StatusCode::CREATED, Json(order)).into_response())
        }
        "keep" => {
            tokio::spawn(async move {
                app.gate.acquire().await.unwrap().forget();
                insert(&mut tx, "kept").await
            });
            Ok(StatusCode::CREATED.into_response())
        }
        "commit" => {
            sqlx::query("COMMIT").execute(&mut *tx).await?;
            Ok(StatusCode::CREATED.into_response())
        }
        "rollback" => {
            sqlx::query("ROLLBACK").execute(&mut *tx).await?;
            Ok(StatusCode::CREATED.into_response())
        }
        "nested" => {
            let mut inner = sqlx::Connection::begin(&mut *tx).await?;
            insert(&mut inner, "inner").await?;
            inner.rollback().await?;
            Ok((StatusCode::CREATED, Json(order)).into_response())
        }
        other => panic!("{other}"),
    }
}

fn order(what: &str, key: &str) -> Request<Body> {
    request(&format!("/orders/{what}"), key, "\"book\"")
}

#[tokio::test]
async fn k5_order_record_and_answer_commit_together_and_retries_are_replayed() {
    let shop = Shop::open().await;
    let app = shop.router();
    let first = Got::from(&app, order("make", KEY)).await;
    assert_eq!((first.status, &first.body[..]), (201, &b"1"[..]), "{first:?}");
    assert!(first.header("idempotency-expires").is_some());
    for _ in 0..3 {
        let again = Got::from(&app, order("make", KEY)).await;
        assert_eq!((again.status, &again.body), (201, &first.body));
        assert_eq!(again.header("idempotent-replayed"), Some("true"));
    }
    assert_eq!((shop.orders().await, shop.records().await), (1, 1));
    assert_eq!(shop.calls.load(Ordering::SeqCst), 1);
    // A changed intent is refused, another key is another order.
    let changed = request("/orders/make", KEY, "\"pen\"");
    assert_eq!(Got::from(&app, changed).await.problem(), "key-reused");
    assert_eq!(&Got::from(&app, order("make", OTHER)).await.body[..], b"2");
}

#[tokio::test]
async fn an_error_leaves_neither_row_nor_record_and_frees_the_key() {
    // A 422 says by itself that nothing happened.
    for (what, status, said) in [("fail", 500, Some("not-applied")), ("invalid", 422, None)] {
        let shop = Shop::open().await;
        let app = shop.router();
        let failed = Got::from(&app, order(what, KEY)).await;
        assert_eq!((failed.status, failed.header("hapax-outcome")), (status, said));
        assert_eq!((shop.orders().await, shop.records().await), (0, 0), "{what}");
        assert_eq!(Got::from(&app, order("make", KEY)).await.status, 201, "{what}");
    }
}

#[tokio::test]
async fn a_body_that_is_none_leaves_nothing_behind() {
    let shop = Shop::open().await;
    let app = shop.router();
    let wrong = request("/orders/make", KEY, "{\"a\":1}");
    assert_eq!(Got::from(&app, wrong).await.status, 422);
    assert_eq!((shop.orders().await, shop.records().await), (0, 0));
    assert_eq!(Got::from(&app, order("make", KEY)).await.status, 201);
}

#[tokio::test]
async fn a_definite_refusal_is_kept_without_what_was_written_on_the_way() {
    let shop = Shop::open().await;
    let app = shop.router();
    assert_eq!(Got::from(&app, order("refuse", KEY)).await.status, 409);
    let again = Got::from(&app, order("refuse", KEY)).await;
    assert_eq!((again.status, again.header("idempotent-replayed")), (409, Some("true")));
    assert_eq!((shop.orders().await, shop.records().await), (0, 1));
    assert_eq!(shop.calls.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_panic_rolls_back_and_is_a_failure_that_applied_nothing() {
    let shop = Shop::open().await;
    let app = shop.router();
    let failed = Got::from(&app, order("panic", KEY)).await;
    assert_eq!((failed.status, failed.problem()), (500, "handler-failed".to_owned()));
    assert_eq!(failed.header("hapax-outcome"), Some("not-applied"));
    assert_eq!((shop.orders().await, shop.records().await), (0, 0));
    assert_eq!(Got::from(&app, order("make", KEY)).await.status, 201);
}

#[tokio::test]
async fn a_handler_that_hangs_is_cut_at_a_third_of_the_lease() {
    let shop = Shop::open().await;
    let short = |p: &mut hapax::OperationPolicy| p.lease = Duration::from_millis(300);
    let layer = shop.hapax.operation("orders.create").policy(short);
    let app = Router::new().route("/orders/{what}", layer.post(create)).with_state(shop.app());
    let failed = Got::from(&app, order("hang", KEY)).await;
    assert_eq!((failed.status, failed.problem()), (500, "handler-failed".to_owned()));
    assert_eq!((shop.orders().await, shop.records().await), (0, 0));
    assert_eq!(Got::from(&app, order("make", KEY)).await.status, 201);
}

#[tokio::test]
async fn a_transaction_that_is_kept_is_not_committed() {
    let shop = Shop::open().await;
    let app = shop.router();
    let kept = Got::from(&app, order("keep", KEY)).await;
    assert_eq!((kept.status, kept.problem()), (500, "handler-failed".to_owned()));
    assert_eq!(kept.header("hapax-outcome"), None, "nobody knows what else is done with it");
    shop.gate.add_permits(1);
    // The next one begins when the stray one is gone.
    assert_eq!(Got::from(&app, order("make", KEY)).await.status, 201);
    assert_eq!((shop.orders().await, shop.records().await), (1, 1));
}

#[tokio::test]
async fn a_handler_that_ends_the_transaction_itself_fails() {
    for what in ["commit", "rollback"] {
        let shop = Shop::open().await;
        let app = shop.router();
        let failed = Got::from(&app, order(what, KEY)).await;
        assert_eq!((failed.status, failed.problem()), (500, "handler-failed".to_owned()), "{what}");
        assert_eq!(failed.header("hapax-outcome"), None, "{what}");
    }
}

#[tokio::test]
async fn savepoints_of_the_handler_are_its_own() {
    let shop = Shop::open().await;
    let app = shop.router();
    assert_eq!(Got::from(&app, order("nested", KEY)).await.status, 201);
    assert_eq!(shop.orders().await, 1);
}

#[tokio::test]
async fn p08_a_client_that_hangs_up_does_not_end_the_transaction() {
    let shop = Shop::open().await;
    let app = shop.router();
    let first = tokio::spawn({
        let app = app.clone();
        async move { Got::from(&app, order("slow", KEY)).await }
    });
    shop.begun.notified().await;
    first.abort();
    assert!(first.await.is_err());
    shop.gate.add_permits(1);
    let again = Got::from(&app, order("slow", KEY)).await;
    assert_eq!((again.status, again.header("idempotent-replayed")), (201, Some("true")));
    assert_eq!(shop.orders().await, 1);
}

#[tokio::test]
async fn duplicates_of_an_open_transaction_are_answered_at_once_or_wait_for_it() {
    let shop = Shop::open().await;
    let app = shop.router();
    let conflict = |p: &mut hapax::OperationPolicy| p.in_flight = InFlight::Conflict;
    let layer = shop.hapax.operation("orders.create").policy(conflict);
    let impatient = Router::new().route("/orders/{what}", layer.post(create));
    let impatient = impatient.with_state(shop.app());
    let spawn = |app: &Router| {
        let app = app.clone();
        tokio::spawn(async move { Got::from(&app, order("slow", KEY)).await })
    };
    let first = spawn(&app);
    shop.begun.notified().await;
    assert_eq!(Got::from(&impatient, order("slow", KEY)).await.problem(), "in-flight");
    let changed = request("/orders/slow", KEY, "\"pen\"");
    assert_eq!(Got::from(&impatient, changed).await.problem(), "in-flight", "nothing is settled");
    let copies: Vec<_> = (0..8).map(|_| spawn(&app)).collect();
    shop.gate.add_permits(1);
    let first = first.await.unwrap();
    for copy in copies {
        let copy = copy.await.unwrap();
        assert_eq!((copy.status, &copy.body), (201, &first.body));
    }
    assert_eq!(shop.orders().await, 1);
}

#[tokio::test]
async fn copies_of_a_failure_get_its_answer_and_do_not_execute_in_turn() {
    let shop = Shop::open().await;
    let app = shop.router();
    let copies: Vec<_> = (0..8)
        .map(|_| {
            let app = app.clone();
            tokio::spawn(async move { Got::from(&app, order("fail", KEY)).await })
        })
        .collect();
    for copy in copies {
        assert_eq!(copy.await.unwrap().status, 500);
    }
    assert!(shop.calls.load(Ordering::SeqCst) <= 8);
    assert_eq!((shop.orders().await, shop.records().await), (0, 0));
}

#[tokio::test]
async fn p01_copies_at_once_make_one_order() {
    let shop = Shop::open().await;
    let app = shop.router();
    let copies: Vec<_> = (0..64)
        .map(|_| {
            let app = app.clone();
            tokio::spawn(async move { Got::from(&app, order("make", KEY)).await })
        })
        .collect();
    for copy in copies {
        let copy = copy.await.unwrap();
        assert_eq!((copy.status, &copy.body[..]), (201, &b"1"[..]), "{copy:?}");
    }
    assert_eq!((shop.orders().await, shop.records().await), (1, 1));
}

#[tokio::test]
async fn orders_of_many_keys_are_all_made() {
    let shop = Shop::open().await;
    let app = shop.router();
    let all: Vec<_> = (0..100)
        .map(|n| {
            let app = app.clone();
            let key = uuid(n);
            tokio::spawn(async move { Got::from(&app, order("make", &key)).await.status })
        })
        .collect();
    for status in all {
        assert_eq!(status.await.unwrap(), 201);
    }
    assert_eq!((shop.orders().await, shop.records().await), (100, 100));
}

fn uuid(n: u32) -> String {
    let hash = u64::from(n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    format!("{:08x}-8a51-4a39-a8d3-{:012x}", hash >> 32, hash & 0xffff_ffff_ffff)
}

#[tokio::test]
async fn a_drain_waits_for_the_transaction_and_abandons_it_after_its_bound() {
    let shop = Shop::open().await;
    let app = shop.router();
    let first = tokio::spawn({
        let app = app.clone();
        async move { Got::from(&app, order("slow", KEY)).await }
    });
    shop.begun.notified().await;
    assert_eq!(shop.hapax.shutdown(Duration::from_millis(20)).await, 0);
    let cut = first.await.unwrap();
    assert_eq!((cut.status, cut.problem()), (500, "handler-failed".to_owned()));
    assert_eq!(cut.header("hapax-outcome"), Some("not-applied"));
    assert_eq!((shop.orders().await, shop.records().await), (0, 0));
}

#[tokio::test]
async fn t11_the_outcome_is_withheld_from_a_caller_that_may_not_see_it_any_more() {
    let shop = Shop::open().await;
    let allowed = Arc::new(parking_lot::Mutex::new(Access::Granted));
    let may_see = {
        let allowed = allowed.clone();
        move |_| {
            let access = *allowed.lock();
            async move { access }
        }
    };
    let layer = shop.hapax.operation("orders.create").authorize_replay(may_see);
    let app = Router::new().route("/orders/{what}", post(create).layer(layer));
    let app = app.with_state(shop.app());
    let first = Got::from(&app, order("make", KEY)).await;
    *allowed.lock() = Access::Denied;
    let denied = Got::from(&app, order("make", KEY)).await;
    assert_eq!((denied.status, denied.problem()), (403, "replay-forbidden".to_owned()));
    *allowed.lock() = Access::Unknown;
    let unknown = Got::from(&app, order("make", KEY)).await;
    assert_eq!((unknown.status, unknown.problem()), (503, "authorization-unavailable".to_owned()));
    *allowed.lock() = Access::Granted;
    assert_eq!(Got::from(&app, order("make", KEY)).await.body, first.body);
    assert_eq!(shop.orders().await, 1);
}

#[tokio::test]
async fn t03_two_tenants_never_share_a_key_and_a_request_without_one_is_refused() {
    let shop = Shop::open().await;
    let of_header = |head: &Parts| {
        let tenant = head.headers.get("x-tenant")?;
        Scope::principal(tenant.as_bytes()).ok()
    };
    let layer = shop.hapax.operation("orders.create").scope(of_header);
    let app = Router::new().route("/orders/{what}", layer.post(create)).with_state(shop.app());
    let of = |tenant: Option<&str>| {
        let mut request = order("make", KEY);
        if let Some(tenant) = tenant {
            request.headers_mut().insert("x-tenant", tenant.parse().unwrap());
        }
        Got::from(&app, request)
    };
    assert_eq!(of(None).await.problem(), "scope-missing");
    assert_eq!(&of(Some("a")).await.body[..], b"1");
    assert_eq!(&of(Some("b")).await.body[..], b"2");
    assert_eq!(&of(Some("a")).await.body[..], b"1");
}

#[tokio::test]
async fn a_handler_that_takes_its_attempt_twice_or_not_as_protected_is_not_called() {
    let shop = Shop::open().await;
    let calls = Arc::new(AtomicUsize::new(0));
    let called = |calls: &Arc<AtomicUsize>| {
        let calls = calls.clone();
        move || calls.fetch_add(1, Ordering::SeqCst).to_string()
    };
    let (note, again) = (called(&calls), called(&calls));
    let both = move |_tx: Tx, _x: Execution| async move { note() };
    let tx = move |_tx: Tx| async move { again() };
    let h = &shop.hapax;
    let app: Router = Router::new()
        .route("/both", post(both).layer(h.operation("both")))
        .route("/whole", post(tx.clone()).layer(h.operation("whole").bracketed()))
        .route("/nothing", post(tx));
    for path in ["/both", "/whole", "/nothing"] {
        let told = Got::from(&app, request(path, KEY, "1")).await;
        assert_eq!((told.status, told.problem()), (500, "handler-failed".to_owned()), "{path}");
    }
    assert_eq!(calls.load(Ordering::SeqCst), 0);
    // Nothing was done, and the key is free when the mistake is put right.
    let mended = post(|| async { "done" }).layer(h.operation("whole").bracketed());
    let app: Router = Router::new().route("/whole", mended);
    assert_eq!(Got::from(&app, request("/whole", KEY, "2")).await.status, 200);
}

#[tokio::test]
async fn a_handler_that_never_takes_its_attempt_acts_once_and_is_refused_from_then_on() {
    let shop = Shop::open().await;
    let acts = Arc::new(AtomicUsize::new(0));
    let neither = {
        let acts = acts.clone();
        move || {
            acts.fetch_add(1, Ordering::SeqCst);
            async { "done, and nobody wrote it down" }
        }
    };
    let refuses = || async { StatusCode::FORBIDDEN };
    let app: Router = Router::new()
        .route("/neither", post(neither).layer(shop.hapax.operation("neither")))
        .route("/refused", post(refuses).layer(shop.hapax.operation("refused")));
    for _ in 0..3 {
        let told = Got::from(&app, request("/neither", KEY, "1")).await;
        assert_eq!((told.status, told.problem()), (500, "handler-failed".to_owned()));
        // That of something in front of the handler is passed on.
        assert_eq!(Got::from(&app, request("/refused", KEY, "1")).await.status, 403);
    }
    assert_eq!(acts.load(Ordering::SeqCst), 1);
    assert_eq!(shop.records().await, 0);
}

#[tokio::test]
async fn a_request_without_a_key_is_refused_before_any_work() {
    let shop = Shop::open().await;
    let app = shop.router();
    let mut request = order("make", KEY);
    request.headers_mut().remove("idempotency-key");
    assert_eq!(Got::from(&app, request).await.problem(), "key-missing");
    assert_eq!(shop.calls.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn the_target_counts_as_the_client_sent_it_also_in_a_nested_router() {
    let shop = Shop::open().await;
    let inner = shop.router();
    let app = Router::new().nest("/eu", inner.clone()).nest("/us", inner);
    let eu = request("/eu/orders/make", KEY, "\"book\"");
    assert_eq!(Got::from(&app, eu).await.status, 201);
    let us = request("/us/orders/make", KEY, "\"book\"");
    assert_eq!(Got::from(&app, us).await.problem(), "key-reused");
}

#[tokio::test]
async fn a_large_answer_and_a_stream_are_committed_by_their_head_and_not_kept() {
    let shop = Shop::open().await;
    let large = |mut tx: Tx| async move {
        insert(&mut tx, "large").await.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
        Ok::<_, StatusCode>(Bytes::from(vec![b'x'; 2 << 20]))
    };
    let app = Router::new().route("/large", shop.hapax.operation("large").post(large));
    let first = Got::from(&app, request("/large", KEY, "1")).await;
    assert_eq!((first.status, first.body.len()), (200, 2 << 20));
    assert_eq!(Got::from(&app, request("/large", KEY, "1")).await.problem(), "outcome-not-kept");
    assert_eq!(shop.orders().await, 1);
}

#[tokio::test]
async fn steps_in_the_database_commit_with_their_recovery_points_and_the_last_with_the_answer() {
    let shop = Shop::open().await;
    let failing = Arc::new(AtomicUsize::new(0));
    let pay = {
        let failing = failing.clone();
        move |mut x: Execution, Json(item): Json<String>| {
            let failing = failing.clone();
            async move {
                let fails = |n| failing.load(Ordering::SeqCst) == n;
                let order: i64 = x.step("ordered", async |tx| insert(tx, &item).await).await?;
                if fails(1) {
                    return Err(AppError::Status(StatusCode::BAD_GATEWAY));
                }
                let failed: Result<i64, _> = match fails(2) {
                    true => {
                        x.step("noted", async |tx| {
                            insert(tx, "rolled back").await?;
                            Err(AppError::Status(StatusCode::BAD_GATEWAY))
                        })
                        .await
                    }
                    false => x.step("noted", async |tx| Ok(insert(tx, "note").await?)).await,
                };
                failed?;
                x.finish(async |tx| {
                    insert(tx, "paid").await?;
                    if fails(3) {
                        return Err(AppError::Status(StatusCode::BAD_GATEWAY));
                    }
                    Ok((StatusCode::CREATED, Json(order)))
                })
                .await
            }
        }
    };
    let app = Router::new().route("/pay", shop.hapax.operation("pay").post(pay));
    let ask = || Got::from(&app, request("/pay", KEY, "\"book\""));
    for (fault, rows) in [(1, 1), (2, 1), (3, 2)] {
        failing.store(fault, Ordering::SeqCst);
        let failed = ask().await;
        assert_eq!((failed.status, failed.header("hapax-outcome")), (502, Some("unknown")));
        assert_eq!(shop.orders().await, rows, "fault {fault}");
    }
    failing.store(0, Ordering::SeqCst);
    let done = ask().await;
    assert_eq!((done.status, &done.body[..]), (201, &b"1"[..]), "{done:?}");
    let again = ask().await;
    assert_eq!((&again.body, again.header("idempotent-replayed")), (&done.body, Some("true")));
    assert_eq!(shop.orders().await, 3);
}

/// A shop whose store and transactions are at hand, to put faults in their way.
async fn faulty() -> (Shop, Transactions) {
    let shop = Shop::open().await;
    let path = shop.pool.connect_options().get_filename().to_owned();
    let config = SqliteConfig { shared: true, ..SqliteConfig::new(path) };
    let store = Arc::new(SqliteStore::open(config).unwrap());
    let transactions = Transactions::connect(&shop.pool, store.clone()).await.unwrap();
    let secrets = Secrets::single(EffectSecret::from_bytes([7; 32]));
    let options = Options { single_tenant: true, ..Options::default() };
    let hapax = Hapax::new(store, secrets, options).with_transactions(transactions.clone());
    (Shop { hapax, ..shop }, transactions)
}

#[tokio::test]
async fn p25_a_lost_commit_is_resolved_not_guessed() {
    let (shop, transactions) = faulty().await;
    let app = shop.router();
    transactions.put_in_the_way(Fault::LostAnswer { committed: true });
    let made = Got::from(&app, order("make", KEY)).await;
    assert_eq!((made.status, &made.body[..]), (201, &b"1"[..]), "{made:?}");
    assert_eq!((shop.orders().await, shop.records().await), (1, 1));
    transactions.put_in_the_way(Fault::LostAnswer { committed: false });
    let lost = Got::from(&app, order("make", OTHER)).await;
    assert_eq!((lost.status, lost.problem()), (503, "store-unavailable".to_owned()));
    assert_eq!(lost.header("hapax-outcome"), Some("not-applied"));
    assert_eq!((shop.orders().await, shop.records().await), (1, 1));
    assert_eq!(Got::from(&app, order("make", OTHER)).await.status, 201);
    assert_eq!((shop.orders().await, shop.records().await), (2, 2));
}

#[tokio::test]
async fn a_constraint_that_breaks_at_the_commit_is_no_success() {
    let shop = Shop::open().await;
    sqlx::raw_sql(
        "CREATE TABLE lines (of_order INTEGER REFERENCES orders DEFERRABLE INITIALLY DEFERRED)",
    )
    .execute(&shop.pool)
    .await
    .unwrap();
    let orphan = |mut tx: Tx| async move {
        let insert = sqlx::query("INSERT INTO lines VALUES (7)").execute(&mut *tx).await;
        insert.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
        Ok::<_, StatusCode>(StatusCode::CREATED)
    };
    let app = Router::new().route("/orphan", shop.hapax.operation("orphan").post(orphan));
    let failed = Got::from(&app, request("/orphan", KEY, "1")).await;
    assert_eq!((failed.status, failed.problem()), (500, "handler-failed".to_owned()));
    assert_eq!(failed.header("hapax-outcome"), Some("not-applied"));
    assert_eq!(shop.records().await, 0);
}

#[tokio::test]
async fn the_commit_of_a_step_or_of_the_last_transaction_that_is_lost_is_resolved() {
    for committed in [true, false] {
        for lost_at in ["step", "finish"] {
            let (shop, transactions) = faulty().await;
            let handler = move |mut x: Execution| {
                let transactions = transactions.clone();
                async move {
                    let fault = Fault::LostAnswer { committed };
                    let first = x.attempt().number().number() == 1;
                    if first && lost_at == "step" {
                        transactions.put_in_the_way(fault);
                    }
                    let order: i64 = x.step("ordered", async |tx| insert(tx, "book").await).await?;
                    if first && lost_at == "finish" {
                        transactions.put_in_the_way(fault);
                    }
                    x.finish(async |tx| {
                        insert(tx, "paid").await?;
                        Ok::<_, AppError>(Json(order))
                    })
                    .await
                }
            };
            let app = Router::new().route("/pay", shop.hapax.operation("pay").post(handler));
            let ask = || Got::from(&app, request("/pay", KEY, "1"));
            let first = ask().await;
            if committed {
                assert_eq!(first.status, 200, "{lost_at}: {first:?}");
            } else {
                assert_eq!(first.status, 503, "{lost_at}: {first:?}");
                assert_eq!(ask().await.status, 200, "{lost_at}");
            }
            assert_eq!(ask().await.header("idempotent-replayed"), Some("true"));
            assert_eq!(shop.orders().await, 2, "{lost_at} {committed}");
        }
    }
}

#[tokio::test]
async fn a_last_transaction_that_fails_without_steps_frees_the_key() {
    let shop = Shop::open().await;
    let pay = |x: Execution, Json(amount): Json<u64>| async move {
        x.finish(async |tx| {
            insert(tx, "paid").await?;
            match amount {
                0 => Err(AppError::Status(StatusCode::UNPROCESSABLE_ENTITY)),
                1 => Ok(StatusCode::PAYMENT_REQUIRED),
                _ => Ok(StatusCode::CREATED),
            }
        })
        .await
    };
    let app = Router::new().route("/pay", shop.hapax.operation("pay").post(pay));
    let ask = |key, amount| Got::from(&app, request("/pay", key, amount));
    assert_eq!(ask(KEY, "0").await.status, 422);
    assert_eq!(shop.orders().await, 0);
    // The corrected request runs under the same key; a refusal with rows is kept with them.
    assert_eq!(ask(KEY, "2").await.status, 201);
    assert_eq!(ask(OTHER, "1").await.status, 402);
    assert_eq!(ask(OTHER, "1").await.header("idempotent-replayed"), Some("true"));
    assert_eq!((shop.orders().await, shop.records().await), (2, 2));
}
