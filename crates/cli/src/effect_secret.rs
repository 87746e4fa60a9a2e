//! Where the effect secret comes from.

use std::{
    fs, io,
    io::Write,
    path::{Path, PathBuf},
};

use hapax::Secrets;
use hapax_core::{EffectSecret, SecretError};
use hapax_gateway::config::EffectSecretSource;
use hapax_store::{Store, StoreError};
use tracing::warn;

/// The version of the only secret this configuration knows.
pub(crate) const VERSION: u32 = 1;

/// The file beside a database that holds its generated secret.
pub(crate) fn beside(database: &Path) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push(".effect-key");
    path.into()
}

/// Loads the secret, making one beside an embedded database that was never used with any.
pub(crate) async fn load(
    source: &EffectSecretSource,
    database: &Path,
    store: &dyn Store,
) -> Result<Secrets, Error> {
    let secret = match source {
        EffectSecretSource::File(path) => read(path)?,
        EffectSecretSource::Env(name) => from_env(name)?,
        EffectSecretSource::Generated => {
            let path = beside(database);
            let used = store.pinned_secret(VERSION).await?.is_some();
            match read(&path) {
                Err(Error::Missing { path }) if used => return Err(Error::Lost { path }),
                Err(Error::Missing { path }) => generate(&path)?,
                read => read?,
            }
        }
    };
    let secrets = Secrets::single(secret);
    secrets.pin(store).await?;
    Ok(secrets)
}

/// The secret of a database, if it can be read, for showing effect ids. Makes none, and does not
/// compare it with the store's fingerprint.
pub(crate) fn peek(database: &Path, source: &EffectSecretSource) -> Result<EffectSecret, Error> {
    match source {
        EffectSecretSource::File(path) => read(path),
        EffectSecretSource::Env(name) => from_env(name),
        EffectSecretSource::Generated => read(&beside(database)),
    }
}

fn from_env(name: &str) -> Result<EffectSecret, Error> {
    let text = std::env::var(name).map_err(|_| Error::NoVariable { name: name.to_owned() })?;
    EffectSecret::parse(&text).map_err(|why| Error::InVariable { name: name.to_owned(), why })
}

fn read(path: &Path) -> Result<EffectSecret, Error> {
    match fs::read_to_string(path) {
        Ok(text) => {
            EffectSecret::parse(&text).map_err(|why| Error::InFile { path: path.into(), why })
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(Error::Missing { path: path.into() })
        }
        Err(error) => Err(Error::Unreadable { path: path.into(), why: error }),
    }
}

/// Makes a secret. Two processes that start at once end up with the same one: the file appears
/// whole under its name, once.
fn generate(path: &Path) -> Result<EffectSecret, Error> {
    let mut random = [0; 32];
    getrandom::fill(&mut random).map_err(|error| Error::NoRandomness { why: error })?;
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
    if !written().map_err(|why| Error::Unwritable { path: path.into(), why })? {
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
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(
        "the effect secret {path:?} is missing; make one with `openssl rand -hex 32` and give \
         every node the same"
    )]
    Missing { path: PathBuf },
    #[error(
        "the effect secret {path:?} is missing, but the database was used with one; restore that \
         file from your backup: with a new secret every upstream would see new operations"
    )]
    Lost { path: PathBuf },
    #[error("the effect secret {path:?} cannot be read: {why}; check its permissions")]
    Unreadable { path: PathBuf, why: io::Error },
    #[error("the effect secret {path:?} cannot be written: {why}; check its directory")]
    Unwritable { path: PathBuf, why: io::Error },
    #[error("the effect secret {path:?} is not one: {why}")]
    InFile { path: PathBuf, why: SecretError },
    #[error("the environment variable {name} with the effect secret is not set; set it")]
    NoVariable { name: String },
    #[error("the environment variable {name} holds no effect secret: {why}")]
    InVariable { name: String, why: SecretError },
    #[error("the system gave no randomness for an effect secret: {why}")]
    NoRandomness { why: getrandom::Error },
    #[error(transparent)]
    Pin(#[from] hapax::SecretsError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Error {
    /// What is wrong, for one who only looks: making a secret would be no remedy then.
    pub(crate) fn without_remedy(&self) -> String {
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
