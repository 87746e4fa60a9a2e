//! What a configuration is, and every way in which it can be wrong.

mod authorize;
mod combinations;
mod documents;
mod flags;
mod operations;
mod robustness;
mod routing;
mod scope;
mod top_level;
mod transport;
mod unknown;

use std::time::Duration;

use super::*;

/// A file that is right, with lines before and behind its three.
fn file(above: &str, below: &str) -> String {
    format!(
        "{above}scope = {{ single_tenant = true }}\n[[service]]\nupstream = \"http://a:1\"\n{below}"
    )
}

/// A file with one operation and these settings of it, the first on line 7.
fn operation(settings: &str) -> String {
    file("", &format!("[[operation]]\nname = \"pay\"\nroutes = [\"POST /pay\"]\n{settings}"))
}

fn load(text: &str, flags: &Flags) -> Result<Config, ConfigError> {
    Config::from_text(Path::new("f.toml"), text, flags, Environment::default())
}

/// What is wrong with a file, as it is shown.
fn errors(text: &str) -> String {
    match load(text, &Flags::default()) {
        Ok(_) => "nothing".to_owned(),
        Err(error) => error.to_string(),
    }
}

/// The only operation of a file with these settings of it.
fn only_operation(settings: &str) -> OperationPolicy {
    let config = load(&operation(settings), &Flags::default()).expect(settings);
    config.operations.first().expect("an operation").policy.clone()
}
