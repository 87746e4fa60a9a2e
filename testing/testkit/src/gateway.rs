//! The gateway process.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
    time::Duration,
};

use crate::{
    Call, Trouble, Upstream,
    command::{Ran, binary, hapax, run},
    disk::{is_root, traced},
    process::Process,
};

/// How most configuration files of the tests begin: a single tenant and the one service, in five
/// lines.
pub const ONE_SERVICE: &str = r#"store = "sqlite:{dir}/hapax.db"
scope = { single_tenant = true }
[[service]]
upstream = "{upstream}"

"#;

/// How the gateway is started: always the built binary, on ports of its own.
#[derive(Clone, Debug)]
pub struct Serve {
    args: Vec<String>,
    env: Vec<(String, String)>,
    dir: PathBuf,
    room: Option<u64>,
    deaf: bool,
    /// A program with its arguments that starts it.
    by: Vec<String>,
}

impl Serve {
    /// In front of a service, for a single tenant, with its database in `dir`.
    pub fn new(dir: &Path, upstream: &Upstream) -> Self {
        Self::bare(dir)
            .args(["--upstream", &upstream.url(), "--single-tenant"])
            .store(&dir.join("hapax.db"))
    }

    /// With nothing but free ports, and with several threads whatever machine this is.
    pub fn bare(dir: &Path) -> Self {
        let serve = Self {
            args: Vec::new(),
            env: Vec::new(),
            dir: dir.to_owned(),
            room: None,
            deaf: false,
            by: Vec::new(),
        };
        serve.args(["--listen", "127.0.0.1:0", "--operator-listen", "127.0.0.1:0"]).workers(3)
    }

    /// With the rest said by a configuration file of this text, in which `{upstream}` and `{dir}`
    /// are replaced.
    pub fn configured(dir: &Path, upstream: &Upstream, text: &str) -> Self {
        let path = dir.join("hapax.toml");
        let text = text
            .replace("{upstream}", &upstream.url())
            .replace("{dir}", &dir.display().to_string());
        std::fs::write(&path, text).expect("the file is written");
        Self::bare(dir).args(["--config", &path.display().to_string()])
    }

    /// With a configuration file that is [`ONE_SERVICE`] and then the text, its operations.
    pub fn operations(dir: &Path, upstream: &Upstream, text: &str) -> Self {
        Self::configured(dir, upstream, &format!("{ONE_SERVICE}{text}"))
    }

    /// With more arguments.
    #[must_use]
    pub fn args<S: AsRef<str>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Without an argument, and without `values` that follow it.
    #[must_use]
    pub fn without(mut self, arg: &str, values: usize) -> Self {
        if let Some(at) = self.args.iter().position(|given| given == arg) {
            self.args.drain(at..=at + values);
        }
        self
    }

    /// With another number of threads.
    #[must_use]
    pub fn workers(self, count: usize) -> Self {
        self.without("--workers", 1).args(["--workers", &count.to_string()])
    }

    /// With another database.
    #[must_use]
    pub fn store(self, path: &Path) -> Self {
        self.without("--store", 1).args(["--store", &format!("sqlite:{}", path.display())])
    }

    /// With a variable in its environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With points at which it dies or waits, as in `claimed=abort` (see `hapax::failpoints`).
    ///
    /// # Panics
    /// When the binary has none: only a debug build of the whole workspace does.
    #[must_use]
    #[track_caller]
    pub fn failpoints(self, armed: &str) -> Self {
        let version = hapax(["--version"]).stdout;
        assert!(
            version.contains("failpoints"),
            "{version}has no failpoints: cargo build --workspace --bins, without --release"
        );
        self.env("HAPAX_FAILPOINTS", armed)
    }

    /// With files that cannot grow past so many KiB, as on a disk that is nearly full.
    #[must_use]
    pub fn with_room_for(mut self, kib: u64) -> Self {
        self.room = Some(kib);
        self
    }

    /// Nothing that it writes to standard error gets anywhere: every write fails.
    pub const fn deaf(mut self) -> Self {
        self.deaf = true;
        self
    }

    /// Without the privilege of root to use what its permissions forbid.
    #[must_use]
    pub fn bound_by_permissions(mut self) -> Self {
        if is_root() {
            let without = "--bounding-set=-dac_override,-dac_read_search";
            self.by = vec!["setpriv".to_owned(), without.to_owned()];
        }
        self
    }

    /// With so many open files at most.
    #[must_use]
    pub fn with_files(mut self, most: u32) -> Self {
        self.by = vec!["prlimit".to_owned(), format!("--nofile={most}")];
        self
    }

    /// With calls on these files that come to trouble, from its first moment to its last.
    #[must_use]
    pub fn in_trouble(mut self, files: &[PathBuf], call: Call, trouble: Trouble) -> Self {
        self.by = traced(files, &[call], Path::new("/dev/null"));
        self.by.extend(["-e".to_owned(), trouble.injected(call.names())]);
        self
    }

    /// With these calls on files written down, in their order.
    #[must_use]
    pub fn traced(mut self, files: &[PathBuf], calls: &[Call], told: &Path) -> Self {
        self.by = traced(files, calls, told);
        self
    }

    /// Starts it and waits until it is ready.
    #[track_caller]
    pub fn start(&self) -> Gateway {
        let mut process = self.spawn();
        let address = address_of(&process.line("listening on "));
        let operator = address_of(&process.line("operator on "));
        Gateway { process, address, operator, serve: self.clone() }
    }

    /// Starts it and kills it after a while, wherever it is then.
    pub fn start_and_kill(&self, after: Duration) {
        let mut process = self.spawn();
        crate::wait::pause(after);
        process.kill();
    }

    /// Runs it to its end: for a start that must fail.
    pub fn run(&self) -> Ran {
        run(&mut self.command())
    }

    fn spawn(&self) -> Process {
        Process::spawn("hapax serve", &mut self.command())
    }

    fn command(&self) -> Command {
        let mut command = match self.room {
            None if self.deaf => {
                let mut shell = Command::new("sh");
                shell.arg("-c").arg("exec \"$0\" \"$@\" 2>/dev/full").arg(binary());
                shell
            }
            None => match self.by.split_first() {
                None => Command::new(binary()),
                Some((program, args)) => {
                    let mut command = Command::new(program);
                    command.args(args).arg(binary());
                    command
                }
            },
            Some(kib) => {
                let mut shell = Command::new("sh");
                // In blocks of 512 bytes. A write beyond is an error then, and no signal.
                let limit = format!("trap '' XFSZ; ulimit -S -f {}; exec \"$0\" \"$@\"", kib * 2);
                shell.arg("-c").arg(limit).arg(binary());
                shell
            }
        };
        command
            .arg("serve")
            .args(&self.args)
            .current_dir(&self.dir)
            .env_remove("KUBERNETES_SERVICE_HOST")
            .envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }
}

fn address_of(url: &str) -> SocketAddr {
    let address = url.split_once("://").map_or(url, |(_, address)| address);
    address.parse().expect("an address")
}

/// A running gateway. Dropped, it is killed.
pub struct Gateway {
    process: Process,
    address: SocketAddr,
    operator: SocketAddr,
    serve: Serve,
}

impl Gateway {
    /// Where callers connect.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) const fn operator_address(&self) -> SocketAddr {
        self.operator
    }

    /// How it was started.
    pub const fn serve(&self) -> &Serve {
        &self.serve
    }

    /// Lets its files grow to this many bytes only, or without a limit; with
    /// [`Serve::with_room_for`], so that what goes beyond fails.
    #[track_caller]
    pub fn limit_file_size(&self, bytes: Option<u64>) {
        let limit = bytes.map_or_else(|| "unlimited".to_owned(), |bytes| bytes.to_string());
        self.limit(&format!("--fsize={limit}:"));
    }

    /// Lets it open files up to this number only; those that are open stay so.
    #[track_caller]
    pub fn limit_files(&self, number: u32) {
        self.limit(&format!("--nofile={number}:"));
    }

    #[track_caller]
    fn limit(&self, limit: &str) {
        let mut command = Command::new("prlimit");
        command.arg(format!("--pid={}", self.id())).arg(limit);
        let status = command.status().expect("prlimit (util-linux) runs");
        assert!(status.success(), "prlimit: {status}");
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Starts a second process like this one, on the same store.
    #[track_caller]
    pub fn twin(&self) -> Self {
        self.serve.start()
    }

    /// SIGKILL; returns when it is gone.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// SIGTERM; returns at once.
    pub fn terminate(&self) {
        self.process.signal("TERM");
    }

    /// SIGINT; returns at once.
    pub fn interrupt(&self) {
        self.process.signal("INT");
    }

    /// SIGHUP; returns at once.
    pub fn hang_up(&self) {
        self.process.signal("HUP");
    }

    /// SIGSTOP: it is alive and does nothing.
    pub fn pause(&self) {
        self.process.signal("STOP");
    }

    /// SIGCONT.
    pub fn resume(&self) {
        self.process.signal("CONT");
    }

    /// Takes the limit of [`Serve::with_room_for`] away: under the running process where the
    /// system has a tool for it, else with a restart.
    #[track_caller]
    pub fn make_room(&mut self) {
        let mut command = Command::new("prlimit");
        command.arg(format!("--pid={}", self.process.id())).arg("--fsize=unlimited:");
        self.serve.room = None;
        match command.status() {
            Ok(status) => assert!(status.success(), "prlimit: {status}"),
            Err(_) => self.restart(),
        }
    }

    /// Waits for its end.
    #[track_caller]
    pub fn ended(&mut self, bound: Duration) -> ExitStatus {
        self.process.ended(bound)
    }

    /// Starts it again as it was, on the same store and new ports, after killing it.
    #[track_caller]
    pub fn restart(&mut self) {
        self.kill();
        *self = self.serve.start();
    }

    /// The most memory that it has had so far, in bytes.
    pub fn peak_memory(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id()));
        let status = status.expect("it runs");
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = peak.and_then(|peak| peak.trim().strip_suffix(" kB"));
        kib.and_then(|kib| kib.trim().parse::<usize>().ok()).expect("a number") * 1024
    }

    /// What it has printed so far.
    pub fn stdout(&self) -> Vec<String> {
        self.process.stdout()
    }

    /// What it has logged so far.
    pub fn stderr(&self) -> Vec<String> {
        self.process.stderr()
    }

    /// The value of a sample on `/metrics` whose line starts with the name and holds each label
    /// text; 0 where there is none. Several are added.
    #[track_caller]
    pub fn metric(&self, name: &str, labels: &[&str]) -> f64 {
        let metrics = self.operator("/metrics").text();
        let of_name = metrics.lines().filter(|line| {
            let rest = line.strip_prefix(name);
            rest.is_some_and(|rest| rest.starts_with(['{', ' ']))
                && labels.iter().all(|label| line.contains(label))
        });
        let value = |line: &str| line.rsplit_once(' ')?.1.parse::<f64>().ok();
        of_name.filter_map(value).sum()
    }
}
