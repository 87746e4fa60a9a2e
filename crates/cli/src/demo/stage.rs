//! The stage: a folder, the payment service, and the gateway in front of it.

use std::{
    env,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use tempfile::TempDir;
use tokio::process::Command;

use super::{
    process::{ANYWHERE, Program, Supervised},
    service::Ledger,
};
use crate::failure::Failure;

/// Short, so that the executions of a killed gateway are given up soon.
const LEASE: &str = "2s";

/// What a demo runs on. End it with [`Stage::clear`].
pub(super) struct Stage {
    pub(super) service: Supervised,
    pub(super) gateway: Supervised,
    folder: TempDir,
}

impl Stage {
    /// Starts both processes on a new folder. The faults of the service come from the seed; a
    /// careless one does not collapse.
    pub(super) async fn set(seed: u64, careless: bool) -> Result<Self, Failure> {
        let folder = tempfile::Builder::new().prefix("hapax-demo-").tempdir();
        let folder =
            folder.map_err(|error| Failure::start(format!("no folder for the demo: {error}")))?;
        let service = service(folder.path(), Some(seed), careless)?;
        let service = Supervised::start(service, ANYWHERE).await?;
        let gateway = gateway(folder.path(), service.handle().address())?;
        let gateway = Supervised::start(gateway, ANYWHERE).await?;
        Ok(Self { service, gateway, folder })
    }

    /// The service's ledger, for reading.
    pub(super) fn ledger(&self) -> Result<Ledger, Failure> {
        Ok(Ledger::read(&ledger(self.folder.path()))?)
    }

    /// The gateway's store, as `--store` takes it.
    pub(super) fn store(&self) -> String {
        store(self.folder.path())
    }

    /// Puts a well-behaved service on the same ledger in the place of the faulty one.
    pub(super) async fn calm(&mut self) -> Result<(), Failure> {
        let calm = service(self.folder.path(), None, false)?;
        self.service.stop().await;
        self.service = Supervised::start(calm, self.service.handle().address()).await?;
        Ok(())
    }

    /// Waits until one of the processes cannot be started again.
    pub(super) async fn broken(&self) -> Failure {
        tokio::select! {
            failure = self.service.broken() => failure,
            failure = self.gateway.broken() => failure,
        }
    }

    /// Ends the processes and removes the folder.
    pub(super) async fn clear(self) {
        tokio::join!(self.gateway.stop(), self.service.stop());
        // A folder that stays is the system's to remove: it is a temporary one.
        let _ = self.folder.close();
    }
}

fn service(folder: &Path, faults: Option<u64>, careless: bool) -> Result<Program, Failure> {
    let (hapax, ledger) = (hapax()?, ledger(folder));
    Ok(Program {
        name: "payment service",
        log: folder.join("service.log"),
        command: Box::new(move |at| {
            let mut command = Command::new(&hapax);
            command.args(["demo", "--service", &at.listen.to_string()]);
            command.arg("--ledger").arg(&ledger);
            command.args(faults.map(|seed| format!("--seed={seed}")));
            command.args(careless.then_some("--careless"));
            command
        }),
    })
}

fn gateway(folder: &Path, upstream: SocketAddr) -> Result<Program, Failure> {
    let hapax = hapax()?;
    let store = store(folder);
    Ok(Program {
        name: "gateway",
        log: folder.join("gateway.log"),
        command: Box::new(move |at| {
            let mut command = Command::new(&hapax);
            command.arg("serve").arg("--single-tenant");
            command.args(["--listen", &at.listen.to_string()]);
            command.args(["--operator-listen", &at.operator.to_string()]);
            command.args(["--upstream", &format!("http://{upstream}")]);
            command.args(["--store", &store]);
            command.args(["--on-unknown", "resend", "--collapse-for", "24h", "--lease", LEASE]);
            command
        }),
    })
}

/// This program: it is also the service and the gateway.
fn hapax() -> Result<PathBuf, Failure> {
    env::current_exe().map_err(|error| Failure::start(format!("where is hapax? {error}")))
}

fn ledger(folder: &Path) -> PathBuf {
    folder.join("ledger.db")
}

fn store(folder: &Path) -> String {
    format!("sqlite:{}", folder.join("hapax.db").display())
}
