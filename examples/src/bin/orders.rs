//! An order service whose effect is in its own database: one transaction, one commit.
//!
//! `POST /orders` writes an order, its lines and the stock. The handler takes [`Tx`]: the claim of
//! the key, these rows and the stored answer commit together. If the process dies anywhere, either
//! all of it is there or nothing, so a retry is always safe.
//!
//! Try it:
//!
//! ```console
//! $ cargo run --bin orders -- --database /tmp/orders.db --listen 127.0.0.1:3000
//! $ curl -i localhost:3000/orders -H 'Idempotency-Key: "8e03978e-40d5-43dd-bc93-6894a57f9324"' \
//!     --json '{"customer":"acme","reference":"PO-1","lines":[{"sku":"tea","count":2}]}'
//! ```

use std::{net::SocketAddr, path::PathBuf};

use axum::{
    Json, Router,
    extract::State,
    http::{StatusCode, header::LOCATION},
    response::{IntoResponse, Response},
    routing::get,
};
use clap::Parser;
use hapax::{Hapax, Tx};
use hapax_examples::{Failed, database, serve};
use metrics_exporter_prometheus::PrometheusBuilder;
use serde::{Deserialize, Serialize};
use sqlx::{SqlitePool, query, query_as};

pub(crate) const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS stock (
        sku  TEXT PRIMARY KEY,
        left INTEGER NOT NULL CHECK (left >= 0)
    );
    CREATE TABLE IF NOT EXISTS orders (
        id        INTEGER PRIMARY KEY,
        customer  TEXT NOT NULL,
        reference TEXT NOT NULL,
        UNIQUE (customer, reference)
    );
    CREATE TABLE IF NOT EXISTS lines (
        order_id INTEGER NOT NULL REFERENCES orders,
        sku      TEXT NOT NULL REFERENCES stock,
        count    INTEGER NOT NULL
    );
    INSERT OR IGNORE INTO stock VALUES ('tea', 100), ('coffee', 5);
";

#[derive(Parser)]
struct Args {
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    #[arg(long, default_value = "orders.db")]
    database: PathBuf,
}

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let Args { listen, database: path } = Args::parse();
    let metrics = PrometheusBuilder::new().install_recorder()?;
    let pool = database(&path, TABLES).await?;
    // The records live in the same database; all callers of this example are one tenant.
    let h = Hapax::sqlite(&pool).single_tenant().open().await?;
    let app = app(&h, pool).route("/metrics", get(async move || metrics.render()));
    serve(app, &h, listen).await
}

pub(crate) fn app(h: &Hapax, pool: SqlitePool) -> Router {
    Router::new()
        .route("/orders", get(list).merge(h.operation("orders.create").post(create)))
        .with_state(pool)
}

#[derive(Deserialize)]
struct NewOrder {
    customer: String,
    /// The customer's own number for the order.
    reference: String,
    lines: Vec<Line>,
}

#[derive(Deserialize)]
struct Line {
    sku: String,
    count: u32,
}

#[derive(Serialize)]
struct Order {
    id: i64,
    customer: String,
    reference: String,
}

async fn create(mut tx: Tx, Json(new): Json<NewOrder>) -> Result<Response, OrderError> {
    // 422: rolled back, and the key is free for the corrected order.
    if new.lines.is_empty() || new.lines.iter().any(|line| line.count == 0) {
        return Err(OrderError::Invalid);
    }
    // Here `tx` is sqlx's connection. There is no commit to call: it comes with the answer.
    let id = query("INSERT INTO orders (customer, reference) VALUES (?, ?)")
        .bind(&new.customer)
        .bind(&new.reference)
        .execute(&mut *tx)
        .await
        .map_err(|error| match error.as_database_error() {
            // Another key, the same order: a rule of the business, which has nothing to do with
            // retries. It is refused by the business's rule, and counted apart.
            Some(failed) if failed.is_unique_violation() => {
                tx.attempt().count_business_duplicate();
                OrderError::ReferenceUsed
            }
            _ => error.into(),
        })?
        .last_insert_rowid();
    for Line { sku, count } in &new.lines {
        let taken = query("UPDATE stock SET left = left - ? WHERE sku = ?")
            .bind(count)
            .bind(sku)
            .execute(&mut *tx)
            .await
            .map_err(|error| match error.as_database_error() {
                Some(failed) if failed.is_check_violation() => OrderError::SoldOut,
                _ => error.into(),
            })?;
        if taken.rows_affected() == 0 {
            return Err(OrderError::Invalid);
        }
        query("INSERT INTO lines (order_id, sku, count) VALUES (?, ?, ?)")
            .bind(id)
            .bind(sku)
            .bind(count)
            .execute(&mut *tx)
            .await?;
    }
    let order = Order { id, customer: new.customer, reference: new.reference };
    Ok((StatusCode::CREATED, [(LOCATION, format!("/orders/{id}"))], Json(order)).into_response())
}

async fn list(State(pool): State<SqlitePool>) -> Result<Json<Vec<Order>>, OrderError> {
    let orders = query_as("SELECT id, customer, reference FROM orders ORDER BY id");
    let orders: Vec<(i64, String, String)> = orders.fetch_all(&pool).await?;
    let order = |(id, customer, reference)| Order { id, customer, reference };
    Ok(Json(orders.into_iter().map(order).collect()))
}

enum OrderError {
    Invalid,
    ReferenceUsed,
    SoldOut,
    Database,
}

impl From<sqlx::Error> for OrderError {
    fn from(_: sqlx::Error) -> Self {
        Self::Database
    }
}

impl IntoResponse for OrderError {
    /// The status says what becomes of the key: see the table in `docs/library.md`.
    fn into_response(self) -> Response {
        let (status, says) = match self {
            Self::Invalid => (StatusCode::UNPROCESSABLE_ENTITY, "this is no order"),
            // Definite: kept, and every retry with this key gets it again.
            Self::ReferenceUsed => (StatusCode::CONFLICT, "this reference has an order"),
            Self::SoldOut => (StatusCode::CONFLICT, "there is not enough of it"),
            // Rolled back; the retry tries again.
            Self::Database => (StatusCode::SERVICE_UNAVAILABLE, "try again"),
        };
        (status, says).into_response()
    }
}
