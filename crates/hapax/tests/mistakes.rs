//! Mistakes of an application that are found when it starts, each with its remedy.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::panic::{AssertUnwindSafe, catch_unwind};

use axum::{Router, routing::post};
use hapax::{Execution, Hapax, OperationName, Pointer};

/// What a start says that does not come about.
#[track_caller]
fn said(start: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(start)).unwrap_err();
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap()
}

async fn pay(_: Execution) {}

#[tokio::test]
async fn a_policy_does_not_rename_its_operation() {
    let h = Hapax::in_memory();
    let rename = |policy: &mut hapax::OperationPolicy| {
        policy.name = OperationName::new("refund").unwrap();
    };
    assert!(said(|| drop(h.operation("pay").policy(rename))).contains("another name, refund"));
    assert!(said(|| h.define("pay", rename)).contains("another name, refund"));
}

#[tokio::test]
async fn layers_of_one_operation_compare_alike() {
    let h = Hapax::in_memory();
    let patient = |policy: &mut hapax::OperationPolicy| policy.lease *= 2;
    let forgetful = |policy: &mut hapax::OperationPolicy| {
        policy.fingerprint.exclude.push(Pointer::parse("/at").unwrap());
    };
    let route =
        |layer: hapax::OperationLayer| drop(Router::<()>::new().route("/", layer.post(pay)));
    route(h.operation("pay"));
    // How long it takes is a matter of the route.
    route(h.operation("pay").policy(patient));
    let said = said(|| route(h.operation("pay").policy(forgetful)));
    assert!(said.contains("Hapax::define"), "{said}");
    h.define("refund", forgetful);
    route(h.operation("refund"));
    route(h.operation("refund"));
}

#[tokio::test]
async fn a_handler_that_takes_its_attempt_needs_a_key() {
    let h = Hapax::in_memory();
    let lax = || h.operation("pay").policy(|policy| policy.key.required = false);
    assert!(said(|| drop(lax().post::<_, _, (), _>(pay))).contains("key.required"));
    // As a whole it may be called without one.
    drop(Router::<()>::new().route("/", post(|| async {}).layer(lax().bracketed())));
}
