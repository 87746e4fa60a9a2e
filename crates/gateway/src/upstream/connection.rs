//! Where the upstream is, and how a connection to it comes about.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use http::Uri;
use http::uri::Scheme;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{Instant, timeout_at};
use tracing::debug;

use super::unread::Unread;
use super::{BaseError, NeverSent, OutBody};

/// Our end of a connection: one request at a time.
pub(super) type Connection = http1::SendRequest<OutBody>;

const HTTP_PORT: u16 = 80;

/// What one connection may buffer, and so the most bytes of an answer's head. A slow client then
/// costs this much, not hyper's 400 KiB.
const BUFFER: usize = 64 * 1024;

/// The upstream's address, parsed.
pub(super) struct Origin {
    host: String,
    port: u16,
    authority: String,
}

impl Origin {
    pub(super) fn parse(base: &Uri) -> Result<Self, BaseError> {
        match base.scheme() {
            Some(scheme) if *scheme == Scheme::HTTP => {}
            Some(scheme) if *scheme == Scheme::HTTPS => return Err(BaseError::Tls),
            scheme => {
                let scheme = scheme.map(Scheme::as_str).unwrap_or_default().to_owned();
                return Err(BaseError::Scheme { scheme });
            }
        }
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
        let port = authority.port_u16().unwrap_or(HTTP_PORT);
        Ok(Self { host, port, authority: authority.as_str().to_owned() })
    }

    pub(super) fn authority(&self) -> &str {
        &self.authority
    }

    /// A fresh connection, driven by a task of its own until either side closes it.
    pub(super) async fn connect(&self, limit: Duration) -> Result<Connection, NeverSent> {
        let stream = self.dial(limit).await?;
        let (connection, driver) = http1::Builder::new()
            .max_buf_size(BUFFER)
            .handshake(TokioIo::new(Unread::new(stream)))
            .await
            .map_err(NeverSent::HandedBack)?;
        tokio::spawn(async move {
            // Whoever waits for an answer is told by hyper; this is for the others.
            if let Err(error) = driver.await {
                debug!(%error, "a connection to the upstream ended");
            }
        });
        Ok(connection)
    }

    async fn dial(&self, limit: Duration) -> Result<TcpStream, NeverSent> {
        let deadline = Instant::now() + limit;
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
                    if let Err(error) = stream.set_nodelay(true) {
                        debug!(%error, "TCP_NODELAY is not set");
                    }
                    return Ok(stream);
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
        let parse =
            |base: &str| base.parse().map(|uri| Origin::parse(&uri).map(|o| (o.host, o.port)));
        let at = |host: &str, port| Ok((host.to_owned(), port));
        let path = |path: &str| Err(BaseError::Path { path: path.to_owned() });
        let scheme = |scheme: &str| Err(BaseError::Scheme { scheme: scheme.to_owned() });
        for (base, expected) in [
            ("http://127.0.0.1:3000", at("127.0.0.1", 3000)),
            ("http://api.example/", at("api.example", 80)),
            ("http://[::1]:81", at("::1", 81)),
            ("http://api.example/v1", path("/v1")),
            ("http://api.example/?a=b", path("/?a=b")),
            ("http://me:secret@api.example", Err(BaseError::UserInfo)),
            ("https://api.example", Err(BaseError::Tls)),
            ("ftp://api.example", scheme("ftp")),
            ("api.example:80", scheme("")),
            ("/v1", scheme("")),
        ] {
            assert_eq!(parse(base).ok(), Some(expected), "{base}");
        }
    }
}
