//! A body whose end is told to somebody else.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::sync::oneshot;

/// Passes every frame through untouched, and tells whether the message ended cleanly.
#[derive(Debug)]
pub struct WatchedBody<B> {
    inner: B,
    ended: Option<oneshot::Sender<()>>,
}

/// Resolves when a [`WatchedBody`] ended cleanly; closed for one that broke off or was dropped.
pub type CleanEnd = oneshot::Receiver<()>;

impl<B: Body> WatchedBody<B> {
    /// Wraps `inner`.
    pub fn new(inner: B) -> (Self, CleanEnd) {
        let (sender, receiver) = oneshot::channel();
        let mut body = Self { inner, ended: Some(sender) };
        body.finish_at_end();
        (body, receiver)
    }

    fn finish_at_end(&mut self) {
        if self.inner.is_end_stream() {
            self.finish();
        }
    }

    fn finish(&mut self) {
        if let Some(sender) = self.ended.take() {
            // Nobody may be waiting any more.
            let _ = sender.send(());
        }
    }
}

impl<B> Body for WatchedBody<B>
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
            Some(Err(_)) => self.ended = None,
            Some(Ok(frame)) if frame.is_trailers() => self.finish(),
            Some(Ok(_)) => self.finish_at_end(),
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
    use http_body_util::BodyExt;

    use super::super::tests::{Scripted, Step};
    use super::*;

    #[tokio::test]
    async fn only_a_clean_end_is_told() {
        let data = || Step::Frame(Frame::data(Bytes::from_static(b"ab")));
        let (body, end) = WatchedBody::new(Scripted::new([data()]));
        assert!(body.collect().await.is_ok());
        assert!(end.await.is_ok());

        let (body, end) = WatchedBody::new(Scripted::new([data(), Step::Break]));
        assert!(body.collect().await.is_err());
        assert!(end.await.is_err());

        let (body, end) = WatchedBody::new(Scripted::new([data()]));
        drop(body);
        assert!(end.await.is_err());
    }
}
