//! What a request looks like to the upstream, byte for byte.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot go on stops, and what it collects it made"
)]

mod support;

use bytes::Bytes;
use hapax_gateway::upstream::{OutBody, Reuse};
use http::{HeaderMap, Request};
use http_body::Frame;
use http_body_util::{Empty, Full};
use support::{End, RawUpstream, bounded, data, fed};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

async fn on_the_wire(request: Request<OutBody>) -> String {
    let mut raw = RawUpstream::answering(OK, End::Keep).await;
    bounded(raw.upstream().send(request, Reuse::Unkeyed)).await.unwrap();
    raw.request().await
}

fn full(content: &'static str) -> OutBody {
    OutBody::full(Bytes::from_static(content.as_bytes()))
}

/// A body whose length nobody knows before its end.
fn unsized_body(content: &'static str) -> OutBody {
    let (feeder, body) = fed();
    feeder.send(data(content)).unwrap();
    OutBody::streaming(body)
}

#[tokio::test]
async fn the_target_goes_through_byte_for_byte() {
    for target in ["/", "/a//b/../c;v=1?x=%2f&y=%2F&z=a+b?", "/~user/%E2%82%AC", "/?", "*"] {
        let request = Request::options(target).header("host", "api").body(full("")).unwrap();
        let wire = on_the_wire(request).await;
        let expected = format!("OPTIONS {target} HTTP/1.1\r\nhost: api\r\n\r\n");
        assert_eq!(wire, expected);
    }
}

#[tokio::test]
async fn an_authority_in_the_target_becomes_host() {
    for (target, host, sent) in [
        ("/a", Some("api.example"), "api.example"),
        ("http://real.example:81/a", Some("other.example"), "real.example:81"),
        ("http://me@real.example/a", None, "real.example"),
    ] {
        let mut request = Request::get(target).body(full("")).unwrap();
        if let Some(host) = host {
            request.headers_mut().insert("host", host.parse().unwrap());
        }
        let wire = on_the_wire(request).await;
        assert_eq!(wire, format!("GET /a HTTP/1.1\r\nhost: {sent}\r\n\r\n"));
    }
}

#[tokio::test]
async fn a_request_without_host_gets_the_upstreams() {
    let mut raw = RawUpstream::answering(OK, End::Keep).await;
    let request = Request::get("/").version(http::Version::HTTP_10).body(full("")).unwrap();
    bounded(raw.upstream().send(request, Reuse::Unkeyed)).await.unwrap();
    let expected = format!("GET / HTTP/1.1\r\nhost: {}\r\n\r\n", raw.address);
    assert_eq!(raw.request().await, expected);
}

#[tokio::test]
async fn the_framing_is_that_of_the_body_whatever_the_head_says() {
    let chunked = "transfer-encoding: chunked\r\n\r\n3\r\npay\r\n0\r\n\r\n";
    type Fields = &'static [(&'static str, &'static str)];
    let cases: [(&str, OutBody, Fields, &str); 10] = [
        ("POST", full("pay"), &[], "content-length: 3\r\n\r\npay"),
        ("POST", full("pay"), &[("content-length", "7")], "content-length: 3\r\n\r\npay"),
        ("POST", full("pay"), &[("transfer-encoding", "chunked")], "content-length: 3\r\n\r\npay"),
        ("POST", full(""), &[("content-length", "7")], "content-length: 0\r\n\r\n"),
        ("GET", full(""), &[], "\r\n"),
        ("GET", full(""), &[("content-length", "0")], "content-length: 0\r\n\r\n"),
        ("POST", OutBody::streaming(Empty::<Bytes>::new()), &[], "content-length: 0\r\n\r\n"),
        ("POST", OutBody::streaming(Full::from("pay")), &[], "content-length: 3\r\n\r\npay"),
        ("POST", unsized_body("pay"), &[], chunked),
        ("GET", unsized_body("pay"), &[], chunked),
    ];
    for (method, body, headers, rest) in cases {
        let mut request = Request::builder().method(method).uri("/").header("host", "api");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let wire = on_the_wire(request.body(body).unwrap()).await;
        assert_eq!(wire, format!("{method} / HTTP/1.1\r\nhost: api\r\n{rest}"));
    }
}

#[tokio::test]
async fn trailers_of_a_request_go_through() {
    let mut trailers = HeaderMap::new();
    trailers.insert("x-sum", "17".parse().unwrap());

    let (feeder, body) = fed();
    feeder.send(data("pay")).unwrap();
    feeder.send(Ok(Frame::trailers(trailers))).unwrap();
    drop(feeder);
    let request = Request::post("/").header("host", "api").header("trailer", "x-sum");
    let wire = on_the_wire(request.body(OutBody::streaming(body)).unwrap()).await;
    assert!(wire.ends_with("3\r\npay\r\n0\r\nx-sum: 17\r\n\r\n"), "{wire}");
}

#[tokio::test]
async fn with_expect_a_service_that_never_asks_gets_the_body_after_a_moment() {
    let request = Request::post("/pay").header("host", "api").header("expect", "100-continue");
    let begun = tokio::time::Instant::now();
    let wire = on_the_wire(request.body(unsized_body("pay")).unwrap()).await;
    assert!(wire.contains("expect: 100-continue") && wire.contains("\r\npay\r\n"), "{wire}");
    assert!(begun.elapsed() >= std::time::Duration::from_secs(1), "it was not waited for");
}
