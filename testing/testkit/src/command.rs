//! The binary, run to its end.

use std::{
    io::Write,
    path::PathBuf,
    process::{Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use serde_json::Value;

/// No command that ends takes longer, on a machine that also compiles.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a run of the binary came to.
#[derive(Debug)]
pub struct Ran {
    /// The exit code; `None` for a signal.
    pub code: Option<i32>,
    /// What it printed.
    pub stdout: String,
    /// What it complained about.
    pub stderr: String,
}

impl Ran {
    /// Its output as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        assert_eq!(self.code, Some(0), "{self:?}");
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// `hapax`, to be given arguments and started.
pub fn hapax_command() -> Command {
    Command::new(binary())
}

/// Runs `hapax` with arguments to its end.
pub fn hapax<S: AsRef<str>>(args: impl IntoIterator<Item = S>) -> Ran {
    let mut command = hapax_command();
    command.args(args.into_iter().map(|arg| arg.as_ref().to_owned()));
    run(&mut command)
}

/// Runs `hapax` with arguments and this text as its standard input to its end.
pub fn hapax_reading<S: AsRef<str>>(input: &str, args: impl IntoIterator<Item = S>) -> Ran {
    // Short enough for a pipe, so that nobody waits.
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    writer.write_all(input.as_bytes()).expect("the pipe takes it");
    drop(writer);
    let mut command = hapax_command();
    command.args(args.into_iter().map(|arg| arg.as_ref().to_owned()));
    ended(command.stdin(reader))
}

/// Runs to the end, which has to come: a start that must fail and does not would run for ever.
pub fn run(command: &mut Command) -> Ran {
    ended(command.stdin(Stdio::null()))
}

fn ended(command: &mut Command) -> Ran {
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("hapax runs");
    let id = child.id();
    let (sender, ended) = mpsc::channel();
    thread::spawn(move || sender.send(child.wait_with_output()));
    let output = ended.recv_timeout(PATIENCE).unwrap_or_else(|_| {
        signal(id, "KILL");
        panic!("it does not end: {command:?}\n{:#?}", ended.recv())
    });
    let output = output.expect("hapax runs");
    Ran {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Sends a signal by its name; whether it was sent.
pub(crate) fn signal(process: u32, name: &str) -> bool {
    // The shell's own: there need not be another.
    let kill = format!("kill -{name} {process}");
    Command::new("sh").arg("-c").arg(kill).status().expect("sh runs").success()
}

/// The binary under test: of the same profile as the tests, unless `HAPAX_BIN` names another.
pub(crate) fn binary() -> PathBuf {
    sibling("hapax", std::env::var_os("HAPAX_BIN"), "cargo build --workspace --bins")
}

/// The upstream of the tests, from this crate.
pub(crate) fn upstream_binary() -> PathBuf {
    sibling("ledger", None, "cargo build --workspace --bins")
}

/// A binary in the directory above that of the test executable (`target/<profile>`).
fn sibling(name: &str, named: Option<std::ffi::OsString>, remedy: &str) -> PathBuf {
    let path = named.map_or_else(
        || {
            let this = std::env::current_exe().expect("the test executable has a path");
            let profile = this.parent().and_then(|deps| deps.parent()).expect("target/<profile>");
            profile.join(format!("{name}{}", std::env::consts::EXE_SUFFIX))
        },
        PathBuf::from,
    );
    assert!(
        path.is_file(),
        "{} is not there: build it first, `{remedy}` (with --release if the tests run so)",
        path.display()
    );
    path
}
