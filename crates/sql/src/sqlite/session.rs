//! The one connection that writes, and its guarded transactions.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use hapax_store::{Clock, StoreError};
use rusqlite::{Connection, config::DbConfig};

use super::{
    error::{Failure, is_busy, store_error},
    faults::Faults,
    guard::{Guard, Mark, Trip},
    open, sql,
    turns::Turn,
    view::{Policies, Tx},
};
use crate::telemetry;

/// The connection, and what this node knows of the store behind it.
pub(super) struct Session {
    pub(super) conn: Connection,
    pub(super) guard: Arc<Guard>,
    pub(super) mark: Mark,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) timeout: Duration,
    pub(super) faults: Arc<Faults>,
    neighbours: Neighbours,
    policies: Policies,
    /// Why what writes is rolled back: nobody could tell what became of its commit, or the file is
    /// damaged.
    held_back: Option<StoreError>,
    /// From a transaction's beginning to its end.
    turn: Option<Turn>,
}

/// Whether other processes write to the store too: SQLite's lock knows no queue, so whoever has
/// just written lets others have a chance.
#[derive(Default)]
struct Neighbours {
    data_version: Option<i64>,
    wrote: bool,
}

/// How long a busy neighbour is let through; longer than its longest pause between two tries.
const YIELD: Duration = Duration::from_millis(1);
const SHORTEST_PAUSE: Duration = Duration::from_micros(50);
const LONGEST_PAUSE: Duration = Duration::from_micros(800);

/// How a transaction ended that did not commit.
#[derive(Debug)]
pub(super) enum Ended {
    /// It was rolled back.
    NotWritten(StoreError),
    /// It may have committed.
    Unknown(String),
    /// The store is not the one this node knows; nothing that this node has done since is there.
    Tripped(Trip),
}

impl From<StoreError> for Ended {
    fn from(error: StoreError) -> Self {
        Self::NotWritten(error)
    }
}

impl From<rusqlite::Error> for Ended {
    fn from(error: rusqlite::Error) -> Self {
        Self::NotWritten(store_error(&error))
    }
}

impl Session {
    pub(super) fn new(
        conn: Connection,
        guard: Arc<Guard>,
        mark: Mark,
        clock: Arc<dyn Clock>,
        timeout: Duration,
        faults: Arc<Faults>,
    ) -> Self {
        let (neighbours, policies) = Default::default();
        let (held_back, turn) = (None, None);
        Self { conn, guard, mark, clock, timeout, faults, neighbours, policies, held_back, turn }
    }

    /// Begins a transaction with the write lock; waits for it until `deadline`.
    pub(super) fn begin(&mut self, deadline: Instant) -> Result<(), StoreError> {
        if self.faults.at_begin() {
            return Err(StoreError::Unavailable { reason: "a fault on purpose".to_owned() });
        }
        self.end();
        if std::mem::take(&mut self.neighbours.wrote) {
            thread::sleep(YIELD);
        }
        let turn = self.guard.turns().wait(deadline);
        let turn = turn.ok_or(StoreError::Locked(self.timeout))?;
        let mut pause = SHORTEST_PAUSE;
        loop {
            match self.execute(sql::BEGIN) {
                Ok(()) => {
                    self.turn = Some(turn);
                    return Ok(());
                }
                Err(error) if !is_busy(&error) => return Err(store_error(&error)),
                Err(_) if Instant::now() >= deadline => {
                    return Err(StoreError::Locked(self.timeout));
                }
                Err(_) => thread::sleep(pause),
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Answers only what writes nothing from now on, and tells all else why.
    pub(super) fn hold_back(&mut self, why: StoreError) {
        self.held_back = Some(why);
    }

    /// Lets everything be written again; tells why it was not.
    pub(super) const fn let_go(&mut self) -> Option<StoreError> {
        self.held_back.take()
    }

    /// Whether SQLite finds nothing wrong with any part of the file. It reads all of it.
    pub(super) fn is_whole(&self) -> bool {
        let found = self.conn.query_row(sql::CHECK, (), |row| row.get::<_, String>(0));
        found.is_ok_and(|found| found == "ok")
    }

    /// Runs `work` in the transaction that was begun, if the store is the known one, and ends it.
    /// Tells whether there was anything to commit.
    pub(super) fn run(
        &mut self,
        work: impl FnOnce(&Tx<'_>) -> Result<(), StoreError>,
    ) -> Result<bool, Ended> {
        let ended = self.try_run(work);
        self.end();
        // Once more: what was written into a file that is gone from its path is not written.
        match (ended, self.guard.files().check()) {
            (Ok(_), Err(trip)) => Err(Ended::Tripped(trip)),
            (ended, _) => ended,
        }
    }

    fn try_run(
        &mut self,
        work: impl FnOnce(&Tx<'_>) -> Result<(), StoreError>,
    ) -> Result<bool, Ended> {
        // Read under the lock, so that the store's time and the order of commits agree.
        let now = self.clock.now();
        let seq = match self.mark.verify(&self.conn)? {
            Ok(seq) => seq,
            Err(trip) => {
                self.raise_epoch(&trip);
                return Err(Ended::Tripped(trip));
            }
        };
        self.look_around()?;
        let tx = Tx::new(&self.conn, now, self.mark.epoch(), &self.policies);
        work(&tx)?;
        if !tx.wrote() {
            return Ok(false);
        }
        if let Some(why) = &self.held_back {
            return Err(why.clone().into());
        }
        let node = self.mark.node;
        tx.execute_one(sql::ADVANCE_MARK, (node.as_bytes(), seq, now.as_micros()))
            .map_err(Failure::into_error)?;
        self.commit(seq).map(|()| true)
    }

    /// Commits what moves the mark on from `seq`.
    fn commit(&mut self, seq: i64) -> Result<(), Ended> {
        let started = Instant::now();
        let fault = self.faults.at_commit();
        let end = if fault == Some(false) { sql::ROLLBACK } else { sql::COMMIT };
        let result = self.execute(end);
        let seconds = started.elapsed().as_secs_f64();
        let error = match (result, fault) {
            (Ok(()), None) => {
                telemetry::committed(seconds, "ok");
                self.mark.left_at(seq.saturating_add(1));
                return Ok(());
            }
            (Ok(()), Some(_)) => {
                StoreError::Unavailable { reason: "a fault on purpose".to_owned() }
            }
            (Err(error), _) if is_busy(&error) => StoreError::Locked(self.timeout),
            (Err(error), _) => store_error(&error),
        };
        // SQLite writes the page that makes a transaction count last: one for which there was no
        // room, or no lock, does not count. An I/O error may come after it.
        if matches!(error, StoreError::Full | StoreError::Locked(_) | StoreError::ReadOnly) {
            telemetry::committed(seconds, "failed");
            return Err(error.into());
        }
        telemetry::committed(seconds, "unknown");
        self.mark.may_have_left(seq);
        Err(Ended::Unknown(error.to_string()))
    }

    fn look_around(&mut self) -> Result<(), Ended> {
        let mut statement = self.conn.prepare_cached(sql::DATA_VERSION)?;
        let version = statement.query_row((), |row| row.get(0))?;
        let before = self.neighbours.data_version.replace(version);
        // Those of this process wait for their turn and need no such chance.
        let inside = self.turn.as_mut().is_some_and(|turn| std::mem::take(&mut turn.inside));
        self.neighbours.wrote = !inside && before.is_some_and(|before| before != version);
        Ok(())
    }

    /// In the transaction that was begun, makes every later attempt newer than all that the lost
    /// history knew (`protocol.md` 2), and commits. Through this connection, so only while it
    /// speaks for the file at the path.
    pub(super) fn raise_epoch(&self, trip: &Trip) {
        // Another node has raised it already.
        if matches!(trip, Trip::Epoch { .. }) || self.guard.files().check().is_err() {
            return self.roll_back();
        }
        let raised = self.execute(sql::RAISE_EPOCH).and_then(|()| self.execute(sql::COMMIT));
        if let Err(error) = raised {
            tracing::warn!(%error, "the epoch could not be raised");
        }
        self.roll_back();
    }

    fn execute(&self, sql: &str) -> rusqlite::Result<()> {
        self.conn.prepare_cached(sql)?.execute(()).map(drop)
    }

    /// Ends the transaction that may be open, and the turn.
    pub(super) fn end(&mut self) {
        self.roll_back();
        self.turn = None;
    }

    fn roll_back(&self) {
        if self.conn.is_autocommit() {
            return;
        }
        if let Err(error) = self.execute(sql::ROLLBACK) {
            tracing::warn!(%error, "a transaction could not be rolled back");
        }
    }

    /// Brings the log into the database and cuts it to nothing, unless somebody is reading it.
    ///
    /// # Errors
    /// When it cannot be brought in.
    pub(super) fn checkpoint(&self) -> rusqlite::Result<()> {
        checkpoint(&self.conn)
    }

    /// Closes the store in order.
    pub(super) fn close(self) {
        self.roll_back();
        if self.guard.files().check().is_ok() {
            warn_of(self.checkpoint());
            close(self.conn);
        } else {
            self.abandon();
        }
    }

    /// Closes a store whose files were replaced, without harm to what is at the path now.
    ///
    /// All other connections of this store are closed already.
    pub(super) fn abandon(self) {
        self.roll_back();
        let Self { conn, guard, timeout, .. } = self;
        let files = guard.files();
        let left_over = files.companions_are_left_over();
        if left_over {
            // Into the file that was opened, wherever that is now.
            warn_of(checkpoint(&conn));
        }
        // Nothing of ours may go into what is at the path, and nothing there be removed.
        match conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true) {
            Ok(_) => close(conn),
            // Leaked rather than closed wrongly; the process is to be restarted anyway.
            Err(_) => std::mem::forget(conn),
        }
        if left_over && files.log_bytes() == 0 {
            files.remove_companions();
        }
        if files.successor_is_apart()
            && let Err(error) = open::raise_epoch(files.path(), timeout)
        {
            tracing::warn!(%error, "the epoch of the new file could not be raised");
        }
    }
}

/// Whether it is done, or somebody is reading the log, is seen by the log's length.
fn checkpoint(conn: &Connection) -> rusqlite::Result<()> {
    conn.query_row(sql::CHECKPOINT, (), |_| Ok(()))
}

fn warn_of(checkpointed: rusqlite::Result<()>) {
    if let Err(error) = checkpointed {
        tracing::warn!(%error, "the write-ahead log could not be checkpointed");
    }
}

fn close(conn: Connection) {
    if let Err((_, error)) = conn.close() {
        tracing::warn!(%error, "the store's connection did not close in order");
    }
}
