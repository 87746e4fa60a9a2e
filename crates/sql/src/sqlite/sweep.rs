//! Forgetting what is over, and never anything else: an attempt without an ending has no due time.

use std::time::Duration;

use hapax_core::StoreTime;
use hapax_store::Swept;
use rusqlite::params;

use super::{error::Failure, guard::NodeId, sql, view::Tx};

/// How long the mark of a node that is gone is kept. A node that slept for longer finds its mark
/// missing and stops, which is the safe side.
const DEAD_MARK: Duration = Duration::from_secs(86_400);

pub(super) fn sweep(
    tx: &Tx<'_>,
    own_clock: StoreTime,
    limit: usize,
    node: &NodeId,
) -> Result<Swept, Failure> {
    // Over by both clocks.
    let now = tx.now.min(own_clock).as_micros();
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let over = |sql| tx.all(sql, params![now, limit], |row| row.get(0));

    let outcomes = over(sql::OUTCOMES_OVER)?;
    if !outcomes.is_empty() {
        let claims = json(&outcomes);
        tx.execute(sql::DROP_BODIES, [&claims])?;
        tx.execute(sql::BURY, [&claims])?;
    }
    let tombstones = over(sql::TOMBSTONES_OVER)?;
    if !tombstones.is_empty() {
        let claims = json(&tombstones);
        // A record without its ending would read as executing: they go together.
        for purge in [sql::DROP_BODIES, sql::PURGE_HISTORY, sql::PURGE_ENDINGS, sql::PURGE_RECORDS]
        {
            tx.execute(purge, [&claims])?;
        }
    }
    tx.execute(sql::PURGE_OBSERVED, params![now, limit])?;
    let dead = tx.now.before(DEAD_MARK).as_micros();
    tx.execute(sql::PURGE_MARKS, params![dead, node.as_bytes()])?;
    Ok(Swept { bodies: outcomes.len(), purged: tombstones.len() })
}

/// The numbers as one parameter: one statement deletes them all.
fn json(claims: &[i64]) -> String {
    let numbers = claims.iter().map(i64::to_string).collect::<Vec<_>>();
    format!("[{}]", numbers.join(","))
}
