//! Browsers (the Fetch standard's CORS protocol): a page of another origin must be able to send a
//! key, and to read a replay and a problem as it reads the service's own answers.
//!
//! With `[cors]` in the configuration the gateway decides for keyed operations. Without it the
//! service does, and what it says is remembered, so that answers of our own say the same.

mod memory;

use std::sync::Arc;

use bytes::Bytes;
use hapax::http::headers::{
    HAPAX_OUTCOME, IDEMPOTENCY_EXPIRES, IDEMPOTENT_REPLAYED, lists, members, only,
};
use hapax_core::Scope;
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

use self::memory::{Granted, Memory};
use crate::{
    answer_body::AnswerBody,
    config::{self, Origins},
};

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

/// The longest origin that is looked at.
const LONGEST_ORIGIN: usize = 1024;

/// What pages of other origins may do.
pub(crate) struct Cors {
    rules: Rules,
    /// The field of the request's id, which every page may read.
    request_id: Option<HeaderName>,
}

/// Who says it.
enum Rules {
    /// The configuration.
    Configured(config::Cors),
    /// The service.
    Remembered(Arc<Mutex<Memory>>),
}

/// Whose an answer is.
#[derive(Clone, Copy)]
pub(crate) enum AnswerOf<'a> {
    /// The service has made it just now, for this scope if it has one.
    Service(Option<&'a Scope>),
    /// Ours, for this scope if that is known.
    Ours(Option<&'a Scope>),
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
    pub(crate) fn new(
        configured: Option<config::Cors>,
        request_id: Option<HeaderName>,
        before: Option<&Self>,
    ) -> Self {
        let rules = match (configured, before.map(|before| &before.rules)) {
            (Some(configured), _) => Rules::Configured(configured),
            (None, Some(Rules::Remembered(before))) => Rules::Remembered(Arc::clone(before)),
            (None, _) => Rules::Remembered(Arc::default()),
        };
        Self { rules, request_id }
    }

    /// The answer to a preflight for a request of a keyed operation; `None` leaves it to the
    /// service.
    pub(crate) fn preflight(
        &self,
        preflight: &Preflight,
        key: Option<&HeaderName>,
    ) -> Option<Response<AnswerBody>> {
        let Rules::Configured(configured) = &self.rules else { return None };
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
        let granted = Granted::in_answer(headers);
        let is_granted = granted.is_some();
        if let Rules::Remembered(memory) = &self.rules {
            memory.lock().preflighted(operation, &preflight.origin, granted);
        }
        if !is_granted {
            return;
        }
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

    /// Lets the page that a request of a keyed operation is for read the answer, where it may.
    pub(crate) fn answer(
        &self,
        origin: Option<&HeaderValue>,
        operation: &str,
        of: AnswerOf<'_>,
        headers: &mut HeaderMap,
    ) {
        match (&self.rules, origin, of) {
            (Rules::Configured(configured), ..) => {
                vary(headers, "origin");
                for field in [
                    ACCESS_CONTROL_ALLOW_ORIGIN,
                    ACCESS_CONTROL_ALLOW_CREDENTIALS,
                    ACCESS_CONTROL_EXPOSE_HEADERS,
                ] {
                    headers.remove(field);
                }
                if origin.is_some_and(|origin| allow(configured, origin, headers)) {
                    self.expose(headers, &configured.expose);
                }
            }
            (Rules::Remembered(_), None, _) => {}
            (Rules::Remembered(memory), Some(origin), AnswerOf::Service(scope)) => {
                let granted = Granted::in_answer(headers);
                let is_granted = granted.is_some();
                if let Some(scope) = scope {
                    memory.lock().answered(operation, scope, origin, granted);
                }
                if is_granted {
                    self.expose(headers, &[]);
                }
            }
            // It has no word of the service in it.
            (Rules::Remembered(memory), Some(origin), AnswerOf::Ours(scope)) => {
                let granted = memory.lock().of(operation, scope, origin);
                if let Some(granted) = granted {
                    granted.put(headers);
                    self.expose(headers, &[]);
                }
            }
        }
    }

    /// Lets the page read what is ours, and `more`.
    fn expose(&self, headers: &mut HeaderMap, more: &[HeaderName]) {
        let ours = EXPOSED.into_iter().filter(|name| headers.contains_key(name));
        let missing: Vec<_> = ours
            .chain(self.request_id.iter().chain(more).cloned())
            .filter(|name| !lists(headers, &ACCESS_CONTROL_EXPOSE_HEADERS, name.as_str()))
            .collect();
        if let Some(missing) = list(missing.into_iter()) {
            headers.append(ACCESS_CONTROL_EXPOSE_HEADERS, missing);
        }
    }
}

/// Allows the origin, if the configuration does.
fn allow(configured: &config::Cors, origin: &HeaderValue, headers: &mut HeaderMap) -> bool {
    let allowed = match &configured.origins {
        Origins::Every => HeaderValue::from_static("*"),
        Origins::Listed(listed) if listed.contains(origin) => origin.clone(),
        Origins::Listed(_) => return false,
    };
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, allowed);
    if configured.credentials {
        headers.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
    }
    true
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
