//! Certificates made for a test, and a client that speaks TLS.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, SanType};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName},
};
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::TlsConnector;

use crate::{
    Answer, Gateway, Request,
    client::{PATIENCE, Pending, RUNTIME, http_1_on, http_2_on},
};

/// A certificate authority.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: rcgen::Certificate,
}

/// A certificate with its key, in files.
#[derive(Clone, Debug)]
pub struct Pair {
    /// The file with the certificate.
    pub certificate: PathBuf,
    /// The file with the key.
    pub key: PathBuf,
}

impl Authority {
    /// A new one.
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "Test Authority");
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        Self { issuer: Issuer::new(params, key), certificate }
    }

    /// Its certificate, written to a file.
    pub fn write(&self, path: &Path) -> PathBuf {
        fs::write(path, self.certificate.pem()).expect("the file is written");
        path.to_owned()
    }

    /// A certificate for these host names, URIs or addresses, in `NAME.pem` and `NAME.key`.
    pub fn issue(&self, dir: &Path, name: &str, names: &[&str]) -> Pair {
        let pair = Pair {
            certificate: dir.join(format!("{name}.pem")),
            key: dir.join(format!("{name}.key")),
        };
        self.reissue(&pair, name, names);
        pair
    }

    /// Another certificate in the same files.
    pub fn reissue(&self, pair: &Pair, name: &str, names: &[&str]) {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.subject_alt_names = names.iter().map(|name| alternative(name)).collect();
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        fs::write(&pair.certificate, certificate.pem()).expect("the file is written");
        fs::write(&pair.key, key.serialize_pem()).expect("the file is written");
    }
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

fn alternative(name: &str) -> SanType {
    match name.parse() {
        Ok(address) => SanType::IpAddress(address),
        Err(_) if name.contains("://") => SanType::URI(name.try_into().expect("a URI")),
        Err(_) => SanType::DnsName(name.try_into().expect("a name")),
    }
}

/// A client that speaks TLS with the gateway.
#[derive(Clone)]
pub struct TlsClient {
    config: ClientConfig,
}

impl TlsClient {
    /// One that trusts this authority alone, and shows this certificate if there is one.
    pub fn new(authority: &Authority, shows: Option<&Pair>) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(authority.certificate.der().clone()).expect("an authority");
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots);
        let config = match shows {
            None => builder.with_no_client_auth(),
            Some(pair) => {
                let (certificate, key) = pair.read();
                builder.with_client_auth_cert(vec![certificate], key).expect("a certificate")
            }
        };
        Self { config }
    }

    /// A session of its own.
    pub(crate) fn session(&self) -> ClientConnection {
        let name = ServerName::try_from("gateway.test").expect("a name");
        ClientConnection::new(Arc::new(self.config.clone()), name).expect("a session")
    }

    /// With these protocols offered (ALPN).
    #[must_use]
    pub fn offering(mut self, protocols: &[&str]) -> Self {
        self.config.alpn_protocols =
            protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        self
    }
}

impl Pair {
    fn read(&self) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
        use rustls::pki_types::pem::PemObject;
        let certificate = CertificateDer::from_pem_file(&self.certificate).expect("a certificate");
        let key = PrivatePkcs8KeyDer::from_pem_file(&self.key).expect("a key");
        (certificate, key.into())
    }
}

impl Gateway {
    /// Sends a request over TLS, in the version of HTTP that comes of it, and returns the answer.
    ///
    /// # Errors
    /// What broke, in the handshake too.
    pub fn send_tls(&self, client: &TlsClient, request: &Request) -> Result<Answer, String> {
        self.start_tls(client, request).result()
    }

    /// Sends a request over TLS, and returns while it is under way.
    pub fn start_tls(&self, client: &TlsClient, request: &Request) -> Pending {
        let (to, request) = (self.address(), request.clone());
        let connector = TlsConnector::from(Arc::new(client.config.clone()));
        Pending::new(RUNTIME.spawn(async move {
            let sending = async {
                let stream = TcpStream::connect(to).await?;
                let name = ServerName::try_from("gateway.test").expect("a name");
                let stream = connector.connect(name, stream).await?;
                if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
                    http_2_on(stream, &request, "https").await
                } else {
                    http_1_on(stream, &request).await
                }
            };
            timeout(PATIENCE, sending).await.unwrap_or_else(|_| Err("no answer".into()))
        }))
    }

    /// The certificate that the gateway shows, as SHA-256 would tell it apart: its bytes.
    ///
    /// # Errors
    /// What broke in the handshake.
    pub fn shown_certificate(&self, client: &TlsClient) -> Result<Vec<u8>, String> {
        let to = self.address();
        let connector = TlsConnector::from(Arc::new(client.config.clone()));
        let shaking = async move {
            let stream = TcpStream::connect(to).await.map_err(|error| error.to_string())?;
            let name = ServerName::try_from("gateway.test").expect("a name");
            let stream =
                connector.connect(name, stream).await.map_err(|error| error.to_string())?;
            let shown = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
            Ok(shown.expect("a certificate").to_vec())
        };
        RUNTIME.block_on(async {
            timeout(Duration::from_secs(20), shaking).await.unwrap_or_else(|_| Err("slow".into()))
        })
    }
}
