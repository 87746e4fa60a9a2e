//! Where the effect secret comes from: a file, the environment, or a file made beside an embedded
//! database.
//!
//! The secret makes every effect id. It has to be the same for as long as the database is used,
//! and on every node: with another one every downstream would see new operations.

use std::{
    fs, io,
    io::Write,
    path::{Path, PathBuf},
};

use hapax_core::{EffectSecret, SecretError};
use hapax_store::{Store, StoreError};
use thiserror::Error;
use tracing::warn;

use crate::{Secrets, SecretsError};

/// The version of the only secret there is.
pub const VERSION: u32 = 1;

/// The file beside a database that holds the secret that was made for it.
///
/// ```
/// use std::path::Path;
///
/// let file = hapax::effect_secret::beside(Path::new("orders.db"));
/// assert_eq!(file, Path::new("orders.db.effect-key"));
/// ```
pub fn beside(database: &Path) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push(".effect-key");
    path.into()
}

/// The secret beside an embedded database, made now if the database was never used with any; held
/// against the store's fingerprint.
///
/// # Errors
/// [`EffectSecretError`], with its remedy.
pub async fn beside_database(
    database: &Path,
    store: &dyn Store,
) -> Result<Secrets, EffectSecretError> {
    let path = beside(database);
    let used = store.pinned_secret(VERSION).await?.is_some();
    let secret = match read(&path) {
        Err(EffectSecretError::Missing { path }) if used => {
            return Err(EffectSecretError::Lost { path });
        }
        Err(EffectSecretError::Missing { path }) => generate(&path)?,
        read => {
            let secret = read?;
            if !used {
                warn!(
                    database = %database.display(),
                    "the database is new, and the effect secret beside it is older: if there was a \
                     database with it, what that knew is forgotten, and its keys execute again"
                );
            }
            secret
        }
    };
    pinned(secret, store).await
}

/// A secret, held against the store's fingerprint.
///
/// # Errors
/// [`EffectSecretError::Pin`] when the store was used with another one.
pub async fn pinned(secret: EffectSecret, store: &dyn Store) -> Result<Secrets, EffectSecretError> {
    let secrets = Secrets::single(secret);
    secrets.pin(store).await?;
    Ok(secrets)
}

/// The secret in an environment variable.
///
/// # Errors
/// [`EffectSecretError`], with its remedy.
pub fn from_env(name: &str) -> Result<EffectSecret, EffectSecretError> {
    let text =
        std::env::var(name).map_err(|_| EffectSecretError::NoVariable { name: name.to_owned() })?;
    EffectSecret::parse(&text)
        .map_err(|why| EffectSecretError::InVariable { name: name.to_owned(), why })
}

/// The secret in a file.
///
/// # Errors
/// [`EffectSecretError`], with its remedy.
pub fn read(path: &Path) -> Result<EffectSecret, EffectSecretError> {
    match fs::read_to_string(path) {
        Ok(text) => EffectSecret::parse(&text)
            .map_err(|why| EffectSecretError::InFile { path: path.into(), why }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(EffectSecretError::Missing { path: path.into() })
        }
        Err(error) => Err(EffectSecretError::Unreadable { path: path.into(), why: error }),
    }
}

/// Makes a secret. Two processes that start at once end up with the same one: the file appears
/// whole under its name, once.
fn generate(path: &Path) -> Result<EffectSecret, EffectSecretError> {
    let mut random = [0; 32];
    getrandom::fill(&mut random).map_err(|error| EffectSecretError::NoRandomness { why: error })?;
    let secret = EffectSecret::from_bytes(random);
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let written = || -> io::Result<bool> {
        // A named temporary file is made with mode 0600.
        let mut file = tempfile::Builder::new().prefix(&unfinished(path)).tempfile_in(directory)?;
        writeln!(file, "{}", secret.to_text())?;
        file.as_file().sync_all()?;
        let made = match file.persist_noclobber(path) {
            Ok(_) => true,
            // Another process was first, and may have tidied up behind us.
            Err(_) if path.exists() => false,
            Err(error) => return Err(error.error),
        };
        fs::File::open(directory)?.sync_all()?;
        tidy_up(path, directory);
        Ok(made)
    };
    if !written().map_err(|why| EffectSecretError::Unwritable { path: path.into(), why })? {
        return read(path);
    }
    warn!(
        file = %path.display(),
        "made a new effect secret: back it up with the database; without it every upstream would \
         see new operations"
    );
    Ok(secret)
}

/// How the files begin in which a secret of this path is prepared.
fn unfinished(path: &Path) -> String {
    format!(".{}.", path.file_name().unwrap_or_default().to_string_lossy())
}

/// Removes what starts that were killed half-way left behind.
fn tidy_up(path: &Path, directory: &Path) {
    let Ok(entries) = directory.read_dir() else { return };
    let left = entries
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&unfinished(path)));
    for entry in left {
        // It holds a secret that was never used; the next start tries again.
        let _ = fs::remove_file(entry.path());
    }
}

/// Why there is no usable secret. Each message names its remedy.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum EffectSecretError {
    /// There is none where one was named.
    #[error(
        "the effect secret {path:?} is missing; make one with `openssl rand -hex 32` and give \
         every node the same"
    )]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// It is gone, and the store was used with it.
    #[error(
        "the effect secret {path:?} is missing, but the database was used with one; restore that \
         file from your backup: with a new secret every upstream would see new operations"
    )]
    Lost {
        /// The file.
        path: PathBuf,
    },
    /// It cannot be read.
    #[error("the effect secret {path:?} cannot be read: {why}; check its permissions")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        why: io::Error,
    },
    /// It cannot be written.
    #[error("the effect secret {path:?} cannot be written: {why}; check its directory")]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// Why.
        why: io::Error,
    },
    /// The file holds something else.
    #[error("the effect secret {path:?} is not one: {why}")]
    InFile {
        /// The file.
        path: PathBuf,
        /// Why.
        why: SecretError,
    },
    /// The variable is not set.
    #[error("the environment variable {name} with the effect secret is not set; set it")]
    NoVariable {
        /// The variable.
        name: String,
    },
    /// The variable holds something else.
    #[error("the environment variable {name} holds no effect secret: {why}")]
    InVariable {
        /// The variable.
        name: String,
        /// Why.
        why: SecretError,
    },
    /// None can be made.
    #[error("the system gave no randomness for an effect secret: {why}")]
    NoRandomness {
        /// Why.
        why: getrandom::Error,
    },
    /// It is not the one that the store was used with.
    #[error(transparent)]
    Pin(#[from] SecretsError),
    /// The store could not be asked.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl EffectSecretError {
    /// What is wrong, for one who only looks: making a secret would be no remedy then.
    pub fn without_remedy(&self) -> String {
        match self {
            Self::Missing { path } | Self::Lost { path } => {
                format!("there is no effect secret in {}", path.display())
            }
            other => other.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generated_secret_is_private_and_made_once() {
        let directory = tempfile::tempdir().expect("directory");
        let path = directory.path().join("h.db.effect-key");
        let killed = directory.path().join(".h.db.effect-key.x");
        fs::write(killed, "unfinished").expect("written");
        let first = generate(&path).expect("made");
        assert_eq!(generate(&path).expect("read"), first);
        assert_eq!(read(&path).expect("read"), first);
        let mode =
            std::os::unix::fs::PermissionsExt::mode(&path.metadata().expect("there").permissions());
        assert_eq!(mode & 0o777, 0o600);
        let left: Vec<_> = directory.path().read_dir().expect("readable").collect();
        assert_eq!(left.len(), 1, "no temporary file is left");
    }

    #[test]
    fn the_secrets_file_stands_beside_its_database() {
        assert_eq!(beside(Path::new("a/h.db")), Path::new("a/h.db.effect-key"));
    }
}
