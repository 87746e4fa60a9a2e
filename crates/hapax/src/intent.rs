//! What a caller wants, as a door hands it over.

use bytes::Bytes;
use hapax_core::{BodyInvalid, Fingerprint, Fingerprinter, IntentParts, OperationName};

/// The facts of a request that make its intent: all that a fingerprint is computed from.
///
/// They are kept while the intent is decided, because a record is compared under the version it
/// was stored with, which need not be the present one.
#[derive(Clone, Debug)]
pub struct Intent {
    /// The method.
    pub method: String,
    /// What of the path is part of the intent: what the operation's route leaves open, or all of it.
    pub path: String,
    /// The query, as sent, without its question mark.
    pub query: Option<String>,
    /// The value of Content-Type.
    pub media_type: Option<Bytes>,
    /// Field names (lower case) and values of the headers that a fingerprint may select, in order.
    pub headers: Vec<(String, Bytes)>,
    /// The whole body.
    pub body: Bytes,
}

impl Intent {
    /// The fingerprint under the rules of `fingerprinter`.
    pub(crate) fn fingerprint(
        &self,
        operation: &OperationName,
        fingerprinter: &Fingerprinter,
    ) -> Result<Fingerprint, BodyInvalid> {
        let headers: Vec<(&str, &[u8])> =
            self.headers.iter().map(|(name, value)| (name.as_str(), &value[..])).collect();
        fingerprinter.fingerprint(&IntentParts {
            operation: operation.as_str(),
            method: &self.method,
            path: &self.path,
            query: self.query.as_deref(),
            media_type: self.media_type.as_deref(),
            headers: &headers,
            body: &self.body,
        })
    }
}
