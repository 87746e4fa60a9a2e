//! An engine on the application's own SQLite database.

use std::{path::PathBuf, sync::Arc};

use hapax_core::EffectSecret;
use hapax_sql::{OpenError, SqliteConfig, SqliteStore, Transactions};
use sqlx::SqlitePool;
use thiserror::Error;

use crate::{
    BackgroundOptions, Hapax, Options, Secrets,
    effect_secret::{self, EffectSecretError},
};

/// How an engine is made on an application's SQLite database: [`Hapax::sqlite`].
///
/// ```
/// use hapax::{
///     Hapax, Options,
///     sqlx::{SqlitePool, sqlite::SqliteConnectOptions},
/// };
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// let file = directory.path().join("orders.db");
/// let options = SqliteConnectOptions::new().filename(file).create_if_missing(true);
/// let pool = SqlitePool::connect_with(options).await?;
/// let options = Options { store_timeout: std::time::Duration::from_secs(1), ..Options::default() };
/// let h = Hapax::sqlite(&pool).options(options).single_tenant().open().await?;
/// h.shutdown(std::time::Duration::from_secs(30)).await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Sqlite<'p> {
    pool: &'p SqlitePool,
    secret: Option<EffectSecret>,
    options: Options,
    background: BackgroundOptions,
}

impl Hapax {
    /// An engine whose records are in the application's own database, so that they commit together
    /// with its rows. The tables of hapax are made in it, each with the prefix `hapax_`.
    ///
    /// The database is put into WAL mode, and hapax's connections commit with full sync. The pool
    /// stays the application's, for its reads and for writes that hapax has no part in; writes
    /// that belong to an operation are made in a [`Tx`](crate::Tx) or in a step of an
    /// [`Execution`](crate::Execution).
    ///
    /// ```no_run
    /// use hapax::{Hapax, sqlx::SqlitePool};
    ///
    /// # async fn start() -> Result<(), Box<dyn std::error::Error>> {
    /// let pool = SqlitePool::connect("sqlite:orders.db").await?;
    /// let h = Hapax::sqlite(&pool).open().await?;
    /// # let _ = h;
    /// # Ok(())
    /// # }
    /// ```
    pub fn sqlite(pool: &SqlitePool) -> Sqlite<'_> {
        Sqlite {
            pool,
            secret: None,
            options: Options::default(),
            background: BackgroundOptions::default(),
        }
    }
}

impl Hapax {
    /// The same engine with transactions on its store, for one that was made of its parts; the
    /// store is the one that the transactions were connected to. [`sqlite`](Self::sqlite) does all
    /// of it.
    #[must_use]
    pub fn with_transactions(self, transactions: Transactions) -> Self {
        // The first ones stay: records are in their file.
        let _ = self.inner.transactions.set(transactions);
        self
    }
}

impl Sqlite<'_> {
    /// The secret that effect ids are made with; the same for as long as the database is used.
    /// Without it one is made beside the database, as `<file>.effect-key`, to be backed up with it.
    #[must_use]
    pub fn effect_secret(self, secret: EffectSecret) -> Self {
        Self { secret: Some(secret), ..self }
    }

    /// All callers are one tenant. Without this every request has a [`Scope`](crate::Scope).
    #[must_use]
    pub fn single_tenant(mut self) -> Self {
        self.options.single_tenant = true;
        self
    }

    /// The engine's times and limits.
    #[must_use]
    pub fn options(self, options: Options) -> Self {
        Self { options, ..self }
    }

    /// How sweeping and the like are paced.
    #[must_use]
    pub fn background(self, background: BackgroundOptions) -> Self {
        Self { background, ..self }
    }

    /// Opens the store in the pool's database, and starts its background work.
    ///
    /// # Errors
    /// [`SetupError`], each with its remedy.
    pub async fn open(self) -> Result<Hapax, SetupError> {
        let path: PathBuf = self.pool.connect_options().get_filename().to_owned();
        let config = SqliteConfig { shared: true, ..SqliteConfig::new(&path) };
        // It reads and locks the file, so it is not done on the runtime's threads.
        let opening = tokio::task::spawn_blocking(move || SqliteStore::open(config));
        let store = Arc::new(opening.await.map_err(|_| SetupError::Interrupted)??);
        let transactions = Transactions::connect(self.pool, Arc::clone(&store)).await?;
        let secrets = match self.secret {
            Some(secret) => {
                let secrets = Secrets::single(secret);
                secrets.pin(&*store).await.map_err(EffectSecretError::Pin)?;
                secrets
            }
            None => effect_secret::beside_database(&path, &*store).await?,
        };
        let engine = Hapax::new(store, secrets, self.options).with_transactions(transactions);
        engine.start_background(self.background);
        Ok(engine)
    }
}

/// Why an engine cannot be made on a database. Each names its remedy.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SetupError {
    /// The database cannot be used.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// There is no usable effect secret.
    #[error(transparent)]
    Secret(#[from] EffectSecretError),
    /// The runtime is shutting down.
    #[error("the store was not opened, because the runtime is shutting down")]
    Interrupted,
}
