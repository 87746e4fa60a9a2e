//! The operator's listener: health, readiness, metrics.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header::CONTENT_TYPE};
use http_body_util::Full;

use crate::{gateway::Gateway, server::Inbound};

/// Answers operators: `/healthz`, `/readyz`, `/metrics`.
#[derive(Clone)]
pub struct Operator {
    gateway: Gateway,
    metrics: Arc<dyn Fn() -> String + Send + Sync>,
    leaving: Arc<AtomicBool>,
}

impl Operator {
    /// `metrics` renders the Prometheus text.
    pub fn new(gateway: Gateway, metrics: impl Fn() -> String + Send + Sync + 'static) -> Self {
        Self { gateway, metrics: Arc::new(metrics), leaving: Arc::default() }
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
            "/readyz" => {
                let is_leaving = self.leaving.load(Ordering::Relaxed);
                let draining = || Readiness::NotReady("draining".to_owned());
                let readiness = if is_leaving { draining() } else { self.gateway.readiness() };
                readiness.answer()
            }
            "/metrics" => text(StatusCode::OK, (self.metrics)()),
            _ => text(
                StatusCode::NOT_FOUND,
                "not here; there are /healthz, /readyz and /metrics\n".to_owned(),
            ),
        }
    }
}

/// Whether requests are better sent here than not.
#[derive(Debug, PartialEq)]
pub(crate) enum Readiness {
    Ready,
    /// Ready for a part of what it is there for, and why not for the rest.
    Partly(String),
    NotReady(String),
}

impl Readiness {
    fn answer(self) -> Response<Full<Bytes>> {
        match self {
            Self::Ready => text(StatusCode::OK, "ready\n".to_owned()),
            Self::Partly(why) => text(StatusCode::OK, format!("ready in part: {why}\n")),
            Self::NotReady(why) => {
                text(StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {why}\n"))
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
