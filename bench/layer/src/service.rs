//! The handler, and the ways in which it is protected.

use std::{convert::Infallible, sync::Arc};

use axum::{Router, body::Body, http::header::LOCATION, response::IntoResponse, routing::post};
use bytes::Bytes;
use hapax::{Execution, Hapax, Interrupted, Options, Secrets};
use hapax_core::EffectSecret;
use hapax_store::{MemoryStore, SystemClock};
use http::{StatusCode, header::CONTENT_TYPE};

/// How the handler's effect is told.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Way {
    /// It is not: there is no layer.
    Bare,
    /// The handler as a whole is one call.
    Bracketed,
    /// It takes its execution and does no step.
    Execution,
    /// It takes its execution and does one call in it.
    OneCall,
}

impl Way {
    pub(crate) const PROTECTED: [Self; 3] = [Self::Bracketed, Self::Execution, Self::OneCall];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::Bracketed => "bracketed",
            Self::Execution => "execution",
            Self::OneCall => "one-call",
        }
    }

    /// The service, on an empty store of its own.
    pub(crate) fn service(self) -> Router {
        let layer = || engine().operation("payments.create");
        let method = match self {
            Self::Bare => post(create),
            Self::Bracketed => post(create).layer(layer().bracketed()),
            Self::Execution => post(create_in_execution).layer(layer()),
            Self::OneCall => post(create_by_call).layer(layer()),
        };
        // As a server does before its first request: the layer is applied here, once.
        Router::new().route("/v1/payments", method).with_state(())
    }
}

fn engine() -> Hapax {
    let store = Arc::new(MemoryStore::new(Arc::new(SystemClock)));
    let secrets = Secrets::single(EffectSecret::from_bytes([7; 32]));
    Hapax::new(store, secrets, Options::default())
}

async fn create(body: Bytes) -> impl IntoResponse {
    answer(&body)
}

async fn create_in_execution(_: Execution, body: Bytes) -> impl IntoResponse {
    answer(&body)
}

async fn create_by_call(
    mut execution: Execution,
    body: Bytes,
) -> Result<impl IntoResponse, Interrupted> {
    execution.call("pay", async |_| Ok::<_, Infallible>(body.len())).await?;
    Ok(answer(&body))
}

fn answer(body: &Bytes) -> impl IntoResponse + use<> {
    let status = if body.is_empty() { StatusCode::BAD_REQUEST } else { StatusCode::CREATED };
    let headers = [(CONTENT_TYPE, "application/json"), (LOCATION, "/v1/payments/1")];
    (status, headers, Body::from(r#"{"id":"1","status":"accepted"}"#))
}
