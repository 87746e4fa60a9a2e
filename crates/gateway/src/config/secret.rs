//! Where a secret is: never in the configuration itself.

use std::path::PathBuf;

use super::{Fault, section::Value};

/// Where a secret is. No value of it is ever in the configuration.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum SecretSource {
    /// In this file; relative to the working directory.
    File(PathBuf),
    /// In this environment variable.
    Env(String),
}

impl SecretSource {
    /// Reads `{ file = … }` or `{ env = … }`; the examples are for remedies.
    pub(super) fn read(value: Value<'_>, file_example: &str, env_example: &str) -> Option<Self> {
        let remedy = format!("write {{ file = {file_example:?} }} or {{ env = {env_example:?} }}");
        if !value.is_table() {
            let what = "a secret does not stand in the configuration itself";
            value.wrong(Fault::new(what, remedy));
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
                path.map(|path| Self::File(path.value))
            }
            (None, Some(env)) => {
                let name = env.parse("a variable's name", env_example, |text| {
                    let wrong = text.is_empty() || text.contains(['=', '\0']);
                    let what = "it is not the name of an environment variable";
                    if wrong { Err(Fault::new(what, &*remedy)) } else { Ok(text.to_owned()) }
                });
                name.map(|name| Self::Env(name.value))
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
}
