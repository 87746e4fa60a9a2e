//! Where the keys of tokens come from.

use std::{io, path::PathBuf, sync::Arc, time::Duration};

use jsonwebtoken::{Algorithm, DecodingKey};
use thiserror::Error;

use super::{
    jwks::{JwksError, KeySet},
    remote::Remote,
    watched_file::{FileError, WatchedFile},
};
use crate::{
    causes::with_causes,
    config::{JwtKeySource, SecretSource},
    upstream::{BaseError, Upstream},
};

/// The keys that tokens are verified by, as they are now.
pub(super) enum JwtKeys {
    Shared(Arc<KeySet>),
    File(Arc<WatchedFile<KeySet>>),
    Remote(Arc<Remote>),
}

impl JwtKeys {
    pub(super) async fn new(
        source: &JwtKeySource,
        algorithms: &[Algorithm],
        connect_timeout: Duration,
    ) -> Result<Self, JwtKeysError> {
        let accepted = algorithms.to_vec();
        let parse = move |content: &[u8]| KeySet::parse(content, &accepted);
        Ok(match source {
            JwtKeySource::Secret(secret) => {
                let key = shared(secret, algorithms)?;
                Self::Shared(Arc::new(KeySet::shared(key, algorithms.to_vec())))
            }
            JwtKeySource::File(path) => {
                Self::File(WatchedFile::open(path, "jwks_file", parse).await?)
            }
            JwtKeySource::Url { url, refresh, keep_stale } => {
                let remote =
                    Remote::start(url, connect_timeout, *refresh, *keep_stale, parse).await?;
                Self::Remote(remote)
            }
        })
    }

    /// The keys; `None` where there are none to verify anything by.
    pub(super) fn current(&self) -> Option<Arc<KeySet>> {
        match self {
            Self::Shared(keys) => Some(Arc::clone(keys)),
            Self::File(file) => Some(file.current()),
            Self::Remote(remote) => remote.current(),
        }
    }

    /// Whether there was ever a key.
    pub(super) fn has_begun(&self) -> bool {
        match self {
            Self::Shared(_) | Self::File(_) => true,
            Self::Remote(remote) => remote.was_fetched(),
        }
    }

    /// The connections to where they are fetched.
    pub(super) fn upstream(&self) -> Option<&Upstream> {
        match self {
            Self::Shared(_) | Self::File(_) => None,
            Self::Remote(remote) => Some(remote.upstream()),
        }
    }

    /// Has them fetched again, if they were not just now. Whether they were.
    pub(super) async fn refreshed(&self) -> bool {
        match self {
            // A file is looked at all the time.
            Self::Shared(_) | Self::File(_) => false,
            Self::Remote(remote) => remote.refreshed().await,
        }
    }
}

/// The key of a secret. What is around it in a file is not part of it.
fn shared(source: &SecretSource, algorithms: &[Algorithm]) -> Result<DecodingKey, JwtKeysError> {
    let text = match source {
        SecretSource::File(path) => std::fs::read(path)
            .map_err(|why| JwtKeysError::SecretFile { path: path.clone(), why })?,
        SecretSource::Env(name) => std::env::var(name)
            .map_err(|_| JwtKeysError::SecretVariable { name: name.clone() })?
            .into_bytes(),
    };
    let secret = text.trim_ascii();
    let needed = algorithms.iter().map(|algorithm| least_secret(*algorithm)).max().unwrap_or(32);
    if secret.len() < needed {
        return Err(JwtKeysError::SecretTooShort { length: secret.len(), needed });
    }
    DecodingKey::from_secret(secret)
        .map_err(|_| JwtKeysError::SecretTooShort { length: secret.len(), needed })
}

/// The fewest bytes of a secret: as many as the hash has (RFC 7518, section 3.2).
const fn least_secret(algorithm: Algorithm) -> usize {
    match algorithm {
        Algorithm::HS384 => 48,
        Algorithm::HS512 => 64,
        _ => 32,
    }
}

/// Why there are no keys to verify tokens by.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum JwtKeysError {
    /// A key set in a file.
    #[error("{0}")]
    File(#[from] FileError<JwksError>),
    /// A URL that is none.
    #[error("{}", with_causes(.0))]
    Url(#[from] BaseError),
    /// A secret in a file.
    #[error(
        "the secret in {} cannot be read: {why}; check the path, and that this user may read it",
        path.display()
    )]
    SecretFile {
        /// Which.
        path: PathBuf,
        /// Why.
        why: io::Error,
    },
    /// A secret in a variable.
    #[error("the environment variable {name} is not set, or is not UTF-8; set it to the secret")]
    SecretVariable {
        /// Which.
        name: String,
    },
    /// A secret that could be tried out.
    #[error(
        "the secret has {length} bytes, and its algorithm needs {needed} (RFC 7518, section 3.2); \
         agree on one at random with the issuer, as from openssl rand -hex {needed}"
    )]
    SecretTooShort {
        /// How many it has.
        length: usize,
        /// How many it needs.
        needed: usize,
    },
}
