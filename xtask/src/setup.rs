//! `cargo xtask setup`: what the tests need besides the Rust toolchain.

use std::{fs, os::unix::fs::MetadataExt, path::Path, process::Command};

use clap::Args;

use crate::{
    clients, our_clients,
    run::{Failure, Outcome, answers, run},
};

/// Install what the tests need, on Debian as root; elsewhere say what is missing.
///
/// That is a C compiler, the proxies and clients that the tests put in front of the gateway, and what
/// makes disks fail and clocks jump under it. What comes from PyPI and npm goes to `target/clients`, and
/// so does our own client in TypeScript, built.
#[derive(Args)]
pub(crate) struct Setup {
    /// Go on when something is missing and cannot be installed here.
    #[arg(long)]
    pub(crate) allow_missing: bool,
}

struct Tool {
    program: &'static str,
    /// What has it show that it works.
    check: &'static [&'static str],
    package: &'static str,
    needed_for: &'static str,
}

/// Services that tests start themselves come here with the issue that brings them.
const TOOLS: &[Tool] = &[
    Tool {
        program: "cc",
        check: &["--version"],
        package: "build-essential",
        needed_for: "SQLite, which is compiled in",
    },
    Tool {
        program: "nginx",
        check: &["-v"],
        package: "nginx-light",
        needed_for: "tests with nginx in front of the gateway",
    },
    Tool {
        program: "haproxy",
        check: &["-v"],
        package: "haproxy",
        needed_for: "tests with haproxy in front of the gateway",
    },
    Tool {
        program: "curl",
        check: &["--version"],
        package: "curl",
        needed_for: "tests with curl as the client",
    },
    Tool {
        program: "python3",
        // Debian has the parts of a virtual environment in a package of their own.
        check: &["-c", "import ensurepip, venv"],
        package: "python3-venv",
        needed_for: "tests with clients in Python",
    },
    Tool {
        program: "node",
        check: &["--version"],
        package: "nodejs",
        needed_for: "tests with clients in JavaScript",
    },
    Tool {
        program: "npm",
        check: &["--version"],
        package: "npm",
        needed_for: "tests with Stripe's SDK for Node and our client in TypeScript",
    },
    Tool {
        program: "chromium",
        check: &["--version"],
        package: "chromium",
        needed_for: "tests with a browser",
    },
    Tool {
        program: "strace",
        check: &["-V"],
        package: "strace",
        needed_for: "tests with disks that fail or hang",
    },
    Tool {
        program: "mkfs.ext4",
        check: &["-V"],
        package: "e2fsprogs",
        needed_for: "tests with file systems that break down",
    },
    Tool {
        program: "mount",
        check: &["-V"],
        package: "mount",
        needed_for: "tests with file systems that are full",
    },
    Tool {
        program: "prlimit",
        check: &["-V"],
        package: "util-linux",
        needed_for: "tests with limits on a running gateway",
    },
    Tool {
        program: "faketime",
        check: &["--version"],
        package: "faketime",
        needed_for: "tests in which the clock of a gateway jumps",
    },
];

impl Setup {
    pub(crate) fn run(self) -> Outcome {
        match install_missing()? {
            missing if missing.is_empty() || self.allow_missing => Ok(()),
            missing => Err(lacks(&missing)),
        }
    }
}

/// Installs what is missing, where that can be done; returns what still is.
pub(crate) fn install_missing() -> Outcome<Vec<&'static str>> {
    let mut missing = install_missing_tools()?;
    missing.extend(clients::install_missing()?);
    our_clients::build(&missing)?;
    if missing.is_empty() {
        eprintln!("setup: all is there");
    }
    Ok(missing)
}

fn install_missing_tools() -> Outcome<Vec<&'static str>> {
    let missing = missing();
    if missing.is_empty() {
        return Ok(Vec::new());
    }
    for tool in &missing {
        eprintln!("setup: {} is missing; needed for {}", tool.program, tool.needed_for);
    }
    let packages: Vec<_> = missing.iter().map(|tool| tool.package).collect();
    if is_debian() && is_root() {
        install(&packages)?;
        return Ok(Vec::new());
    }
    eprintln!("setup: on Debian, as root: apt-get install --yes {}", packages.join(" "));
    Ok(missing.iter().map(|tool| tool.program).collect())
}

/// The failure of a task that went on without these.
pub(crate) fn lacks(missing: &[&str]) -> Failure {
    let missing = missing.join(", ");
    Failure::new(format!("{missing} missing (--allow-missing goes on without)"))
}

fn missing() -> Vec<&'static Tool> {
    TOOLS.iter().filter(|tool| !answers(Command::new(tool.program).args(tool.check))).collect()
}

fn install(packages: &[&str]) -> Outcome {
    run(Command::new("apt-get").args(["update", "--quiet"]))?;
    run(Command::new("apt-get")
        .env("DEBIAN_FRONTEND", "noninteractive")
        // Nothing is started by its package: the tests start their own.
        .env("RUNLEVEL", "1")
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
