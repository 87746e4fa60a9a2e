//! A request's body on its way over HTTP/2.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Poll, ready},
};

use bytes::{Buf, Bytes};
use h2::{Reason, SendStream};
use hyper::body::Body;
use parking_lot::Mutex;
use tokio::task::AbortHandle;

use super::{OutBody, OutBodyError};

/// A body that is sent beside the wait for its answer. Dropped, the rest is not sent.
pub(super) struct Upload {
    task: AbortHandle,
    failure: Arc<Mutex<Option<OutBodyError>>>,
}

impl Upload {
    /// What broke it off on its way from the client.
    pub(super) fn failure(self) -> Option<OutBodyError> {
        self.failure.lock().take()
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        // The stream goes with the task, and its peer is told (CANCEL) unless all was sent.
        self.task.abort();
    }
}

/// Sends a body, as fast as the peer takes it.
pub(super) fn upload(body: OutBody, mut stream: SendStream<Bytes>) -> Upload {
    let failure = Arc::<Mutex<Option<OutBodyError>>>::default();
    let kept = Arc::clone(&failure);
    let task = tokio::spawn(async move {
        if let Err(End::Body(error)) = send(body, &mut stream).await {
            *kept.lock() = Some(error);
            // Without the end of the stream the peer knows that it is not all.
            stream.send_reset(Reason::CANCEL);
        }
    });
    Upload { task: task.abort_handle(), failure }
}

/// Why a body was not sent whole.
enum End {
    /// It broke off on its way from the client.
    Body(OutBodyError),
    /// The peer does not want it, or the connection broke: the answer tells which.
    Stream,
}

impl From<h2::Error> for End {
    fn from(_: h2::Error) -> Self {
        Self::Stream
    }
}

async fn send(mut body: OutBody, stream: &mut SendStream<Bytes>) -> Result<(), End> {
    loop {
        let frame = poll_fn(|cx| {
            // A peer that has had enough says so by a reset, while the client may be silent.
            if stream.poll_reset(cx).is_ready() {
                return Poll::Ready(Err(End::Stream));
            }
            Pin::new(&mut body).poll_frame(cx).map(|frame| frame.transpose().map_err(End::Body))
        });
        let Some(frame) = frame.await? else {
            return Ok(stream.send_data(Bytes::new(), true)?);
        };
        let data = match frame.into_data() {
            Ok(data) => data,
            Err(frame) => {
                let trailers = frame.into_trailers().unwrap_or_default();
                return Ok(stream.send_trailers(trailers)?);
            }
        };
        let ends = body.is_end_stream();
        send_data(stream, data, ends).await?;
        if ends {
            return Ok(());
        }
    }
}

/// Sends one piece, which may be empty and yet the last. Waits for room before every part, so that no more is in memory than the client has sent.
async fn send_data(
    stream: &mut SendStream<Bytes>,
    mut data: Bytes,
    ends: bool,
) -> Result<(), h2::Error> {
    if data.is_empty() && ends {
        return stream.send_data(data, true);
    }
    while data.has_remaining() {
        stream.reserve_capacity(data.remaining());
        let room = poll_fn(|cx| {
            loop {
                match ready!(stream.poll_capacity(cx)) {
                    Some(Ok(0)) => {}
                    Some(room) => return Poll::Ready(room),
                    // The stream is closed for sending.
                    None => return Poll::Ready(Err(Reason::CANCEL.into())),
                }
            }
        });
        let part = data.split_to(room.await?.min(data.remaining()));
        stream.send_data(part, ends && !data.has_remaining())?;
    }
    Ok(())
}
