//! What can only be staged from inside: a connection that ends between "ready" and "written".

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::net::TcpListener;
use tokio::time::timeout;

use super::*;

const BOUND: Duration = Duration::from_secs(10);

/// An upstream that answers every connection's first request, and what it read.
async fn answering() -> (Upstream, tokio::task::JoinHandle<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let arrived = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut read = vec![0; 1024];
        let length = stream.read(&mut read).await.unwrap_or_default();
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
        read.truncate(length);
        read
    });
    let base = format!("http://{address}").parse().unwrap();
    (Upstream::new(&base, UpstreamConfig::default()).unwrap(), arrived)
}

fn post(body: OutBody) -> Request<OutBody> {
    let mut request = Request::new(body);
    *request.method_mut() = http::Method::POST;
    request.headers_mut().insert("host", HeaderValue::from_static("api.example"));
    request
}

/// A ready connection in the pool whose driver the test holds in its hand.
async fn doomed(upstream: &Upstream) -> tokio::task::JoinHandle<()> {
    let (ours, theirs) = duplex(1024);
    let (mut connection, driver) = http1::handshake(TokioIo::new(ours)).await.unwrap();
    let driver = tokio::spawn(async move {
        let _theirs = theirs;
        let _ = driver.await;
    });
    assert!(connection.ready().await.is_ok());
    Lease::new(Http1::driven_here(connection), &upstream.pool, None).give_back();
    driver
}

#[tokio::test]
async fn a_request_handed_back_by_an_idle_connection_goes_out_once_on_a_fresh_one() {
    for streaming in [false, true] {
        let (upstream, arrived) = answering().await;
        let driver = doomed(&upstream).await;
        let content = http_body_util::Full::new(Bytes::from_static(b"pay"));
        let body =
            if streaming { OutBody::streaming(content) } else { OutBody::full("pay".into()) };

        assert_eq!(upstream.pool.len(), 1);
        let mut sending = Box::pin(upstream.send(post(body), Reuse::Keyed));
        // Queued on the idle connection, whose driver has not run yet; now it never will.
        assert!(
            std::future::poll_fn(|cx| {
                std::task::Poll::Ready(sending.as_mut().poll(cx).is_pending())
            })
            .await
        );
        assert_eq!(upstream.pool.len(), 0);
        driver.abort();

        let answer = timeout(BOUND, sending).await.unwrap().unwrap();
        let content = timeout(BOUND, answer.into_body().collect()).await.unwrap().unwrap();
        assert_eq!(content.to_bytes(), "ok");
        let request = timeout(BOUND, arrived).await.unwrap().unwrap();
        assert!(request.ends_with(b"\r\n\r\npay"), "{}", request.escape_ascii());
    }
}
