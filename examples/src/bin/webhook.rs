//! A receiver of a provider's events: each takes effect once, however often it is delivered.
//!
//! The key is the event's id. What the event carries is not compared, because providers change
//! fields between the deliveries of one event (the time of the delivery, its number).

use std::{env, net::SocketAddr, path::PathBuf};

use axum::{
    Json, Router,
    http::{StatusCode, request::Parts},
};
use clap::Parser;
use hapax::{Event, Hapax, Rejected, Scope, Tx};
use hapax_examples::{Failed, database, serve};
use hmac::{Hmac, KeyInit, Mac};
use serde::Deserialize;
use sha2::Sha256;
use sqlx::query;

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS balances (
        account TEXT PRIMARY KEY,
        cents   INTEGER NOT NULL
    );
";

#[derive(Parser)]
struct Args {
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    #[arg(long, default_value = "webhook.db")]
    database: PathBuf,
}

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let Args { listen, database: path } = Args::parse();
    // What the provider signs with.
    let secret = env::var("WEBHOOK_SECRET").map_err(|_| "WEBHOOK_SECRET is not set")?;
    let pool = database(&path, TABLES).await?;
    let h = Hapax::sqlite(&pool).open().await?;
    let key = Hmac::<Sha256>::new_from_slice(secret.as_bytes())?;
    let events = h.webhook("psp.event", move |head, body| verify(key.clone(), head, body));
    let app = Router::new().route("/events", events.post(receive));
    serve(app, &h, listen).await
}

/// Whether it is from the provider, and which event it is. Until this has said yes, nothing is
/// claimed, so nobody else can use up an event's id.
fn verify(mut key: Hmac<Sha256>, head: &Parts, body: &[u8]) -> Result<Event, Rejected> {
    let field = |name| head.headers.get(name).map(|value| value.as_bytes());
    let id = field("webhook-id").ok_or(Rejected(StatusCode::BAD_REQUEST))?;
    let signature = field("webhook-signature").ok_or(Rejected(StatusCode::UNAUTHORIZED))?;
    // The id is signed too: else an old event could be delivered again as a new one.
    key.update(id);
    key.update(b".");
    key.update(body);
    let signature = from_hex(signature).ok_or(Rejected(StatusCode::UNAUTHORIZED))?;
    key.verify_slice(&signature).map_err(|_| Rejected(StatusCode::UNAUTHORIZED))?;
    let scope = Scope::principal(b"psp").map_err(|_| Rejected(StatusCode::BAD_REQUEST))?;
    Ok(Event { scope, id: id.to_vec() })
}

#[derive(Deserialize)]
struct Paid {
    account: String,
    cents: u32,
}

/// Adding is not idempotent, and need not be.
async fn receive(mut tx: Tx, Json(paid): Json<Paid>) -> Result<StatusCode, StatusCode> {
    let add = "INSERT INTO balances (account, cents) VALUES (?, ?)
               ON CONFLICT (account) DO UPDATE SET cents = cents + excluded.cents";
    let added = query(add).bind(paid.account).bind(paid.cents).execute(&mut *tx).await;
    // 503: rolled back, and the provider delivers it again.
    added.map(|_| StatusCode::NO_CONTENT).map_err(|_| StatusCode::SERVICE_UNAVAILABLE)
}

fn from_hex(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let byte = |pair: &[u8]| u8::try_from(digit(pair[0])? * 16 + digit(pair[1])?).ok();
    let (pairs, rest) = text.as_chunks::<2>();
    rest.is_empty().then(|| pairs.iter().map(|pair| byte(pair)).collect())?
}
