//! The client that is ready to use: over hyper, HTTP/1.1 and HTTP/2, with TLS.

use std::{error::Error, path::Path, sync::Arc, time::Duration};

use bytes::Bytes;
use http_body_util::Full;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{self, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use rustls::{ClientConfig, RootCertStore, pki_types::CertificateDer};
use thiserror::Error;

use crate::{
    observation::Observation,
    policy::Policy,
    service::{Client, Settings},
};

/// What the ready client sends through: a pool of connections that never sends anything twice by
/// itself.
pub type HyperService = legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// A connection that takes longer is none. It is no attempt: nothing was sent.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Why there is no client.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TlsError {
    /// The system's authorities cannot be read.
    #[error("the certificates of the system's authorities cannot be read")]
    Authorities(#[source] std::io::Error),
    /// A file of authorities cannot be read.
    #[error("the certificates in {0} cannot be read")]
    File(String, #[source] Box<dyn Error + Send + Sync>),
    /// The versions of TLS that are wanted are not there.
    #[error("TLS cannot be set up")]
    Setup(#[from] rustls::Error),
}

impl Client<HyperService> {
    /// A client with this policy that trusts the system's authorities.
    ///
    /// # Errors
    /// [`TlsError`] where they cannot be read.
    pub fn new(policy: Policy) -> Result<Self, TlsError> {
        Self::with(Settings::new(policy), None)
    }

    /// A client with these settings, which trusts the authorities in this file (PEM), or without one the
    /// system's.
    ///
    /// # Errors
    /// [`TlsError`] where they cannot be read.
    pub fn with(settings: Settings, authorities: Option<&Path>) -> Result<Self, TlsError> {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        connector.set_nodelay(true);
        connector.enforce_http(false);
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls(authorities)?)
            .https_or_http()
            .enable_all_versions()
            .wrap_connector(connector);
        let service = legacy::Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            // Whether something is sent again is decided in one place.
            .retry_canceled_requests(false)
            .build(connector);
        Ok(Self::through(service, settings.reached(reached)))
    }
}

fn tls(authorities: Option<&Path>) -> Result<ClientConfig, TlsError> {
    let mut roots = RootCertStore::empty();
    match authorities {
        Some(path) => {
            let unreadable = |error: Box<dyn Error + Send + Sync>| {
                TlsError::File(path.display().to_string(), error)
            };
            let certificates = rustls_native_certs::load_certs_from_paths(Some(path), None);
            if let Some(error) = certificates.errors.into_iter().next() {
                return Err(unreadable(error.into()));
            }
            if certificates.certs.is_empty() {
                return Err(unreadable("there is none in it".into()));
            }
            add(&mut roots, certificates.certs);
        }
        None => {
            let mut found = rustls_native_certs::load_native_certs();
            // A system without any has no use for https, and may use http.
            if found.certs.is_empty()
                && let Some(error) = found.errors.pop()
            {
                return Err(TlsError::Authorities(std::io::Error::other(error)));
            }
            add(&mut roots, found.certs);
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

/// One that cannot be read is none; the others are.
fn add(roots: &mut RootCertStore, certificates: Vec<CertificateDer<'static>>) {
    roots.add_parsable_certificates(certificates);
}

/// Whether a request may have been sent, by the error of this client: not without a connection, and
/// not where hyper gave it back before it had taken it up.
fn reached(error: &(dyn Error + 'static)) -> Observation {
    let connect = error.downcast_ref::<legacy::Error>().is_some_and(legacy::Error::is_connect);
    if connect {
        return Observation::NeverSent { lasting: is_without_tls(error) };
    }
    let given_back = causes(error)
        .filter_map(|cause| cause.downcast_ref::<hyper::Error>())
        .any(hyper::Error::is_canceled);
    if given_back { Observation::NeverSent { lasting: false } } else { Observation::Lost }
}

/// Whether TLS cannot be agreed on, as with a certificate that is not trusted: that does not pass.
/// Connectors wrap its errors in those of I/O, of which each hides the next.
fn is_without_tls(error: &(dyn Error + 'static)) -> bool {
    let hidden = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
    error.is::<rustls::Error>()
        || hidden.is_some_and(|hidden| is_without_tls(hidden))
        || error.source().is_some_and(is_without_tls)
}

fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}
