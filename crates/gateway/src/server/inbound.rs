//! A request's body as a client sends it.

use std::pin::Pin;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Version};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use thiserror::Error;
use tokio::time::{Sleep, sleep};

/// A request's body, whose end without an error means that the client sent all of it.
///
/// hyper ends an HTTP/2 body quietly when the client resets the stream with `NO_ERROR`, whatever is
/// missing; a part of an upload must not pass for the whole, so that is an error here.
#[derive(Debug)]
pub struct Inbound {
    inner: Incoming,
    is_http2: bool,
    was_asked_for: bool,
    /// How long nothing of it may come while somebody wants it.
    stall_after: Duration,
    answered: Answered,
    stalled: Option<Pin<Box<Sleep>>>,
}

/// The request ended before it was complete.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum IncompleteRequest {
    /// The connection broke, or the body is malformed.
    #[error("the request's body broke off or is malformed")]
    Broken(#[source] hyper::Error),
    /// The client took the request back (RFC 9113, section 8.1).
    #[error("the client reset the request's stream before its end")]
    Reset,
    /// Nothing of it came for too long. Over HTTP/2 a client whose answer has begun may be silent:
    /// both may be talking (gRPC), with long pauses.
    #[error("the client sent nothing more of the request's body")]
    Stalled,
}

impl Inbound {
    /// Also where it is to be said that its answer has begun.
    pub(super) fn wrap(
        request: Request<Incoming>,
        stall_after: Duration,
    ) -> (Request<Self>, Answered) {
        let is_http2 = request.version() == Version::HTTP_2;
        let answered = match is_http2 && !request.body().is_end_stream() {
            true => Answered(Some(Arc::default())),
            false => Answered(None),
        };
        let wrap = |inner| Self {
            inner,
            is_http2,
            was_asked_for: false,
            stall_after,
            answered: answered.clone(),
            stalled: None,
        };
        (request.map(wrap), answered)
    }

    fn poll_stalled(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let after = self.stall_after;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(after)));
        ready!(stalled.as_mut().poll(cx));
        // Polled again by what comes, or by whoever ends the answer.
        if self.answered.is_said() { Poll::Pending } else { Poll::Ready(()) }
    }

    /// Whether somebody has begun to read it; a client that expects 100 sends nothing before.
    pub fn was_asked_for(&self) -> bool {
        self.was_asked_for
    }
}

/// Whether the answer to a request has begun, where that makes a difference. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Answered(Option<Arc<AtomicBool>>);

impl Answered {
    pub(super) fn say(&self) {
        if let Some(answered) = &self.0 {
            answered.store(true, Ordering::Relaxed);
        }
    }

    fn is_said(&self) -> bool {
        self.0.as_ref().is_some_and(|answered| answered.load(Ordering::Relaxed))
    }
}

impl Body for Inbound {
    type Data = Bytes;
    type Error = IncompleteRequest;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, IncompleteRequest>>> {
        self.was_asked_for = true;
        let Poll::Ready(polled) = Pin::new(&mut self.inner).poll_frame(cx) else {
            ready!(self.poll_stalled(cx));
            return Poll::Ready(Some(Err(IncompleteRequest::Stalled)));
        };
        self.stalled = None;
        let polled = match polled {
            // Over HTTP/1 an early end is hyper's error already, and this is not known.
            None if self.is_http2 && !self.inner.is_end_stream() => {
                Some(Err(IncompleteRequest::Reset))
            }
            polled => polled.map(|frame| frame.map_err(IncompleteRequest::Broken)),
        };
        Poll::Ready(polled)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
