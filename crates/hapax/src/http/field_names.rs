//! The header fields that a policy names.

use std::sync::Arc;

use hapax_core::{KeySource, OperationPolicy, Pointer};
use http::HeaderName;
use thiserror::Error;

/// The header fields that an operation's policy names, ready to be looked up. Cheap to clone.
#[derive(Clone, Debug)]
pub struct FieldNames {
    /// Where is the key?
    pub key: KeyPlace,
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
            key: KeyPlace::of(&policy.key.from)?,
            compared: parse_all(&policy.fingerprint.headers)?,
            replayed: parse_all(&policy.replay_headers)?,
        })
    }
}

/// Where a request's key is, ready to be looked up.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum KeyPlace {
    /// In this field.
    Header(HeaderName),
    /// At this place of the body.
    Body(Pointer),
}

impl KeyPlace {
    fn of(source: &KeySource) -> Result<Self, NotAHeader> {
        Ok(match source {
            KeySource::Header(name) => Self::Header(parse(name)?),
            KeySource::Body(place) => Self::Body(place.clone()),
        })
    }

    /// The field, if it is in one.
    pub const fn header(&self) -> Option<&HeaderName> {
        match self {
            Self::Header(name) => Some(name),
            Self::Body(_) => None,
        }
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
