//! Bringing a file's schema up to date. What was applied is kept in a table of its own.

use rusqlite::{Connection, params};
use sha2::{Digest, Sha256};

/// A step of the schema; its text never changes once it was released.
struct Migration {
    version: u32,
    name: &'static str,
    text: &'static str,
}

const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, name: "records", text: include_str!("migrations/0001_records.sql") },
    Migration {
        version: 2,
        name: "unknown outcomes",
        text: include_str!("migrations/0002_unknown_outcomes.sql"),
    },
    Migration { version: 3, name: "verdicts", text: include_str!("migrations/0003_verdicts.sql") },
];

const TABLE: &str = "CREATE TABLE IF NOT EXISTS _hapax_migrations (
    version  INTEGER PRIMARY KEY,
    name     TEXT NOT NULL,
    checksum BLOB NOT NULL,
    applied  INTEGER NOT NULL
) STRICT";

/// The newest version that this hapax knows.
pub(super) const KNOWN: u32 = 3;

/// What a file is, by its tables.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Content {
    /// Nothing yet.
    Empty,
    /// A store of hapax, in some version.
    Hapax,
    /// A database of something else.
    Foreign,
}

pub(super) fn content(conn: &Connection) -> rusqlite::Result<Content> {
    let sql = "SELECT count(*), count(*) FILTER (WHERE name = '_hapax_migrations') \
               FROM sqlite_schema WHERE type = 'table'";
    let (tables, ours) = conn.query_row(sql, (), |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(match (tables, ours) {
        (0_i64, _) => Content::Empty,
        (_, 0_i64) => Content::Foreign,
        _ => Content::Hapax,
    })
}

/// How a file's schema compares with the known one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Schema {
    /// It is the known one.
    Current,
    /// It lacks something.
    Older(u32),
    /// It has more than this hapax knows.
    Newer(u32),
    /// It was made by another text of this migration.
    Other(u32),
}

pub(super) fn schema(conn: &Connection) -> rusqlite::Result<Schema> {
    let mut statement =
        conn.prepare("SELECT version, checksum FROM _hapax_migrations ORDER BY version")?;
    let mut rows = statement.query(())?;
    let mut found = 0;
    while let Some(row) = rows.next()? {
        found = row.get(0)?;
        let known = MIGRATIONS.iter().find(|migration| migration.version == found);
        if let Some(known) = known
            && known.checksum() != row.get::<_, Vec<u8>>(1)?[..]
        {
            return Ok(Schema::Other(found));
        }
    }
    Ok(match found {
        KNOWN => Schema::Current,
        found if found > KNOWN => Schema::Newer(found),
        found => Schema::Older(found),
    })
}

/// Applies what is missing, inside the caller's transaction. Two processes that start at once
/// come here one after the other.
pub(super) fn bring_up(conn: &Connection, now_micros: i64) -> rusqlite::Result<Schema> {
    conn.execute_batch(TABLE)?;
    let found = match schema(conn)? {
        Schema::Older(found) => found,
        other => return Ok(other),
    };
    for migration in MIGRATIONS.iter().filter(|migration| migration.version > found) {
        conn.execute_batch(migration.text)?;
        conn.execute(
            "INSERT INTO _hapax_migrations (version, name, checksum, applied) \
             VALUES (?1, ?2, ?3, ?4)",
            params![migration.version, migration.name, migration.checksum(), now_micros],
        )?;
        tracing::info!(version = migration.version, name = migration.name, "schema brought up");
    }
    Ok(Schema::Current)
}

impl Migration {
    fn checksum(&self) -> [u8; 32] {
        Sha256::digest(self.text).into()
    }
}

#[cfg(test)]
mod tests {
    use hapax_core::{OperationName, State};
    use hapax_store::ListFilter;

    use super::*;
    use crate::sqlite::{inspect, sql};

    fn fresh() -> Connection {
        let conn = Connection::open_in_memory().expect("memory");
        assert_eq!(content(&conn), Ok(Content::Empty));
        assert_eq!(bring_up(&conn, 0), Ok(Schema::Current));
        conn
    }

    #[test]
    fn the_newest_migration_is_the_known_version() {
        let versions = MIGRATIONS.iter().map(|migration| migration.version).collect::<Vec<_>>();
        assert_eq!(versions, (1..=KNOWN).collect::<Vec<_>>());
    }

    #[test]
    fn applying_again_changes_nothing() {
        let conn = fresh();
        assert_eq!(bring_up(&conn, 1), Ok(Schema::Current));
        let applied = "SELECT applied FROM _hapax_migrations";
        assert_eq!(conn.query_row(applied, (), |row| row.get(0)), Ok(0_i64));
        assert_eq!(content(&conn), Ok(Content::Hapax));
    }

    #[test]
    fn a_store_of_the_first_version_is_brought_up_and_keeps_what_it_knows() {
        let conn = Connection::open_in_memory().expect("memory");
        conn.execute_batch(TABLE).expect("a table");
        let first = &MIGRATIONS[0];
        conn.execute_batch(first.text).expect("the schema of then");
        conn.execute(
            "INSERT INTO _hapax_migrations VALUES (1, 'records', ?1, 0)",
            [first.checksum()],
        )
        .expect("noted");
        // Claims 1 uncertain, 2 uncertain and settled since, 3 a plain success, 4 a second attempt.
        conn.execute_batch(
            "INSERT INTO hapax_policy (n, digest) VALUES (1, x'01');
             INSERT INTO hapax_record (id, attempt, owner, state, fingerprint, policy, lease_end,
                clean, progress, secret_version, created)
             VALUES (x'01', 1, x'0a', 2, x'', 1, 7, 1, 0, 1, 0),
                    (x'02', 1, x'0a', 2, x'', 1, 7, 1, 0, 1, 0),
                    (x'03', 1, x'0a', 1, x'', 1, 7, 1, 0, 1, 0),
                    (x'04', 2, x'0a', 1, x'', 1, 8, 0, 0, 1, 0);
             INSERT INTO hapax_ending (claim, attempt, kind, class, status, kept, at, outcome_until,
                tombstone_until)
             VALUES (2, 1, 0, 0, 201, 1, 5, 9, 9), (3, 1, 0, 0, 201, 1, 5, 9, 9);
             INSERT INTO hapax_history VALUES (1, 1, 5, 1, 'uncertain');",
        )
        .expect("what was there");
        assert_eq!(schema(&conn), Ok(Schema::Older(1)));
        assert_eq!(bring_up(&conn, 1), Ok(Schema::Current));
        let mut watched = conn.prepare("SELECT claim, due FROM hapax_watch").expect("a table");
        let watched = watched.query_map((), |row| Ok((row.get(0)?, row.get(1)?)));
        let watched = watched.expect("rows").collect::<rusqlite::Result<Vec<(i64, i64)>>>();
        assert_eq!(watched, Ok(vec![(1, 7), (4, 8)]), "what has no ending is looked for");
        let kept = "SELECT what || coalesce(actor, '') FROM hapax_history";
        let kept = conn.query_row(kept, (), |row| row.get::<_, String>(0));
        assert_eq!(kept.as_deref(), Ok("uncertain"));
    }

    #[test]
    fn every_statement_prepares_on_a_fresh_schema() {
        let conn = fresh();
        for (name, text) in sql::ALL {
            // The head of a statement, and statements without tables.
            if *name == "LIST_HEAD" || name.ends_with("_SAVEPOINT") {
                continue;
            }
            assert!(conn.prepare(text).is_ok(), "{name}: {:?}", conn.prepare(text).err());
        }
    }

    #[test]
    fn every_listing_prepares_on_a_fresh_schema() {
        let conn = fresh();
        let states = [
            State::Claimed,
            State::Executing,
            State::Released,
            State::Succeeded,
            State::FailedTerminal,
            State::Uncertain,
            State::Tombstone,
        ];
        for state in states.into_iter().map(Some).chain([None]) {
            let operation = OperationName::new("pay").ok();
            let filter = ListFilter { state, operation, limit: 1, ..ListFilter::default() };
            let text = inspect::statement(&filter);
            let statement = conn.prepare(&text).expect("prepares");
            assert_eq!(statement.parameter_count(), 5, "{text}");
        }
    }

    /// Work at every claim, settle, sweep and look-up goes by an index.
    #[test]
    fn no_statement_of_the_usual_way_scans_a_table_of_records() {
        let conn = fresh();
        let scans = |text: &str| {
            let mut statement = conn.prepare(&format!("EXPLAIN QUERY PLAN {text}")).expect("plan");
            let count = statement.parameter_count();
            let nulls = std::iter::repeat_n(rusqlite::types::Null, count);
            let rows = statement
                .query_map(rusqlite::params_from_iter(nulls), |row| row.get::<_, String>(3));
            let rows = rows.expect("plan").collect::<rusqlite::Result<Vec<_>>>().expect("plan");
            let full = |row: &String| row.starts_with("SCAN") && !row.contains("json_each");
            rows.into_iter().filter(full).collect::<Vec<_>>()
        };
        for (name, text) in sql::ALL {
            let whole = [
                "OBSERVED",
                // Policies are few.
                "OPERATIONS",
                "STANDING",
                "LOOK",
                "RAISE_EPOCH",
                "PURGE_MARKS",
                "LIST_HEAD",
                "DURABILITY",
                "EPOCH_AND_POLICY",
                "DOUBTS",
            ];
            let plain =
                ["BEGIN", "BEGIN_READING", "COMMIT", "ROLLBACK", "DATA_VERSION", "CHECKPOINT"];
            let is_plain =
                plain.contains(name) || name.ends_with("_PART") || name.ends_with("_SAVEPOINT");
            if whole.contains(name) || is_plain {
                continue;
            }
            assert_eq!(scans(text), Vec::<String>::new(), "{name}");
        }
        let uncertain = ListFilter { state: Some(State::Uncertain), ..ListFilter::default() };
        let plan = conn
            .prepare(&format!("EXPLAIN QUERY PLAN {}", inspect::statement(&uncertain)))
            .expect("plan")
            .query_map([None::<i64>; 5], |row| row.get::<_, String>(3))
            .expect("plan")
            .collect::<rusqlite::Result<Vec<_>>>()
            .expect("plan");
        assert!(plan.iter().any(|row| row.contains("hapax_record_uncertain")), "{plan:?}");
    }
}
