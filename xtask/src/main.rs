//! Tasks of the repository: `cargo xtask setup | test | soak | bench`.

#![forbid(unsafe_code)]

mod bench;
mod clients;
mod our_clients;
mod proof;
mod run;
mod setup;
mod soak;
mod storm;
mod test;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use self::run::Outcome;

/// Tasks of the repository.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    Setup(setup::Setup),
    Test(test::Test),
    Soak(soak::Soak),
    Bench(bench::Bench),
}

fn main() -> ExitCode {
    match run(Cli::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("xtask: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Outcome {
    match task {
        Task::Setup(setup) => setup.run(),
        Task::Test(test) => test.run(),
        Task::Soak(soak) => soak.run(),
        Task::Bench(bench) => bench.run(),
    }
}
