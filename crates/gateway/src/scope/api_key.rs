//! The scope by the API key that a request carries.

use std::sync::Arc;

use hapax_core::Scope;
use http::{HeaderMap, HeaderName};

use super::{
    api_key_file::{ApiKeyFile, ApiKeyFileError},
    credential::credential,
    refused::Refused,
    watched_file::{FileError, WatchedFile},
};
use crate::config::ApiKeySource;

/// API keys, and whose each is.
pub(crate) struct ApiKeys {
    header: HeaderName,
    file: Arc<WatchedFile<ApiKeyFile>>,
}

impl ApiKeys {
    pub(super) async fn open(source: &ApiKeySource) -> Result<Self, FileError<ApiKeyFileError>> {
        let file = WatchedFile::open(&source.keys_file, "api_keys", ApiKeyFile::parse).await?;
        Ok(Self { header: source.header.clone(), file })
    }

    pub(super) const fn header(&self) -> &HeaderName {
        &self.header
    }

    pub(super) fn wanted(&self) -> String {
        format!("The request needs exactly one {} header with a valid key.", self.header)
    }

    pub(super) fn scope(&self, headers: &HeaderMap) -> Result<Scope, Refused> {
        let key = credential(headers, &self.header)?;
        self.file.current().find(key).cloned().ok_or(Refused::UnknownKey)
    }
}
