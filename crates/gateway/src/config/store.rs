//! Where records live, and where the secret of effect ids comes from.

use std::path::PathBuf;

use super::{Fault, section::Value};

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

/// Where a secret comes from that is never in the configuration itself.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum SecretSource {
    /// This file; relative to the working directory.
    File(PathBuf),
    /// This environment variable.
    Env(String),
}

impl From<SecretSource> for EffectSecretSource {
    fn from(source: SecretSource) -> Self {
        match source {
            SecretSource::File(path) => Self::File(path),
            SecretSource::Env(name) => Self::Env(name),
        }
    }
}

pub(super) fn read_effect_secret(value: Value<'_>) -> Option<EffectSecretSource> {
    read_secret(value, "/etc/hapax/effect.key", "EFFECT_SECRET").map(Into::into)
}

/// Reads `{ file = … }` or `{ env = … }`; the examples are for the remedy.
pub(super) fn read_secret(
    value: Value<'_>,
    file_example: &str,
    env_example: &str,
) -> Option<SecretSource> {
    let remedy = format!("write {{ file = {file_example:?} }} or {{ env = {env_example:?} }}");
    if !value.is_table() {
        value.wrong(Fault::new("a secret does not stand in the configuration itself", remedy));
        return None;
    }
    let mut section = value.section(&format!("{{ file = {file_example:?} }}"))?;
    let file = section.take("file");
    let env = section.take("env");
    let source = match (file, env) {
        (Some(file), None) => {
            let path = file.parse("a path", file_example, |text| match text {
                "" => Err(Fault::new("the path is empty", &*remedy)),
                _ => Ok(text.into()),
            });
            path.map(|path| SecretSource::File(path.value))
        }
        (None, Some(env)) => {
            let name = env.parse("a variable's name", env_example, |text| {
                let wrong = text.is_empty() || text.contains(['=', '\0']);
                let fault =
                    || Fault::new("it is not the name of an environment variable", &*remedy);
                if wrong { Err(fault()) } else { Ok(text.to_owned()) }
            });
            name.map(|name| SecretSource::Env(name.value))
        }
        (Some(_), Some(_)) => {
            section.wrong("it names a file and a variable", remedy);
            None
        }
        (None, None) => {
            section.wrong("it names neither a file nor a variable", remedy);
            None
        }
    };
    section.finish();
    source
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
