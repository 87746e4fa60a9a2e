//! The bodies of both directions.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hapax::http::{body::BoxError, headers::strip_ours_from_request};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use thiserror::Error;

use super::expect::{Gate, Wanted};

/// A request's body on its way to the upstream.
#[derive(Debug)]
pub struct OutBody {
    content: Out,
    /// Where it is kept until the upstream asks for it.
    gate: Option<Gate>,
    strips_ours: bool,
}

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
        Out::Full(Some(content).filter(|content| !content.is_empty())).into()
    }

    /// A body that is passed on as it arrives. It must report an early end as an error, as
    /// [`crate::server::Inbound`] does.
    pub fn streaming<B>(body: B) -> Self
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Out::Streaming(body.map_err(Into::into).boxed_unsync()).into()
    }

    /// Without the trailer fields that only we may set.
    #[must_use]
    pub(crate) const fn stripping_ours(mut self) -> Self {
        self.strips_ours = true;
        self
    }

    /// A second one with the same content, where that is in memory.
    pub(super) fn copy(&self) -> Option<Self> {
        match &self.content {
            Out::Full(content) => Some(Out::Full(content.clone()).into()),
            Out::Streaming(_) => None,
        }
    }

    pub(super) fn keep(&mut self, gate: Gate) {
        self.gate = Some(gate);
    }

    /// Where it is told that it is wanted, if it is kept until then.
    pub(super) fn wanted(&self) -> Option<Wanted> {
        self.gate.as_ref().map(Gate::wanted)
    }

    pub(super) fn framing(&self) -> Framing {
        match self.size_hint().exact() {
            _ if self.is_end_stream() => Framing::Length(0),
            Some(length) => Framing::Length(length),
            None => Framing::Chunked,
        }
    }
}

impl From<Out> for OutBody {
    fn from(content: Out) -> Self {
        Self { content, gate: None, strips_ours: false }
    }
}

impl Body for OutBody {
    type Data = Bytes;
    type Error = OutBodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, OutBodyError>>> {
        if let Some(gate) = &mut self.gate {
            let opened = ready!(gate.poll(cx));
            self.gate = None;
            if let Err(not_wanted) = opened {
                return Poll::Ready(Some(Err(OutBodyError(not_wanted.into()))));
            }
        }
        match &mut self.content {
            Out::Full(content) => Poll::Ready(content.take().map(|data| Ok(Frame::data(data)))),
            Out::Streaming(body) => {
                let mut polled = ready!(Pin::new(body).poll_frame(cx));
                if self.strips_ours
                    && let Some(Ok(frame)) = &mut polled
                    && let Some(trailers) = frame.trailers_mut()
                {
                    strip_ours_from_request(trailers);
                }
                Poll::Ready(polled.map(|frame| frame.map_err(OutBodyError)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Out::Full(content) => content.is_none(),
            Out::Streaming(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Out::Full(content) => {
                SizeHint::with_exact(content.as_ref().map_or(0, |content| content.len() as u64))
            }
            Out::Streaming(body) => body.size_hint(),
        }
    }
}
