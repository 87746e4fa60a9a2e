//! What the service tells of its effects, by the identity they were made under.
//!
//! | request | answer |
//! |---|---|
//! | `GET /effects/ID` | 200 with the payment, or 404 |
//! | `POST /close/ID?attempt=N` | refuses every attempt up to N from now on; then as above |
//!
//! While the file `gates/ledger-down` is there, both are answered with 503. Each is written to
//! `asked.jsonl`, and none is an arrival.

use std::time::SystemTime;

use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use serde_json::json;

use crate::{Answer, Arrival, Log, Service, full};

impl Service {
    /// The answer to a question; `None` for a request that is none.
    pub(crate) fn asked(&self, request: &Request<Incoming>) -> Option<Answer> {
        let path = request.uri().path();
        let closes = *request.method() == Method::POST;
        let id =
            if closes { path.strip_prefix("/close/")? } else { path.strip_prefix("/effects/")? };
        let field = |name: &str| {
            let value = request.headers().get(name)?;
            Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
        };
        Log::open(&self.dir.join("asked.jsonl")).append(&json!({
            "method": request.method().as_str(),
            "target": request.uri().to_string(),
            "authorization": field("authorization"),
            "attempt": field("hapax-attempt"),
        }));
        if self.dir.join("gates").join("ledger-down").exists() {
            return Some(answer(StatusCode::SERVICE_UNAVAILABLE, "{}"));
        }
        let key = format!("\"{id}\"");
        let mut effects = self.effects.lock();
        if closes {
            let attempt = request.uri().query().and_then(|query| query.strip_prefix("attempt="));
            let attempt = attempt.and_then(|n| n.parse::<u64>().ok()).expect("?attempt=N");
            let closed = effects.closed.entry(key.clone()).or_default();
            *closed = attempt.max(*closed);
        }
        Some(match effects.by_key.get(&key) {
            Some(made) => {
                let payment = json!({ "payment": { "id": format!("pay_{made}") }, "asked": true });
                answer(StatusCode::OK, &payment.to_string())
            }
            None => answer(StatusCode::NOT_FOUND, "{}"),
        })
    }

    /// Whether an effect comes too late: its attempt is closed, or its deadline over.
    pub(crate) fn refuses(&self, arrival: &Arrival) -> bool {
        let field = |name: &str| arrival.head.headers.get(name).and_then(|it| it.to_str().ok());
        let deadline = field("hapax-deadline")
            .map(|moment| humantime::parse_rfc3339(moment).expect("a moment"));
        let attempt = field("hapax-attempt").and_then(|n| n.parse::<u64>().ok());
        let closed =
            field("idempotency-key").and_then(|key| self.effects.lock().closed.get(key).copied());
        deadline.is_some_and(|deadline| deadline < SystemTime::now())
            || closed.is_some_and(|closed| attempt.is_none_or(|attempt| attempt <= closed))
    }
}

/// The answer to an attempt that comes too late.
pub(crate) fn refused() -> Answer {
    answer(StatusCode::CONFLICT, "{\"refused\":true}")
}

fn answer(status: StatusCode, json: &str) -> Answer {
    let response = Response::builder().status(status).header("content-type", "application/json");
    response.body(full(json.to_owned())).expect("an answer")
}
