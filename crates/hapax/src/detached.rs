//! Work that is not tied to whoever waits for it.

use std::{cell::Cell, future::poll_fn, pin::Pin, task::Poll};

use tokio::{runtime::Handle, task::JoinHandle};
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

/// How many begin within each other on one stack; the next has a task, and a stack, of its own.
const DEEPEST: usize = 4;

/// Begins work here and now. At the first thing that it has to wait for it moves to a task of its
/// own: whoever waits for it can be dropped from then on, and until then cannot be.
///
/// The work comes boxed because it is large: it is built where it stays.
///
/// # Panics
/// Outside a runtime of tokio, before anything of it has begun.
pub(crate) async fn begin<T: Send + 'static>(
    mut work: Pin<Box<dyn Future<Output = T> + Send>>,
) -> Begun<T> {
    let runtime = Handle::current();
    let begun = poll_fn(|cx| {
        Poll::Ready(match Deeper::down() {
            Some(_deeper) => poll_caught(work.as_mut(), cx),
            None => Poll::Pending,
        })
    });
    match begun.await {
        Poll::Ready(ended) => Begun::Ended(ended),
        Poll::Pending => Begun::GoesOn(runtime.spawn(work.in_current_span())),
    }
}

/// One more that begins on this stack, until it is dropped.
struct Deeper;

impl Deeper {
    fn down() -> Option<Self> {
        DEPTH.with(|depth| {
            let deeper = depth.get() + 1;
            (deeper <= DEEPEST).then(|| {
                depth.set(deeper);
                Self
            })
        })
    }
}

impl Drop for Deeper {
    fn drop(&mut self) {
        DEPTH.with(|depth| depth.set(depth.get() - 1));
    }
}

thread_local! {
    static DEPTH: Cell<usize> = const { Cell::new(0) };
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
    async fn however_deep_one_begins_within_another_the_stack_is_not_used_up() {
        fn nested(levels: usize) -> Pin<Box<dyn Future<Output = usize> + Send>> {
            Box::pin(async move {
                // What an execution of a handler takes of the stack, more or less.
                let used = std::hint::black_box([1_u8; 16 * 1024]);
                if levels == 0 {
                    return 0;
                }
                let below = begin(nested(levels - 1)).await.end().await.unwrap();
                below + usize::from(used[levels])
            })
        }
        assert_eq!(begin(nested(1_000)).await.end().await, Some(1_000));
        assert_eq!(DEPTH.with(Cell::get), 0);
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
