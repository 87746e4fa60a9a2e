//! What the service does with the identity that a request carries.

use std::str::FromStr;

/// How a service of the tests treats a repeated identity, and what it can be asked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Mode {
    /// It acts on every request, and cannot be asked.
    Plain,
    /// It acts on every request, and can be asked.
    Asked,
    /// As `Asked`; it can be told to refuse every attempt up to one, and refuses what comes after
    /// its `Hapax-Deadline`.
    Closing,
    /// As `Asked`; it refuses attempts that are older than one it has seen.
    Refusing,
    /// As `Asked`; it refuses a second request with an identity, without the answer to the first.
    Unique,
    /// As `Asked`; requests with one identity make one effect and get its answer.
    Collapsing,
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        Ok(match word {
            "plain" => Self::Plain,
            "asked" => Self::Asked,
            "closing" => Self::Closing,
            "refusing" => Self::Refusing,
            "unique" => Self::Unique,
            "collapsing" => Self::Collapsing,
            other => return Err(format!("unknown mode {other}")),
        })
    }
}
