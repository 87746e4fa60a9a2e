//! The bodies of both directions.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hapax::http::body::BoxError;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;
use thiserror::Error;

use super::pool::Lease;

/// A request's body on its way to the upstream.
#[derive(Debug)]
pub struct OutBody(Out);

#[derive(Debug)]
enum Out {
    Full(Option<Bytes>),
    Streaming(UnsyncBoxBody<Bytes, BoxError>),
}

/// The request's body broke off on its way from the client.
#[derive(Debug, Error)]
#[error("the request's body ended before it was complete")]
pub struct OutBodyError(#[source] BoxError);

/// How a request's body is delimited (RFC 9112, section 6).
pub(super) enum Framing {
    Length(u64),
    Chunked,
}

impl OutBody {
    /// A body that is in memory, as a keyed request's is.
    pub fn full(content: Bytes) -> Self {
        Self(Out::Full(Some(content).filter(|content| !content.is_empty())))
    }

    /// A body that is passed on as it arrives. It must report an early end as an error, as
    /// [`crate::server::Inbound`] does.
    pub fn streaming<B>(body: B) -> Self
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Self(Out::Streaming(body.map_err(Into::into).boxed_unsync()))
    }

    pub(super) fn framing(&self) -> Framing {
        match self.size_hint().exact() {
            _ if self.is_end_stream() => Framing::Length(0),
            Some(length) => Framing::Length(length),
            None => Framing::Chunked,
        }
    }
}

impl Body for OutBody {
    type Data = Bytes;
    type Error = OutBodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, OutBodyError>>> {
        match &mut self.0 {
            Out::Full(content) => Poll::Ready(content.take().map(|data| Ok(Frame::data(data)))),
            Out::Streaming(body) => Pin::new(body)
                .poll_frame(cx)
                .map(|frame| frame.map(|frame| frame.map_err(OutBodyError))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Out::Full(content) => content.is_none(),
            Out::Streaming(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Out::Full(content) => {
                SizeHint::with_exact(content.as_ref().map_or(0, |content| content.len() as u64))
            }
            Out::Streaming(body) => body.size_hint(),
        }
    }
}

/// An answer's body. It ends without an error only if the message is complete; at that end the
/// connection becomes idle, and dropped before it the connection closes.
pub struct UpstreamBody {
    inner: Incoming,
    // None: the connection ends with this answer.
    lease: Option<Lease>,
}

/// An answer ended before it was complete: fewer bytes than its length, no last chunk, or a
/// connection that broke (RFC 9112, section 8).
#[derive(Debug, Error)]
#[error("the upstream's answer ended before it was complete")]
pub struct IncompleteAnswer(#[source] hyper::Error);

impl UpstreamBody {
    pub(super) fn new(inner: Incoming, lease: Option<Lease>) -> Self {
        let mut body = Self { inner, lease };
        body.give_back_at_end();
        body
    }

    /// A consumer need not poll past an announced end, so the end is looked for, not waited for.
    fn give_back_at_end(&mut self) {
        if self.inner.is_end_stream() {
            self.give_back();
        }
    }

    fn give_back(&mut self) {
        if let Some(lease) = self.lease.take() {
            lease.give_back();
        }
    }
}

impl Body for UpstreamBody {
    type Data = Bytes;
    type Error = IncompleteAnswer;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, IncompleteAnswer>>> {
        let polled = ready!(Pin::new(&mut self.inner).poll_frame(cx));
        match &polled {
            None => self.give_back(),
            Some(Err(_)) => self.lease = None,
            // hyper hands trailers out after the end of the message, and nothing behind them.
            Some(Ok(frame)) if frame.is_trailers() => self.give_back(),
            Some(Ok(_)) => self.give_back_at_end(),
        }
        Poll::Ready(polled.map(|frame| frame.map_err(IncompleteAnswer)))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl std::fmt::Debug for UpstreamBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UpstreamBody")
            .field("inner", &self.inner)
            .field("reusable", &self.lease.is_some())
            .finish()
    }
}
