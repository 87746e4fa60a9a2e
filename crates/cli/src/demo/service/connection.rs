//! One connection, which a handler may cut.

use std::sync::Arc;

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use tokio::{net::TcpStream, sync::Notify};

/// Cuts the connection that a request came on.
#[derive(Clone, Debug, Default)]
pub(super) struct Cut(Arc<Notify>);

impl Cut {
    /// Closes it without an answer; the caller is not polled again.
    pub(super) async fn now<T>(self) -> T {
        self.0.notify_one();
        std::future::pending().await
    }
}

/// Serves a connection to its end.
pub(super) async fn serve_connection(stream: TcpStream, routes: Router) {
    let cut = Cut::default();
    let routes = routes.layer(Extension(cut.clone()));
    let serving = http1::Builder::new()
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes));
    tokio::select! {
        // How it ended is seen by the caller.
        _ = serving => {}
        () = cut.0.notified() => {}
    }
}
