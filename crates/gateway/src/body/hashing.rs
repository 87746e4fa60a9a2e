//! The digest of a body that streams through.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use sha2::{Digest, Sha256};
use tokio::sync::oneshot;

/// Passes every frame through untouched, and knows the SHA-256 of the content at its clean end.
#[derive(Debug)]
pub struct HashingBody<B> {
    inner: B,
    // Gone after the end, clean or not.
    digesting: Option<(Sha256, oneshot::Sender<[u8; 32]>)>,
}

/// Where the digest of a [`HashingBody`] arrives.
#[derive(Debug)]
pub struct BodyDigest {
    receiver: oneshot::Receiver<[u8; 32]>,
}

impl BodyDigest {
    /// Waits for the body's end. `None` if it broke off or was dropped before: there is no digest
    /// of a part.
    pub async fn finished(self) -> Option<[u8; 32]> {
        self.receiver.await.ok()
    }
}

impl<B: Body> HashingBody<B> {
    /// Wraps `inner`; `seed` has seen whatever the content is to be hashed after.
    pub fn new(inner: B, seed: Sha256) -> (Self, BodyDigest) {
        let (sender, receiver) = oneshot::channel();
        let mut body = Self { inner, digesting: Some((seed, sender)) };
        body.finish_at_end();
        (body, BodyDigest { receiver })
    }

    /// A consumer need not poll past an announced end, so the end is looked for, not waited for.
    fn finish_at_end(&mut self) {
        if self.inner.is_end_stream() {
            self.finish();
        }
    }

    fn finish(&mut self) {
        if let Some((hash, sender)) = self.digesting.take() {
            // Nobody may be waiting any more.
            let _ = sender.send(hash.finalize().into());
        }
    }
}

impl<B> Body for HashingBody<B>
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
            Some(Err(_)) => self.digesting = None,
            Some(Ok(frame)) => {
                if let (Some(data), Some((hash, _))) = (frame.data_ref(), &mut self.digesting) {
                    hash.update(data);
                }
                // Trailers come last: hyper's encoders do not poll again after them.
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
    use http::HeaderMap;
    use http_body_util::{BodyExt, Empty, Full};

    use super::super::tests::{Scripted, Step};
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
        let (mut body, digest) =
            HashingBody::new(Scripted::new(steps), Sha256::new_with_prefix("POST /"));
        let mut frames = Vec::new();
        // Stops after the trailers, without asking for the end.
        for _ in 0..3 {
            let frame = body.frame().await.and_then(Result::ok);
            frames.push(frame.and_then(|frame| frame.into_data().ok()));
        }
        assert_eq!(frames, [Some(Bytes::from("ab")), Some(Bytes::from("cd")), None]);
        assert_eq!(digest.finished().await, sha256("POST /abcd"));
    }

    #[tokio::test]
    async fn a_body_that_announces_its_end_is_finished_there() {
        let (mut body, digest) = HashingBody::new(Full::new(Bytes::from("abc")), Sha256::new());
        let _ = body.frame().await;
        assert_eq!(digest.finished().await, sha256("abc"));

        let (_body, digest) = HashingBody::new(Empty::<Bytes>::new(), Sha256::new());
        assert_eq!(digest.finished().await, sha256(""));
    }

    #[tokio::test]
    async fn an_aborted_body_has_no_digest() {
        let (body, digest) =
            HashingBody::new(Scripted::new([data("a"), Step::Break]), Sha256::new());
        assert!(body.collect().await.is_err());
        assert_eq!(digest.finished().await, None);

        let (mut body, digest) =
            HashingBody::new(Scripted::new([data("a"), data("b")]), Sha256::new());
        let _ = body.frame().await;
        drop(body);
        assert_eq!(digest.finished().await, None);
    }
}
