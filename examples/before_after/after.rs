//! A small order service: `POST /orders` writes an order and takes it out of the stock.

use axum::{Json, Router, extract::State, http::StatusCode, routing::get};
use hapax::{Hapax, Tx};
use serde::{Deserialize, Serialize};
use sqlx::{SqlitePool, query, query_scalar, raw_sql};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pool = SqlitePool::connect("sqlite:orders.db?mode=rwc").await?;
    raw_sql(TABLES).execute(&pool).await?;
    let h = Hapax::sqlite(&pool).single_tenant().open().await?;
    let orders = get(list).merge(h.operation("orders.create").post(create));
    let app = Router::new().route("/orders", orders).with_state(pool);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("listening on http://{}", listener.local_addr()?);
    Ok(axum::serve(listener, app).await?)
}

async fn create(mut tx: Tx, Json(new): Json<New>) -> Result<Created, Failed> {
    let insert = query("INSERT INTO orders (item) VALUES (?)").bind(&new.item);
    let id = insert.execute(&mut *tx).await?.last_insert_rowid();
    let take = query("UPDATE stock SET left = left - 1 WHERE item = ?").bind(&new.item);
    if take.execute(&mut *tx).await?.rows_affected() == 0 {
        return Err(Failed(StatusCode::NOT_FOUND));
    }
    Ok((StatusCode::CREATED, Json(Order { id, item: new.item })))
}

async fn list(State(pool): State<SqlitePool>) -> Result<Json<Vec<String>>, Failed> {
    Ok(Json(query_scalar("SELECT item FROM orders ORDER BY id").fetch_all(&pool).await?))
}

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, item TEXT NOT NULL);
    CREATE TABLE IF NOT EXISTS stock (item TEXT PRIMARY KEY, left INTEGER NOT NULL);
    INSERT OR IGNORE INTO stock VALUES ('tea', 100);
";

type Created = (StatusCode, Json<Order>);

#[derive(Deserialize)]
struct New {
    item: String,
}

#[derive(Serialize)]
struct Order {
    id: i64,
    item: String,
}

struct Failed(StatusCode);

impl From<sqlx::Error> for Failed {
    fn from(_: sqlx::Error) -> Self {
        Self(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

impl axum::response::IntoResponse for Failed {
    fn into_response(self) -> axum::response::Response {
        self.0.into_response()
    }
}
