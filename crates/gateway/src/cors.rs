//! Browsers (the Fetch standard's CORS protocol): a page of another origin must be able to send a
//! key, and to read a replay and a problem as it reads the service's own answers.
//!
//! With `[cors]` in the configuration the gateway decides for keyed operations. Without it the
//! service does, and what it says is remembered, so that answers of our own say the same.

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;
use hapax::http::headers::{
    HAPAX_OUTCOME, IDEMPOTENCY_EXPIRES, IDEMPOTENT_REPLAYED, lists, members, only,
};
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode,
    header::{
        ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS,
        ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS,
        ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD,
        LINK, LOCATION, ORIGIN, RETRY_AFTER, VARY,
    },
    request::Parts,
};
use parking_lot::Mutex;

use crate::{answer_body::AnswerBody, config};

/// Fields of an answer that a page may read of us.
const EXPOSED: [HeaderName; 7] = [
    IDEMPOTENT_REPLAYED,
    IDEMPOTENCY_EXPIRES,
    HAPAX_OUTCOME,
    RETRY_AFTER,
    LINK,
    LOCATION,
    HeaderName::from_static("preference-applied"),
];

/// How many (operation, origin) pairs are remembered. Beyond, none is until the next start: there
/// are not that many honest ones.
const MOST: usize = 4096;

/// The longest origin that is looked at.
const LONGEST_ORIGIN: usize = 1024;

/// Who says what pages of other origins may do.
pub(crate) enum Cors {
    /// The configuration.
    Configured(config::Cors),
    /// The service.
    Remembered(Arc<Mutex<HashMap<(String, HeaderValue), Granted>>>),
}

/// What the service grants an origin.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Granted {
    origin: HeaderValue,
    credentials: Option<HeaderValue>,
    exposed: Vec<HeaderValue>,
}

/// A preflight: what a browser asks on behalf of a page before it sends the page's request.
#[derive(Debug)]
pub(crate) struct Preflight {
    pub(crate) method: Method,
    pub(crate) origin: HeaderValue,
    asked: Option<HeaderValue>,
}

impl Preflight {
    /// The preflight that a request is, if it is one.
    pub(crate) fn of(head: &Parts) -> Option<Self> {
        if head.method != Method::OPTIONS {
            return None;
        }
        let method = only(&head.headers, &ACCESS_CONTROL_REQUEST_METHOD)?;
        Some(Self {
            method: Method::from_bytes(method.as_bytes()).ok()?,
            origin: origin(&head.headers)?,
            asked: only(&head.headers, &ACCESS_CONTROL_REQUEST_HEADERS).cloned(),
        })
    }

    fn asks_for(&self, key: &HeaderName) -> bool {
        let asked = self.asked.as_ref().map(HeaderValue::as_bytes).unwrap_or_default();
        let mut names = asked.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        names.any(|name| name.eq_ignore_ascii_case(key.as_str().as_bytes()))
    }
}

/// The origin of the page that a request is for.
pub(crate) fn origin(headers: &HeaderMap) -> Option<HeaderValue> {
    only(headers, &ORIGIN).filter(|origin| origin.len() <= LONGEST_ORIGIN).cloned()
}

impl Cors {
    /// What the one before it has remembered is taken over.
    pub(crate) fn new(configured: Option<config::Cors>, before: Option<&Self>) -> Self {
        match (configured, before) {
            (Some(configured), _) => Self::Configured(configured),
            (None, Some(Self::Remembered(before))) => Self::Remembered(Arc::clone(before)),
            (None, _) => Self::Remembered(Arc::default()),
        }
    }

    /// The answer to a preflight for a request of a keyed operation; `None` leaves it to the
    /// service.
    pub(crate) fn preflight(
        &self,
        preflight: &Preflight,
        key: Option<&HeaderName>,
    ) -> Option<Response<AnswerBody>> {
        let Self::Configured(configured) = self else { return None };
        let mut response = Response::new(AnswerBody::from(Bytes::new()));
        *response.status_mut() = StatusCode::NO_CONTENT;
        let headers = response.headers_mut();
        vary(headers, "origin, access-control-request-method, access-control-request-headers");
        if !allow(configured, &preflight.origin, headers) {
            return Some(response);
        }
        if let Ok(method) = HeaderValue::from_str(preflight.method.as_str()) {
            headers.insert(ACCESS_CONTROL_ALLOW_METHODS, method);
        }
        let content_type = HeaderName::from_static("content-type");
        let prefer = HeaderName::from_static("prefer");
        let allowed = key.cloned().into_iter().chain([content_type, prefer]);
        let allowed = allowed.chain(configured.headers.iter().cloned());
        if let Some(allowed) = list(allowed) {
            headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, allowed);
        }
        headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from(configured.max_age.as_secs()));
        Some(response)
    }

    /// Completes the service's answer to a preflight: whoever allows the request allows its key.
    pub(crate) fn complete_preflight(
        &self,
        preflight: &Preflight,
        operation: &str,
        key: Option<&HeaderName>,
        headers: &mut HeaderMap,
    ) {
        let Some(granted) = Granted::in_answer(headers) else { return };
        self.remember(operation, &preflight.origin, granted);
        // One in the body needs no field.
        let Some(key) = key else { return };
        // With credentials a star is a name like any other.
        let has_all = lists(headers, &ACCESS_CONTROL_ALLOW_HEADERS, "*")
            && !headers.contains_key(ACCESS_CONTROL_ALLOW_CREDENTIALS);
        let has_it = has_all || lists(headers, &ACCESS_CONTROL_ALLOW_HEADERS, key.as_str());
        if preflight.asks_for(key)
            && !has_it
            && let Ok(key) = HeaderValue::from_str(key.as_str())
        {
            headers.append(ACCESS_CONTROL_ALLOW_HEADERS, key);
        }
    }

    /// Lets the page that a request of a keyed operation is for read the answer. `is_live` says that
    /// the service made it just now.
    pub(crate) fn answer(
        &self,
        origin: Option<&HeaderValue>,
        operation: &str,
        is_live: bool,
        headers: &mut HeaderMap,
    ) {
        match self {
            Self::Configured(configured) => {
                vary(headers, "origin");
                for field in [
                    ACCESS_CONTROL_ALLOW_ORIGIN,
                    ACCESS_CONTROL_ALLOW_CREDENTIALS,
                    ACCESS_CONTROL_EXPOSE_HEADERS,
                ] {
                    headers.remove(field);
                }
                if origin.is_some_and(|origin| allow(configured, origin, headers)) {
                    expose(headers, &configured.expose);
                }
            }
            Self::Remembered(remembered) => {
                let Some(origin) = origin else { return };
                if is_live && let Some(granted) = Granted::in_answer(headers) {
                    self.remember(operation, origin, granted);
                    return expose(headers, &[]);
                }
                // An answer of our own has no word of the service in it.
                let granted = remembered.lock();
                let granted = granted.get(&(operation.to_owned(), origin.clone()));
                if let Some(granted) = granted.filter(|_| !is_live).cloned() {
                    granted.put(headers);
                    expose(headers, &[]);
                }
            }
        }
    }

    fn remember(&self, operation: &str, origin: &HeaderValue, granted: Granted) {
        let Self::Remembered(remembered) = self else { return };
        let mut remembered = remembered.lock();
        let key = (operation.to_owned(), origin.clone());
        if remembered.len() < MOST || remembered.contains_key(&key) {
            remembered.insert(key, granted);
        }
    }
}

impl Granted {
    fn in_answer(headers: &HeaderMap) -> Option<Self> {
        Some(Self {
            origin: only(headers, &ACCESS_CONTROL_ALLOW_ORIGIN)?.clone(),
            credentials: only(headers, &ACCESS_CONTROL_ALLOW_CREDENTIALS).cloned(),
            exposed: headers.get_all(ACCESS_CONTROL_EXPOSE_HEADERS).iter().cloned().collect(),
        })
    }

    fn put(self, headers: &mut HeaderMap) {
        if self.origin != "*" {
            vary(headers, "origin");
        }
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, self.origin);
        if let Some(credentials) = self.credentials {
            headers.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, credentials);
        }
        for exposed in self.exposed {
            headers.append(ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
        }
    }
}

/// Allows the origin, if the configuration does.
fn allow(configured: &config::Cors, origin: &HeaderValue, headers: &mut HeaderMap) -> bool {
    let every = configured.origins.is_empty();
    if !every && !configured.origins.contains(origin) {
        return false;
    }
    let allowed = if every { HeaderValue::from_static("*") } else { origin.clone() };
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, allowed);
    if configured.credentials {
        headers.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
    }
    true
}

/// Lets the page read what is ours, and `more`.
fn expose(headers: &mut HeaderMap, more: &[HeaderName]) {
    let ours = EXPOSED.into_iter().filter(|name| headers.contains_key(name));
    let missing: Vec<_> = ours
        .chain(more.iter().cloned())
        .filter(|name| !lists(headers, &ACCESS_CONTROL_EXPOSE_HEADERS, name.as_str()))
        .collect();
    if let Some(missing) = list(missing.into_iter()) {
        headers.append(ACCESS_CONTROL_EXPOSE_HEADERS, missing);
    }
}

/// Says to caches that an answer depends on these fields, too.
fn vary(headers: &mut HeaderMap, fields: &'static str) {
    let is_said = members(headers, &VARY).any(|field| field == b"*")
        || fields.split(", ").all(|field| lists(headers, &VARY, field));
    if !is_said {
        headers.append(VARY, HeaderValue::from_static(fields));
    }
}

fn list(names: impl Iterator<Item = HeaderName>) -> Option<HeaderValue> {
    let joined = names.map(|name| name.to_string()).collect::<Vec<_>>().join(", ");
    HeaderValue::try_from(joined).ok().filter(|list| !list.is_empty())
}

#[cfg(test)]
mod tests;
