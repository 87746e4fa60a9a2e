//! The one binary of hapax.
#![forbid(unsafe_code)]

mod call;
mod check;
mod demo;
mod effect_secret;
mod failure;
mod keys;
mod records;
mod serve;

use std::{io::Write, process::ExitCode};

use clap::{Parser, Subcommand};
use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::{EnvFilter, filter::LevelFilter};

use crate::failure::Failure;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// One that tests can kill at a point says so.
const VERSION: &str = if hapax::failpoints::COMPILED {
    concat!(env!("CARGO_PKG_VERSION"), " with failpoints, for tests alone")
} else {
    env!("CARGO_PKG_VERSION")
};

/// A gateway in front of your services. Retry any API call: it takes effect once, or tells you that
/// it does not know.
#[derive(Debug, Parser)]
#[command(name = "hapax", version = VERSION, max_term_width = 100)]
struct Hapax {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(Box<serve::Serve>),
    Call(Box<call::Call>),
    Check(check::Check),
    Demo(Box<demo::DemoArgs>),
    /// Look at records, and settle those whose outcome is unknown.
    #[command(subcommand)]
    Records(records::Records),
    /// Make entries for the file of API keys.
    #[command(subcommand)]
    Keys(keys::Keys),
}

fn main() -> ExitCode {
    let Hapax { command } = Hapax::parse();
    let logging = match log() {
        Ok(logging) => logging,
        Err(failure) => return fail(&failure),
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&Failure::start(format!("no threads to run on: {error}"))),
    };
    let ended = runtime.block_on(async {
        match command {
            Command::Serve(args) => serve::run(*args).await,
            Command::Call(args) => call::run(*args).await,
            Command::Check(args) => check::run(args),
            Command::Demo(args) => demo::run(*args).await,
            Command::Records(command) => records::run(command).await,
            Command::Keys(command) => keys::run(command),
        }
    });
    // What still runs was given its time; a store thread in a stuck system call must not keep us.
    runtime.shutdown_background();
    drop(logging);
    ended.unwrap_or_else(|failure| fail(&failure))
}

fn fail(failure: &Failure) -> ExitCode {
    // Whoever closed standard error does not want to know.
    let _ = writeln!(std::io::stderr(), "hapax: {}", failure.message);
    ExitCode::from(failure.code)
}

/// Whether a text says how much is logged. A word that is no level would be taken for the name of a
/// target and switch everything off.
fn is_filter(text: &str) -> bool {
    let is_level = |word: &str| word.parse::<LevelFilter>().is_ok();
    let fits = |part: &str| match part.split_once('=') {
        Some((target, level)) => !target.is_empty() && is_level(level),
        None => is_level(part),
    };
    text.split(',').map(str::trim).all(fits) && EnvFilter::try_new(text).is_ok()
}

/// Logs go to standard error; `HAPAX_LOG` says how much, as in `HAPAX_LOG=debug`, and
/// `HAPAX_LOG_FORMAT` in which form: `text` or `json`.
///
/// A thread of its own writes them: a reader that does not keep up, or has gone, costs lines and
/// nothing else. What is left is written when the guard is dropped.
fn log() -> Result<WorkerGuard, Failure> {
    let filter = match std::env::var("HAPAX_LOG") {
        Ok(filter) if is_filter(&filter) => EnvFilter::new(filter),
        Ok(_) => {
            let help = "write a level (error, warn, info, debug) or target=level";
            return Err(Failure::start(format!("HAPAX_LOG is not understood; {help}")));
        }
        Err(_) => EnvFilter::new("info"),
    };
    let json = match std::env::var("HAPAX_LOG_FORMAT").as_deref() {
        Ok("json") => true,
        Ok("text") | Err(_) => false,
        Ok(_) => {
            return Err(Failure::start("HAPAX_LOG_FORMAT is not understood; write text or json"));
        }
    };
    let (stderr, guard) =
        NonBlockingBuilder::default().buffered_lines_limit(8192).finish(std::io::stderr());
    let terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
    let colour = terminal && std::env::var_os("NO_COLOR").is_none();
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(stderr)
        .with_ansi(colour && !json)
        .log_internal_errors(false);
    if json {
        lines.json().init()
    } else {
        lines.init()
    }
    Ok(guard)
}
