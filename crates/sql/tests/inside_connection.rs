//! The connection of an application's transactions: whose file, whose lock, whose end.
#![cfg(feature = "sqlx")]
#![allow(clippy::disallowed_methods, clippy::expect_used, clippy::panic, reason = "tests")]

mod kit;

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use hapax_sql::{OpenError, SqliteStore, Transactions};
use hapax_store::{Claims, Owned, Standing, StandingState, StoreError};
use kit::{inside::*, *};
use sqlx::{
    SqlitePool,
    sqlite::{SqliteConnectOptions, SqlitePoolOptions, SqliteSynchronous},
};
use tokio::task::JoinSet;

async fn refused(pool: &SqlitePool, store: &Arc<SqliteStore>) -> String {
    let connected = Transactions::connect(pool, store.clone()).await;
    connected.expect_err("it is refused").to_string()
}

#[tokio::test]
async fn a_pool_without_the_stores_file_is_refused_with_a_remedy() {
    let app = Application::new().await;
    let file = app.place.file();
    let remedy = format!("give the pool {} by its path, ", file.display());
    for url in ["sqlite::memory:", "sqlite://"] {
        let pool = SqlitePoolOptions::new().connect_lazy(url).expect("a pool");
        let message = refused(&pool, &app.store).await;
        assert!(message.contains(&remedy), "{message}");
    }
    let in_memory = SqliteConnectOptions::new().filename(&file).in_memory(true);
    let message = refused(&SqlitePool::connect_lazy_with(in_memory), &app.store).await;
    assert!(message.contains(&remedy), "{message}");

    let other = Place::new();
    other.shell().execute_batch("CREATE TABLE other (n)").expect("another database");
    let message = refused(&pool(&other).await, &app.store).await;
    assert!(message.ends_with("open the store on the pool's, with SqliteConfig::shared"));
    let mode = "SELECT count(*) FROM pragma_journal_mode WHERE journal_mode = 'delete'";
    assert_eq!(number(&other.shell(), mode), 1, "the other database is not touched");

    let read_only = Arc::new(SqliteStore::open_read_only(&file).expect("it opens"));
    let read_only = Transactions::connect(&app.pool, read_only).await.expect_err("refused");
    assert_eq!(read_only, OpenError::ReadOnly(file));
}

#[tokio::test]
async fn commits_are_durable_whatever_the_pool_says() {
    let app = Application::new().await;
    let options = SqliteConnectOptions::new()
        .filename(app.place.file())
        .synchronous(SqliteSynchronous::Off)
        .read_only(true);
    let pool = SqlitePool::connect_lazy_with(options.clone());
    let transactions = Transactions::connect(&pool, app.store.clone()).await.expect("it connects");
    let mut open = transactions.begin().await.expect("it begins");
    let level = sqlx::query_scalar::<_, i64>("PRAGMA synchronous").fetch_one(&mut *open).await;
    assert_eq!(level.expect("a level"), 2);
    open.roll_back().await.expect("a rollback");

    let hook =
        SqlitePoolOptions::new().after_connect(|conn, _| Box::pin(async { run_hook(conn).await }));
    let message = refused(&hook.connect_lazy_with(options), &app.store).await;
    assert!(message.contains("synchronous is 0, not FULL"), "{message}");
}

async fn run_hook(conn: &mut sqlx::SqliteConnection) -> sqlx::Result<()> {
    sqlx::raw_sql("PRAGMA synchronous = OFF").execute(conn).await.map(drop)
}

#[tokio::test]
async fn a_lock_of_another_process_is_told_after_a_second() {
    let app = Application::new().await;
    let shell = app.place.shell();
    shell.execute_batch("BEGIN IMMEDIATE").expect("the lock is free");
    let started = Instant::now();
    let refused = app.transactions.begin().await.map(drop);
    let waited = started.elapsed().as_millis();
    assert!(matches!(refused, Err(StoreError::Locked(_))), "{refused:?}");
    assert!((900..2500).contains(&waited), "{waited} ms");
    shell.execute_batch("ROLLBACK").expect("it is given back");
    assert_eq!(app.records(), 0);
    app.claimed(&a_claim()).await.0.commit().await.expect("a commit");
}

#[tokio::test]
async fn one_that_never_ends_is_not_waited_for_for_ever() {
    let app = Application::new().await;
    let open = app.begin().await;
    let refused = app.transactions.begin().await.map(drop);
    assert!(matches!(refused, Err(StoreError::Locked(_))), "{refused:?}");
    let refused = app.store.claim(a_claim()).await;
    assert!(matches!(refused, Err(StoreError::Locked(_))), "{refused:?}");
    open.roll_back().await.expect("a rollback");
    executing(&app.store).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_store_and_transactions_take_turns_under_load() {
    const EACH: usize = 300;
    let app = Arc::new(Application::new().await);
    let mut running = JoinSet::new();
    for worker in 0..20 {
        let app = app.clone();
        running.spawn(async move {
            for _ in 0..EACH / 10 {
                if worker % 2 == 0 {
                    let record = executing(&app.store).await;
                    done(app.store.settle(record.ownership(), outcome("stored")).await);
                } else {
                    let (mut open, record) = app.claimed(&a_claim()).await;
                    pay(&mut open, 1).await;
                    done(open.settle(&record.ownership(), &outcome("paid")).await);
                    open.commit().await.expect("a commit");
                }
            }
        });
    }
    running.join_all().await;
    let shell = app.place.shell();
    assert_eq!(number(&shell, "SELECT count(*) FROM hapax_record"), 2 * EACH as i64);
    assert_eq!(number(&shell, "SELECT count(*) FROM hapax_ending"), 2 * EACH as i64);
    assert_eq!(app.payments(), EACH as i64);
    assert_eq!(app.store.standing(), StandingState::Ready);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_store_lets_a_transaction_in() {
    let app = Arc::new(Application::new().await);
    let over = Arc::new(AtomicBool::new(false));
    let mut busy = JoinSet::new();
    for _ in 0..64 {
        let (app, over) = (app.clone(), over.clone());
        busy.spawn(async move {
            while !over.load(Ordering::Relaxed) {
                executing(&app.store).await;
            }
        });
    }
    // Counts the store's commits.
    let mark = "SELECT max(seq) FROM hapax_mark";
    let mut most = 0;
    for _ in 0..200 {
        let before = sqlx::query_scalar::<_, i64>(mark).fetch_one(&app.pool).await;
        let mut open = app.begin().await;
        let then = sqlx::query_scalar::<_, i64>(mark).fetch_one(&mut *open).await;
        most = most.max(then.expect("a number") - before.expect("a number"));
        pay(&mut open, 1).await;
        open.commit().await.expect("a commit");
    }
    over.store(true, Ordering::Relaxed);
    busy.join_all().await;
    assert!(most < 25, "the store went first {most} times");
}

#[tokio::test]
async fn an_end_by_the_application_is_noticed() {
    for sql in [
        "COMMIT",
        "ROLLBACK",
        "COMMIT; BEGIN IMMEDIATE",
        "ROLLBACK; BEGIN IMMEDIATE",
        "ROLLBACK; BEGIN; SAVEPOINT mine",
        "ROLLBACK; INSERT INTO payment (cents) VALUES (1)",
    ] {
        let app = Application::new().await;
        for way in ["settle", "commit", "roll_back", "undo"] {
            let before = app.payments();
            let (mut open, record) = app.claimed(&a_claim()).await;
            pay(&mut open, 700).await;
            // A commit is turned into a rollback, and fails.
            let _ = sqlx::raw_sql(sql).execute(&mut *open).await;
            match way {
                "settle" => {
                    written_in_part(open.settle(&record.ownership(), &outcome("paid")).await);
                    let refused = open.commit().await;
                    assert!(refused.is_err(), "{sql}, {way}");
                }
                "commit" => written_in_part(open.commit().await),
                "roll_back" => written_in_part(open.roll_back().await),
                _ => {
                    written_in_part(open.undo().await);
                    drop(open);
                }
            }
            // The next transaction has a connection that is in none.
            let next = app.begin().await;
            next.roll_back().await.expect("a rollback");
            assert_eq!(app.payments(), before, "{sql}, {way}");
            let endings = number(&app.place.shell(), "SELECT count(*) FROM hapax_ending");
            assert_eq!(endings, 0, "{sql}, {way}: nothing is written outside the transaction");
        }
    }
}

#[tokio::test]
async fn a_claim_behind_statements_of_the_application_is_refused() {
    let app = Application::new().await;
    let mut open = app.begin().await;
    pay(&mut open, 700).await;
    let refused = open.claim(&a_claim()).await;
    assert!(matches!(&refused, Err(StoreError::Unavailable { .. })), "{refused:?}");
}

#[tokio::test]
async fn a_replaced_file_is_refused_before_and_after() {
    let app = Application::new().await;
    let backup = app.place.back_up();
    let (mut open, record) = app.claimed(&a_claim()).await;
    pay(&mut open, 700).await;
    done(open.settle(&record.ownership(), &outcome("paid")).await);
    fs::rename(&backup, app.place.file()).expect("it is renamed");
    let reason = regressed(open.commit().await);
    assert!(reason.ends_with("hapax.db was replaced by another file"), "{reason}");
    regressed(app.transactions.begin().await.map(drop));
    regressed(app.store.claim(a_claim()).await);
    assert!(matches!(app.store.standing(), StandingState::Regressed { .. }));

    app.transactions.close().await;
    let Application { place, store, transactions, pool, .. } = app;
    drop((store, transactions));
    std::mem::forget(pool);
    let shell = place.shell();
    assert_eq!(number(&shell, "SELECT count(*) FROM payment"), 0, "nothing of the old file");
    let intact = shell.query_row("PRAGMA integrity_check", (), |row| row.get::<_, String>(0));
    assert_eq!(intact.expect("a check"), "ok");
}

#[tokio::test]
async fn closed_it_begins_no_more() {
    let app = Application::new().await;
    app.transactions.close().await;
    let refused = app.transactions.begin().await.map(drop);
    assert!(matches!(refused, Err(StoreError::Unavailable { .. })), "{refused:?}");
    executing(&app.store).await;
}
