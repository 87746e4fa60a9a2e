//! `cargo xtask setup`: what the tests need besides the Rust toolchain.

use std::{fs, os::unix::fs::MetadataExt, path::Path, process::Command};

use clap::Args;

use crate::run::{Failure, Outcome, answers, run};

/// Install what the tests need, on Debian as root; elsewhere say what is missing.
///
/// Today that is the Rust toolchain and its C compiler, nothing else.
#[derive(Args)]
pub(crate) struct Setup {
    /// Go on when something is missing and cannot be installed here.
    #[arg(long)]
    pub(crate) allow_missing: bool,
}

struct Tool {
    program: &'static str,
    package: &'static str,
    needed_for: &'static str,
}

/// Services that tests start themselves come here with the issue that brings them.
const TOOLS: &[Tool] = &[Tool {
    program: "cc",
    package: "build-essential",
    needed_for: "SQLite, which is compiled in",
}];

impl Setup {
    pub(crate) fn run(self) -> Outcome {
        let missing = missing();
        if missing.is_empty() {
            eprintln!("setup: nothing to install; the tests need the Rust toolchain and no more");
            return Ok(());
        }
        for tool in &missing {
            eprintln!("setup: {} is missing; needed for {}", tool.program, tool.needed_for);
        }
        let packages: Vec<_> = missing.iter().map(|tool| tool.package).collect();
        if is_debian() && is_root() {
            return install(&packages);
        }
        let line = format!("apt-get install --yes {}", packages.join(" "));
        eprintln!("setup: on Debian, as root: {line}");
        if self.allow_missing {
            return Ok(());
        }
        Err(Failure::new("something is missing (--allow-missing goes on without it)"))
    }
}

fn missing() -> Vec<&'static Tool> {
    TOOLS.iter().filter(|tool| !answers(Command::new(tool.program).arg("--version"))).collect()
}

fn install(packages: &[&str]) -> Outcome {
    run(Command::new("apt-get").args(["update", "--quiet"]))?;
    run(Command::new("apt-get")
        .env("DEBIAN_FRONTEND", "noninteractive")
        .args(["install", "--yes", "--quiet", "--no-install-recommends"])
        .args(packages))
}

fn is_debian() -> bool {
    Path::new("/etc/debian_version").exists()
}

/// The owner of our own entry in `/proc` is the user we run as.
fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|this| this.uid() == 0)
}
