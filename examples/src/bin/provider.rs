//! A payment provider to try `payments` with: it honours the `Idempotency-Key`, and its two logs,
//! on disk before it answers, are the truth about what was asked and what was charged.
//!
//! `POST /next/{mood}` says what becomes of the next charge: `decline`, `fail` (503, nothing
//! charged), `fail-after` (503, charged), `cut` (charged, no answer), `hang` (nothing charged, no
//! answer) or `hang-after` (charged, no answer).
#![expect(clippy::panic, reason = "the connection is cut by the end of its task")]

use std::{
    collections::HashMap,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use axum::{
    Json, Router,
    extract::{self, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
    routing::post,
};
use clap::Parser;
use hapax_examples::Failed;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;

#[derive(Parser)]
struct Args {
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Where `arrivals.jsonl` and `charges.jsonl` are.
    #[arg(long, default_value = ".")]
    dir: PathBuf,
}

pub(crate) struct Provider {
    arrivals: File,
    charges: File,
    /// What was charged, by identity.
    charged: HashMap<String, Value>,
    next: Option<String>,
}

type Shared = Arc<Mutex<Provider>>;

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let Args { listen, dir } = Args::parse();
    let provider = Provider::open(&dir)?;
    let listener = TcpListener::bind(listen).await?;
    println!("listening on http://{}", listener.local_addr()?);
    Ok(axum::serve(listener, app(provider)).await?)
}

pub(crate) fn app(provider: Provider) -> Router {
    Router::new()
        .route("/charges", post(charge))
        .route("/next/{mood}", post(next))
        .with_state(Arc::new(Mutex::new(provider)))
}

async fn next(State(provider): State<Shared>, extract::Path(mood): extract::Path<String>) {
    provider.lock().next = Some(mood);
}

async fn charge(
    State(provider): State<Shared>,
    headers: HeaderMap,
    Json(asked): Json<Value>,
) -> Result<Response, StatusCode> {
    let key = headers.get("idempotency-key").and_then(|key| key.to_str().ok());
    let key = key.ok_or(StatusCode::BAD_REQUEST)?.trim_matches('"').to_owned();
    let mood = {
        let mut provider = provider.lock();
        log(&mut provider.arrivals, &json!({ "key": key, "asked": asked }))?;
        provider.next.take().unwrap_or_default()
    };
    match mood.as_str() {
        "decline" => return Err(StatusCode::PAYMENT_REQUIRED),
        "fail" => return Err(StatusCode::SERVICE_UNAVAILABLE),
        "hang" => std::future::pending().await,
        _ => {}
    }
    let charge = provider.lock().charge(key, asked)?;
    match mood.as_str() {
        "fail-after" => return Err(StatusCode::SERVICE_UNAVAILABLE),
        "cut" => panic!("cut on purpose"),
        "hang-after" => std::future::pending().await,
        _ => {}
    }
    Ok((StatusCode::CREATED, Json(charge)).into_response())
}

impl Provider {
    pub(crate) fn open(dir: &Path) -> io::Result<Self> {
        let open = |name| OpenOptions::new().create(true).append(true).open(dir.join(name));
        let (arrivals, charges) = (open("arrivals.jsonl")?, open("charges.jsonl")?);
        let mut charged = HashMap::new();
        for line in fs::read_to_string(dir.join("charges.jsonl"))?.lines() {
            let charge: Value = serde_json::from_str(line)?;
            charged.insert(charge["key"].as_str().unwrap_or_default().to_owned(), charge);
        }
        Ok(Self { arrivals, charges, charged, next: None })
    }

    /// One identity, one charge: the same again gets the same answer, something else is refused.
    fn charge(&mut self, key: String, asked: Value) -> Result<Value, StatusCode> {
        if let Some(charge) = self.charged.get(&key) {
            let same = charge["asked"] == asked;
            return if same { Ok(charge.clone()) } else { Err(StatusCode::UNPROCESSABLE_ENTITY) };
        }
        let id = format!("ch_{}", self.charged.len() + 1);
        let charge = json!({ "charge": id, "key": key, "asked": asked });
        log(&mut self.charges, &charge)?;
        self.charged.insert(key, charge.clone());
        Ok(charge)
    }
}

/// A line that is on disk when this returns.
fn log(file: &mut File, line: &Value) -> Result<(), StatusCode> {
    let written = writeln!(file, "{line}").and_then(|()| file.sync_data());
    written.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
}
