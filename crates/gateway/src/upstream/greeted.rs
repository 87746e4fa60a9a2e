//! Whether a peer speaks HTTP/2.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::{
    io::{AsyncRead, ReadBuf},
    sync::oneshot,
};

use crate::through::writes_through;

/// The bytes of a frame's head (RFC 9113, section 4.1).
const FRAME_HEAD: usize = 9;

/// The type of a SETTINGS frame, with which a server begins (RFC 9113, sections 3.4 and 6.5).
const SETTINGS: u8 = 4;

/// A stream that tells of the first frame that is read from it, once h2 has done what it says: h2
/// reads on when it has.
pub(super) struct Greeted<S> {
    inner: S,
    head: Vec<u8>,
    read: usize,
    told: Option<oneshot::Sender<bool>>,
}

impl<S> Greeted<S> {
    /// Also where it is told: whether the first frame is the preface of an HTTP/2 server. Closed
    /// if there was none.
    pub(super) fn new(inner: S) -> (Self, oneshot::Receiver<bool>) {
        let (told, greeted) = oneshot::channel();
        (Self { inner, head: Vec::with_capacity(FRAME_HEAD), read: 0, told: Some(told) }, greeted)
    }

    fn saw(&mut self, read: &[u8]) {
        let missing = FRAME_HEAD - self.head.len();
        self.head.extend_from_slice(read.get(..missing).unwrap_or(read));
        self.read = self.read.saturating_add(read.len());
        if self.head.len() == FRAME_HEAD && !self.is_settings() {
            self.tell(false);
        }
    }

    /// More is wanted than was read.
    fn reads_on(&mut self) {
        let length = self.head.iter().take(3).fold(0, |sum, byte| sum * 256 + usize::from(*byte));
        if self.head.len() == FRAME_HEAD && self.read >= FRAME_HEAD + length {
            self.tell(true);
        }
    }

    fn is_settings(&self) -> bool {
        self.head.get(3) == Some(&SETTINGS)
            && self.head.get(5..).is_some_and(|stream| stream == [0; 4])
    }

    fn tell(&mut self, is_greeting: bool) {
        if let Some(told) = self.told.take() {
            // Nobody may be waiting any more.
            let _ = told.send(is_greeting);
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Greeted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.told.is_some() {
            self.reads_on();
        }
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(cx, buffer);
        if self.told.is_some() && matches!(polled, Poll::Ready(Ok(()))) {
            self.saw(buffer.filled().get(before..).unwrap_or_default());
        }
        polled
    }
}

writes_through!(Greeted);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_settings_frame_on_stream_0_is_the_preface_however_it_arrives() {
        let settings = [0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0];
        for (reads, expected) in [
            (vec![&settings[..]], Ok(true)),
            (vec![&settings[..1], &settings[1..8], &settings[8..]], Ok(true)),
            (vec![&settings[..14]], Err(())),
            (vec![&b"HTTP/1.1 400 Bad Request"[..]], Ok(false)),
            (vec![&[0, 0, 0, 4, 0, 0, 0, 0, 1][..]], Ok(false)),
            (vec![&settings[..8]], Err(())),
        ] {
            let (mut stream, mut greeted) = Greeted::new(());
            for read in &reads {
                stream.reads_on();
                stream.saw(read);
            }
            if expected == Ok(true) {
                assert!(greeted.try_recv().is_err(), "h2 has not done what it says: {reads:?}");
            }
            stream.reads_on();
            assert_eq!(greeted.try_recv().map_err(|_| ()), expected, "{reads:?}");
        }
    }
}
