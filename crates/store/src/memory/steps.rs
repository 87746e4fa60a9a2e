//! The steps of executions. What is legal is decided by [`Record`] and compared by name here.

use std::time::Duration;

use hapax_core::{
    BeginStep, ClaimNumber, Ownership, Record, Step, StepEnd, StepName, StoreTime, WriteRefused,
};

use super::data::{Data, Row};
use crate::Written;

impl Data {
    pub(super) fn begin_step(
        &mut self,
        by: &Ownership,
        step: &BeginStep,
        lease: Duration,
        now: StoreTime,
    ) -> Written {
        self.write_step(by, now, |row| {
            let next = row.record.begin_step(by, step.resend_for, lease, now)?;
            if row.in_doubt().is_some_and(|there| there.name != step.name) {
                return Err(WriteRefused::StepInDoubt);
            }
            match row.steps.iter_mut().find(|there| there.name == step.name) {
                Some(Step { done: Some(_), .. }) => return Err(WriteRefused::StepEnded),
                Some(there) => there.attempt = by.attempt,
                None => row.steps.push(Step {
                    name: step.name.clone(),
                    attempt: by.attempt,
                    begun: now,
                    done: None,
                }),
            }
            Ok(next)
        })
    }

    pub(super) fn end_step(
        &mut self,
        by: &Ownership,
        name: &StepName,
        end: StepEnd,
        lease: Duration,
        now: StoreTime,
    ) -> Written {
        self.write_step(by, now, |row| {
            let next = row.record.end_step(by, lease, now)?;
            let there = row.steps.iter().position(|there| there.name == *name);
            let done = there.and_then(|at| row.steps[at].done.as_ref());
            match (there, done, end) {
                // Issued again: what was begun since stays in doubt.
                (_, Some(done), StepEnd::Done(data)) if *done == data => {
                    row.record.end_step_again(by, lease, now)
                }
                (None, _, StepEnd::NotApplied) => row.record.end_step_again(by, lease, now),
                (_, Some(_), _) => Err(WriteRefused::StepEnded),
                (None, _, StepEnd::Done(_)) => Err(WriteRefused::NoSuchStep),
                (Some(at), None, StepEnd::Done(data)) => {
                    row.steps[at].done = Some(data);
                    Ok(next)
                }
                (Some(at), None, StepEnd::NotApplied) => {
                    row.steps.remove(at);
                    Ok(next)
                }
            }
        })
    }

    fn write_step(
        &mut self,
        by: &Ownership,
        now: StoreTime,
        step: impl FnOnce(&mut Row) -> Result<Record, WriteRefused>,
    ) -> Written {
        let Some(row) = self.row_mut(&by.id) else {
            return Written::Missing;
        };
        match step(row) {
            Ok(next) => {
                row.replace(next.clone(), now);
                Written::Done(Box::new(next))
            }
            Err(why) => Written::Refused { why, found: Box::new(row.found(now)) },
        }
    }

    pub(super) fn steps(&self, claim: ClaimNumber) -> Vec<Step> {
        self.rows.get(&claim).map(|row| row.steps.clone()).unwrap_or_default()
    }
}

impl Row {
    fn in_doubt(&self) -> Option<&Step> {
        self.steps.iter().find(|step| step.done.is_none())
    }
}
