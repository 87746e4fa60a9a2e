//! What the examples have in common, and none of it is special to hapax: a database, a server that
//! stops in order, and the crashes of their tests.

use std::{error::Error, net::SocketAddr, path::Path, time::Duration};

use axum::Router;
use hapax::Hapax;
use sqlx::{
    SqlitePool, raw_sql,
    sqlite::{SqliteConnectOptions, SqlitePoolOptions},
};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

pub mod crash;
pub mod provider_client;

/// Whatever ends an example.
pub type Failed = Box<dyn Error + Send + Sync>;

/// How long executions under way have to end when the process is told to stop.
const DRAIN: Duration = Duration::from_secs(10);

/// Opens the database, and makes its tables where they are not there.
///
/// # Errors
/// What SQLite says.
pub async fn database(path: &Path, tables: &'static str) -> Result<SqlitePool, Failed> {
    // Whoever was first keeps its own.
    let _ = tracing_subscriber::fmt().with_writer(std::io::stderr).try_init();
    let options = SqliteConnectOptions::new().filename(path).create_if_missing(true);
    // hapax makes a connection of its own in the same way, with the same hooks.
    let pool = SqlitePoolOptions::new().after_connect(|connection, _| {
        Box::pin(async move { crash::watch(&mut connection.lock_handle().await?) })
    });
    let pool = pool.connect_with(options).await?;
    raw_sql(tables).execute(&pool).await?;
    Ok(pool)
}

/// Serves until SIGTERM, then stops in order: no new connections, no new attempts, and what is
/// under way has a bounded time to end. What does not end is unknown to its caller, whose retry
/// finds out.
///
/// # Errors
/// When the address is taken.
pub async fn serve(app: Router, h: &Hapax, listen: SocketAddr) -> Result<(), Failed> {
    let mut terminate = signal(SignalKind::terminate())?;
    let listener = TcpListener::bind(listen).await?;
    println!("listening on http://{}", listener.local_addr()?);
    crash::arm();

    let stop = CancellationToken::new();
    let serving = axum::serve(listener, app).with_graceful_shutdown(stop.clone().cancelled_owned());
    let serving = tokio::spawn(serving.into_future());
    terminate.recv().await;
    stop.cancel();
    h.shutdown(DRAIN).await;
    // Answers are on their way to clients; one that does not read has a second.
    let _ = timeout(Duration::from_secs(1), serving).await;
    Ok(())
}
