//! The steps of executions. What is legal is decided by [`Record`] and compared by name here.

use std::time::Duration;

use bytes::Bytes;
use hapax_core::{
    BeginStep, ClaimNumber, Ownership, Step, StepData, StepEnd, StepName, WriteRefused,
};
use hapax_store::Written;
use rusqlite::{Row, params};

use super::{
    error::Failure,
    records::owned_with,
    rows, sql,
    view::{Tx, View},
};

pub(super) fn begin(
    tx: &Tx<'_>,
    by: &Ownership,
    step: &BeginStep,
    lease: Duration,
) -> Result<Written, Failure> {
    owned_with(tx, by, |record| {
        let next = match record.begin_step(by, step.resend_for, lease, tx.now) {
            Ok(next) => next,
            Err(why) => return Ok(Err(why)),
        };
        let concerned = Concerned::of(tx, record.claim, &step.name)?;
        if concerned.another_is_in_doubt {
            return Ok(Err(WriteRefused::StepInDoubt));
        }
        let attempt = rows::attempt_code(by.attempt);
        match concerned.there {
            Some((_, Step { done: Some(_), .. })) => return Ok(Err(WriteRefused::StepEnded)),
            Some((_, there)) if there.attempt == by.attempt => {}
            Some((n, _)) => {
                tx.execute_one(sql::BEGIN_STEP_AGAIN, params![record.claim.0, n, attempt])?;
            }
            None => {
                let now = tx.now.as_micros();
                let name = step.name.as_str();
                tx.execute_one(sql::ADD_STEP, params![record.claim.0, name, attempt, now])?;
            }
        }
        Ok(Ok(next))
    })
}

pub(super) fn end(
    tx: &Tx<'_>,
    by: &Ownership,
    name: &StepName,
    end: &StepEnd,
    lease: Duration,
) -> Result<Written, Failure> {
    owned_with(tx, by, |record| {
        let next = match record.end_step(by, lease, tx.now) {
            Ok(next) => next,
            Err(why) => return Ok(Err(why)),
        };
        let claim = record.claim.0;
        match (Concerned::of(tx, record.claim, name)?.there, end) {
            // Issued again: what was begun since stays in doubt.
            (Some((_, Step { done: Some(done), .. })), StepEnd::Done(data)) if done == *data => {
                return Ok(record.renew(by, lease, tx.now));
            }
            (None, StepEnd::NotApplied) => return Ok(record.renew(by, lease, tx.now)),
            (Some((_, Step { done: Some(_), .. })), _) => return Ok(Err(WriteRefused::StepEnded)),
            (None, StepEnd::Done(_)) => return Ok(Err(WriteRefused::NoSuchStep)),
            (Some((n, _)), StepEnd::Done(data)) => {
                tx.execute_one(sql::END_STEP, params![claim, n, data.version, &data.bytes[..]])?;
            }
            (Some((n, _)), StepEnd::NotApplied) => {
                tx.execute_one(sql::DROP_STEP, params![claim, n])?;
            }
        }
        Ok(Ok(next))
    })
}

/// All steps, in the order in which they were first begun.
pub(super) fn of(view: &View<'_>, claim: ClaimNumber) -> Result<Vec<Step>, Failure> {
    view.all(sql::STEPS, [claim.0], |row| Ok(step(row)?.1))
}

pub(super) fn forget(tx: &Tx<'_>, claim: ClaimNumber) -> Result<(), Failure> {
    tx.execute(sql::DROP_STEPS, [claim.0]).map(drop)
}

/// What of a record's steps a write to one of them depends on.
struct Concerned {
    /// The step itself, with its number.
    there: Option<(i64, Step)>,
    another_is_in_doubt: bool,
}

impl Concerned {
    fn of(view: &View<'_>, claim: ClaimNumber, name: &StepName) -> Result<Self, Failure> {
        let rows = view.all(sql::STEPS_CONCERNED, params![claim.0, name.as_str()], step)?;
        let another_is_in_doubt =
            rows.iter().any(|(_, step)| step.done.is_none() && step.name != *name);
        let there = rows.into_iter().find(|(_, step)| step.name == *name);
        Ok(Self { there, another_is_in_doubt })
    }
}

/// A step with its number.
fn step(row: &Row<'_>) -> rusqlite::Result<(i64, Step)> {
    let done = match row.get::<_, Option<u32>>(4)? {
        Some(version) => Some(StepData { version, bytes: Bytes::from(row.get::<_, Vec<u8>>(5)?) }),
        None => None,
    };
    let step = Step {
        name: rows::parsed(row, 1, StepName::new)?,
        attempt: rows::attempt(row, 2)?,
        begun: rows::time(row, 3)?,
        done,
    };
    Ok((row.get(0)?, step))
}
