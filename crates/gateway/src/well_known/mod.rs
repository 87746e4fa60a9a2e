//! `/.well-known/idempotency`: what callers can rely on, and what has become of an operation.
//!
//! The policy document is what the draft of the `Idempotency-Key` field has a resource publish: which
//! operations take a key, what makes two requests the same, how long a key is remembered, what may
//! be retried. It says nothing of where a service is.

mod media;
mod openapi;
mod page;
mod policy;
mod status;

use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode,
    header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY},
    request::Parts,
};
use sha2::{Digest, Sha256};

use self::{media::prefers_html, page::Page, policy::Policy};
use crate::{
    answer_body::AnswerBody, config::Config, cors::Preflight, presenting::Presentation,
    shared::Shared,
};

pub(crate) use status::{accepted, link};

/// Where the document is.
const PATH: &str = "/.well-known/idempotency";

/// `Link` to it.
pub(crate) const DESCRIBED_BY: &str = "</.well-known/idempotency>; rel=\"describedby\"";

/// How long a cache may keep the document: it changes with the configuration.
const MAX_AGE: HeaderValue = HeaderValue::from_static("max-age=60");

/// The documents of a configuration, made once.
pub(crate) struct WellKnown {
    json: Document,
    html: Document,
    openapi: Document,
}

struct Document {
    content: Bytes,
    media_type: &'static str,
    etag: HeaderValue,
}

impl WellKnown {
    pub(crate) fn new(config: &Config, presentation: &Presentation) -> Self {
        let policy = Policy::of(config, presentation);
        Self {
            html: Document::new(Page::of(&policy).text(), "text/html; charset=utf-8"),
            openapi: Document::new(openapi::fragment(&policy), "application/json"),
            json: Document::new(policy.to_json(), "application/json"),
        }
    }

    fn document(&self, rest: &str, headers: &HeaderMap) -> Option<&Document> {
        match rest {
            "" if prefers_html(headers) => Some(&self.html),
            "" => Some(&self.json),
            "/openapi.json" => Some(&self.openapi),
            _ => None,
        }
    }
}

impl Document {
    fn new(text: String, media_type: &'static str) -> Self {
        let digest = Sha256::digest(&text);
        let hex: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let etag = HeaderValue::try_from(format!("\"{hex}\""));
        let etag = etag.unwrap_or_else(|_| HeaderValue::from_static("\"\""));
        Self { content: Bytes::from(text), media_type, etag }
    }

    fn answer(&self, headers: &HeaderMap) -> Response<AnswerBody> {
        let known = headers.get(IF_NONE_MATCH).is_some_and(|known| known == self.etag);
        let content = if known { Bytes::new() } else { self.content.clone() };
        let mut response = Response::new(AnswerBody::from(content));
        if known {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
        }
        let fields = response.headers_mut();
        fields.insert(ETAG, self.etag.clone());
        fields.insert(CACHE_CONTROL, MAX_AGE);
        fields.insert(VARY, HeaderValue::from_static("accept"));
        if !known {
            fields.insert(CONTENT_TYPE, HeaderValue::from_static(self.media_type));
        }
        // Nothing in it depends on who asks.
        let origin = HeaderName::from_static("access-control-allow-origin");
        fields.insert(origin, HeaderValue::from_static("*"));
        fields.insert(
            HeaderName::from_static("content-security-policy"),
            HeaderValue::from_static("default-src 'none'; style-src 'unsafe-inline'"),
        );
        response
    }
}

/// Whether a path is answered here.
pub(crate) fn is_ours(path: &str) -> bool {
    path.strip_prefix(PATH).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Answers a request for one of the documents, or for the status of an operation.
pub(crate) async fn answer(
    shared: &Shared,
    documents: &WellKnown,
    head: &Parts,
) -> Response<AnswerBody> {
    let rest = head.uri.path().strip_prefix(PATH).unwrap_or_default();
    if let Some(preflight) = Preflight::of(head)
        && documents.document(rest, &head.headers).is_none()
        && let Some(answer) = shared.cors.preflight(&preflight, shared.scopes.header())
    {
        return answer;
    }
    if !matches!(head.method, Method::GET | Method::HEAD) {
        let mut response = Response::new(AnswerBody::from(Bytes::new()));
        *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    match documents.document(rest, &head.headers) {
        Some(document) => document.answer(&head.headers),
        None => status::answer(shared, head, rest).await,
    }
}
