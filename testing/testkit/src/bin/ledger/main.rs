//! The service behind the gateway in the end-to-end tests.
//!
//! It writes every arrival to `arrivals.jsonl` and syncs it before it acts, and every effect to
//! `effects.jsonl`: these two files are the ground truth of the tests. What it then does is said by
//! the request itself, in the field `X-Do` (see [`script`]): it is no part of any intent, so a test
//! can send the same request again and have the service behave differently. A request that says
//! nothing gets what the file `scripts/NAME` says, whose name is its path.
//!
//! What it does with a repeated identity is its [`mode`]; in most it can be asked what became of an
//! effect, see [`ledger`]. What it refuses from now on is in `fences.jsonl`, so that it refuses it
//! after a restart too.
//!
//! `ledger --dir DIR --listen ADDRESS [--mode MODE] [--certificate FILE --key FILE
//! [--client-ca FILE]]`, in HTTP/1.1 and HTTP/2.
#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test double: whatever it did not expect has to end it, loudly"
)]

mod effects;
mod ledger;
mod mode;
mod script;
mod tls;

use std::{
    convert::Infallible,
    io::{self, Write},
    net::SocketAddr,
    path::PathBuf,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, combinators::BoxBody};
use hyper::{
    body::{Body, Frame, Incoming},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpSocket,
    sync::mpsc,
    time::sleep,
};

use crate::{
    effects::{Effects, Log, Refusal, now},
    mode::Mode,
    script::{BodyKind, Step},
};

/// A body up to this size is kept and written down as text.
const KEPT: usize = 64 * 1024;

/// How much a streamed answer sends at once.
const PIECE: usize = 64 * 1024;

type Answer = Response<BoxBody<Bytes, io::Error>>;

#[tokio::main]
async fn main() {
    let mut dir = PathBuf::from(".");
    let mut listen: SocketAddr = "127.0.0.1:0".parse().expect("an address");
    let mut mode = Mode::Plain;
    let (mut certificate, mut key, mut client_ca) = (None, None, None);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--dir" => dir = args.next().expect("--dir DIR").into(),
            "--listen" => listen = args.next().expect("--listen ADDRESS").parse().expect("address"),
            "--mode" => mode = args.next().expect("--mode MODE").parse().expect("a mode"),
            "--certificate" => certificate = args.next().map(PathBuf::from),
            "--key" => key = args.next().map(PathBuf::from),
            "--client-ca" => client_ca = args.next().map(PathBuf::from),
            other => panic!("unknown argument {other}"),
        }
    }
    let service = Arc::new(Service::open(dir, mode));
    // Reusing the address lets the harness keep the port reserved while this process is dead.
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_reuseaddr(true).expect("SO_REUSEADDR");
    socket.bind(listen).expect("the address is free");
    let listener = socket.listen(1024).expect("listening");
    let tls = certificate
        .zip(key)
        .map(|(certificate, key)| tls::acceptor(&certificate, &key, client_ca.as_deref()));
    println!("upstream on {}", listener.local_addr().expect("an address"));

    loop {
        let (stream, _) = listener.accept().await.expect("a connection");
        stream.set_nodelay(true).expect("TCP_NODELAY");
        let stream = stream.into_std().expect("a stream");
        // A second handle for what hyper would never write: cuts and raw bytes.
        let wire = Wire(Arc::new(stream.try_clone().expect("a handle")));
        let stream = tokio::net::TcpStream::from_std(stream).expect("a stream");
        let (service, tls) = (Arc::clone(&service), tls.clone());
        tokio::spawn(async move {
            match tls {
                None => service.serve(stream, wire, None).await,
                Some(tls) => {
                    // A client that we do not trust is the client's business, too.
                    let Ok(stream) = tls.accept(stream).await else { return };
                    let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
                    let shown = shown.map(|certificate| hex(&Sha256::digest(certificate)));
                    service.serve(stream, wire, shown).await;
                }
            }
        });
    }
}

/// The connection below hyper.
#[derive(Clone)]
struct Wire(Arc<std::net::TcpStream>);

impl Wire {
    async fn write(&self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            match (&*self.0).write(bytes) {
                Ok(written) => bytes = bytes.split_at(written).1,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    sleep(Duration::from_millis(1)).await;
                }
                Err(_) => return,
            }
        }
    }

    fn close(&self) {
        let _ = self.0.shutdown(std::net::Shutdown::Both);
    }
}

/// The connection is closed without the rest of an answer.
#[derive(Debug)]
struct Closed;

impl std::fmt::Display for Closed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("closed on purpose")
    }
}

impl std::error::Error for Closed {}

/// The certificate that the client showed: its SHA-256.
#[derive(Clone)]
struct Shown(Option<String>);

struct Service {
    dir: PathBuf,
    arrivals: Mutex<Log>,
    effects: Mutex<Effects>,
}

/// What arrived.
struct Arrival {
    number: u64,
    head: http::request::Parts,
    text: Option<String>,
    body: Bytes,
}

impl Arrival {
    fn field(&self, name: &str) -> Option<String> {
        let value = self.head.headers.get(name)?;
        Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
    }

    /// The identity it carries, as it was sent.
    fn key(&self) -> Option<String> {
        self.field("idempotency-key")
    }

    fn attempt(&self) -> Option<u64> {
        self.field("hapax-attempt")?.parse().ok()
    }
}

impl Service {
    fn open(dir: PathBuf, mode: Mode) -> Self {
        for name in ["gates", "scripts"] {
            std::fs::create_dir_all(dir.join(name)).expect("a directory");
        }
        Self {
            arrivals: Mutex::new(Log::open(&dir.join("arrivals.jsonl"))),
            effects: Mutex::new(Effects::open(&dir, mode)),
            dir,
        }
    }

    async fn serve<S>(self: Arc<Self>, stream: S, wire: Wire, shown: Option<String>)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let serving = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(Shown(shown.clone()));
            Arc::clone(&self).answer(request, wire.clone())
        });
        // A client that went away is the client's business.
        let _ = auto::Builder::new(TokioExecutor::new())
            .serve_connection_with_upgrades(TokioIo::new(stream), serving)
            .await;
    }

    async fn answer(
        self: Arc<Self>,
        mut request: Request<Incoming>,
        wire: Wire,
    ) -> Result<Answer, Closed> {
        if let Some(answer) = self.asked(&request) {
            return Ok(answer);
        }
        let steps = self.steps(&request);
        if steps.iter().any(|step| matches!(step, Step::Upgrade)) {
            return Ok(self.upgrade(&mut request));
        }
        let (head, body) = request.into_parts();
        if steps.iter().any(|step| matches!(step, Step::Body(BodyKind::Duplex))) {
            self.arrived(head, &Received::default());
            return Ok(Response::new(body.map_err(io::Error::other).boxed()));
        }
        if steps.iter().any(|step| matches!(step, Step::Early)) {
            // The body stays unread, whatever becomes of it.
            let arrival = self.arrived(head, &Received::default());
            let answer = self.act(arrival, steps, &wire).await;
            drop(body);
            return answer;
        }
        let echo = steps.iter().any(|step| matches!(step, Step::Body(BodyKind::Echo)));
        let received = Received::read(body, if echo { usize::MAX } else { KEPT }).await;
        let arrival = self.arrived(head, &received);
        if !received.complete {
            return Err(Closed);
        }
        // As a real service it goes on when its client has gone.
        let acting = async move { self.act(arrival, steps, &wire).await };
        tokio::spawn(acting).await.unwrap_or(Err(Closed))
    }

    /// Agrees to the protocol that was asked for: it is an echo, whatever its name.
    fn upgrade(&self, request: &mut Request<Incoming>) -> Answer {
        let tunnel = hyper::upgrade::on(&mut *request);
        tokio::spawn(async move {
            let tunnel = TokioIo::new(tunnel.await.expect("a tunnel"));
            let (mut from, mut to) = tokio::io::split(tunnel);
            let _ = tokio::io::copy(&mut from, &mut to).await;
            let _ = tokio::io::AsyncWriteExt::shutdown(&mut to).await;
        });
        let protocol = request.headers().get("upgrade").expect("a protocol").clone();
        let head = request.method().clone();
        let mut arrived = Request::new(());
        *arrived.method_mut() = head;
        *arrived.uri_mut() = request.uri().clone();
        *arrived.headers_mut() = request.headers().clone();
        self.arrived(arrived.into_parts().0, &Received { complete: true, ..Received::default() });
        Response::builder()
            .status(StatusCode::SWITCHING_PROTOCOLS)
            .header("connection", "upgrade")
            .header("upgrade", protocol)
            .header("x-served-by", "ledger")
            .body(full(""))
            .expect("an answer")
    }

    /// What the request asks for, or else the file `scripts/NAME` of its path `/NAME`.
    fn steps(&self, request: &Request<Incoming>) -> Vec<Step> {
        let name = request.uri().path().trim_matches('/').replace('/', "-");
        let file = std::fs::read_to_string(self.dir.join("scripts").join(name)).ok();
        let scripted = file.and_then(|script| HeaderValue::from_str(&script).ok());
        script::parse(request.headers().get("x-do").or(scripted.as_ref()))
    }

    fn arrived(&self, head: http::request::Parts, received: &Received) -> Arrival {
        let body = Bytes::from(received.kept.clone());
        let text = String::from_utf8(received.kept.clone())
            .ok()
            .filter(|_| received.length <= KEPT as u64);
        let mut log = self.arrivals.lock();
        let number = log.next();
        log.append(&json!({
            "n": number,
            "at": now(),
            "method": head.method.as_str(),
            "target": head.uri.to_string(),
            "headers": fields(&head.headers),
            "trailers": fields(&received.trailers),
            "length": received.length,
            "sha256": received.digest,
            "text": text,
            "complete": received.complete,
            "version": format!("{:?}", head.version),
            "certificate": head.extensions.get::<Shown>().and_then(|shown| shown.0.clone()),
        }));
        drop(log);
        let arrival = Arrival { number, head, text, body };
        self.effects.lock().notice(&arrival);
        arrival
    }

    async fn act(&self, arrival: Arrival, steps: Vec<Step>, wire: &Wire) -> Result<Answer, Closed> {
        let says_its_effect = steps.iter().any(Step::decides);
        let mut answer = Response::builder();
        let mut status = None;
        let mut body = None;
        let mut effect = None;
        for step in steps {
            match step {
                Step::Early | Step::Upgrade => {}
                Step::Gate(name) => self.wait_for(&name).await,
                Step::Sleep(time) => sleep(time).await,
                Step::Effect => match self.effect(&arrival) {
                    Ok(made) => effect = Some(made),
                    Err(why) => return Ok(ledger::refused(why)),
                },
                Step::Header(name, value) => answer = answer.header(name, value),
                Step::Status(code) => status = Some(code),
                Step::Body(kind) => body = Some(kind),
                Step::Raw(bytes) => {
                    wire.write(&bytes).await;
                    wire.close();
                    return Err(Closed);
                }
                Step::Cut => {
                    wire.close();
                    return Err(Closed);
                }
                Step::Die => std::process::exit(9),
            }
        }
        if !says_its_effect && acts(&arrival.head.method) {
            match self.effect(&arrival) {
                Ok(made) => effect = Some(made),
                Err(why) => return Ok(ledger::refused(why)),
            }
        }
        let default = if effect.is_some() { StatusCode::CREATED } else { StatusCode::OK };
        let status = status.map_or(default, |code| StatusCode::from_u16(code).expect("a status"));
        answer = answer.status(status);
        let body = match body {
            Some(kind) => {
                answer = kind.headers(&arrival, answer);
                self.body(kind, &arrival)
            }
            None => {
                answer = noise(&arrival, effect, answer);
                full(own_text(&arrival, effect))
            }
        };
        Ok(answer.body(body).expect("an answer"))
    }

    fn effect(&self, arrival: &Arrival) -> Result<u64, Refusal> {
        self.effects.lock().make(arrival)
    }

    /// Waits until the test opens the gate.
    async fn wait_for(&self, gate: &str) {
        let gate = self.dir.join("gates").join(gate);
        while !gate.exists() {
            sleep(Duration::from_millis(2)).await;
        }
    }

    fn body(&self, kind: BodyKind, arrival: &Arrival) -> BoxBody<Bytes, io::Error> {
        match kind {
            BodyKind::Empty => full(""),
            BodyKind::Text(text) => full(text),
            BodyKind::Echo => full(arrival.body.clone()),
            BodyKind::Binary => full(binary()),
            BodyKind::Sized(length) | BodyKind::Chunked(length) => {
                self.stream(arrival, async move |to| {
                    let mut sent = 0;
                    while sent < length {
                        let piece = PIECE.min(length - sent);
                        to.send(pattern(sent, piece)).await?;
                        sent += piece;
                    }
                    Some(())
                })
            }
            BodyKind::Endless => self.stream(arrival, async move |to| {
                let mut sent = 0;
                loop {
                    to.send(pattern(sent, PIECE)).await?;
                    sent += PIECE;
                }
            }),
            BodyKind::Events => self.stream(arrival, async move |to| {
                for number in 1_u64.. {
                    to.send(Bytes::from(format!("id: {number}\ndata: event {number}\n\n"))).await?;
                    sleep(Duration::from_millis(20)).await;
                }
                Some(())
            }),
            BodyKind::Trailers => self.stream(arrival, async move |to| {
                to.send(Bytes::from_static(b"with trailers")).await?;
                let mut trailers = HeaderMap::new();
                trailers.insert("x-sum", HeaderValue::from_static("42"));
                to.0.send(Ok(Frame::trailers(trailers))).await.ok()
            }),
            BodyKind::Duplex => full(""),
        }
    }

    /// A body that is written as it is read; when its reader goes away, `gone.jsonl` says so.
    fn stream<F>(
        &self,
        arrival: &Arrival,
        write: impl FnOnce(Sender) -> F + Send + 'static,
    ) -> BoxBody<Bytes, io::Error>
    where
        F: Future<Output = Option<()>> + Send,
    {
        let (sender, receiver) = mpsc::channel(2);
        let (number, gone) = (arrival.number, self.dir.join("gone.jsonl"));
        tokio::spawn(async move {
            if write(Sender(sender)).await.is_none() {
                Log::open(&gone).append(&json!({ "arrival": number }));
            }
        });
        BodyExt::boxed(FromChannel(receiver))
    }
}

/// Whether a method is meant to have an effect.
fn acts(method: &Method) -> bool {
    [Method::POST, Method::PATCH, Method::PUT, Method::DELETE].contains(method)
}

/// The answer that names the effect, so that an answer made twice differs from one given twice.
fn own_text(arrival: &Arrival, effect: Option<u64>) -> String {
    let sent: Value =
        arrival.text.as_deref().and_then(|t| serde_json::from_str(t).ok()).unwrap_or_default();
    match effect {
        Some(effect) => {
            json!({ "id": format!("pay_{effect}"), "amount": sent["amount"] }).to_string()
        }
        None => json!({ "arrival": arrival.number }).to_string(),
    }
}

/// Fields that tell one exchange from another; most of them must never be replayed.
fn noise(
    arrival: &Arrival,
    effect: Option<u64>,
    answer: http::response::Builder,
) -> http::response::Builder {
    let n = arrival.number;
    let answer = answer
        .header("content-type", "application/json")
        .header("set-cookie", format!("session=secret-{n}; HttpOnly"))
        .header("x-request-id", format!("request-{n}"))
        .header("ratelimit-remaining", 1000_u64.saturating_sub(n).to_string())
        .header("x-served-by", "ledger");
    match effect {
        Some(effect) => answer
            .header("location", format!("/payments/pay_{effect}"))
            .header("etag", format!("\"{effect}\"")),
        None => answer,
    }
}

fn fields(headers: &HeaderMap) -> Vec<(&str, String)> {
    headers
        .iter()
        .map(|(name, value)| {
            (name.as_str(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        })
        .collect()
}

/// Every byte there is, three times.
fn binary() -> Vec<u8> {
    (0..3).flat_map(|_| 0..=255).collect()
}

/// The bytes of a long body from an offset on.
fn pattern(from: usize, length: usize) -> Bytes {
    (from..from + length).map(|at| b"0123456789abcdef"[(at / 7 + at) % 16]).collect()
}

fn full(bytes: impl Into<Bytes>) -> BoxBody<Bytes, io::Error> {
    Full::new(bytes.into()).map_err(|never: Infallible| match never {}).boxed()
}

/// A request's body: its digest, and its start.
#[derive(Default)]
struct Received {
    kept: Vec<u8>,
    length: u64,
    digest: String,
    trailers: HeaderMap,
    complete: bool,
}

impl Received {
    async fn read(mut body: Incoming, keep: usize) -> Self {
        let mut received = Self { complete: true, ..Self::default() };
        let mut digest = Sha256::new();
        while let Some(frame) = body.frame().await {
            match frame.map(Frame::into_data) {
                Ok(Ok(data)) => {
                    digest.update(&data);
                    received.length += data.len() as u64;
                    if received.kept.len() < keep {
                        received.kept.extend_from_slice(&data);
                    }
                }
                Ok(Err(frame)) => received.trailers = frame.into_trailers().unwrap_or_default(),
                Err(_) => {
                    received.complete = false;
                    break;
                }
            }
        }
        received.digest = hex(&digest.finalize());
        received
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

struct Sender(mpsc::Sender<Result<Frame<Bytes>, io::Error>>);

impl Sender {
    async fn send(&self, bytes: Bytes) -> Option<()> {
        self.0.send(Ok(Frame::data(bytes))).await.ok()
    }
}

struct FromChannel(mpsc::Receiver<Result<Frame<Bytes>, io::Error>>);

impl Body for FromChannel {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        self.0.poll_recv(cx)
    }
}
