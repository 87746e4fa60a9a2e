//! What the service offers.

use std::{process, sync::Arc};

use axum::{
    Extension, Router,
    body::Bytes,
    extract::{Path, RawQuery, State},
    http::{
        HeaderMap, HeaderName, StatusCode,
        header::{CONTENT_TYPE, LOCATION},
    },
    response::{AppendHeaders, IntoResponse, Response},
    routing::{get, post},
};
use serde::Serialize;
use tokio::time::sleep;

use super::{
    connection::Cut,
    faults::{Fault, Faults},
    ledger::{Ledger, LedgerError, Paid},
};
use crate::demo::order::{Order, Payment};

const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// The routes of the service.
pub(super) fn routes(ledger: Ledger, faults: Faults) -> Router {
    Router::new()
        .route("/payments", post(pay).get(payments))
        .route("/payments/{id}", get(payment))
        .route("/crash", post(crash))
        .with_state(Arc::new(Service { ledger, faults }))
}

struct Service {
    ledger: Ledger,
    faults: Faults,
}

async fn pay(
    State(service): State<Arc<Service>>,
    Extension(cut): Extension<Cut>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Refusal> {
    let field = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let effect_id = field("idempotency-key").map(|quoted| quoted.trim_matches('"').to_owned());
    let effect_id = effect_id.ok_or(Refusal::Unidentified)?;
    let attempt = field("hapax-attempt").map(str::to_owned);
    let order: Order = serde_json::from_slice(&body).map_err(Refusal::Unreadable)?;

    let nth = service.ledger.arrived(effect_id.clone(), attempt, order.to.clone()).await?;
    let treatment = service.faults.treat(&order.to, nth);
    sleep(treatment.delay).await;
    if let Some(Fault::FailsBefore(status)) = treatment.fault {
        return Ok(status.into_response());
    }
    let paid = service.ledger.pay(effect_id, order).await?;
    if treatment.fault == Some(Fault::CutsAfter) {
        return cut.now().await;
    }
    match paid {
        Paid::Now(payment) => Ok(created(&payment)),
        Paid::Before(payment) => {
            Ok((AppendHeaders([(REPLAYED, "true")]), created(&payment)).into_response())
        }
        Paid::ForOther => Err(Refusal::OtherOrder),
    }
}

/// All payments, or with `?to=` those to payees whose names begin so.
async fn payments(
    State(service): State<Arc<Service>>,
    RawQuery(query): RawQuery,
) -> Result<Response, Refusal> {
    let to = query.as_deref().and_then(|query| query.strip_prefix("to=")).unwrap_or_default();
    Ok(json(&service.ledger.payments(to).await?))
}

async fn payment(
    State(service): State<Arc<Service>>,
    Path(id): Path<String>,
) -> Result<Response, Refusal> {
    let found = service.ledger.payment(id).await?;
    Ok(found.map_or_else(|| StatusCode::NOT_FOUND.into_response(), |payment| json(&payment)))
}

async fn crash() {
    process::exit(70);
}

fn created(payment: &Payment) -> Response {
    let location = format!("/payments/{}", payment.id);
    (StatusCode::CREATED, AppendHeaders([(LOCATION, location)]), json(payment)).into_response()
}

fn json(value: &impl Serialize) -> Response {
    match serde_json::to_string(value) {
        Ok(text) => ([(CONTENT_TYPE, "application/json")], text + "\n").into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// Why the service did not pay.
enum Refusal {
    Unidentified,
    Unreadable(serde_json::Error),
    OtherOrder,
    Ledger,
}

impl From<LedgerError> for Refusal {
    fn from(_: LedgerError) -> Self {
        Self::Ledger
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let (status, why) = match self {
            Self::Unidentified => {
                (StatusCode::BAD_REQUEST, "Idempotency-Key is missing".to_owned())
            }
            Self::Unreadable(error) => (StatusCode::BAD_REQUEST, error.to_string()),
            Self::OtherOrder => {
                (StatusCode::UNPROCESSABLE_ENTITY, "this effect id is another order".to_owned())
            }
            Self::Ledger => (StatusCode::INTERNAL_SERVER_ERROR, "the ledger failed".to_owned()),
        };
        (status, why + "\n").into_response()
    }
}
