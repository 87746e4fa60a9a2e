//! Why there is no answer, and what that proves.

use std::error::Error;
use std::io;
use std::time::Duration;

use hapax::http::body::BoxError;
use thiserror::Error;

use super::OutBodyError;
use crate::tls::TlsError;

/// No answer, on one side of the only boundary that matters.
#[derive(Debug, Error)]
pub enum SendError {
    /// Not a byte of the request went out: it was not applied, and sending it again is safe.
    #[error("the request was not sent to the upstream")]
    NeverSent {
        /// Why not.
        #[source]
        reason: NeverSent,
    },
    /// Some or all of the request may have gone out: it may have been applied.
    #[error("the request may have reached the upstream, and there is no complete answer")]
    Unknown {
        /// What was seen last.
        #[source]
        reason: Unknown,
    },
}

/// Why a request was not sent.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NeverSent {
    /// No address of the upstream took the connection.
    #[error("no connection to {authority}; check that the upstream is running")]
    Connect {
        /// The upstream.
        authority: String,
        /// The last address's answer.
        #[source]
        source: io::Error,
    },
    /// The upstream did not take the connection in time.
    #[error("no connection to {authority} within {limit:?}; check that it is reachable")]
    ConnectTimeout {
        /// The upstream.
        authority: String,
        /// The connect timeout.
        limit: Duration,
    },
    /// There are as many connections as there may be, and none ended in time.
    #[error(
        "all {most} connections to {authority} are in use (limits.max_connections); check whether it \
         answers, and callers take their answers"
    )]
    NoConnection {
        /// The upstream.
        authority: String,
        /// How many there may be.
        most: usize,
    },
    /// An HTTP/2 upstream allows no requests at all (SETTINGS_MAX_CONCURRENT_STREAMS is 0).
    #[error("{authority} takes no requests over HTTP/2 now; it allows 0 streams at once")]
    NoStreams {
        /// The upstream.
        authority: String,
    },
    /// A fresh connection closed before the request was written.
    #[error("the upstream closed the connection before the request was written")]
    HandedBack(#[source] BoxError),
    /// The upstream's name has no address.
    #[error("the name in {authority} does not resolve; check the upstream's address")]
    Resolve {
        /// The upstream.
        authority: String,
        /// The resolver's answer.
        #[source]
        source: io::Error,
    },
    /// The upstream refused the request before it was processed: REFUSED_STREAM, or a GOAWAY that
    /// names an earlier request as the last (RFC 9113, section 8.7).
    #[error("the upstream gave the request back before it processed it")]
    Refused(#[source] h2::Error),
    /// The TLS handshake failed.
    #[error(
        "no TLS connection to {authority}; check that it speaks TLS, and that its certificate is \
         valid for the name and signed by an authority that is trusted here"
    )]
    Tls {
        /// The upstream.
        authority: String,
        /// What rustls says.
        #[source]
        source: io::Error,
    },
    /// The upstream answered the beginning of HTTP/2 with something else, or not at all.
    #[error(
        "{authority} does not speak HTTP/2; leave protocol = \"h2c\" out of its [[service]], or \
         turn HTTP/2 on there"
    )]
    NotHttp2 {
        /// The upstream.
        authority: String,
    },
    /// A tunnel was asked for on a connection that has none.
    #[error(
        "{authority} is spoken to in HTTP/2, which has no Upgrade; a service with WebSockets needs \
         HTTP/1.1"
    )]
    NoUpgrade {
        /// The upstream.
        authority: String,
    },
    /// The request has no path to send, as a tunnel's (CONNECT) has none.
    #[error("the request target has no path; requests are passed on, tunnels are not")]
    Target,
}

/// Why an outcome is unknown.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Unknown {
    /// The connection closed or broke before the answer's head was complete.
    #[error("the connection broke before the answer's head was complete")]
    Connection(#[source] hyper::Error),
    /// What came back is not an HTTP/1 answer.
    #[error("the upstream's answer is malformed")]
    Malformed(#[source] hyper::Error),
    /// The request's stream was reset, or HTTP/2 itself went wrong, before the answer's head was
    /// complete.
    #[error("the request's stream was reset before the answer's head was complete")]
    Stream(#[source] h2::Error),
    /// The client's upload broke off on its way.
    #[error("the request's body broke off while it was passed on")]
    RequestBody(#[source] BoxError),
    /// The upstream switched to a protocol that nobody asked for.
    #[error("the upstream switched protocols, which the gateway did not ask for")]
    SwitchingProtocols,
    /// The upstream used a transfer coding that the gateway did not offer (RFC 9112, section 7.4).
    #[error(
        "the upstream used a transfer coding other than chunked, which the gateway did not offer"
    )]
    TransferCoding,
}

impl Unknown {
    pub(super) fn from_hyper(error: hyper::Error) -> Self {
        if error.source().is_some_and(|source| source.is::<OutBodyError>()) {
            Self::RequestBody(error.into())
        } else if error.is_parse() {
            Self::Malformed(error)
        } else {
            Self::Connection(error)
        }
    }
}

impl From<NeverSent> for SendError {
    fn from(reason: NeverSent) -> Self {
        Self::NeverSent { reason }
    }
}

impl From<Unknown> for SendError {
    fn from(reason: Unknown) -> Self {
        Self::Unknown { reason }
    }
}

/// What is wrong with an upstream's address.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BaseError {
    /// There is no host.
    #[error("the upstream needs a host; write http://HOST:PORT or https://HOST:PORT")]
    Host,
    /// A path, which would have to be put before every request's.
    #[error(
        "the upstream's address has the path {path:?}; write http://HOST:PORT or https://HOST:PORT only, paths go \
         through as they come"
    )]
    Path {
        /// The path, and the query if there is one.
        path: String,
    },
    /// A scheme that is not spoken.
    #[error("the scheme {scheme:?} is not supported; write http://HOST:PORT or https://HOST:PORT")]
    Scheme {
        /// The scheme.
        scheme: String,
    },
    /// Certificates or keys that cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Credentials in the address.
    #[error(
        "the upstream's address holds credentials; write http://HOST:PORT or https://HOST:PORT without them"
    )]
    UserInfo,
}
