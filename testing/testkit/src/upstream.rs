//! The service behind the gateway, and its two logs.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use serde::Deserialize;
use tokio::net::TcpSocket;

use crate::{Pair, client::RUNTIME, command::upstream_binary, process::Process, wait::until};

/// How long anything that is under way may take to show in a log.
const SHOWN: Duration = Duration::from_secs(20);

/// What the service does with a repeated identity, and what it can be asked (see `ledger`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum UpstreamKind {
    /// It acts on every request it gets, and cannot be asked.
    Plain,
    /// It acts on every request it gets, and can be asked.
    Asked,
    /// As `Asked`; it can be told to refuse all attempts up to one, and enforces `Hapax-Deadline`.
    Closing,
    /// As `Asked`; it refuses attempts older than one it has seen.
    Refusing,
    /// As `Asked`; it refuses a second request with the same `Idempotency-Key`.
    Unique,
    /// As `Asked`; requests with the same `Idempotency-Key` make one effect and get the same answer.
    Collapsing,
}

impl UpstreamKind {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Plain, Self::Asked, Self::Closing, Self::Refusing, Self::Unique, Self::Collapsing];

    /// Its word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Asked => "asked",
            Self::Closing => "closing",
            Self::Refusing => "refusing",
            Self::Unique => "unique",
            Self::Collapsing => "collapsing",
        }
    }
}

/// A request as it arrived at the service.
#[derive(Clone, Debug, Deserialize)]
pub struct Arrival {
    /// Its number, from 1.
    pub n: u64,
    /// When, in microseconds since 1970.
    pub at: u64,
    /// The method.
    pub method: String,
    /// The target, as received.
    pub target: String,
    /// The header fields in order, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The trailer fields.
    pub trailers: Vec<(String, String)>,
    /// The bytes of its body.
    pub length: u64,
    /// SHA-256 of its body, in hexadecimal.
    pub sha256: String,
    /// The body, where it is short text.
    pub text: Option<String>,
    /// Whether the whole body arrived.
    pub complete: bool,
    /// The version of HTTP.
    pub version: String,
    /// The SHA-256 of the certificate that the gateway showed.
    pub certificate: Option<String>,
}

impl Arrival {
    /// The values of a field.
    pub fn all(&self, name: &str) -> Vec<&str> {
        let of_name = self.headers.iter().filter(|(field, _)| field == name);
        of_name.map(|(_, value)| value.as_str()).collect()
    }

    /// The only value of a field.
    #[track_caller]
    pub fn field(&self, name: &str) -> &str {
        let values = self.all(name);
        assert_eq!(values.len(), 1, "one {name} field: {self:?}");
        values[0]
    }

    /// The effect id that was carried, checked to be a quoted UUIDv8.
    #[track_caller]
    pub fn effect_id(&self) -> uuid::Uuid {
        let field = self.field("idempotency-key");
        let quoted = field.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        let id = quoted.and_then(|text| uuid::Uuid::parse_str(text).ok());
        let id = id.unwrap_or_else(|| panic!("a quoted UUID: {field}"));
        assert_eq!(id.get_version_num(), 8, "{id}");
        id
    }

    /// The attempt that was carried.
    #[track_caller]
    pub fn attempt(&self) -> u64 {
        let field = self.field("hapax-attempt");
        field.parse().unwrap_or_else(|_| panic!("an integer: {field}"))
    }
}

/// An effect the service made.
#[derive(Clone, Debug, Deserialize)]
pub struct Effect {
    /// Its number, from 1.
    pub n: u64,
    /// When, in microseconds since 1970.
    pub at: u64,
    /// The arrival that made it.
    pub arrival: u64,
    /// The `Idempotency-Key` it was made under.
    pub key: String,
}

/// A question what became of an effect.
#[derive(Clone, Debug, Deserialize)]
pub struct Asked {
    /// The method: GET looks, POST closes.
    pub method: String,
    /// The target, as received.
    pub target: String,
    /// The credential that came with it.
    pub authorization: Option<String>,
    /// The attempt that it is about.
    pub attempt: Option<String>,
}

/// A service process. Its port stays reserved while it is dead, so that it can come back.
pub struct Upstream {
    process: Option<Process>,
    dir: PathBuf,
    address: SocketAddr,
    kind: UpstreamKind,
    tls: Option<(Pair, Option<PathBuf>)>,
    _reserved: TcpSocket,
}

impl Upstream {
    /// Starts a service with its logs in `dir`.
    pub fn start(dir: &Path, kind: UpstreamKind) -> Self {
        Self::start_with(dir, kind, None)
    }

    /// Starts a service that speaks TLS, and wants a certificate of this authority if there is one.
    pub fn start_tls(dir: &Path, pair: &Pair, client_ca: Option<&Path>) -> Self {
        let tls = (pair.clone(), client_ca.map(Path::to_owned));
        Self::start_with(dir, UpstreamKind::Plain, Some(tls))
    }

    fn start_with(dir: &Path, kind: UpstreamKind, tls: Option<(Pair, Option<PathBuf>)>) -> Self {
        let _runtime = RUNTIME.enter();
        // Bound and never listening: connections are refused until the process listens beside it.
        let reserved = TcpSocket::new_v4().expect("a socket");
        reserved.set_reuseaddr(true).expect("SO_REUSEADDR");
        reserved.bind("127.0.0.1:0".parse().expect("an address")).expect("a free port");
        let address = reserved.local_addr().expect("an address");
        let mut upstream =
            Self { process: None, dir: dir.to_owned(), address, kind, tls, _reserved: reserved };
        upstream.restart();
        upstream
    }

    /// Where it is.
    pub fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// The same without a scheme.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Kills it: connections are refused from now on.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Starts it again, on the same port and the same logs.
    pub fn restart(&mut self) {
        self.kill();
        let mut command = Command::new(upstream_binary());
        command.arg("--dir").arg(&self.dir).arg("--listen").arg(self.address.to_string());
        command.arg("--mode").arg(self.kind.word());
        if let Some((pair, client_ca)) = &self.tls {
            command.arg("--certificate").arg(&pair.certificate).arg("--key").arg(&pair.key);
            client_ca.iter().for_each(|ca| {
                command.arg("--client-ca").arg(ca);
            });
        }
        let mut process = Process::spawn("the upstream", &mut command);
        process.line("upstream on ");
        self.process = Some(process);
    }

    /// Opens a gate: every request that waits at it, and every later one, goes on.
    pub fn open(&self, gate: &str) {
        fs::write(self.dir.join("gates").join(gate), "").expect("the gate opens");
    }

    /// Closes a gate again.
    pub fn shut(&self, gate: &str) {
        fs::remove_file(self.dir.join("gates").join(gate)).expect("the gate shuts");
    }

    /// All questions what became of an effect, in order.
    pub fn asked(&self) -> Vec<Asked> {
        lines(&self.dir.join("asked.jsonl"))
    }

    /// What requests to `/NAME` get from now on that do not say it themselves (see
    /// `ledger`).
    pub fn script(&self, name: &str, script: &str) {
        let path = self.dir.join("scripts").join(name);
        let unfinished = path.with_extension("new");
        fs::write(&unfinished, script).expect("the script is written");
        fs::rename(&unfinished, &path).expect("the script is in place");
    }

    /// Requests to `/NAME` get exactly these bytes from now on, and a close.
    pub fn script_raw(&self, name: &str, answer: &[u8]) {
        self.script(name, &raw(answer));
    }

    /// All that arrived, in order.
    pub fn arrivals(&self) -> Vec<Arrival> {
        lines(&self.dir.join("arrivals.jsonl"))
    }

    /// All effects, in order.
    pub fn effects(&self) -> Vec<Effect> {
        lines(&self.dir.join("effects.jsonl"))
    }

    /// Waits until so many requests have arrived, and returns them.
    #[track_caller]
    pub fn arrived(&self, count: usize) -> Vec<Arrival> {
        until(&format!("{count} arrivals"), SHOWN, || {
            let arrivals = self.arrivals();
            (arrivals.len() >= count).then_some(arrivals)
        })
    }

    /// The arrivals whose streamed answer was given up by its reader.
    pub fn given_up(&self) -> usize {
        lines::<serde_json::Value>(&self.dir.join("gone.jsonl")).len()
    }

    /// The one arrival.
    #[track_caller]
    pub fn only_arrival(&self) -> Arrival {
        let mut arrivals = self.arrivals();
        assert_eq!(arrivals.len(), 1, "one arrival: {arrivals:#?}");
        arrivals.remove(0)
    }

    /// Asserts how many requests arrived.
    #[track_caller]
    pub fn assert_arrivals(&self, count: usize) {
        let arrivals = self.arrivals();
        assert_eq!(arrivals.len(), count, "arrivals: {arrivals:#?}");
    }

    /// Asserts how many effects there are.
    #[track_caller]
    pub fn assert_effects(&self, count: usize) {
        let effects = self.effects();
        assert_eq!(effects.len(), count, "effects: {effects:#?}");
    }
}

/// The step of `ledger` that answers with exactly these bytes.
pub(crate) fn raw(bytes: &[u8]) -> String {
    let encoded: String = bytes.iter().map(|byte| format!("%{byte:02x}")).collect();
    format!("raw {encoded}")
}

/// The complete lines of a log; none where it is not there yet.
fn lines<T: for<'de> Deserialize<'de>>(path: &Path) -> Vec<T> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let complete = text.rsplit_once('\n').map_or("", |(complete, _)| complete);
    complete.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}
