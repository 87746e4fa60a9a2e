//! The body of an answer.

use std::{
    error::Error as StdError,
    fmt,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use h2::RecvStream;
use hapax::http::body::BoxError;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use thiserror::Error;

use super::{expect::Unwanted, http_2::Slot, pool::Lease, upload::Upload};

/// An answer's body. It ends without an error only if the message is complete; at that end the
/// connection becomes idle. Dropped before it, an HTTP/1 connection closes, and the stream of an
/// HTTP/2 connection is reset.
pub struct UpstreamBody(Wire);

enum Wire {
    Http1 {
        inner: Incoming,
        // None: the connection ends with this answer.
        lease: Option<Lease>,
        _unwanted: Option<Unwanted>,
    },
    Http2 {
        inner: RecvStream,
        /// How many bytes are still to come, where that is known.
        left: Option<u64>,
        at: At,
        // Dropped in this order: what is not sent yet, then the place on the connection.
        _upload: Option<Upload>,
        _slot: Slot,
    },
}

/// Where the reading of an HTTP/2 body is.
#[derive(Clone, Copy, PartialEq)]
enum At {
    Data,
    Trailers,
    End,
}

/// An answer ended before it was complete: fewer bytes than its length, no last chunk, a stream
/// that was reset without its end, or a connection that broke (RFC 9112, section 8; RFC 9113,
/// section 8.1).
#[derive(Debug, Error)]
#[error("the upstream's answer ended before it was complete")]
pub struct IncompleteAnswer(#[source] BoxError);

impl UpstreamBody {
    /// `unwanted` tells the request's body at the end that nobody asked for it.
    pub(super) fn http_1(
        inner: Incoming,
        lease: Option<Lease>,
        unwanted: Option<Unwanted>,
    ) -> Self {
        let mut body = Self(Wire::Http1 { inner, lease, _unwanted: unwanted });
        body.give_back_at_end();
        body
    }

    pub(super) fn http_2(
        inner: RecvStream,
        length: Option<u64>,
        upload: Option<Upload>,
        slot: Slot,
    ) -> Self {
        // An answer to HEAD has a length, and no content.
        let left = if inner.is_end_stream() { Some(0) } else { length };
        Self(Wire::Http2 { inner, left, at: At::Data, _upload: upload, _slot: slot })
    }

    /// A consumer need not poll past an announced end, so the end is looked for, not waited for.
    fn give_back_at_end(&mut self) {
        if let Wire::Http1 { inner, lease, .. } = &mut self.0
            && inner.is_end_stream()
            && let Some(lease) = lease.take()
        {
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
        match &mut self.0 {
            Wire::Http1 { inner, lease, .. } => {
                let polled = ready!(Pin::new(inner).poll_frame(cx));
                match &polled {
                    Some(Err(_)) => *lease = None,
                    // hyper hands trailers out after the end of the message, nothing behind them.
                    None => give_back(lease),
                    Some(Ok(frame)) if frame.is_trailers() => give_back(lease),
                    Some(Ok(_)) => self.give_back_at_end(),
                }
                Poll::Ready(polled.map(|frame| frame.map_err(incomplete)))
            }
            Wire::Http2 { inner, left, at, .. } => {
                let polled = ready!(poll_http_2(inner, at, cx));
                if let (Some(left), Some(Ok(frame))) = (left, &polled) {
                    let came = frame.data_ref().map_or(0, |data| data.len() as u64);
                    *left = left.saturating_sub(came);
                }
                Poll::Ready(polled)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Wire::Http1 { inner, .. } => inner.is_end_stream(),
            Wire::Http2 { inner, at, .. } => *at == At::End || inner.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Wire::Http1 { inner, .. } => inner.size_hint(),
            Wire::Http2 { left: Some(left), .. } => SizeHint::with_exact(*left),
            Wire::Http2 { .. } => SizeHint::default(),
        }
    }
}

fn give_back(lease: &mut Option<Lease>) {
    if let Some(lease) = lease.take() {
        lease.give_back();
    }
}

fn poll_http_2(
    inner: &mut RecvStream,
    at: &mut At,
    cx: &mut Context<'_>,
) -> Poll<Option<Result<Frame<Bytes>, IncompleteAnswer>>> {
    if *at == At::Data {
        match ready!(inner.poll_data(cx)) {
            Some(Ok(data)) => {
                // What is handed on is the reader's business; more may come.
                let taken = inner.flow_control().release_capacity(data.len());
                return Poll::Ready(Some(taken.map(|()| Frame::data(data)).map_err(incomplete)));
            }
            Some(Err(error)) => {
                *at = At::End;
                return Poll::Ready(Some(Err(incomplete(error))));
            }
            None => *at = At::Trailers,
        }
    }
    if *at == At::End {
        return Poll::Ready(None);
    }
    let trailers = ready!(inner.poll_trailers(cx));
    *at = At::End;
    match trailers {
        Ok(trailers) => Poll::Ready(trailers.map(|trailers| Ok(Frame::trailers(trailers)))),
        Err(error) => Poll::Ready(Some(Err(incomplete(error)))),
    }
}

fn incomplete(error: impl StdError + Send + Sync + 'static) -> IncompleteAnswer {
    IncompleteAnswer(error.into())
}

impl fmt::Debug for UpstreamBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Wire::Http1 { inner, lease, .. } => f
                .debug_struct("UpstreamBody")
                .field("inner", inner)
                .field("reusable", &lease.is_some())
                .finish(),
            Wire::Http2 { inner, .. } => f.debug_tuple("UpstreamBody").field(inner).finish(),
        }
    }
}
