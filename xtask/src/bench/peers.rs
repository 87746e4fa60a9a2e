//! Others that make retries safe, beside the gateway: each with what it keeps, and how durably.
//! Nothing of theirs is in this repository, only what installs and starts them.

use std::{
    fs,
    net::SocketAddr,
    num::{NonZeroU32, NonZeroUsize},
    os::unix::{fs::chown, process::CommandExt},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{
    keys::Keys,
    load::{Load, Measured, now, pause, wait_until_up},
    message::Dialect,
    process::{Gateway, Process, free_port, quietly, scratch},
    report::{Series, median},
};
use crate::run::{Context, Failure, Outcome, answers, cargo, line_of, root, run, target};

const CONNECTIONS: NonZeroUsize = NonZeroUsize::new(64).unwrap();

/// One of them, running.
struct Running {
    /// Ended in this order: what is in front first.
    _processes: Vec<Process>,
    _folder: TempDir,
    address: SocketAddr,
    dialect: Dialect,
}

/// How one of them is had.
struct Peer {
    name: &'static str,
    /// What is on disk when the caller has its answer.
    durability: &'static str,
    is_installed: fn(&Path) -> bool,
    install: fn(&Path) -> Outcome,
    start: fn(&Path, SocketAddr) -> Outcome<Running>,
}

const PEERS: [Peer; 3] = [
    Peer {
        name: "restate-server, a handler in Node.js",
        durability: "its log in RocksDB, synced, with its defaults",
        is_installed: |folder| restate_server(folder).exists(),
        install: install_restate,
        start: start_restate,
    },
    Peer {
        name: "idempotent-proxy-server on Redis",
        durability: "Redis with its defaults: in memory, a snapshot now and then, nothing synced",
        is_installed: |folder| proxy_server(folder).exists() && answers_version("redis-server"),
        install: install_proxy,
        start: start_proxy,
    },
    Peer {
        name: "idemkit in Python on PostgreSQL",
        durability: "PostgreSQL with its defaults: each commit synced, claim and outcome",
        is_installed: |folder| folder.join("idemkit/bin/idemkit").exists() && postgres().is_ok(),
        install: install_idemkit,
        start: start_idemkit,
    },
];

/// What was measured of one of them, or why nothing was.
struct Measurement {
    name: &'static str,
    durability: &'static str,
    result: Result<Rounds, String>,
}

#[derive(Default)]
struct Rounds {
    first: Vec<Measured>,
    replay: Vec<Measured>,
}

/// Those that are installed, or that are to be, beside the gateway.
pub(super) struct Peers(Vec<Measurement>);

impl Peers {
    /// Measures in rounds of their own, in which the gateway takes part. What cannot be installed or
    /// started is told and not measured.
    pub(super) fn measure(
        upstream: SocketAddr,
        rounds: NonZeroU32,
        lasting: Duration,
        install: bool,
    ) -> Outcome<Self> {
        let folder = target().context("target folder")?.join("peers");
        let mut running = vec![Some(gateway(upstream)?)];
        let mut measurements = vec![Measurement {
            name: "hapax",
            durability: "SQLite with full sync: claim and outcome",
            result: Ok(Rounds::default()),
        }];
        for peer in &PEERS {
            let started = peer.begin(&folder, upstream, install);
            let result = match &started {
                Ok(_) => Ok(Rounds::default()),
                Err(failure) => Err(failure.to_string()),
            };
            measurements.push(Measurement { name: peer.name, durability: peer.durability, result });
            running.push(started.ok());
        }
        let mut peers = Self(measurements);
        if peers.0.iter().filter(|peer| peer.result.is_ok()).count() > 1 {
            for round in 1..=rounds.get() {
                eprintln!("==> peers, round {round} of {rounds}");
                for (peer, running) in peers.0.iter_mut().zip(&running) {
                    peer.round(running.as_ref(), lasting);
                }
            }
        }
        Ok(peers)
    }

    pub(super) fn print(&self) {
        println!();
        println!(
            "{:<38} {:>9} {:>9} {:>11} {:>9}",
            format!("peers, {CONNECTIONS} connections"),
            "first/s",
            "to hapax",
            "p99",
            "replay/s"
        );
        for peer in &self.0 {
            match &peer.result {
                Ok(rounds) if rounds.first.is_empty() => {}
                Ok(rounds) => println!(
                    "{:<38} {:>9.0} {:>9.3} {:>8.2} ms {:>9.0}",
                    peer.name,
                    Series(&rounds.first).rate(),
                    self.ratio(&rounds.first),
                    Series(&rounds.first).millis(0.99),
                    Series(&rounds.replay).rate(),
                ),
                Err(why) => println!("{:<38} not measured: {why}", peer.name),
            }
        }
    }

    pub(super) fn to_json(&self) -> Value {
        let peers = self.0.iter().map(|peer| match &peer.result {
            Err(why) => json!({"name": peer.name, "not_measured": why}),
            Ok(rounds) => json!({
                "name": peer.name,
                "durability": peer.durability,
                "first_executions_per_second": Series(&rounds.first).rate().round(),
                "ratio_to_hapax": self.ratio(&rounds.first),
                "first_execution_p50_ms": Series(&rounds.first).millis(0.50),
                "first_execution_p99_ms": Series(&rounds.first).millis(0.99),
                "replays_per_second": Series(&rounds.replay).rate().round(),
            }),
        });
        json!({"connections": CONNECTIONS, "each": peers.collect::<Vec<_>>()})
    }

    /// First executions beside those of the gateway in the same round.
    fn ratio(&self, rounds: &[Measured]) -> f64 {
        let Some(Ok(ours)) = self.0.first().map(|ours| &ours.result) else { return f64::NAN };
        let ratios = rounds.iter().zip(&ours.first).map(|(peer, ours)| peer.rate / ours.rate);
        (median(ratios.collect()) * 1000.0).round() / 1000.0
    }
}

impl Measurement {
    fn round(&mut self, running: Option<&Running>, lasting: Duration) {
        let (Ok(rounds), Some(running)) = (&mut self.result, running) else { return };
        let Running { address, dialect, .. } = running;
        let load = Load { target: *address, dialect, connections: CONNECTIONS, lasting };
        let mut made = Vec::new();
        let measured = load.run(&mut Keys::Fresh(&mut made)).and_then(|first| {
            rounds.first.push(first);
            rounds.replay.push(load.run(&mut Keys::again(&made))?);
            Ok(())
        });
        if let Err(failure) = measured {
            self.result = Err(failure.to_string());
        }
    }
}

impl Peer {
    fn begin(&self, folder: &Path, upstream: SocketAddr, install: bool) -> Outcome<Running> {
        if !(self.is_installed)(folder) {
            if !install {
                return Err(Failure::new("not installed (--peers installs it)"));
            }
            fs::create_dir_all(folder).context(folder.display())?;
            (self.install)(folder)?;
        }
        (self.start)(folder, upstream)
    }
}

fn gateway(upstream: SocketAddr) -> Outcome<Running> {
    let folder = scratch()?;
    let Gateway { process, address } = Gateway::start(upstream, &folder.path().join("bench.db"))?;
    Ok(Running { _processes: vec![process], _folder: folder, address, dialect: Dialect::default() })
}

fn restate_server(folder: &Path) -> PathBuf {
    // Its script in `.bin` starts this one and does not pass signals on.
    folder.join("restate/node_modules/@restatedev/restate-server-linux-x64/bin/restate-server")
}

fn install_restate(folder: &Path) -> Outcome {
    let packages = ["@restatedev/restate-server", "@restatedev/restate-sdk"];
    let folder = folder.join("restate");
    fs::create_dir_all(&folder).context(folder.display())?;
    run(Command::new("npm")
        .args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix"])
        .arg(folder)
        .args(packages))
}

fn start_restate(folder: &Path, _: SocketAddr) -> Outcome<Running> {
    let scratch = scratch()?;
    // Beside its packages, where Node.js looks for them.
    let script = folder.join("restate/handler.mjs");
    fs::copy(root().join("bench/peers/restate.mjs"), &script).context(script.display())?;
    let (service, ingress, admin) = (free_port()?, free_port()?, free_port()?);
    let handler = Process::start(
        Command::new("node")
            .arg(&script)
            .env("PORT", service.port().to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null()),
    )?;
    let server = Process::start(
        Command::new(restate_server(folder))
            .args(["--node-name", "bench", "--base-dir"])
            .arg(scratch.path())
            .env("RESTATE_DISABLE_TELEMETRY", "true")
            .env("RESTATE_LOG_FILTER", "error")
            .env("RESTATE_INGRESS__BIND_ADDRESS", ingress.to_string())
            .env("RESTATE_ADMIN__BIND_ADDRESS", admin.to_string())
            .env("RESTATE_BIND_ADDRESS", free_port()?.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null()),
    )?;
    wait_until_up(service, "the handler")?;
    wait_until_up(admin, "restate-server")?;
    let register = || {
        quietly(
            Command::new("curl")
                .args(["--fail", "--silent", "--show-error", "--max-time", "10"])
                .args(["--json", &format!("{{\"uri\": \"http://{service}\"}}")])
                .arg(format!("http://{admin}/deployments")),
        )
    };
    until_it_works(register)?;
    wait_until_up(ingress, "restate-server")?;
    let dialect = Dialect {
        path: "/payments/create".to_owned(),
        status: 200,
        replay_mark: Some("idempotency-expires"),
        quoted: false,
        ..Dialect::default()
    };
    let running =
        Running { _processes: vec![server, handler], _folder: scratch, address: ingress, dialect };
    one_request(&running)?;
    Ok(running)
}

fn proxy_server(folder: &Path) -> PathBuf {
    folder.join("proxy/bin/idempotent-proxy-server")
}

fn install_proxy(folder: &Path) -> Outcome {
    if !answers_version("redis-server") {
        return Err(Failure::new("redis-server is missing: apt-get install redis-server"));
    }
    run(cargo()
        .args(["install", "--locked", "idempotent-proxy-server", "--root"])
        .arg(folder.join("proxy"))
        .arg("--target-dir")
        .arg(folder.join("proxy-target")))
}

fn start_proxy(folder: &Path, upstream: SocketAddr) -> Outcome<Running> {
    let scratch = scratch()?;
    // It does not start without one.
    fs::write(scratch.path().join(".env"), "").context(".env")?;
    let (redis_at, address) = (free_port()?, free_port()?);
    let redis = Process::start(
        Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--port", &redis_at.port().to_string(), "--dir"])
            .arg(scratch.path())
            .stdout(Stdio::null()),
    )?;
    wait_until_up(redis_at, "redis-server")?;
    let proxy = Process::start(
        Command::new(proxy_server(folder))
            .current_dir(scratch.path())
            .env("REDIS_URL", format!("redis://{redis_at}"))
            .env("SERVER_ADDR", address.to_string())
            .env("URL_BENCH", format!("http://{upstream}/payments"))
            .env("LOG_LEVEL", "error")
            .stdout(Stdio::null()),
    )?;
    wait_until_up(address, "idempotent-proxy-server")?;
    let dialect = Dialect {
        path: "/URL_BENCH".to_owned(),
        replay_mark: None,
        quoted: false,
        ..Dialect::default()
    };
    let running = Running { _processes: vec![proxy, redis], _folder: scratch, address, dialect };
    one_request(&running)?;
    Ok(running)
}

/// Where PostgreSQL's programs are. `initdb` stands beside the server it belongs to.
fn postgres() -> Outcome<PathBuf> {
    let known = ["/usr/lib/postgresql", "/usr/local/pgsql"];
    let found = known.iter().filter_map(|place| fs::read_dir(place).ok()).flatten().flatten();
    let mut found = found.map(|version| version.path().join("bin")).collect::<Vec<_>>();
    found.sort();
    let newest = found.into_iter().rev().find(|bin| bin.join("initdb").exists());
    newest.ok_or_else(|| Failure::new("PostgreSQL is missing: apt-get install postgresql"))
}

fn install_idemkit(folder: &Path) -> Outcome {
    postgres()?;
    let folder = folder.join("idemkit");
    run(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
    run(Command::new(folder.join("bin/pip")).args([
        "install",
        "--quiet",
        "idemkit[asgi,postgres]",
        "uvicorn",
        "httptools",
        "uvloop",
    ]))
}

fn start_idemkit(folder: &Path, _: SocketAddr) -> Outcome<Running> {
    let scratch = scratch()?;
    let data = scratch.path().join("data");
    let bin = postgres()?;
    let user = Unprivileged::find(scratch.path())?;
    quietly(user.runs(&bin.join("initdb")).args(["-A", "trust", "-U", "bench", "-D"]).arg(&data))?;
    let (database_at, address) = (free_port()?, free_port()?);
    let database = Process::start(
        user.runs(&bin.join("postgres"))
            .args(["-p", &database_at.port().to_string(), "-c", "listen_addresses=127.0.0.1"])
            .args(["-c", "unix_socket_directories=", "-D"])
            .arg(&data)
            .stderr(Stdio::null()),
    )?;
    let url = format!("postgres://bench@{database_at}/postgres");
    let program = |name| folder.join("idemkit/bin").join(name);
    until_it_works(|| quietly(Command::new(program("idemkit")).args(["init-pg", &url])))?;
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let service = Process::start(
        Command::new(program("uvicorn"))
            .arg("idemkit_app:app")
            .current_dir(root().join("bench/peers"))
            .args(["--port", &address.port().to_string(), "--workers", &workers.to_string()])
            .args(["--no-access-log", "--log-level", "error"])
            .env("DATABASE_URL", &url)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdout(Stdio::null())
            .stderr(Stdio::null()),
    )?;
    wait_until_up(address, "uvicorn")?;
    let dialect =
        Dialect { replay_mark: Some("idempotency-replayed"), quoted: false, ..Dialect::default() };
    let running =
        Running { _processes: vec![service, database], _folder: scratch, address, dialect };
    until_it_works(|| one_request(&running))?;
    Ok(running)
}

/// PostgreSQL runs as nobody who may do everything.
enum Unprivileged {
    /// We are not.
    We,
    /// The user that its packages make for it.
    Postgres(u32),
}

impl Unprivileged {
    /// Gives it a folder.
    fn find(folder: &Path) -> Outcome<Self> {
        let id = |arguments: &[&str]| line_of(Command::new("id").args(arguments));
        if id(&["-u"]).as_deref() != Some("0") {
            return Ok(Self::We);
        }
        let user = id(&["-u", "postgres"]).and_then(|id| id.parse().ok());
        let user = user.ok_or_else(|| Failure::new("there is no user postgres"))?;
        chown(folder, Some(user), None).context(folder.display())?;
        Ok(Self::Postgres(user))
    }

    fn runs(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir("/");
        if let Self::Postgres(user) = self {
            command.uid(*user);
        }
        command
    }
}

fn answers_version(program: &str) -> bool {
    answers(Command::new(program).arg("--version"))
}

fn one_request(running: &Running) -> Outcome {
    let Running { address, dialect, .. } = running;
    let (connections, lasting) = (NonZeroUsize::MIN, Duration::ZERO);
    let load = Load { target: *address, dialect, connections, lasting };
    load.run(&mut Keys::Fresh(&mut Vec::new())).map(drop)
}

/// Tries what may be too early, for a bounded time.
fn until_it_works(attempt: impl Fn() -> Outcome) -> Outcome {
    const BOUND: Duration = Duration::from_secs(30);
    let begun = now();
    loop {
        match attempt() {
            Err(_) if begun.elapsed() < BOUND => pause(Duration::from_millis(200)),
            done => return done,
        }
    }
}
