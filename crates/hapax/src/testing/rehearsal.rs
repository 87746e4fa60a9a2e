//! One run of a handler with one disturbance: what it passes is noted, and where it is to be
//! disturbed, it is.

use std::{
    future::pending,
    panic::resume_unwind,
    sync::atomic::{AtomicUsize, Ordering},
};

use hapax_core::{Attempt, EffectId, RecordId};
use hapax_store::StoreError;
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;

use super::{Fault, Point, fault::Does};
use crate::{
    Interrupted,
    points::{Kind, Moment},
};

/// A moment of a point that an attempt passed.
#[derive(Clone, Debug)]
pub(crate) struct Passed {
    pub(crate) record: RecordId,
    pub(crate) point: Point,
    pub(crate) moment: Moment,
    /// Whether it may be done again while its outcome is unknown.
    pub(crate) resends: bool,
    /// What a step was told of its attempt.
    pub(crate) step: Option<(Attempt, EffectId)>,
}

impl Passed {
    pub(crate) fn new(record: RecordId, kind: Kind, moment: Moment) -> Self {
        let point = Point::new(kind, kind.word());
        Self { record, point, moment, resends: false, step: None }
    }

    /// Whether somebody executes who passes this.
    pub(super) fn executes(&self) -> bool {
        match self.point.kind() {
            Kind::Claim => false,
            Kind::Begin => self.moment != Moment::Before,
            _ => true,
        }
    }
}

/// What the engine asks at every point.
pub(crate) struct Rehearsal {
    state: Mutex<State>,
    /// Cancelled when the disturbance has come.
    struck: CancellationToken,
    /// Who was told to hang, and is at its limit.
    hung: Semaphore,
    /// Who was told to stay may go on.
    gate: Semaphore,
    waiting: AtomicUsize,
    waits: Notify,
}

struct State {
    armed: Option<(Point, Fault)>,
    /// The record that the first request claimed.
    record: Option<RecordId>,
    passed: Vec<Passed>,
    /// Cancelled when the process dies.
    life: CancellationToken,
}

impl Rehearsal {
    pub(super) fn new(armed: Option<(Point, Fault)>) -> Self {
        let life = CancellationToken::new();
        let state = State { armed, record: None, passed: Vec::new(), life };
        Self {
            state: Mutex::new(state),
            struck: CancellationToken::new(),
            hung: Semaphore::new(0),
            gate: Semaphore::new(0),
            waiting: AtomicUsize::new(0),
            waits: Notify::new(),
        }
    }

    pub(crate) async fn pass(&self, passed: Passed) -> Result<(), Interrupted> {
        let step = passed.point.name().to_owned();
        match self.strike(passed) {
            None | Some(Does::Lose) => Ok(()),
            Some(Does::Doubt) => Err(Interrupted::InDoubt { step }),
            Some(Does::Fail) => {
                let reason = "the harness says so".to_owned();
                Err(Interrupted::Store(StoreError::Unavailable { reason }))
            }
            Some(Does::Panic) => resume_unwind(Box::new("the harness says so")),
            Some(Does::Stay) => {
                // The gate is never closed.
                if let Ok(permit) = self.gate.acquire().await {
                    permit.forget();
                }
                Ok(())
            }
            Some(Does::Hang) => {
                self.hung.add_permits(1);
                pending().await
            }
            Some(Does::Die) => self.die().await,
        }
    }

    /// A write that is done, with the answer that its issuer gets.
    pub(crate) async fn written<R>(
        &self,
        passed: Passed,
        written: Result<R, StoreError>,
    ) -> Result<R, StoreError> {
        let answer = written?;
        match self.strike(passed) {
            Some(Does::Lose) => {
                Err(StoreError::AnswerLost { reason: "the harness says so".to_owned() })
            }
            Some(Does::Die) => self.die().await,
            _ => Ok(answer),
        }
    }

    /// Notes what is passed; what is to be done to it, if it is to be disturbed here.
    fn strike(&self, passed: Passed) -> Option<Does> {
        let mut state = self.state.lock();
        // What else a handler claims is its own affair.
        if *state.record.get_or_insert(passed.record) != passed.record {
            return None;
        }
        let is_here = |(point, fault): &mut (Point, Fault)| {
            *point == passed.point && fault.strikes(point.kind()) == Some(passed.moment)
        };
        let fault = state.armed.take_if(is_here).map(|(_, fault)| fault);
        state.passed.push(passed);
        let fault = fault?;
        self.struck.cancel();
        Some(fault.does())
    }

    /// All that was under way in the process ends here, as it is.
    async fn die<R>(&self) -> R {
        let life = std::mem::take(&mut self.state.lock().life);
        life.cancel();
        pending().await
    }

    /// Until when attempts live that begin now.
    pub(crate) fn life(&self) -> CancellationToken {
        self.state.lock().life.clone()
    }

    /// Ends for the one that hangs.
    pub(crate) async fn hung(&self) {
        if let Ok(permit) = self.hung.acquire().await {
            permit.forget();
        }
    }

    pub(crate) fn note_waiting(&self) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        self.waits.notify_one();
    }

    /// How many attempts have waited for another one.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::SeqCst)
    }

    /// Ends when one more waits.
    pub(super) async fn one_more_waits(&self) {
        self.waits.notified().await;
    }

    pub(super) fn is_struck(&self) -> bool {
        self.struck.is_cancelled()
    }

    pub(super) async fn until_struck(&self) {
        self.struck.cancelled().await;
    }

    /// Who was told to stay goes on.
    pub(super) fn go_on(&self) {
        self.gate.add_permits(1);
    }

    pub(super) fn record(&self) -> Option<RecordId> {
        self.state.lock().record
    }

    pub(super) fn passed(&self) -> Vec<Passed> {
        self.state.lock().passed.clone()
    }

    /// How many moments of executions were passed.
    pub(super) fn executed(&self) -> usize {
        self.state.lock().passed.iter().filter(|passed| passed.executes()).count()
    }
}
