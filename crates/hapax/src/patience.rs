//! How long a caller waits for a write that goes on without it.

use std::{task::Poll, time::Duration};

use hapax_core::Problem;
use hapax_store::{Reply, StoreError};
use tokio::time::{Instant, sleep, sleep_until};

use crate::{claim::Attempting, poll_once::poll_once, reply_slot::Early};

/// A caller's patience with the writes of its attempt: the store's timeout, over all of them and
/// the pauses in between. Then it is told something, and the writes go on.
pub(crate) struct Patience<'a, F> {
    attempting: &'a Attempting,
    early: &'a dyn Early,
    /// What the caller is told.
    late: F,
    /// When it ends; counted from the first thing that is not done at once.
    ends: Option<Instant>,
}

impl<'a, F: Fn() -> Problem> Patience<'a, F> {
    pub(crate) const fn of(attempting: &'a Attempting, early: &'a dyn Early, late: F) -> Self {
        Self { attempting, early, late, ends: None }
    }

    /// Waits for a write, however long it takes.
    pub(crate) async fn wait<R>(&mut self, mut writing: Reply<'_, R>) -> Result<R, StoreError> {
        // A store in memory is done at once, and needs no timer.
        if let Poll::Ready(written) = poll_once(writing.as_mut()).await {
            return written;
        }
        self.over(writing).await
    }

    /// Waits before the next write; not at all where executions are being abandoned.
    pub(crate) async fn pause(&mut self, pause: Duration) {
        let abandon = self.attempting.engine.inner.abandon.clone();
        let paused = Box::pin(async move {
            tokio::select! {
                () = sleep(pause) => {}
                () = abandon.cancelled() => {}
            }
        });
        self.over(paused).await;
    }

    /// Boxed by whoever calls, and here: what is rare is not part of every attempt's future.
    async fn over<T>(&mut self, mut work: impl Future<Output = T> + Unpin) -> T {
        let timeout = self.attempting.engine.inner.options.store_timeout;
        let ends = *self.ends.get_or_insert_with(|| Instant::now() + timeout);
        Box::pin(async {
            loop {
                tokio::select! {
                    biased;
                    done = &mut work => break done,
                    () = sleep_until(ends), if self.early.is_open() => {
                        self.early.refuse((self.late)());
                    }
                }
            }
        })
        .await
    }
}
