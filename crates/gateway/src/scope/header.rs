//! The scope in a header, which a trusted proxy sets.

use hapax::http::headers::{ends_here, only};
use hapax_core::Scope;
use http::{HeaderName, request::Parts};

use super::refused::Refused;
use crate::forwarded::Caller;

/// The header that says whose a request is.
pub(crate) struct Header {
    name: HeaderName,
}

impl Header {
    pub(super) const fn new(name: HeaderName) -> Self {
        Self { name }
    }

    pub(super) const fn name(&self) -> &HeaderName {
        &self.name
    }

    pub(super) fn wanted(&self) -> String {
        format!("The request needs exactly one {} header saying whose it is.", self.name)
    }

    /// One line of it, from somebody who is believed, and none that ends at this hop: the service
    /// sees what was taken.
    pub(super) fn scope(&self, head: &Parts) -> Result<Scope, Refused> {
        let headers = &head.headers;
        if !headers.contains_key(&self.name) {
            return Err(Refused::Missing);
        }
        let line = only(headers, &self.name).filter(|_| !ends_here(headers, &self.name));
        let line = line.filter(|_| Caller::scope_is_believed(head)).ok_or(Refused::Malformed)?;
        Scope::principal(line.as_bytes().trim_ascii()).map_err(|_| Refused::Malformed)
    }
}
