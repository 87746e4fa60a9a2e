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
            if row.in_doubt().is_some_and(|there| there.name != step.name) {
                return Err(WriteRefused::StepInDoubt);
            }
            let there = row.steps.iter_mut().find(|there| there.name == step.name);
            if there.as_ref().is_some_and(|there| there.done.is_some()) {
                return Err(WriteRefused::StepEnded);
            }
            let next = row.record.begin_step(by, step.resend_for, lease, now)?;
            match there {
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
            let there = row.steps.iter().position(|there| there.name == *name);
            let same = match (&end, there.map(|at| &row.steps[at])) {
                (StepEnd::Done(_), None) => return Err(WriteRefused::NoSuchStep),
                (StepEnd::NotApplied, None) => true,
                (StepEnd::Done(data), Some(Step { done: Some(there), .. })) => data == there,
                (StepEnd::NotApplied, Some(Step { done: Some(_), .. })) => false,
                (_, Some(Step { done: None, .. })) => true,
            };
            if !same {
                return Err(WriteRefused::StepEnded);
            }
            let next = row.record.end_step(by, lease, now)?;
            match (end, there) {
                (StepEnd::Done(data), Some(at)) => row.steps[at].done = Some(data),
                (StepEnd::NotApplied, Some(at)) => drop(row.steps.remove(at)),
                (_, None) => {}
            }
            Ok(next)
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
                Written::Done(next)
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
