//! A child process that does not outlive its test, and what it writes.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, Command, ExitStatus, Stdio},
    sync::Arc,
    thread,
    time::Duration,
};

use parking_lot::Mutex;

use crate::{
    command::signal,
    wait::{holds_within, until},
};

/// How long a process may take to say that it is ready. Generous: the machine may be busy with a
/// compilation.
const READY: Duration = Duration::from_secs(30);

/// A running child. Dropped, it is killed; if the test failed, what it wrote is shown.
pub struct Process {
    name: String,
    child: Child,
    stdout: Arc<Mutex<Vec<String>>>,
    stderr: Arc<Mutex<Vec<String>>>,
}

impl Process {
    /// Starts it.
    ///
    /// # Panics
    /// When it cannot be.
    pub fn spawn(name: &str, command: &mut Command) -> Self {
        let mut child = command
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{name} cannot be started: {error}: {command:?}"));
        let stdout = collect(child.stdout.take().expect("piped"));
        let stderr = collect(child.stderr.take().expect("piped"));
        Self { name: name.to_owned(), child, stdout, stderr }
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The rest of the first line of stdout that starts with `prefix`.
    #[track_caller]
    pub fn line(&mut self, prefix: &str) -> String {
        let what = format!("{} prints a line `{prefix}…`", self.name);
        until(&what, READY, || {
            let lines = self.stdout.lock();
            let found = lines.iter().find_map(|line| line.strip_prefix(prefix)).map(str::to_owned);
            drop(lines);
            if found.is_none()
                && let Some(status) = self.child.try_wait().expect("a status")
            {
                panic!("{} ended with {status} before it was ready\n{}", self.name, self.output());
            }
            found
        })
    }

    /// The lines it has printed so far.
    pub fn stdout(&self) -> Vec<String> {
        self.stdout.lock().clone()
    }

    /// The lines it has logged so far.
    pub fn stderr(&self) -> Vec<String> {
        self.stderr.lock().clone()
    }

    /// Ends it at once: SIGKILL, and nothing is left running when this returns.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Sends a signal by name, such as `TERM`.
    pub fn signal(&self, name: &str) {
        assert!(signal(self.id(), name), "{} is not there for SIG{name}", self.name);
    }

    /// SIGINT, and when it is not gone by then, SIGKILL.
    pub fn interrupt_and_end(&mut self, bound: Duration) {
        if matches!(self.child.try_wait(), Ok(None)) && signal(self.id(), "INT") {
            let _ = holds_within(bound, || !matches!(self.child.try_wait(), Ok(None)));
        }
        self.kill();
    }

    /// Waits for its end.
    #[track_caller]
    pub fn ended(&mut self, bound: Duration) -> ExitStatus {
        let what = format!("{} ends", self.name);
        until(&what, bound, || self.child.try_wait().expect("a status"))
    }

    fn output(&self) -> String {
        let (out, err) = (self.stdout.lock().join("\n"), self.stderr.lock().join("\n"));
        format!("--- {} wrote to stdout\n{out}\n--- and to stderr\n{err}\n---", self.name)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        if thread::panicking() {
            // By the test's own thread, so that it is shown with the failed test.
            eprintln!("{}", self.output());
        }
    }
}

fn collect(from: impl Read + Send + 'static) -> Arc<Mutex<Vec<String>>> {
    let lines = Arc::<Mutex<Vec<String>>>::default();
    let collected = Arc::clone(&lines);
    thread::spawn(move || {
        for line in BufReader::new(from).split(b'\n').map_while(Result::ok) {
            collected.lock().push(String::from_utf8_lossy(&line).into_owned());
        }
    });
    lines
}
