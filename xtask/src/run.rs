//! Running other programs, with a line that says so.

use std::{
    env, fmt, io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// What a task comes to.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

/// Why a task did not succeed, for a person.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl Failure {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Puts what was attempted before an error.
pub(crate) trait Context<T> {
    fn context(self, attempted: impl fmt::Display) -> Outcome<T>;
}

impl<T, E: fmt::Display> Context<T> for Result<T, E> {
    fn context(self, attempted: impl fmt::Display) -> Outcome<T> {
        self.map_err(|error| Failure(format!("{attempted}: {error}")))
    }
}

/// The cargo that runs this task, in the root of the repository.
pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root());
    cargo
}

/// Says what runs, runs it with our standard streams, and fails as it fails.
pub(crate) fn run(command: &mut Command) -> Outcome {
    let line = words(command);
    eprintln!("==> {line}");
    let status = command.status().context(&line)?;
    if status.success() { Ok(()) } else { Err(Failure(format!("{line}: {status}"))) }
}

/// Whether a program can be started: `program --version` exits with success.
pub(crate) fn answers(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// What a program prints, without the end of its last line; `None` when it fails.
pub(crate) fn line_of(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

/// The root of the repository.
pub(crate) fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}

/// Where cargo puts what it builds: this program lies in a folder of it.
pub(crate) fn target() -> io::Result<PathBuf> {
    let exe = env::current_exe()?;
    let target = exe.ancestors().nth(2).map(Path::to_owned);
    target.ok_or_else(|| io::Error::other("xtask does not lie in a target folder"))
}

/// Builds the optimized binary, and makes sure that no test can kill it at a point.
pub(crate) fn build_release(more: &[&str]) -> Outcome {
    let build = ["build", "--release", "--locked", "-p", "hapax-cli"];
    run(cargo().args(build).args(more))?;
    let version = line_of(Command::new(release("hapax")?).arg("--version"));
    match version {
        Some(version) if !version.contains("failpoints") => Ok(()),
        version => Err(Failure(format!("the release binary has failpoints: {version:?}"))),
    }
}

/// The path of an optimized binary of this repository.
pub(crate) fn release(binary: &str) -> Outcome<PathBuf> {
    Ok(target().context("target folder")?.join("release").join(binary))
}

fn words(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let program = program.file_name().unwrap_or(command.get_program()).to_string_lossy();
    let arguments = command.get_args().map(|argument| argument.to_string_lossy());
    std::iter::once(program).chain(arguments).collect::<Vec<_>>().join(" ")
}
