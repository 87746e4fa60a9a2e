//! The examples' handlers under the library's harness: failed, killed and repeated at every point
//! that they pass, their effects are one.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // a test that cannot go on fails

#[allow(dead_code, reason = "its main is that of a program")]
#[path = "../src/bin/orders.rs"]
mod orders;
#[allow(dead_code, reason = "its main is that of a program")]
#[path = "../src/bin/payments.rs"]
mod payments;
#[allow(dead_code, reason = "its main is that of a program")]
#[path = "../src/bin/provider.rs"]
mod provider;

use std::{net::SocketAddr, path::Path, time::Duration};

use axum::http::Request;
use hapax::{
    Hapax,
    testing::{End, Harness, World},
};
use hapax_examples::database;
use sqlx::{SqlitePool, query_scalar};
use tempfile::TempDir;
use tokio::net::TcpListener;

const KEY: &str = "8e03978e-40d5-43dd-bc93-6894a57f9324";

fn request(path: &str, body: &'static str) -> Request<&'static str> {
    Request::post(path)
        .header("content-type", "application/json")
        .header("idempotency-key", KEY)
        .body(body)
        .unwrap()
}

async fn count(pool: &SqlitePool, sql: &'static str) -> usize {
    let counted: i64 = query_scalar(sql).fetch_one(pool).await.unwrap();
    usize::try_from(counted).unwrap()
}

#[tokio::test]
async fn k5_the_order_service_makes_one_order_wherever_it_fails() {
    let order = r#"{"customer":"acme","reference":"PO-1","lines":[{"sku":"tea","count":2}]}"#;
    let report = Harness::new(request("/orders", order), async || {
        let dir = TempDir::new().unwrap();
        let pool = database(&dir.path().join("orders.db"), orders::TABLES).await.unwrap();
        let h = Hapax::sqlite(&pool).single_tenant().open().await.unwrap();
        World::new(&h, orders::app(&h, pool.clone()), async move || {
            let _kept = &dir;
            let taken = count(&pool, "SELECT 100 - left FROM stock WHERE sku = 'tea'").await;
            vec![
                ("order", count(&pool, "SELECT count(*) FROM orders").await),
                ("line", count(&pool, "SELECT count(*) FROM lines").await),
                ("tea taken, in twos", taken.div_ceil(2)),
            ]
        })
    });
    let report = report.run().await.unwrap_or_else(|violations| panic!("{violations}"));
    assert!(report.tried().iter().all(|tried| tried.end == End::Final), "{report}");
}

#[tokio::test]
async fn k6_the_payment_service_charges_and_pays_once_wherever_it_fails() {
    let report = Harness::new(request("/payments", r#"{"amount":7}"#), async || {
        let dir = TempDir::new().unwrap();
        let provider = provide(dir.path()).await;
        let pool = database(&dir.path().join("payments.db"), payments::TABLES).await.unwrap();
        let h = Hapax::sqlite(&pool).single_tenant().open().await.unwrap();
        let app = payments::app(&h, provider, Duration::from_secs(30));
        World::new(&h, app, async move || {
            let charges = std::fs::read_to_string(dir.path().join("charges.jsonl")).unwrap();
            let paid = "SELECT count(*) FROM orders WHERE state = 'paid'";
            vec![
                ("order", count(&pool, "SELECT count(*) FROM orders").await),
                ("charge", charges.lines().count()),
                ("paid order", count(&pool, paid).await),
            ]
        })
    });
    let report = report.run().await.unwrap_or_else(|violations| panic!("{violations}"));
    // The provider collapses, so a charge that is in doubt goes on too.
    assert!(report.tried().iter().all(|tried| tried.end == End::Final), "{report}");
}

/// A provider in this process, whose logs are in `dir`.
async fn provide(dir: &Path) -> SocketAddr {
    let provider = provider::Provider::open(dir).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, provider::app(provider)).await });
    address
}
