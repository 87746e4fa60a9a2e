//! The engine's side of an execution that is told by steps.

use std::time::Duration;

use hapax_core::{
    BeginStep, OnUnknown, OwnState, Ownership, Progress, Record, Step as Stored, StepData, StepEnd,
    StepName, WriteRefused,
};
use hapax_store::{Certainty, Reply, StoreError, Written};
use parking_lot::Mutex;
use tokio::time::sleep;
use tracing::warn;

use crate::{
    Attempt, Interrupted, Step,
    claim::Attempting,
    points::{Kind, Moment},
};

/// The pauses between writes that the store did not take.
const PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// What the handler's end of an execution and the task that settles it have in common.
pub(crate) struct Running {
    pub(crate) attempting: Attempting,
    pub(crate) attempt: Attempt,
    state: Mutex<State>,
    /// The last transaction, which the settle is to commit.
    #[cfg(feature = "sqlite")]
    pub(crate) parked: Mutex<crate::local::Parked>,
}

struct State {
    record: Record,
    steps: Vec<Stored>,
    /// The steps whose values this attempt was given: each is asked for once.
    given: Vec<StepName>,
    /// Why nothing may follow any more.
    interrupted: Option<Interrupted>,
}

impl Running {
    pub(crate) fn new(
        attempting: Attempting,
        attempt: Attempt,
        record: Record,
        steps: Vec<Stored>,
    ) -> Self {
        Self {
            attempting,
            attempt,
            state: Mutex::new(State { record, steps, given: Vec::new(), interrupted: None }),
            #[cfg(feature = "sqlite")]
            parked: Mutex::default(),
        }
    }

    /// The record as this execution left it.
    pub(crate) fn record(&self) -> Record {
        self.state.lock().record.clone()
    }

    /// Ends the handler's use of it: what a task that the handler left behind tries afterwards is
    /// refused. Tells too whether it came to its end without being interrupted.
    pub(crate) fn close(&self) -> (Record, bool) {
        let mut state = self.state.lock();
        let whole = state.interrupted.is_none();
        state.interrupted.get_or_insert(Interrupted::Misused(
            "the handler has answered; its execution is over".to_owned(),
        ));
        (state.record.clone(), whole)
    }

    /// Whether a step may be done now.
    pub(crate) fn check(&self) -> Result<(), Interrupted> {
        self.state.lock().interrupted.clone().map_or(Ok(()), Err)
    }

    /// Nothing may follow.
    pub(crate) fn interrupt(&self, why: Interrupted) -> Interrupted {
        self.state.lock().interrupted.get_or_insert(why).clone()
    }

    /// What a step came to in an earlier attempt.
    ///
    /// Asked for again within this one, it is another part that has the same name: to give it the
    /// value of the first would leave it undone.
    pub(crate) fn done(&self, name: &StepName) -> Result<Option<StepData>, Interrupted> {
        let mut state = self.state.lock();
        if state.given.contains(name) {
            drop(state);
            let what = format!("{name} is done twice: each part needs a name of its own");
            return Err(self.interrupt(Interrupted::Misused(what)));
        }
        let found = state.steps.iter().find(|step| step.name == *name);
        let found = found.and_then(|step| step.done.clone());
        if found.is_some() {
            state.given.push(name.clone());
        }
        Ok(found)
    }

    /// Whether a step has ended, in this attempt or an earlier one.
    pub(crate) fn has_done(&self) -> bool {
        self.state.lock().steps.iter().any(|step| step.done.is_some())
    }

    /// The step that is in doubt, and whether it is so by this attempt: it was given up.
    pub(crate) fn in_doubt(&self) -> Option<(StepName, bool)> {
        let state = self.state.lock();
        let doubted = state.steps.iter().find(|step| step.done.is_none())?;
        Some((doubted.name.clone(), doubted.attempt == state.record.attempt))
    }

    /// Whether `step` may be done: nothing else is in doubt, and it may be done again if it is. An
    /// attempt does it once: it may still be under way.
    pub(crate) fn permit(&self, step: &Step<'_>, name: &StepName) -> Result<(), Interrupted> {
        self.check()?;
        match self.in_doubt() {
            Some((doubted, given_up))
                if given_up || doubted != *name || self.resend_for(step).is_none() =>
            {
                Err(self.interrupt(Interrupted::InDoubt { step: doubted.to_string() }))
            }
            _ => Ok(()),
        }
    }

    /// Whether the execution may come to its end: nothing is in doubt.
    pub(crate) fn permit_end(&self) -> Result<(), Interrupted> {
        self.check()?;
        match self.in_doubt() {
            Some((doubted, _)) => {
                Err(self.interrupt(Interrupted::InDoubt { step: doubted.to_string() }))
            }
            None => Ok(()),
        }
    }

    /// For how long a step may be done again while its outcome is unknown.
    pub(crate) fn resend_for(&self, step: &Step<'_>) -> Option<Duration> {
        let policy = self.attempting.operation.policy();
        let of_the_operation = match (policy.on_unknown, policy.collapse_for) {
            (OnUnknown::Resend, Some(memory)) => Some(memory.saturating_sub(policy.late_arrival)),
            _ => None,
        };
        step.resend_for.unwrap_or(of_the_operation)
    }

    /// Admits the execution, if it is not: from here on an effect may exist. Beside a step in doubt
    /// it is known to have begun, and its next admission is that step's own.
    pub(crate) async fn admit(&self) -> Result<(), Interrupted> {
        let record = self.record();
        let in_doubt = matches!(record.progress, Progress::InDoubt { .. });
        if record.own_state == OwnState::Executing || in_doubt {
            return Ok(());
        }
        let by = record.ownership();
        let store = &self.attempting.engine.inner.store;
        self.write(|| self.attempting.writes(Kind::Admit, store.admit(by, self.lease(), None)))
            .await
    }

    /// Begins a step: from here on it may have happened.
    pub(crate) async fn begin(&self, step: &Step<'_>, name: &StepName) -> Result<(), Interrupted> {
        let begin = BeginStep { name: name.clone(), resend_for: self.resend_for(step) };
        let by = self.ownership();
        let store = &self.attempting.engine.inner.store;
        // Noted first: given up within the write, it is in doubt too.
        let before = self.note_begin(name);
        let writing = || store.begin_step(by, begin.clone(), self.lease());
        let written = self.write(|| self.writes(Kind::Call, name, Moment::Begun, writing())).await;
        if written.is_err() {
            let mut state = self.state.lock();
            state.steps.retain(|there| there.name != *name);
            state.steps.extend(before);
        }
        written
    }

    /// Notes a step as begun by this attempt, and says how it was before.
    fn note_begin(&self, name: &StepName) -> Option<Stored> {
        let mut state = self.state.lock();
        let (attempt, begun) = (state.record.attempt, state.record.created);
        if let Some(there) = state.steps.iter_mut().find(|there| there.name == *name) {
            let before = there.clone();
            there.attempt = attempt;
            return Some(before);
        }
        state.steps.push(Stored { name: name.clone(), attempt, begun, done: None });
        None
    }

    /// Ends a step that was begun. What it came to is known here alone, so this goes on until the
    /// store has it.
    pub(crate) async fn end(&self, name: &StepName, end: StepEnd) -> Result<(), Interrupted> {
        let by = self.ownership();
        let store = &self.attempting.engine.inner.store;
        let mut pause = PAUSE.0;
        loop {
            let writing = || store.end_step(by, name.clone(), end.clone(), self.lease());
            let written = || self.writes(Kind::Call, name, Moment::Ended, writing());
            match self.write(written).await {
                Err(Interrupted::Store(error)) if !self.gives_up(&error) => {
                    warn!(%error, step = %name, "the end of a step could not be stored yet");
                    self.pause(&mut pause).await;
                }
                written => {
                    written?;
                    break;
                }
            }
        }
        self.note_end(name, end);
        Ok(())
    }

    /// Notes what is stored by now.
    pub(crate) fn note_end(&self, name: &StepName, end: StepEnd) {
        let mut state = self.state.lock();
        state.steps.retain(|there| there.name != *name);
        if let StepEnd::Done(data) = end {
            let (attempt, begun) = (state.record.attempt, state.record.created);
            let done = Some(data);
            state.steps.push(Stored { name: name.clone(), attempt, begun, done });
            state.given.push(name.clone());
        }
    }

    /// An owner's write; issued again after a lost answer, until it is known what it came to.
    async fn write<'s>(&self, write: impl Fn() -> Reply<'s, Written>) -> Result<(), Interrupted> {
        let mut pause = PAUSE.0;
        let mut was_lost = false;
        loop {
            let error = match write().await {
                Ok(written) => return self.note(written),
                Err(error) => error,
            };
            was_lost |= error.certainty() == Certainty::MayBeWritten;
            if !was_lost || self.gives_up(&error) {
                return Err(Interrupted::Store(error));
            }
            warn!(%error, "the answer to a step's write was lost; issuing it again");
            self.pause(&mut pause).await;
        }
    }

    /// Whether a write is not issued again: the store is another one, or the drain is over.
    fn gives_up(&self, error: &StoreError) -> bool {
        let over = self.attempting.engine.inner.abandon.is_cancelled();
        over || matches!(error, StoreError::Regressed { .. })
    }

    async fn pause(&self, pause: &mut Duration) {
        tokio::select! {
            () = sleep(*pause) => {}
            () = self.attempting.engine.inner.abandon.cancelled() => {}
        }
        *pause = (*pause * 2).min(PAUSE.1);
    }

    /// Keeps the record as a write left it, or why there was none.
    pub(crate) fn note(&self, written: Written) -> Result<(), Interrupted> {
        self.note_unless_done(&written)?;
        if let Written::Done(record) = written {
            self.state.lock().record = *record;
        }
        Ok(())
    }

    /// Keeps why there was no write, if there was none.
    pub(crate) fn note_unless_done(&self, written: &Written) -> Result<(), Interrupted> {
        let why = match written {
            Written::Done(_) => return Ok(()),
            Written::Refused { why, .. } => Some(*why),
            Written::Missing => None,
        };
        Err(self.interrupt(match why {
            Some(WriteRefused::ResendOver | WriteRefused::StepInDoubt) => {
                let step = self.in_doubt().map(|(name, _)| name.to_string()).unwrap_or_default();
                Interrupted::InDoubt { step }
            }
            Some(WriteRefused::StepEnded) => {
                Interrupted::Misused("a step of this name has ended already".to_owned())
            }
            _ => Interrupted::Fenced,
        }))
    }

    pub(crate) fn ownership(&self) -> Ownership {
        self.state.lock().record.ownership()
    }

    pub(crate) fn lease(&self) -> Duration {
        self.attempting.operation.policy().lease
    }
}
