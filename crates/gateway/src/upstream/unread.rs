//! An upstream that answers before it has read the request, and closes.

use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::AsyncWrite;

use super::pool::Place;
use crate::through::reads_through;

/// A stream on which a failed write does not hide an answer that is there to be read.
///
/// hyper gives a connection up at the first write error, and with it the refusal of an upload that
/// the upstream did not want to read. From the first such error on writes go nowhere, and reading
/// decides what became of the request: an answer, or the end of the connection without one. The
/// peer has closed, so that end comes, and the connection is not used again.
pub(super) struct Unread<S> {
    inner: S,
    writes_fail: bool,
    /// Given back when the connection is gone.
    place: Option<Place>,
}

impl<S> Unread<S> {
    pub(super) const fn new(inner: S) -> Self {
        Self { inner, writes_fail: false, place: None }
    }

    pub(super) fn with(mut self, place: Place) -> Self {
        self.place = Some(place);
        self
    }

    /// The result of a write, as hyper is to see it; `done` says that all of it was written.
    fn forgive<T>(&mut self, written: io::Result<T>, done: T) -> io::Result<T> {
        written.or_else(|error| {
            if !is_closed_by_peer(&error) {
                return Err(error);
            }
            self.writes_fail = true;
            Ok(done)
        })
    }
}

fn is_closed_by_peer(error: &io::Error) -> bool {
    use ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset)
}

reads_through!(Unread);

impl<S: AsyncWrite + Unpin> AsyncWrite for Unread<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.writes_fail {
            return Poll::Ready(Ok(bytes.len()));
        }
        let written = Pin::new(&mut self.inner).poll_write(cx, bytes);
        written.map(|written| self.forgive(written, bytes.len()))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let length = slices.iter().map(|slice| slice.len()).sum();
        if self.writes_fail {
            return Poll::Ready(Ok(length));
        }
        let written = Pin::new(&mut self.inner).poll_write_vectored(cx, slices);
        written.map(|written| self.forgive(written, length))
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.inner).poll_flush(cx);
        flushed.map(|flushed| self.forgive(flushed, ()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test]
    async fn what_the_peer_wrote_before_it_closed_is_still_read() {
        let (ours, mut theirs) = duplex(8);
        theirs.write_all(b"no").await.expect("there is room");
        drop(theirs);
        let mut ours = Unread::new(ours);
        ours.write_all(b"far more than there is room for").await.expect("it goes nowhere");
        ours.flush().await.expect("nor does this");
        let mut answer = String::new();
        ours.read_to_string(&mut answer).await.expect("the answer and the end");
        assert_eq!(answer, "no");
    }

    #[test]
    fn only_a_peer_that_closed_is_forgiven() {
        let mut stream = Unread::new(());
        let failed = stream.forgive::<()>(Err(ErrorKind::TimedOut.into()), ());
        assert!(failed.is_err() && !stream.writes_fail);
        let closed = stream.forgive(Err(ErrorKind::BrokenPipe.into()), 7);
        assert!(matches!(closed, Ok(7)) && stream.writes_fail);
    }
}
