//! Our end of an HTTP/1.1 connection to the service.

use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tracing::debug;

use super::{NeverSent, OutBody};

/// An HTTP/1.1 connection: one request at a time.
pub(super) type Http1 = http1::SendRequest<OutBody>;

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
    Ok(sender)
}
