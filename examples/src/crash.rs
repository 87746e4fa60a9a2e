//! Crashes on purpose, for the tests of the examples: the environment says where this process is
//! to end without a word, as with a power cut of the machine.
//!
//! `HAPAX_EXAMPLES_CRASH` is `row N` (in the middle of the N-th row that is written), or
//! `at NAME` (at that place in the program). Counting begins when the server is ready, and what the
//! program does until then is not counted.

use std::{
    env, process,
    sync::{
        LazyLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use sqlx::sqlite::LockedSqliteHandle;

enum Where {
    Row(u64),
    At(String),
}

static WHERE: LazyLock<Option<Where>> = LazyLock::new(|| {
    let text = env::var("HAPAX_EXAMPLES_CRASH").ok()?;
    let (kind, which) = text.split_once(' ')?;
    match kind {
        "row" => which.parse().ok().map(Where::Row),
        "at" => Some(Where::At(which.to_owned())),
        _ => None,
    }
});

static ARMED: AtomicBool = AtomicBool::new(false);
static ROWS: AtomicU64 = AtomicU64::new(0);

/// Counts from here on.
pub fn arm() {
    ARMED.store(true, Ordering::SeqCst);
}

/// A place with a name, at which a test may have the process end.
pub fn here(name: &str) {
    if matches!(&*WHERE, Some(Where::At(place)) if place == name) {
        process::abort();
    }
}

/// Watches what is written through a connection. SQLite reports no rows of tables without row ids.
///
/// # Errors
/// None; it is what a hook of the pool returns.
pub fn watch(connection: &mut LockedSqliteHandle<'_>) -> Result<(), sqlx::Error> {
    if let Some(Where::Row(last)) = &*WHERE {
        connection.set_update_hook(|_| {
            if ARMED.load(Ordering::SeqCst) && ROWS.fetch_add(1, Ordering::SeqCst) + 1 == *last {
                process::abort();
            }
        });
    }
    Ok(())
}
