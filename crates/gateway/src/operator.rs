//! The operator's listener: health, readiness, metrics.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use bytes::Bytes;
use hapax::Hapax;
use hapax_store::StandingState;
use http::{HeaderValue, Method, Request, Response, StatusCode, header::CONTENT_TYPE};
use http_body_util::Full;

use crate::server::Inbound;

/// Answers operators: `/healthz`, `/readyz`, `/metrics`.
#[derive(Clone)]
pub struct Operator {
    hapax: Hapax,
    metrics: Arc<dyn Fn() -> String + Send + Sync>,
    leaving: Arc<AtomicBool>,
}

impl Operator {
    /// `metrics` renders the Prometheus text.
    pub fn new(hapax: Hapax, metrics: impl Fn() -> String + Send + Sync + 'static) -> Self {
        Self { hapax, metrics: Arc::new(metrics), leaving: Arc::default() }
    }

    /// Says from now on that the process is not ready, because it is about to stop.
    pub fn leave(&self) {
        self.leaving.store(true, Ordering::Relaxed);
    }

    /// Answers one request.
    pub fn answer(&self, request: &Request<Inbound>) -> Response<Full<Bytes>> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return text(StatusCode::METHOD_NOT_ALLOWED, "only GET here\n".to_owned());
        }
        match request.uri().path() {
            // The process runs and answers; whether it can work is readiness.
            "/healthz" => text(StatusCode::OK, "ok\n".to_owned()),
            "/readyz" => match self.not_ready() {
                None => text(StatusCode::OK, "ready\n".to_owned()),
                Some(why) => text(StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {why}\n")),
            },
            "/metrics" => text(StatusCode::OK, (self.metrics)()),
            _ => text(
                StatusCode::NOT_FOUND,
                "not here; there are /healthz, /readyz and /metrics\n".to_owned(),
            ),
        }
    }

    fn not_ready(&self) -> Option<String> {
        if self.hapax.is_draining() || self.leaving.load(Ordering::Relaxed) {
            return Some("draining".to_owned());
        }
        match self.hapax.store().standing() {
            StandingState::Ready => None,
            StandingState::Failing { reason } => Some(reason),
            StandingState::Regressed { reason } => {
                Some(format!("store-regressed: {reason}; restart once it is understood"))
            }
        }
    }
}

fn text(status: StatusCode, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, plain);
    response
}
