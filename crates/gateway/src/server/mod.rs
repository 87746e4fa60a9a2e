//! The listening side: HTTP/1.1, and HTTP/2 for clients that start with it.

mod connection;
mod detect;
mod framing;
mod handshake;
mod inbound;
mod room;
mod stall;
mod taking;

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use hyper_util::rt::TokioTimer;
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::warn;

use self::connection::Connection;
pub(crate) use self::framing::Unclear;
pub use self::inbound::{Inbound, IncompleteRequest};
use self::room::{Room, Taken};
use self::taking::Streams;
use crate::{Workers, tls::ServerTls};

/// What one listener allows its clients.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ServerLimits {
    /// What the listener is called in metrics and in the log; `callers` by default.
    pub listener: &'static str,
    /// How long a request's head may take, and how long an HTTP/1 connection may be idle; 30 s by
    /// default.
    pub header_read_timeout: Duration,
    /// The most bytes of a request's head: 431 beyond; 64 KiB by default and at least 8 KiB.
    pub max_header_bytes: usize,
    /// The most header fields of a request over HTTP/1: 431 beyond; 100 by default.
    pub max_headers: usize,
    /// The most connections at once, at least 1; 10,000 by default. More wait in the kernel's
    /// queue.
    pub max_connections: usize,
    /// How long a client may take nothing of an answer, or send nothing of a body that is being
    /// read; 60 s by default. Then its connection is closed, or over HTTP/2 the stream is reset.
    /// Over HTTP/2 a client whose answer has begun may be silent for longer.
    pub stalled: Duration,
    /// How long requests in flight may take after shutdown was asked for; 30 s by default.
    pub drain: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            listener: "callers",
            header_read_timeout: Duration::from_secs(30),
            max_header_bytes: 64 * 1024,
            max_headers: HYPER_MAX_HEADERS,
            max_connections: 10_000,
            stalled: Duration::from_secs(60),
            drain: Duration::from_secs(30),
        }
    }
}

/// Who is at the other end of a request's connection; in its extensions.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Peer {
    /// Its address.
    pub address: SocketAddr,
    /// Whether the connection is encrypted.
    pub over_tls: bool,
}

/// The place that a connection takes among those that are allowed; in the extensions of a request
/// that may turn it into a tunnel, which then keeps it. Given back when the last clone is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Place(#[expect(dead_code, reason = "it is there to be dropped")] Arc<Taken>);

/// hyper's own default; setting it costs an allocation per request.
const HYPER_MAX_HEADERS: usize = 100;

/// hyper refuses a smaller buffer by panicking.
const HYPER_MIN_BUFFER: usize = 8 * 1024;

/// What a client of HTTP/2 may have under way at once, and what of each answer waits for it to read.
const MOST_STREAMS: u32 = 128;
const STREAM_BUFFER: usize = 64 * 1024;

/// How often an HTTP/2 client that may be gone is asked whether it is.
const PING_EVERY: Duration = Duration::from_secs(30);

/// Waits after a failed accept: doubled from the first to the last.
const ACCEPT_BACKOFF: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// Serves like [`serve_tls`] without encryption, on the runtime that this is called in.
pub async fn serve<S, F, B>(
    listener: TcpListener,
    service: S,
    limits: ServerLimits,
    shutdown: CancellationToken,
) -> usize
where
    S: Fn(Request<Inbound>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    serve_tls(listener, None, Workers::here(), service, limits, shutdown).await
}

/// Accepts connections and has `workers` answer their requests until `shutdown`, then finishes what
/// is in flight, within the drain time, and returns how many connections had to be cut.
///
/// hyper drops `service`'s future when the client goes away: whatever must not be dropped half-way
/// belongs in a task of its own. A body the service returns may end with an error, which breaks the
/// connection so that the client sees an incomplete answer.
///
/// With `tls` every connection is encrypted, in HTTP/2 or HTTP/1.1 as ALPN decides; a handshake that
/// takes longer than 10 s ends, and so does a connection that speaks plain HTTP, which is told why.
pub async fn serve_tls<S, F, B>(
    listener: TcpListener,
    tls: Option<ServerTls>,
    workers: Workers,
    service: S,
    limits: ServerLimits,
    shutdown: CancellationToken,
) -> usize
where
    S: Fn(Request<Inbound>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let connections = TaskTracker::new();
    let cut = CancellationToken::new();
    let mut room = Room::new(limits.max_connections, limits.listener);
    let builder = Arc::new(builder(&limits, &workers));
    let handshakes = handshake::handshakes(tls);

    while let Some((stream, peer, taken)) = next(&listener, &mut room, &shutdown).await {
        let one = Connection {
            builder: Arc::clone(&builder),
            handshakes: handshakes.clone(),
            peer,
            shutdown: shutdown.clone(),
            cut: cut.clone(),
            detect_within: limits.header_read_timeout,
            stalled: limits.stalled,
            taken,
        };
        let (service, counted) = (service.clone(), connections.token());
        workers.serve(stream, |stream| async move {
            let _counted = counted;
            one.run(stream, service).await;
        });
    }

    drop(listener);
    connections.close();
    if timeout(limits.drain, connections.wait()).await.is_ok() {
        return 0;
    }
    let left = connections.len();
    cut.cancel();
    connections.wait().await;
    left
}

fn builder(limits: &ServerLimits, workers: &Workers) -> auto::Builder<Streams> {
    let header_bytes = limits.max_header_bytes.max(HYPER_MIN_BUFFER);
    let mut builder =
        auto::Builder::new(Streams { stalled: limits.stalled, workers: workers.clone() });
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_read_timeout)
        .max_buf_size(header_bytes);
    if limits.max_headers != HYPER_MAX_HEADERS {
        builder.http1().max_headers(limits.max_headers);
    }
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_EVERY)
        .max_concurrent_streams(MOST_STREAMS)
        .max_send_buf_size(STREAM_BUFFER)
        .max_header_list_size(u32::try_from(header_bytes).unwrap_or(u32::MAX));
    builder
}

/// The next connection, as soon as there is room for one; `None` at shutdown.
async fn next(
    listener: &TcpListener,
    room: &mut Room,
    shutdown: &CancellationToken,
) -> Option<(TcpStream, SocketAddr, Taken)> {
    let accepted = async {
        let taken = room.take().await?;
        let (stream, peer) = accept(listener).await;
        Some((stream, peer, taken))
    };
    tokio::select! {
        biased;
        () = shutdown.cancelled() => None,
        accepted = accepted => accepted,
    }
}

async fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    let (mut backoff, longest) = ACCEPT_BACKOFF;
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            Err(error) if is_of_the_connection(&error) => {}
            // No file descriptors or no memory: connections that end will make room.
            Err(error) => {
                warn!(%error, wait = ?backoff, "accepting connections failed; trying again");
                sleep(backoff).await;
                backoff = (backoff * 2).min(longest);
            }
        }
    }
}

/// The client gave up before it was accepted; the next one is not affected.
fn is_of_the_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}
