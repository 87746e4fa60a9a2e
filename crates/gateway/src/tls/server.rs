//! TLS for those who connect to us.

use std::{fmt, sync::Arc};

use rustls::{
    ServerConfig,
    server::{NoServerSessionStorage, WebPkiClientVerifier, danger::ClientCertVerifier},
};

use super::{
    ALPN, PemSource, TlsError, pem, provider,
    reloading::{Ready, Recipe, Reloading},
};

/// What a listener shows and asks for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ServerTlsConfig {
    /// The certificate chain, our own first.
    pub certificate: PemSource,
    /// Its private key.
    pub key: PemSource,
    /// Whether those who connect show certificates of their own. Default: they are not asked.
    pub clients: Option<Clients>,
}

/// Which certificates those who connect may show.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Clients {
    /// The authorities that vouch for them.
    pub ca: PemSource,
    /// Whether one without a certificate is refused. One that shows a certificate of no such
    /// authority is always refused.
    pub required: bool,
}

/// The TLS of one listener. Clones share it.
#[derive(Clone)]
pub struct ServerTls {
    listener: &'static str,
    reloading: Arc<Reloading<ServerTlsConfig>>,
}

impl ServerTls {
    /// Reads certificate, key and authorities. `listener` is its name in logs and metrics.
    ///
    /// # Errors
    /// [`TlsError`] names the file, what is wrong with it, and the remedy.
    pub fn load(listener: &'static str, config: ServerTlsConfig) -> Result<Self, TlsError> {
        Ok(Self { listener, reloading: Arc::new(Reloading::load(config)?) })
    }

    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        self.reloading.current()
    }

    pub(super) const fn listener(&self) -> &'static str {
        self.listener
    }

    pub(super) fn reloading(&self) -> &Reloading<ServerTlsConfig> {
        &self.reloading
    }
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ServerTls").field(self.reloading.recipe()).finish()
    }
}

impl Recipe for ServerTlsConfig {
    type Made = ServerConfig;

    fn sources(&self) -> Vec<&PemSource> {
        let own = [&self.certificate, &self.key];
        own.into_iter().chain(self.clients.as_ref().map(|clients| &clients.ca)).collect()
    }

    fn make(&self, texts: &[Vec<u8>]) -> Result<Ready<ServerConfig>, TlsError> {
        let text = |at: usize| texts.get(at).map_or(&[][..], Vec::as_slice);
        let chain = self.certificate.certificates(text(0))?;
        let key = self.key.private_key(text(1))?;
        let expires = pem::expiry(&chain);
        let builder = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| self.wrong_pair(&error))?;
        let builder = match &self.clients {
            None => builder.with_no_client_auth(),
            Some(clients) => builder.with_client_cert_verifier(clients.verifier(text(2))?),
        };
        let mut made =
            builder.with_single_cert(chain, key).map_err(|error| self.wrong_pair(&error))?;
        made.alpn_protocols = ALPN.map(<[u8]>::to_vec).into();
        // Early data can be replayed by whoever recorded it.
        made.max_early_data_size = 0;
        if self.clients.is_some() {
            // A session that is resumed shows no certificate again, also one that has expired.
            made.session_storage = Arc::new(NoServerSessionStorage {});
            made.send_tls13_tickets = 0;
        }
        Ok(Ready { made: Arc::new(made), expires })
    }
}

impl ServerTlsConfig {
    fn wrong_pair(&self, error: &rustls::Error) -> TlsError {
        TlsError::Pair {
            certificate: self.certificate.to_string(),
            key: self.key.to_string(),
            reason: error.to_string(),
        }
    }
}

impl Clients {
    fn verifier(&self, text: &[u8]) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
        let roots = Arc::new(self.ca.roots(text)?);
        let builder = WebPkiClientVerifier::builder_with_provider(roots, provider());
        let builder = if self.required { builder } else { builder.allow_unauthenticated() };
        builder.build().map_err(|error| TlsError::Authorities {
            place: self.ca.to_string(),
            reason: error.to_string(),
        })
    }
}
