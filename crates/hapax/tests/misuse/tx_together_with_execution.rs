//! An effect is one transaction, or it is told by steps.

use hapax::{Execution, Hapax, Tx};

async fn pay(_tx: Tx, _x: Execution) -> &'static str {
    "paid"
}

fn app(h: &Hapax) -> axum::Router {
    axum::Router::new().route("/payments", h.operation("payments.create").post(pay))
}

fn main() {}
