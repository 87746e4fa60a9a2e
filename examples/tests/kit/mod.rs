//! The examples as processes: started, asked, killed and started again on the same database.
#![allow(dead_code, reason = "no test uses all of it")]

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use hapax_testkit::{Answer, Pending, Process, Ran, Request, run, start};
use rusqlite::{Connection, OpenFlags, types::FromSql};

/// No process here takes longer to end.
pub(crate) const ENDS: Duration = Duration::from_secs(20);

/// How long the work of a process that died stays reserved, in milliseconds. Longer than the pause
/// between two renewals, on a machine that also compiles.
pub(crate) const SHORT_LEASE: u64 = 1500;

/// Runs cases at the same time: most of their time is that of a lease.
#[track_caller]
pub(crate) fn together<T: Send>(cases: impl IntoIterator<Item = T>, case: impl Fn(T) + Sync) {
    std::thread::scope(|scope| {
        for one in cases {
            scope.spawn(|| case(one));
        }
    });
}

/// How an example is started.
#[derive(Clone)]
pub(crate) struct Program {
    binary: &'static str,
    args: Vec<String>,
    env: Vec<(String, String)>,
    dir: Option<PathBuf>,
}

impl Program {
    pub(crate) fn new(binary: &'static str) -> Self {
        Self { binary, args: Vec::new(), env: Vec::new(), dir: None }
    }

    #[must_use]
    pub(crate) fn arg(mut self, name: &str, value: impl ToString) -> Self {
        self.args.extend([name.to_owned(), value.to_string()]);
        self
    }

    /// With this as its current directory.
    #[must_use]
    pub(crate) fn within(mut self, dir: &Path) -> Self {
        self.dir = Some(dir.to_owned());
        self
    }

    /// With a database in `dir`.
    #[must_use]
    pub(crate) fn database(self, dir: &Path) -> Self {
        self.arg("--database", dir.join("app.db").display())
    }

    #[must_use]
    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Ends itself at a place: see `hapax_examples::crash`.
    #[must_use]
    pub(crate) fn crashing(&self, place: &str) -> Self {
        self.clone().env("HAPAX_EXAMPLES_CRASH", place)
    }

    /// Starts it, and waits until it can be asked.
    #[track_caller]
    pub(crate) fn serve(&self) -> Service {
        let mut process = self.spawn();
        let address = process.line("listening on http://").parse().unwrap();
        Service { process, address }
    }

    pub(crate) fn spawn(&self) -> Process {
        Process::spawn(self.binary, &mut self.command())
    }

    /// Runs it to its end.
    #[track_caller]
    pub(crate) fn run(&self) -> Ran {
        run(&mut self.command())
    }

    fn command(&self) -> Command {
        let mut command = Command::new(self.binary);
        command.args(&self.args).env_remove("HAPAX_EXAMPLES_CRASH");
        if let Some(dir) = &self.dir {
            command.current_dir(dir);
        }
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }
}

/// A running example. Dropped, it is killed.
pub(crate) struct Service {
    pub(crate) process: Process,
    pub(crate) address: SocketAddr,
}

impl Service {
    #[track_caller]
    pub(crate) fn send(&self, request: &Request) -> Answer {
        self.start(request).answer()
    }

    pub(crate) fn start(&self, request: &Request) -> Pending {
        start(self.address, request)
    }

    /// Sends the same request again until its outcome is known, as a client does that was told to
    /// try again.
    #[track_caller]
    pub(crate) fn insist(&self, request: &Request) -> Answer {
        hapax_testkit::until("a known outcome", ENDS, || {
            let answer = self.send(request);
            let again = answer.status >= 500 || answer.problem().as_deref() == Some("in-flight");
            (!again).then_some(answer)
        })
    }

    /// SIGTERM, and its orderly end.
    #[track_caller]
    pub(crate) fn stop(mut self) {
        self.process.signal("TERM");
        let status = self.process.ended(ENDS);
        assert!(status.success(), "{status}");
    }
}

/// What is in the database of an example, read past it.
pub(crate) struct Database(Connection);

impl Database {
    pub(crate) fn of(dir: &Path) -> Self {
        Self::in_file(&dir.join("app.db"))
    }

    pub(crate) fn in_file(file: &Path) -> Self {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
        let connection = Connection::open_with_flags(file, flags).unwrap();
        connection.busy_timeout(Duration::from_secs(5)).unwrap();
        Self(connection)
    }

    #[track_caller]
    pub(crate) fn one<T: FromSql>(&self, sql: &str) -> T {
        self.0.query_row(sql, [], |row| row.get(0)).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    #[track_caller]
    pub(crate) fn count(&self, of: &str) -> i64 {
        self.one(&format!("SELECT count(*) FROM {of}"))
    }

    pub(crate) fn execute(&self, sql: &str) {
        self.0.execute(sql, []).unwrap();
    }
}
