//! Clients that take nothing of their answer.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::AsyncWrite,
    time::{Sleep, sleep},
};

use crate::through::reads_through;

/// A stream whose writes fail once the other side has taken nothing for a while: neither hyper nor
/// TCP ends such a connection, and each holds a place and its buffers.
pub(super) struct Stalling<S> {
    inner: S,
    within: Duration,
    /// Counting since a write found no room.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> Stalling<S> {
    pub(super) const fn new(inner: S, within: Duration) -> Self {
        Self { inner, within, stalled: None }
    }

    fn judge<T>(
        &mut self,
        cx: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.stalled = None;
            return polled;
        }
        let within = self.within;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(within)));
        ready!(stalled.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client takes no answer")))
    }
}

reads_through!(Stalling);

impl<S: AsyncWrite + Unpin> AsyncWrite for Stalling<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.judge(cx, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write_vectored(cx, slices);
        self.judge(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.inner).poll_flush(cx);
        self.judge(cx, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.inner).poll_shutdown(cx);
        self.judge(cx, polled)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_is_given_up() {
        let (ours, _theirs) = duplex(8);
        let mut ours = Stalling::new(ours, MINUTE);
        let begun = tokio::time::Instant::now();
        let failed = ours.write_all(b"more than there is room for").await.unwrap_err();
        assert_eq!(failed.kind(), io::ErrorKind::TimedOut);
        assert_eq!(begun.elapsed(), MINUTE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_one_that_takes_a_little_now_and_then_is_not() {
        let (ours, mut theirs) = duplex(8);
        let mut ours = Stalling::new(ours, MINUTE);
        let reading = async {
            let mut read = 0;
            while read < 64 {
                sleep(MINUTE - Duration::from_secs(1)).await;
                let mut some = [0; 4];
                read += theirs.read(&mut some).await.unwrap();
            }
        };
        let (written, ()) = tokio::join!(ours.write_all(&[7; 64]), reading);
        written.unwrap();
    }
}
