//! A body that streams through while somebody takes note of it.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hapax::http::body::{BufferBudget, Buffered, Reservation};
use http_body::{Body, Frame, SizeHint};
use sha2::{Digest, Sha256};
use tokio::sync::oneshot;

/// Passes every frame through untouched, and tells its tap of the content and of a clean end.
#[derive(Debug)]
pub struct Tapped<B, T> {
    inner: B,
    // Gone after the end, clean or not: a tap that is dropped has not seen all of it.
    tap: Option<T>,
}

/// Who takes note.
pub trait Tap: Sized {
    /// Sees some of the content; `None` when it has seen enough.
    fn see(self, data: &Bytes) -> Option<Self>;

    /// Saw the clean end.
    fn end(self);
}

impl<B: Body, T: Tap> Tapped<B, T> {
    fn new(inner: B, tap: T) -> Self {
        let mut body = Self { inner, tap: Some(tap) };
        body.end_if_announced();
        body
    }

    /// A consumer need not poll past an announced end, so the end is looked for, not waited for.
    fn end_if_announced(&mut self) {
        if self.inner.is_end_stream() {
            self.end();
        }
    }

    fn end(&mut self) {
        if let Some(tap) = self.tap.take() {
            tap.end();
        }
    }
}

impl<B, T> Body for Tapped<B, T>
where
    B: Body<Data = Bytes> + Unpin,
    T: Tap + Unpin,
{
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let polled = ready!(Pin::new(&mut self.inner).poll_frame(cx));
        match &polled {
            None => self.end(),
            Some(Err(_)) => self.tap = None,
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref() {
                    self.tap = self.tap.take().and_then(|tap| tap.see(data));
                }
                // Trailers come last: hyper's encoders do not poll again after them.
                if frame.is_trailers() { self.end() } else { self.end_if_announced() }
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

/// Knows the SHA-256 of the content at the end.
#[derive(Debug)]
pub struct Hashing(Sha256, oneshot::Sender<[u8; 32]>);

/// Where the digest arrives; closed if the body broke off: there is no digest of a part.
pub type BodyDigest = oneshot::Receiver<[u8; 32]>;

/// Hashes a body; `seed` has seen whatever the content is to be hashed after.
pub fn hashing<B: Body>(inner: B, seed: Sha256) -> (Tapped<B, Hashing>, BodyDigest) {
    let (sender, digest) = oneshot::channel();
    (Tapped::new(inner, Hashing(seed, sender)), digest)
}

impl Tap for Hashing {
    fn see(mut self, data: &Bytes) -> Option<Self> {
        self.0.update(data);
        Some(self)
    }

    fn end(self) {
        // Nobody may be waiting any more.
        let _ = self.1.send(self.0.finalize().into());
    }
}

/// Keeps a copy, if it is not larger than the cap and there is room for it in the budget.
#[derive(Debug)]
pub struct Recording {
    cap: usize,
    content: Vec<u8>,
    held: Reservation,
    sender: oneshot::Sender<Result<Buffered, NotRecorded>>,
}

/// Where the copy arrives; closed if the body broke off.
pub type Recorded = oneshot::Receiver<Result<Buffered, NotRecorded>>;

/// Why a body was not recorded.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NotRecorded {
    /// It is larger than the cap.
    TooLarge,
    /// There is no room in the budget.
    NoRoom,
}

/// Records a body of at most `cap` bytes, which count in the budget.
pub fn recording<B: Body>(
    inner: B,
    cap: usize,
    budget: &BufferBudget,
) -> (Tapped<B, Recording>, Recorded) {
    let (sender, recorded) = oneshot::channel();
    let tap = Recording { cap, content: Vec::new(), held: budget.reserve(), sender };
    (Tapped::new(inner, tap), recorded)
}

impl Tap for Recording {
    fn see(mut self, data: &Bytes) -> Option<Self> {
        let why = if data.len() > self.cap - self.content.len() {
            NotRecorded::TooLarge
        } else if !self.held.grow(data.len()) {
            NotRecorded::NoRoom
        } else {
            self.content.extend_from_slice(data);
            return Some(self);
        };
        // Nobody may be waiting any more.
        let _ = self.sender.send(Err(why));
        None
    }

    fn end(self) {
        let _ = self.sender.send(Ok(Buffered::new(self.content.into(), self.held)));
    }
}

/// Waits for the end alone.
#[derive(Debug)]
pub struct Watching(oneshot::Sender<()>);

/// Resolves at the clean end; closed if the body broke off or was dropped.
pub type CleanEnd = oneshot::Receiver<()>;

/// Watches a body for its end.
pub fn watching<B: Body>(inner: B) -> (Tapped<B, Watching>, CleanEnd) {
    let (sender, end) = oneshot::channel();
    (Tapped::new(inner, Watching(sender)), end)
}

impl Tap for Watching {
    fn see(self, _: &Bytes) -> Option<Self> {
        Some(self)
    }

    fn end(self) {
        let _ = self.0.send(());
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use http_body_util::{BodyExt, Empty, Full};

    use super::super::scripted::{Scripted, Step};
    use super::*;

    fn data(text: &'static str) -> Step {
        Step::Frame(Frame::data(Bytes::from_static(text.as_bytes())))
    }

    fn sha256(content: &str) -> Option<[u8; 32]> {
        Some(Sha256::digest(content).into())
    }

    #[tokio::test]
    async fn the_digest_covers_seed_and_content_and_the_frames_pass_untouched() {
        let steps = [data("ab"), data("cd"), Step::Frame(Frame::trailers(HeaderMap::new()))];
        let (mut body, digest) = hashing(Scripted::new(steps), Sha256::new_with_prefix("POST /"));
        let mut frames = Vec::new();
        // Stops after the trailers, without asking for the end.
        for _ in 0..3 {
            let frame = body.frame().await.and_then(Result::ok);
            frames.push(frame.and_then(|frame| frame.into_data().ok()));
        }
        assert_eq!(frames, [Some(Bytes::from("ab")), Some(Bytes::from("cd")), None]);
        assert_eq!(digest.await.ok(), sha256("POST /abcd"));
    }

    #[tokio::test]
    async fn an_announced_end_is_an_end() {
        let (mut body, digest) = hashing(Full::new(Bytes::from("abc")), Sha256::new());
        let _ = body.frame().await;
        assert_eq!(digest.await.ok(), sha256("abc"));
        let (_body, digest) = hashing(Empty::<Bytes>::new(), Sha256::new());
        assert_eq!(digest.await.ok(), sha256(""));
    }

    #[tokio::test]
    async fn only_a_clean_end_is_told() {
        let (body, digest) = hashing(Scripted::new([data("a"), Step::Break]), Sha256::new());
        assert!(body.collect().await.is_err());
        assert!(digest.await.is_err());
        let (mut body, digest) = hashing(Scripted::new([data("a"), data("b")]), Sha256::new());
        let _ = body.frame().await;
        drop(body);
        assert!(digest.await.is_err());

        let (body, end) = watching(Scripted::new([data("ab")]));
        assert!(body.collect().await.is_ok());
        assert!(end.await.is_ok());
        let (body, end) = watching(Scripted::new([data("ab"), Step::Break]));
        assert!(body.collect().await.is_err());
        assert!(end.await.is_err());
    }

    /// What was recorded of a body that was passed on, and whether it was.
    async fn record(
        steps: Vec<Step>,
        cap: usize,
        room: usize,
    ) -> (Option<Result<Bytes, NotRecorded>>, bool) {
        let budget = BufferBudget::new(room);
        let (body, recorded) = recording(Scripted::new(steps), cap, &budget);
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
}
