//! The service behind the gateway, over connections of our own.
//!
//! One question decides what a failed attempt means: may a byte of the request have gone out? Only
//! the owner of the connection can tell, so there is no client library in between. A request that
//! was never serialised is handed back and is *never sent*, and so is one that an HTTP/2 service
//! says it refused; everything else is *unknown*, and nothing here lets a request be processed twice.

mod answer;
mod body;
mod connection;
mod error;
mod expect;
mod greeted;
mod http_2;
mod origin;
mod pool;
mod request;
mod unread;
mod upload;

use std::{
    fmt,
    future::ready,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use hapax::{
    Sent,
    http::{body::BoxError, headers::lists},
};
use http::{
    HeaderValue, Request, Response, StatusCode, Uri, Version,
    header::{CONNECTION, EXPECT, TRANSFER_ENCODING, UPGRADE},
};
use hyper::body::{Body, Incoming};
use tokio::{
    sync::Mutex,
    time::{Instant, timeout_at},
};
use tokio_util::either::Either;

pub use self::{
    answer::{IncompleteAnswer, UpstreamBody},
    body::{OutBody, OutBodyError},
    error::{BaseError, NeverSent, SendError, Unknown},
};
use self::{
    connection::Http1,
    expect::{Unwanted, Wanted},
    http_2::{Answered, Slot},
    origin::{Fresh, Origin},
    pool::{Lease, Place, Pool, Taken},
};
use crate::{
    config::Endpoint,
    headers,
    tls::{UpstreamTls, UpstreamTlsConfig},
};

/// How a service is reached.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct UpstreamConfig {
    /// How long name resolution, connecting, TLS and the beginning of HTTP/2 may take together; 2 s
    /// by default.
    pub connect_timeout: Duration,
    /// How many idle connections are kept, each for a few seconds; 512 by default. Busy ones are not
    /// counted.
    pub max_idle: usize,
    /// How many connections there may be at once, at least 1; 10,000 by default. A request that
    /// needs another waits for one to end, within the connect timeout.
    pub max_connections: usize,
    /// Which version of HTTP is spoken; by default it is negotiated.
    pub protocol: Protocol,
    /// How an `https` service is checked, and what it is shown; by default the system's
    /// authorities, and nothing.
    pub tls: UpstreamTlsConfig,
}

impl Default for UpstreamConfig {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(2),
            max_idle: 512,
            max_connections: 10_000,
            protocol: Protocol::default(),
            tls: UpstreamTlsConfig::default(),
        }
    }
}

/// Which version of HTTP a service is spoken to in.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Protocol {
    /// Over TLS whichever the service prefers (ALPN), HTTP/1.1 without TLS.
    #[default]
    Negotiated,
    /// HTTP/1.1.
    Http1,
    /// HTTP/2 without negotiation: `h2c` with prior knowledge where there is no TLS (RFC 9113,
    /// section 3.3).
    Http2,
}

/// For which kind of request an idle connection is looked for: how old it may be.
///
/// Many servers close idle connections after 2 to 5 s. A request that meets that close on its way
/// may have been read or not: its outcome is unknown.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Reuse {
    /// An unknown outcome leaves a record to be resolved: only connections idle for less than 1 s.
    Keyed,
    /// An unknown outcome is a 502 to the client: idle for less than 4 s.
    Unkeyed,
}

impl Reuse {
    /// The longest idle time of a connection that may be used.
    pub const fn max_idle(self) -> Duration {
        match self {
            Self::Keyed => Duration::from_secs(1),
            Self::Unkeyed => Duration::from_secs(4),
        }
    }
}

/// A service, and the connections to it. Clones share them.
#[derive(Clone)]
pub struct Upstream {
    origin: Arc<Origin>,
    config: Arc<UpstreamConfig>,
    pool: Arc<Pool>,
    /// Held while a connection is made that may be one for many requests.
    connecting: Arc<Mutex<()>>,
    /// Whether the newest connection spoke HTTP/1.1, so that each request needs its own.
    speaks_http_1: Arc<AtomicBool>,
}

impl Upstream {
    /// A service at `base`, which is `http://host` or `https://host`, with a port or without, and
    /// nothing more: the request's path goes through as it came, so there is no prefix to put
    /// before it.
    ///
    /// # Errors
    /// [`BaseError`] names what else the address holds, or which certificate cannot be used.
    pub fn new(base: &Uri, config: UpstreamConfig) -> Result<Self, BaseError> {
        let origin = Arc::new(Origin::parse(base, &config)?);
        let pool = Arc::new(Pool::new(config.max_idle, config.max_connections));
        let speaks_http_1 = Arc::new(AtomicBool::new(!origin.may_speak_http_2()));
        let config = Arc::new(config);
        Ok(Self { origin, config, pool, connecting: Arc::default(), speaks_http_1 })
    }

    /// Where hapax itself asks.
    pub(crate) fn asked_at(url: &Endpoint, connect_timeout: Duration) -> Result<Self, BaseError> {
        let tls = url.tls.clone();
        Self::new(&url.origin, UpstreamConfig { connect_timeout, tls, ..UpstreamConfig::default() })
    }

    /// Its TLS, where it has any.
    pub fn tls(&self) -> Option<&UpstreamTls> {
        self.origin.tls()
    }

    /// `http://host:port` or `https://host:port`, as metrics and the log name the service.
    pub fn name(&self) -> &str {
        self.origin.name()
    }

    /// `host:port`, as it identifies the service.
    pub fn authority(&self) -> &str {
        self.origin.authority()
    }

    /// Has one request processed at most once, and returns the answer's head as soon as it is there.
    ///
    /// The request's head must have been through [`headers::to_upstream`]. Its target is sent as it
    /// is, path and query byte for byte; `Host` stays as the client sent it, unless the target named
    /// an authority, which then takes its place (RFC 9112, section 3.2.2; RFC 9113, section 8.3.1).
    /// Body framing is written anew. With `Expect: 100-continue` the body is sent when the service
    /// asks for it, or has not done so for 1 s.
    ///
    /// The answer comes back without the fields of this connection, its framing unambiguous.
    /// Interim (1xx) answers are skipped. Dropping this future, or the answer's body before its
    /// end, closes an HTTP/1 connection and resets the stream of an HTTP/2 connection; there is no
    /// time limit in here but the connect timeout.
    ///
    /// Only a request that was provably not processed is sent again, once: handed back before it
    /// was written, or refused by the service over HTTP/2 with its body in memory.
    ///
    /// # Errors
    /// [`SendError::NeverSent`]: not a byte went out, whatever the request would have done was not
    /// done. [`SendError::Unknown`]: it may have been.
    pub async fn send(
        &self,
        request: Request<OutBody>,
        reuse: Reuse,
    ) -> Result<Response<UpstreamBody>, SendError> {
        self.send_telling(request, reuse, &Sent::default()).await
    }

    /// Sends like [`send`](Self::send), and keeps in `sent` whether a byte may have gone out: a
    /// caller that drops the future then knows on which side of the boundary it was. It begins
    /// before it is waited for.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn send_telling<'a>(
        &'a self,
        request: Request<OutBody>,
        reuse: Reuse,
        sent: &'a Sent,
    ) -> impl Future<Output = Result<Response<UpstreamBody>, SendError>> + use<'a> {
        sent.set(false);
        // Begun before there is a future: that would hold the request, and so would each around it.
        let begun = request::prepare(request, self.authority()).map(|request| {
            match self.pool.take(reuse) {
                Some(taken) => Either::Left(self.attempt(taken, request, sent)),
                None => Either::Right(Box::new(request)),
            }
        });
        async move {
            let request = match begun? {
                Either::Left(attempt) => match attempt.await {
                    // Closed while idle, before it could be written: this was not the first send.
                    Err(Failed::HandedBack { request, .. })
                    | Err(Failed::Refused { again: Some(request), .. }) => request,
                    done => return done.map_err(Failed::into_error),
                },
                Either::Right(request) => request,
            };
            // Boxed, as all that is rare: it would be part of the future of every request.
            let fresh = Box::pin(self.connect(reuse)).await?;
            self.attempt(fresh, *request, sent).await.map_err(Failed::into_error)
        }
    }

    /// Sends a request that asks for an `Upgrade`, over a connection of its own. Where the answer
    /// is 101, its extensions hold the tunnel ([`hyper::upgrade::OnUpgrade`]).
    ///
    /// # Errors
    /// As [`send`](Self::send); [`NeverSent::NoUpgrade`] where the service is spoken to in HTTP/2.
    pub async fn upgrade(
        &self,
        request: Request<OutBody>,
        protocol: HeaderValue,
    ) -> Result<Response<UpstreamBody>, SendError> {
        let mut request = request::prepare(request, self.authority())?;
        request.headers_mut().insert(CONNECTION, HeaderValue::from_static("upgrade"));
        request.headers_mut().insert(UPGRADE, protocol);
        let limit = self.config.connect_timeout;
        let deadline = Instant::now() + limit;
        let place = self.place(deadline).await?;
        let left = deadline.saturating_duration_since(Instant::now());
        let connection = self.origin.connect_http_1(place, left, limit).await?;
        let answer = send_http_1(connection, request, &Sent::default()).await;
        let (answer, connection, wanted) = answer.map_err(Failed::into_error)?;
        if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Ok(self.accept_http_1(answer, connection, wanted)?);
        }
        let (mut head, body) = answer.into_parts();
        let protocol = head.headers.remove(UPGRADE);
        headers::from_upstream(&mut head.headers, head.status, false);
        head.headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        if let Some(protocol) = protocol {
            head.headers.insert(UPGRADE, protocol);
        }
        Ok(Response::from_parts(head, UpstreamBody::http_1(body, None, None)))
    }

    /// A connection that is there by now, or a fresh one.
    async fn connect(&self, reuse: Reuse) -> Result<Taken, NeverSent> {
        let limit = self.config.connect_timeout;
        let deadline = Instant::now() + limit;
        let mut turn = None;
        if !self.speaks_http_1.load(Ordering::Relaxed) {
            // One connection is enough for all that wait here.
            let waited = timeout_at(deadline, self.connecting.lock()).await;
            let authority = || self.authority().to_owned();
            turn = Some(
                waited.map_err(|_| NeverSent::ConnectTimeout { authority: authority(), limit })?,
            );
            if let Some(taken) = self.pool.take(reuse) {
                return Ok(taken);
            }
        }
        if self.speaks_http_1.load(Ordering::Relaxed) {
            turn = None;
        }
        let place = self.place(deadline).await?;
        let left = deadline.saturating_duration_since(Instant::now());
        let fresh = self.origin.connect(place, left, limit).await?;
        drop(turn);
        self.speaks_http_1.store(matches!(fresh, Fresh::Http1(_)), Ordering::Relaxed);
        Ok(match fresh {
            Fresh::Http1(connection) => Taken::Http1(connection),
            Fresh::Http2(connection) => {
                let slot = self.pool.share(connection);
                Taken::Http2(slot.ok_or_else(|| NeverSent::NoStreams {
                    authority: self.authority().to_owned(),
                })?)
            }
        })
    }

    /// One of the connections that there may be.
    async fn place(&self, deadline: Instant) -> Result<Place, NeverSent> {
        self.pool.place(deadline).await.ok_or_else(|| NeverSent::NoConnection {
            authority: self.authority().to_owned(),
            most: self.config.max_connections,
        })
    }

    /// Boxed: it would be part of the future of every request, more than once.
    fn attempt<'a>(
        &'a self,
        connection: Taken,
        request: Request<OutBody>,
        sent: &'a Sent,
    ) -> Pin<Box<dyn Future<Output = Result<Response<UpstreamBody>, Failed>> + Send + 'a>> {
        let never_sent = |why| Box::pin(ready(Err(Failed::NeverSent(why))));
        match connection {
            Taken::Http1(connection) => match request::as_http_1(request) {
                Ok(request) => {
                    let sending = send_http_1(connection, request, sent);
                    Box::pin(async move {
                        let (answer, connection, wanted) = sending.await?;
                        self.accept_http_1(answer, connection, wanted).map_err(Failed::Unknown)
                    })
                }
                Err(why) => never_sent(why),
            },
            Taken::Http2(slot) => {
                let scheme = self.origin.scheme();
                match request::as_http_2(request, scheme, self.authority()) {
                    Ok(request) => Box::pin(self.send_http_2(slot, request, sent)),
                    Err(why) => never_sent(why),
                }
            }
        }
    }

    async fn send_http_2(
        &self,
        slot: Slot,
        mut request: Request<OutBody>,
        sent: &Sent,
    ) -> Result<Response<UpstreamBody>, Failed> {
        keep_until_wanted(&mut request);
        sent.set(true);
        let Answered { answer, upload } = slot.send(request).await.inspect_err(|failed| {
            sent.set(matches!(failed, Failed::Unknown(_)));
        })?;
        let (mut head, body) = answer.into_parts();
        let length = headers::content_length(&head.headers);
        headers::from_upstream(&mut head.headers, head.status, true);
        head.version = Version::HTTP_11;
        let body = UpstreamBody::http_2(body, length, upload, slot);
        Ok(Response::from_parts(head, body))
    }

    /// Takes an answer's head from the wire: what cannot be passed on is no answer.
    fn accept_http_1(
        &self,
        answer: Response<Incoming>,
        connection: Http1,
        wanted: Option<Wanted>,
    ) -> Result<Response<UpstreamBody>, Unknown> {
        let (mut head, body) = answer.into_parts();
        if head.status == StatusCode::SWITCHING_PROTOCOLS {
            return Err(Unknown::SwitchingProtocols);
        }
        if headers::has_foreign_transfer_coding(&head.headers) {
            return Err(Unknown::TransferCoding);
        }
        // A connection whose request was never finished takes no other.
        let unwanted = wanted.filter(|wanted| !wanted.was_asked_for()).map(Unwanted::new);
        let lease = (is_persistent(&head, &body) && unwanted.is_none())
            .then(|| Lease::new(connection, &self.pool, pool::keep_alive_timeout(&head.headers)));
        headers::from_upstream(&mut head.headers, head.status, false);
        // What we send on is a message of ours, in our version (RFC 9110, section 2.5).
        head.version = Version::HTTP_11;
        Ok(Response::from_parts(head, UpstreamBody::http_1(body, lease, unwanted)))
    }
}

/// Sends a request over a connection that nobody else uses.
fn send_http_1(
    mut connection: Http1,
    mut request: Request<OutBody>,
    sent: &Sent,
) -> impl Future<Output = Result<(Response<Incoming>, Http1, Option<Wanted>), Failed>> {
    let wanted = keep_until_wanted(&mut request);
    sent.set(true);
    // Boxed: it has room for the request, which the connection has by now.
    let sending = Box::pin(connection.try_send(request));
    async move {
        match sending.await {
            Ok(answer) => Ok((answer, connection, wanted)),
            Err(mut refused) => Err(match refused.take_message() {
                Some(request) => {
                    sent.set(false);
                    let (request, reason) = (Box::new(request), refused.into_error().into());
                    Failed::HandedBack { request, reason }
                }
                None => Failed::Unknown(Unknown::from_hyper(refused.into_error())),
            }),
        }
    }
}

fn keep_until_wanted(request: &mut Request<OutBody>) -> Option<Wanted> {
    let expects = request.headers().contains_key(EXPECT) && !request.body().is_end_stream();
    expects.then(|| Wanted::keep(request))
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream")
            .field("authority", &self.authority())
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

/// What became of a request that got no answer.
enum Failed {
    HandedBack {
        request: Box<Request<OutBody>>,
        reason: BoxError,
    },
    /// Not processed, as the upstream says; there is another where the body is in memory.
    Refused {
        again: Option<Box<Request<OutBody>>>,
        reason: h2::Error,
    },
    NeverSent(NeverSent),
    Unknown(Unknown),
}

impl Failed {
    fn into_error(self) -> SendError {
        match self {
            Self::HandedBack { reason, .. } => NeverSent::HandedBack(reason).into(),
            Self::Refused { reason, .. } => NeverSent::Refused(reason).into(),
            Self::NeverSent(reason) => reason.into(),
            Self::Unknown(reason) => reason.into(),
        }
    }
}

/// Whether the connection outlives this answer (RFC 9112, section 9.3).
fn is_persistent(head: &http::response::Parts, body: &Incoming) -> bool {
    let delimited =
        body.size_hint().exact().is_some() || head.headers.contains_key(TRANSFER_ENCODING);
    // An HTTP/1.0 server that keeps connections alive would make hyper speak 1.0 to it, where a
    // request body of unknown length cannot be sent and is silently left out.
    delimited && head.version == Version::HTTP_11 && !lists(&head.headers, &CONNECTION, "close")
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "what a test collects, it made")]
mod tests;
