//! What the service tells of its effects, by the identity they were made under.
//!
//! | request | answer |
//! |---|---|
//! | `GET /effects/ID` | 200 with the payment, or 404 |
//! | `POST /close/ID?attempt=N` | refuses every attempt up to N from now on; then as above |
//!
//! It depends on the mode which of them it knows; what it does not know is 404. While the file
//! `gates/ledger-down` is there, both are answered with 503. Each is written to `asked.jsonl`, and
//! none is an arrival.

use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use serde_json::json;

use crate::{
    Answer, Service,
    effects::{Log, Refusal},
    full,
    mode::Mode,
};

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
        let mut effects = self.effects.lock();
        let knows =
            if closes { effects.mode() == Mode::Closing } else { effects.mode() != Mode::Plain };
        if !knows {
            return Some(answer(StatusCode::NOT_FOUND, "{\"no\":\"such place\"}"));
        }
        let key = format!("\"{id}\"");
        if closes {
            let attempt = request.uri().query().and_then(|query| query.strip_prefix("attempt="));
            let attempt = attempt.and_then(|n| n.parse::<u64>().ok()).expect("?attempt=N");
            effects.close(&key, attempt);
        }
        Some(match effects.of(&key) {
            Some(made) => {
                let payment = json!({ "payment": { "id": format!("pay_{made}") }, "asked": true });
                answer(StatusCode::OK, &payment.to_string())
            }
            None => answer(StatusCode::NOT_FOUND, "{}"),
        })
    }
}

/// The answer to an attempt whose effect is not made.
pub(crate) fn refused(why: Refusal) -> Answer {
    match why {
        Refusal::Late => answer(StatusCode::CONFLICT, "{\"refused\":\"late\"}"),
        Refusal::Closed => answer(StatusCode::CONFLICT, "{\"refused\":\"closed\"}"),
        Refusal::Older => answer(StatusCode::PRECONDITION_FAILED, "{\"refused\":\"older\"}"),
        Refusal::Duplicate => answer(StatusCode::CONFLICT, "{\"refused\":\"duplicate\"}"),
    }
}

fn answer(status: StatusCode, json: &str) -> Answer {
    let response = Response::builder().status(status).header("content-type", "application/json");
    response.body(full(json.to_owned())).expect("an answer")
}
