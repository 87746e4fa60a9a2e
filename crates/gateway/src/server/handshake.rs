//! The TLS handshake of a caller's connection, bounded in time and in number.

use std::{io, pin::pin, sync::Arc, time::Duration};

use metrics::counter;
use rustls::server::Acceptor;
use thiserror::Error;
use tokio::{
    io::AsyncWriteExt,
    net::TcpStream,
    sync::Semaphore,
    time::{error::Elapsed, timeout},
};
use tokio_rustls::{LazyConfigAcceptor, server::TlsStream};

use crate::{
    metric_definitions::TLS_FAILURES,
    tls::{ClientCertificate, ServerTls},
};

/// How long a handshake may take, the wait for its turn included.
const WITHIN: Duration = Duration::from_secs(10);

/// How many handshakes are under way at once on one listener: each holds a core for about a
/// millisecond, and more of them only make all of them late.
const MOST: usize = 512;

/// How long a turn is kept: a client that does not go on keeps nobody waiting.
const TURN: Duration = Duration::from_secs(1);

/// The first byte of every TLS connection: the content type of a handshake (RFC 8446, section 5.1).
const HANDSHAKE: u8 = 22;

/// What a client that speaks plain HTTP is told.
const PLAIN_HTTP: &[u8] = b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\n\
    content-length: 60\r\nconnection: close\r\n\r\n\
    plain HTTP came to a port that speaks TLS; write https:// .\n";

/// Shakes hands with those who connect to one listener.
pub(super) struct Handshakes {
    tls: ServerTls,
    turns: Semaphore,
}

/// Why there is no connection.
#[derive(Debug, Error)]
pub(super) enum NoHandshake {
    #[error("plain HTTP came to a port that speaks TLS")]
    PlainHttp,
    #[error("the TLS handshake failed")]
    Failed(#[from] io::Error),
    #[error("the TLS handshake took longer than {WITHIN:?}")]
    TimedOut(#[from] Elapsed),
}

impl Handshakes {
    pub(super) const fn new(tls: ServerTls) -> Self {
        Self { tls, turns: Semaphore::const_new(MOST) }
    }

    /// The connection once it is encrypted, and the certificate that the caller showed.
    pub(super) async fn shake(
        &self,
        stream: TcpStream,
    ) -> Result<(TlsStream<TcpStream>, Option<ClientCertificate>), NoHandshake> {
        let shaken = timeout(WITHIN, self.take_turn(stream)).await.map_err(NoHandshake::from);
        let stream = shaken.and_then(|shaken| shaken).inspect_err(|error| {
            counter!(TLS_FAILURES, "reason" => error.reason()).increment(1);
        })?;
        let (_, session) = stream.get_ref();
        let leaf = session.peer_certificates().and_then(|chain| chain.first());
        let certificate = match leaf {
            None => None,
            // The verifier has read it already, so this does not fail.
            Some(leaf) => Some(
                ClientCertificate::from_der(leaf.clone().into_owned())
                    .ok_or_else(|| io::Error::other("the client's certificate cannot be read"))?,
            ),
        };
        Ok((stream, certificate))
    }

    async fn take_turn(&self, mut stream: TcpStream) -> Result<TlsStream<TcpStream>, NoHandshake> {
        let mut first = [0];
        if stream.peek(&mut first).await? == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        if first[0] != HANDSHAKE && first[0].is_ascii_uppercase() {
            refuse_plain(&mut stream).await?;
            return Err(NoHandshake::PlainHttp);
        }
        // A client takes no turn before it has said all that a turn is for.
        let hello = LazyConfigAcceptor::new(Acceptor::default(), stream).await?;
        // Never closed, so always acquired.
        let turn = self.turns.acquire().await.map_err(io::Error::other)?;
        let mut shaking = pin!(hello.into_stream(self.tls.config()));
        match timeout(TURN, shaking.as_mut()).await {
            Ok(shaken) => Ok(shaken?),
            Err(_) => {
                drop(turn);
                Ok(shaking.await?)
            }
        }
    }
}

/// Answers in plain text, and reads what has come, since closing with unread bytes resets the
/// connection and may destroy the answer.
async fn refuse_plain(stream: &mut TcpStream) -> io::Result<()> {
    stream.write_all(PLAIN_HTTP).await?;
    stream.shutdown().await?;
    let mut rest = [0; 4096];
    for _ in 0..16 {
        if tokio::io::AsyncReadExt::read(stream, &mut rest).await? == 0 {
            break;
        }
    }
    Ok(())
}

impl NoHandshake {
    const fn reason(&self) -> &'static str {
        match self {
            Self::PlainHttp => "plain_http",
            Self::Failed(_) => "failed",
            Self::TimedOut(_) => "timed_out",
        }
    }
}

/// The handshakes of a listener that speaks TLS.
pub(super) fn handshakes(tls: Option<ServerTls>) -> Option<Arc<Handshakes>> {
    tls.map(|tls| Arc::new(Handshakes::new(tls)))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rcgen::{CertificateParams, KeyPair};
    use rustls::ClientConnection;
    use tokio::{net::TcpListener, time::Instant};
    use tokio_rustls::TlsConnector;

    use super::*;
    use crate::tls::{PemSource, ServerTlsConfig, UpstreamTls, UpstreamTlsConfig};

    /// Both ends of TLS for a name.
    fn both_ends(dir: &std::path::Path) -> (ServerTls, UpstreamTls) {
        let params = CertificateParams::new(vec!["a.test".to_owned()]).unwrap();
        let key = KeyPair::generate().unwrap();
        let (certificate, secret) = (dir.join("tls.pem"), dir.join("tls.key"));
        fs::write(&certificate, params.self_signed(&key).unwrap().pem()).unwrap();
        fs::write(&secret, key.serialize_pem()).unwrap();
        let certificate = PemSource::File(certificate);
        let ca = Some(certificate.clone());
        let server = ServerTlsConfig { certificate, key: PemSource::File(secret), clients: None };
        let client = UpstreamTlsConfig { ca, ..UpstreamTlsConfig::default() };
        let server = ServerTls::load("callers", server).unwrap();
        (server, UpstreamTls::load("a.test", client).unwrap())
    }

    #[tokio::test]
    async fn clients_that_do_not_go_on_keep_others_waiting_for_no_longer_than_a_turn() {
        let dir = tempfile::tempdir().unwrap();
        let (server, client) = both_ends(dir.path());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let handshakes = Arc::new(Handshakes { tls: server, turns: Semaphore::new(1) });
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let handshakes = Arc::clone(&handshakes);
                tokio::spawn(async move { handshakes.shake(stream).await.map(drop) });
            }
        });
        let mut silent = Vec::new();
        for _ in 0..20 {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(&[HANDSHAKE]).await.unwrap();
            silent.push(stream);
        }
        let mut hello = Vec::new();
        let mut speaking = ClientConnection::new(client.config(), client.name()).unwrap();
        speaking.write_tls(&mut hello).unwrap();
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(&hello).await.unwrap();
        let begun = Instant::now();
        let stream = TcpStream::connect(address).await.unwrap();
        TlsConnector::from(client.config()).connect(client.name(), stream).await.unwrap();
        assert!(begun.elapsed() < 3 * TURN, "{:?}", begun.elapsed());
    }

    #[test]
    fn the_plain_answer_has_the_length_that_it_says() {
        let text = std::str::from_utf8(PLAIN_HTTP).expect("ASCII");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        assert!(head.contains(&format!("content-length: {}\r\n", body.len())), "{}", body.len());
    }
}
