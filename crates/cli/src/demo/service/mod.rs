//! The payment service of the demo: small, real, slow, flaky.
//!
//! It is a process of its own, so that a crash is one. It honours the identity it is given: one
//! payment for each effect id, checked in the transaction that pays. It knows nothing else of
//! hapax.

mod connection;
mod faults;
mod ledger;
mod routes;

use std::{
    io,
    net::SocketAddr,
    path::PathBuf,
    process::{self, ExitCode},
    thread,
};

use tokio::net::TcpListener;

pub(super) use self::ledger::{Ledger, Rows};
use self::{connection::serve_connection, faults::Faults, routes::routes};
use super::output::say;
use crate::failure::Failure;

/// How the service runs.
#[derive(Debug)]
pub(super) struct Options {
    pub(super) listen: SocketAddr,
    pub(super) ledger: PathBuf,
    /// The seed of its faults; without one it behaves.
    pub(super) faults: Option<u64>,
    /// Whether it ignores the effect id.
    pub(super) careless: bool,
}

/// Serves until the process is ended: by `POST /crash`, by a kill, or by the end of the demo.
pub(super) async fn run(options: Options) -> Result<ExitCode, Failure> {
    let ledger = Ledger::open(&options.ledger, options.careless)?;
    let listener = TcpListener::bind(options.listen).await.map_err(Failure::start)?;
    let address = listener.local_addr().map_err(Failure::start)?;
    thread::spawn(end_with_parent);
    let routes = routes(ledger, Faults(options.faults));
    say(format_args!("listening on http://{address}"));
    loop {
        // An accept that fails is the caller's loss; it will call again.
        if let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve_connection(stream, routes.clone()));
        }
    }
}

/// The demo holds the other end of our standard input. When it is gone, so are we.
fn end_with_parent() {
    // An error is an end too.
    let _ = io::copy(&mut io::stdin(), &mut io::sink());
    process::exit(0);
}
