//! What the client costs, and what its budget spares a service. `cargo xtask bench --client` and
//! `cargo xtask soak --only retry-storm` run this.

#![forbid(unsafe_code)]

use std::{error::Error, hint::black_box, time::Duration};

use clap::{Parser, Subcommand, ValueEnum};
use hapax_bench_client::{
    cost,
    storm::{self, Bound, Storm},
};
use tokio::runtime::{Builder, Runtime};

#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Times calls with and without the client, alternating; prints JSON.
    Pairs {
        /// How many pairs.
        calls: usize,
    },
    /// Makes this many calls and nothing else, for a tool that counts instructions.
    Calls {
        /// Without the client, or through it.
        kind: Kind,
        /// How many.
        calls: usize,
    },
    /// A service that is down for a while; prints JSON.
    Storm {
        /// What bounds the resends.
        bound: Limit,
        /// How long it is down, in seconds.
        #[arg(long, default_value = "60")]
        outage: u32,
        /// Callers, with an intent a second each.
        #[arg(long, default_value = "200")]
        callers: u32,
        /// On a service in this process and a simulated clock, instead of on connections and in real
        /// time.
        #[arg(long)]
        simulated: bool,
    },
}

#[derive(Clone, Copy, ValueEnum)]
enum Kind {
    Bare,
    Client,
}

#[derive(Clone, Copy, ValueEnum)]
enum Limit {
    None,
    Tokens,
    Share,
}

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    match Cli::parse().task {
        Task::Pairs { calls } => {
            let runtime = one_thread(false)?;
            println!("{}", runtime.block_on(runtime.spawn(cost::pairs(calls)))??);
        }
        Task::Calls { kind, calls } => {
            let runtime = one_thread(false)?;
            runtime.block_on(runtime.spawn(call(kind, calls)))??;
        }
        Task::Storm { bound, outage, callers, simulated } => {
            let outage = Duration::from_secs(outage.into());
            let storm = Storm { callers, around: Duration::from_secs(10), outage };
            let bound = match bound {
                Limit::None => Bound::None,
                Limit::Tokens => Bound::Tokens,
                Limit::Share => Bound::Share,
            };
            let load = if simulated {
                one_thread(true)?.block_on(storm::simulated(storm, bound))
            } else {
                let runtime = Builder::new_multi_thread().enable_all().build()?;
                runtime.block_on(storm::real(storm, bound)).map_err(|error| error.to_string())?
            };
            println!("{}", load.to_json());
        }
    }
    Ok(())
}

fn one_thread(paused: bool) -> std::io::Result<Runtime> {
    Builder::new_current_thread().enable_all().start_paused(paused).build()
}

async fn call(kind: Kind, calls: usize) -> Result<(), Box<dyn Error + Send + Sync>> {
    let (mut service, client) = (cost::AtOnce, cost::client());
    for _ in 0..calls {
        black_box(match kind {
            Kind::Bare => cost::bare(&mut service).await,
            Kind::Client => cost::through(&client).await?,
        });
    }
    Ok(())
}
