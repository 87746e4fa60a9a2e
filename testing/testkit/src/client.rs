//! Requests, one connection each.

use std::{net::SocketAddr, sync::LazyLock, time::Duration};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Method, request};
use http_body_util::{BodyExt, Full, combinators::BoxBody};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    runtime::Runtime,
    task::JoinHandle,
    time::timeout,
};
use uuid::Uuid;

use crate::{Answer, Gateway, upstream::raw};

/// Where all clients of a test process run; the tests themselves block.
pub(crate) static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().expect("a runtime")
});

/// No answer takes longer, whatever the gateway does.
pub(crate) const PATIENCE: Duration = Duration::from_secs(40);

/// A key that nobody has used: random, as a client should make it.
pub fn fresh_key() -> String {
    Uuid::new_v4().to_string()
}

/// A request, which can be sent any number of times.
#[derive(Clone, Debug)]
pub struct Request {
    method: Method,
    host: String,
    target: String,
    headers: Vec<(String, String)>,
    body: Bytes,
    chunked: bool,
    trailers: Option<HeaderMap>,
}

impl Request {
    /// A request without a body.
    pub fn new(method: &str, target: &str) -> Self {
        Self {
            method: method.parse().expect("a method"),
            host: "gateway".to_owned(),
            target: target.to_owned(),
            headers: Vec::new(),
            body: Bytes::new(),
            chunked: false,
            trailers: None,
        }
    }

    /// A GET.
    pub fn get(target: &str) -> Self {
        Self::new("GET", target)
    }

    /// A POST of JSON.
    pub fn post(target: &str, json: &str) -> Self {
        Self::new("POST", target).body("application/json", json.to_owned())
    }

    /// A payment under a key.
    pub fn payment(key: &str) -> Self {
        Self::post("/payments", r#"{"amount":1200,"currency":"EUR"}"#).key(key)
    }

    /// With a body.
    #[must_use]
    pub fn body(mut self, media_type: &str, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self.header("content-type", media_type)
    }

    /// With other JSON.
    #[must_use]
    pub fn json(mut self, json: &str) -> Self {
        self.body = Bytes::from(json.to_owned());
        self
    }

    /// To another host.
    #[must_use]
    pub fn host(mut self, host: &str) -> Self {
        host.clone_into(&mut self.host);
        self
    }

    /// To another target.
    #[must_use]
    pub fn to(mut self, target: &str) -> Self {
        target.clone_into(&mut self.target);
        self
    }

    /// With another method.
    #[must_use]
    pub fn method(mut self, method: &str) -> Self {
        self.method = method.parse().expect("a method");
        self
    }

    /// With a field more.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With one field less.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(field, _)| field != name);
        self
    }

    /// With a key, as a quoted string.
    #[must_use]
    pub fn key(self, key: &str) -> Self {
        self.without("idempotency-key").header("idempotency-key", &format!("\"{key}\""))
    }

    /// With a key, without quotes.
    #[must_use]
    pub fn bare_key(self, key: &str) -> Self {
        self.without("idempotency-key").header("idempotency-key", key)
    }

    /// Tells the upstream what to do with it (see `ledger`); no part of the intent.
    #[must_use]
    pub fn act(self, script: &str) -> Self {
        self.without("x-do").header("x-do", script)
    }

    /// Has the upstream answer with exactly these bytes and close the connection.
    #[must_use]
    pub fn answered_raw(self, before: &str, bytes: &[u8]) -> Self {
        self.act(&format!("{before}{}", raw(bytes)))
    }

    /// Without a declared length.
    #[must_use]
    pub fn chunked(mut self) -> Self {
        self.chunked = true;
        self
    }

    /// With a trailer field.
    #[must_use]
    pub fn trailer(mut self, name: &'static str, value: &'static str) -> Self {
        let mut trailers = HeaderMap::new();
        trailers.insert(name, value.parse().expect("a value"));
        self.trailers = Some(trailers);
        self.chunked().header("trailer", name)
    }

    /// The request's text for a raw connection, framing included.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut text =
            format!("{} {} HTTP/1.1\r\nhost: {}\r\n", self.method, self.target, self.host);
        for (name, value) in &self.headers {
            text += &format!("{name}: {value}\r\n");
        }
        text += "connection: close\r\n";
        let (length, body) = (self.body.len(), &self.body[..]);
        if self.chunked {
            text += &format!("transfer-encoding: chunked\r\n\r\n{length:x}\r\n");
            return [text.as_bytes(), body, b"\r\n0\r\n\r\n"].concat();
        }
        text += &format!("content-length: {length}\r\n\r\n");
        [text.as_bytes(), body].concat()
    }

    fn head(&self, builder: request::Builder) -> request::Builder {
        let fields = self.headers.iter();
        fields.fold(builder.method(self.method.clone()), |builder, (name, value)| {
            builder.header(name, value)
        })
    }

    fn to_body(&self) -> BoxBody<Bytes, std::convert::Infallible> {
        let (data, trailers) = (Some(self.body.clone()), self.trailers.clone());
        if self.chunked {
            Undeclared { data, trailers }.boxed()
        } else {
            Full::new(self.body.clone()).boxed()
        }
    }
}

impl Gateway {
    /// Sends a request and waits for the answer.
    ///
    /// # Panics
    /// When there is none.
    #[track_caller]
    pub fn send(&self, request: &Request) -> Answer {
        self.start(request).answer()
    }

    /// Sends a request, and returns while it is under way.
    pub fn start(&self, request: &Request) -> Pending {
        start(self.address(), request)
    }

    /// Sends a request over HTTP/2 with prior knowledge and waits for the answer.
    #[track_caller]
    pub fn send_http_2(&self, request: &Request) -> Answer {
        let (to, request) = (self.address(), request.clone());
        let sending = RUNTIME.spawn(async move {
            timeout(PATIENCE, http_2(to, &request))
                .await
                .unwrap_or_else(|_| Err("no answer".into()))
        });
        Pending(sending).answer()
    }

    /// Asks the operator listener.
    #[track_caller]
    pub fn operator(&self, path: &str) -> Answer {
        start(self.operator_address(), &Request::get(path)).answer()
    }
}

/// Sends the same request so many times at once, spread over the gateways, and returns the answers.
#[track_caller]
pub fn copies(count: usize, gateways: &[&Gateway], request: &Request) -> Vec<Answer> {
    let started: Vec<_> =
        gateways.iter().cycle().take(count).map(|gateway| gateway.start(request)).collect();
    started.into_iter().map(Pending::answer).collect()
}

/// Sends a request to any address, and returns while it is under way.
pub fn start(to: SocketAddr, request: &Request) -> Pending {
    let request = request.clone();
    Pending(RUNTIME.spawn(async move {
        timeout(PATIENCE, http_1(to, &request)).await.unwrap_or_else(|_| Err("no answer".into()))
    }))
}

/// A request under way. Dropped, it goes on; only [`Pending::hang_up`] ends it.
pub struct Pending(JoinHandle<Result<Answer, BoxError>>);

pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl Pending {
    pub(crate) const fn new(sending: JoinHandle<Result<Answer, BoxError>>) -> Self {
        Self(sending)
    }

    /// Waits for the answer.
    ///
    /// # Panics
    /// When there is none.
    #[track_caller]
    pub fn answer(self) -> Answer {
        self.result().unwrap_or_else(|error| panic!("no answer: {error}"))
    }

    /// Waits for the answer, or for what became of the connection.
    ///
    /// # Errors
    /// What broke.
    pub fn result(self) -> Result<Answer, String> {
        RUNTIME.block_on(self.0).expect("the client does not panic").map_err(|e| e.to_string())
    }

    /// As [`result`](Self::result), for those who must not block.
    ///
    /// # Errors
    /// What broke.
    pub async fn over(self) -> Result<Answer, String> {
        self.0.await.expect("the client does not panic").map_err(|e| e.to_string())
    }

    /// Whether the answer is there.
    pub fn is_done(&self) -> bool {
        self.0.is_finished()
    }

    /// Closes the connection at once.
    pub fn hang_up(self) {
        self.0.abort();
        let _ = RUNTIME.block_on(self.0);
    }
}

async fn http_1(to: SocketAddr, request: &Request) -> Result<Answer, BoxError> {
    let stream = TcpStream::connect(to).await?;
    stream.set_nodelay(true)?;
    http_1_on(stream, request).await
}

/// Over a stream that is there.
pub(crate) async fn http_1_on<S>(stream: S, request: &Request) -> Result<Answer, BoxError>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let head =
        request.head(http::Request::builder()).uri(&request.target).header("host", &request.host);
    // Polled by the same task, so that ending it closes the connection.
    let answering = async {
        let response = sender.send_request(head.body(request.to_body())?).await?;
        Ok(received(response).await)
    };
    tokio::pin!(answering);
    let mut connection = std::pin::pin!(connection);
    let mut open = true;
    loop {
        tokio::select! {
            answer = &mut answering => return answer,
            _ = connection.as_mut(), if open => open = false,
        }
    }
}

async fn http_2(to: SocketAddr, request: &Request) -> Result<Answer, BoxError> {
    let stream = TcpStream::connect(to).await?;
    http_2_on(stream, request, "http").await
}

/// Over a stream that is there.
pub(crate) async fn http_2_on<S>(
    stream: S,
    request: &Request,
    scheme: &str,
) -> Result<Answer, BoxError>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let io = TokioIo::new(stream);
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await?;
    let driver = tokio::spawn(connection);
    let target = format!("{scheme}://{}{}", request.host, request.target);
    let head = request.head(http::Request::builder()).uri(target);
    let response = sender.send_request(head.body(request.to_body())?).await?;
    let answer = received(response).await;
    driver.abort();
    Ok(answer)
}

async fn received(response: http::Response<Incoming>) -> Answer {
    let (head, mut body) = response.into_parts();
    let mut answer = Answer {
        status: head.status.as_u16(),
        headers: fields(&head.headers),
        body: Bytes::new(),
        trailers: Vec::new(),
        complete: true,
    };
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.frame().await {
        match frame.map(Frame::into_data) {
            Ok(Ok(data)) => bytes.extend_from_slice(&data),
            Ok(Err(frame)) => answer.trailers = fields(&frame.into_trailers().unwrap_or_default()),
            Err(_) => {
                answer.complete = false;
                break;
            }
        }
    }
    answer.body = bytes.freeze();
    answer
}

fn fields(headers: &HeaderMap) -> Vec<(String, Vec<u8>)> {
    headers.iter().map(|(name, value)| (name.to_string(), value.as_bytes().to_vec())).collect()
}

/// A body whose length is not declared.
struct Undeclared {
    data: Option<Bytes>,
    trailers: Option<HeaderMap>,
}

impl Body for Undeclared {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let data = self.data.take().map(Frame::data);
        std::task::Poll::Ready(data.or_else(|| self.trailers.take().map(Frame::trailers)).map(Ok))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}
