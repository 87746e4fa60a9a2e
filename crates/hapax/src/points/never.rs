//! The points of an engine that nobody disturbs.

use std::future::{Ready, ready};

#[cfg(all(feature = "sqlite", feature = "tower"))]
use hapax_core::RecordId;
use hapax_core::StepName;
use hapax_store::Reply;

use super::{Kind, Moment};
use crate::{Hapax, Interrupted, Step, claim::Attempting, running::Running};

impl Hapax {
    pub(crate) fn lives<F: Future>(&self, attempt: F) -> F {
        attempt
    }

    pub(crate) fn limited<F: Future>(&self, limit: F) -> F {
        limit
    }

    pub(crate) const fn waits(&self) {}

    #[cfg(all(feature = "sqlite", feature = "tower"))]
    pub(crate) fn pass(&self, _: RecordId, _: Kind, _: Moment) -> Ready<Result<(), Interrupted>> {
        ready(Ok(()))
    }
}

impl Attempting {
    pub(crate) fn pass(&self, _: Kind, _: Moment) -> Ready<Result<(), Interrupted>> {
        ready(Ok(()))
    }

    pub(crate) fn writes<'s, R>(&self, _: Kind, write: Reply<'s, R>) -> Reply<'s, R> {
        write
    }

    #[cfg(feature = "sqlite")]
    pub(crate) fn commits<F: Future>(&self, _: Kind, commit: F) -> F {
        commit
    }
}

impl Running {
    pub(crate) fn pass(&self, _: Kind, _: &Step<'_>, _: Moment) -> Ready<Result<(), Interrupted>> {
        ready(Ok(()))
    }

    pub(crate) fn writes<'s, R>(
        &self,
        _: Kind,
        _: &StepName,
        _: Moment,
        write: Reply<'s, R>,
    ) -> Reply<'s, R> {
        write
    }

    #[cfg(feature = "sqlite")]
    pub(crate) fn commits<F: Future>(&self, _: &StepName, commit: F) -> F {
        commit
    }
}
