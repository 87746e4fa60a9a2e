//! One request as an HTTP server hands it to a service, and what has to come back.

use axum::{Router, body::Body};
use bytes::Bytes;
use hapax_core::Scope;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use tower_service::Service;
use uuid::Uuid;

const BODY: &str = r#"{"amount":1200,"currency":"EUR","debtor":"DE89370400440532013000","creditor":"FR7630006000011234567890189","reference":"Invoice 2026-1148","urgent":false}"#;

const FIELDS: [(&str, &str); 9] = [
    ("host", "api.example.com"),
    ("user-agent", "payments-client/3.2 (linux; x86_64)"),
    ("accept", "application/json"),
    ("accept-encoding", "gzip, br"),
    ("content-type", "application/json"),
    ("content-length", "152"),
    ("authorization", "Bearer 2YotnFZFEjr1zCsicMWpAA2YotnFZFEjr1zCsicMWpAA"),
    ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
    ("x-request-id", "7c1d3e0a5b6f4d2c9e8a"),
];

/// Makes requests and checks answers.
pub(crate) struct Exchange {
    fields: Vec<(&'static str, Bytes)>,
    body: Bytes,
    scope: Scope,
}

/// What every answer has to be, or the measurement is void.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Expected {
    Fresh,
    Replayed,
}

/// Time-bearing keys that were never used.
pub(crate) fn fresh_keys(count: usize) -> Vec<String> {
    std::iter::repeat_with(|| Uuid::now_v7().to_string()).take(count).collect()
}

impl Exchange {
    #[expect(clippy::expect_used, reason = "the scope is a constant")]
    pub(crate) fn new() -> Self {
        // On the heap and shared, as what a server has read is.
        let shared = |text: &str| Bytes::copy_from_slice(text.as_bytes());
        Self {
            fields: FIELDS.map(|(name, value)| (name, shared(value))).into(),
            body: shared(BODY),
            scope: Scope::principal(b"acme").expect("a principal"),
        }
    }

    /// A small JSON POST with ten header fields, of which one is the key.
    #[expect(clippy::expect_used, reason = "all of it is constant, or a UUID")]
    pub(crate) fn request(&self, key: &str) -> Request<Body> {
        let mut headers = HeaderMap::with_capacity(16);
        let mut put = |name: &str, value: Bytes| {
            let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
            headers.insert(name, HeaderValue::from_maybe_shared(value).expect("a value"));
        };
        for (name, value) in &self.fields {
            put(name, value.clone());
        }
        put("idempotency-key", Bytes::from(format!("\"{key}\"")));
        let mut request = Request::new(Body::from(self.body.clone()));
        *request.method_mut() = http::Method::POST;
        *request.uri_mut() = http::Uri::from_static("/v1/payments");
        *request.headers_mut() = headers;
        request.extensions_mut().insert(self.scope.clone());
        request
    }

    /// The call that is measured.
    pub(crate) async fn call(
        &self,
        service: &mut Router,
        request: Request<Body>,
    ) -> Response<Body> {
        match service.call(request).await {
            Ok(answer) => answer,
            Err(never) => match never {},
        }
    }
}

impl Expected {
    pub(crate) fn check(self, answer: &Response<Body>) {
        let replayed = answer.headers().contains_key("idempotent-replayed");
        assert!(
            answer.status() == StatusCode::CREATED && replayed == matches!(self, Self::Replayed),
            "expected {self:?}, got {answer:?}"
        );
    }
}
