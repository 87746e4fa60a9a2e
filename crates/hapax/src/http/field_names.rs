//! The header fields that a policy names.

use std::sync::Arc;

use hapax_core::OperationPolicy;
use http::HeaderName;
use thiserror::Error;

/// The header fields that an operation's policy names, ready to be looked up. Cheap to clone.
#[derive(Clone, Debug)]
pub struct FieldNames {
    /// Which one carries the key?
    pub key: HeaderName,
    /// Which ones are part of the intent, beside what every fingerprint covers?
    pub compared: Arc<[HeaderName]>,
    /// Which ones of an answer are replayed beside the standard ones?
    pub replayed: Arc<[HeaderName]>,
}

impl FieldNames {
    /// The names in a policy.
    ///
    /// # Errors
    /// [`NotAHeader`] for the first that cannot be one.
    pub fn of(policy: &OperationPolicy) -> Result<Self, NotAHeader> {
        Ok(Self {
            key: parse(&policy.key.header)?,
            compared: parse_all(&policy.fingerprint.headers)?,
            replayed: parse_all(&policy.replay_headers)?,
        })
    }
}

/// A policy names what cannot be a header.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[error("{0:?} cannot be a header's name; name one such as X-Account")]
pub struct NotAHeader(
    /// What it names.
    pub String,
);

fn parse(name: &str) -> Result<HeaderName, NotAHeader> {
    HeaderName::try_from(name).map_err(|_| NotAHeader(name.to_owned()))
}

fn parse_all(names: &[String]) -> Result<Arc<[HeaderName]>, NotAHeader> {
    names.iter().map(|name| parse(name)).collect()
}
