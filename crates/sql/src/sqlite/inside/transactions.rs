//! The connection of an application's transactions, and their beginning.

use std::{fmt, path::Path, sync::Arc, time::Duration};

use hapax_store::{Clock, StoreError};
use sqlx::{
    Error, SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteLockingMode, SqliteSynchronous},
};
use tokio::{
    sync::{Mutex, OwnedMutexGuard},
    time,
};

use super::{
    driver::{LOCK_WAIT, statement, store_error},
    open_transaction::OpenTransaction,
    rules::Rules,
};
#[cfg(feature = "faults")]
use crate::sqlite::Fault;
use crate::{
    sqlite::{OpenError, SqliteStore, faults::Faults, guard::Guard, rows::Columns, sql},
    telemetry,
};

/// How long a transaction waits for those before it.
const QUEUE_WAIT: Duration = Duration::from_secs(2);

/// Transactions of an application on the file of a store, with records in them.
///
/// There is one at a time: SQLite has one writer. They have a connection of their own, which
/// nobody else uses, and take turns with the store's writer. Clones are handles on the same.
#[derive(Clone)]
pub struct Transactions(Arc<Inner>);

struct Inner {
    pool: SqlitePool,
    store: Arc<SqliteStore>,
    place: Arc<Mutex<Place>>,
    faults: Faults,
}

/// The place of the one open transaction.
#[derive(Default)]
pub(super) struct Place {
    /// Whether the connection may be in a transaction, or in the middle of a statement.
    in_doubt: bool,
}

impl Transactions {
    /// Makes a connection as the application's pool makes them, with its options and hooks, on the
    /// store's file.
    ///
    /// What differs is what commits have to hold: they are forced to disk (`synchronous = FULL`),
    /// wait for another process's lock for 1 s, and are not queued for longer than 2 s. SQLite's
    /// commit hook and progress handler of this connection are taken: nothing else commits on it,
    /// and a statement ends when the transaction's time has passed.
    ///
    /// # Errors
    /// [`OpenError`], with its remedy, when the pool has another file than the store, or none, or
    /// when its hooks take durability away.
    pub async fn connect(pool: &SqlitePool, store: Arc<SqliteStore>) -> Result<Self, OpenError> {
        let file = store.guard.files().path().to_owned();
        if store.writer.is_none() {
            return Err(OpenError::ReadOnly(file));
        }
        must_be_the_store(&pool.connect_options(), &store.guard)?;
        let failed = |error: Error| open_error(&file, &error);
        let options = connect_options(&pool.connect_options(), &file);
        let pool = pool
            .options()
            .clone()
            .min_connections(0)
            .max_connections(1)
            .acquire_timeout(QUEUE_WAIT)
            .test_before_acquire(false)
            .idle_timeout(None)
            .max_lifetime(None)
            .connect_with(options)
            .await
            .map_err(failed)?;
        let held = statement(sql::DURABILITY, []).fetch_one(&pool).await.map_err(failed)?;
        let text = |column| held.text(column).map_err(failed).map(Option::unwrap_or_default);
        if !store.guard.files().is_main(Path::new(text(0)?)) {
            let pool = pool.connect_options().get_filename().to_owned();
            return Err(OpenError::PoolWithoutFile { pool, store: file });
        }
        let mode = text(1)?;
        if !mode.eq_ignore_ascii_case("wal") {
            return Err(OpenError::NoWal { path: file.clone(), mode: mode.to_owned() });
        }
        let level = held.integer(2).map_err(failed)?.unwrap_or_default();
        if level < 2 {
            return Err(OpenError::NotDurable { path: file.clone(), level });
        }
        let (place, faults) = (Arc::default(), Faults::default());
        Ok(Self(Arc::new(Inner { pool, store, place, faults })))
    }

    /// Begins a transaction that holds SQLite's write lock until it ends: it should be short, and
    /// wait for nothing outside the database.
    ///
    /// # Errors
    /// Nothing is written by any of them. [`StoreError::Locked`] when the transactions before it and
    /// the store's own writer (2 s) or another process (1 s more) did not let it begin;
    /// [`StoreError::Regressed`] when the store's file is not in its place any more.
    pub async fn begin(&self) -> Result<OpenTransaction, StoreError> {
        self.try_begin().await.inspect_err(telemetry::failed)
    }

    async fn try_begin(&self) -> Result<OpenTransaction, StoreError> {
        let inner = &self.0;
        if inner.faults.at_begin() {
            return Err(StoreError::Unavailable { reason: "a fault on purpose".to_owned() });
        }
        let queued = async {
            let place = Arc::clone(&inner.place).lock_owned().await;
            (place, inner.guard().turns().next().await)
        };
        let (mut place, turn) = in_time(QUEUE_WAIT, queued).await?;
        self.check_files()?;
        if place.in_doubt {
            inner.reconnect().await.map_err(|error| begin_error(&error))?;
        }
        place.in_doubt = true;
        match inner.pool.begin_with(sql::BEGIN_WITH_SAVEPOINT).await {
            Ok(mut tx) => {
                let rules = Arc::<Rules>::default();
                rules.put_on(&mut tx).await.map_err(|error| begin_error(&error))?;
                Ok(OpenTransaction::new(tx, self.clone(), rules, turn, place))
            }
            Err(error) => {
                let error = begin_error(&error);
                // No lock, no transaction: the connection is as it was.
                place.in_doubt = !matches!(error, StoreError::Locked(_));
                Err(error)
            }
        }
    }

    /// Closes the connection once the open transaction has ended. Others do not begin any more.
    pub async fn close(&self) {
        if self.0.may_be_closed() {
            self.0.pool.close().await;
        }
    }

    /// Puts a fault in the way of a commit. Calls queue up. What is [`Fault::Ambiguous`] for the
    /// store is a lost answer here: a transaction with the application's statements cannot be
    /// issued again.
    #[cfg(feature = "faults")]
    pub fn put_in_the_way(&self, fault: Fault) {
        self.0.faults.put_in_the_way(fault);
    }

    pub(super) fn clock(&self) -> &dyn Clock {
        &*self.0.store.clock
    }

    /// Whether a commit fails now, and whether it happens nevertheless.
    pub(super) fn fault(&self) -> Option<bool> {
        self.0.faults.at_commit()
    }

    /// Whether the store's files are in their place.
    pub(super) fn check_files(&self) -> Result<(), StoreError> {
        let guard = self.0.guard();
        guard.files().check().map_err(|trip| guard.trip(&trip))
    }
}

impl fmt::Debug for Transactions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transactions").field("store", &self.0.store).finish_non_exhaustive()
    }
}

impl Place {
    /// Its transaction has ended, and the connection is good for the next one.
    pub(super) fn leave(mut place: OwnedMutexGuard<Self>) {
        place.in_doubt = false;
    }
}

impl Inner {
    fn guard(&self) -> &Guard {
        &self.store.guard
    }

    /// Closes the connection, whatever it was in the middle of; the next one is a fresh one.
    async fn reconnect(&self) -> Result<(), Error> {
        if let Err(error) = self.pool.acquire().await?.close().await {
            tracing::warn!(%error, "a transaction's connection did not close in order");
        }
        Ok(())
    }

    /// SQLite brings the log into the database when it closes it, and removes the log by its
    /// path: both are another's if the files were replaced.
    fn may_be_closed(&self) -> bool {
        self.guard().files().check().is_ok()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if !self.may_be_closed() {
            // Leaked rather than closed wrongly; the process is to be restarted anyway.
            std::mem::forget(self.pool.clone());
        }
    }
}

/// What takes longer than that is not waited for.
async fn in_time<T>(wait: Duration, it: impl Future<Output = T>) -> Result<T, StoreError> {
    time::timeout(wait, it).await.map_err(|_| StoreError::Locked(wait))
}

fn begin_error(error: &Error) -> StoreError {
    match error {
        Error::PoolTimedOut => StoreError::Locked(QUEUE_WAIT),
        _ => store_error(error),
    }
}

/// By the name alone: connecting would change the journal mode of another database.
fn must_be_the_store(options: &SqliteConnectOptions, guard: &Guard) -> Result<(), OpenError> {
    let name = options.get_filename();
    let (pool, store) = (name.to_owned(), guard.files().path().to_owned());
    if guard.files().is_main(name) {
        return Ok(());
    }
    let text = name.to_string_lossy();
    if text.is_empty() || text.starts_with(":memory:") || text.starts_with("file:") {
        return Err(OpenError::PoolWithoutFile { pool, store });
    }
    Err(OpenError::PoolOfOtherFile { pool, store })
}

/// The application's options, as far as commits do not depend on them.
fn connect_options(options: &SqliteConnectOptions, file: &Path) -> SqliteConnectOptions {
    options
        .clone()
        .filename(file)
        .create_if_missing(false)
        .read_only(false)
        .immutable(false)
        .shared_cache(false)
        .locking_mode(SqliteLockingMode::Normal)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .pragma("fullfsync", "ON")
        .pragma("checkpoint_fullfsync", "ON")
        .busy_timeout(LOCK_WAIT)
        .optimize_on_close(false, None)
}

fn open_error(path: &Path, error: &Error) -> OpenError {
    let path = path.to_owned();
    match begin_error(error) {
        StoreError::Locked(waited) => OpenError::Locked { path, waited },
        StoreError::Full => OpenError::Full(path),
        StoreError::ReadOnly => OpenError::ReadOnly(path),
        StoreError::Corrupt { reason } => OpenError::Corrupt { path, reason },
        _ => OpenError::Other { path, reason: error.to_string() },
    }
}
