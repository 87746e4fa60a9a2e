//! A look at a future that is probably done.

use std::{future::poll_fn, pin::Pin, task::Poll};

/// Polls a future once: one that is done at once needs no timer. One that is pending is to be
/// polled on.
pub(crate) async fn poll_once<F: Future + ?Sized>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await
}
