//! What the store in SQLite does in a second. `cargo xtask bench --store` runs this and writes
//! `bench/store.json`.

#![forbid(unsafe_code)]

mod fill;
mod pairs;
mod payment;

use std::{error::Error, path::PathBuf, time::Duration};

use clap::{Parser, Subcommand};
use tokio::runtime::Builder;

use self::payment::Order;

#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Claims and settles for a while, so many at a time in one commit; prints JSON.
    Pairs {
        /// The database; it is made if it is not there.
        database: PathBuf,
        /// How many writes share a commit: one series for each number.
        #[arg(long, value_delimiter = ',')]
        batches: Vec<usize>,
        /// How the keys are ordered.
        #[arg(long)]
        order: Order,
        /// How long each series lasts.
        #[arg(long)]
        millis: u64,
    },
    /// Multiplies the newest record of a database that nobody has open.
    Fill {
        /// The database; it holds a settled record at least.
        database: PathBuf,
        /// How many records are added.
        #[arg(long)]
        records: u32,
        /// How their keys are ordered.
        #[arg(long)]
        order: Order,
    },
}

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    match Cli::parse().task {
        Task::Pairs { database, batches, order, millis } => {
            let runtime = Builder::new_multi_thread().enable_all().build()?;
            let lasting = Duration::from_millis(millis);
            let measured = pairs::measure(&database, &batches, order, lasting);
            println!("{}", runtime.block_on(measured)?);
            Ok(())
        }
        Task::Fill { database, records, order } => fill::fill(&database, records, order),
    }
}
