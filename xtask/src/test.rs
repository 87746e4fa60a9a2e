//! `cargo xtask test`: every test of the workspace, by one command.

use std::process::Command;

use clap::Args;

use crate::{
    run::{Outcome, answers, cargo, run},
    setup::{install_missing, lacks},
};

/// Run every test: set up, build the binaries, documentation examples, then all tests.
///
/// Uses cargo-nextest where it is installed, else `cargo test`.
#[derive(Args)]
pub(crate) struct Test {
    /// Go on when something that tests need is missing and cannot be installed here.
    #[arg(long)]
    allow_missing: bool,
    /// Only tests whose names contain this.
    filter: Option<String>,
}

impl Test {
    pub(crate) fn run(self) -> Outcome {
        let missing = install_missing()?;
        build()?;
        // First, so that the last line is that of the runner of all the others.
        run(cargo().args(["test", "--workspace", "--locked", "--doc"]).args(&self.filter))?;
        let mut all = tests();
        // Tests that need one of them say that they are left out.
        all.env("HAPAX_MISSING", missing.join(","));
        run(all.args(["--workspace", "--lib", "--bins", "--tests"]).args(&self.filter))?;
        if missing.is_empty() || self.allow_missing { Ok(()) } else { Err(lacks(&missing)) }
    }
}

/// Builds the programs that end-to-end tests start: `hapax` and the upstream of the tests. For the
/// whole workspace, because the tests then share what is built.
pub(crate) fn build() -> Outcome {
    run(cargo().args(["build", "--locked", "--workspace", "--bins"]))
}

/// The runner of tests, ready for the arguments that both runners know.
pub(crate) fn tests() -> Command {
    let mut command = cargo();
    if answers(cargo().args(["nextest", "--version"])) {
        command.args(["nextest", "run"]);
    } else {
        command.arg("test");
    }
    command.arg("--locked");
    command
}
