//! Our end of an HTTP/2 connection to the service, shared by requests.
//!
//! It is h2's, without a client in between: only h2 tells a request that was never taken from one
//! that was refused and from one whose fate is unknown.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use h2::{
    PingPong, RecvStream,
    client::{Builder, Connection, SendRequest},
};
use http::{Request, Response, StatusCode};
use hyper::body::Body;
use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::{Instant, sleep, timeout},
};
use tracing::debug;

use super::{
    Failed, NeverSent, OutBody, Unknown,
    connection::BUFFER,
    greeted::Greeted,
    upload::{Upload, upload},
};

/// How much of an answer is read ahead of a slow client.
const STREAM_WINDOW: u32 = 256 * 1024;

/// The most requests at once on one connection; more open another. Many servers allow as many.
const MOST_STREAMS: u32 = 100;

/// So much that slow clients never keep the answers of others from coming.
const CONNECTION_WINDOW: u32 = STREAM_WINDOW * MOST_STREAMS;

/// The most bytes of an answer's head, as over HTTP/1.
const HEAD: u32 = 64 * 1024;
const _: () = assert!(HEAD as usize == BUFFER);

/// How often a peer with requests under way is asked whether it is there, and how long it may take
/// to say so.
const PING: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(10));

/// An HTTP/2 connection. Clones share it.
#[derive(Clone)]
pub(super) struct Http2 {
    sender: SendRequest<Bytes>,
    load: Arc<Mutex<Load>>,
}

/// How much it is used.
struct Load {
    streams: usize,
    /// When the last one ended.
    since: Instant,
}

/// One of the requests at once that a connection takes. Dropped, it makes room for another.
pub(super) struct Slot(Http2);

/// An answer whose body is still under way.
pub(super) struct Answered {
    pub(super) answer: Response<RecvStream>,
    /// The request's body, as far as it is. Dropped, the rest is not sent.
    pub(super) upload: Option<Upload>,
}

/// Begins HTTP/2 on a stream, and waits for the peer's preface: no request goes to one that does
/// not speak it. The connection is driven by a task of its own until either side closes it.
pub(super) async fn http_2<S>(stream: S, authority: &str) -> Result<Http2, NeverSent>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let not_http_2 = || NeverSent::NotHttp2 { authority: authority.to_owned() };
    let (stream, greeted) = Greeted::new(stream);
    let (sender, mut connection) = Builder::new()
        .enable_push(false)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buffer_size(STREAM_WINDOW as usize)
        .max_header_list_size(HEAD)
        .handshake(stream)
        .await
        .map_err(|_| not_http_2())?;
    let load = Arc::new(Mutex::new(Load { streams: 0, since: Instant::now() }));
    let pings = connection.ping_pong();
    tokio::spawn(drive(connection, pings, Arc::clone(&load)));
    if greeted.await.unwrap_or(false) { Ok(Http2 { sender, load }) } else { Err(not_http_2()) }
}

async fn drive<S>(connection: Connection<S, Bytes>, pings: Option<PingPong>, load: Arc<Mutex<Load>>)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let is_there = async {
        match pings {
            Some(pings) => keep_asking(pings, &load).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        ended = connection => {
            // Whoever waits for an answer is told by h2; this is for the others.
            if let Err(error) = ended {
                debug!(%error, "an HTTP/2 connection to the upstream ended");
            }
        }
        // Dropped, it ends every request that is under way on it.
        () = is_there => debug!("an HTTP/2 peer with requests under way does not answer any more"),
    }
}

/// Ends when the peer does not.
async fn keep_asking(mut pings: PingPong, load: &Mutex<Load>) {
    loop {
        sleep(PING.0).await;
        if load.lock().streams == 0 {
            continue;
        }
        match timeout(PING.1, pings.ping(h2::Ping::opaque())).await {
            Ok(Ok(_)) => {}
            // The connection ends by itself.
            Ok(Err(_)) => std::future::pending().await,
            Err(_) => return,
        }
    }
}

impl Http2 {
    /// Room for the first request of a connection that nobody else has yet; `None` where the peer
    /// allows none.
    pub(super) fn first_slot(&self) -> Option<Slot> {
        if self.sender.current_max_send_streams() == 0 {
            return None;
        }
        self.load.lock().streams += 1;
        Some(Slot(self.clone()))
    }

    /// Room for one more request; `None` where there is none, or where the connection is closed, or
    /// has been idle for this long.
    pub(super) fn slot(&self, longest_idle: Duration, now: Instant) -> Option<Slot> {
        if self.is_over(longest_idle, now) {
            return None;
        }
        let allowed = self.sender.current_max_send_streams().min(MOST_STREAMS as usize);
        let mut load = self.load.lock();
        if load.streams >= allowed {
            return None;
        }
        load.streams += 1;
        drop(load);
        Some(Slot(self.clone()))
    }

    /// Whether it is of no use any more: closed by either side, told to be (GOAWAY), or idle for
    /// this long.
    pub(super) fn is_over(&self, longest_idle: Duration, now: Instant) -> bool {
        let load = self.load.lock();
        let idle = load.streams == 0 && now.saturating_duration_since(load.since) >= longest_idle;
        drop(load);
        // A clone has no stream of its own to wait for, so this only asks.
        let mut cx = Context::from_waker(Waker::noop());
        idle || matches!(self.sender.clone().poll_ready(&mut cx), Poll::Ready(Err(_)))
    }
}

impl Slot {
    /// Sends a request in the form of HTTP/2, and waits for the answer's head.
    pub(super) async fn send(&self, request: Request<OutBody>) -> Result<Answered, Failed> {
        let (head, body) = request.into_parts();
        let copy = body.copy();
        let ends = body.is_end_stream();
        let mut sender = self.0.sender.clone();
        let sent = sender.send_request(Request::from_parts(head.clone(), ()), ends);
        let (mut response, stream) = match sent {
            Ok(sent) => sent,
            // h2 took nothing of it.
            Err(reason) => {
                let request = Box::new(Request::from_parts(head, body));
                return Err(Failed::HandedBack { request, reason: reason.into() });
            }
        };
        let wanted = body.wanted();
        let upload = if ends { None } else { Some(upload(body, stream)) };
        let answer = poll_fn(|cx| {
            while let Poll::Ready(Some(Ok(interim))) = response.poll_informational(cx) {
                if let Some(wanted) = &wanted
                    && interim.status() == StatusCode::CONTINUE
                {
                    wanted.let_go();
                }
            }
            Pin::new(&mut response).poll(cx)
        });
        match answer.await {
            Ok(answer) => Ok(Answered { answer, upload }),
            Err(reason) if is_refused(&reason) => {
                let again = copy.map(|body| Box::new(Request::from_parts(head, body)));
                Err(Failed::Refused { again, reason })
            }
            Err(reason) => Err(Failed::Unknown(match upload.and_then(Upload::failure) {
                Some(broken) => Unknown::RequestBody(broken.into()),
                None => Unknown::Stream(reason),
            })),
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut load = self.0.load.lock();
        load.streams = load.streams.saturating_sub(1);
        load.since = Instant::now();
    }
}

/// Whether the peer says that it has not processed a request whose answer's head is not there: it
/// refused the stream, or named an earlier one as the last that it took (RFC 9113, section 8.7).
///
/// Said by the peer alone: what h2 itself finds wrong, and a connection that breaks, prove nothing.
/// h2 fails exactly the streams above a GOAWAY's last one with that GOAWAY; those below go on, and
/// end with an error of their own.
fn is_refused(error: &h2::Error) -> bool {
    let refused = error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM);
    error.is_remote() && (refused || error.is_go_away())
}
