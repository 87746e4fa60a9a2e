//! One attempt of a client, on a connection of its own.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{
    HeaderMap, Request, StatusCode,
    header::{CONTENT_TYPE, HOST, RETRY_AFTER},
};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};
use tokio_util::task::AbortOnDropHandle;

use super::order::Order;

/// Even the patient give up some day.
const PATIENCE: Duration = Duration::from_secs(10);

/// No answer of the demo is larger.
const LIMIT: usize = 64 * 1024;

type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// How a client makes an attempt.
#[derive(Clone, Copy, Debug)]
pub(super) enum Manner {
    /// It waits for the answer.
    Patient,
    /// It sends all and hangs up when there is no answer in this time.
    GivesUpAfter(Duration),
    /// It hangs up in the middle of its own request.
    SendsHalf,
}

/// A complete answer.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Answer {
    /// A field, where it is text.
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// When to come back.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        let seconds = self.field(RETRY_AFTER.as_str())?.parse().ok()?;
        Some(Duration::from_secs(seconds))
    }

    /// The name of the problem, such as `in-flight`, if it is one of hapax.
    pub(super) fn problem(&self) -> Option<String> {
        let json: serde_json::Value = serde_json::from_slice(&self.body).ok()?;
        json.get("type")?.as_str()?.strip_prefix("urn:hapax:problem:").map(str::to_owned)
    }
}

/// What a client knows of its attempt.
#[derive(Debug)]
pub(super) struct Attempt {
    /// Whether the whole request was sent, on a connection that the gateway had accepted.
    pub(super) complete: bool,
    /// `None`: there was no complete answer, and what came of it is anybody's guess.
    pub(super) answer: Option<Answer>,
}

/// Makes an attempt.
pub(super) async fn pay(gateway: SocketAddr, key: &str, order: &Order, manner: Manner) -> Attempt {
    let patience = match manner {
        Manner::Patient => PATIENCE,
        Manner::GivesUpAfter(patience) => patience,
        Manner::SendsHalf => {
            send_half(gateway, key, order).await.ok();
            return Attempt { complete: false, answer: None };
        }
    };
    let sent = Arc::new(AtomicBool::new(false));
    let exchange = exchange(gateway, key, order, Arc::clone(&sent));
    let answer = timeout(patience, exchange).await.ok().and_then(Result::ok);
    Attempt { complete: sent.load(Relaxed), answer }
}

/// Asks the service to crash; it does so instead of answering.
pub(super) async fn crash(service: SocketAddr) -> io::Result<()> {
    let mut stream = TcpStream::connect(service).await?;
    let request = format!("POST /crash HTTP/1.1\r\nHost: {service}\r\nContent-Length: 0\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    // The end of the connection is the answer, however it comes.
    stream.read_u8().await.ok();
    Ok(())
}

async fn exchange(
    gateway: SocketAddr,
    key: &str,
    order: &Order,
    sent: Arc<AtomicBool>,
) -> Result<Answer, AnyError> {
    let stream = TcpStream::connect(gateway).await?;
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await?;
    let _connection = AbortOnDropHandle::new(tokio::spawn(connection));
    // The body is one frame; the connection writes it as soon as it has taken it.
    let body = Full::new(Bytes::from(serde_json::to_vec(order)?)).map_frame(move |frame| {
        sent.store(true, Relaxed);
        frame
    });
    let request = Request::post("/payments")
        .header(HOST, gateway.to_string())
        .header(CONTENT_TYPE, "application/json")
        .header("idempotency-key", format!("\"{key}\""))
        .body(body)?;
    let (head, body) = sender.send_request(request).await?.into_parts();
    #[expect(clippy::disallowed_methods, reason = "limited, and the caller bounds the time")]
    let body = Limited::new(body, LIMIT).collect().await?.to_bytes();
    Ok(Answer { status: head.status, headers: head.headers, body })
}

async fn send_half(gateway: SocketAddr, key: &str, order: &Order) -> Result<(), AnyError> {
    let body = serde_json::to_string(order)?;
    let half = body.get(..body.len() / 2).unwrap_or_default();
    let request = format!(
        "POST /payments HTTP/1.1\r\nHost: {gateway}\r\nContent-Type: application/json\r\n\
         Idempotency-Key: \"{key}\"\r\nContent-Length: {}\r\n\r\n{half}",
        body.len()
    );
    let mut stream = TcpStream::connect(gateway).await?;
    stream.write_all(request.as_bytes()).await?;
    Ok(())
}
