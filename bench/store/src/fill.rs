//! Many records at once: copies of one that the store itself wrote, each with an id, an owner and
//! times of its own. They are checked through the store.

use std::{error::Error, path::Path};

use hapax_core::{Found, RecordId};
use hapax_sql::SqliteStore;
use hapax_store::Lookup;
use rusqlite::{Connection, params};
use tokio::runtime::Builder;

use crate::payment::Order;

/// The tables in which the happy path leaves a row.
const TABLES: [&str; 3] = ["hapax_record", "hapax_ending", "hapax_body"];

/// So many records of one millisecond: about what a gateway takes.
const PER_MILLISECOND: i64 = 10;

/// How many of the copies are looked at.
const SAMPLES: u32 = 1_000;

type Failure = Box<dyn Error + Send + Sync>;

/// Adds copies of the newest record.
pub(crate) fn fill(database: &Path, records: u32, order: Order) -> Result<(), Failure> {
    let template = copy(database, records, order)?;
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(check(database, &template, records))
}

#[expect(
    clippy::disallowed_methods,
    reason = "rows in bulk, on a file that no store has open; a crash may lose them"
)]
fn copy(database: &Path, records: u32, order: Order) -> Result<Template, Failure> {
    let conn = Connection::open(database)?;
    conn.execute_batch(
        "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -2000000;
         PRAGMA locking_mode = EXCLUSIVE;",
    )?;
    let newest = "SELECT claim, id FROM hapax_record ORDER BY claim DESC LIMIT 1";
    let (claim, id) = conn.query_row(newest, (), |row| Ok((row.get::<_, i64>(0)?, row.get(1)?)))?;
    conn.execute_batch("BEGIN")?;
    for table in TABLES {
        let copied = conn.execute(&copying(&conn, table, order)?, params![claim, records])?;
        if copied != usize::try_from(records)? {
            return Err(format!("{table}: {copied} rows instead of {records}").into());
        }
    }
    conn.execute_batch("COMMIT; PRAGMA journal_mode = WAL")?;
    Ok(Template { claim, id })
}

struct Template {
    claim: i64,
    id: [u8; 32],
}

/// The statement that copies the row of claim `?1` so often (`?2`), as the `n` claims behind it. The
/// columns are those that the table has, whatever the schema's version.
fn copying(conn: &Connection, table: &str, order: Order) -> rusqlite::Result<String> {
    let mut columns = conn.prepare("SELECT name FROM pragma_table_info(?1)")?;
    let columns = columns.query_map([table], |row| row.get::<_, String>(0))?;
    let columns = columns.collect::<rusqlite::Result<Vec<_>>>()?;
    let values = columns.iter().map(|column| value(column, order)).collect::<Vec<_>>();
    Ok(format!(
        "WITH RECURSIVE ns (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM ns WHERE n < ?2) \
         INSERT INTO {table} ({}) SELECT {} FROM ns CROSS JOIN {table} t WHERE t.claim = ?1",
        columns.join(", "),
        values.join(", ")
    ))
}

/// What a copy has in a column. Times are earlier than the template's, each a little later than the
/// one before.
fn value(column: &str, order: Order) -> String {
    let earlier = format!("(?2 - n) * 1000 / {PER_MILLISECOND}");
    match column {
        "claim" => "?1 + n".to_owned(),
        "owner" => "randomblob(16)".to_owned(),
        "id" => match order {
            Order::Random => "randomblob(32)".to_owned(),
            // The first six bytes are the time in the key, in milliseconds.
            Order::Time => format!(
                "unhex(printf('%012x', (SELECT created FROM hapax_record WHERE claim = ?1) / 1000 \
                 - (?2 - n) / {PER_MILLISECOND} - 1) || hex(randomblob(26)))"
            ),
        },
        "lease_end" | "first_admitted" | "created" | "at" | "outcome_until" | "tombstone_until"
        | "due" => format!("t.{column} - {earlier}"),
        _ => format!("t.{column}"),
    }
}

/// Copies are records as the store reads them, and differ from their template by nothing else.
async fn check(database: &Path, template: &Template, records: u32) -> Result<(), Failure> {
    let ids = ids(database, template.claim, records)?;
    let store = SqliteStore::open_read_only(database)?;
    let wanted = store.find(RecordId::from_bytes(template.id)).await?;
    let wanted = wanted.ok_or("the template is gone")?;
    for id in ids {
        let found = store.find(RecordId::from_bytes(id)).await?.ok_or("a copy is not found")?;
        if like(&found, &wanted) != like(&wanted, &wanted) {
            return Err(format!("a copy is {found:?}, its template {wanted:?}").into());
        }
    }
    Ok(())
}

/// A record with the identity and the times of another.
fn like(found: &Found, other: &Found) -> Found {
    let mut like = found.clone();
    like.now = other.now;
    like.record.id = other.record.id;
    like.record.claim = other.record.claim;
    like.record.owner = other.record.owner;
    like.record.created = other.record.created;
    like.record.lease_end = other.record.lease_end;
    like.record.first_admitted = other.record.first_admitted;
    if let (Some(ending), Some(of_other)) = (&mut like.record.ending, &other.record.ending) {
        (ending.at, ending.until) = (of_other.at, of_other.until);
    }
    like
}

/// The ids of some copies, spread over all of them.
fn ids(database: &Path, claim: i64, records: u32) -> rusqlite::Result<Vec<[u8; 32]>> {
    let conn = Connection::open(database)?;
    let sql = "SELECT id FROM hapax_record WHERE claim > ?1 AND (claim - ?1) % ?2 = 0 LIMIT ?3";
    let every = (records / SAMPLES).max(1);
    let mut ids = conn.prepare(sql)?;
    ids.query_map(params![claim, every, SAMPLES], |row| row.get(0))?.collect()
}

#[cfg(test)]
mod tests {
    use hapax_core::OperationName;
    use hapax_sql::SqliteConfig;
    use hapax_store::{Claimed, Claims, Owned};

    use super::*;
    use crate::payment;

    #[test]
    fn copies_are_records_that_the_store_reads_and_a_new_claim_follows_them() {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        for order in [Order::Time, Order::Random] {
            let folder = tempfile::tempdir().unwrap();
            let database = folder.path().join("many.db");
            let one_pair = || async {
                let store = SqliteStore::open(SqliteConfig::new(&database)).unwrap();
                let operation = OperationName::new("payments.create").unwrap();
                let claim = payment::claim(order, &operation).unwrap();
                let Ok(Claimed::Ours(record)) = store.claim(claim).await else { panic!("ours") };
                store.settle(record.ownership(), payment::settlement()).await.unwrap();
                store.close().await;
                record.claim.0
            };
            let before = runtime.block_on(one_pair());
            fill(&database, 2_500, order).unwrap();
            assert_eq!(runtime.block_on(one_pair()), before + 2_501);
        }
    }
}
