//! The service's own books: what arrived, and what took effect.
//!
//! The judge reads them too. They know nothing of hapax, of keys or of intents.

use std::{error::Error, path::Path, sync::Arc, time::Duration};

use parking_lot::Mutex;
use rusqlite::{
    Connection, OpenFlags, OptionalExtension, Row, TransactionBehavior::Immediate, named_params,
};
use tokio::task::spawn_blocking;
use uuid::Uuid;

use crate::{
    demo::order::{Order, Payment},
    failure::Failure,
};

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS arrivals (
        seq       INTEGER PRIMARY KEY,
        effect_id TEXT NOT NULL,
        attempt   TEXT,
        payee     TEXT NOT NULL
    ) STRICT;
    CREATE INDEX IF NOT EXISTS arrivals_by_payee ON arrivals (payee);
    CREATE TABLE IF NOT EXISTS payments (
        seq       INTEGER PRIMARY KEY,
        id        TEXT NOT NULL UNIQUE,
        effect_id TEXT NOT NULL,
        amount    INTEGER NOT NULL,
        currency  TEXT NOT NULL,
        payee     TEXT NOT NULL
    ) STRICT;
";

/// What makes the service collapse: one payment for each effect id, kept by the database.
const COLLAPSE: &str = "CREATE UNIQUE INDEX IF NOT EXISTS once ON payments (effect_id)";

/// One connection to the ledger.
#[derive(Clone)]
pub(in crate::demo) struct Ledger(Arc<Mutex<Connection>>);

/// Why the ledger could not be read or written.
#[derive(Debug, thiserror::Error)]
pub(in crate::demo) enum LedgerError {
    #[error("the ledger does not work")]
    Sqlite(#[from] rusqlite::Error),
    #[error("the work on the ledger was interrupted")]
    Interrupted(#[from] tokio::task::JoinError),
}

impl From<LedgerError> for Failure {
    fn from(error: LedgerError) -> Self {
        let cause = error.source().map(|cause| format!(": {cause}"));
        Self::new(1, format!("{error}{}", cause.unwrap_or_default()))
    }
}

/// How many rows there are.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::demo) struct Rows {
    pub(in crate::demo) arrivals: u64,
    pub(in crate::demo) payments: u64,
}

/// What became of an order.
#[derive(Debug)]
pub(super) enum Paid {
    /// It took effect now.
    Now(Payment),
    /// It took effect before, under the same effect id.
    Before(Payment),
    /// The effect id belongs to another order.
    ForOther,
}

impl Ledger {
    /// Opens the ledger of the service, new or with what an earlier process left.
    ///
    /// A careless one does not collapse: it is there to show that the judge notices.
    #[expect(clippy::disallowed_methods, reason = "this ledger is the demo's, not hapax's store")]
    pub(super) fn open(path: &Path, careless: bool) -> Result<Self, LedgerError> {
        let connection = Connection::open(path)?;
        connection.busy_timeout(Duration::from_secs(5))?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        // What a process wrote survives its crash; a crash of the machine ends the demo anyway.
        connection.pragma_update(None, "synchronous", "normal")?;
        connection.execute_batch(SCHEMA)?;
        if !careless {
            connection.execute(COLLAPSE, ())?;
        }
        Ok(Self(Arc::new(Mutex::new(connection))))
    }

    /// Opens it for reading, as the judge does.
    pub(in crate::demo) fn read(path: &Path) -> Result<Self, LedgerError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(Duration::from_secs(5))?;
        Ok(Self(Arc::new(Mutex::new(connection))))
    }

    /// Writes down that a request arrived; the answer is its number among those for this payee.
    pub(super) async fn arrived(
        &self,
        effect_id: String,
        attempt: Option<String>,
        payee: String,
    ) -> Result<u32, LedgerError> {
        self.with(move |connection| {
            connection.execute(
                "INSERT INTO arrivals (effect_id, attempt, payee) VALUES (?1, ?2, ?3)",
                (effect_id, attempt, &payee),
            )?;
            let number = "SELECT count(*) FROM arrivals WHERE payee = ?1";
            connection.query_row(number, [&payee], |row| row.get(0))
        })
        .await
    }

    /// Pays, once for each effect id, in one transaction.
    pub(super) async fn pay(&self, effect_id: String, order: Order) -> Result<Paid, LedgerError> {
        self.with(move |connection| pay(connection, &effect_id, order)).await
    }

    /// One payment.
    pub(super) async fn payment(&self, id: String) -> Result<Option<Payment>, LedgerError> {
        self.with(move |connection| {
            let by_id = "SELECT id, amount, currency, payee FROM payments WHERE id = ?1";
            connection.query_row(by_id, [id], payment).optional()
        })
        .await
    }

    /// The payments to payees whose names begin so, in the order they were made.
    pub(in crate::demo) async fn payments(
        &self,
        payees: &str,
    ) -> Result<Vec<Payment>, LedgerError> {
        let payees = payees.to_owned();
        self.with(move |connection| {
            let found = "SELECT id, amount, currency, payee FROM payments
                         WHERE substr(payee, 1, length(?1)) = ?1 ORDER BY seq";
            connection.prepare_cached(found)?.query_map([payees], payment)?.collect()
        })
        .await
    }

    /// How much has arrived and taken effect for payees whose names begin so.
    pub(in crate::demo) async fn rows(&self, payees: &str) -> Result<Rows, LedgerError> {
        let payees = payees.to_owned();
        self.with(move |connection| {
            let counts = "
                SELECT (SELECT count(*) FROM arrivals WHERE substr(payee, 1, length(?1)) = ?1),
                       (SELECT count(*) FROM payments WHERE substr(payee, 1, length(?1)) = ?1)";
            connection.prepare_cached(counts)?.query_row([payees], |row| {
                let count = |at| row.get::<_, i64>(at).map(i64::unsigned_abs);
                Ok(Rows { arrivals: count(0)?, payments: count(1)? })
            })
        })
        .await
    }

    async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, LedgerError> {
        let connection = Arc::clone(&self.0);
        Ok(spawn_blocking(move || work(&mut connection.lock())).await??)
    }
}

#[expect(clippy::disallowed_methods, reason = "this ledger is the demo's, not hapax's store")]
fn pay(connection: &mut Connection, effect_id: &str, order: Order) -> rusqlite::Result<Paid> {
    let transaction = connection.transaction_with_behavior(Immediate)?;
    let made = Payment { id: format!("pay_{}", Uuid::now_v7().simple()), order };
    let inserted = transaction.execute(
        "INSERT INTO payments (id, effect_id, amount, currency, payee)
         VALUES (:id, :effect_id, :amount, :currency, :payee) ON CONFLICT DO NOTHING",
        named_params! {
            ":id": made.id,
            ":effect_id": effect_id,
            ":amount": made.order.amount,
            ":currency": made.order.currency,
            ":payee": made.order.to,
        },
    )?;
    let paid = if inserted == 1 {
        Paid::Now(made)
    } else {
        let by_effect = "SELECT id, amount, currency, payee FROM payments WHERE effect_id = ?1";
        let known = transaction.query_row(by_effect, [effect_id], payment)?;
        if known.order == made.order { Paid::Before(known) } else { Paid::ForOther }
    };
    transaction.commit()?;
    Ok(paid)
}

fn payment(row: &Row<'_>) -> rusqlite::Result<Payment> {
    let order = Order { amount: row.get(1)?, currency: row.get(2)?, to: row.get(3)? };
    Ok(Payment { id: row.get(0)?, order })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(amount: u32) -> Order {
        Order { amount, currency: "EUR".to_owned(), to: "alice".to_owned() }
    }

    fn ledger(careless: bool) -> (tempfile::TempDir, Ledger) {
        let folder = tempfile::tempdir().unwrap();
        let ledger = Ledger::open(&folder.path().join("ledger.db"), careless).unwrap();
        (folder, ledger)
    }

    async fn pay(ledger: &Ledger, effect_id: &str, order: Order) -> Paid {
        ledger.pay(effect_id.to_owned(), order).await.unwrap()
    }

    #[tokio::test]
    async fn one_effect_id_is_one_payment_and_never_another_order() {
        let (_folder, ledger) = ledger(false);
        let Paid::Now(first) = pay(&ledger, "effect", order(1)).await else { panic!("not paid") };
        let Paid::Before(again) = pay(&ledger, "effect", order(1)).await else { panic!("twice") };
        assert_eq!(first, again);
        assert!(matches!(pay(&ledger, "effect", order(2)).await, Paid::ForOther));
        assert!(matches!(pay(&ledger, "other effect", order(1)).await, Paid::Now(_)));
        assert_eq!(ledger.payments("").await.unwrap().len(), 2);
    }

    #[tokio::test]
    async fn a_careless_ledger_pays_again() {
        let (_folder, ledger) = ledger(true);
        for _ in 0..2 {
            assert!(matches!(pay(&ledger, "effect", order(1)).await, Paid::Now(_)));
        }
        assert_eq!(ledger.rows("").await.unwrap().payments, 2);
    }
}
