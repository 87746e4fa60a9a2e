//! The steps of executions.

use std::time::Duration;

use hapax_core::{
    Admission, BeginStep, ClaimNumber, OwnState, Ownership, Progress, Step, StepData, StepEnd,
    StepName, StoreTime, WriteRefused,
};

use super::{Answer, Broken, Bug, Data, lasting, made};
use crate::{Reply, Steps, Written};

impl Broken {
    fn write_step<T>(&self, write: impl FnOnce(&mut Data, StoreTime) -> T) -> Answer<T> {
        if self.has(Bug::StepsAreUnguarded) {
            return self.unguarded(write);
        }
        self.write(write)
    }

    fn begin_now(
        &self,
        by: &Ownership,
        step: &BeginStep,
        lease: Duration,
        data: &mut Data,
        now: StoreTime,
    ) -> Written {
        if self.has(Bug::MissingIsMade) && data.row(&by.id).is_none() {
            made(by, Admission::BySteps, data, now);
        }
        let Some(row) = data.row_mut(&by.id) else { return Written::Missing };
        let before = row.record.clone();
        let mut beside = None;
        let there = row.steps.iter().position(|there| there.name == step.name);
        let other = row
            .steps
            .iter()
            .position(|there| there.done.is_none() && Some(&there.name) != Some(&step.name));
        match (self.bug, there) {
            (Some(Bug::StepsBeginTogether), _) => {
                beside = other.map(|at| (at, row.steps.remove(at)));
            }
            (Some(Bug::EndedStepIsBegunAgain), Some(at)) => row.steps[at].done = None,
            (Some(Bug::WholeTakesSteps), _) if before.progress == Progress::Whole => {
                row.record.progress = Progress::Accounted;
            }
            (Some(Bug::RepeatedStepIsRefused), Some(at)) if row.steps[at].attempt == by.attempt => {
                let found = Box::new(row.found(now));
                return Written::Refused { why: WriteRefused::StepInDoubt, found };
            }
            (Some(Bug::BeginningsCountAnew), Some(_)) if before.progress != Progress::Whole => {
                row.record.progress = Progress::Accounted;
            }
            (Some(Bug::StepPermissionLasts), _) => {
                row.record.progress = lasting(before.progress, now);
            }
            _ => {}
        }
        let written = data.begin_step(by, step, lease, now);
        let Some(row) = data.row_mut(&by.id) else { return written };
        if let Some((at, step)) = beside {
            row.steps.insert(at, step);
        }
        match self.bug {
            _ if !matches!(written, Written::Done(_)) => row.record = before,
            Some(Bug::FirstStepDoesNotAdmit) if before.own_state == OwnState::Claimed => {
                row.record.own_state = before.own_state;
            }
            Some(Bug::StepLeavesTheLease) => row.record.lease_end = before.lease_end,
            _ => {}
        }
        written
    }

    fn end_now(
        &self,
        by: &Ownership,
        name: &StepName,
        end: StepEnd,
        lease: Duration,
        data: &mut Data,
        now: StoreTime,
    ) -> Written {
        let Some(row) = data.row_mut(&by.id) else { return Written::Missing };
        if self.has(Bug::LateSettleIsFenced) && row.record.own_state == OwnState::Uncertain {
            let found = Box::new(row.found(now));
            return Written::Refused { why: WriteRefused::Fenced, found };
        }
        let there = row.steps.iter_mut().find(|there| there.name == *name);
        let is_again = there.as_ref().is_none_or(|there| there.done.is_some());
        let end = match (self.bug, end) {
            (Some(Bug::StepVersionIsLost), StepEnd::Done(data)) => {
                StepEnd::Done(StepData { version: 0, ..data })
            }
            (Some(Bug::NotAppliedIsDone), StepEnd::NotApplied) => {
                StepEnd::Done(StepData::default())
            }
            (_, end) => end,
        };
        match (self.bug, there) {
            (Some(Bug::StepEndIsOverwritten), Some(there)) => there.done = None,
            (Some(Bug::RepeatedStepIsRefused), _) if is_again => {
                let found = Box::new(row.found(now));
                return Written::Refused { why: WriteRefused::StepEnded, found };
            }
            _ => {}
        }
        let before = row.record.clone();
        let written = data.end_step(by, name, end, lease, now);
        let (Written::Done(_), Some(row)) = (&written, data.row_mut(&by.id)) else {
            return written;
        };
        match self.bug {
            Some(Bug::RepeatedEndEndsAnother) if is_again => {
                row.record.progress = Progress::Accounted;
            }
            Some(Bug::StepLeavesTheLease) => row.record.lease_end = before.lease_end,
            _ => {}
        }
        written
    }

    /// The name as the store keeps it.
    fn name(&self, name: StepName) -> StepName {
        match self.bug {
            Some(Bug::StepNamesIgnoreCase) => {
                StepName::new(&name.as_str().to_lowercase()).unwrap_or(name)
            }
            _ => name,
        }
    }
}

impl Steps for Broken {
    fn begin_step(&self, by: Ownership, step: BeginStep, lease: Duration) -> Reply<'_, Written> {
        Box::pin(async move {
            let step = BeginStep { name: self.name(step.name), ..step };
            self.write_step(|data, now| {
                self.begin_now(&self.taken(by, data), &step, lease, data, now)
            })
        })
    }

    fn end_step(
        &self,
        by: Ownership,
        step: StepName,
        end: StepEnd,
        lease: Duration,
    ) -> Reply<'_, Written> {
        Box::pin(async move {
            let name = self.name(step);
            self.write_step(|data, now| {
                self.end_now(&self.taken(by, data), &name, end, lease, data, now)
            })
        })
    }

    fn steps(&self, claim: ClaimNumber) -> Reply<'_, Vec<Step>> {
        Box::pin(async move {
            let mut steps = self.store.steps(claim).await?;
            if self.has(Bug::StepsAreSorted) {
                steps.sort_by(|one, other| one.name.cmp(&other.name));
            }
            Ok(steps)
        })
    }
}
