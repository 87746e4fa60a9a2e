//! Opening: what is made, what is checked, and what each failure says.
#![allow(clippy::disallowed_methods, clippy::expect_used, clippy::panic, reason = "tests")]

mod kit;

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
    time::{Duration, Instant},
};

use hapax_core::PolicyDigest;
use hapax_sql::{OpenError, SqliteConfig, SqliteStore};
use hapax_store::{Claims, Inspect, ListFilter, Lookup, Policies, StoreError};
use kit::*;

fn refused(path: impl AsRef<Path>) -> OpenError {
    match SqliteStore::open(SqliteConfig::new(path.as_ref())) {
        Ok(store) => panic!("{store:?} opened"),
        Err(error) => error,
    }
}

/// The message, with the directory taken out.
fn message(place: &Place, error: &OpenError) -> String {
    error.to_string().replace(place.dir().to_str().expect("a plain path"), "DIR")
}

#[tokio::test]
async fn a_new_file_belongs_to_its_owner_and_has_a_synced_log() {
    let place = Place::new();
    let store = place.open();
    executing(&store).await;
    for suffix in ["", "-wal", "-shm"] {
        let found = fs::metadata(place.beside(suffix)).expect("it is there");
        assert_eq!(found.permissions().mode() & 0o777, 0o600, "{suffix}");
    }
    let shell = place.shell();
    let mode = shell.pragma_query_value(None, "journal_mode", |row| row.get::<_, String>(0));
    assert_eq!(mode.expect("a mode"), "wal");
    let page = shell.pragma_query_value(None, "page_size", |row| row.get::<_, i64>(0));
    assert_eq!(page.expect("a size"), 4096);
}

#[test]
fn what_is_no_path_of_a_file_is_refused() {
    let place = Place::new();
    let expected = "the store cannot be \":memory:\": records have to survive a restart; give the \
                    path of a file, such as hapax.db";
    assert_eq!(refused(":memory:").to_string(), expected);
    assert!(matches!(refused(""), OpenError::NotAPath(_)));
    assert!(matches!(refused("file:hapax.db?mode=memory"), OpenError::NotAPath(_)));
    assert_eq!(
        message(&place, &refused(place.dir())),
        "DIR is a directory; give the path of a file in it, such as DIR/hapax.db"
    );
    assert_eq!(
        message(&place, &refused(place.dir().join("no/such/hapax.db"))),
        "the directory of DIR/no/such/hapax.db does not exist; create it first"
    );
    assert!(matches!(refused("/dev/null"), OpenError::NotAFile(_)));
}

#[test]
fn garbage_is_no_database_and_is_left_alone() {
    for garbage in ["garbage".to_owned(), "garbage ".repeat(1000)] {
        let place = Place::new();
        fs::write(place.file(), &garbage).expect("a file");
        assert_eq!(
            message(&place, &refused(place.file())),
            "DIR/hapax.db is not a SQLite database; give another path, or move the file away"
        );
        assert_eq!(fs::read_to_string(place.file()).expect("a file"), garbage);
    }
}

#[test]
fn another_programs_database_is_left_alone() {
    let place = Place::new();
    place.shell().execute("CREATE TABLE orders (id INTEGER)", ()).expect("a table");
    assert_eq!(
        message(&place, &refused(place.file())),
        "DIR/hapax.db is a SQLite database of another program; give hapax a file of its own, such \
         as hapax.db. An application that keeps hapax's tables in its own database opens it with \
         SqliteConfig::shared"
    );
    let mode = place.shell().pragma_query_value(None, "journal_mode", |row| row.get(0));
    assert_eq!(mode, Ok("delete".to_owned()), "not even its journal mode was changed");
}

#[tokio::test]
async fn an_applications_database_takes_our_tables_beside_its_own_and_keeps_what_is_its() {
    let place = Place::new();
    let shell = place.shell();
    let own = "PRAGMA page_size = 8192; PRAGMA user_version = 7; PRAGMA application_id = 9;
               CREATE TABLE record (id INTEGER PRIMARY KEY AUTOINCREMENT, what TEXT);
               CREATE INDEX record_what ON record (what);
               INSERT INTO record (what) VALUES ('theirs')";
    shell.execute_batch(own).expect("an application was here");
    let config = SqliteConfig { shared: true, ..SqliteConfig::new(place.file()) };
    let store = SqliteStore::open(config.clone()).expect("it opens");
    let record = executing(&store).await;
    let shared = SqliteStore::open(config).expect("it opens again");
    assert!(shared.find(record.id).await.expect("a find").is_some());
    // The application goes on.
    shell.execute("INSERT INTO record (what) VALUES ('still theirs')", ()).expect("its table");
    let kept = ["user_version", "application_id", "page_size"].map(|name| {
        shell.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).expect("a number")
    });
    assert_eq!(kept, [7, 9, 8192]);
    let mode = shell.pragma_query_value(None, "journal_mode", |row| row.get::<_, String>(0));
    assert_eq!(mode.expect("a mode"), "wal");
    assert_eq!(number(&shell, "SELECT count(*) FROM record"), 2);
    let strays = "SELECT count(*) FROM sqlite_schema WHERE type IN ('table', 'index') \
                  AND name NOT GLOB 'hapax_*' AND name NOT GLOB '_hapax_*' \
                  AND name NOT GLOB 'sqlite_*'";
    assert_eq!(number(&shell, strays), 2, "all other names are the application's");

    store.close().await;
    shared.close().await;
    let reader = SqliteStore::open_read_only(place.file()).expect("it is read");
    let listed = reader.list(ListFilter { limit: 10, ..ListFilter::default() }).await;
    assert_eq!(listed.expect("a list").len(), 1);
}

#[test]
fn an_applications_database_without_our_tables_is_not_read() {
    let place = Place::new();
    place.shell().execute("CREATE TABLE orders (id INTEGER)", ()).expect("a table");
    let foreign = SqliteStore::open_read_only(place.file()).expect_err("it has no records");
    assert!(matches!(foreign, OpenError::NotHapax(_)), "{foreign:?}");
}

#[tokio::test]
async fn a_damaged_file_is_told_from_garbage() {
    let place = Place::new();
    place.open().close().await;
    let mut bytes = fs::read(place.file()).expect("a file");
    // The schema's page: behind SQLite's header of 100 bytes.
    bytes[100..200].fill(0xff);
    fs::write(place.file(), bytes).expect("it is damaged");
    assert_eq!(
        message(&place, &refused(place.file())),
        "DIR/hapax.db is damaged (database disk image is malformed); restore it from a backup \
         while no hapax is running"
    );
}

#[tokio::test]
async fn a_newer_schema_names_both_versions() {
    let place = Place::new();
    place.open().close().await;
    let sql = "INSERT INTO _hapax_migrations VALUES (7, 'future', zeroblob(32), 0)";
    place.shell().execute(sql, ()).expect("a newer hapax was here");
    let expected = "DIR/hapax.db has schema version 7, this hapax knows versions up to 3; use the \
                    hapax that wrote it, or a newer one";
    assert_eq!(message(&place, &refused(place.file())), expected);
    let read_only = SqliteStore::open_read_only(place.file()).expect_err("it is newer");
    assert_eq!(message(&place, &read_only), expected);
}

#[tokio::test]
async fn another_migration_of_the_same_version_is_refused() {
    let place = Place::new();
    place.open().close().await;
    let sql = "UPDATE _hapax_migrations SET checksum = zeroblob(32)";
    place.shell().execute(sql, ()).expect("another hapax was here");
    assert_eq!(
        message(&place, &refused(place.file())),
        "migration 1 of DIR/hapax.db is not the one that this hapax knows; use the hapax that \
         made the file, or start with a new file if its records need not be kept"
    );
}

#[tokio::test]
async fn a_locked_file_is_waited_for_and_then_named() {
    let place = Place::new();
    place.open().close().await;
    let shell = place.shell();
    shell.execute_batch("BEGIN EXCLUSIVE").expect("the lock is free");
    let started = Instant::now();
    let config = SqliteConfig::new(place.file());
    let config = SqliteConfig { timeout: Duration::from_millis(500), ..config };
    let error = SqliteStore::open(config).expect_err("it is locked");
    assert!(started.elapsed() < Duration::from_millis(1500), "{:?}", started.elapsed());
    assert_eq!(
        message(&place, &error),
        "DIR/hapax.db stayed locked by another process for 500ms; find it (a backup, a SQLite \
         shell?) and let it finish"
    );
    shell.execute_batch("ROLLBACK").expect("it is given back");
    place.open();
}

#[test]
fn permissions_are_named() {
    let place = Place::new();
    fs::write(place.file(), "").expect("a file");
    let set = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("permissions");
    };
    // Whoever may do anything is refused nothing.
    if fs::metadata(place.dir()).expect("a directory").uid() == 0 {
        return;
    }
    set(&place.file(), 0o400);
    assert!(matches!(refused(place.file()), OpenError::ReadOnly(_)));
    set(&place.file(), 0o000);
    assert!(matches!(refused(place.file()), OpenError::PermissionDenied(_)));
    set(&place.file(), 0o600);
    set(place.dir(), 0o500);
    assert!(matches!(refused(place.file()), OpenError::PermissionDenied(_)));
    assert!(matches!(refused(place.dir().join("new.db")), OpenError::PermissionDenied(_)));
    set(place.dir(), 0o700);
}

#[tokio::test]
async fn a_reader_sees_a_store_that_is_written() {
    let place = Place::new();
    let missing = SqliteStore::open_read_only(place.file()).expect_err("nothing is there");
    assert_eq!(
        message(&place, &missing),
        "DIR/hapax.db does not exist; name the store that hapax serve uses"
    );
    assert!(!place.file().exists(), "looking makes no file");

    let store = place.open();
    let reader = SqliteStore::open_read_only(place.file()).expect("it opens");
    let record = executing(&store).await;
    let found = reader.find(record.id).await.expect("a find").expect("it is there");
    assert_eq!(found.record, record);
    let listed = reader.list(ListFilter { limit: 10, ..ListFilter::default() }).await;
    assert_eq!(listed.expect("a list").len(), 1);
    assert_eq!(reader.policy(PolicyDigest([3; 32])).await, Ok(None));
    assert_eq!(reader.claim(a_claim()).await, Err(StoreError::ReadOnly));
    store.close().await;
    assert!(reader.find(record.id).await.expect("a find").is_some());
    reader.close().await;

    // Nobody is there any more, and there is no log.
    let reader = SqliteStore::open_read_only(place.file()).expect("it opens");
    assert!(reader.find(record.id).await.expect("a find").is_some());
}

#[tokio::test]
async fn an_empty_or_foreign_file_is_not_read() {
    let place = Place::new();
    fs::write(place.file(), "").expect("a file");
    let empty = SqliteStore::open_read_only(place.file()).expect_err("it is empty");
    assert!(matches!(empty, OpenError::Unused(_)), "{empty:?}");
}

#[test]
fn many_may_open_a_new_file_at_once() {
    let place = Place::new();
    std::thread::scope(|scope| {
        let openings = (0..8).map(|_| scope.spawn(|| place.open())).collect::<Vec<_>>();
        for opening in openings {
            opening.join().expect("every one opens");
        }
    });
    assert_eq!(number(&place.shell(), "SELECT count(*) FROM hapax_store"), 1);
    let applied = "SELECT count(DISTINCT version) = count(*) FROM _hapax_migrations";
    assert_eq!(number(&place.shell(), applied), 1, "each migration is applied once");
}

#[tokio::test]
async fn a_symbolic_link_is_followed() {
    let place = Place::new();
    let real = place.dir().join("real");
    fs::create_dir(&real).expect("a directory");
    std::os::unix::fs::symlink(real.join("hapax.db"), place.file()).expect("a link");
    fs::write(real.join("hapax.db"), "").expect("a file");
    let store = place.open();
    executing(&store).await;
    assert!(real.join("hapax.db-wal").exists());
}
