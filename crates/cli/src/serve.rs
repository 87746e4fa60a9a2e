//! `hapax serve`: the gateway.

use std::{
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use clap::Args;
use hapax::{BackgroundOptions, Hapax, Options};
use hapax_gateway::{
    Gateway, Operator, Workers,
    config::{Config, Environment, Flags, Service, StoreLocation},
    metric_definitions::RELOADS,
    server::{ServerLimits, serve_tls},
    tls::{Certificates, ServerTls, ServerTlsConfig, TlsError},
};
use hapax_sql::{SqliteConfig, SqliteStore};
use metrics::counter;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::time::{sleep, timeout};
use tokio::{
    net::TcpListener,
    signal::unix::{Signal, SignalKind, signal},
};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::{effect_secret, failure::Failure};

/// Run the gateway: a reverse proxy between callers and a service.
///
/// It needs to know the service (--upstream, or a file that names it) and whose a request is
/// (--single-tenant or --scope-header, or the file). It stays in the foreground until SIGTERM or
/// Ctrl-C. SIGHUP has it read the file again.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Serve {
    /// The service behind, as http://host:port or https://host:port.
    #[arg(long, value_name = "URL", help_heading = "What is served")]
    upstream: Option<String>,
    /// A configuration file, for more than one service or operation.
    #[arg(long, value_name = "FILE", help_heading = "What is served")]
    config: Option<PathBuf>,
    /// Where callers connect [default: 0.0.0.0:8080].
    #[arg(long, value_name = "ADDRESS", help_heading = "What is served")]
    listen: Option<String>,
    /// Where health and metrics are [default: 127.0.0.1:8081].
    #[arg(long, value_name = "ADDRESS", help_heading = "What is served")]
    operator_listen: Option<String>,
    /// All callers are one tenant.
    #[arg(long, help_heading = "Whose a request is")]
    single_tenant: bool,
    /// The header that says whose a request is, set by your authenticating proxy.
    #[arg(long, value_name = "HEADER", help_heading = "Whose a request is")]
    scope_header: Option<String>,
    /// Where records live [default: sqlite:hapax.db].
    #[arg(long, value_name = "sqlite:PATH", help_heading = "Where records live")]
    store: Option<String>,
    /// Only one instance runs: accept SQLite under an orchestrator.
    #[arg(long, help_heading = "Where records live")]
    single_instance: bool,
    /// How many threads serve connections [default: one fewer than there are processors, at least 1].
    #[arg(long, value_name = "N", help_heading = "What is served")]
    workers: Option<usize>,
    /// How long an execution is presumed alive without a renewal [default: 30s].
    #[arg(long, value_name = "DURATION", help_heading = DEFAULT_OPERATION)]
    lease: Option<String>,
    /// How long outcomes are replayed: retention.outcome of a file [default: 24h].
    #[arg(long, value_name = "DURATION", help_heading = DEFAULT_OPERATION)]
    retain: Option<String>,
    /// What may be done about an unknown outcome: hold, or resend where the service collapses
    /// requests with the same Idempotency-Key [default: hold].
    #[arg(long, value_name = "POLICY", help_heading = DEFAULT_OPERATION)]
    on_unknown: Option<String>,
    /// How long the service collapses requests with the same Idempotency-Key; needed for resend.
    #[arg(long, value_name = "DURATION", help_heading = DEFAULT_OPERATION)]
    collapse_for: Option<String>,
    /// The least number of characters of a key [default: 16].
    #[arg(long, value_name = "N", help_heading = DEFAULT_OPERATION)]
    key_min_length: Option<usize>,
    /// The least randomness of a key, in bits, roughly [default: 64].
    #[arg(long, value_name = "BITS", help_heading = DEFAULT_OPERATION)]
    key_min_bits: Option<u32>,
    /// Forward everything as it is and report what would have been replayed, refused, duplicated.
    #[arg(long, help_heading = DEFAULT_OPERATION)]
    observe: bool,
}

/// How much longer than executions the connections may take at a shutdown: whose execution was given
/// up at the end of the drain is told so.
const ANSWERING: Duration = Duration::from_secs(1);

/// The flags under this heading are refused where a file defines operations of its own.
const DEFAULT_OPERATION: &str = "The operation `default`: POST and PATCH with an Idempotency-Key";

const EXAMPLES: &str = "\
Examples:
  hapax serve --upstream http://127.0.0.1:3000 --single-tenant --observe
  hapax serve --upstream http://127.0.0.1:3000 --scope-header X-Account
  hapax serve --config hapax.toml

Everything that is no keyed operation streams through untouched. HAPAX_LOG says how much is logged
(error, warn, info, debug), HAPAX_LOG_FORMAT=json writes a JSON object for each line.";

impl Serve {
    fn flags(self) -> Flags {
        Flags {
            config: self.config,
            listen: self.listen,
            operator_listen: self.operator_listen,
            upstream: self.upstream,
            store: self.store,
            single_tenant: self.single_tenant,
            scope_header: self.scope_header,
            single_instance: self.single_instance,
            workers: self.workers,
            lease: self.lease,
            retain: self.retain,
            on_unknown: self.on_unknown,
            collapse_for: self.collapse_for,
            key_min_length: self.key_min_length,
            key_min_bits: self.key_min_bits,
            observe: self.observe,
        }
    }
}

/// Runs until SIGTERM or SIGINT.
pub(crate) async fn run(args: Serve) -> Result<ExitCode, Failure> {
    let flags = args.flags();
    let config = Config::load(&flags, Environment::of_process()).map_err(Failure::start)?;
    let metrics = install_metrics()?;
    let workers = config.workers.unwrap_or_else(Workers::usual);
    raise_file_limit(config.limits.max_connections, workers.get());
    let tls = load_tls("callers", "[tls]", config.tls.as_ref())?;
    let operator_tls = load_tls("operator", "[operator.tls]", config.operator_tls.as_ref())?;
    // Before anything is made on disk: a port that is taken, or a thread too many, leaves nothing
    // behind.
    let listener = bind(config.listen, "--listen").await?;
    let operator_listener = bind(config.operator_listen, "--operator-listen").await?;
    let addresses = (local(&listener)?, local(&operator_listener)?);
    not_in_front_of_itself(&config, addresses.0)?;
    let workers = Workers::start(workers).map_err(|error| {
        Failure::start(format!(
            "no threads to serve connections: {error}; ask for fewer than {workers} with --workers, \
             or raise what the system allows (ulimit -u, ulimit -n)"
        ))
    })?;
    let StoreLocation::Sqlite(database) = config.store.clone();
    let store = Arc::new(open(&config, &database).map_err(Failure::start)?);
    let secrets = effect_secret::load(&config.effect_secret, &database, &*store).await;
    let secrets = secrets.map_err(Failure::start)?;
    let options = Options { store_timeout: config.limits.store, ..Options::default() };
    let hapax = Hapax::new(Arc::clone(&store) as Arc<_>, secrets, options);

    let limits = ServerLimits {
        max_connections: config.limits.max_connections,
        stalled: config.limits.stalled,
        drain: config.limits.drain.saturating_add(ANSWERING),
        ..ServerLimits::default()
    };
    let (announce, drain) = (config.limits.announce, config.limits.drain);
    let sweep_rows = config.sweep;
    let banner = banner(&config, &database);
    let gateway = Gateway::new(config, hapax.clone()).await;
    let gateway = gateway.map_err(|error| Failure::start_because(&error))?;
    let schemes = (scheme(tls.as_ref()), scheme(operator_tls.as_ref()));
    let listeners = tls.clone().into_iter().chain(operator_tls.clone());
    let services = gateway.clone();
    let certificates = Certificates::new(listeners, move || services.upstream_tls());
    tokio::spawn(certificates.clone().watch());
    hapax.start_background(BackgroundOptions { sweep_rows, ..BackgroundOptions::default() });

    let (stop, stop_operator) = (CancellationToken::new(), CancellationToken::new());
    let operator = Operator::new(gateway.clone(), move || metrics.render());
    let answering = operator.clone();
    let operating = tokio::spawn(serve_tls(
        operator_listener,
        operator_tls,
        Workers::here(),
        move |request| {
            let answer = answering.answer(&request);
            async move { answer }
        },
        ServerLimits {
            listener: "operator",
            drain: Duration::from_secs(1),
            ..ServerLimits::default()
        },
        stop_operator.clone(),
    ));
    let answering = gateway.clone();
    let serving = tokio::spawn(serve_tls(
        listener,
        tls,
        // The threads end with the last clone, and executions go on there without their connections.
        workers.clone(),
        move |request| {
            let gateway = answering.clone();
            async move { gateway.answer(request).await }
        },
        limits,
        stop.clone(),
    ));
    // Whoever reads the last line may send signals.
    let mut signals = Signals::new()?;
    banner.iter().for_each(|line| say(line));
    say(&format!("operator on {}://{}", schemes.1, addresses.1));
    say(&format!("listening on {}://{}", schemes.0, addresses.0));

    signals.until_stop(|| reload(&gateway, &certificates, &flags, addresses.0)).await;
    operator.leave();
    if !announce.is_zero() {
        info!(?announce, "stopping soon: not ready any more, and still serving");
        tokio::select! {
            () = sleep(announce) => {}
            () = signals.next() => {}
        }
    }
    info!(
        under_way = hapax.under_way(), at_most = ?drain,
        "stopping: no new connections, what is under way finishes; another signal stops at once"
    );
    stop.cancel();
    // Connections and executions drain side by side: a client that hung up leaves its execution.
    let closing = gateway.close_tunnels(drain);
    let draining = async { tokio::join!(hapax.shutdown(drain), serving, closing) };
    let (left, cut, tunnels) = tokio::select! {
        drained = draining => drained,
        () = signals.next() => {
            warn!("stopping at once: what still executes is uncertain");
            (hapax.shutdown(Duration::ZERO).await, Ok(0), 0)
        }
    };
    if left > 0 {
        warn!(left, "executions were abandoned; their outcome is unknown until it is reconciled");
    }
    if let Ok(cut) = cut
        && cut > 0
    {
        warn!(cut, "connections were cut at the end of the drain");
    }
    if tunnels > 0 {
        warn!(tunnels, "tunnels (Upgrade) were cut at the end of the drain");
    }
    stop_operator.cancel();
    let _ = operating.await;
    if timeout(options.store_timeout.saturating_mul(2), store.close()).await.is_err() {
        warn!("the store's disk does not answer; what is in its log is read at the next start");
    }
    drop(workers);
    info!("stopped");
    Ok(ExitCode::SUCCESS)
}

/// What is run: where the records are, in front of what, for whom, and each operation's policy.
pub(crate) fn banner(config: &Config, database: &Path) -> Vec<String> {
    let database = std::fs::canonicalize(database).unwrap_or_else(|_| database.to_owned());
    let mut lines = vec![format!("store sqlite:{}", database.display())];
    for service in &config.services {
        let host = service.host.as_ref().map(ToString::to_string).unwrap_or_default();
        lines.push(format!("upstream {} for {host}{}", service.origin(), service.prefix));
    }
    lines.push(format!("scope {}", config.scope));
    lines.extend(config.describe());
    lines
}

/// Allows as many open files as connections need: one for each caller, and one towards the service
/// where all of them ask at once. The usual limit of 1,024 is far below what a process may have.
fn raise_file_limit(connections: usize, workers: usize) {
    const OTHERS: u64 = 256;
    // What a runtime waits with.
    const OF_WORKER: u64 = 4;
    let count = |number| u64::try_from(number).unwrap_or(u64::MAX);
    let callers = count(connections);
    let others = count(workers).saturating_mul(OF_WORKER).saturating_add(OTHERS);
    let needed = callers.saturating_add(others);
    match rlimit::increase_nofile_limit(needed.saturating_add(callers)) {
        Ok(limit) if limit >= needed => {}
        Ok(limit) => warn!(
            limit,
            needed,
            "fewer files may be open than limits.max_connections needs: connections will have to \
             wait; raise the limit (ulimit -n, LimitNOFILE), or lower max_connections"
        ),
        Err(error) => warn!(%error, "the limit of open files is not known"),
    }
}

/// A gateway that is its own upstream would send each request round and round.
fn not_in_front_of_itself(config: &Config, listening: SocketAddr) -> Result<(), Failure> {
    let is_us = |service: &&Service| {
        let host = service.upstream.host().unwrap_or_default();
        let own_port = if service.upstream.scheme_str() == Some("https") { 443 } else { 80 };
        service.upstream.port_u16().unwrap_or(own_port) == listening.port()
            && reaches(host, listening.ip().to_canonical())
    };
    match config.services.iter().find(is_us) {
        None => Ok(()),
        Some(service) => Err(Failure::start(format!(
            "the upstream {} is this gateway itself, which listens on {listening}; name the \
             address of the service, or another --listen",
            service.origin()
        ))),
    }
}

/// Whether connections to a host come to whoever listens there, as far as the names alone tell.
fn reaches(host: &str, listening: IpAddr) -> bool {
    let is_local = listening.is_unspecified() || listening.is_loopback();
    match host.trim_matches(['[', ']']).parse::<IpAddr>() {
        Err(_) => is_local && host.eq_ignore_ascii_case("localhost"),
        Ok(address) => {
            let address = address.to_canonical();
            // Connecting to no address in particular is connecting to this machine.
            address == listening
                || (is_local && address.is_unspecified())
                || (listening.is_unspecified() && address.is_loopback())
        }
    }
}

fn open(config: &Config, database: &Path) -> Result<SqliteStore, hapax_sql::OpenError> {
    let mut options = SqliteConfig::new(database);
    options.timeout = config.limits.store;
    options.batch = config.group_commit;
    SqliteStore::open(options)
}

/// The certificates of a listener; `table` is where the configuration names them.
fn load_tls(
    listener: &'static str,
    table: &str,
    config: Option<&ServerTlsConfig>,
) -> Result<Option<ServerTls>, Failure> {
    let load = |config: &ServerTlsConfig| ServerTls::load(listener, config.clone());
    let wrong = |error: TlsError| {
        let failure = Failure::start_because(&error);
        Failure { message: format!("{table}: {}", failure.message), ..failure }
    };
    config.map(load).transpose().map_err(wrong)
}

fn scheme(tls: Option<&ServerTls>) -> &'static str {
    if tls.is_some() { "https" } else { "http" }
}

async fn bind(address: SocketAddr, flag: &str) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| {
        Failure::start(format!(
            "{flag} {address}: cannot listen there: {error}; choose another address or port"
        ))
    })
}

fn local(listener: &TcpListener) -> Result<SocketAddr, Failure> {
    listener.local_addr().map_err(Failure::start)
}

/// A line for whoever started us; a closed standard output is no reason to stop.
pub(crate) fn say(line: &str) {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Puts what the file says now in the place of what it said before, or says why not.
async fn reload(
    gateway: &Gateway,
    certificates: &Certificates,
    flags: &Flags,
    listening: SocketAddr,
) {
    let all = certificates.clone();
    // What came of it is logged and counted there.
    let _ = tokio::task::spawn_blocking(move || all.reload()).await;
    let Some(file) = &flags.config else {
        return warn!("there is no configuration file to read again; see --config");
    };
    let loaded = Config::load(flags, Environment::of_process()).map_err(|error| error.to_string());
    let in_front = |config: &Config| {
        not_in_front_of_itself(config, listening).map_err(|failure| failure.message)
    };
    let reloaded = match loaded.and_then(|config| in_front(&config).map(|()| config)) {
        Err(why) => Err(why),
        Ok(config) => {
            let lines = config.describe();
            let reloaded = gateway.reload(config).await.map(|()| lines);
            reloaded.map_err(|error| Failure::start_because(&error).message)
        }
    };
    let result = if reloaded.is_ok() { "applied" } else { "refused" };
    counter!(RELOADS, "result" => result).increment(1);
    match reloaded {
        Ok(lines) => {
            info!(file = %file.display(), "the configuration was read again and is in place");
            lines.iter().for_each(|line| info!("{line}"));
        }
        Err(why) => error!(
            file = %file.display(),
            "the configuration was read again and is refused; the one before stays in place: {why}"
        ),
    }
}

/// SIGTERM and SIGINT, which end the process, and SIGHUP.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    fn new() -> Result<Self, Failure> {
        let listen = |kind| signal(kind).map_err(Failure::start);
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            hang_up: listen(SignalKind::hangup())?,
        })
    }

    /// Ends when the process is to stop; until then every SIGHUP has something read again. What is
    /// being read then is given up.
    async fn until_stop<F: Future<Output = ()>>(&mut self, reload: impl Fn() -> F) {
        let stopped = async {
            tokio::select! {
                _ = self.terminate.recv() => {}
                _ = self.interrupt.recv() => {}
            }
        };
        let reloading = async {
            while self.hang_up.recv().await.is_some() {
                reload().await;
            }
            std::future::pending().await
        };
        tokio::select! {
            biased;
            () = stopped => {}
            () = reloading => {}
        }
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Histogram buckets in seconds, from a fast commit to a timeout.
const BUCKETS: [f64; 14] =
    [0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 20.0];

fn install_metrics() -> Result<PrometheusHandle, Failure> {
    let builder = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &BUCKETS)
        .map_err(Failure::start)?
        .set_buckets_for_metric(
            Matcher::Suffix("_batch_size".to_owned()),
            &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0],
        )
        .map_err(Failure::start)?;
    let handle = builder.install_recorder().map_err(Failure::start)?;
    hapax::metric_definitions::describe();
    hapax_gateway::metric_definitions::describe();
    hapax_sql::telemetry::describe();
    Ok(handle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_address_is_known_by_every_name_that_says_it() {
        for (host, listening, expected) in [
            ("127.0.0.1", "0.0.0.0", true),
            ("127.0.0.2", "0.0.0.0", true),
            ("0.0.0.0", "0.0.0.0", true),
            ("0.0.0.0", "127.0.0.1", true),
            ("localhost", "127.0.0.1", true),
            ("LOCALHOST", "::", true),
            ("[::1]", "::", true),
            ("[::ffff:127.0.0.1]", "0.0.0.0", true),
            ("[::ffff:127.0.0.1]", "127.0.0.1", true),
            ("10.0.0.5", "10.0.0.5", true),
            ("127.0.0.2", "127.0.0.1", false),
            ("localhost", "10.0.0.5", false),
            ("10.0.0.6", "0.0.0.0", false),
            ("api.example", "0.0.0.0", false),
        ] {
            let address = listening.parse().expect("an address");
            assert_eq!(reaches(host, address), expected, "{host} {listening}");
        }
    }
}
