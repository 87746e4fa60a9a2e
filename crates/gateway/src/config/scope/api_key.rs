//! `scope = { api_key = … }`: the name of the API key that a request carries.

use std::path::PathBuf;

use http::HeaderName;

use crate::config::{At, header, section::Value};

/// API keys, and the file that knows them.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ApiKeySource {
    /// The field the key is in. Default: `x-api-key`. In `authorization` it stands behind a
    /// scheme, such as `Bearer`.
    pub header: HeaderName,
    /// The file with the digests of all keys; relative to the working directory. It is read again
    /// when it changes.
    pub keys_file: PathBuf,
}

pub(super) fn read(value: Value<'_>) -> Option<ApiKeySource> {
    const EXAMPLE: &str = "{ header = \"x-api-key\", keys_file = \"api-keys\" }";
    let mut section = value.section(EXAMPLE)?;
    let header = match section.take("header") {
        Some(name) => name.parse("a header name", "x-api-key", header::credential),
        None => {
            Some(At { place: section.place().clone(), value: HeaderName::from_static("x-api-key") })
        }
    };
    let keys_file = match section.take("keys_file") {
        Some(path) => path.path("api-keys"),
        None => {
            section.wrong("it has no keys_file", format!("write it as in {EXAMPLE}"));
            None
        }
    };
    section.finish();
    Some(ApiKeySource { header: header?.value, keys_file: keys_file?.value })
}
