//! `cargo xtask bench --store`: what the store does in a second, empty and with many records, alone
//! and through the gateway.

use std::{
    fs,
    net::SocketAddr,
    num::{NonZeroU32, NonZeroUsize},
    path::Path,
    process::Command,
    time::Duration,
};

use serde_json::{Value, json};

use super::{
    disk,
    keys::Keys,
    load::{Load, Measured, now, pause},
    message::Dialect,
    process::{Gateway, scratch},
    report::{Series, median},
    upstream::Upstream,
};
use crate::{
    proof,
    run::{Context, Failure, Outcome, line_of, release, run},
};

/// How many writes share a commit.
const BATCHES: [u32; 4] = [1, 8, 32, 128];
const CONNECTIONS: NonZeroUsize = NonZeroUsize::new(64).unwrap();

/// How long a gateway may take to look through the records that it finds.
const LOOKING: Duration = Duration::from_secs(300);

/// What is measured, and for how long.
pub(super) struct Settings {
    pub(super) records: NonZeroU32,
    pub(super) rounds: NonZeroU32,
    pub(super) lasting: Duration,
}

impl Settings {
    /// Measures, prints a table and writes `bench/store.json`.
    pub(super) fn measure(&self) -> Outcome {
        let folder = scratch()?;
        eprintln!("==> the disk");
        let syncs = disk::syncs(folder.path(), self.lasting)?;
        let mut store = Vec::new();
        for order in ["time", "random"] {
            for records in [0, self.records.get()] {
                store.push(self.store(order, records)?);
            }
        }
        let gateway = self.gateways()?;
        let result = json!({
            "store": "sqlite, full sync: each commit is synced before it is answered",
            "records": self.records,
            "milliseconds_each": u64::try_from(self.lasting.as_millis()).unwrap_or(u64::MAX),
            "disk": disk::to_json(&[syncs]),
            "pairs": store,
            "gateway": gateway,
        });
        print(&result);
        proof::write("bench/store.json", result)
    }

    /// Pairs of a claim and its settlement, without a gateway.
    fn store(&self, order: &str, records: u32) -> Outcome<Value> {
        eprintln!("==> the store with {records} records, keys by {order}");
        let folder = scratch()?;
        let database = folder.path().join("bench.db");
        if records > 0 {
            pairs(&database, &[1], order, Duration::from_millis(20))?;
            fill(&database, records, order)?;
        }
        let series = pairs(&database, &BATCHES, order, self.lasting)?;
        let bytes = fs::metadata(&database).context(database.display())?.len();
        Ok(json!({
            "order": order, "records": records, "database_mib": bytes >> 20, "series": series,
        }))
    }

    /// First executions through two gateways, one on an empty store, one on a full one; in turns.
    fn gateways(&self) -> Outcome<Value> {
        eprintln!("==> gateways on an empty store and on a full one");
        let upstream = Upstream::start().context("upstream")?.address();
        let (empty, full) = (scratch()?, scratch()?);
        let database = full.path().join("bench.db");
        first(&Gateway::start(upstream, &database)?, Duration::ZERO)?;
        fill(&database, self.records.get(), "time")?;
        let full = Gateway::start(upstream, &database)?;
        let looked = until_at_rest(&full)?;
        let empty = Gateway::start(upstream, &empty.path().join("bench.db"))?;
        let (mut of_empty, mut of_full) = (Vec::new(), Vec::new());
        for gateway in [&empty, &full] {
            first(gateway, self.lasting / 4)?;
        }
        for round in 1..=self.rounds.get() {
            eprintln!("==> round {round} of {}", self.rounds);
            of_empty.push(first(&empty, self.lasting)?);
            of_full.push(first(&full, self.lasting)?);
        }
        let ratios = of_full.iter().zip(&of_empty).map(|(full, empty)| full.rate / empty.rate);
        let ratio = (median(ratios.collect()) * 1000.0).round() / 1000.0;
        let of = |rounds: &[Measured]| {
            let series = Series(rounds);
            json!({
                "median_requests_per_second": series.rate().round(),
                "p50_ms": series.millis(0.50),
                "p99_ms": series.millis(0.99),
            })
        };
        Ok(json!({
            "kind": "first executions, keys by time",
            "connections": CONNECTIONS,
            "rounds": self.rounds,
            "empty": of(&of_empty),
            "full": of(&of_full),
            "ratio_to_empty": ratio,
            "seconds_to_look_through_what_is_there": looked.as_secs(),
        }))
    }
}

fn pairs(database: &Path, batches: &[u32], order: &str, lasting: Duration) -> Outcome<Value> {
    let batches = batches.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let mut command = Command::new(release("bench-store")?);
    command.arg("pairs").arg(database).args(["--order", order, "--batches", &batches]);
    command.args(["--millis", &lasting.as_millis().to_string()]);
    let printed = line_of(&mut command).ok_or_else(|| Failure::new("bench-store failed"))?;
    serde_json::from_str(&printed).context("what bench-store printed")
}

fn fill(database: &Path, records: u32, order: &str) -> Outcome {
    run(Command::new(release("bench-store")?).arg("fill").arg(database).args([
        "--records",
        &records.to_string(),
        "--order",
        order,
    ]))
}

fn first(gateway: &Gateway, lasting: Duration) -> Outcome<Measured> {
    let dialect = Dialect::default();
    let target: SocketAddr = gateway.address;
    let load = Load { target, dialect: &dialect, connections: CONNECTIONS, lasting };
    load.run(&mut Keys::Fresh(&mut Vec::new()))
}

/// Waits until a gateway has nothing to do; how long that took.
fn until_at_rest(gateway: &Gateway) -> Outcome<Duration> {
    const LOOK: Duration = Duration::from_secs(1);
    let begun = now();
    let mut before = gateway.process.processor_time()?;
    while begun.elapsed() < LOOKING {
        pause(LOOK);
        let after = gateway.process.processor_time()?;
        if after.saturating_sub(before) < LOOK / 20 {
            return Ok(begun.elapsed());
        }
        before = after;
    }
    Err(Failure::new("the gateway did not come to rest"))
}

fn print(result: &Value) {
    println!();
    print!("{:<36}", "pairs a second, by writes a commit");
    BATCHES.iter().for_each(|batch| print!(" {batch:>9}"));
    println!();
    for kind in result["pairs"].as_array().into_iter().flatten() {
        let order = kind["order"].as_str().unwrap_or_default();
        print!("{:<36}", format!("{} records, keys by {order}", kind["records"]));
        for series in kind["series"].as_array().into_iter().flatten() {
            print!(" {:>9.0}", series["pairs_per_second"].as_f64().unwrap_or(f64::NAN));
        }
        println!();
    }
    let gateway = &result["gateway"];
    println!();
    println!(
        "gateway, first executions, {CONNECTIONS} connections: {} a second on an empty store, {} \
         with {} records; ratio {}",
        gateway["empty"]["median_requests_per_second"],
        gateway["full"]["median_requests_per_second"],
        result["records"],
        gateway["ratio_to_empty"],
    );
}
