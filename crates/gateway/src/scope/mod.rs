//! Step 2, whose a request is: by a trusted header, a verified token, an API key or a client's
//! certificate. A request that does not say it is refused, never put into a common scope.

mod api_key;
mod api_key_file;
mod certificate;
mod credential;
mod fetch;
mod header;
mod jwks;
mod jwt;
mod jwt_keys;
mod refused;
mod remote;
mod verified;
mod watched_file;

use std::time::Duration;

use hapax_core::{Problem, Scope};
use http::{HeaderName, request::Parts};
use thiserror::Error;
use tracing::debug;

use self::{api_key::ApiKeys, header::Header, jwt::Jwt, refused::Refused};
pub use self::{
    api_key_file::{ApiKeyEntry, ApiKeyError, ApiKeyFileError},
    jwks::JwksError,
    jwt_keys::JwtKeysError,
    watched_file::FileError,
};
use crate::{
    config::{CertificateField, ScopeSource},
    upstream::Upstream,
};

/// Finds out whose a request is.
pub(crate) enum Scopes {
    SingleTenant,
    Header(Header),
    Jwt(Box<Jwt>),
    ApiKey(ApiKeys),
    ClientCertificate(CertificateField),
}

impl Scopes {
    /// Reads what the source needs. Files that it names have to be there and right; a URL may
    /// answer later.
    pub(crate) async fn new(
        source: &ScopeSource,
        connect_timeout: Duration,
    ) -> Result<Self, ScopeSourceError> {
        Ok(match source {
            ScopeSource::SingleTenant => Self::SingleTenant,
            ScopeSource::Header(name) => Self::Header(Header::new(name.clone())),
            ScopeSource::Jwt(source) => {
                Self::Jwt(Box::new(Jwt::new(source, connect_timeout).await?))
            }
            ScopeSource::ApiKey(source) => Self::ApiKey(ApiKeys::open(source).await?),
            ScopeSource::ClientCertificate(field) => Self::ClientCertificate(*field),
        })
    }

    /// Whether what it needs is read again when it changes. A secret is not: it is read when the
    /// configuration is.
    pub(crate) const fn is_kept_up_to_date(&self) -> bool {
        match self {
            Self::Jwt(jwt) => jwt.is_kept_up_to_date(),
            _ => true,
        }
    }

    /// Whether callers can be found out: the keys behind a URL may not be there yet. Later, when
    /// they are too old, every instance is in the same position.
    pub(crate) fn has_begun(&self) -> bool {
        match self {
            Self::Jwt(jwt) => jwt.has_begun(),
            _ => true,
        }
    }

    /// The connections to where keys are fetched.
    pub(crate) fn upstream(&self) -> Option<&Upstream> {
        match self {
            Self::Jwt(jwt) => jwt.upstream(),
            _ => None,
        }
    }

    /// The field that says whose a request is and proves nothing: only a trusted proxy's is
    /// believed.
    pub(crate) const fn trusted_header(&self) -> Option<&HeaderName> {
        match self {
            Self::Header(header) => Some(header.name()),
            _ => None,
        }
    }

    /// The field that the scope is taken from.
    pub(crate) const fn header(&self) -> Option<&HeaderName> {
        match self {
            Self::SingleTenant | Self::ClientCertificate(_) => None,
            Self::Header(header) => Some(header.name()),
            Self::Jwt(jwt) => Some(jwt.header()),
            Self::ApiKey(keys) => Some(keys.header()),
        }
    }

    /// Whose a request is, by what is known now.
    pub(crate) fn scope(&self, head: &Parts) -> Result<Scope, Problem> {
        self.find(head).map_err(|refused| self.problem(&refused))
    }

    /// Whose a request is. Where its token names a key that is not known yet, or none is, the keys
    /// are fetched first, if they were not just now.
    pub(crate) async fn scope_after_refresh(&self, head: &Parts) -> Result<Scope, Problem> {
        let mut found = self.find(head);
        if let (Self::Jwt(jwt), Err(Refused::UnknownKey | Refused::Unavailable)) = (self, &found)
            && jwt.refreshed().await
        {
            found = self.find(head);
        }
        found.map_err(|refused| {
            refused.count(self.name());
            debug!(source = self.name(), reason = refused.reason(), "whose a request is");
            self.problem(&refused)
        })
    }

    fn find(&self, head: &Parts) -> Result<Scope, Refused> {
        match self {
            Self::SingleTenant => Ok(Scope::single_tenant()),
            Self::Header(header) => header.scope(head),
            Self::Jwt(jwt) => jwt.scope(&head.headers),
            Self::ApiKey(keys) => keys.scope(&head.headers),
            Self::ClientCertificate(field) => certificate::scope(head, *field),
        }
    }

    fn problem(&self, refused: &Refused) -> Problem {
        match self {
            Self::Header(header) => refused.problem(header.wanted()),
            Self::Jwt(_) => refused.problem_of_bearer(),
            Self::ApiKey(keys) => refused.problem(keys.wanted()),
            Self::ClientCertificate(field) => refused.problem(certificate::wanted(*field)),
            Self::SingleTenant => refused.problem("The request has no owner.".to_owned()),
        }
    }

    /// As it is in metrics.
    const fn name(&self) -> &'static str {
        match self {
            Self::SingleTenant => "single_tenant",
            Self::Header(_) => "header",
            Self::Jwt(_) => "jwt",
            Self::ApiKey(_) => "api_key",
            Self::ClientCertificate(_) => "client_certificate",
        }
    }
}

/// Why whose a request is cannot be found out as the configuration says.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ScopeSourceError {
    /// The keys of tokens.
    #[error("the keys that tokens are verified by: {0}")]
    JwtKeys(#[from] JwtKeysError),
    /// The file of API keys.
    #[error("the file of API keys: {0}")]
    ApiKeys(#[from] FileError<ApiKeyFileError>),
}
