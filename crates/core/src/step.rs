//! The named parts of an execution, and what they say of a record's effects.
//!
//! An execution that is told by steps knows more than one that is judged as a whole: what ended is
//! stored with its data and is not done again; what was begun and has no end is in doubt; beside
//! these there is nothing. So one that was interrupted between two steps may go on at any time,
//! and one that was interrupted within a step as that step permits.

use std::{fmt, time::Duration};

use bytes::Bytes;
use thiserror::Error;

use crate::{
    Attempt, Event, IllegalTransition, OwnState, Ownership, Record, State, StoreTime, WriteRefused,
};

/// The stable name of a step within its operation. It enters the step's effect id, so renaming a
/// step makes it a new one for executions that are under way.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct StepName(Box<str>);

impl StepName {
    /// 1 to 128 characters of `a-z A-Z 0-9 . _ -`.
    ///
    /// # Errors
    /// [`StepNameError`] for anything else.
    pub fn new(name: &str) -> Result<Self, StepNameError> {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if name.is_empty() || name.len() > 128 || !name.chars().all(fits) {
            return Err(StepNameError);
        }
        Ok(Self(name.into()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for StepName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Not a step's name.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
#[error("a step's name is 1 to 128 characters of a-z A-Z 0-9 . _ -")]
pub struct StepNameError;

/// What a record's steps say of its effects.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Progress {
    /// There are no steps: an attempt is judged as a whole.
    Whole,
    /// The steps that ended account for every effect there is.
    Accounted,
    /// A step was begun, and whether it happened is not known.
    InDoubt {
        /// Until when it may be done again, because the downstream collapses on its effect id:
        /// fixed when it was first begun. `None`: never.
        resend_before: Option<StoreTime>,
    },
}

/// A step that is about to be done.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct BeginStep {
    /// Which.
    pub name: StepName,
    /// For how long after its first beginning it may be done again while its outcome is unknown.
    /// `None`: it may not.
    pub resend_for: Option<Duration>,
}

/// How a step ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum StepEnd {
    /// It happened; this is what later attempts are told of it.
    Done(StepData),
    /// It certainly did not happen: as if it had not begun.
    NotApplied,
}

/// What a step came to, as later attempts read it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct StepData {
    /// The version of the data's form, the application's own.
    pub version: u32,
    /// The data.
    pub bytes: Bytes,
}

/// A step as the store has it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Step {
    /// Which.
    pub name: StepName,
    /// The attempt that wrote it last.
    pub attempt: Attempt,
    /// When it was first begun, on the store's clock.
    pub begun: StoreTime,
    /// What it came to; `None` while it is under way or in doubt.
    pub done: Option<StepData>,
}

impl Record {
    /// Whether every effect that earlier attempts had is known: there is none, or the steps tell.
    pub const fn is_accounted(&self) -> bool {
        matches!(self.progress, Progress::Accounted)
            || (self.clean && matches!(self.progress, Progress::Whole))
    }

    /// Whether a step is in doubt that may not be done again at `now`.
    pub(crate) fn is_in_doubt_for_good(&self, now: StoreTime) -> bool {
        match self.progress {
            Progress::InDoubt { resend_before } => resend_before.is_none_or(|before| before <= now),
            Progress::Whole | Progress::Accounted => false,
        }
    }

    /// The record with a step begun by its owner: admitted, its lease extended, in doubt until the
    /// step ends. Issued again by the same attempt, it only extends the lease.
    ///
    /// That a step in doubt is begun again and no other one, the store compares by name.
    ///
    /// # Errors
    /// [`WriteRefused`] when the record is not the owner's any more, has no steps, or the step in
    /// doubt may not be done again.
    pub fn begin_step(
        &self,
        by: &Ownership,
        resend_for: Option<Duration>,
        lease: Duration,
        now: StoreTime,
    ) -> Result<Self, WriteRefused> {
        self.owned(by)?;
        let resend_before = match self.progress {
            Progress::Whole => return Err(WriteRefused::NoSteps),
            Progress::Accounted => resend_for.map(|memory| now.after(memory)),
            // What was permitted when it was first begun counts.
            Progress::InDoubt { resend_before } => {
                let is_resend = self.own_state == OwnState::Claimed;
                if is_resend && self.is_in_doubt_for_good(now) {
                    return Err(WriteRefused::ResendOver);
                }
                resend_before
            }
        };
        let next = self.in_step(lease, now)?;
        Ok(Self { progress: Progress::InDoubt { resend_before }, ..next })
    }

    /// The record with the step in doubt ended by its owner, its lease extended. Also for a step
    /// that was not begun before, because it begins and ends in one transaction.
    ///
    /// That it is the one in doubt, the store compares by name: one that ended before is only
    /// renewed, or another one that is in doubt would pass for ended. An attempt that became
    /// uncertain meanwhile stays so, and is accounted then.
    ///
    /// # Errors
    /// [`WriteRefused`] when the record is not the owner's any more, has no steps, or a step of an
    /// earlier attempt is in doubt.
    pub fn end_step(
        &self,
        by: &Ownership,
        lease: Duration,
        now: StoreTime,
    ) -> Result<Self, WriteRefused> {
        self.owned(by)?;
        match self.progress {
            Progress::Whole => return Err(WriteRefused::NoSteps),
            Progress::InDoubt { .. } if self.own_state == OwnState::Claimed => {
                return Err(WriteRefused::StepInDoubt);
            }
            Progress::Accounted | Progress::InDoubt { .. } => {}
        }
        let next = match self.late_in_step(now) {
            Some(uncertain) => uncertain,
            None => self.in_step(lease, now)?,
        };
        Ok(Self { progress: Progress::Accounted, ..next })
    }

    /// The record after an end of a step that was stored before: its lease is extended, and nothing
    /// else is changed.
    ///
    /// # Errors
    /// [`WriteRefused`] when the record is not the owner's any more.
    pub fn end_step_again(
        &self,
        by: &Ownership,
        lease: Duration,
        now: StoreTime,
    ) -> Result<Self, WriteRefused> {
        self.owned(by)?;
        match self.late_in_step(now) {
            Some(uncertain) => Ok(uncertain),
            None => self.renew(by, lease, now),
        }
    }

    /// An attempt that became uncertain while its owner was within a step: the truthful end of that
    /// step is welcome, as a late settle is (`protocol.md` 6), and begins nothing new.
    fn late_in_step(&self, now: StoreTime) -> Option<Self> {
        (self.state(now) == State::Uncertain).then(|| self.clone())
    }

    /// The record with its owner at a step: from the first one on, an effect may exist.
    fn in_step(&self, lease: Duration, now: StoreTime) -> Result<Self, WriteRefused> {
        match self.state(now) {
            State::Executing => {}
            state @ State::Claimed => drop(state.on(Event::Admit)?),
            state => return Err(IllegalTransition { state, event: Event::Admit }.into()),
        }
        Ok(Self {
            own_state: OwnState::Executing,
            lease_end: Some(now.after(lease)),
            first_admitted: self.first_admitted.or(Some(now)),
            ..self.clone()
        })
    }
}
