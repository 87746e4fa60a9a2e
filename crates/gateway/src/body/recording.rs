//! A copy of a body that streams through.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use tokio::sync::oneshot;

/// Passes every frame through untouched, and hands over the content at its clean end, if it is not
/// larger than the cap.
#[derive(Debug)]
pub struct RecordingBody<B> {
    inner: B,
    cap: usize,
    // Gone after the end, clean or not, and past the cap.
    recording: Option<(BytesMut, oneshot::Sender<Bytes>)>,
}

/// Where the content of a [`RecordingBody`] arrives; closed for one that broke off or was larger.
pub type Recorded = oneshot::Receiver<Bytes>;

impl<B: Body> RecordingBody<B> {
    /// Wraps `inner`, keeping at most `cap` bytes.
    pub fn new(inner: B, cap: usize) -> (Self, Recorded) {
        let (sender, receiver) = oneshot::channel();
        let mut body = Self { inner, cap, recording: Some((BytesMut::new(), sender)) };
        body.finish_at_end();
        (body, receiver)
    }

    fn record(&mut self, data: &Bytes) {
        let Some((content, _)) = &mut self.recording else {
            return;
        };
        if data.len() > self.cap - content.len() {
            self.recording = None;
        } else {
            content.extend_from_slice(data);
        }
    }

    /// A consumer need not poll past an announced end, so the end is looked for, not waited for.
    fn finish_at_end(&mut self) {
        if self.inner.is_end_stream() {
            self.finish();
        }
    }

    fn finish(&mut self) {
        if let Some((content, sender)) = self.recording.take() {
            // Nobody may be waiting any more.
            let _ = sender.send(content.freeze());
        }
    }
}

impl<B> Body for RecordingBody<B>
where
    B: Body<Data = Bytes> + Unpin,
{
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let polled = ready!(Pin::new(&mut self.inner).poll_frame(cx));
        match &polled {
            None => self.finish(),
            Some(Err(_)) => self.recording = None,
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref() {
                    self.record(data);
                }
                if frame.is_trailers() { self.finish() } else { self.finish_at_end() }
            }
        }
        Poll::Ready(polled)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt, Empty, Full};

    use super::super::tests::{Scripted, Step};
    use super::*;

    fn data(text: &'static str) -> Step {
        Step::Frame(Frame::data(Bytes::from_static(text.as_bytes())))
    }

    #[tokio::test]
    async fn the_copy_is_whole_or_not_there() {
        let (body, recorded) = RecordingBody::new(Scripted::new([data("ab"), data("cd")]), 4);
        assert_eq!(body.collect().await.map(|all| all.to_bytes()).ok(), Some("abcd".into()));
        assert_eq!(recorded.await, Ok("abcd".into()));

        let (body, recorded) = RecordingBody::new(Scripted::new([data("ab"), data("cd")]), 3);
        assert!(body.collect().await.is_ok());
        assert!(recorded.await.is_err(), "larger than the cap");

        let (body, recorded) = RecordingBody::new(Scripted::new([data("ab"), Step::Break]), 9);
        assert!(body.collect().await.is_err());
        assert!(recorded.await.is_err(), "broken off");
    }

    #[tokio::test]
    async fn an_announced_end_is_an_end() {
        let (_body, recorded) = RecordingBody::new(Empty::<Bytes>::new(), 0);
        assert_eq!(recorded.await, Ok(Bytes::new()));
        let (mut body, recorded) = RecordingBody::new(Full::new(Bytes::from("ab")), 2);
        let _ = body.frame().await;
        assert_eq!(recorded.await, Ok("ab".into()));
    }
}
