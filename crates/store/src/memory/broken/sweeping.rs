//! Forgetting what is over.

use std::time::Duration;

use hapax_core::{OwnState, Record, StoreTime};

use super::{Broken, Bug, Data};
use crate::{Reply, Sweep, Swept};

impl Broken {
    fn sweep_now(&self, own: StoreTime, limit: usize, data: &mut Data, now: StoreTime) -> Swept {
        let over = |record: &Record| record.lease_end.is_some_and(|end| end <= now.min(own));
        match self.bug {
            Some(Bug::OwnClockIsIgnored) => return data.sweep(now, limit),
            Some(Bug::StoreClockIsIgnored) => return data.sweep(own, limit),
            Some(Bug::SweepIsEarly) => {
                return data.sweep(now.min(own).after(Duration::from_secs(1)), limit);
            }
            Some(Bug::SweepHasNoLimit) => return data.sweep(now.min(own), usize::MAX),
            Some(Bug::UncertainIsSwept) => {
                data.rows.retain(|_, row| {
                    row.record.own_state != OwnState::Uncertain || !over(&row.record)
                });
            }
            Some(Bug::OldEndingCounts) => data.rows.retain(|_, row| {
                let stub = row.history.iter().any(|entry| entry.what == "released");
                !stub || !over(&row.record)
            }),
            _ => {}
        }
        let bodies = data.rows.clone();
        let observed = data.observed.clone();
        let swept = data.sweep(now.min(own), limit);
        for (number, mut row) in bodies {
            let kept = row.record.ending.is_some_and(|ending| ending.kept);
            match self.bug {
                Some(bug @ (Bug::StepsSurvive | Bug::UnkeptKeepsItsSteps)) => {
                    if let Some(there) = data.rows.get_mut(&number)
                        && (bug == Bug::StepsSurvive || !kept)
                    {
                        there.steps = row.steps;
                    }
                }
                Some(Bug::BodySurvives) => {
                    if let Some(there) = data.rows.get_mut(&number) {
                        there.response = row.response;
                    }
                }
                Some(Bug::EndingIsPurgedFirst) if !data.rows.contains_key(&number) => {
                    row.record.ending = None;
                    data.index.insert(row.record.id, number);
                    data.rows.insert(number, row);
                }
                _ => {}
            }
        }
        if self.has(Bug::ObservationsStay) {
            data.observed = observed;
        }
        swept
    }
}

impl Sweep for Broken {
    fn sweep(&self, own_clock: StoreTime, limit: usize) -> Reply<'_, Swept> {
        Box::pin(async move {
            self.write(|data, now| {
                let swept = self.sweep_now(own_clock, limit, data, now);
                let rows = &data.rows;
                data.index.retain(|_, number| rows.contains_key(number));
                swept
            })
        })
    }
}
