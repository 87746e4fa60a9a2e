//! The service behind the gateway, over connections of our own.
//!
//! One question decides what a failed attempt means: may a byte of the request have gone out? Only
//! the owner of the connection can tell, so there is no client library in between. A request that
//! was never serialised is handed back by hyper and is *never sent*; everything after that is
//! *unknown*, and nothing here sends a request twice.

mod body;
mod connection;
mod error;
mod pool;
mod request;
mod unread;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hapax::{Sent, http::headers::lists};
use http::{Request, Response, StatusCode, Uri, Version};
use hyper::body::{Body, Incoming};

pub use self::body::{IncompleteAnswer, OutBody, OutBodyError, UpstreamBody};
use self::connection::{Connection, Origin};
pub use self::error::{BaseError, NeverSent, SendError, Unknown};
use self::pool::{Lease, Pool};
use crate::headers;

/// How a service is reached.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct UpstreamConfig {
    /// How long name resolution and connecting may take together; 2 s by default.
    pub connect_timeout: Duration,
    /// How many idle connections are kept; 64 by default. Busy ones are not counted.
    pub max_idle: usize,
}

impl Default for UpstreamConfig {
    fn default() -> Self {
        Self { connect_timeout: Duration::from_secs(2), max_idle: 64 }
    }
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

/// A service, and the idle connections to it. Clones share them.
#[derive(Clone)]
pub struct Upstream {
    origin: Arc<Origin>,
    config: UpstreamConfig,
    pool: Arc<Pool>,
}

impl Upstream {
    /// A service at `base`, which is `http://host` or `http://host:port` and nothing more: the
    /// request's path goes through as it came, so there is no prefix to put before it.
    ///
    /// # Errors
    /// [`BaseError`] names what else the address holds.
    pub fn new(base: &Uri, config: UpstreamConfig) -> Result<Self, BaseError> {
        let origin = Arc::new(Origin::parse(base)?);
        let pool = Arc::new(Pool::new(config.max_idle));
        Ok(Self { origin, config, pool })
    }

    /// `host:port`, as it identifies the service.
    pub fn authority(&self) -> &str {
        self.origin.authority()
    }

    /// Sends one request at most once, and returns the answer's head as soon as it is there.
    ///
    /// The request's head must have been through [`headers::to_upstream`]. Its target is sent in
    /// origin form, path and query byte for byte; `Host` stays as the client sent it, unless the
    /// target named an authority, which then takes its place (RFC 9112, section 3.2.2; RFC 9113,
    /// section 8.3.1). Body framing is written anew.
    ///
    /// The answer comes back without the fields of this connection, its framing unambiguous.
    /// Interim (1xx) answers are skipped. Dropping this future, or the answer's body before its
    /// end, closes the connection; there is no time limit in here but the connect timeout.
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
    /// caller that drops the future then knows on which side of the boundary it was.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub async fn send_telling(
        &self,
        request: Request<OutBody>,
        reuse: Reuse,
        sent: &Sent,
    ) -> Result<Response<UpstreamBody>, SendError> {
        sent.set(false);
        let request = request::prepare(request, self.authority())?;
        let request = match self.pool.take(reuse) {
            None => request,
            Some(idle) => match self.attempt(idle, request, sent).await {
                // Closed while idle, before it could be written: this was not the first send.
                Err(Failed::HandedBack { request, .. }) => *request,
                done => return done.map_err(Failed::into_error),
            },
        };
        let fresh = self.origin.connect(self.config.connect_timeout).await?;
        self.attempt(fresh, request, sent).await.map_err(Failed::into_error)
    }

    async fn attempt(
        &self,
        mut connection: Connection,
        request: Request<OutBody>,
        sent: &Sent,
    ) -> Result<Response<UpstreamBody>, Failed> {
        sent.set(true);
        let answer = match connection.try_send_request(request).await {
            Ok(answer) => answer,
            Err(mut refused) => {
                return Err(match refused.take_message() {
                    Some(request) => {
                        sent.set(false);
                        let (request, reason) = (Box::new(request), refused.into_error());
                        Failed::HandedBack { request, reason }
                    }
                    None => Failed::Unknown(Unknown::from_hyper(refused.into_error())),
                });
            }
        };
        self.accept(answer, connection).map_err(Failed::Unknown)
    }

    /// Takes an answer's head from the wire: what cannot be passed on is no answer.
    fn accept(
        &self,
        answer: Response<Incoming>,
        connection: Connection,
    ) -> Result<Response<UpstreamBody>, Unknown> {
        let (mut head, body) = answer.into_parts();
        if head.status == StatusCode::SWITCHING_PROTOCOLS {
            return Err(Unknown::SwitchingProtocols);
        }
        if headers::has_foreign_transfer_coding(&head.headers) {
            return Err(Unknown::TransferCoding);
        }
        let lease = is_persistent(&head, &body)
            .then(|| Lease::new(connection, &self.pool, pool::keep_alive_timeout(&head.headers)));
        headers::from_upstream(&mut head.headers, head.status);
        // What we send on is a message of ours, in our version (RFC 9110, section 2.5).
        head.version = Version::HTTP_11;
        Ok(Response::from_parts(head, UpstreamBody::new(body, lease)))
    }
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
    HandedBack { request: Box<Request<OutBody>>, reason: hyper::Error },
    Unknown(Unknown),
}

impl Failed {
    fn into_error(self) -> SendError {
        match self {
            Self::HandedBack { reason, .. } => NeverSent::HandedBack(reason).into(),
            Self::Unknown(reason) => reason.into(),
        }
    }
}

/// Whether the connection outlives this answer (RFC 9112, section 9.3).
fn is_persistent(head: &http::response::Parts, body: &Incoming) -> bool {
    let delimited = body.size_hint().exact().is_some()
        || head.headers.contains_key(http::header::TRANSFER_ENCODING);
    // An HTTP/1.0 server that keeps connections alive would make hyper speak 1.0 to it, where a
    // request body of unknown length cannot be sent and is silently left out.
    delimited
        && head.version == Version::HTTP_11
        && !lists(&head.headers, &http::header::CONNECTION, "close")
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "what a test collects, it made")]
mod tests;
