//! The binary, run to its end.

use std::{
    path::PathBuf,
    process::{Command, Stdio},
};

use serde_json::Value;

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

/// Runs `hapax` with arguments to its end.
pub fn hapax<S: AsRef<str>>(args: impl IntoIterator<Item = S>) -> Ran {
    let mut command = Command::new(binary());
    command.args(args.into_iter().map(|arg| arg.as_ref().to_owned()));
    run(&mut command)
}

pub(crate) fn run(command: &mut Command) -> Ran {
    let output = command.stdin(Stdio::null()).output().expect("hapax runs");
    Ran {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// The binary under test: of the same profile as the tests, unless `HAPAX_BIN` names another.
pub(crate) fn binary() -> PathBuf {
    sibling("hapax", std::env::var_os("HAPAX_BIN"), "cargo build -p hapax-cli")
}

/// The upstream of the tests, from this crate.
pub(crate) fn upstream_binary() -> PathBuf {
    sibling("e2e-upstream", None, "cargo build -p hapax-e2e --bins")
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
