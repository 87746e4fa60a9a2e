//! How values are stored: numbers for enumerations, microseconds for times, bytes for identities.

use std::fmt::Display;

use bytes::Bytes;
use hapax_core::{
    Attempt, ClaimNumber, EndedBy, Ending, EndingKind, Evidence, Fingerprint, OutcomeClass,
    OwnState, Owner, PolicyDigest, Progress, Record, RecordId, Step, StepData, StepName, StoreTime,
    StoredResponse, Until,
};
use rusqlite::{Error, Row, types::Type};

use super::writes::Value;

/// A row, whichever driver read it.
pub(super) trait Columns {
    /// Why the driver's rows cannot be read.
    type Error;

    fn integer(&self, column: usize) -> Result<Option<i64>, Self::Error>;
    fn blob(&self, column: usize) -> Result<Option<&[u8]>, Self::Error>;
    fn text(&self, column: usize) -> Result<Option<&str>, Self::Error>;
    fn unreadable(column: usize, why: String) -> Self::Error;
}

impl Columns for Row<'_> {
    type Error = Error;

    fn integer(&self, column: usize) -> Result<Option<i64>, Error> {
        self.get(column)
    }

    fn blob(&self, column: usize) -> Result<Option<&[u8]>, Error> {
        Ok(self.get_ref(column)?.as_blob_or_null()?)
    }

    fn text(&self, column: usize) -> Result<Option<&str>, Error> {
        Ok(self.get_ref(column)?.as_str_or_null()?)
    }

    fn unreadable(column: usize, why: String) -> Error {
        Error::FromSqlConversionFailure(column, Type::Null, why.into())
    }
}

/// A record with the ending of its present attempt, from the columns of `sql`'s `record!`.
pub(super) fn record<R: Columns>(row: &R) -> Result<Record, R::Error> {
    Ok(Record {
        claim: ClaimNumber(number(row, 0)?),
        id: RecordId::from_bytes(bytes(row, 1)?),
        attempt: attempt(row, 2)?,
        owner: Owner::from_bytes(bytes(row, 3)?),
        own_state: coded(row, 4, own_state_of)?,
        fingerprint: fingerprint(row, 5)?,
        policy: PolicyDigest(bytes(row, 6)?),
        lease_end: optional_time(row, 7)?,
        clean: coded(row, 8, flag_of)?,
        first_admitted: optional_time(row, 9)?,
        progress: progress(row, 10)?,
        secret_version: number(row, 12)?,
        created: time(row, 13)?,
        ending: ending(row)?,
    })
}

/// How many columns [`record`] reads; a listing has more behind them.
pub(super) const RECORD_COLUMNS: usize = 22;

fn ending<R: Columns>(row: &R) -> Result<Option<Ending>, R::Error> {
    if row.integer(14)?.is_none() {
        return Ok(None);
    }
    Ok(Some(Ending {
        kind: coded(row, 14, ending_kind_of)?,
        class: optional_class(row, 15)?,
        status: optional(row, 16)?,
        kept: coded(row, 17, flag_of)?,
        at: time(row, 18)?,
        until: Until { outcome: time(row, 19)?, tombstone: time(row, 20)? },
        by: ended_by(row, 21)?,
    }))
}

/// The token of a verdict; nothing is there for what the owner wrote.
fn ended_by<R: Columns>(row: &R, column: usize) -> Result<EndedBy, R::Error> {
    match row.blob(column)? {
        None => Ok(EndedBy::Owner),
        Some(_) => Ok(EndedBy::Verdict(Owner::from_bytes(bytes(row, column)?))),
    }
}

/// A step with its number.
pub(super) fn step<R: Columns>(row: &R) -> Result<(i64, Step), R::Error> {
    let done = match optional(row, 4)? {
        Some(version) => Some(StepData { version, bytes: body(row, 5)? }),
        None => None,
    };
    let step = Step {
        name: parsed(row, 1, StepName::new)?,
        attempt: attempt(row, 2)?,
        begun: time(row, 3)?,
        done,
    };
    Ok((number(row, 0)?, step))
}

/// A response from its head and its body.
pub(super) fn response<R: Columns>(row: &R) -> Result<StoredResponse, R::Error> {
    StoredResponse::decode(body(row, 0)?, body(row, 1)?)
        .map_err(|error| R::unreadable(0, error.to_string()))
}

pub(super) fn time<R: Columns>(row: &R, column: usize) -> Result<StoreTime, R::Error> {
    number(row, column).map(StoreTime::from_micros)
}

fn optional_time<R: Columns>(row: &R, column: usize) -> Result<Option<StoreTime>, R::Error> {
    Ok(row.integer(column)?.map(StoreTime::from_micros))
}

pub(super) fn attempt<R: Columns>(row: &R, column: usize) -> Result<Attempt, R::Error> {
    coded(row, column, |number| u64::try_from(number).ok().map(Attempt::from_wire))
}

/// From two columns: what it is, and until when a step in doubt may be done again.
fn progress<R: Columns>(row: &R, column: usize) -> Result<Progress, R::Error> {
    let resend_before = optional_time(row, column + 1)?;
    coded(row, column, |code| progress_of(code, resend_before))
}

pub(super) fn fingerprint<R: Columns>(row: &R, column: usize) -> Result<Fingerprint, R::Error> {
    let bytes = row.blob(column)?.unwrap_or_default();
    Fingerprint::from_bytes(bytes)
        .ok_or_else(|| R::unreadable(column, "not a fingerprint".to_owned()))
}

pub(super) fn optional_class<R: Columns>(
    row: &R,
    column: usize,
) -> Result<Option<OutcomeClass>, R::Error> {
    match row.integer(column)? {
        None => Ok(None),
        Some(_) => coded(row, column, class_of).map(Some),
    }
}

/// A value stored as a number.
pub(super) fn coded<T, R: Columns>(
    row: &R,
    column: usize,
    decode: impl FnOnce(i64) -> Option<T>,
) -> Result<T, R::Error> {
    let code = number(row, column)?;
    decode(code).ok_or_else(|| R::unreadable(column, format!("{code} is out of its range")))
}

/// A value stored as text.
pub(super) fn parsed<T, E: Display, R: Columns>(
    row: &R,
    column: usize,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<T, R::Error> {
    let text = row.text(column)?.unwrap_or_default();
    parse(text).map_err(|error| R::unreadable(column, error.to_string()))
}

/// A number that is there.
pub(super) fn number<T: TryFrom<i64>, R: Columns>(row: &R, column: usize) -> Result<T, R::Error> {
    optional(row, column)?.ok_or_else(|| R::unreadable(column, "nothing is there".to_owned()))
}

pub(super) fn optional<T: TryFrom<i64>, R: Columns>(
    row: &R,
    column: usize,
) -> Result<Option<T>, R::Error> {
    let Some(number) = row.integer(column)? else {
        return Ok(None);
    };
    match T::try_from(number) {
        Ok(number) => Ok(Some(number)),
        Err(_) => Err(R::unreadable(column, format!("{number} is out of its range"))),
    }
}

/// Bytes of a known number.
fn bytes<const N: usize, R: Columns>(row: &R, column: usize) -> Result<[u8; N], R::Error> {
    let bytes = row.blob(column)?.unwrap_or_default();
    <[u8; N]>::try_from(bytes)
        .map_err(|_| R::unreadable(column, format!("{} bytes instead of {N}", bytes.len())))
}

/// Bytes of any number.
fn body<R: Columns>(row: &R, column: usize) -> Result<Bytes, R::Error> {
    Ok(Bytes::copy_from_slice(row.blob(column)?.unwrap_or_default()))
}

const fn flag_of(code: i64) -> Option<bool> {
    match code {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
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

pub(super) fn ended_by_code<'a>(by: EndedBy) -> Value<'a> {
    match by {
        EndedBy::Owner => Value::Null,
        EndedBy::Verdict(token) => Value::Bytes(token.as_bytes().to_vec().into()),
    }
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

pub(super) const fn evidence_code(evidence: Evidence) -> i64 {
    match evidence {
        Evidence::NotSeenYet => 0,
        Evidence::Unknown => 1,
    }
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
