//! TLS to the services.

use std::{fmt, sync::Arc};

use rustls::{ClientConfig, RootCertStore, client::Resumption, pki_types::ServerName};

use super::{
    ALPN, PemSource, TlsError, pem, provider,
    reloading::{Ready, Recipe, Reloading},
};

/// How a service is checked, and what we show it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct UpstreamTlsConfig {
    /// The authorities that vouch for the service, in place of the system's.
    pub ca: Option<PemSource>,
    /// The certificate chain that we show, and its private key.
    pub client: Option<(PemSource, PemSource)>,
    /// The name that its certificate is checked for. Default: the host of its address.
    pub server_name: Option<String>,
}

/// The TLS of one service. Clones share it.
#[derive(Clone)]
pub struct UpstreamTls {
    service: Arc<str>,
    name: ServerName<'static>,
    reloading: Arc<Reloading<UpstreamTlsConfig>>,
}

/// The two ways to shake hands: with a choice of protocols, and for HTTP/1.1 alone.
#[derive(Debug)]
pub(super) struct Configs {
    any: Arc<ClientConfig>,
    http_1: Arc<ClientConfig>,
}

impl UpstreamTls {
    /// Reads authorities, certificate and key for a service at this host.
    ///
    /// # Errors
    /// [`TlsError`] names the file, what is wrong with it, and the remedy.
    pub fn load(host: &str, config: UpstreamTlsConfig) -> Result<Self, TlsError> {
        let name = config.server_name.as_deref().unwrap_or(host).to_owned();
        let name = ServerName::try_from(name.clone()).map_err(|_| TlsError::ServerName { name })?;
        Ok(Self { service: host.into(), name, reloading: Arc::new(Reloading::load(config)?) })
    }

    /// The name that its certificate is checked for.
    pub(crate) fn name(&self) -> ServerName<'static> {
        self.name.clone()
    }

    /// For a handshake that may end in either protocol.
    pub(crate) fn config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.reloading.current().any)
    }

    /// For a handshake that ends in HTTP/1.1.
    pub(crate) fn http_1(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.reloading.current().http_1)
    }

    pub(super) fn service(&self) -> &str {
        &self.service
    }

    pub(super) fn reloading(&self) -> &Reloading<UpstreamTlsConfig> {
        &self.reloading
    }
}

impl fmt::Debug for UpstreamTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let recipe = self.reloading.recipe();
        f.debug_struct("UpstreamTls").field("name", &self.name).field("config", recipe).finish()
    }
}

impl Recipe for UpstreamTlsConfig {
    type Made = Configs;

    fn sources(&self) -> Vec<&PemSource> {
        let client = self.client.iter().flat_map(|(certificate, key)| [certificate, key]);
        client.chain(&self.ca).collect()
    }

    fn make(&self, texts: &[Vec<u8>]) -> Result<Ready<Configs>, TlsError> {
        let mut texts = texts.iter().map(Vec::as_slice);
        let mut next = || texts.next().unwrap_or_default();
        let client = match &self.client {
            None => None,
            Some((certificate, key)) => {
                let chain = certificate.certificates(next())?;
                Some((chain, key.private_key(next())?))
            }
        };
        let roots = match &self.ca {
            None => system_roots()?,
            Some(ca) => ca.roots(next())?,
        };
        let expires = client.as_ref().and_then(|(chain, _)| pem::expiry(chain));
        let place =
            || self.ca.as_ref().map_or_else(|| "the system".to_owned(), PemSource::to_string);
        let builder = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError::Authorities { place: place(), reason: error.to_string() })?
            .with_root_certificates(roots);
        let mut any = match client {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => builder
                .with_client_auth_cert(chain, key)
                .map_err(|error| self.wrong_pair(&error))?,
        };
        any.alpn_protocols = ALPN.map(<[u8]>::to_vec).into();
        any.enable_early_data = false;
        let mut http_1 = any.clone();
        http_1.alpn_protocols = vec![b"http/1.1".to_vec()];
        // Tickets of one protocol are no use to the other.
        http_1.resumption = Resumption::in_memory_sessions(32);
        let made = Configs { any: Arc::new(any), http_1: Arc::new(http_1) };
        Ok(Ready { made: Arc::new(made), expires })
    }
}

impl UpstreamTlsConfig {
    fn wrong_pair(&self, error: &rustls::Error) -> TlsError {
        let places = self.client.as_ref();
        let places = places.map(|(certificate, key)| (certificate.to_string(), key.to_string()));
        let (certificate, key) = places.unwrap_or_default();
        TlsError::Pair { certificate, key, reason: error.to_string() }
    }
}

/// The authorities that this system trusts, as its owner keeps them.
fn system_roots() -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    // One that cannot be read is no reason to do without the others.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() { Err(TlsError::NoSystemRoots) } else { Ok(roots) }
}
