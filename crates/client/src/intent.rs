//! What a caller wants to happen once: a request that is frozen with its key.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use hapax_core::{Key, KeyError};
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Uri,
    header::{CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING},
};
use http_body_util::Full;
use serde::Serialize;
use thiserror::Error;
use uuid::Uuid;

/// The field that carries the key.
pub(crate) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Fields that the client sets.
const OURS: [HeaderName; 4] = [CONTENT_LENGTH, TRANSFER_ENCODING, CONNECTION, IDEMPOTENCY_KEY];

/// Fields that say how the content is to be read.
const OF_THE_CONTENT: [HeaderName; 2] = [CONTENT_TYPE, CONTENT_ENCODING];

/// One intent: a request with its key, made before the first attempt and the same in each.
///
/// Nothing of it can be changed: an intent that changed is another one, with another key.
#[derive(Clone)]
pub struct Intent(Arc<Frozen>);

#[derive(Clone)]
struct Frozen {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
    key: Option<Key>,
    made: SystemTime,
    resumed: bool,
}

/// How a key is written in its field.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum KeyStyle {
    /// As a String in double quotes (RFC 9651), as the draft of the field has it.
    #[default]
    Quoted,
    /// Its bare characters, as most deployed services document it. One that does not read quotes takes
    /// them for a part of the key, which is as good, as long as they do not change.
    Bare,
}

/// Where keys come from.
pub trait KeySource: Send + Sync {
    /// A key that was never used before, for a new intent.
    fn next_key(&self) -> String;
}

/// UUIDs of version 7 (RFC 9562, section 5.7): they begin with the time, so that the records of one
/// time are in one place of the service's store.
#[derive(Clone, Copy, Debug, Default)]
pub struct UuidV7;

impl KeySource for UuidV7 {
    fn next_key(&self) -> String {
        Uuid::now_v7().to_string()
    }
}

/// Makes an intent.
#[derive(Clone)]
pub struct IntentBuilder {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
    key: Keyed,
    style: KeyStyle,
}

#[derive(Clone)]
enum Keyed {
    ByMethod,
    Given(Key),
    Without,
}

/// Why there is no intent. Nothing was sent.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum IntentError {
    /// The address has no scheme or host.
    #[error("the address {0} is not absolute; write it with https:// and a host")]
    NotAbsolute(Uri),
    /// The address holds a name or a password, which are not sent.
    #[error("the address holds credentials, which are not sent; use the field Authorization")]
    Credentials,
    /// The key is no key.
    #[error("the key cannot be used: {0}")]
    Key(#[from] KeyError),
    /// A key with characters that the field cannot carry; without quotes it carries fewer.
    #[error("the key has characters that a field cannot carry; use letters, digits and dashes")]
    KeyCharacters,
    /// A field that this client sets.
    #[error("the field {0} is set by the client; leave it out")]
    Field(HeaderName),
    /// The content cannot be written as JSON.
    #[error("the content cannot be written as JSON")]
    Json(#[from] serde_json::Error),
}

impl Intent {
    /// An intent to send this method to this address.
    pub fn of(method: Method, uri: Uri) -> IntentBuilder {
        let (headers, body) = (HeaderMap::new(), Bytes::new());
        IntentBuilder { method, uri, headers, body, key: Keyed::ByMethod, style: KeyStyle::Quoted }
    }

    /// An intent to `POST`.
    pub fn post(uri: Uri) -> IntentBuilder {
        Self::of(Method::POST, uri)
    }

    /// Its method.
    pub fn method(&self) -> &Method {
        &self.0.method
    }

    /// Its address.
    pub fn uri(&self) -> &Uri {
        &self.0.uri
    }

    /// Its fields, with that of the key.
    pub fn headers(&self) -> &HeaderMap {
        &self.0.headers
    }

    /// Its content.
    pub fn body(&self) -> &Bytes {
        &self.0.body
    }

    /// Its key.
    pub fn key(&self) -> Option<&Key> {
        self.0.key.as_ref()
    }

    /// When it was made, and so its key.
    pub fn made(&self) -> SystemTime {
        self.0.made
    }

    /// Scheme, host and port, in lower case and without a port that is usual: what a budget and a
    /// measure are of.
    pub fn destination(&self) -> String {
        let uri = &self.0.uri;
        let scheme = uri.scheme_str().unwrap_or_default();
        let usual = match scheme {
            "https" => Some(443),
            "http" => Some(80),
            _ => None,
        };
        let host = uri.host().unwrap_or_default().to_ascii_lowercase();
        match uri.port_u16().filter(|port| Some(*port) != usual) {
            Some(port) => format!("{scheme}://{host}:{port}"),
            None => format!("{scheme}://{host}"),
        }
    }

    /// The same intent in a process that came after the one which made it: whether it was sent before
    /// is not known.
    pub(crate) fn resumed(
        method: Method,
        uri: Uri,
        headers: HeaderMap,
        body: Bytes,
        key: Option<Key>,
        made: SystemTime,
    ) -> Self {
        Self(Arc::new(Frozen { method, uri, headers, body, key, made, resumed: true }))
    }

    /// The same intent, which may have been sent since it was `made`.
    pub(crate) fn sent_before(&self, made: SystemTime) -> Self {
        let mut frozen = (*self.0).clone();
        (frozen.resumed, frozen.made) = (true, made.min(frozen.made));
        Self(Arc::new(frozen))
    }

    /// With fields that are not kept, such as `Authorization`, in the place of older ones. The key and
    /// what describes the content are a part of the intent, and stay.
    #[must_use]
    pub fn with_credentials(&self, credentials: &HeaderMap) -> Self {
        let mut frozen = (*self.0).clone();
        let stays = |name: &HeaderName| OURS.contains(name) || OF_THE_CONTENT.contains(name);
        for name in credentials.keys().filter(|name| !stays(name)) {
            frozen.headers.remove(name);
            for value in credentials.get_all(name) {
                frozen.headers.append(name.clone(), value.clone());
            }
        }
        Self(Arc::new(frozen))
    }

    /// What is known of it before it is sent.
    pub(crate) fn request_facts(&self, retried_above: bool) -> crate::course::Request {
        let method = &self.0.method;
        crate::course::Request {
            safe: method.is_safe(),
            repeatable: self.is_repeatable(),
            idempotent: method.is_idempotent(),
            retried_above,
            in_doubt: self.0.resumed && !method.is_safe(),
            key_age: SystemTime::now().duration_since(self.0.made).unwrap_or(Duration::ZERO),
        }
    }

    /// Whether it may be sent when it may have been sent before.
    pub(crate) fn is_repeatable(&self) -> bool {
        self.0.key.is_some() || self.0.method.is_idempotent()
    }

    /// The request of an attempt: each time the same.
    pub(crate) fn request(&self) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(self.0.body.clone()));
        *request.method_mut() = self.0.method.clone();
        *request.uri_mut() = self.0.uri.clone();
        *request.headers_mut() = self.0.headers.clone();
        request
    }
}

/// Without the key and the content, which may be nobody's business.
impl fmt::Debug for Intent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Frozen { method, uri, body, .. } = &*self.0;
        f.debug_struct("Intent")
            .field("method", method)
            .field("uri", uri)
            .field("content_bytes", &body.len())
            .finish_non_exhaustive()
    }
}

impl IntentBuilder {
    /// With a field.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.append(name, value);
        self
    }

    /// With this content.
    #[must_use]
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    /// With this content as JSON: its bytes are written once, and are the same in each attempt.
    ///
    /// # Errors
    /// [`IntentError::Json`].
    pub fn json(mut self, content: &impl Serialize) -> Result<Self, IntentError> {
        self.body = serde_json::to_vec(content)?.into();
        self.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Ok(self)
    }

    /// With a key that the caller has for it: one that it wrote down, or a natural one such as the
    /// number of an order.
    ///
    /// # Errors
    /// [`IntentError::Key`] and [`IntentError::KeyCharacters`].
    pub fn key(mut self, key: &str) -> Result<Self, IntentError> {
        let key = Key::from_bytes(key.as_bytes())?;
        key.to_field().ok_or(IntentError::KeyCharacters)?;
        self.key = Keyed::Given(key);
        Ok(self)
    }

    /// With a key of another source than [`UuidV7`].
    ///
    /// # Errors
    /// As [`key`](Self::key).
    pub fn key_from(self, source: &dyn KeySource) -> Result<Self, IntentError> {
        self.key(&source.next_key())
    }

    /// Without a key, whatever the method: it is sent again only if it never left, or is idempotent by
    /// itself.
    #[must_use]
    pub fn without_key(mut self) -> Self {
        self.key = Keyed::Without;
        self
    }

    /// With its key written like this.
    #[must_use]
    pub fn key_style(mut self, style: KeyStyle) -> Self {
        self.style = style;
        self
    }

    /// Freezes it. `POST`, `PATCH` and whatever else is not idempotent get a key of their own, if they
    /// have none.
    ///
    /// # Errors
    /// Any [`IntentError`] but [`IntentError::Json`].
    pub fn build(mut self) -> Result<Intent, IntentError> {
        if self.uri.scheme().is_none() || self.uri.authority().is_none() {
            return Err(IntentError::NotAbsolute(self.uri));
        }
        if self.uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(IntentError::Credentials);
        }
        for name in &OURS {
            if self.headers.contains_key(name) {
                return Err(IntentError::Field(name.clone()));
            }
        }
        let key = match self.key {
            Keyed::Given(key) => Some(key),
            Keyed::ByMethod if !self.method.is_idempotent() => {
                Some(Key::from_bytes(UuidV7.next_key().as_bytes())?)
            }
            Keyed::ByMethod | Keyed::Without => None,
        };
        if let Some(key) = &key {
            self.headers.insert(IDEMPOTENCY_KEY, field(key, self.style)?);
        }
        Ok(Intent(Arc::new(Frozen {
            method: self.method,
            uri: self.uri,
            headers: self.headers,
            body: self.body,
            key,
            made: SystemTime::now(),
            resumed: false,
        })))
    }
}

/// Whether a character of a bare key is read as what it is: hapax takes no others, and spaces at an end
/// are lost on the way.
const fn is_bare(byte: &u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'"' | b',' | b';' | b'\\')
}

fn field(key: &Key, style: KeyStyle) -> Result<HeaderValue, IntentError> {
    let quoted = key.to_field().ok_or(IntentError::KeyCharacters)?;
    let value = match style {
        KeyStyle::Quoted => HeaderValue::try_from(quoted),
        KeyStyle::Bare if !key.as_bytes().iter().all(is_bare) => {
            return Err(IntentError::KeyCharacters);
        }
        KeyStyle::Bare => HeaderValue::from_bytes(key.as_bytes()),
    };
    value.map_err(|_| IntentError::KeyCharacters)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(uri: &str) -> IntentBuilder {
        Intent::post(uri.parse().unwrap())
    }

    #[test]
    fn one_destination_has_one_name() {
        for (uri, destination) in [
            ("https://API.example/x", "https://api.example"),
            ("HTTPS://api.example:443/x?y", "https://api.example"),
            ("http://api.example:80", "http://api.example"),
            ("http://api.example:443/", "http://api.example:443"),
            ("https://[::1]:8443/", "https://[::1]:8443"),
        ] {
            assert_eq!(to(uri).build().unwrap().destination(), destination, "{uri}");
        }
    }

    /// It would not be sent, but shown and kept.
    #[test]
    fn credentials_are_not_taken_in_an_address() {
        for uri in ["https://user:s3cret@api.example/x", "https://user@api.example/x"] {
            let error = to(uri).build().unwrap_err();
            assert!(matches!(error, IntentError::Credentials), "{error:?}");
            assert!(!error.to_string().contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn a_bare_key_is_one_that_everybody_reads_as_the_same() {
        for key in ["a b", " a", "\"a\"", "a,b", "a;b", "a\\b"] {
            let quoted = to("http://a.example").key(key).unwrap();
            let bare = quoted.clone().key_style(KeyStyle::Bare);
            assert!(quoted.build().is_ok(), "{key:?}");
            let error = bare.build().unwrap_err();
            assert!(matches!(error, IntentError::KeyCharacters), "{key:?}: {error:?}");
        }
        let bare = to("http://a.example").key("order-7:a/b").unwrap().key_style(KeyStyle::Bare);
        let intent = bare.build().unwrap();
        assert_eq!(intent.headers()[IDEMPOTENCY_KEY], "order-7:a/b");
    }
}
