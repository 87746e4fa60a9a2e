//! Who a caller is, by the certificate that it showed.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test that cannot go on stops, and what it collects it made"
)]

use std::{fs, path::Path, sync::Arc};

use bytes::Bytes;
use hapax_gateway::{
    Workers,
    server::{Inbound, ServerLimits, serve_tls},
    tls::{AlternativeName, ClientCertificate, Clients, PemSource, ServerTls, ServerTlsConfig},
};
use http::{Request, Response};
use http_body_util::{BodyExt, Empty, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, SanType};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName},
};
use sha2::{Digest, Sha256};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;

struct Known {
    der: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
}

fn issue(issuer: &Issuer<'_, KeyPair>, name: &str, names: Vec<SanType>) -> (Known, String, String) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.subject_alt_names = names;
    params.distinguished_name.push(DnType::OrganizationName, "Acme");
    params.distinguished_name.push(DnType::CommonName, name);
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, issuer).unwrap();
    let (pem, key_pem) = (certificate.pem(), key.serialize_pem());
    let known = Known { der: certificate.der().clone(), key: key.into() };
    (known, pem, key_pem)
}

fn file(dir: &Path, name: &str, text: &str) -> PemSource {
    fs::write(dir.join(name), text).unwrap();
    PemSource::File(dir.join(name))
}

#[tokio::test]
async fn a_verified_certificate_is_with_every_request_of_its_connection() {
    let dir = tempfile::tempdir().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let authority = params.self_signed(&key).unwrap();
    let issuer = Issuer::new(params, key);
    let dns = |name: &str| SanType::DnsName(name.try_into().unwrap());
    let (_, pem, key_pem) = issue(&issuer, "gateway", vec![dns("gateway.test")]);
    let uri = "spiffe://acme.test/billing";
    let names = vec![dns("billing.test"), SanType::URI(uri.try_into().unwrap())];
    let (known, ..) = issue(&issuer, "billing", names);

    let config = ServerTlsConfig {
        certificate: file(dir.path(), "tls.pem", &pem),
        key: file(dir.path(), "tls.key", &key_pem),
        clients: Some(Clients {
            ca: file(dir.path(), "ca.pem", &authority.pem()),
            required: false,
        }),
    };
    let tls = ServerTls::load("callers", config).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    // Answers with what it knows of its caller.
    let service = |request: Request<Inbound>| async move {
        let shown = request.extensions().get::<ClientCertificate>();
        let text = shown.map_or("nobody".to_owned(), |certificate| {
            let names = certificate.alternative_names().iter();
            let uris = names.filter_map(|name| match name {
                AlternativeName::Uri(uri) => Some(uri.as_str()),
                _ => None,
            });
            let uris = uris.collect::<Vec<_>>().join(",");
            assert_eq!(certificate.sha256(), <[u8; 32]>::from(Sha256::digest(certificate.der())));
            format!("{} {uris}", certificate.subject())
        });
        Response::new(Full::new(Bytes::from(text)))
    };
    let limits = ServerLimits::default();
    tokio::spawn(serve_tls(
        listener,
        Some(tls),
        Workers::here(),
        service,
        limits,
        CancellationToken::new(),
    ));

    for (shows, expected) in
        [(Some(known), format!("O=Acme,CN=billing {uri}")), (None, "nobody".into())]
    {
        let mut roots = RootCertStore::empty();
        roots.add(authority.der().clone()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = match shows {
            Some(known) => builder.with_client_auth_cert(vec![known.der], known.key).unwrap(),
            None => builder.with_no_client_auth(),
        };
        let stream = TcpStream::connect(address).await.unwrap();
        let name = ServerName::try_from("gateway.test").unwrap();
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
        let (mut sender, driver) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(driver);
        for _ in 0..2 {
            let request = Request::builder().header("host", "a").body(Empty::<Bytes>::new());
            let answer = sender.send_request(request.unwrap()).await.unwrap();
            let body = answer.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(body, expected.as_bytes());
        }
    }
}
