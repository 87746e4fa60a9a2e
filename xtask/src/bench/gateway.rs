//! The gateway under measurement: the optimized binary, on a store of its own.

use std::{
    io::{BufRead, BufReader},
    net::{Ipv4Addr, SocketAddr, SocketAddrV4},
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
    thread,
};

use tempfile::TempDir;

use crate::run::{Context, Failure, Outcome};

const UNKNOWN: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0));

/// A running gateway; it is killed when this is dropped.
pub(super) struct Gateway {
    child: Child,
    address: SocketAddr,
    _store: TempDir,
}

impl Gateway {
    /// Starts it, and waits until it is ready.
    pub(super) fn start(binary: &Path, upstream: SocketAddr) -> Outcome<Self> {
        let store = tempfile::tempdir().context("folder for the store")?;
        let mut child = Command::new(binary)
            .arg("serve")
            .args(["--listen", "127.0.0.1:0", "--operator-listen", "127.0.0.1:0"])
            .args(["--upstream", &format!("http://{upstream}")])
            .args(["--store", &format!("sqlite:{}", store.path().join("bench.db").display())])
            .arg("--single-tenant")
            .env("HAPAX_LOG", "error")
            .stdout(Stdio::piped())
            .spawn()
            .context(binary.display())?;
        let stdout = child.stdout.take();
        // From here on it is killed, whatever comes.
        let mut gateway = Self { child, address: UNKNOWN, _store: store };
        let stdout = stdout.ok_or_else(|| Failure::new("the gateway has no output"))?;
        gateway.address = listening(stdout)?;
        Ok(gateway)
    }

    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The address in its line `listening on http://…`. What it prints later is read and dropped.
fn listening(stdout: ChildStdout) -> Outcome<SocketAddr> {
    let mut lines = BufReader::new(stdout).lines().map_while(Result::ok);
    let found = lines.find_map(|line| {
        line.trim().strip_prefix("listening on http://").and_then(|rest| rest.parse().ok())
    });
    thread::spawn(move || lines.for_each(drop));
    found.ok_or_else(|| Failure::new("the gateway ended before it was listening"))
}
