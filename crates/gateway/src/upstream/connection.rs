//! Our end of an HTTP/1.1 connection to the service.

use http::{Request, Response};
use hyper::{
    body::Incoming,
    client::conn::{TrySendError, http1},
};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tracing::debug;

use super::{NeverSent, OutBody};
use crate::workers::Home;

/// An HTTP/1.1 connection: one request at a time.
#[derive(Debug)]
pub(super) struct Http1 {
    sender: http1::SendRequest<OutBody>,
    home: Home,
}

impl Http1 {
    /// One that a task of this thread drives.
    pub(super) fn driven_here(sender: http1::SendRequest<OutBody>) -> Self {
        Self { sender, home: Home::here() }
    }

    /// Where it is driven.
    pub(super) const fn home(&self) -> Home {
        self.home
    }

    /// Whether it takes a request now.
    pub(super) fn is_ready(&self) -> bool {
        self.sender.is_ready()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Sends a request; the error has it back where nothing of it was written.
    pub(super) fn try_send(
        &mut self,
        request: Request<OutBody>,
    ) -> impl Future<Output = Result<Response<Incoming>, TrySendError<Request<OutBody>>>> + use<>
    {
        self.sender.try_send_request(request)
    }
}

/// What one connection may buffer, and so the most bytes of an answer's head. A slow client then
/// costs this much, not hyper's 400 KiB.
pub(super) const BUFFER: usize = 64 * 1024;

/// Begins HTTP/1.1 on a stream. The connection is driven by a task of its own until either side
/// closes it.
pub(super) async fn http_1<S>(stream: S) -> Result<Http1, NeverSent>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (sender, driver) = http1::Builder::new()
        .max_buf_size(BUFFER)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| NeverSent::HandedBack(error.into()))?;
    tokio::spawn(async move {
        // Whoever waits for an answer is told by hyper; this is for the others.
        if let Err(error) = driver.with_upgrades().await {
            debug!(%error, "a connection to the upstream ended");
        }
    });
    Ok(Http1::driven_here(sender))
}
