//! `hapax keys`: entries for the file of API keys.

use std::{
    io::{BufRead, IsTerminal, Read, Write},
    process::ExitCode,
};

use clap::{Args, Subcommand};
use hapax_gateway::scope::ApiKeyEntry;

use crate::failure::Failure;

/// Makes entries for the file of API keys.
#[derive(Debug, Subcommand)]
pub(crate) enum Keys {
    /// Print the entry of a key, which is read from standard input.
    #[command(after_help = HELP)]
    Hash(Hash),
}

const HELP: &str = "\
Example:
  openssl rand -hex 24 | tee acme.key | hapax keys hash acme >> api-keys

The entry holds the SHA-256 of the key, and the key cannot be found out from it. The file is named by
scope = { api_key = { keys_file = \"api-keys\" } }, and a running gateway reads it again when it
changes. To replace a key, add an entry with the same name, and remove the old one later: what was
done under one key is known under the other.";

#[derive(Args, Debug)]
pub(crate) struct Hash {
    /// Whose the key is: the scope of its requests.
    name: String,
}

/// The longest line that is read: more than any header carries.
const MOST: u64 = 64 * 1024;

/// Runs the command.
pub(crate) fn run(command: Keys) -> Result<ExitCode, Failure> {
    let Keys::Hash(Hash { name }) = command;
    let mut input = std::io::stdin().lock();
    if input.is_terminal() {
        // Whoever closed standard error does not want to know.
        let _ = writeln!(std::io::stderr(), "the key, and then Enter:");
    }
    let mut key = Vec::new();
    let read = input.by_ref().take(MOST).read_until(b'\n', &mut key);
    read.map_err(|error| Failure::new(1, format!("standard input cannot be read: {error}")))?;
    let key = String::from_utf8_lossy(&key);
    let entry = ApiKeyEntry::new(&name, key.trim()).map_err(Failure::start)?;
    writeln!(std::io::stdout(), "{entry}")
        .map_err(|error| Failure::new(1, format!("standard output cannot be written: {error}")))?;
    Ok(ExitCode::SUCCESS)
}
