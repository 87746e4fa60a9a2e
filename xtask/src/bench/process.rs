//! Programs under measurement, started on free ports and killed when they are not needed any more.

use std::{
    fs,
    io::{BufRead, BufReader},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
    thread,
    time::Duration,
};

use tempfile::TempDir;

use super::load::{now, pause, wait_until_up};
use crate::run::{Context, Failure, Outcome, release, target};

/// Linux tells times of processes in hundredths of a second, whatever its kernel counts in.
const MILLIS_OF_A_TICK: u64 = 10;

/// A running program; it is ended when this is dropped.
pub(super) struct Process(Child);

/// How long a program that was told to end may take, before it is killed.
const ENDING: Duration = Duration::from_secs(10);

impl Process {
    pub(super) fn start(command: &mut Command) -> Outcome<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        command.stdin(Stdio::null()).spawn().map(Self).context(name)
    }

    /// The processor time that it and its workers have taken so far.
    pub(super) fn processor_time(&self) -> Outcome<Duration> {
        let mut ticks = 0;
        for process in fs::read_dir("/proc").context("/proc")?.flatten() {
            // What is no process, or has ended by now, has no such file.
            let Ok(stat) = fs::read_to_string(process.path().join("stat")) else { continue };
            // Behind the name, which may hold anything: state, parent, and from the twelfth on the
            // times in user and system mode.
            let Some((number, rest)) = stat.split_once(' ') else { continue };
            let fields = rest.rsplit_once(')').map_or(rest, |(_, fields)| fields);
            let fields = fields.split_whitespace().collect::<Vec<_>>();
            let number_at = |at: usize| fields.get(at)?.parse::<u64>().ok();
            let own = u64::from(self.0.id());
            if number.parse() == Ok(own) || number_at(1) == Some(own) {
                ticks += number_at(11).unwrap_or(0) + number_at(12).unwrap_or(0);
            }
        }
        Ok(Duration::from_millis(ticks * MILLIS_OF_A_TICK))
    }

    /// The memory of it that is in use, in bytes.
    pub(super) fn resident(&self) -> Outcome<u64> {
        let path = format!("/proc/{}/status", self.0.id());
        let status = fs::read_to_string(&path).context(&path)?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        kib.map(|kib| kib * 1024).ok_or_else(|| Failure::new(format!("{path} tells no VmRSS")))
    }
}

impl Drop for Process {
    /// Killed at once, it would leave its workers behind. What fails here has ended already.
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let begun = now();
        while begun.elapsed() < ENDING && matches!(self.0.try_wait(), Ok(None)) {
            pause(Duration::from_millis(5));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a program to its end, without its output.
pub(super) fn quietly(command: &mut Command) -> Outcome {
    let name = command.get_program().to_string_lossy().into_owned();
    let ended = command.stdin(Stdio::null()).output().context(&name)?;
    if ended.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    Err(Failure::new(format!("{name}: {}: {said}", ended.status)))
}

/// A folder on the disk that is built on: a folder for temporary files may be in memory, where a sync
/// costs nothing.
pub(super) fn scratch() -> Outcome<TempDir> {
    let target = target().context("target folder")?;
    tempfile::Builder::new().prefix("bench-").tempdir_in(target).context("folder for the store")
}

/// A port that was free just now.
pub(super) fn free_port() -> Outcome<SocketAddr> {
    let probe = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("a free port")?;
    probe.local_addr().context("a free port")
}

/// The optimized gateway, on a store in SQLite.
pub(super) struct Gateway {
    pub(super) process: Process,
    pub(super) address: SocketAddr,
}

impl Gateway {
    /// Starts it on a database, and waits until it listens.
    pub(super) fn start(upstream: SocketAddr, database: &Path) -> Outcome<Self> {
        let mut command = Command::new(release("hapax")?);
        command
            .arg("serve")
            .args(["--listen", "127.0.0.1:0", "--operator-listen", "127.0.0.1:0"])
            .args(["--upstream", &format!("http://{upstream}")])
            .args(["--store", &format!("sqlite:{}", database.display())])
            .arg("--single-tenant")
            .env("HAPAX_LOG", "error")
            .stdout(Stdio::piped());
        let mut process = Process::start(&mut command)?;
        let stdout = process.0.stdout.take();
        let stdout = stdout.ok_or_else(|| Failure::new("the gateway has no output"))?;
        Ok(Self { address: listening(stdout)?, process })
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

/// nginx as nothing but a proxy that keeps its connections to the service.
pub(super) struct Nginx {
    pub(super) process: Process,
    pub(super) address: SocketAddr,
}

impl Nginx {
    /// Starts it with a worker for each core, as its packages have it.
    pub(super) fn start(upstream: SocketAddr, folder: &Path) -> Outcome<Self> {
        let address = free_port()?;
        let path = folder.join("nginx.conf");
        fs::write(&path, configuration(address, upstream, folder)).context(path.display())?;
        let mut command = Command::new("nginx");
        command.arg("-c").arg(&path).arg("-p").arg(folder).args(["-e", "stderr"]);
        let process = Process::start(&mut command)?;
        wait_until_up(address, "nginx")?;
        Ok(Self { process, address })
    }
}

fn configuration(address: SocketAddr, upstream: SocketAddr, folder: &Path) -> String {
    let folder = folder.display();
    format!(
        "daemon off;
worker_processes auto;
worker_rlimit_nofile 8192;
pid {folder}/nginx.pid;
error_log stderr error;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    keepalive_requests 1000000000;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    upstream service {{
        server {upstream};
        keepalive 512;
        keepalive_requests 1000000000;
    }}
    server {{
        listen {address};
        location / {{
            proxy_pass http://service;
            proxy_http_version 1.1;
            proxy_set_header Connection \"\";
        }}
    }}
}}
"
    )
}
