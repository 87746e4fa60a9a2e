//! An open transaction: the application's statements, the way back to behind the claim, its end.

use std::{
    fmt,
    ops::{Deref, DerefMut},
    sync::Arc,
    time::{Duration, Instant},
};

use hapax_core::Record;
use hapax_store::StoreError;
use sqlx::{Sqlite, SqliteConnection, raw_sql};
use tokio::sync::OwnedMutexGuard;

use super::{
    driver::{commit_error, savepoint_error},
    rules::Rules,
    transactions::{Place, Transactions},
};
use crate::{
    sqlite::{sql, turns::Turn},
    telemetry,
};

/// A transaction of the application, with the store's write lock: what is read in it stays true
/// until its end.
///
/// It dereferences to sqlx's connection, for the application's own statements. `begin()` on that
/// nests: it makes a savepoint. A `COMMIT` or `ROLLBACK` of the application's own is a mistake
/// that the next call here answers with [`StoreError::EndedElsewhere`].
///
/// Dropped, it is rolled back, and its connection is closed before the next one begins.
pub struct OpenTransaction {
    // First: its rollback is on its way before anybody else has a turn.
    pub(super) tx: sqlx::Transaction<'static, Sqlite>,
    pub(super) home: Transactions,
    /// The record that was claimed or written in it last, as it is now.
    pub(super) record: Option<Record>,
    /// That record as it was at the savepoint.
    saved: Option<Record>,
    /// Whether the application has had the connection.
    lent: bool,
    /// Whether every write was done as a whole: if not, none may be committed.
    whole: bool,
    /// What the connection permits.
    rules: Arc<Rules>,
    /// Whether the savepoint is there, which shows that nobody else has ended the transaction.
    held: bool,
    turn: Turn,
    place: OwnedMutexGuard<Place>,
}

impl OpenTransaction {
    pub(super) fn new(
        tx: sqlx::Transaction<'static, Sqlite>,
        home: Transactions,
        rules: Arc<Rules>,
        turn: Turn,
        place: OwnedMutexGuard<Place>,
    ) -> Self {
        Self {
            tx,
            home,
            rules,
            record: None,
            saved: None,
            lent: false,
            whole: true,
            held: true,
            turn,
            place,
        }
    }

    /// Gives it so much time from now on: a statement that takes longer fails, however long it
    /// would go on by itself.
    pub fn cut_after(&mut self, time: Duration) {
        self.rules.cut_at(Instant::now().checked_add(time));
    }

    /// Sets the savepoint here: [`undo`](Self::undo) goes back to it. Before, it is where the
    /// transaction began, or behind the last step that ended in it.
    ///
    /// # Errors
    /// Any [`StoreError`]; the transaction cannot be committed any more.
    pub async fn savepoint(&mut self) -> Result<(), StoreError> {
        self.must_be_unsettled()?;
        self.control(sql::MOVE_SAVEPOINT).await?;
        self.saved.clone_from(&self.record);
        Ok(())
    }

    /// Takes back what was written behind the savepoint.
    ///
    /// # Errors
    /// Any [`StoreError`]; the transaction cannot be committed any more.
    pub async fn undo(&mut self) -> Result<(), StoreError> {
        self.must_be_unsettled()?;
        self.control(sql::UNDO_TO_SAVEPOINT).await?;
        self.record.clone_from(&self.saved);
        Ok(())
    }

    /// Makes durable what was written, all of it.
    ///
    /// # Errors
    /// Nothing is written, except where [`StoreError::certainty`] says that it may be:
    /// [`StoreError::AnswerLost`], to be found out by [`find`](Self::find) in the next
    /// transaction, and [`StoreError::EndedElsewhere`].
    pub async fn commit(mut self) -> Result<(), StoreError> {
        let noticed = if self.held { self.end_savepoint().await } else { self.must_be_whole() };
        let ended = match noticed {
            Ok(()) => self.end().await,
            Err(error) => Err(error),
        };
        ended.inspect_err(telemetry::failed)
    }

    /// Takes back what was written, all of it, and waits for that.
    ///
    /// # Errors
    /// [`StoreError::EndedElsewhere`] when there is nothing to take back any more: some of it may
    /// have been committed.
    pub async fn roll_back(mut self) -> Result<(), StoreError> {
        if self.held
            && let Err(error) = raw_sql(sql::UNDO_TO_SAVEPOINT).execute(&mut *self.tx).await
            && savepoint_error(&error) == StoreError::EndedElsewhere
        {
            return Err(StoreError::EndedElsewhere).inspect_err(telemetry::failed);
        }
        match self.tx.rollback().await {
            Ok(()) => {
                self.rules.cut_at(None);
                Place::leave(self.place);
            }
            Err(error) if savepoint_error(&error) == StoreError::EndedElsewhere => {
                return Err(StoreError::EndedElsewhere).inspect_err(telemetry::failed);
            }
            // Closing it rolls back too.
            Err(error) => tracing::warn!(%error, "a transaction's connection is closed instead"),
        }
        Ok(())
    }

    /// A claim comes first: there is nothing of the application yet that could have ended the
    /// transaction.
    pub(super) fn must_be_first(&self) -> Result<(), StoreError> {
        if !self.lent {
            return Ok(());
        }
        Err(refused("a claim comes before the application's own statements"))
    }

    fn must_be_unsettled(&self) -> Result<(), StoreError> {
        if self.held { Ok(()) } else { Err(refused("the transaction is settled")) }
    }

    /// Begins a write: until it is [`done`](Self::done), nothing may be committed.
    pub(super) fn start(&mut self) -> Result<(), StoreError> {
        self.must_be_whole()?;
        self.whole = false;
        Ok(())
    }

    /// Ends a write that was done as a whole.
    pub(super) fn done(&mut self) {
        self.whole = true;
    }

    /// Notices a transaction that somebody else has ended, before the last writes.
    pub(super) async fn end_savepoint(&mut self) -> Result<(), StoreError> {
        if !self.held {
            return Ok(());
        }
        self.control(sql::END_SAVEPOINT).await?;
        self.held = false;
        Ok(())
    }

    /// Sets the savepoint behind what was written since its end.
    pub(super) async fn begin_savepoint(&mut self) -> Result<(), StoreError> {
        self.control(sql::SET_SAVEPOINT).await?;
        self.saved.clone_from(&self.record);
        self.held = true;
        Ok(())
    }

    async fn control(&mut self, sql: &'static str) -> Result<(), StoreError> {
        self.start()?;
        let done = raw_sql(sql).execute(&mut *self.tx).await;
        done.map_err(|error| savepoint_error(&error))?;
        self.done();
        Ok(())
    }

    fn must_be_whole(&self) -> Result<(), StoreError> {
        if self.whole {
            return Ok(());
        }
        Err(refused("an earlier part of the transaction failed, or was not waited for"))
    }

    async fn end(self) -> Result<(), StoreError> {
        let Self { tx, home, rules, mut turn, place, .. } = self;
        rules.permit_commit();
        let started = Instant::now();
        let fault = home.fault();
        let result = if fault == Some(false) { tx.rollback().await } else { tx.commit().await };
        let ended = match (result, fault) {
            (Ok(()), None) => Ok(()),
            (Ok(()), Some(_)) => {
                Err(StoreError::AnswerLost { reason: "a fault on purpose".to_owned() })
            }
            (Err(error), _) => Err(commit_error(&error)),
        };
        let told = match &ended {
            Ok(()) => "ok",
            Err(StoreError::AnswerLost { .. } | StoreError::EndedElsewhere) => "unknown",
            Err(_) => "failed",
        };
        rules.cut_at(None);
        telemetry::committed(started.elapsed().as_secs_f64(), told);
        ended?;
        turn.inside = true;
        Place::leave(place);
        // Once more: what was written into a file that is gone from its path is not written.
        home.check_files()
    }
}

fn refused(why: &str) -> StoreError {
    StoreError::Unavailable { reason: why.to_owned() }
}

impl Deref for OpenTransaction {
    type Target = SqliteConnection;

    fn deref(&self) -> &SqliteConnection {
        &self.tx
    }
}

impl DerefMut for OpenTransaction {
    fn deref_mut(&mut self) -> &mut SqliteConnection {
        self.lent = true;
        &mut self.tx
    }
}

impl fmt::Debug for OpenTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenTransaction")
            .field("record", &self.record)
            .field("whole", &self.whole)
            .finish_non_exhaustive()
    }
}
