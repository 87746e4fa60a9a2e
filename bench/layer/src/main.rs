//! What the layer costs: the same handler behind it and without it, called in this process, on the
//! store in memory. `cargo xtask bench --layer` runs this and writes `bench/layer.json`.

#![forbid(unsafe_code)]

mod exchange;
mod pairs;
mod service;

use std::{error::Error, hint::black_box};

use clap::{Parser, Subcommand};
use tokio::{
    runtime::{Builder, Runtime},
    task::JoinError,
};

use self::{
    exchange::{Exchange, Expected, fresh_keys},
    service::Way,
};

#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Times calls with and without the layer, alternating; prints JSON.
    Pairs {
        /// Pairs of each kind in each round.
        calls: usize,
        /// Rounds, each on an empty store.
        rounds: usize,
        /// Whether they run on a worker of the runtime with several threads.
        #[arg(long)]
        multi_thread: bool,
    },
    /// Makes this many calls and nothing else, for a tool that counts instructions.
    Calls {
        /// What each call is.
        kind: Kind,
        /// How many.
        calls: usize,
    },
}

/// What a counted call is.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Kind {
    /// Only the request is made, which all others do too.
    Request,
    /// The handler without the layer.
    Bare,
    BracketedFirst,
    BracketedReplay,
    ExecutionFirst,
    ExecutionReplay,
    OneCallFirst,
    OneCallReplay,
}

fn main() -> Result<(), Box<dyn Error>> {
    match Cli::parse().task {
        Task::Pairs { calls, rounds, multi_thread } => {
            let mut builder = if multi_thread { several_threads() } else { one_thread() };
            let measured = as_a_task(&builder.build()?, pairs::measure(calls, rounds))?;
            println!("{measured}");
        }
        Task::Calls { kind, calls } => as_a_task(&one_thread().build()?, call(kind, calls))?,
    }
    Ok(())
}

/// As the connections of a server run: what is waited for in the outermost future asks the
/// operating system for events each time.
fn as_a_task<T: Send + 'static>(
    runtime: &Runtime,
    task: impl Future<Output = T> + Send + 'static,
) -> Result<T, JoinError> {
    runtime.block_on(runtime.spawn(task))
}

fn one_thread() -> Builder {
    let mut builder = Builder::new_current_thread();
    builder.enable_all();
    builder
}

fn several_threads() -> Builder {
    let mut builder = Builder::new_multi_thread();
    builder.enable_all();
    builder
}

async fn call(kind: Kind, calls: usize) {
    let exchange = Exchange::new();
    let (way, again) = match kind {
        Kind::Request => {
            fresh_keys(calls).iter().for_each(|key| drop(black_box(exchange.request(key))));
            return;
        }
        Kind::Bare => (Way::Bare, false),
        Kind::BracketedFirst => (Way::Bracketed, false),
        Kind::BracketedReplay => (Way::Bracketed, true),
        Kind::ExecutionFirst => (Way::Execution, false),
        Kind::ExecutionReplay => (Way::Execution, true),
        Kind::OneCallFirst => (Way::OneCall, false),
        Kind::OneCallReplay => (Way::OneCall, true),
    };
    let mut service = way.service();
    let keys = if again { replayed_key(calls) } else { fresh_keys(calls) };
    for (at, key) in keys.iter().enumerate() {
        let expected = if again && at > 0 { Expected::Replayed } else { Expected::Fresh };
        let answer = exchange.call(&mut service, exchange.request(key)).await;
        expected.check(&answer);
    }
}

/// One key that is executed under once, and then replayed so often.
fn replayed_key(calls: usize) -> Vec<String> {
    let [key] = <[String; 1]>::try_from(fresh_keys(1)).unwrap_or_default();
    vec![key; calls + 1]
}
