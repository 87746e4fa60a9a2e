//! Server, header rules and upstream together: traffic without a key goes through untouched.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot go on stops, and what it collects it made"
)]

mod support;

use std::net::SocketAddr;

use bytes::Bytes;
use hapax_gateway::headers::{check_request, to_upstream};
use hapax_gateway::server::{Inbound, ServerLimits, serve};
use hapax_gateway::upstream::{IncompleteAnswer, OutBody, Reuse, Upstream};
use http::{Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use support::{End, RawUpstream, bounded, exchange};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

type Answer = Response<UnsyncBoxBody<Bytes, IncompleteAnswer>>;

async fn pass(upstream: Upstream, request: Request<Inbound>) -> Answer {
    let (mut head, body) = request.into_parts();
    if let Err(fault) = check_request(&head) {
        return refuse(fault.status());
    }
    to_upstream(&mut head.headers, head.version);
    let request = Request::from_parts(head, OutBody::streaming(body));
    match upstream.send(request, Reuse::Unkeyed).await {
        Ok(answer) => answer.map(UnsyncBoxBody::new),
        Err(_) => refuse(StatusCode::BAD_GATEWAY),
    }
}

fn refuse(status: StatusCode) -> Answer {
    let mut answer = Response::new(Empty::new().map_err(|never| match never {}).boxed_unsync());
    *answer.status_mut() = status;
    answer
}

async fn proxy(raw: &RawUpstream) -> SocketAddr {
    let upstream = raw.upstream();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = move |request| pass(upstream.clone(), request);
    tokio::spawn(serve(listener, service, ServerLimits::default(), CancellationToken::new()));
    address
}

/// What a client gets for `request` where the upstream answers `answer`, without the date.
async fn through(request: &str, answer: &'static str, end: End) -> (String, RawUpstream) {
    let raw = RawUpstream::answering(answer, end).await;
    let received = exchange(proxy(&raw).await, request).await;
    let received: Vec<_> =
        received.split("\r\n").filter(|line| !line.starts_with("date: ")).collect();
    (received.join("\r\n"), raw)
}

#[tokio::test]
async fn an_exchange_goes_through_as_it_is() {
    let (received, mut raw) = through(
        "POST /v1/a?b=%2f HTTP/1.1\r\nHost: api.example\r\nConnection: close, x-hop\r\nX-Hop: 1\r\n\
         Idempotency-Key: \"k\"\r\ncontent-length: 3\r\n\r\npay",
        "HTTP/1.1 201 Made\r\ncontent-length: 2\r\nset-cookie: a=1\r\nset-cookie: b=2\r\n\
         keep-alive: timeout=9\r\n\r\nok",
        End::Keep,
    )
    .await;
    assert_eq!(
        received,
        "HTTP/1.1 201 Made\r\ncontent-length: 2\r\nset-cookie: a=1\r\nset-cookie: b=2\r\n\
         connection: close\r\n\r\nok"
    );
    assert_eq!(
        raw.request().await,
        "POST /v1/a?b=%2f HTTP/1.1\r\nhost: api.example\r\nidempotency-key: \"k\"\r\n\
         content-length: 3\r\n\r\npay"
    );
}

#[tokio::test]
async fn answers_keep_their_framing_and_never_gain_a_second_one() {
    let get = "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    let head = "HEAD / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    for (request, answer, end, expected) in [
        (
            get,
            "HTTP/1.1 204 No Content\r\ncontent-length: 5\r\n\r\n",
            End::Keep,
            "HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n",
        ),
        (
            head,
            "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 5\r\n\r\n",
            End::Keep,
            "HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\n",
        ),
        (
            get,
            "HTTP/1.1 200 OK\r\ncontent-length: 2, 2\r\n\r\nok",
            End::Keep,
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok",
        ),
        (
            get,
            "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n\
             2\r\nok\r\n0\r\n\r\n",
            End::Keep,
            "HTTP/1.1 200 OK\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n\
             2\r\nok\r\n0\r\n\r\n",
        ),
        (
            get,
            "HTTP/1.0 200 OK\r\n\r\nok",
            End::Fin,
            "HTTP/1.1 200 OK\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n\
             2\r\nok\r\n0\r\n\r\n",
        ),
        (
            get,
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n",
            End::Fin,
            "HTTP/1.1 200 OK\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n",
        ),
        (
            get,
            "",
            End::Fin,
            "HTTP/1.1 502 Bad Gateway\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
        ),
    ] {
        let (received, _raw) = through(request, answer, end).await;
        assert_eq!(received, expected, "{answer:?}");
    }
}

#[tokio::test]
async fn trailers_go_through_to_a_client_that_wants_them() {
    let (received, mut raw) = through(
        "GET / HTTP/1.1\r\nhost: a\r\nte: trailers\r\nconnection: te, close\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntrailer: x-sum\r\ntransfer-encoding: chunked\r\n\r\n\
         2\r\nok\r\n0\r\nx-sum: 17\r\n\r\n",
        End::Keep,
    )
    .await;
    assert!(received.ends_with("2\r\nok\r\n0\r\nx-sum: 17\r\n\r\n"), "{received}");
    let request = raw.request().await;
    assert!(request.contains("te: trailers\r\nconnection: te\r\n"), "{request}");
}

#[tokio::test]
async fn the_gateway_answers_an_expectation_itself() {
    let mut raw =
        RawUpstream::answering("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", End::Keep).await;
    let mut stream = TcpStream::connect(proxy(&raw).await).await.unwrap();
    let head = "POST / HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 3\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut interim = [0; 25];
    bounded(stream.read_exact(&mut interim)).await.unwrap();
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"pay").await.unwrap();
    let request = raw.request().await;
    assert!(!request.contains("expect") && request.ends_with("pay"), "{request}");
}

#[tokio::test]
async fn what_is_not_served_is_refused_before_the_upstream() {
    for (request, status) in [
        (
            "POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\
             transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
            "501",
        ),
        ("CONNECT a:443 HTTP/1.1\r\nhost: a:443\r\nconnection: close\r\n\r\n", "501"),
        ("GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\nconnection: close\r\n\r\n", "400"),
    ] {
        let (received, raw) = through(request, "", End::Fin).await;
        assert!(received.starts_with(&format!("HTTP/1.1 {status} ")), "{received}");
        assert_eq!(raw.connections(), 0);
    }
}

#[tokio::test]
async fn an_http_2_request_becomes_http_1_with_host_and_one_cookie_line() {
    let mut raw =
        RawUpstream::answering("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", End::Keep).await;
    let stream = TcpStream::connect(proxy(&raw).await).await.unwrap();
    let (mut client, driver) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(driver);
    let request = Request::post("http://api.example/v1?a=%2f")
        .header("cookie", "a=1")
        .header("cookie", "b=2")
        .body(Full::<Bytes>::from("pay"))
        .unwrap();
    let answer = bounded(client.send_request(request)).await.unwrap();
    let content = bounded(answer.into_body().collect()).await.unwrap().to_bytes();
    assert_eq!(content, "ok");
    let request = raw.request().await;
    assert!(request.starts_with("POST /v1?a=%2f HTTP/1.1\r\n"), "{request}");
    assert!(request.contains("\r\ncookie: a=1; b=2\r\n"), "{request}");
    assert!(request.contains("\r\nhost: api.example\r\n"), "{request}");
    assert!(request.contains("\r\ncontent-length: 3\r\n"), "{request}");
    assert!(request.ends_with("\r\n\r\npay"), "{request}");
}
