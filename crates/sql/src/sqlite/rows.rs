//! How values are stored: numbers for enumerations, microseconds for times, bytes for identities.

use std::error::Error as StdError;

use hapax_core::{
    Attempt, ClaimNumber, Ending, EndingKind, Fingerprint, OutcomeClass, OwnState, Owner,
    PolicyDigest, Progress, Record, RecordId, StoreTime, Until,
};
use rusqlite::{Error, Result, Row, types::Type};

/// A record with the ending of its present attempt, from the columns of `sql`'s `record!`.
pub(super) fn record(row: &Row<'_>) -> Result<Record> {
    Ok(Record {
        claim: ClaimNumber(row.get(0)?),
        id: RecordId::from_bytes(row.get(1)?),
        attempt: attempt(row, 2)?,
        owner: Owner::from_bytes(row.get(3)?),
        own_state: coded(row, 4, own_state_of)?,
        fingerprint: fingerprint(row, 5)?,
        policy: PolicyDigest(row.get(6)?),
        lease_end: optional_time(row, 7)?,
        clean: row.get(8)?,
        first_admitted: optional_time(row, 9)?,
        progress: progress(row, 10)?,
        secret_version: row.get(12)?,
        created: time(row, 13)?,
        ending: ending(row)?,
    })
}

/// How many columns [`record`] reads; a listing has more behind them.
pub(super) const RECORD_COLUMNS: usize = 21;

fn ending(row: &Row<'_>) -> Result<Option<Ending>> {
    if row.get::<_, Option<i64>>(14)?.is_none() {
        return Ok(None);
    }
    Ok(Some(Ending {
        kind: coded(row, 14, ending_kind_of)?,
        class: optional_class(row, 15)?,
        status: row.get(16)?,
        kept: row.get(17)?,
        at: time(row, 18)?,
        until: Until { outcome: time(row, 19)?, tombstone: time(row, 20)? },
    }))
}

pub(super) fn time(row: &Row<'_>, column: usize) -> Result<StoreTime> {
    row.get(column).map(StoreTime::from_micros)
}

fn optional_time(row: &Row<'_>, column: usize) -> Result<Option<StoreTime>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(StoreTime::from_micros))
}

pub(super) fn attempt(row: &Row<'_>, column: usize) -> Result<Attempt> {
    coded(row, column, |number| u64::try_from(number).ok().map(Attempt::from_wire))
}

/// From two columns: what it is, and until when a step in doubt may be done again.
fn progress(row: &Row<'_>, column: usize) -> Result<Progress> {
    let resend_before = optional_time(row, column + 1)?;
    coded(row, column, |code| progress_of(code, resend_before))
}

pub(super) fn fingerprint(row: &Row<'_>, column: usize) -> Result<Fingerprint> {
    let bytes = row.get_ref(column)?.as_blob()?;
    Fingerprint::from_bytes(bytes).ok_or_else(|| unreadable(column, "not a fingerprint"))
}

pub(super) fn optional_class(row: &Row<'_>, column: usize) -> Result<Option<OutcomeClass>> {
    match row.get::<_, Option<i64>>(column)? {
        None => Ok(None),
        Some(_) => coded(row, column, class_of).map(Some),
    }
}

/// A value stored as a number.
pub(super) fn coded<T>(
    row: &Row<'_>,
    column: usize,
    decode: impl FnOnce(i64) -> Option<T>,
) -> Result<T> {
    let code = row.get(column)?;
    decode(code).ok_or(Error::IntegralValueOutOfRange(column, code))
}

/// A value stored as text.
pub(super) fn parsed<T, E: StdError + Send + Sync + 'static>(
    row: &Row<'_>,
    column: usize,
    parse: impl FnOnce(&str) -> std::result::Result<T, E>,
) -> Result<T> {
    let text = row.get::<_, String>(column)?;
    parse(&text)
        .map_err(|error| Error::FromSqlConversionFailure(column, Type::Text, Box::new(error)))
}

fn unreadable(column: usize, why: &'static str) -> Error {
    Error::FromSqlConversionFailure(column, Type::Blob, why.into())
}

pub(super) fn attempt_code(attempt: Attempt) -> i64 {
    // Epochs count regressions: far below 2^31, the half that a signed column can hold.
    i64::try_from(attempt.to_wire()).unwrap_or(i64::MAX)
}

pub(super) const fn own_state_code(state: OwnState) -> i64 {
    match state {
        OwnState::Claimed => 0,
        OwnState::Executing => 1,
        OwnState::Uncertain => 2,
    }
}

const fn own_state_of(code: i64) -> Option<OwnState> {
    Some(match code {
        0 => OwnState::Claimed,
        1 => OwnState::Executing,
        2 => OwnState::Uncertain,
        _ => return None,
    })
}

/// The code, and until when a step in doubt may be done again.
pub(super) const fn progress_codes(progress: Progress) -> (i64, Option<i64>) {
    match progress {
        Progress::Whole => (0, None),
        Progress::Accounted => (1, None),
        Progress::InDoubt { resend_before: None } => (2, None),
        Progress::InDoubt { resend_before: Some(before) } => (2, Some(before.as_micros())),
    }
}

const fn progress_of(code: i64, resend_before: Option<StoreTime>) -> Option<Progress> {
    Some(match code {
        0 => Progress::Whole,
        1 => Progress::Accounted,
        2 => Progress::InDoubt { resend_before },
        _ => return None,
    })
}

pub(super) const fn ending_kind_code(kind: EndingKind) -> i64 {
    match kind {
        EndingKind::Outcome => 0,
        EndingKind::Superseded => 1,
        EndingKind::Released => 2,
    }
}

const fn ending_kind_of(code: i64) -> Option<EndingKind> {
    Some(match code {
        0 => EndingKind::Outcome,
        1 => EndingKind::Superseded,
        2 => EndingKind::Released,
        _ => return None,
    })
}

pub(super) const fn class_code(class: OutcomeClass) -> i64 {
    match class {
        OutcomeClass::Succeeded => 0,
        OutcomeClass::FailedTerminal => 1,
    }
}

pub(super) const fn class_of(code: i64) -> Option<OutcomeClass> {
    Some(match code {
        0 => OutcomeClass::Succeeded,
        1 => OutcomeClass::FailedTerminal,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_reads_back() {
        for state in [OwnState::Claimed, OwnState::Executing, OwnState::Uncertain] {
            assert_eq!(own_state_of(own_state_code(state)), Some(state));
        }
        let before = Some(StoreTime::from_micros(7));
        for progress in [
            Progress::Whole,
            Progress::Accounted,
            Progress::InDoubt { resend_before: None },
            Progress::InDoubt { resend_before: before },
        ] {
            let (code, resend_before) = progress_codes(progress);
            let resend_before = resend_before.map(StoreTime::from_micros);
            assert_eq!(progress_of(code, resend_before), Some(progress));
        }
        for kind in [EndingKind::Outcome, EndingKind::Superseded, EndingKind::Released] {
            assert_eq!(ending_kind_of(ending_kind_code(kind)), Some(kind));
        }
        for class in [OutcomeClass::Succeeded, OutcomeClass::FailedTerminal] {
            assert_eq!(class_of(class_code(class)), Some(class));
        }
    }

    #[test]
    fn an_unknown_code_is_no_value() {
        assert_eq!(own_state_of(3), None);
        assert_eq!(progress_of(3, None), None);
        assert_eq!(ending_kind_of(-1), None);
        assert_eq!(class_of(2), None);
    }
}
