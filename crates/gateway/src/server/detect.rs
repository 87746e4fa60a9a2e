//! A bound on the bytes that tell HTTP/1 from HTTP/2.
//!
//! hyper-util waits for them without one, and hyper's own timeout begins after them: a client that
//! connects and says nothing, or half a preface, would stay for ever.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::{Sleep, sleep};

use crate::through::writes_through;

/// How an HTTP/2 connection begins (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A stream that fails to read once the time for telling the versions apart is over.
pub(super) struct Detecting<S> {
    inner: S,
    // None: the version is known.
    undecided: Option<Undecided>,
}

struct Undecided {
    deadline: Pin<Box<Sleep>>,
    /// How much of the preface has been read.
    matched: usize,
}

impl<S> Detecting<S> {
    pub(super) fn new(inner: S, within: Duration) -> Self {
        let undecided = Undecided { deadline: Box::pin(sleep(within)), matched: 0 };
        Self { inner, undecided: Some(undecided) }
    }

    fn saw(&mut self, read: &[u8]) {
        let Some(undecided) = &mut self.undecided else {
            return;
        };
        let expected = PREFACE.get(undecided.matched..).unwrap_or_default();
        undecided.matched += read.len();
        // At the end of the stream nothing more is to come either.
        let decided =
            read.is_empty() || read.len() >= expected.len() || !expected.starts_with(read);
        if decided {
            self.undecided = None;
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Detecting<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        if Pin::new(&mut self.inner).poll_read(cx, buf)?.is_ready() {
            self.saw(buf.filled().get(before..).unwrap_or_default());
            return Poll::Ready(Ok(()));
        }
        match &mut self.undecided {
            None => Poll::Pending,
            Some(undecided) => {
                ready!(undecided.deadline.as_mut().poll(cx));
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            }
        }
    }
}

writes_through!(Detecting);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_time_stops_as_soon_as_the_version_is_known() {
        let whole = std::str::from_utf8(PREFACE).unwrap_or_default();
        for (reads, decided) in [
            (&["P"][..], false),
            (&["PRI * HT", "TP/2.0\r\n"], false),
            (&["G"], true),
            (&["PO"], true),
            (&["P", "O"], true),
            (&[whole], true),
            (&["PRI * HTTP/2.0\r\n", "\r\nSM\r\n\r\n\0\0"], true),
            (&["P", ""], true),
        ] {
            let mut stream = Detecting::new((), Duration::from_secs(1));
            reads.iter().for_each(|read| stream.saw(read.as_bytes()));
            assert_eq!(stream.undecided.is_none(), decided, "{reads:?}");
        }
    }
}
