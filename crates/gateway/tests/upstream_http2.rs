//! Over HTTP/2: what was never processed, what is unknown, and which connections live on. The
//! service is h2 itself, and where it must break the rules, bytes.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot go on stops, and what it collects it made"
)]

mod support;

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use h2::{Reason, server};
use hapax::Sent;
use hapax_gateway::upstream::{
    NeverSent, OutBody, Protocol, Reuse, SendError, Unknown, Upstream, UpstreamConfig,
};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use support::{bounded, data, fed};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::mpsc,
};

type ServerConnection = server::Connection<TcpStream, Bytes>;
type Responder = server::SendResponse<Bytes>;

fn upstream_at(address: SocketAddr) -> Upstream {
    let base = format!("http://{address}").parse().unwrap();
    let config = UpstreamConfig {
        protocol: Protocol::Http2,
        connect_timeout: Duration::from_secs(1),
        ..UpstreamConfig::default()
    };
    Upstream::new(&base, config).unwrap()
}

fn post(body: OutBody) -> Request<OutBody> {
    let builder = Request::builder().method(Method::POST).uri("/pay?x=1").header("host", "api:81");
    builder.body(body).unwrap()
}

fn pay() -> Request<OutBody> {
    post(OutBody::full(Bytes::from_static(b"pay")))
}

/// A service that treats each connection as the function says; counts connections.
async fn service<F>(
    serve: impl Fn(ServerConnection, usize) -> F + Send + Sync + 'static,
) -> (Upstream, Arc<AtomicUsize>)
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let upstream = upstream_at(listener.local_addr().unwrap());
    let connections = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&connections);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let nth = count.fetch_add(1, Ordering::SeqCst) + 1;
            let connection = server::handshake(stream).await.unwrap();
            tokio::spawn(serve(connection, nth));
        }
    });
    (upstream, connections)
}

async fn next(connection: &mut ServerConnection) -> (Request<h2::RecvStream>, Responder) {
    connection.accept().await.expect("a request").expect("a whole one")
}

/// Lets the connection write what is to be written, until the peer closes it.
async fn finish(mut connection: ServerConnection) {
    while let Some(Ok(_)) = connection.accept().await {}
}

fn ok(responder: &mut Responder, body: &'static str) {
    let mut stream = responder.send_response(Response::new(()), false).unwrap();
    stream.send_data(Bytes::from_static(body.as_bytes()), true).unwrap();
}

async fn text(upstream: &Upstream) -> String {
    let answer = bounded(upstream.send(pay(), Reuse::Keyed)).await.unwrap();
    let body = bounded(answer.into_body().collect()).await.unwrap().to_bytes();
    String::from_utf8(body.to_vec()).unwrap()
}

#[tokio::test]
async fn a_request_arrives_in_the_form_of_http_2() {
    let (told, mut seen) = mpsc::unbounded_channel();
    let (upstream, _) = service(move |mut connection, _| {
        let told = told.clone();
        async move {
            let (request, mut responder) = next(&mut connection).await;
            let (head, _body) = request.into_parts();
            told.send(head).unwrap();
            ok(&mut responder, "ok");
            finish(connection).await;
        }
    })
    .await;
    let mut request = pay();
    request.headers_mut().insert("te", "trailers".parse().unwrap());
    request.headers_mut().insert("connection", "te".parse().unwrap());
    let answer = bounded(upstream.send(request, Reuse::Keyed)).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    let head = bounded(seen.recv()).await.unwrap();
    assert_eq!(head.uri.to_string(), "http://api:81/pay?x=1");
    let mut fields: Vec<_> =
        head.headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
    fields.sort_unstable();
    assert_eq!(fields, [("content-length", "3"), ("te", "trailers")]);
}

#[tokio::test]
async fn p41_a_refused_stream_was_never_sent_and_is_sent_once_more_where_its_body_is_in_memory() {
    for (refusals, sent_twice) in [(1, true), (2, false)] {
        let arrived = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&arrived);
        let (upstream, _) = service(move |mut connection, _| {
            let count = Arc::clone(&count);
            async move {
                loop {
                    let Some(Ok((request, mut responder))) = connection.accept().await else {
                        return;
                    };
                    // The first opens the connection for the others.
                    if request.method() == Method::GET {
                        ok(&mut responder, "ok");
                    } else if count.fetch_add(1, Ordering::SeqCst) < refusals {
                        responder.send_reset(Reason::REFUSED_STREAM);
                    } else {
                        ok(&mut responder, "made");
                    }
                }
            }
        })
        .await;
        let get = Request::builder().uri("/").header("host", "a");
        let get = get.body(OutBody::full(Bytes::new())).unwrap();
        let warm = bounded(upstream.send(get, Reuse::Keyed)).await.unwrap();
        bounded(warm.into_body().collect()).await.unwrap();
        let sent = Sent::default();
        let answer = bounded(upstream.send_telling(pay(), Reuse::Keyed, &sent)).await;
        match answer {
            Ok(answer) => assert!(sent_twice, "{answer:?}"),
            Err(SendError::NeverSent { reason: NeverSent::Refused(_) }) => assert!(!sent_twice),
            Err(other) => panic!("{other:?}"),
        }
        assert_eq!(arrived.load(Ordering::SeqCst), 2);
    }
}

#[tokio::test]
async fn p41_a_service_that_allows_no_streams_gets_no_request() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let upstream = upstream_at(listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                // SETTINGS_MAX_CONCURRENT_STREAMS = 0.
                stream.write_all(b"\0\0\x06\x04\0\0\0\0\0").await.unwrap();
                tokio::task::yield_now().await;
                stream.write_all(b"\0\x03\0\0\0\0").await.unwrap();
                let _ = stream.read_to_end(&mut Vec::new()).await;
            });
        }
    });
    for _ in 0..20 {
        let sent = Sent::default();
        let answer = bounded(upstream.send_telling(pay(), Reuse::Keyed, &sent)).await;
        let Err(SendError::NeverSent { reason: NeverSent::NoStreams { .. } }) = answer else {
            panic!("{answer:?}");
        };
    }
}

#[tokio::test]
async fn p41_a_refused_stream_whose_body_streamed_was_never_sent() {
    let (upstream, connections) = service(|mut connection, _| async move {
        let (_, mut responder) = next(&mut connection).await;
        responder.send_reset(Reason::REFUSED_STREAM);
        finish(connection).await;
    })
    .await;
    let (feeder, body) = fed();
    feeder.send(data("pay")).unwrap();
    let sent = bounded(upstream.send(post(OutBody::streaming(body)), Reuse::Keyed)).await;
    let Err(SendError::NeverSent { reason: NeverSent::Refused(_) }) = sent else {
        panic!("{sent:?}");
    };
    assert_eq!(connections.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn p41_any_other_reset_is_unknown() {
    for reason in [Reason::CANCEL, Reason::INTERNAL_ERROR, Reason::NO_ERROR, Reason::PROTOCOL_ERROR]
    {
        let (upstream, connections) = service(move |mut connection, _| async move {
            let (_, mut responder) = next(&mut connection).await;
            responder.send_reset(reason);
            finish(connection).await;
        })
        .await;
        let sent = bounded(upstream.send(pay(), Reuse::Keyed)).await;
        assert!(matches!(sent, Err(SendError::Unknown { reason: Unknown::Stream(_) })), "{sent:?}");
        assert_eq!(connections.load(Ordering::SeqCst), 1, "{reason:?}");
    }
}

/// A service that reads the first request and then says GOAWAY with this last stream, as bytes.
async fn going_away(last: u32, code: u32) -> (Upstream, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let upstream = upstream_at(listener.local_addr().unwrap());
    let connections = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&connections);
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            count.fetch_add(1, Ordering::SeqCst);
            let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
            stream.write_all(&settings).await.unwrap();
            // The preface and the request's head; HEADERS is frame type 1.
            let mut read = Vec::new();
            while !has_frame(&read, 1) {
                let mut part = [0; 1024];
                let length = stream.read(&mut part).await.unwrap();
                read.extend_from_slice(&part[..length]);
            }
            let mut goaway = vec![0, 0, 8, 7, 0, 0, 0, 0, 0];
            goaway.extend(last.to_be_bytes());
            goaway.extend(code.to_be_bytes());
            stream.write_all(&goaway).await.unwrap();
            let _ = stream.shutdown().await;
            while matches!(stream.read(&mut [0; 1024]).await, Ok(1..)) {}
        }
    });
    (upstream, connections)
}

/// Whether a client's bytes hold a frame of this type.
fn has_frame(read: &[u8], wanted: u8) -> bool {
    let mut rest = read.get(24..).unwrap_or_default();
    while let Some(head) = rest.get(..9) {
        if head[3] == wanted {
            return true;
        }
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        rest = rest.get(9 + length..).unwrap_or_default();
    }
    false
}

#[tokio::test]
async fn p41_a_goaway_that_names_an_earlier_request_was_never_sent_and_one_that_does_not_is_unknown()
 {
    const ENHANCE_YOUR_CALM: u32 = 11;
    for code in [0, ENHANCE_YOUR_CALM] {
        // The request is stream 1.
        let (upstream, _) = going_away(0, code).await;
        let sent = bounded(upstream.send(pay(), Reuse::Keyed)).await;
        let Err(SendError::NeverSent { reason: NeverSent::Refused(_) }) = sent else {
            panic!("{code}: {sent:?}");
        };
        for last in [1, 7, (1 << 31) - 1] {
            let (upstream, connections) = going_away(last, code).await;
            let sent = bounded(upstream.send(pay(), Reuse::Keyed)).await;
            assert!(matches!(sent, Err(SendError::Unknown { .. })), "{last} {code}: {sent:?}");
            assert_eq!(connections.load(Ordering::SeqCst), 1, "sent once");
        }
    }
}

#[tokio::test]
async fn a_connection_that_is_going_away_finishes_what_it_has_and_takes_nothing_new() {
    let (upstream, connections) = service(|mut connection, nth| async move {
        let (_, mut responder) = next(&mut connection).await;
        if nth == 1 {
            connection.graceful_shutdown();
        }
        ok(&mut responder, if nth == 1 { "first" } else { "second" });
        finish(connection).await;
    })
    .await;
    assert_eq!(text(&upstream).await, "first");
    assert_eq!(text(&upstream).await, "second");
    assert_eq!(connections.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn requests_at_once_share_a_connection_up_to_what_the_service_allows() {
    const ALLOWED: u32 = 10;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let upstream = upstream_at(listener.local_addr().unwrap());
    let (told, mut seen) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        for nth in 1.. {
            let (stream, _) = listener.accept().await.unwrap();
            let told = told.clone();
            tokio::spawn(async move {
                let mut builder = server::Builder::new();
                builder.max_concurrent_streams(ALLOWED);
                let mut connection: ServerConnection = builder.handshake(stream).await.unwrap();
                while let Some(Ok((_, responder))) = connection.accept().await {
                    // Held unanswered by whoever gets it.
                    let _ = told.send((nth, responder));
                }
            });
        }
    });
    let mut under_way = Vec::new();
    let mut held = Vec::new();
    for _ in 0..=ALLOWED {
        let upstream = upstream.clone();
        under_way.push(tokio::spawn(async move { text(&upstream).await }));
        held.push(bounded(seen.recv()).await.unwrap());
    }
    let on_first = held.iter().filter(|(nth, _)| *nth == 1).count();
    assert_eq!((on_first, held.len()), (ALLOWED as usize, ALLOWED as usize + 1));
    for (_, responder) in &mut held {
        ok(responder, "ok");
    }
    for answer in under_way {
        assert_eq!(bounded(answer).await.unwrap(), "ok");
    }
}

#[tokio::test]
async fn many_that_begin_together_wait_for_one_connection() {
    let (upstream, connections) = service(|mut connection, _| async move {
        while let Some(Ok((_, mut responder))) = connection.accept().await {
            ok(&mut responder, "ok");
        }
    })
    .await;
    let all = (0..50).map(|_| {
        let upstream = upstream.clone();
        tokio::spawn(async move { text(&upstream).await })
    });
    for answer in all.collect::<Vec<_>>() {
        assert_eq!(bounded(answer).await.unwrap(), "ok");
    }
    assert_eq!(connections.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_connection_idle_for_a_second_takes_no_keyed_request() {
    let (upstream, connections) = service(|mut connection, _| async move {
        while let Some(Ok((_, mut responder))) = connection.accept().await {
            ok(&mut responder, "ok");
        }
    })
    .await;
    text(&upstream).await;
    text(&upstream).await;
    assert_eq!(connections.load(Ordering::SeqCst), 1);
    tokio::time::sleep(Reuse::Keyed.max_idle()).await;
    text(&upstream).await;
    assert_eq!(connections.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn an_answer_without_the_end_of_its_stream_is_incomplete() {
    for reason in [Reason::NO_ERROR, Reason::CANCEL, Reason::INTERNAL_ERROR] {
        let (upstream, _) = service(move |mut connection, _| async move {
            let (_, mut responder) = next(&mut connection).await;
            let mut stream = responder.send_response(Response::new(()), false).unwrap();
            stream.send_data(Bytes::from_static(b"half"), false).unwrap();
            // Written before the reset: what is queued would be dropped with it.
            let _ = tokio::time::timeout(Duration::from_millis(50), connection.accept()).await;
            stream.send_reset(reason);
            finish(connection).await;
        })
        .await;
        let answer = bounded(upstream.send(pay(), Reuse::Keyed)).await.unwrap();
        let whole = bounded(answer.into_body().collect()).await;
        assert!(whole.is_err(), "{reason:?}: {whole:?}");
    }
}

#[tokio::test]
async fn an_answer_shorter_than_its_length_is_incomplete() {
    let (upstream, _) = service(|mut connection, _| async move {
        let (_, mut responder) = next(&mut connection).await;
        let head = Response::builder().header("content-length", 10).body(()).unwrap();
        let mut stream = responder.send_response(head, false).unwrap();
        stream.send_data(Bytes::from_static(b"half"), true).unwrap();
        finish(connection).await;
    })
    .await;
    let answer = bounded(upstream.send(pay(), Reuse::Keyed)).await.unwrap();
    assert!(bounded(answer.into_body().collect()).await.is_err());
}

#[tokio::test]
async fn bodies_and_trailers_stream_both_ways() {
    let (told, mut seen) = mpsc::unbounded_channel();
    let (upstream, _) = service(move |mut connection, _| {
        let told = told.clone();
        async move {
            let (request, mut responder) = next(&mut connection).await;
            let mut body = request.into_body();
            tokio::spawn(async move {
                let mut stream = responder.send_response(Response::new(()), false).unwrap();
                while let Some(data) = body.data().await {
                    let data = data.unwrap();
                    body.flow_control().release_capacity(data.len()).unwrap();
                    stream.send_data(data, false).unwrap();
                }
                told.send(body.trailers().await.unwrap().unwrap()).unwrap();
                let mut trailers = HeaderMap::new();
                trailers.insert("grpc-status", "0".parse().unwrap());
                stream.send_trailers(trailers).unwrap();
            });
            finish(connection).await;
        }
    })
    .await;
    let (feeder, body) = fed();
    let answer = bounded(upstream.send(post(OutBody::streaming(body)), Reuse::Unkeyed)).await;
    let mut answer = answer.unwrap().into_body();
    for part in ["one", "two", "three"] {
        feeder.send(data(part)).unwrap();
        let frame = bounded(answer.frame()).await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), part);
    }
    let mut trailers = HeaderMap::new();
    trailers.insert("x-sum", "7".parse().unwrap());
    feeder.send(Ok(http_body::Frame::trailers(trailers))).unwrap();
    drop(feeder);
    assert_eq!(bounded(seen.recv()).await.unwrap()["x-sum"], "7");
    let frame = bounded(answer.frame()).await.unwrap().unwrap();
    assert_eq!(frame.into_trailers().unwrap()["grpc-status"], "0");
    assert!(bounded(answer.frame()).await.is_none());
}

#[tokio::test]
async fn an_upload_that_breaks_off_reaches_the_service_as_broken() {
    let (told, mut seen) = mpsc::unbounded_channel();
    let (upstream, _) = service(move |mut connection, _| {
        let told = told.clone();
        async move {
            let (request, _responder) = next(&mut connection).await;
            let mut body = request.into_body();
            tokio::spawn(async move {
                while let Some(Ok(_)) = body.data().await {}
                told.send(body.is_end_stream()).unwrap();
            });
            finish(connection).await;
        }
    })
    .await;
    let (feeder, body) = fed();
    feeder.send(data("half")).unwrap();
    feeder.send(Err(std::io::ErrorKind::ConnectionReset.into())).unwrap();
    let sent = bounded(upstream.send(post(OutBody::streaming(body)), Reuse::Unkeyed)).await;
    assert!(
        matches!(sent, Err(SendError::Unknown { reason: Unknown::RequestBody(_) })),
        "{sent:?}"
    );
    assert!(!bounded(seen.recv()).await.unwrap(), "a part passed for the whole");
}

#[tokio::test]
async fn a_large_upload_goes_through_whole_and_no_faster_than_it_is_read() {
    const PART: usize = 64 * 1024;
    const PARTS: usize = 64;
    let (told, mut seen) = mpsc::unbounded_channel();
    let (upstream, _) = service(move |mut connection, _| {
        let told = told.clone();
        async move {
            let (request, mut responder) = next(&mut connection).await;
            let mut body = request.into_body();
            tokio::spawn(async move {
                let mut length = 0;
                while let Some(data) = body.data().await {
                    length += data.as_ref().unwrap().len();
                    body.flow_control().release_capacity(data.unwrap().len()).unwrap();
                }
                told.send(length).unwrap();
                ok(&mut responder, "ok");
            });
            finish(connection).await;
        }
    })
    .await;
    let (feeder, body) = fed();
    for _ in 0..PARTS {
        feeder.send(Ok(http_body::Frame::data(Bytes::from(vec![7; PART])))).unwrap();
    }
    drop(feeder);
    let answer = bounded(upstream.send(post(OutBody::streaming(body)), Reuse::Unkeyed)).await;
    assert_eq!(answer.unwrap().status(), StatusCode::OK);
    assert_eq!(bounded(seen.recv()).await, Some(PART * PARTS));
}

#[tokio::test]
async fn with_expect_the_body_is_sent_when_the_service_asks_for_it() {
    for asks in [true, false] {
        let (told, mut seen) = mpsc::unbounded_channel();
        let (upstream, _) = service(move |mut connection, _| {
            let told = told.clone();
            async move {
                let (request, mut responder) = next(&mut connection).await;
                let mut body = request.into_body();
                tokio::spawn(async move {
                    if asks {
                        let go_on = Response::builder().status(StatusCode::CONTINUE);
                        responder.send_informational(go_on.body(()).unwrap()).unwrap();
                        let data = body.data().await.unwrap().unwrap();
                        told.send(data).unwrap();
                        ok(&mut responder, "ok");
                    } else {
                        let no = Response::builder().status(StatusCode::EXPECTATION_FAILED);
                        responder.send_response(no.body(()).unwrap(), true).unwrap();
                    }
                });
                finish(connection).await;
            }
        })
        .await;
        let (feeder, body) = fed();
        feeder.send(data("pay")).unwrap();
        let mut request = post(OutBody::streaming(body));
        request.headers_mut().insert("expect", "100-continue".parse().unwrap());
        let answer = bounded(upstream.send(request, Reuse::Unkeyed)).await.unwrap();
        if asks {
            assert_eq!(answer.status(), StatusCode::OK);
            assert_eq!(bounded(seen.recv()).await.unwrap(), "pay");
        } else {
            assert_eq!(answer.status(), StatusCode::EXPECTATION_FAILED);
        }
    }
}

#[tokio::test]
async fn a_peer_that_does_not_speak_http_2_gets_no_request() {
    for greeting in ["HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n", ""] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let upstream = upstream_at(listener.local_addr().unwrap());
        let serving = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut read = Vec::new();
            let mut part = [0; 1024];
            let length = stream.read(&mut part).await.unwrap();
            read.extend_from_slice(&part[..length]);
            stream.write_all(greeting.as_bytes()).await.unwrap();
            let _ = stream.shutdown().await;
            while let Ok(length @ 1..) = stream.read(&mut part).await {
                read.extend_from_slice(&part[..length]);
            }
            read
        });
        let sent = bounded(upstream.send(pay(), Reuse::Keyed)).await;
        let Err(SendError::NeverSent { reason: NeverSent::NotHttp2 { .. } }) = sent else {
            panic!("{greeting:?}: {sent:?}");
        };
        drop(upstream);
        let read = bounded(serving).await.unwrap();
        assert!(!has_frame(&read, 1), "a head went out");
    }
}

#[tokio::test]
async fn a_peer_that_says_nothing_gets_no_request_and_costs_the_connect_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let upstream = upstream_at(listener.local_addr().unwrap());
    let silent = tokio::spawn(async move { listener.accept().await.unwrap() });
    let sent = bounded(upstream.send(pay(), Reuse::Keyed)).await;
    let Err(SendError::NeverSent { reason: NeverSent::ConnectTimeout { .. } }) = sent else {
        panic!("{sent:?}");
    };
    drop(silent.await);
}
