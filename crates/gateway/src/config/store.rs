//! Where records live, and where the secret of effect ids comes from.

use std::path::PathBuf;

use super::{Fault, SecretSource, section::Value};

/// Where records live.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum StoreLocation {
    /// The path of an SQLite database; relative to the working directory.
    Sqlite(PathBuf),
}

impl StoreLocation {
    /// Reads `sqlite:PATH`. What `--store` means wherever there is such a flag.
    ///
    /// # Errors
    /// Any other text. It is never repeated: a database's address may hold a password.
    pub fn parse(text: &str) -> Result<Self, Fault> {
        const EXAMPLE: &str = "name a file, such as \"sqlite:hapax.db\"";
        let wrong = |what: &str| Err(Fault::new(what, EXAMPLE));
        let Some((scheme, rest)) = text.split_once(':') else {
            return wrong("a store is written sqlite:PATH");
        };
        match scheme {
            "sqlite" => {}
            "postgres" | "postgresql" | "mysql" | "mariadb" => {
                return wrong(
                    "this version of hapax keeps its records in SQLite; \
                     PostgreSQL and MySQL come with a later one",
                );
            }
            _ => return wrong("a store is written sqlite:PATH"),
        }
        let path = rest.strip_prefix("//").unwrap_or(rest);
        match path {
            "" => wrong("the path of the database is missing"),
            ":memory:" => wrong("a database in memory forgets every claim when the process ends"),
            _ if path.contains(['?', '#', '\0']) => {
                wrong("the path of the database takes no parameters")
            }
            _ => Ok(Self::Sqlite(PathBuf::from(path))),
        }
    }
}

/// Where the secret of effect ids comes from. It is the same for the life of a database, and no
/// value of it is ever in the configuration itself.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum EffectSecretSource {
    /// Made at the first start, kept beside the database as `<database>.effect-key`.
    #[default]
    Generated,
    /// In this file; relative to the working directory.
    File(PathBuf),
    /// In this environment variable.
    Env(String),
}

pub(super) fn read_effect_secret(value: Value<'_>) -> Option<EffectSecretSource> {
    let source = SecretSource::read(value, "/etc/hapax/effect.key", "EFFECT_SECRET")?;
    Some(match source {
        SecretSource::File(path) => EffectSecretSource::File(path),
        SecretSource::Env(name) => EffectSecretSource::Env(name),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_taken_with_and_without_slashes() {
        for (text, path) in [
            ("sqlite:hapax.db", "hapax.db"),
            ("sqlite:/var/lib/hapax.db", "/var/lib/hapax.db"),
            ("sqlite:///var/lib/hapax.db", "/var/lib/hapax.db"),
            ("sqlite://hapax.db", "hapax.db"),
        ] {
            assert_eq!(StoreLocation::parse(text), Ok(StoreLocation::Sqlite(path.into())));
        }
    }

    #[test]
    fn what_is_no_store_is_refused_without_repeating_it() {
        for (text, what) in [
            ("hapax.db", "a store is written sqlite:PATH"),
            ("redis://:hunter2@cache", "a store is written sqlite:PATH"),
            (
                "postgres://app:hunter2@db/hapax",
                "this version of hapax keeps its records in SQLite; PostgreSQL and MySQL come \
                 with a later one",
            ),
            ("sqlite:", "the path of the database is missing"),
            ("sqlite::memory:", "a database in memory forgets every claim when the process ends"),
            ("sqlite:x?mode=ro", "the path of the database takes no parameters"),
        ] {
            let fault = StoreLocation::parse(text).unwrap_err();
            assert_eq!(fault.what, what, "{text}");
            assert!(!fault.to_string().contains("hunter2"));
        }
    }
}
