//! A batch: one request that carries many payments, each with its own id, outcome and retries.
//!
//! The id of an item is its key. The request as a whole has none: whoever does not know what became
//! of it sends all of it again, and each item is done once.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use axum::{Json, Router, extract::State, http::StatusCode, routing::post};
use clap::Parser;
use hapax::{Done, Execution, Hapax, Interrupted, NotDone, OperationName, OperationPolicy, Scope};
use hapax_examples::{Failed, database, serve};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sqlx::query;

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS payments (
        n      INTEGER PRIMARY KEY,
        id     TEXT NOT NULL,
        amount INTEGER NOT NULL
    );
";

const OPERATION: &str = "payments.create";

#[derive(Parser)]
struct Args {
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    #[arg(long, default_value = "batch.db")]
    database: PathBuf,
    /// How long the work of a process that died stays reserved, in milliseconds.
    #[arg(long, default_value = "30000")]
    lease: u64,
}

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let args = Args::parse();
    let pool = database(&args.database, TABLES).await?;
    let h = Hapax::sqlite(&pool).single_tenant().open().await?;
    // An operation without a route has the defaults, or what is said here before its first use.
    let mut policy = OperationPolicy::new(OperationName::new(OPERATION)?, "");
    policy.lease = Duration::from_millis(args.lease);
    h.define(policy).map_err(|wrong| format!("{wrong:?}"))?;
    let app = Router::new().route("/payments/batch", post(batch)).with_state(h.clone());
    serve(app, &h, args.listen).await
}

#[derive(Deserialize)]
struct Batch {
    items: Vec<Item>,
}

/// What is asked for is the whole item: the same id with another amount is refused.
#[derive(Deserialize, Serialize)]
struct Item {
    id: String,
    amount: u32,
}

#[derive(Deserialize, Serialize)]
struct Payment {
    number: i64,
}

/// 207: look at each item. They come in the order of the request.
async fn batch(
    State(h): State<Hapax>,
    Json(Batch { items }): Json<Batch>,
) -> (StatusCode, Json<Vec<Value>>) {
    let ids: Vec<String> = items.iter().map(|item| item.id.clone()).collect();
    let all = h.each(OPERATION, &Scope::single_tenant(), items, |item| &item.id, pay).await;
    let answers = ids.into_iter().zip(all).map(|(id, result)| answer(&id, result));
    (StatusCode::MULTI_STATUS, Json(answers.collect()))
}

/// One item: its row and its outcome are one commit.
async fn pay(x: Execution, item: Item) -> Result<Payment, PayError> {
    if item.amount == 0 {
        // Nothing was done, so the id is free for the corrected item.
        return Err(PayError::Invalid);
    }
    x.finish(async |tx| {
        let insert = query("INSERT INTO payments (id, amount) VALUES (?, ?)");
        let insert = insert.bind(&item.id).bind(item.amount).execute(tx).await?;
        Ok(Payment { number: insert.last_insert_rowid() })
    })
    .await
}

fn answer(id: &str, result: Result<Done<Payment>, NotDone<PayError>>) -> Value {
    let (status, says) = match result {
        Ok(Done { value, replayed }) => {
            return json!({
                "id": id, "status": 201, "number": value.number, "replayed": replayed,
            });
        }
        Err(NotDone::Failed(PayError::Invalid)) => (422, "an amount is more than nothing".into()),
        // For all of these the caller sends the item again.
        Err(NotDone::Failed(_)) => (503, "it could not be done now".into()),
        Err(NotDone::Later(refusal)) => (503, refusal.to_string()),
        Err(NotDone::Unresolved(refusal)) => (409, refusal.to_string()),
        // It will never be done under this id.
        Err(NotDone::Refused(refusal)) => (422, refusal.to_string()),
    };
    json!({ "id": id, "status": status, "says": says })
}

#[derive(Debug)]
enum PayError {
    Invalid,
    Database,
    Interrupted,
}

impl From<sqlx::Error> for PayError {
    fn from(_: sqlx::Error) -> Self {
        Self::Database
    }
}

impl From<Interrupted> for PayError {
    fn from(_: Interrupted) -> Self {
        Self::Interrupted
    }
}
