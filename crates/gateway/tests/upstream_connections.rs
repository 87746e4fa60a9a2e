//! When a request was never sent, when its fate is unknown, and which connections live on.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot go on stops, and what it collects it made"
)]

mod support;

use std::collections::HashSet;
use std::time::Duration;

use bytes::Bytes;
use hapax_gateway::upstream::{
    NeverSent, OutBody, Reuse, SendError, Unknown, Upstream, UpstreamConfig,
};
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt;
use support::{End, RawUpstream, bounded, data, fed, read_message, upstream_at};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

fn post(body: OutBody) -> Request<OutBody> {
    let builder = Request::builder().method(Method::POST).uri("/pay").header("host", "api");
    builder.body(body).unwrap()
}

fn pay() -> Request<OutBody> {
    post(OutBody::full(Bytes::from_static(b"pay")))
}

async fn exchange(upstream: &Upstream, reuse: Reuse) {
    let answer = bounded(upstream.send(pay(), reuse)).await.unwrap();
    bounded(answer.into_body().collect()).await.unwrap();
}

#[tokio::test]
async fn a_refused_connection_is_never_sent() {
    let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let sent = bounded(upstream_at(address).send(pay(), Reuse::Keyed)).await;
    let Err(SendError::NeverSent { reason: NeverSent::Connect { authority, .. } }) = sent else {
        panic!("{sent:?}");
    };
    assert_eq!(authority, address.to_string());
}

#[tokio::test]
async fn a_name_without_an_address_is_never_sent() {
    let base = "http://upstream.invalid:80".parse().unwrap();
    let sent =
        bounded(Upstream::new(&base, UpstreamConfig::default()).unwrap().send(pay(), Reuse::Keyed))
            .await;
    let Err(SendError::NeverSent { reason }) = sent else {
        panic!("{sent:?}");
    };
    // A resolver without a network may take its time.
    assert!(matches!(reason, NeverSent::Resolve { .. } | NeverSent::ConnectTimeout { .. }));
}

#[tokio::test]
async fn a_connection_that_is_not_taken_in_time_is_never_sent() {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    // Nobody accepts: the kernel's queue fills up, and the next one is left without an answer.
    let mut queued = Vec::new();
    while let Ok(connected) =
        tokio::time::timeout(Duration::from_millis(200), TcpStream::connect(address)).await
    {
        queued.push(connected.unwrap());
    }
    let base = format!("http://{address}").parse().unwrap();
    let connect_timeout = Duration::from_millis(100);
    let config = UpstreamConfig { connect_timeout, ..UpstreamConfig::default() };
    let sent = bounded(Upstream::new(&base, config).unwrap().send(pay(), Reuse::Keyed)).await;
    let Err(SendError::NeverSent { reason: NeverSent::ConnectTimeout { limit, .. } }) = sent else {
        panic!("{sent:?}");
    };
    assert_eq!(limit, connect_timeout);
}

#[tokio::test]
async fn a_request_without_a_path_is_never_sent() {
    let upstream = RawUpstream::answering(OK, End::Keep).await;
    let tunnel = Request::builder().method(Method::CONNECT).uri("api:443");
    let tunnel = tunnel.body(OutBody::full(Bytes::new())).unwrap();
    let sent = bounded(upstream.upstream().send(tunnel, Reuse::Unkeyed)).await;
    assert!(matches!(sent, Err(SendError::NeverSent { reason: NeverSent::Target })), "{sent:?}");
    assert_eq!(upstream.connections(), 0);
}

#[tokio::test]
async fn an_answer_that_is_lost_after_the_request_arrived_is_unknown_and_sent_once() {
    for end in [End::Fin, End::Reset] {
        let mut raw = RawUpstream::answering("", end).await;
        let sent = bounded(raw.upstream().send(pay(), Reuse::Keyed)).await;
        let Err(SendError::Unknown { reason: Unknown::Connection(_) }) = sent else {
            panic!("{sent:?}");
        };
        assert!(raw.request().await.ends_with("pay"));
        assert_eq!(raw.connections(), 1);
    }
}

#[tokio::test]
async fn an_answer_lost_on_a_reused_connection_is_not_sent_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let upstream = upstream_at(listener.local_addr().unwrap());
    let serving = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        read_message(&mut stream).await;
        stream.write_all(OK.as_bytes()).await.unwrap();
        let second = read_message(&mut stream).await;
        drop(stream);
        (second, listener)
    });
    exchange(&upstream, Reuse::Keyed).await;
    let sent = bounded(upstream.send(pay(), Reuse::Keyed)).await;
    assert!(matches!(sent, Err(SendError::Unknown { .. })), "{sent:?}");
    let ((second, complete), listener) = bounded(serving).await.unwrap();
    assert!(complete && second.ends_with("pay"), "it went out on the reused connection");
    let again = tokio::time::timeout(Duration::from_millis(50), listener.accept()).await;
    assert!(again.is_err(), "and nowhere else");
}

#[tokio::test]
async fn a_connection_is_reused_after_a_clean_end() {
    for answer in [
        OK,
        "HTTP/1.1 204 No Content\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx-sum: 1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nkeep-alive: timeout=5\r\ncontent-length: 2\r\n\r\nok",
    ] {
        let raw = RawUpstream::answering(answer, End::Keep).await;
        let upstream = raw.upstream();
        for reuse in [Reuse::Keyed, Reuse::Unkeyed, Reuse::Keyed] {
            exchange(&upstream, reuse).await;
        }
        assert_eq!(raw.connections(), 1, "{answer:?}");
    }
}

#[tokio::test]
async fn an_answer_whose_end_is_known_need_not_be_read_past_it() {
    for (answer, frames) in [
        ("HTTP/1.1 204 No Content\r\n\r\n", 0),
        ("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", 0),
        (OK, 1),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx-sum: 1\r\n\r\n", 1),
    ] {
        let raw = RawUpstream::answering(answer, End::Keep).await;
        let upstream = raw.upstream();
        for _ in 0..2 {
            let mut body = bounded(upstream.send(pay(), Reuse::Keyed)).await.unwrap().into_body();
            for _ in 0..frames {
                bounded(body.frame()).await.unwrap().unwrap();
            }
        }
        assert_eq!(raw.connections(), 1, "{answer:?}");
    }
}

#[tokio::test]
async fn a_connection_the_upstream_will_not_keep_is_not_reused() {
    for answer in [
        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nkeep-alive: timeout=1\r\ncontent-length: 2\r\n\r\nok",
        // Whatever it says: hyper would leave out request bodies of unknown length.
        "HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 2\r\n\r\nok",
    ] {
        let raw = RawUpstream::answering(answer, End::Keep).await;
        let upstream = raw.upstream();
        exchange(&upstream, Reuse::Unkeyed).await;
        exchange(&upstream, Reuse::Unkeyed).await;
        assert_eq!(raw.connections(), 2, "{answer:?}");
    }
}

#[tokio::test]
async fn a_connection_the_upstream_closed_is_replaced() {
    for answer in [OK, "HTTP/1.1 200 OK\r\n\r\nok"] {
        let mut raw = RawUpstream::answering(answer, End::Fin).await;
        let upstream = raw.upstream();
        for connections in 1..=3 {
            exchange(&upstream, Reuse::Unkeyed).await;
            bounded(raw.closed.recv()).await.unwrap();
            assert_eq!(raw.connections(), connections, "{answer:?}");
        }
    }
}

#[tokio::test]
async fn an_answer_dropped_before_its_end_closes_the_connection() {
    let mut raw =
        RawUpstream::answering("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok", End::Keep).await;
    let upstream = raw.upstream();
    let mut answer = bounded(upstream.send(pay(), Reuse::Unkeyed)).await.unwrap();
    let _ = bounded(answer.body_mut().frame()).await;
    drop(answer);
    bounded(raw.closed.recv()).await.unwrap();
}

#[tokio::test]
async fn a_send_that_is_given_up_closes_the_connection() {
    let mut raw = RawUpstream::answering("", End::Keep).await;
    let upstream = raw.upstream();
    let sending = tokio::spawn(async move { upstream.send(pay(), Reuse::Keyed).await.is_ok() });
    assert!(raw.request().await.ends_with("pay"));
    sending.abort();
    bounded(raw.closed.recv()).await.unwrap();
}

#[tokio::test]
async fn an_answer_that_comes_before_the_request_is_whole_is_an_answer() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let upstream = upstream_at(listener.local_addr().unwrap());
    let serving = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut read = [0; 1024];
        let _ = stream.read(&mut read).await.unwrap();
        stream.write_all(b"HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno").await.unwrap();
        stream
    });
    // The feeder stays: the body never ends.
    let (feeder, body) = fed();
    feeder.send(data("part")).unwrap();
    let answer = bounded(upstream.send(post(OutBody::streaming(body)), Reuse::Unkeyed)).await;
    let answer = answer.unwrap();
    assert_eq!(answer.status(), StatusCode::PAYLOAD_TOO_LARGE);
    let content = bounded(answer.into_body().collect()).await.unwrap().to_bytes();
    assert_eq!(content, "no");
    drop(bounded(serving).await.unwrap());
}

#[tokio::test]
async fn an_upload_that_breaks_off_never_looks_whole_to_the_upstream() {
    for length in [None, Some("99")] {
        let mut raw = RawUpstream::answering(OK, End::Keep).await;
        let upstream = raw.upstream();
        let (feeder, body) = fed();
        let mut request = post(OutBody::streaming(body));
        if let Some(length) = length {
            request.headers_mut().insert("content-length", length.parse().unwrap());
        }
        let sending = tokio::spawn(async move { upstream.send(request, Reuse::Unkeyed).await });
        feeder.send(data("part")).unwrap();
        feeder.send(Err(std::io::ErrorKind::ConnectionReset.into())).unwrap();
        let sent = bounded(sending).await.unwrap();
        assert!(
            matches!(sent, Err(SendError::Unknown { reason: Unknown::RequestBody(_) })),
            "{sent:?}"
        );
        bounded(raw.closed.recv()).await.unwrap();
        let arrived = raw.requests.try_recv().unwrap_or_default();
        assert!(!arrived.contains("\r\n0\r\n"), "{arrived:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_at_once_arrive_once_each_over_few_connections() {
    const SENDERS: usize = 16;
    const EACH: usize = 50;
    let mut raw = RawUpstream::answering(OK, End::Keep).await;
    let upstream = raw.upstream();
    let senders: Vec<_> = (0..SENDERS)
        .map(|sender| {
            let upstream = upstream.clone();
            tokio::spawn(async move {
                for turn in 0..EACH {
                    let content = Bytes::from(format!("<{sender}-{turn}>"));
                    let answer = upstream.send(post(OutBody::full(content)), Reuse::Keyed).await;
                    answer.unwrap().into_body().collect().await.unwrap();
                }
            })
        })
        .collect();
    for sender in senders {
        bounded(sender).await.unwrap();
    }
    let mut arrived = HashSet::new();
    while let Ok(request) = raw.requests.try_recv() {
        let (_, content) = request.split_once("\r\n\r\n").unwrap();
        assert!(arrived.insert(content.to_owned()), "{content} came twice");
    }
    assert_eq!(arrived.len(), SENDERS * EACH);
    assert!(raw.connections() < SENDERS * EACH / 4, "{} connections", raw.connections());
}
