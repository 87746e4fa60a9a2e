//! A job: bills each order of a day once, however often it is started, and wherever it dies.
//!
//! It has no request and no key of a client. The key is a natural one: the order, and what is done
//! with it. Run it again until it says that the day is closed.

use std::{path::PathBuf, process::ExitCode, time::Duration};

use clap::Parser;
use hapax::{Begun, Execution, Hapax, Interrupted, NotDone, OperationName, OperationPolicy, Scope};
use hapax_examples::{Failed, crash, database};
use sqlx::{SqlitePool, query, query_as, query_scalar};

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS orders (
        id     INTEGER PRIMARY KEY,
        day    TEXT NOT NULL,
        amount INTEGER NOT NULL
    );
    CREATE TABLE IF NOT EXISTS bills (
        number   INTEGER PRIMARY KEY,
        order_id INTEGER NOT NULL REFERENCES orders,
        amount   INTEGER NOT NULL
    );
    CREATE TABLE IF NOT EXISTS closings (day TEXT NOT NULL, total INTEGER NOT NULL);
";

#[derive(Parser)]
struct Args {
    #[arg(long, default_value = "job.db")]
    database: PathBuf,
    /// Such as 2026-01-31.
    #[arg(long)]
    day: String,
    /// How long the work of a process that died stays reserved, in milliseconds.
    #[arg(long, default_value = "30000")]
    lease: u64,
}

/// To be run again later; as mail systems say it.
const LATER: u8 = 75;

#[tokio::main]
async fn main() -> Result<ExitCode, Failed> {
    let args = Args::parse();
    let pool = database(&args.database, TABLES).await?;
    let h = Hapax::sqlite(&pool).single_tenant().open().await?;
    for name in ["orders.bill", "days.close"] {
        let mut policy = OperationPolicy::new(OperationName::new(name)?, "");
        policy.lease = Duration::from_millis(args.lease);
        h.define(policy).map_err(|wrong| format!("{wrong:?}"))?;
    }
    crash::arm();
    let closed = run(&h, &pool, &args.day).await;
    // What was claimed and not done is given back before the process ends.
    h.shutdown(Duration::from_secs(10)).await;
    match closed? {
        0 => println!("closed"),
        left => {
            println!("run again: {left} are left");
            return Ok(ExitCode::from(LATER));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Bills each order, then closes the day. Says how much is left for the next run.
async fn run(h: &Hapax, pool: &SqlitePool, day: &str) -> Result<usize, Failed> {
    let orders = query_as("SELECT id, amount FROM orders WHERE day = ? ORDER BY id");
    let orders: Vec<(i64, i64)> = orders.bind(day).fetch_all(pool).await?;
    let mut left = 0;
    for (order, amount) in orders {
        match bill(h, order, amount).await? {
            Some(number) => println!("order {order} has bill {number}"),
            None => left += 1,
        }
    }
    if left == 0 && !close(h, pool, day).await? {
        left = 1;
    }
    Ok(left)
}

/// With [`Hapax::claim`] the caller decides what each case means, and settles what it holds: the
/// way for a loop such as this, or for the consumer of a queue.
async fn bill(h: &Hapax, order: i64, amount: i64) -> Result<Option<i64>, Failed> {
    let key = format!("{order}/bill");
    // The amount is what is asked for: billed before with another amount, it is refused.
    match h.claim("orders.bill", &Scope::single_tenant(), &key, &amount).await {
        Ok(Begun::Execute(x)) => {
            let bill = x.finish(async |tx| {
                let insert = query("INSERT INTO bills (order_id, amount) VALUES (?, ?)");
                let insert = insert.bind(order).bind(amount).execute(tx).await?;
                Ok::<_, BillError>(insert.last_insert_rowid())
            });
            Ok(Some(bill.await?))
        }
        Ok(Begun::Replay(outcome)) => Ok(Some(outcome.value()?)),
        // Another run has it, or died with it a moment ago.
        Ok(Begun::Later(_) | Begun::Unresolved(_)) => Ok(None),
        Err(refusal) => Err(format!("order {order}: {refusal}").into()),
    }
}

/// With [`Hapax::once`] a closure does it, and all of that is decided already.
async fn close(h: &Hapax, pool: &SqlitePool, day: &str) -> Result<bool, Failed> {
    let total = "SELECT coalesce(sum(amount), 0) FROM orders WHERE day = ?";
    let total: i64 = query_scalar(total).bind(day).fetch_one(pool).await?;
    let close = {
        let day = day.to_owned();
        move |x: Execution| async move {
            x.finish(async |tx| {
                let insert = query("INSERT INTO closings (day, total) VALUES (?, ?)");
                insert.bind(&day).bind(total).execute(tx).await?;
                Ok::<_, BillError>(total)
            })
            .await
        }
    };
    match h.once("days.close", &Scope::single_tenant(), day, &total, close).await {
        Ok(_) => Ok(true),
        Err(NotDone::Later(_) | NotDone::Unresolved(_)) => Ok(false),
        Err(NotDone::Failed(error)) => Err(error.0.into()),
        Err(NotDone::Refused(refusal)) => Err(format!("{day}: {refusal}").into()),
    }
}

/// Whatever went wrong, in words: the next run goes on.
#[derive(Debug)]
struct BillError(String);

impl From<sqlx::Error> for BillError {
    fn from(error: sqlx::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<Interrupted> for BillError {
    fn from(why: Interrupted) -> Self {
        Self(why.to_string())
    }
}

impl std::fmt::Display for BillError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BillError {}
