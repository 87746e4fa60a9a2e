//! What a client may do to the listening side, and what shutdown does to clients.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot go on stops, and what it collects it made"
)]

mod support;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use hapax::http::body::{BufferBudget, ReadError, ReadLimits, read_bounded};
use hapax_gateway::{
    Workers,
    server::{Inbound, Peer, ServerLimits, serve_tls},
};
use http::{Request, Response};
use http_body::Body;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use support::{Fed, bounded, data, exchange, fed};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Barrier, Notify, mpsc};
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

const GET: &str = "GET / HTTP/1.1\r\nhost: api\r\n\r\n";
const GET_AND_CLOSE: &str = "GET / HTTP/1.1\r\nhost: api\r\nconnection: close\r\n\r\n";

struct Server {
    address: SocketAddr,
    shutdown: CancellationToken,
    serving: JoinHandle<usize>,
}

impl Server {
    async fn start<S, F, B>(limits: ServerLimits, service: S) -> Self
    where
        S: Fn(Request<Inbound>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Response<B>> + Send + 'static,
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        Self::start_on(Workers::here(), limits, service).await
    }

    async fn start_on<S, F, B>(workers: Workers, limits: ServerLimits, service: S) -> Self
    where
        S: Fn(Request<Inbound>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Response<B>> + Send + 'static,
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = CancellationToken::new();
        let serving =
            tokio::spawn(serve_tls(listener, None, workers, service, limits, shutdown.clone()));
        Self { address, shutdown, serving }
    }

    /// Shuts down; how many connections were cut.
    async fn stop(self) -> usize {
        self.shutdown.cancel();
        bounded(self.serving).await.unwrap()
    }
}

async fn hello(request: Request<Inbound>) -> Response<Full<Bytes>> {
    let known =
        request.extensions().get::<Peer>().is_some_and(|peer| peer.address.ip().is_loopback());
    Response::new(Full::from(format!("{:?} {known}", request.version())))
}

/// Reads until the text has come, and no further.
async fn expect(stream: &mut TcpStream, text: &str) {
    let mut read = String::new();
    while !read.contains(text) {
        let byte = bounded(stream.read_u8()).await.unwrap_or_else(|_| panic!("only {read:?}"));
        read.push(char::from(byte));
    }
}

#[tokio::test]
async fn both_versions_are_served_on_one_port() {
    let server = Server::start(ServerLimits::default(), hello).await;
    let answer = exchange(server.address, GET_AND_CLOSE).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.ends_with("HTTP/1.1 true"), "{answer}");

    let stream = TcpStream::connect(server.address).await.unwrap();
    let (mut client, driver) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(driver);
    let request = Request::get("http://api/").body(Full::<Bytes>::default()).unwrap();
    let answer = bounded(client.send_request(request)).await.unwrap();
    let content = bounded(answer.into_body().collect()).await.unwrap().to_bytes();
    assert_eq!(content, "HTTP/2.0 true");
}

#[tokio::test]
async fn the_workers_answer_and_share_the_streams_of_one_connection() {
    let workers = Workers::start(NonZeroUsize::new(2).unwrap()).unwrap();
    let together = Arc::new(Barrier::new(4));
    let server = Server::start_on(workers, ServerLimits::default(), move |_| {
        let together = Arc::clone(&together);
        async move {
            together.wait().await;
            Response::new(Full::from(thread::current().name().unwrap_or_default().to_owned()))
        }
    });
    let server = server.await;
    let stream = TcpStream::connect(server.address).await.unwrap();
    let (client, driver) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(driver);
    let mut asking = JoinSet::new();
    for _ in 0..4 {
        let mut client = client.clone();
        asking.spawn(async move {
            let request = Request::get("http://api/").body(Full::<Bytes>::default()).unwrap();
            client.send_request(request).await.unwrap().into_body().collect().await.unwrap()
        });
    }
    let answers = bounded(asking.join_all()).await;
    let by: BTreeSet<_> = answers.into_iter().map(|answer| answer.to_bytes()).collect();
    assert_eq!(by, BTreeSet::from(["hapax-worker-1".into(), "hapax-worker-2".into()]));
    drop(client);
    assert_eq!(server.stop().await, 0);
}

#[tokio::test]
async fn a_client_that_does_not_finish_its_head_is_cut() {
    let limits =
        ServerLimits { header_read_timeout: Duration::from_millis(50), ..ServerLimits::default() };
    let server = Server::start(limits, hello).await;
    for beginning in ["", "P", "PRI * HTTP/2.0\r\n", "GET / HT", "GET / HTTP/1.1\r\nhost: a\r\n"] {
        // Ends only if the server closes.
        assert_eq!(exchange(server.address, beginning).await, "", "{beginning:?}");
    }
    // An idle connection is one that has not finished its next head.
    assert!(exchange(server.address, GET).await.ends_with("HTTP/1.1 true"));
}

#[tokio::test]
async fn a_short_request_is_not_cut_when_the_time_for_its_head_is_over() {
    let limits =
        ServerLimits { header_read_timeout: Duration::from_millis(50), ..ServerLimits::default() };
    let server = Server::start(limits, async |request: Request<Inbound>| {
        let (_, body) = request.into_parts();
        let read = body.collect().await.map(|all| all.to_bytes());
        Response::new(Full::new(read.unwrap_or_else(|_| Bytes::from_static(b"broken"))))
    })
    .await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n").await.unwrap();
    tokio::time::sleep(limits.header_read_timeout * 3).await;
    stream.write_all(b"ok").await.unwrap();
    expect(&mut stream, "\r\n\r\nok").await;
}

#[tokio::test]
async fn a_head_past_the_limits_is_431() {
    let limits =
        ServerLimits { max_headers: 4, max_header_bytes: 8 * 1024, ..ServerLimits::default() };
    let server = Server::start(limits, hello).await;
    let many = "a: 1\r\n".repeat(5);
    let large = format!("a: {}\r\n", "x".repeat(9 * 1024));
    for fields in [many, large] {
        let answer = exchange(server.address, format!("GET / HTTP/1.1\r\n{fields}\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    }
    // hyper's smallest buffer instead of its panic.
    let limits = ServerLimits { max_header_bytes: 0, ..limits };
    let server = Server::start(limits, hello).await;
    assert!(exchange(server.address, GET_AND_CLOSE).await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_connection_past_the_limit_waits_for_its_turn() {
    let limits = ServerLimits { max_connections: 1, ..ServerLimits::default() };
    let server = Server::start(limits, hello).await;
    let mut first = TcpStream::connect(server.address).await.unwrap();
    first.write_all(GET.as_bytes()).await.unwrap();
    expect(&mut first, "true").await;

    let mut second = TcpStream::connect(server.address).await.unwrap();
    second.write_all(GET.as_bytes()).await.unwrap();
    let early = tokio::time::timeout(Duration::from_millis(50), second.read_u8()).await;
    assert!(early.is_err(), "answered beside the first");
    drop(first);
    expect(&mut second, "true").await;
}

type Answering = Pin<Box<dyn Future<Output = Response<Full<Bytes>>> + Send>>;

/// A service that answers when it is told to.
fn gated()
-> (Arc<Notify>, mpsc::UnboundedReceiver<()>, impl Fn(Request<Inbound>) -> Answering + Clone) {
    let open = Arc::new(Notify::new());
    let (called, calls) = mpsc::unbounded_channel();
    let gate = Arc::clone(&open);
    let service = move |_| {
        let (gate, called) = (Arc::clone(&gate), called.clone());
        let answering: Answering = Box::pin(async move {
            let _ = called.send(());
            gate.notified().await;
            Response::new(Full::from("done"))
        });
        answering
    };
    (open, calls, service)
}

#[tokio::test]
async fn shutdown_finishes_what_is_in_flight_and_accepts_nothing_new() {
    let (open, mut calls, service) = gated();
    let server = Server::start(ServerLimits::default(), service).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(GET.as_bytes()).await.unwrap();
    bounded(calls.recv()).await.unwrap();

    let address = server.address;
    let stopping = tokio::spawn(server.stop());
    // The listener is closed before the drain begins.
    bounded(async { while TcpStream::connect(address).await.is_ok() {} }).await;
    assert!(!stopping.is_finished());
    open.notify_one();
    let mut answer = String::new();
    bounded(stream.read_to_string(&mut answer)).await.unwrap();
    assert!(answer.contains("connection: close") && answer.ends_with("done"), "{answer}");
    assert_eq!(bounded(stopping).await.unwrap(), 0);
}

#[tokio::test]
async fn shutdown_cuts_what_takes_longer_than_the_drain_and_says_how_many() {
    let limits = ServerLimits { drain: Duration::from_millis(50), ..ServerLimits::default() };
    let (_open, mut calls, service) = gated();
    let server = Server::start(limits, service).await;
    let mut streams = Vec::new();
    for _ in 0..3 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(GET.as_bytes()).await.unwrap();
        bounded(calls.recv()).await.unwrap();
        streams.push(stream);
    }
    assert_eq!(server.stop().await, 3);
    for mut stream in streams {
        let end = bounded(stream.read_u8()).await.unwrap_err();
        assert_eq!(end.kind(), std::io::ErrorKind::UnexpectedEof);
    }
}

#[tokio::test]
async fn idle_and_silent_connections_do_not_hold_shutdown_up() {
    let server = Server::start(ServerLimits::default(), hello).await;
    let _silent = TcpStream::connect(server.address).await.unwrap();
    let mut idle = TcpStream::connect(server.address).await.unwrap();
    idle.write_all(GET.as_bytes()).await.unwrap();
    expect(&mut idle, "true").await;
    assert_eq!(server.stop().await, 0);
}

#[tokio::test]
async fn an_answer_that_breaks_off_never_looks_whole_to_the_client() {
    let (feeder, body) = fed();
    let body = Arc::new(parking_lot::Mutex::new(Some(body)));
    let server = Server::start(ServerLimits::default(), move |_| {
        let body: Fed = body.lock().take().unwrap();
        async move { Response::new(body) }
    })
    .await;
    let reading = tokio::spawn(exchange(server.address, GET));
    feeder.send(data("part")).unwrap();
    feeder.send(Err(std::io::ErrorKind::ConnectionReset.into())).unwrap();
    let answer = bounded(reading).await.unwrap();
    assert!(!answer.contains("\r\n0\r\n"), "{answer}");
}

/// What became of a request's body.
#[derive(Debug)]
enum Report {
    Called,
    Read(Result<Bytes, ReadError>),
}

impl Report {
    fn read(self) -> Result<Bytes, ReadError> {
        match self {
            Self::Read(read) => read,
            Self::Called => panic!("called twice"),
        }
    }
}

/// A service that reads its request in a task of its own and reports what came of it.
fn reading() -> (mpsc::UnboundedReceiver<Report>, impl Fn(Request<Inbound>) -> Answering + Clone) {
    let (report, reports) = mpsc::unbounded_channel();
    let service = move |request: Request<Inbound>| {
        let report = report.clone();
        let answering: Answering = Box::pin(async move {
            let _ = report.send(Report::Called);
            let limits =
                ReadLimits { max_bytes: 1024, within: support::BOUND, ..ReadLimits::default() };
            let task = tokio::spawn(async move {
                let read =
                    read_bounded(request.into_body(), limits, &BufferBudget::new(1024)).await;
                let _ = report.send(Report::Read(read.map(|read| read.bytes().clone())));
            });
            let _ = task.await;
            Response::new(Full::default())
        });
        answering
    };
    (reports, service)
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let stream = stream.to_be_bytes();
    [&length[1..], &[kind, flags], &stream, payload].concat()
}

#[tokio::test]
async fn a_part_of_an_http_2_upload_never_passes_for_the_whole() {
    const DATA: u8 = 0;
    const HEADERS: u8 = 1;
    const RST_STREAM: u8 = 3;
    const SETTINGS: u8 = 4;
    const END_STREAM: u8 = 1;
    const END_HEADERS: u8 = 4;
    // POST / over http at "api", and a content-length of 9, in HPACK.
    let post = [0x83, 0x86, 0x84, 0x41, 3, b'a', b'p', b'i'];
    let post_of_9 = [&post[..], &[0x5c, 1, b'9']].concat();
    let no_error = 0_u32.to_be_bytes();
    let cancel = 8_u32.to_be_bytes();
    for (head, end, whole) in [
        (&post[..], frame(DATA, END_STREAM, 1, b""), true),
        (&post, frame(RST_STREAM, 0, 1, &no_error), false),
        (&post, frame(RST_STREAM, 0, 1, &cancel), false),
        (&post_of_9, frame(DATA, END_STREAM, 1, b""), false),
        (&post_of_9, frame(DATA, END_STREAM, 1, b"-pay5"), true),
    ] {
        let (mut reports, service) = reading();
        let server = Server::start(ServerLimits::default(), service).await;
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let opening = [
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
            frame(SETTINGS, 0, 0, &[]),
            frame(HEADERS, END_HEADERS, 1, head),
            frame(DATA, 0, 1, b"part"),
        ];
        stream.write_all(&opening.concat()).await.unwrap();
        assert!(matches!(bounded(reports.recv()).await, Some(Report::Called)));
        stream.write_all(&end).await.unwrap();
        let read = bounded(reports.recv()).await.unwrap().read();
        if whole {
            assert!(read.unwrap().starts_with(b"part"));
        } else {
            assert!(matches!(read, Err(ReadError::Incomplete(_))), "{end:?}: {read:?}");
        }
    }
}

#[tokio::test]
async fn a_part_of_an_http_1_upload_never_passes_for_the_whole() {
    for upload in [
        "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\npart",
        "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n4\r\npart\r\n",
    ] {
        let (mut reports, service) = reading();
        let server = Server::start(ServerLimits::default(), service).await;
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(upload.as_bytes()).await.unwrap();
        assert!(matches!(bounded(reports.recv()).await, Some(Report::Called)));
        drop(stream);
        let read = bounded(reports.recv()).await.unwrap().read();
        assert!(matches!(read, Err(ReadError::Incomplete(_))), "{read:?}");
    }
}

#[tokio::test]
async fn a_panic_in_the_service_ends_its_own_connection_only() {
    let server = Server::start(ServerLimits::default(), async |request: Request<Inbound>| {
        assert_eq!(request.uri().path(), "/", "a panic on purpose");
        hello(request).await
    })
    .await;
    let panicking = GET.replace("GET /", "GET /panic");
    assert_eq!(exchange(server.address, panicking).await, "");
    assert!(exchange(server.address, GET_AND_CLOSE).await.ends_with("true"));
    assert_eq!(server.stop().await, 0);
}
