//! The processes of the demo: started, waited for, started again when they end, and ended with us.

use std::{
    fs::{self, File},
    net::{IpAddr, Ipv4Addr, SocketAddr},
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    sync::Notify,
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::failure::Failure;

/// How long a process stays away after it ended, so that it is missed.
const AWAY: Duration = Duration::from_millis(300);
/// How long a process may take to say that it listens.
const READY_WITHIN: Duration = Duration::from_secs(20);
/// The signal that no process can catch.
const SIGKILL: i32 = 9;
/// How often a process is started again before it counts as broken. Its port may be taken for a
/// moment by an outgoing connection.
const RESTARTS: u32 = 20;

/// What to run.
pub(super) struct Program {
    /// For messages.
    pub(super) name: &'static str,
    /// Where its messages go.
    pub(super) log: PathBuf,
    /// The command that listens there.
    pub(super) command: Box<dyn Fn(Addresses) -> Command + Send + Sync>,
}

/// Where a process listens.
#[derive(Clone, Copy, Debug)]
pub(super) struct Addresses {
    pub(super) listen: SocketAddr,
    /// Of the gateway; the service has no such thing.
    pub(super) operator: SocketAddr,
}

/// Any free port of the loopback interface.
pub(super) const ANYWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// A process that comes back when it ends. It is killed when this is dropped, in order when it is
/// stopped before.
pub(super) struct Supervised {
    handle: Handle,
    _supervisor: AbortOnDropHandle<()>,
}

/// A supervised process, seen from outside.
#[derive(Clone)]
pub(super) struct Handle {
    addresses: Addresses,
    watched: Arc<Watched>,
}

#[derive(Default)]
struct Watched {
    pid: AtomicU32,
    exits: AtomicU64,
    kills: AtomicU64,
    kill: Notify,
    stop: CancellationToken,
    /// The supervisor has ended; with a failure when the process did not come back.
    ended: CancellationToken,
    failure: OnceLock<String>,
}

impl Supervised {
    /// Starts a program, and waits until it listens.
    pub(super) async fn start(program: Program, listen: SocketAddr) -> Result<Self, Failure> {
        let addresses = Addresses { listen, operator: ANYWHERE };
        let (running, addresses) = Running::start(&program, addresses).await?;
        let handle = Handle { addresses, watched: Arc::default() };
        handle.watched.pid.store(running.pid(), Relaxed);
        let supervisor = tokio::spawn(handle.clone().supervise(program, running));
        Ok(Self { handle, _supervisor: AbortOnDropHandle::new(supervisor) })
    }

    pub(super) fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Waits until it cannot be started again.
    pub(super) async fn broken(&self) -> Failure {
        let watched = &self.handle.watched;
        watched.ended.cancelled().await;
        Failure::new(1, watched.failure.get().map_or("a process was stopped", String::as_str))
    }

    /// Ends it for good.
    pub(super) async fn stop(&self) {
        self.handle.watched.stop.cancel();
        self.handle.watched.ended.cancelled().await;
    }
}

impl Handle {
    /// Where it listens; the same after every restart.
    pub(super) fn address(&self) -> SocketAddr {
        self.addresses.listen
    }

    /// Where it answers its operator; the same after every restart.
    pub(super) fn operator(&self) -> SocketAddr {
        self.addresses.operator
    }

    /// The process id of the moment.
    pub(super) fn pid(&self) -> u32 {
        self.watched.pid.load(Relaxed)
    }

    /// How often it ended, whatever the reason.
    pub(super) fn exits(&self) -> u64 {
        self.watched.exits.load(Relaxed)
    }

    /// How often of these it was killed, by us or by whoever watches.
    pub(super) fn kills(&self) -> u64 {
        self.watched.kills.load(Relaxed)
    }

    /// Ends the process of the moment by SIGKILL.
    pub(super) fn kill(&self) {
        self.watched.kill.notify_one();
    }

    async fn supervise(self, program: Program, running: Running) {
        if let Err(failure) = self.keep_running(&program, running).await {
            self.watched.failure.set(failure.message).unwrap_or_default();
        }
        self.watched.ended.cancel();
    }

    async fn keep_running(&self, program: &Program, mut running: Running) -> Result<(), Failure> {
        let watched = &*self.watched;
        loop {
            watched.pid.store(running.pid(), Relaxed);
            let status = tokio::select! {
                status = running.child.wait() => status,
                () = watched.kill.notified() => {
                    running.end().await;
                    running.child.wait().await
                }
                () = watched.stop.cancelled() => {
                    running.end().await;
                    return Ok(());
                }
            };
            if status.is_ok_and(|status| status.signal() == Some(SIGKILL)) {
                watched.kills.fetch_add(1, Relaxed);
            }
            watched.exits.fetch_add(1, Relaxed);
            running = tokio::select! {
                running = restart(program, self.addresses) => running?,
                () = watched.stop.cancelled() => return Ok(()),
            };
        }
    }
}

async fn restart(program: &Program, addresses: Addresses) -> Result<Running, Failure> {
    let mut tries = 0;
    loop {
        sleep(AWAY).await;
        tries += 1;
        match Running::start(program, addresses).await {
            Ok((running, _)) => return Ok(running),
            Err(failure) if tries >= RESTARTS => return Err(failure),
            Err(_) => {}
        }
    }
}

/// A process that listens. It is killed when this is dropped.
struct Running {
    child: Child,
    /// The service ends when this does.
    _stdin: Option<ChildStdin>,
}

impl Running {
    async fn start(program: &Program, at: Addresses) -> Result<(Self, Addresses), Failure> {
        let failed = |why: &str| Failure::start(format!("the {} {why}", program.name));
        let log = File::options().create(true).append(true).open(&program.log);
        let log = log.map_err(|error| failed(&format!("has no log: {error}")))?;
        // A group of its own: Ctrl-C is for the demo, which then ends its children in order.
        let mut child = (program.command)(at)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| failed(&format!("cannot be started: {error}")))?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().ok_or_else(|| failed("has no output"))?;
        let running = Self { child, _stdin: stdin };
        match timeout(READY_WITHIN, listening(stdout, at)).await {
            Ok(Some(addresses)) => Ok((running, addresses)),
            Ok(None) => Err(failed(&format!("ended at its start:\n{}", tail(&program.log)))),
            Err(_) => Err(failed(&format!("does not listen:\n{}", tail(&program.log)))),
        }
    }

    fn pid(&self) -> u32 {
        self.child.id().unwrap_or_default()
    }

    async fn end(&mut self) {
        // It fails only when the process has ended already.
        let _ = self.child.kill().await;
    }
}

/// The addresses in its lines `operator on http://…`, if there is one, and then
/// `listening on http://…`. What it prints later is read and dropped.
async fn listening(stdout: ChildStdout, mut addresses: Addresses) -> Option<Addresses> {
    let mut lines = BufReader::new(stdout).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let line = line.trim();
        if let Some(address) = line.strip_prefix("operator on http://") {
            addresses.operator = address.parse().ok()?;
        }
        if let Some(address) = line.strip_prefix("listening on http://") {
            tokio::spawn(drain(lines));
            addresses.listen = address.parse().ok()?;
            return Some(addresses);
        }
    }
    None
}

async fn drain(mut lines: Lines<BufReader<ChildStdout>>) {
    while matches!(lines.next_line().await, Ok(Some(_))) {}
}

/// The last lines of a log.
fn tail(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<_> = text.lines().collect();
    lines.get(lines.len().saturating_sub(5)..).unwrap_or_default().join("\n")
}
