//! What the connection of an application's transaction permits while the application has it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use parking_lot::Mutex;
use sqlx::{Error, SqliteConnection};

/// How many of SQLite's instructions go by between two looks at the clock: well below a millisecond.
const INSTRUCTIONS: i32 = 10_000;

/// The rules of one transaction.
///
/// SQLite takes a transaction back by itself when the disk is full or an `ON CONFLICT ROLLBACK`
/// asks for it; every statement behind that would commit on its own, without a record. So nothing
/// is committed before the end says so: SQLite turns it into a rollback.
#[derive(Default)]
pub(super) struct Rules {
    may_commit: AtomicBool,
    cut_at: Mutex<Option<Instant>>,
}

impl Rules {
    /// Puts them in force on a connection, in place of those of the transaction before.
    pub(super) async fn put_on(self: &Arc<Self>, conn: &mut SqliteConnection) -> Result<(), Error> {
        let mut handle = conn.lock_handle().await?;
        let rules = Arc::clone(self);
        handle.set_commit_hook(move || rules.may_commit.load(Ordering::Acquire));
        let rules = Arc::clone(self);
        handle.set_progress_handler(INSTRUCTIONS, move || rules.has_time());
        Ok(())
    }

    pub(super) fn permit_commit(&self) {
        self.may_commit.store(true, Ordering::Release);
    }

    /// From here on no statement goes on.
    pub(super) fn cut_at(&self, moment: Option<Instant>) {
        *self.cut_at.lock() = moment;
    }

    fn has_time(&self) -> bool {
        self.cut_at.lock().is_none_or(|moment| Instant::now() < moment)
    }
}
