//! A copy of a body that streams through.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use tokio::sync::oneshot;

use super::budget::Reservation;
use super::{BufferBudget, Buffered};

/// Passes every frame through untouched, and hands over the content at its clean end, if it is not
/// larger than the cap and there was room for it in the budget.
#[derive(Debug)]
pub struct RecordingBody<B> {
    inner: B,
    cap: usize,
    // Gone after the end, clean or not, past the cap, and where there is no room.
    recording: Option<Recording>,
}

#[derive(Debug)]
struct Recording {
    content: BytesMut,
    held: Reservation,
    sender: oneshot::Sender<Result<Buffered, NotRecorded>>,
}

/// Where the content of a [`RecordingBody`] arrives; closed for one that broke off.
pub type Recorded = oneshot::Receiver<Result<Buffered, NotRecorded>>;

/// Why a body that was passed on whole was not recorded.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NotRecorded {
    /// It is larger than the cap.
    TooLarge,
    /// There is no room in the budget.
    NoRoom,
}

impl<B: Body> RecordingBody<B> {
    /// Wraps `inner`, keeping at most `cap` bytes, which count in the budget.
    pub fn new(inner: B, cap: usize, budget: &BufferBudget) -> (Self, Recorded) {
        let (sender, receiver) = oneshot::channel();
        let recording = Recording { content: BytesMut::new(), held: budget.reserve(), sender };
        let mut body = Self { inner, cap, recording: Some(recording) };
        body.finish_at_end();
        (body, receiver)
    }

    fn record(&mut self, data: &Bytes) {
        let Some(mut recording) = self.recording.take() else {
            return;
        };
        let why = if data.len() > self.cap - recording.content.len() {
            NotRecorded::TooLarge
        } else if !recording.held.grow(data.len()) {
            NotRecorded::NoRoom
        } else {
            recording.content.extend_from_slice(data);
            self.recording = Some(recording);
            return;
        };
        // Nobody may be waiting any more.
        let _ = recording.sender.send(Err(why));
    }

    /// A consumer need not poll past an announced end, so the end is looked for, not waited for.
    fn finish_at_end(&mut self) {
        if self.inner.is_end_stream() {
            self.finish();
        }
    }

    fn finish(&mut self) {
        if let Some(Recording { content, held, sender }) = self.recording.take() {
            // Nobody may be waiting any more.
            let _ = sender.send(Ok(Buffered::new(content.freeze(), held)));
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

    /// What was recorded of a body that was passed on, and whether it was.
    async fn record(
        steps: Vec<Step>,
        cap: usize,
        room: usize,
    ) -> (Option<Result<Bytes, NotRecorded>>, bool) {
        let budget = BufferBudget::new(room);
        let (body, recorded) = RecordingBody::new(Scripted::new(steps), cap, &budget);
        let passed = body.collect().await.is_ok();
        let recorded = recorded.await.ok().map(|all| all.map(|all| all.bytes().clone()));
        assert_eq!(budget.used(), 0, "what is held is given back");
        (recorded, passed)
    }

    #[tokio::test]
    async fn the_copy_is_whole_or_not_there() {
        let two = || vec![data("ab"), data("cd")];
        assert_eq!(record(two(), 4, 4).await, (Some(Ok("abcd".into())), true));
        assert_eq!(record(two(), 3, 9).await, (Some(Err(NotRecorded::TooLarge)), true));
        assert_eq!(record(two(), 9, 3).await, (Some(Err(NotRecorded::NoRoom)), true));
        assert_eq!(record(vec![data("ab"), Step::Break], 9, 9).await, (None, false));
    }

    #[tokio::test]
    async fn an_announced_end_is_an_end() {
        let budget = BufferBudget::new(9);
        let (_body, recorded) = RecordingBody::new(Empty::<Bytes>::new(), 0, &budget);
        assert!(matches!(recorded.await, Ok(Ok(all)) if all.bytes().is_empty()));
        let (mut body, recorded) = RecordingBody::new(Full::new(Bytes::from("ab")), 2, &budget);
        let _ = body.frame().await;
        assert!(matches!(recorded.await, Ok(Ok(all)) if all.bytes() == "ab"));
    }
}
