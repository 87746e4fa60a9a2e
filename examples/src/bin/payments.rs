//! A payment service whose effect is partly elsewhere: its own rows, and a charge at a provider.
//!
//! The handler takes [`Execution`] and names its parts. What each part came to is stored, so that
//! an execution that was interrupted anywhere goes on after its last part when the client retries:
//! with the same order, and with the same identity towards the provider.
//!
//! `cargo run --bin provider` is a provider to try it with.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use axum::{
    Json, Router,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use clap::Parser;
use hapax::{Execution, Hapax, Interrupted, Step, StepError};
use hapax_examples::{
    Failed, crash, database,
    provider_client::{ChargeFailed, Provider},
    serve,
};
use serde::{Deserialize, Serialize};
use sqlx::query;

pub(crate) const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS orders (
        id     INTEGER PRIMARY KEY,
        amount INTEGER NOT NULL,
        state  TEXT NOT NULL,
        charge TEXT UNIQUE
    );
";

/// The provider collapses charges of one identity for a day; a call of ours is never under way for
/// longer than an hour.
const PROVIDER_REMEMBERS: Duration = Duration::from_hours(24 - 1);

#[derive(Parser)]
struct Args {
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    #[arg(long, default_value = "payments.db")]
    database: PathBuf,
    /// The provider's address.
    #[arg(long)]
    provider: SocketAddr,
    /// How long the work of a process that died stays reserved, in milliseconds.
    #[arg(long, default_value = "30000")]
    lease: u64,
}

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let args = Args::parse();
    let pool = database(&args.database, TABLES).await?;
    let h = Hapax::sqlite(&pool).single_tenant().open().await?;
    let app = app(&h, args.provider, Duration::from_millis(args.lease));
    serve(app, &h, args.listen).await
}

pub(crate) fn app(h: &Hapax, provider: SocketAddr, lease: Duration) -> Router {
    let payments = h.operation("payments.create").policy(|policy| {
        policy.lease = lease;
        policy.timeout = Duration::from_secs(10);
    });
    Router::new()
        .route("/payments", payments.post(pay))
        .with_state(Provider::new(provider, Duration::from_secs(1)))
}

#[derive(Deserialize, Serialize)]
struct NewPayment {
    amount: u32,
}

#[derive(Serialize)]
struct Payment {
    order: i64,
    amount: u32,
    charge: String,
}

async fn pay(
    State(provider): State<Provider>,
    mut x: Execution,
    Json(new): Json<NewPayment>,
) -> Result<Response, PaymentError> {
    // Before the first step nothing has happened: this frees the key.
    if new.amount == 0 {
        return Err(PaymentError::Invalid);
    }
    // The row and the note that this step is done commit together. An attempt that goes on gets
    // the stored id.
    let order = x
        .step("ordered", async |tx| {
            let insert = query("INSERT INTO orders (amount, state) VALUES (?, 'ordered')");
            Ok::<_, sqlx::Error>(insert.bind(new.amount).execute(tx).await?.last_insert_rowid())
        })
        .await?;
    crash::here("ordered");

    // That it begins is durable before, what it came to is durable after. The id is the same for
    // every attempt, so the provider charges once. A timeout leaves it in doubt: the execution
    // stops here, and a retry may do the step again for as long as the provider remembers.
    let step = Step::new("charge").resend_for(PROVIDER_REMEMBERS);
    let charge = x.call(step, async |id| provider.charge(&id, order, new.amount).await);
    let charge: String = match charge.await {
        // The provider said no, for good. That is an outcome too: its rows and its answer commit
        // together.
        Err(StepError::Failed(ChargeFailed::Declined)) => return declined(x, order).await,
        charge => charge?,
    };
    crash::here("charged");

    // The last transaction carries the answer: paid and answered are one commit.
    x.finish(async |tx| {
        query("UPDATE orders SET state = 'paid', charge = ? WHERE id = ?")
            .bind(&charge)
            .bind(order)
            .execute(tx)
            .await?;
        let payment = Payment { order, amount: new.amount, charge };
        Ok((StatusCode::CREATED, Json(payment)).into_response())
    })
    .await
}

async fn declined(x: Execution, order: i64) -> Result<Response, PaymentError> {
    x.finish(async |tx| {
        let update = query("UPDATE orders SET state = 'declined' WHERE id = ?");
        update.bind(order).execute(tx).await?;
        Ok((StatusCode::PAYMENT_REQUIRED, "the charge was declined").into_response())
    })
    .await
}

enum PaymentError {
    Invalid,
    /// Nobody knows, or nothing was sent: the record knows which.
    Provider,
    Database,
    Interrupted(Interrupted),
}

impl IntoResponse for PaymentError {
    fn into_response(self) -> Response {
        match self {
            Self::Invalid => StatusCode::UNPROCESSABLE_ENTITY.into_response(),
            Self::Provider => StatusCode::BAD_GATEWAY.into_response(),
            Self::Database => StatusCode::SERVICE_UNAVAILABLE.into_response(),
            Self::Interrupted(why) => why.into_response(),
        }
    }
}

impl From<sqlx::Error> for PaymentError {
    fn from(_: sqlx::Error) -> Self {
        Self::Database
    }
}

impl From<ChargeFailed> for PaymentError {
    fn from(_: ChargeFailed) -> Self {
        Self::Provider
    }
}

impl From<Interrupted> for PaymentError {
    fn from(why: Interrupted) -> Self {
        Self::Interrupted(why)
    }
}

impl<E> From<StepError<E>> for PaymentError
where
    Self: From<E>,
{
    fn from(error: StepError<E>) -> Self {
        error.into_error()
    }
}
