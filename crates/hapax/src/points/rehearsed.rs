//! The points of an engine on which a harness may have put a rehearsal.

use std::sync::Arc;

#[cfg(feature = "sqlite")]
use hapax_core::RecordId;
use hapax_core::StepName;
use hapax_store::Reply;
#[cfg(feature = "sqlite")]
use hapax_store::StoreError;
use parking_lot::RwLock;

use super::{Kind, Moment};
use crate::{
    Hapax, Interrupted, Step,
    claim::Attempting,
    running::Running,
    testing::{Passed, Point, Rehearsal},
};

#[derive(Default)]
pub(crate) struct Points(RwLock<Option<Arc<Rehearsal>>>);

impl Hapax {
    pub(crate) fn rehearse(&self, rehearsal: Arc<Rehearsal>) {
        *self.inner.points.0.write() = Some(rehearsal);
    }

    fn rehearsal(&self) -> Option<Arc<Rehearsal>> {
        self.inner.points.0.read().clone()
    }

    /// The attempt, until its process dies.
    pub(crate) fn lives<F: Future<Output = ()>>(
        &self,
        attempt: F,
    ) -> impl Future<Output = ()> + use<F> {
        let life = self.rehearsal().map(|rehearsal| rehearsal.life());
        async move {
            match life {
                Some(life) => drop(life.run_until_cancelled(attempt).await),
                None => attempt.await,
            }
        }
    }

    /// The limit of an execution; one that hangs is at it.
    pub(crate) async fn limited(&self, limit: impl Future<Output = ()>) {
        match self.rehearsal() {
            Some(rehearsal) => tokio::select! {
                () = limit => {}
                () = rehearsal.hung() => {}
            },
            None => limit.await,
        }
    }

    /// Passes a moment of a point of this record.
    #[cfg(feature = "sqlite")]
    pub(crate) async fn pass(
        &self,
        record: RecordId,
        kind: Kind,
        moment: Moment,
    ) -> Result<(), Interrupted> {
        match self.rehearsal() {
            Some(rehearsal) => rehearsal.pass(Passed::new(record, kind, moment)).await,
            None => Ok(()),
        }
    }

    /// An attempt waits for another one.
    pub(crate) fn waits(&self) {
        if let Some(rehearsal) = self.rehearsal() {
            rehearsal.note_waiting();
        }
    }
}

impl Attempting {
    /// Passes a moment of a point that is no step.
    pub(crate) async fn pass(&self, kind: Kind, moment: Moment) -> Result<(), Interrupted> {
        match self.engine.rehearsal() {
            Some(rehearsal) => rehearsal.pass(self.passed(kind, moment)).await,
            None => Ok(()),
        }
    }

    /// A point that is one write.
    pub(crate) fn writes<'s, R: Send + 's>(&self, kind: Kind, write: Reply<'s, R>) -> Reply<'s, R> {
        let Some(rehearsal) = self.engine.rehearsal() else { return write };
        let (before, ended) = (self.passed(kind, Moment::Before), self.passed(kind, Moment::Ended));
        Box::pin(async move {
            // A write has no error of its own to tell.
            let _ = rehearsal.pass(before).await;
            rehearsal.written(ended, write.await).await
        })
    }

    /// A point that is one commit.
    #[cfg(feature = "sqlite")]
    pub(crate) async fn commits<R>(
        &self,
        kind: Kind,
        commit: impl Future<Output = Result<R, StoreError>>,
    ) -> Result<R, StoreError> {
        let Some(rehearsal) = self.engine.rehearsal() else { return commit.await };
        let _ = rehearsal.pass(self.passed(kind, Moment::Before)).await;
        rehearsal.written(self.passed(kind, Moment::Ended), commit.await).await
    }

    fn passed(&self, kind: Kind, moment: Moment) -> Passed {
        let resends = kind == Kind::Service
            && self.operation.policy().on_unknown == hapax_core::OnUnknown::Resend;
        Passed { resends, ..Passed::new(self.id, kind, moment) }
    }
}

impl Running {
    /// Passes a moment of a step.
    pub(crate) async fn pass(
        &self,
        kind: Kind,
        step: &Step<'_>,
        moment: Moment,
    ) -> Result<(), Interrupted> {
        let Some(rehearsal) = self.attempting.engine.rehearsal() else { return Ok(()) };
        let resends = self.resend_for(step).is_some();
        let passed = Passed { resends, ..self.passed(kind, &step.name, moment) };
        rehearsal.pass(passed).await.map_err(|why| match why {
            doubt @ Interrupted::InDoubt { .. } => self.interrupt(doubt),
            why => why,
        })
    }

    /// The write at a moment of a step.
    pub(crate) fn writes<'s, R: Send + 's>(
        &self,
        kind: Kind,
        name: &StepName,
        moment: Moment,
        write: Reply<'s, R>,
    ) -> Reply<'s, R> {
        let Some(rehearsal) = self.attempting.engine.rehearsal() else { return write };
        let passed = self.passed(kind, name.as_str(), moment);
        Box::pin(async move { rehearsal.written(passed, write.await).await })
    }

    /// The commit of a step.
    #[cfg(feature = "sqlite")]
    pub(crate) async fn commits<R>(
        &self,
        name: &StepName,
        commit: impl Future<Output = Result<R, StoreError>>,
    ) -> Result<R, StoreError> {
        let Some(rehearsal) = self.attempting.engine.rehearsal() else { return commit.await };
        let passed = self.passed(Kind::Step, name.as_str(), Moment::Ended);
        rehearsal.written(passed, commit.await).await
    }

    fn passed(&self, kind: Kind, name: &str, moment: Moment) -> Passed {
        let step = Some((self.attempt.number(), self.attempt.effect_id_of(name)));
        let point = Point::new(kind, name);
        Passed { point, step, ..Passed::new(self.attempting.id, kind, moment) }
    }
}
