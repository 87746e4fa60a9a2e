//! Where the upstream is, and how a connection to it comes about.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use http::{Uri, uri::Scheme};
use rustls::ClientConfig;
use tokio::{
    net::{TcpStream, lookup_host},
    time::{Instant, timeout_at},
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::{
    BaseError, NeverSent, Protocol, UpstreamConfig,
    connection::{self, Http1},
    http_2::{Http2, http_2},
    pool::Place,
    unread::Unread,
};
use crate::{
    config::address,
    sockets,
    tls::{ALPN_HTTP_2, UpstreamTls},
};

/// The upstream's address, parsed.
pub(super) struct Origin {
    host: String,
    port: u16,
    authority: String,
    name: String,
    tls: Option<UpstreamTls>,
    protocol: Protocol,
}

/// A new connection, in the version of HTTP that it turned out to have.
pub(super) enum Fresh {
    Http1(Http1),
    Http2(Http2),
}

impl Origin {
    pub(super) fn parse(base: &Uri, config: &UpstreamConfig) -> Result<Self, BaseError> {
        let over_tls = match base.scheme() {
            Some(scheme) if *scheme == Scheme::HTTP => false,
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            scheme => {
                let scheme = scheme.map(Scheme::as_str).unwrap_or_default().to_owned();
                return Err(BaseError::Scheme { scheme });
            }
        };
        let authority = base.authority().ok_or(BaseError::Host)?;
        if authority.as_str().contains('@') {
            return Err(BaseError::UserInfo);
        }
        let path = base.path_and_query().map_or("/", |path| path.as_str());
        if path != "/" {
            return Err(BaseError::Path { path: path.to_owned() });
        }
        // An IPv6 literal is written in brackets, but resolved without.
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() {
            return Err(BaseError::Host);
        }
        let port = authority.port_u16().unwrap_or(if over_tls { 443 } else { 80 });
        let tls = match over_tls {
            true => Some(UpstreamTls::load(&host, config.tls.clone())?),
            false => None,
        };
        let authority = authority.as_str().to_owned();
        let name = address::origin(base);
        Ok(Self { host, port, authority, name, tls, protocol: config.protocol })
    }

    pub(super) fn authority(&self) -> &str {
        &self.authority
    }

    /// As the configuration and records name it.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) const fn tls(&self) -> Option<&UpstreamTls> {
        self.tls.as_ref()
    }

    pub(super) const fn scheme(&self) -> Scheme {
        if self.tls.is_some() { Scheme::HTTPS } else { Scheme::HTTP }
    }

    /// Whether only the handshake tells which version it will be.
    pub(super) fn may_speak_http_2(&self) -> bool {
        self.protocol == Protocol::Http2
            || (self.tls.is_some() && self.protocol == Protocol::Negotiated)
    }

    /// A fresh connection: name, address, TLS and the peer's HTTP/2 preface within the time that is
    /// left of the limit.
    pub(super) async fn connect(
        &self,
        place: Place,
        left: Duration,
        limit: Duration,
    ) -> Result<Fresh, NeverSent> {
        let deadline = Instant::now() + left;
        let connecting = async {
            let stream = self.dial(place, deadline, limit).await?;
            let Some(tls) = &self.tls else {
                return match self.protocol {
                    Protocol::Http2 => self.http_2(stream).await,
                    Protocol::Negotiated | Protocol::Http1 => {
                        connection::http_1(stream).await.map(Fresh::Http1)
                    }
                };
            };
            let config = match self.protocol {
                Protocol::Http1 => tls.http_1(),
                Protocol::Negotiated | Protocol::Http2 => tls.config(),
            };
            let stream = self.shake(stream, tls, config).await?;
            let negotiated = stream.get_ref().1.alpn_protocol() == Some(ALPN_HTTP_2);
            match (negotiated, self.protocol) {
                (true, _) | (false, Protocol::Http2) => self.http_2(stream).await,
                (false, _) => connection::http_1(stream).await.map(Fresh::Http1),
            }
        };
        let timed_out = |_| NeverSent::ConnectTimeout { authority: self.authority.clone(), limit };
        timeout_at(deadline, connecting).await.map_err(timed_out)?
    }

    /// A fresh connection that speaks HTTP/1.1 and can be turned into a tunnel.
    pub(super) async fn connect_http_1(
        &self,
        place: Place,
        left: Duration,
        limit: Duration,
    ) -> Result<Http1, NeverSent> {
        if self.protocol == Protocol::Http2 {
            return Err(NeverSent::NoUpgrade { authority: self.authority.clone() });
        }
        let deadline = Instant::now() + left;
        let connecting = async {
            let stream = self.dial(place, deadline, limit).await?;
            match &self.tls {
                None => connection::http_1(stream).await,
                Some(tls) => connection::http_1(self.shake(stream, tls, tls.http_1()).await?).await,
            }
        };
        let timed_out = |_| NeverSent::ConnectTimeout { authority: self.authority.clone(), limit };
        timeout_at(deadline, connecting).await.map_err(timed_out)?
    }

    async fn http_2<S>(&self, stream: S) -> Result<Fresh, NeverSent>
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static,
    {
        http_2(stream, &self.authority).await.map(Fresh::Http2)
    }

    async fn shake(
        &self,
        stream: Unread<TcpStream>,
        tls: &UpstreamTls,
        config: Arc<ClientConfig>,
    ) -> Result<TlsStream<Unread<TcpStream>>, NeverSent> {
        let shaken = TlsConnector::from(config).connect(tls.name(), stream).await;
        shaken.map_err(|source| NeverSent::Tls { authority: self.authority.clone(), source })
    }

    async fn dial(
        &self,
        place: Place,
        deadline: Instant,
        limit: Duration,
    ) -> Result<Unread<TcpStream>, NeverSent> {
        let authority = || self.authority.clone();
        let timed_out = |_| NeverSent::ConnectTimeout { authority: authority(), limit };

        let resolved = timeout_at(deadline, lookup_host((self.host.as_str(), self.port)));
        let addresses: Vec<SocketAddr> = resolved
            .await
            .map_err(timed_out)?
            .map_err(|source| NeverSent::Resolve { authority: authority(), source })?
            .collect();

        let mut failed = NeverSent::Resolve {
            authority: authority(),
            source: io::Error::new(io::ErrorKind::NotFound, "the name has no address"),
        };
        for (tried, address) in addresses.iter().enumerate() {
            // One silent address must not use up the time of the others.
            let left = u32::try_from(addresses.len() - tried).unwrap_or(u32::MAX);
            let now = Instant::now();
            let share = now + deadline.saturating_duration_since(now) / left;
            match timeout_at(share, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => {
                    sockets::prepare(&stream);
                    return Ok(Unread::new(stream).with(place));
                }
                Ok(Err(source)) => failed = NeverSent::Connect { authority: authority(), source },
                Err(elapsed) => failed = timed_out(elapsed),
            }
        }
        Err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upstream_is_a_scheme_and_an_authority_and_nothing_more() {
        let parse = |base: &str| -> Result<(String, u16), String> {
            let uri: Uri = base.parse().expect("a URI");
            let origin = Origin::parse(&uri, &UpstreamConfig::default());
            origin.map(|origin| (origin.host, origin.port)).map_err(|error| error.to_string())
        };
        let at = |host: &str, port| Ok((host.to_owned(), port));
        let wrong = |error: BaseError| Err(error.to_string());
        let path = |path: &str| wrong(BaseError::Path { path: path.to_owned() });
        let scheme = |scheme: &str| wrong(BaseError::Scheme { scheme: scheme.to_owned() });
        for (base, expected) in [
            ("http://127.0.0.1:3000", at("127.0.0.1", 3000)),
            ("http://api.example/", at("api.example", 80)),
            ("http://[::1]:81", at("::1", 81)),
            ("http://api.example/v1", path("/v1")),
            ("http://api.example/?a=b", path("/?a=b")),
            ("http://me:secret@api.example", wrong(BaseError::UserInfo)),
            ("ftp://api.example", scheme("ftp")),
            ("api.example:80", scheme("")),
            ("/v1", scheme("")),
        ] {
            assert_eq!(parse(base), expected, "{base}");
        }
    }
}
