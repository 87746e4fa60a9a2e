//! What the engine's tests have in common.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use hapax::{Answer, Ended, Executed, Intent, Operation, Reply};
use hapax_core::{
    Fingerprinter, IntentParts, Key, OnUnknown, OperationName, OperationPolicy, ProblemKind,
    RecordId, Scope, StoredResponse,
};

pub(crate) const PAY: &str = "{\"amount\":1}";
pub(crate) const LOST: Executed<&'static str> = Executed { ended: Ended::Lost, live: None };

pub(crate) fn policy() -> OperationPolicy {
    OperationPolicy::new(OperationName::new("pay").unwrap(), "http://127.0.0.1:1")
}

pub(crate) fn resend() -> OperationPolicy {
    OperationPolicy {
        on_unknown: OnUnknown::Resend,
        collapse_for: Some(Duration::from_secs(3600)),
        ..policy()
    }
}

pub(crate) fn intent(operation: &OperationName, body: &'static str) -> impl Intent + 'static {
    let operation = operation.clone();
    move |fingerprinter: &Fingerprinter| {
        fingerprinter.fingerprint(&IntentParts {
            operation: operation.as_str(),
            method: "POST",
            path: "/payments",
            query: None,
            media_type: Some(b"application/json"),
            content_encoding: None,
            headers: &[],
            decoded: None,
            body: body.as_bytes(),
        })
    }
}

pub(crate) fn id(operation: &Arc<Operation>) -> RecordId {
    let key = Key::from_bytes(b"key").unwrap();
    RecordId::new(&Scope::single_tenant(), operation.name(), &key)
}

pub(crate) fn replied(status: u16, live: &'static str) -> Executed<&'static str> {
    let body = Bytes::from_static(live.as_bytes());
    let response = Some(StoredResponse { status, body, ..Default::default() });
    let reply =
        Reply { status, said: None, told: None, replayed: false, response, retry_after: None };
    Executed { ended: Ended::Answered(reply), live: Some(live) }
}

pub(crate) fn problem<T: std::fmt::Debug>(answer: Answer<T>) -> ProblemKind {
    told(answer).0
}

/// Kind, status and `Retry-After` of a problem.
pub(crate) fn told<T: std::fmt::Debug>(answer: Answer<T>) -> (ProblemKind, u16, u64) {
    match answer {
        Answer::Problem(p) => (p.kind, p.status, p.retry_after_seconds().unwrap_or(0)),
        other => panic!("{other:?}"),
    }
}
