//! Work that is not tied to whoever waits for it.

use std::{future::poll_fn, pin::Pin, task::Poll};

use tokio::task::JoinHandle;
use tracing::Instrument;

use crate::catch_unwind::poll_caught;

/// Work that was begun.
pub(crate) enum Begun<T> {
    /// It came to its end without waiting for anything; `None` says that it panicked.
    Ended(Option<T>),
    /// It goes on in a task of its own, whatever becomes of the one that began it.
    #[cfg_attr(not(feature = "tower"), allow(dead_code, reason = "nobody waits for its end"))]
    GoesOn(JoinHandle<T>),
}

/// Begins work here and now. At the first thing that it has to wait for it moves to a task of its
/// own: whoever waits for it can be dropped from then on, and until then cannot be.
///
/// The work comes boxed because it is large: it is built where it stays.
pub(crate) async fn begin<T: Send + 'static>(
    mut work: Pin<Box<dyn Future<Output = T> + Send>>,
) -> Begun<T> {
    match poll_fn(|cx| Poll::Ready(poll_caught(work.as_mut(), cx))).await {
        Poll::Ready(ended) => Begun::Ended(ended),
        Poll::Pending => Begun::GoesOn(tokio::spawn(work.in_current_span())),
    }
}

#[cfg(any(test, feature = "tower"))]
impl<T> Begun<T> {
    /// Its end; `None` says that it panicked, or that the runtime is gone.
    pub(crate) async fn end(self) -> Option<T> {
        match self {
            Self::Ended(ended) => ended,
            Self::GoesOn(task) => task.await.ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    };

    use tokio::{sync::Notify, task::yield_now};

    use super::*;

    #[tokio::test]
    async fn what_waits_for_nothing_has_ended_when_it_was_begun() {
        assert!(matches!(begin(Box::pin(async { 7 })).await, Begun::Ended(Some(7))));
        let broken = begin(Box::pin(async { panic!("on purpose") }));
        assert!(matches!(broken.await, Begun::<()>::Ended(None)));
    }

    #[tokio::test]
    async fn what_waits_goes_on_without_the_one_that_began_it() {
        let (go, gone) = (Arc::new(Notify::new()), Arc::new(AtomicBool::new(false)));
        let (waits, done) = (Arc::clone(&go), Arc::clone(&gone));
        let begun = begin(Box::pin(async move {
            waits.notified().await;
            done.store(true, Ordering::SeqCst);
        }));
        drop(begun.await);
        go.notify_one();
        while !gone.load(Ordering::SeqCst) {
            yield_now().await;
        }
    }

    #[tokio::test]
    async fn what_waited_tells_its_end_or_its_panic() {
        let ends = begin(Box::pin(async {
            yield_now().await;
            7
        }));
        assert_eq!(ends.await.end().await, Some(7));
        let breaks = begin(Box::pin(async {
            yield_now().await;
            panic!("on purpose");
        }));
        assert_eq!(breaks.await.end().await, None::<()>);
    }
}
