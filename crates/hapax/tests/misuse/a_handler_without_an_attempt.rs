//! A handler that takes no attempt is protected by nothing.

use hapax::Hapax;

async fn pay(body: String) -> String {
    body
}

fn app(h: &Hapax) -> axum::Router {
    axum::Router::new().route("/payments", h.operation("payments.create").post(pay))
}

fn main() {}
