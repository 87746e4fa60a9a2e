//! An application with tables of its own in the store's file.

use std::sync::Arc;

use hapax_core::{Found, NewClaim, Record, RecordId};
use hapax_sql::{OpenTransaction, SqliteConfig, SqliteStore, Transactions};
use hapax_store::{Lookup, StoreError};
use sqlx::{SqliteConnection, SqlitePool, sqlite::SqliteConnectOptions};

use super::{Place, number, ours};

pub struct Application {
    pub place: Place,
    pub store: Arc<SqliteStore>,
    pub pool: SqlitePool,
    pub transactions: Transactions,
}

impl Application {
    pub async fn new() -> Self {
        let place = Place::new();
        place
            .shell()
            .execute_batch(
                "CREATE TABLE payment (n INTEGER PRIMARY KEY, cents INTEGER NOT NULL);
                 CREATE TABLE refund (payment INTEGER NOT NULL \
                 REFERENCES payment (n) DEFERRABLE INITIALLY DEFERRED)",
            )
            .expect("the application's tables");
        let config = SqliteConfig { shared: true, ..SqliteConfig::new(place.file()) };
        let store = Arc::new(SqliteStore::open(config).expect("the store opens"));
        let pool = pool(&place).await;
        let transactions = Transactions::connect(&pool, store.clone()).await.expect("it connects");
        Self { place, store, pool, transactions }
    }

    pub async fn begin(&self) -> OpenTransaction {
        self.transactions.begin().await.expect("it begins")
    }

    /// A transaction with a claim, and the savepoint behind it.
    pub async fn claimed(&self, claim: &NewClaim) -> (OpenTransaction, Record) {
        let mut open = self.begin().await;
        let record = ours(open.claim(claim).await);
        open.savepoint().await.expect("a savepoint");
        (open, record)
    }

    pub async fn found(&self, id: RecordId) -> Option<Found> {
        self.store.find(id).await.expect("a find")
    }

    pub fn payments(&self) -> i64 {
        number(&self.place.shell(), "SELECT count(*) FROM payment")
    }

    pub fn records(&self) -> i64 {
        number(&self.place.shell(), "SELECT count(*) FROM hapax_record")
    }
}

pub async fn pool(place: &Place) -> SqlitePool {
    let options = SqliteConnectOptions::new().filename(place.file());
    SqlitePool::connect_with(options).await.expect("the application's pool")
}

pub async fn pay(conn: &mut SqliteConnection, cents: i64) {
    let paid = sqlx::query("INSERT INTO payment (cents) VALUES (?1)").bind(cents);
    paid.execute(conn).await.expect("a payment");
}

pub async fn execute(conn: &mut SqliteConnection, sql: &'static str) {
    sqlx::raw_sql(sql).execute(conn).await.expect(sql);
}

pub fn written_in_part<T: std::fmt::Debug>(result: Result<T, StoreError>) {
    assert_eq!(result.map(|it| format!("{it:?}")), Err(StoreError::EndedElsewhere));
}
