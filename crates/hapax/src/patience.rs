//! How long a caller waits for a write that goes on without it.

use std::task::Poll;

use hapax_core::Problem;
use hapax_store::{Reply, StoreError};
use tokio::time::{Instant, sleep_until};

use crate::{claim::Attempting, poll_once::poll_once, reply_slot::Early};

/// A caller's patience with the writes of its attempt: the store's timeout, over all of them. Then
/// it is told something, and the writes go on.
pub(crate) struct Patience<'a, F> {
    attempting: &'a Attempting,
    early: &'a dyn Early,
    /// What the caller is told.
    late: F,
    /// When it ends; counted from the first write that is not done at once.
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
        let timeout = self.attempting.engine.inner.options.store_timeout;
        let ends = *self.ends.get_or_insert_with(|| Instant::now() + timeout);
        // Boxed, so that the timer is not part of every attempt's future.
        Box::pin(async {
            loop {
                tokio::select! {
                    biased;
                    written = &mut writing => break written,
                    () = sleep_until(ends), if self.early.is_open() => {
                        self.early.refuse((self.late)());
                    }
                }
            }
        })
        .await
    }
}
