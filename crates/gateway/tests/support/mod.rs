//! Raw TCP peers: what is on the wire is written and read byte for byte.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::panic,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "test support: each test file uses a part, and a broken arrangement should stop it"
)]

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hapax_gateway::upstream::{Upstream, UpstreamConfig};
use http_body::{Body, Frame};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::timeout;

/// No wait in a test is longer than this.
pub const BOUND: Duration = Duration::from_secs(10);

/// Waits, but not for ever.
pub async fn bounded<T>(future: impl Future<Output = T>) -> T {
    timeout(BOUND, future).await.expect("it takes too long")
}

/// How a raw upstream ends its answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum End {
    /// Closes cleanly.
    Fin,
    /// Waits for the next request.
    Keep,
    /// Resets the connection.
    Reset,
}

/// An upstream that answers every request with the same bytes.
pub struct RawUpstream {
    pub address: SocketAddr,
    /// The requests as they came, complete ones and, at the end of a connection, the rest.
    pub requests: mpsc::UnboundedReceiver<String>,
    /// One message for every connection the peer closed.
    pub closed: mpsc::UnboundedReceiver<()>,
    connections: Arc<AtomicUsize>,
}

impl RawUpstream {
    pub async fn answering(answer: impl Into<Vec<u8>>, end: End) -> Self {
        let answer: Arc<[u8]> = answer.into().into();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let (arrived, requests) = mpsc::unbounded_channel();
        let (gone, closed) = mpsc::unbounded_channel();
        let count = Arc::clone(&connections);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                count.fetch_add(1, Ordering::SeqCst);
                let (answer, arrived, gone) = (Arc::clone(&answer), arrived.clone(), gone.clone());
                tokio::spawn(async move {
                    answer_all(stream, &answer, end, &arrived).await;
                    let _ = gone.send(());
                });
            }
        });
        Self { address, requests, closed, connections }
    }

    pub fn upstream(&self) -> Upstream {
        upstream_at(self.address)
    }

    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub async fn request(&mut self) -> String {
        bounded(self.requests.recv()).await.expect("the upstream is gone")
    }
}

pub fn upstream_at(address: SocketAddr) -> Upstream {
    let base = format!("http://{address}").parse().unwrap();
    Upstream::new(&base, UpstreamConfig::default()).unwrap()
}

async fn answer_all(
    mut stream: TcpStream,
    answer: &[u8],
    end: End,
    arrived: &mpsc::UnboundedSender<String>,
) {
    loop {
        let (request, complete) = read_message(&mut stream).await;
        if !request.is_empty() {
            let _ = arrived.send(request);
        }
        if !complete {
            return;
        }
        if stream.write_all(answer).await.is_err() {
            return;
        }
        match end {
            End::Keep => {}
            End::Fin => {
                let _ = stream.shutdown().await;
                // Reads on, so that closing with unread bytes does not turn into a reset.
                while matches!(stream.read(&mut [0; 1024]).await, Ok(1..)) {}
                return;
            }
            End::Reset => {
                stream.set_zero_linger().unwrap();
                return;
            }
        }
    }
}

/// One HTTP/1 message, and whether it is complete.
pub async fn read_message(stream: &mut TcpStream) -> (String, bool) {
    let mut read = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        if is_complete(&read) {
            return (String::from_utf8_lossy(&read).into_owned(), true);
        }
        match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => return (String::from_utf8_lossy(&read).into_owned(), false),
            Ok(length) => read.extend_from_slice(&chunk[..length]),
        }
    }
}

fn is_complete(read: &[u8]) -> bool {
    let text = String::from_utf8_lossy(read).to_ascii_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    if head.contains("transfer-encoding: chunked") {
        return body.starts_with("0\r\n")
            || body.contains("\r\n0\r\n") && body.ends_with("\r\n\r\n");
    }
    let length = head
        .split_once("content-length: ")
        .map_or("0", |(_, rest)| rest.split("\r\n").next().unwrap_or_default());
    body.len() >= length.parse().unwrap_or(0)
}

/// Sends bytes on a connection of its own and reads until the peer closes it.
pub async fn exchange(address: SocketAddr, bytes: impl AsRef<[u8]>) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes.as_ref()).await.unwrap();
    let mut read = Vec::new();
    let _ = bounded(stream.read_to_end(&mut read)).await;
    String::from_utf8_lossy(&read).into_owned()
}

/// What feeds a [`Fed`] body; dropped, the body ends cleanly.
pub type Feeder = mpsc::UnboundedSender<io::Result<Frame<Bytes>>>;

/// A body of unknown length that the test feeds.
pub struct Fed(mpsc::UnboundedReceiver<io::Result<Frame<Bytes>>>);

pub fn fed() -> (Feeder, Fed) {
    let (feeder, frames) = mpsc::unbounded_channel();
    (feeder, Fed(frames))
}

pub fn data(text: &'static str) -> io::Result<Frame<Bytes>> {
    Ok(Frame::data(Bytes::from_static(text.as_bytes())))
}

impl Body for Fed {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.0.poll_recv(cx)
    }
}
