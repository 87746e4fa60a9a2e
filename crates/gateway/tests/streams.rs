//! What callers over HTTP/2 may hold by taking nothing, and by sending nothing.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot go on stops, and what it collects it made"
)]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use h2::{Reason, RecvStream, client::SendRequest};
use hapax_gateway::server::{Inbound, ServerLimits, serve};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use support::bounded;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

const STALLED: Duration = Duration::from_millis(400);

/// What a client allows a stream at its beginning.
const WINDOW: u32 = 2_000;

/// Content that is counted while it is there.
struct Counted(Vec<u8>, Arc<AtomicUsize>);

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.1.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A connection to a server whose answers are as long as the path says; and how many are in memory.
async fn connect() -> (SendRequest<Bytes>, Arc<AtomicUsize>) {
    let held = Arc::<AtomicUsize>::default();
    let counting = Arc::clone(&held);
    let answer = move |request: Request<Inbound>| {
        let length = request.uri().path().trim_start_matches('/').parse().unwrap();
        counting.fetch_add(1, Ordering::SeqCst);
        let content = Counted(vec![b'x'; length], Arc::clone(&counting));
        async move { Response::new(Full::new(Bytes::from_owner(content))) }
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let limits = ServerLimits { stalled: STALLED, ..ServerLimits::default() };
    tokio::spawn(serve(listener, answer, limits, CancellationToken::new()));
    (client(address).await, held)
}

async fn client(address: std::net::SocketAddr) -> SendRequest<Bytes> {
    let stream = TcpStream::connect(address).await.unwrap();
    let builder = h2::client::Builder::new().initial_window_size(WINDOW).clone();
    let (client, driver) = builder.handshake(stream).await.unwrap();
    tokio::spawn(driver);
    bounded(client.ready()).await.unwrap()
}

async fn get(client: &mut SendRequest<Bytes>, length: usize) -> RecvStream {
    let request = Request::get(format!("http://a/{length}")).body(()).unwrap();
    let (answer, _) = client.send_request(request, true).unwrap();
    let (head, body) = bounded(answer).await.unwrap().into_parts();
    assert_eq!(head.headers["content-length"], length.to_string());
    body
}

/// Takes a part of an answer, and says so.
async fn take(body: &mut RecvStream) -> Option<Result<usize, h2::Error>> {
    let data = bounded(body.data()).await?;
    Some(data.map(|data| {
        let _ = body.flow_control().release_capacity(data.len());
        data.len()
    }))
}

async fn until(held: &AtomicUsize, expected: usize) {
    let begun = Instant::now();
    while held.load(Ordering::SeqCst) != expected {
        assert!(
            begun.elapsed() < Duration::from_secs(10),
            "{} are held",
            held.load(Ordering::SeqCst)
        );
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_caller_that_takes_nothing_over_http_2_loses_its_stream_and_what_it_holds() {
    let (mut client, held) = connect().await;
    // More than is handed over at once, and so little that all of it is.
    for length in [1_000_000, 2_500] {
        let mut bodies = Vec::new();
        for _ in 0..20 {
            bodies.push(get(&mut client, length).await);
        }
        let begun = Instant::now();
        until(&held, 0).await;
        assert!(begun.elapsed() > STALLED / 2, "{length}");
        for mut body in bodies {
            // What fitted the window is there.
            let mut ended = take(&mut body).await;
            while matches!(ended, Some(Ok(_))) {
                ended = take(&mut body).await;
            }
            let error = ended.unwrap().unwrap_err();
            assert_eq!(error.reason(), Some(Reason::CANCEL), "{length}: {error}");
        }
    }
    // The connection goes on.
    let mut body = get(&mut client, 900).await;
    assert_eq!(take(&mut body).await.unwrap().unwrap(), 900);
    assert!(take(&mut body).await.is_none());
}

#[tokio::test]
async fn a_caller_that_takes_a_little_now_and_then_gets_all_over_http_2() {
    let (mut client, held) = connect().await;
    let mut body = get(&mut client, 24_345).await;
    let (mut taken, begun) = (0, Instant::now());
    while let Some(part) = take(&mut body).await {
        taken += part.unwrap();
        sleep(STALLED / 4).await;
    }
    assert_eq!(taken, 24_345);
    assert!(begun.elapsed() > 2 * STALLED);
    until(&held, 0).await;
}

#[tokio::test]
async fn an_answer_of_exactly_the_window_ends_without_another_word_of_the_caller() {
    let (mut client, _held) = connect().await;
    for length in [1, WINDOW as usize] {
        let mut body = get(&mut client, length).await;
        let mut read = 0;
        while let Some(part) = bounded(body.data()).await {
            read += part.unwrap().len();
        }
        assert_eq!(read, length);
    }
}

#[tokio::test]
async fn an_upload_that_stops_over_http_2_ends_unless_its_answer_has_begun() {
    let (ends, mut ended) = mpsc::unbounded_channel();
    let answer = move |request: Request<Inbound>| {
        let ends = ends.clone();
        async move {
            let answers_first = request.uri().path() == "/first";
            let reading = async move {
                let read = request.into_body().collect().await;
                let _ =
                    ends.send(read.map(|read| read.to_bytes()).map_err(|error| error.to_string()));
            };
            if answers_first {
                tokio::spawn(reading);
            } else {
                reading.await;
            }
            Response::new(Full::new(Bytes::from("ok")))
        }
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let limits = ServerLimits { stalled: STALLED, ..ServerLimits::default() };
    tokio::spawn(serve(listener, answer, limits, CancellationToken::new()));
    let mut client = client(address).await;
    let mut upload = |path: &str| {
        let request = Request::post(format!("http://a{path}")).body(()).unwrap();
        let (answer, mut body) = client.send_request(request, false).unwrap();
        body.send_data("ab".into(), false).unwrap();
        (answer, body)
    };
    let (_answer, _body) = upload("/last");
    let read = bounded(ended.recv()).await.unwrap();
    assert_eq!(read.unwrap_err(), "the client sent nothing more of the request's body");
    let (answer, mut body) = upload("/first");
    assert_eq!(bounded(answer).await.unwrap().status(), 200);
    sleep(2 * STALLED).await;
    assert!(ended.try_recv().is_err(), "it is still read");
    drop(body.send_data("cd".into(), true));
    let _ = bounded(ended.recv()).await;
}
