//! What the service grants pages of other origins, as far as it has said so.

use hapax_core::Scope;
use hashlink::LruCache;
use http::{
    HeaderMap, HeaderValue,
    header::{
        ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_ORIGIN,
        ACCESS_CONTROL_EXPOSE_HEADERS,
    },
};

use hapax::http::headers::only;

use super::vary;

/// How many answers to preflights are remembered. Anybody can ask for one, so they have a memory of
/// their own, and the least used one is forgotten.
const PREFLIGHTS: usize = 1024;

/// How many answers to requests.
const ANSWERS: usize = 4096;

/// What the service grants an origin.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Granted {
    origin: HeaderValue,
    credentials: Option<HeaderValue>,
    exposed: Vec<HeaderValue>,
}

impl Granted {
    pub(super) fn in_answer(headers: &HeaderMap) -> Option<Self> {
        Some(Self {
            origin: only(headers, &ACCESS_CONTROL_ALLOW_ORIGIN)?.clone(),
            credentials: only(headers, &ACCESS_CONTROL_ALLOW_CREDENTIALS).cloned(),
            exposed: headers.get_all(ACCESS_CONTROL_EXPOSE_HEADERS).iter().cloned().collect(),
        })
    }

    pub(super) fn put(self, headers: &mut HeaderMap) {
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

/// What the service has said last. An answer speaks for those of the same scope, because it may
/// depend on who asks; where there was none, the answer to the preflight counts.
pub(super) struct Memory {
    preflights: LruCache<(String, HeaderValue), Granted>,
    answers: LruCache<(String, Scope, HeaderValue), Option<Granted>>,
}

impl Default for Memory {
    fn default() -> Self {
        Self { preflights: LruCache::new(PREFLIGHTS), answers: LruCache::new(ANSWERS) }
    }
}

impl Memory {
    /// What the answer to a preflight grants; nothing takes back what it did before.
    pub(super) fn preflighted(
        &mut self,
        operation: &str,
        origin: &HeaderValue,
        granted: Option<Granted>,
    ) {
        let key = (operation.to_owned(), origin.clone());
        match granted {
            Some(granted) => self.preflights.insert(key, granted),
            None => self.preflights.remove(&key),
        };
    }

    /// What an answer that the service made just now grants.
    pub(super) fn answered(
        &mut self,
        operation: &str,
        scope: &Scope,
        origin: &HeaderValue,
        granted: Option<Granted>,
    ) {
        self.answers.insert((operation.to_owned(), scope.clone(), origin.clone()), granted);
    }

    /// What it grants an answer of our own.
    pub(super) fn of(
        &mut self,
        operation: &str,
        scope: Option<&Scope>,
        origin: &HeaderValue,
    ) -> Option<Granted> {
        let (operation, origin) = (operation.to_owned(), origin.clone());
        if let Some(scope) = scope
            && let Some(answered) =
                self.answers.get(&(operation.clone(), scope.clone(), origin.clone()))
        {
            return answered.clone();
        }
        self.preflights.get(&(operation, origin)).cloned()
    }
}
