//! Forgetting what is over, and never anything else: an attempt without an ending has no due time.

use std::time::Duration;

use hapax_core::StoreTime;
use hapax_store::Swept;
use rusqlite::params;

use super::{error::Failure, guard::NodeId, sql, view::Tx};

/// How long the mark of a node that is gone is kept. A node that slept for longer finds its mark
/// missing and stops, which is the safe side.
const DEAD_MARK: Duration = Duration::from_secs(30 * 86_400);

/// How many bytes of bodies and of steps one sweep drops, roughly: SQLite walks each large one, and
/// claims wait.
const BODY_BYTES: i64 = 16 << 20;

pub(super) fn sweep(
    tx: &Tx<'_>,
    own_clock: StoreTime,
    limit: usize,
    node: &NodeId,
) -> Result<Swept, Failure> {
    // Over by both clocks.
    let now = tx.now.min(own_clock).as_micros();
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);

    let outcomes = outcomes_over(tx, now, limit)?;
    if !outcomes.is_empty() {
        let claims = json(&outcomes);
        for sweep in [sql::DROP_BODIES, sql::SWEEP_STEPS, sql::BURY] {
            tx.execute(sweep, [&claims])?;
        }
    }
    let tombstones = tx.all(sql::TOMBSTONES_OVER, params![now, limit], |row| row.get(0))?;
    if !tombstones.is_empty() {
        let claims = json(&tombstones);
        // A record without its ending would read as executing: they go together.
        for purge in [
            sql::DROP_BODIES,
            sql::SWEEP_STEPS,
            sql::PURGE_HISTORY,
            sql::PURGE_ENDINGS,
            sql::PURGE_RECORDS,
        ] {
            tx.execute(purge, [&claims])?;
        }
    }
    tx.execute(sql::PURGE_OBSERVED, params![now, limit])?;
    // By both clocks, too: a clock that jumped is no sign that a node is gone.
    let dead = tx.now.min(own_clock).before(DEAD_MARK).as_micros();
    tx.execute(sql::PURGE_MARKS, params![dead, node.as_bytes()])?;
    Ok(Swept { bodies: outcomes.len(), purged: tombstones.len() })
}

fn outcomes_over(tx: &Tx<'_>, now: i64, limit: i64) -> Result<Vec<i64>, Failure> {
    let over =
        tx.all(sql::OUTCOMES_OVER, params![now, limit], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let mut bytes = 0_i64;
    let within = |&(_, length): &(i64, i64)| {
        let fits = bytes < BODY_BYTES;
        bytes = bytes.saturating_add(length);
        fits
    };
    Ok(over.into_iter().take_while(within).map(|(claim, _)| claim).collect())
}

/// The numbers as one parameter: one statement deletes them all.
fn json(claims: &[i64]) -> String {
    let numbers = claims.iter().map(i64::to_string).collect::<Vec<_>>();
    format!("[{}]", numbers.join(","))
}
