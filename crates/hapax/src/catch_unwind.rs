//! A panic in an execution is an unknown outcome, not the end of its task.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    task::{Context, Poll},
};

/// Runs a future to its end or its panic; `None` says that it panicked.
///
/// The future is on the heap: futures around it would hold it, and move it, once for each level.
pub(crate) fn catch<F: Future>(
    mut future: Pin<Box<F>>,
) -> impl Future<Output = Option<F::Output>> + Unpin {
    // The future is never polled again after a panic, so its broken state is not observed.
    std::future::poll_fn(move |cx: &mut Context<'_>| poll_caught(future.as_mut(), cx))
}

/// Polls a future; `Ready(None)` says that it panicked, and is not to be polled again.
pub(crate) fn poll_caught<F: Future + ?Sized>(
    future: Pin<&mut F>,
    cx: &mut Context<'_>,
) -> Poll<Option<F::Output>> {
    match catch_unwind(AssertUnwindSafe(|| future.poll(cx))) {
        Ok(Poll::Ready(output)) => Poll::Ready(Some(output)),
        Ok(Poll::Pending) => Poll::Pending,
        Err(_) => Poll::Ready(None),
    }
}

#[cfg(test)]
mod tests {
    use super::catch;

    #[tokio::test]
    async fn a_panic_is_an_answer() {
        assert_eq!(catch(Box::pin(async { 7 })).await, Some(7));
        let broken = async {
            tokio::task::yield_now().await;
            panic!("on purpose");
        };
        assert_eq!(catch(Box::pin(broken)).await, None::<()>);
    }
}
