//! Observe mode's table.

use hapax_core::{Observed, ObservedEnd, OperationName, OutcomeClass, RecordId, StoreTime, Would};
use hapax_store::Observation;
use rusqlite::{Row, params};

use super::{
    error::Failure,
    rows, sql,
    view::{Tx, View},
};

pub(super) fn arrive(tx: &Tx<'_>, arrival: &Observation) -> Result<Would, Failure> {
    let Observation { id, operation, keyed, fingerprint, timeout, rules, retention } = arrival;
    let lease_end = tx.now.after(*timeout);
    let seen = tx.first(sql::OBSERVED_BY_ID, [id.as_bytes()], observed_row)?;
    let (observed, would) = match seen {
        Some((mut observed, _)) => {
            let would = observed.arrive(*fingerprint, tx.now, lease_end, rules, *retention);
            (observed, would)
        }
        None => {
            let name = operation.clone();
            let observed = Observed::first(*id, name, *keyed, *fingerprint, tx.now, lease_end);
            (observed, Would::Execute)
        }
    };
    let remember = StoreTime::from_micros(0).after(retention.tombstone);
    let (kind, class) = observed.end.map(|(end, _)| end_codes(end)).unzip();
    tx.execute_one(
        sql::PUT_OBSERVED,
        params![
            observed.id.as_bytes(),
            observed.operation.as_str(),
            observed.keyed,
            observed.fingerprint.to_bytes(),
            observed.first.as_micros(),
            observed.last.as_micros(),
            kind,
            class.flatten(),
            observed.end.map(|(_, at)| at.as_micros()),
            observed.lease_end.as_micros(),
            observed.arrivals,
            observed.replays,
            observed.waits,
            observed.refusals,
            observed.holds,
            remember.as_micros(),
            tx.now.after(retention.tombstone).as_micros(),
        ],
    )?;
    Ok(would)
}

pub(super) fn finish(tx: &Tx<'_>, id: &RecordId, end: ObservedEnd) -> Result<(), Failure> {
    let Some((_, remember)) = tx.first(sql::OBSERVED_BY_ID, [id.as_bytes()], observed_row)? else {
        return Ok(());
    };
    let (kind, class) = end_codes(end);
    let now = tx.now.as_micros();
    let until = now.saturating_add(remember);
    tx.execute_one(sql::END_OBSERVED, params![id.as_bytes(), kind, class, now, until])
}

pub(super) fn list(view: &View<'_>, limit: usize) -> Result<Vec<Observed>, Failure> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    view.all(sql::OBSERVED, [limit], |row| Ok(observed_row(row)?.0))
}

/// The observation, and for how long it is remembered, in microseconds.
fn observed_row(row: &Row<'_>) -> rusqlite::Result<(Observed, i64)> {
    let observed = Observed {
        id: RecordId::from_bytes(row.get(0)?),
        operation: rows::parsed(row, 1, OperationName::new)?,
        keyed: row.get(2)?,
        fingerprint: rows::fingerprint(row, 3)?,
        first: rows::time(row, 4)?,
        last: rows::time(row, 5)?,
        end: end(row)?,
        lease_end: rows::time(row, 9)?,
        arrivals: row.get(10)?,
        replays: row.get(11)?,
        waits: row.get(12)?,
        refusals: row.get(13)?,
        holds: row.get(14)?,
    };
    Ok((observed, row.get(15)?))
}

fn end(row: &Row<'_>) -> rusqlite::Result<Option<(ObservedEnd, StoreTime)>> {
    if row.get::<_, Option<i64>>(6)?.is_none() {
        return Ok(None);
    }
    let class = rows::optional_class(row, 7)?;
    let end = rows::coded(row, 6, |kind| end_of(kind, class))?;
    Ok(Some((end, rows::time(row, 8)?)))
}

const fn end_codes(end: ObservedEnd) -> (i64, Option<i64>) {
    match end {
        ObservedEnd::Outcome(class) => (0, Some(rows::class_code(class))),
        ObservedEnd::NotApplied => (1, None),
        ObservedEnd::Unknown => (2, None),
    }
}

const fn end_of(kind: i64, class: Option<OutcomeClass>) -> Option<ObservedEnd> {
    match (kind, class) {
        (0, Some(class)) => Some(ObservedEnd::Outcome(class)),
        (1, None) => Some(ObservedEnd::NotApplied),
        (2, None) => Some(ObservedEnd::Unknown),
        _ => None,
    }
}
