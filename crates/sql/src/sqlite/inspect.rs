//! Listing records for operators.

use hapax_core::{ClaimNumber, OperationName, State, Statement};
use hapax_store::{HistoryEntry, ListFilter, Listed};
use rusqlite::{Row, params};

use super::{error::Failure, rows, sql, view::View};

pub(super) fn list(view: &View<'_>, filter: &ListFilter) -> Result<Vec<Listed>, Failure> {
    let now = view.now;
    let listed = |row: &Row<'_>| {
        let record = rows::record(row)?;
        Ok(Listed {
            operation: row
                .get::<_, Option<String>>(rows::RECORD_COLUMNS)?
                .and_then(|name| OperationName::new(&name).ok()),
            state: record.state(now),
            record,
            body_bytes: row
                .get::<_, Option<i64>>(rows::RECORD_COLUMNS + 1)?
                .and_then(|length| u64::try_from(length).ok()),
        })
    };
    view.all(
        &statement(filter),
        params![
            filter.before.map_or(i64::MAX, |before| before.0),
            now.as_micros(),
            filter.id.as_ref().map(|id| id.as_bytes()),
            filter.operation.as_ref().map(OperationName::as_str),
            i64::try_from(filter.limit).unwrap_or(i64::MAX),
        ],
        listed,
    )
}

/// The statement of a filter: only its own conditions, so that each finds its index.
pub(super) fn statement(filter: &ListFilter) -> String {
    let mut text = sql::LIST_HEAD.to_owned();
    if filter.id.is_some() {
        text.push_str(" AND r.id = ?3");
    }
    if filter.operation.is_some() {
        text.push_str(" AND p.operation = ?4");
    }
    if let Some(state) = filter.state {
        text.push_str(" AND ");
        text.push_str(condition(state));
    }
    // The highest parameter is always there, so that all five can be bound.
    text.push_str(" ORDER BY r.claim DESC LIMIT ?5");
    text
}

/// [`hapax_core::Record::state`] as a condition.
const fn condition(state: State) -> &'static str {
    match state {
        State::Claimed => "r.state = 0 AND e.kind IS NULL",
        State::Executing => "r.state = 1 AND e.kind IS NULL",
        State::Uncertain => "r.state = 2 AND e.kind IS NULL",
        State::Released => "e.kind = 2",
        State::Succeeded => "e.kind = 0 AND e.class = 0 AND e.outcome_until > ?2",
        State::FailedTerminal => "e.kind = 0 AND e.class = 1 AND e.outcome_until > ?2",
        State::Tombstone => "e.kind = 0 AND e.outcome_until <= ?2",
    }
}

pub(super) fn history(view: &View<'_>, claim: ClaimNumber) -> Result<Vec<HistoryEntry>, Failure> {
    view.all(sql::HISTORY, [claim.0], |row| {
        Ok(HistoryEntry {
            at: rows::time(row, 0)?,
            attempt: rows::attempt(row, 1)?,
            what: row.get(2)?,
            statement: match (row.get(3)?, row.get(4)?) {
                (Some(actor), Some(reason)) => Some(Statement { actor, reason }),
                _ => None,
            },
        })
    })
}
