//! The SQLite store keeps every rule that stores are held to.
#![allow(clippy::disallowed_methods, clippy::expect_used, reason = "tests")]

use std::{path::PathBuf, sync::Arc};

use hapax_core::RecordId;
use hapax_sql::{Fault, SqliteConfig, SqliteStore};
use hapax_store::{
    ManualClock, Store,
    conformance::{Harness, Unsupported},
};
use rusqlite::Connection;
use tempfile::TempDir;

/// One file; each node is a handle of its own, as in another process.
struct Sqlite {
    dir: TempDir,
    shared: bool,
    clock: Arc<ManualClock>,
    node: Arc<SqliteStore>,
    kept: u32,
}

impl Sqlite {
    fn fresh() -> Self {
        Self::in_dir(tempfile::tempdir().expect("a directory"), false)
    }

    /// In the database of an application, beside tables of its own.
    fn beside_others() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let application = Connection::open(dir.path().join("hapax.db")).expect("a file");
        let tables = "CREATE TABLE record (id INTEGER PRIMARY KEY, what TEXT);
                      CREATE TABLE step (name TEXT);
                      INSERT INTO record (what) VALUES ('theirs')";
        application.execute_batch(tables).expect("its tables");
        Self::in_dir(dir, true)
    }

    fn in_dir(dir: TempDir, shared: bool) -> Self {
        let clock = Arc::new(ManualClock::new());
        let node = open(&dir, &clock, shared);
        Self { dir, shared, clock, node, kept: 0 }
    }

    /// Somebody with a SQLite shell.
    fn shell(&self) -> Connection {
        let shell = Connection::open(self.dir.path().join("hapax.db")).expect("the file opens");
        shell.busy_timeout(std::time::Duration::from_secs(5)).expect("a timeout is set");
        shell
    }

    fn kept(&self) -> PathBuf {
        self.dir.path().join(format!("kept-{}.db", self.kept))
    }
}

fn open(dir: &TempDir, clock: &Arc<ManualClock>, shared: bool) -> Arc<SqliteStore> {
    let config = SqliteConfig::new(dir.path().join("hapax.db"));
    let config = SqliteConfig { clock: clock.clone(), shared, ..config };
    Arc::new(SqliteStore::open(config).expect("the store opens"))
}

impl Harness for Sqlite {
    fn clock(&self) -> &ManualClock {
        &self.clock
    }

    fn node(&self) -> Arc<dyn Store> {
        self.node.clone()
    }

    async fn second_node(&mut self) -> Arc<dyn Store> {
        open(&self.dir, &self.clock, self.shared)
    }

    async fn reopen(&mut self) -> Arc<dyn Store> {
        self.node.close().await;
        self.node = open(&self.dir, &self.clock, self.shared);
        self.node()
    }

    async fn keep_moment(&mut self) -> Result<(), Unsupported> {
        self.kept += 1;
        let kept = self.kept();
        let kept = kept.to_str().expect("a plain path");
        self.shell().execute("VACUUM INTO ?1", [kept]).expect("a copy is made");
        Ok(())
    }

    async fn go_back(&mut self) -> Result<(), Unsupported> {
        let shell = self.shell();
        let kept = self.kept();
        let kept = kept.to_str().expect("a plain path");
        shell.execute("ATTACH ?1 AS kept", [kept]).expect("the copy opens");
        let tables = shell
            .prepare("SELECT name FROM main.sqlite_schema WHERE type = 'table'")
            .expect("a query")
            .query_map((), |row| row.get::<_, String>(0))
            .expect("a list")
            .collect::<Result<Vec<_>, _>>()
            .expect("a list");
        let back = tables.iter().map(|table| {
            format!(
                "DELETE FROM main.{table}; INSERT INTO main.{table} SELECT * FROM kept.{table};"
            )
        });
        let script = format!("BEGIN IMMEDIATE; {} COMMIT", back.collect::<String>());
        shell.execute_batch(&script).expect("the copy is restored");
        Ok(())
    }

    async fn change_incarnation(&mut self) -> Result<(), Unsupported> {
        let changed = self.shell().execute("UPDATE hapax_store SET epoch = epoch + 1", ());
        assert_eq!(changed, Ok(1));
        Ok(())
    }

    async fn lose_next_answer(&mut self, committed: bool) -> Result<(), Unsupported> {
        self.node.put_in_the_way(Fault::LostAnswer { committed });
        Ok(())
    }

    async fn erase_lease(&mut self, id: RecordId) -> Result<(), Unsupported> {
        let sql = "UPDATE hapax_record SET lease_end = NULL WHERE id = ?1";
        assert_eq!(self.shell().execute(sql, [id.as_bytes()]), Ok(1));
        Ok(())
    }
}

hapax_store::conformance_tests!(Sqlite::fresh());

mod in_an_applications_database {
    use super::Sqlite;

    hapax_store::conformance_tests!(Sqlite::beside_others());
}
