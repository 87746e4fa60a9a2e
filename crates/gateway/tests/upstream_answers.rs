//! What proves that an answer is complete, and what does not.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot go on stops, and what it collects it made"
)]

mod support;

use bytes::Bytes;
use hapax::http::body::{Collected, collect_capped};
use hapax_gateway::upstream::{OutBody, Reuse, SendError, Unknown};
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use support::{End, RawUpstream, bounded};

#[derive(Debug, Eq, PartialEq)]
enum Seen {
    Complete(u16, &'static str),
    /// The head came; the body broke off.
    BrokenBody,
    /// No head.
    Lost,
    Malformed,
    Refused,
}

fn request(method: Method) -> Request<OutBody> {
    let builder = Request::builder().method(method).uri("/v1/payments").header("host", "api");
    builder.body(OutBody::full(Bytes::new())).unwrap()
}

async fn seen(method: Method, answer: &'static str, end: End) -> Seen {
    let upstream = RawUpstream::answering(answer, end).await;
    let sent = bounded(upstream.upstream().send(request(method), Reuse::Keyed)).await;
    let answer = match sent {
        Ok(answer) => answer,
        Err(SendError::NeverSent { reason }) => panic!("never sent: {reason}"),
        Err(SendError::Unknown { reason }) => {
            return match reason {
                Unknown::Connection(_) => Seen::Lost,
                Unknown::Malformed(_) => Seen::Malformed,
                Unknown::TransferCoding | Unknown::SwitchingProtocols => Seen::Refused,
                other => panic!("{other}"),
            };
        }
    };
    let status = answer.status().as_u16();
    match bounded(collect_capped(answer.into_body(), 1024)).await {
        Collected::Complete { bytes, .. } => {
            let text = String::from_utf8(bytes.to_vec()).unwrap();
            Seen::Complete(status, text.leak())
        }
        Collected::Broken { .. } => Seen::BrokenBody,
        Collected::OverCap(_) => panic!("over the cap"),
    }
}

#[tokio::test]
async fn an_answer_is_complete_only_if_its_framing_says_so() {
    use End::{Fin, Keep};
    let ok = |body| Seen::Complete(200, body);
    let cases: &[(&str, End, Seen)] = &[
        // By length.
        ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", Keep, ok("ok")),
        ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", Fin, ok("ok")),
        ("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", Keep, ok("")),
        ("HTTP/1.1 200 OK\r\ncontent-length: 2, 2\r\n\r\nok", Keep, ok("ok")),
        ("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok", Fin, Seen::BrokenBody),
        ("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n", Fin, Seen::BrokenBody),
        (
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nok!",
            Fin,
            Seen::Malformed,
        ),
        // By chunks.
        (
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
            Keep,
            ok("ok"),
        ),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n", Fin, Seen::BrokenBody),
        (
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n",
            Fin,
            Seen::BrokenBody,
        ),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n9\r\nok", Fin, Seen::BrokenBody),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", Keep, Seen::BrokenBody),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", Fin, Seen::BrokenBody),
        // By the close.
        ("HTTP/1.1 200 OK\r\n\r\nok", Fin, ok("ok")),
        ("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n", Fin, ok("")),
        ("HTTP/1.0 200 OK\r\n\r\nok", Fin, ok("ok")),
        ("HTTP/1.0 200 OK\r\ncontent-length: 9\r\n\r\nok", Fin, Seen::BrokenBody),
        // Without content.
        ("HTTP/1.1 204 No Content\r\n\r\n", Keep, Seen::Complete(204, "")),
        ("HTTP/1.1 204 No Content\r\ncontent-length: 5\r\n\r\n", Keep, Seen::Complete(204, "")),
        ("HTTP/1.1 304 Not Modified\r\ncontent-length: 5\r\n\r\n", Keep, Seen::Complete(304, "")),
        // After interim answers.
        (
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n\
          HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
            Keep,
            ok("ok"),
        ),
        ("HTTP/1.1 100 Continue\r\n\r\n", Fin, Seen::Lost),
        // No answer at all, or not one of ours.
        ("", Fin, Seen::Lost),
        ("HTTP/1.1 200 OK\r\ncontent-le", Fin, Seen::Lost),
        ("SSH-2.0-OpenSSH\r\n\r\n", Keep, Seen::Malformed),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\nok", Fin, Seen::Refused),
        (
            "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
            Keep,
            Seen::Refused,
        ),
        (
            "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
            Keep,
            Seen::Refused,
        ),
    ];
    for (answer, end, expected) in cases {
        let seen = seen(Method::POST, answer, *end).await;
        assert_eq!(seen, *expected, "{answer:?} {end:?}");
    }
}

#[tokio::test]
async fn an_answer_to_head_is_complete_without_its_content() {
    let answer = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n";
    assert_eq!(seen(Method::HEAD, answer, End::Keep).await, Seen::Complete(200, ""));
}

#[tokio::test]
async fn a_reset_never_completes_an_answer() {
    for answer in [
        "",
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n",
        "HTTP/1.1 200 OK\r\n\r\nok",
        "HTTP/1.0 200 OK\r\n\r\nok",
    ] {
        let seen = seen(Method::POST, answer, End::Reset).await;
        assert!(matches!(seen, Seen::Lost | Seen::BrokenBody), "{answer:?}: {seen:?}");
    }
}

async fn answer(answer: &'static str, end: End) -> Response<Bytes> {
    let upstream = RawUpstream::answering(answer, end).await;
    let sent = bounded(upstream.upstream().send(request(Method::POST), Reuse::Unkeyed)).await;
    let (head, body) = sent.unwrap().into_parts();
    Response::from_parts(head, bounded(body.collect()).await.unwrap().to_bytes())
}

#[tokio::test]
async fn trailers_come_through() {
    let upstream = RawUpstream::answering(
        "HTTP/1.1 200 OK\r\ntrailer: x-sum\r\ntransfer-encoding: chunked\r\n\r\n\
         2\r\nok\r\n0\r\nx-sum: 17\r\n\r\n",
        End::Keep,
    )
    .await;
    let sent = bounded(upstream.upstream().send(request(Method::POST), Reuse::Unkeyed)).await;
    let answer = sent.unwrap();
    assert_eq!(answer.headers()["trailer"], "x-sum");
    let Collected::Complete { bytes, trailers } =
        bounded(collect_capped(answer.into_body(), 9)).await
    else {
        panic!("not complete");
    };
    assert_eq!((&bytes[..], &trailers.unwrap()["x-sum"]), (&b"ok"[..], &"17".parse().unwrap()));
}

#[tokio::test]
async fn a_length_beside_chunks_cannot_smuggle_a_second_answer() {
    let answer = answer(
        "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\nx-kept: 1\r\n\r\n\
         2\r\nok\r\n0\r\n\r\n",
        End::Keep,
    )
    .await;
    let names: Vec<_> = answer.headers().keys().map(|name| name.as_str()).collect();
    assert_eq!((names, &answer.body()[..]), (vec!["x-kept"], &b"ok"[..]));
}

#[tokio::test]
async fn an_answer_of_an_older_version_goes_on_in_ours() {
    let answer = answer("HTTP/1.0 200 Fine\r\ncontent-length: 2\r\n\r\nok", End::Fin).await;
    assert_eq!(answer.version(), http::Version::HTTP_11);
    assert_eq!(answer.headers()["content-length"], "2");
}
