//! The steps of executions. What is legal is decided by [`Record`] and compared by name here.

use std::time::Duration;

use hapax_core::{
    BeginStep, ClaimNumber, Ownership, Record, Step, StepEnd, StepName, StoreTime, WriteRefused,
};
use hapax_store::Written;
use rusqlite::params;

use super::{
    error::Failure,
    records::owned_with,
    rows, sql,
    view::{Tx, View},
    writes::{self, Stepped},
};

pub(super) fn begin(
    tx: &Tx<'_>,
    by: &Ownership,
    step: &BeginStep,
    lease: Duration,
) -> Result<Written, Failure> {
    owned_with(tx, by, |record| {
        let concerned = concerned(tx, record.claim, &step.name)?;
        Ok(begun(record, &concerned, by, step, lease, tx.now))
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
        let concerned = concerned(tx, record.claim, name)?;
        Ok(ended(record, &concerned, by, name, end, lease, tx.now))
    })
}

/// All steps, in the order in which they were first begun.
pub(super) fn of(view: &View<'_>, claim: ClaimNumber) -> Result<Vec<Step>, Failure> {
    view.all(sql::STEPS, [claim.0], |row| Ok(rows::step(row)?.1))
}

fn concerned(view: &View<'_>, claim: ClaimNumber, name: &StepName) -> Result<Concerned, Failure> {
    let found = params![claim.0, name.as_str()];
    view.all(sql::STEPS_CONCERNED, found, |row| rows::step(row)).map(Concerned)
}

/// What of a record's steps a write to one of them depends on, each with its number.
pub(super) struct Concerned(pub(super) Vec<(i64, Step)>);

impl Concerned {
    fn step(&self, name: &StepName) -> Option<&(i64, Step)> {
        self.0.iter().find(|(_, step)| step.name == *name)
    }

    fn another_is_in_doubt(&self, name: &StepName) -> bool {
        self.0.iter().any(|(_, step)| step.done.is_none() && step.name != *name)
    }
}

fn begun<'a>(
    record: &Record,
    concerned: &Concerned,
    by: &Ownership,
    step: &'a BeginStep,
    lease: Duration,
    now: StoreTime,
) -> Stepped<'a> {
    let next = record.begin_step(by, step.resend_for, lease, now)?;
    if concerned.another_is_in_doubt(&step.name) {
        return Err(WriteRefused::StepInDoubt);
    }
    let write = match concerned.step(&step.name) {
        Some((_, Step { done: Some(_), .. })) => return Err(WriteRefused::StepEnded),
        Some((_, there)) if there.attempt == by.attempt => return Ok((next, Vec::new())),
        Some((n, _)) => writes::begin_step_again(&next, *n),
        None => writes::add_step(&next, &step.name, None, now),
    };
    Ok((next, vec![write]))
}

fn ended<'a>(
    record: &Record,
    concerned: &Concerned,
    by: &Ownership,
    name: &StepName,
    end: &'a StepEnd,
    lease: Duration,
    now: StoreTime,
) -> Stepped<'a> {
    let next = record.end_step(by, lease, now)?;
    let write = match (concerned.step(name), end) {
        // Issued again: what was begun since stays in doubt.
        (Some((_, Step { done: Some(done), .. })), StepEnd::Done(data)) if done == data => {
            return Ok((record.end_step_again(by, lease, now)?, Vec::new()));
        }
        (None, StepEnd::NotApplied) => {
            return Ok((record.end_step_again(by, lease, now)?, Vec::new()));
        }
        (Some((_, Step { done: Some(_), .. })), _) => return Err(WriteRefused::StepEnded),
        (None, StepEnd::Done(_)) => return Err(WriteRefused::NoSuchStep),
        (Some((n, _)), StepEnd::Done(data)) => writes::end_step(record, *n, data),
        (Some((n, _)), StepEnd::NotApplied) => writes::drop_step(record, *n),
    };
    Ok((next, vec![write]))
}

/// A step that ends in the transaction in which it was done, whether it was begun before or not.
#[cfg(feature = "sqlx")]
pub(super) fn done<'a>(
    record: &Record,
    concerned: &Concerned,
    by: &Ownership,
    name: &'a StepName,
    data: &'a hapax_core::StepData,
    lease: Duration,
    now: StoreTime,
) -> Stepped<'a> {
    let next = record.end_step(by, lease, now)?;
    let write = match concerned.step(name) {
        // Whatever it came to: what this transaction wrote beside it would be there twice.
        Some((_, Step { done: Some(_), .. })) => return Err(WriteRefused::StepEnded),
        Some((n, _)) => writes::end_step(record, *n, data),
        None if concerned.another_is_in_doubt(name) => return Err(WriteRefused::StepInDoubt),
        None => writes::add_step(&next, name, Some(data), now),
    };
    Ok((next, vec![write]))
}
