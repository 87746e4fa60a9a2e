//! What the gateway takes of the machine: memory, and the time until it serves.

use std::{net::SocketAddr, num::NonZeroUsize, path::Path, time::Duration};

use serde_json::{Value, json};

use super::{
    keys::Keys,
    load::{Load, now},
    message::Dialect,
    process::{Gateway, scratch},
    report::millis,
};
use crate::run::{Context, Outcome};

const STARTS: usize = 20;
const MANY: NonZeroUsize = NonZeroUsize::new(1_000).unwrap();
const BUSY: NonZeroUsize = NonZeroUsize::new(256).unwrap();

/// What was found.
pub(super) struct Footprint {
    /// The memory in use, in bytes: at rest, after one request on each of many connections that are
    /// open still, and after load on others beside them.
    pub(super) idle: u64,
    pub(super) many_at_rest: u64,
    pub(super) many_after_load: u64,
    /// From starting the process on no database to the first answer to a keyed request, and the same
    /// where the database was there: ascending.
    pub(super) first_starts: Vec<Duration>,
    pub(super) later_starts: Vec<Duration>,
}

impl Footprint {
    pub(super) fn measure(upstream: SocketAddr) -> Outcome<Self> {
        let (mut first_starts, mut later_starts) = (Vec::new(), Vec::new());
        for _ in 0..STARTS {
            let folder = scratch()?;
            let database = folder.path().join("bench.db");
            first_starts.push(start(upstream, &database)?);
            later_starts.push(start(upstream, &database)?);
        }
        first_starts.sort_unstable();
        later_starts.sort_unstable();
        let folder = scratch()?;
        let gateway = Gateway::start(upstream, &folder.path().join("bench.db"))?;
        one_request(gateway.address)?;
        let idle = gateway.process.resident()?;
        let dialect = Dialect::default();
        let load = Load {
            target: gateway.address,
            dialect: &dialect,
            connections: MANY,
            lasting: Duration::from_secs(2),
        };
        let mut keys = Vec::new();
        let open = load.one_each(&mut Keys::Fresh(&mut keys))?;
        let many_at_rest = gateway.process.resident()?;
        let load = Load { connections: BUSY, ..load };
        load.run(&mut Keys::Fresh(&mut keys))?;
        let many_after_load = gateway.process.resident()?;
        drop(open);
        Ok(Self { idle, many_at_rest, many_after_load, first_starts, later_starts })
    }

    pub(super) fn print(&self) {
        println!(
            "memory: {:.1} MiB idle, {:.1} MiB with {MANY} connections open, {:.1} MiB after load \
             on {BUSY} more",
            mebibytes(self.idle),
            mebibytes(self.many_at_rest),
            mebibytes(self.many_after_load),
        );
        println!(
            "start to first answer, median of {STARTS}: {} ms without a database, {} ms with one",
            median(&self.first_starts),
            median(&self.later_starts),
        );
    }

    pub(super) fn to_json(&self) -> Value {
        json!({
            "resident_mib": {
                "idle": mebibytes(self.idle),
                "connections": MANY,
                "connections_open": mebibytes(self.many_at_rest),
                "after_load_on_256_more": mebibytes(self.many_after_load),
            },
            "start_to_first_answer_ms": {
                "starts": STARTS,
                "median_without_database": median(&self.first_starts),
                "median_with_database": median(&self.later_starts),
            },
        })
    }
}

/// Starts it, asks it once, stops it.
fn start(upstream: SocketAddr, database: &Path) -> Outcome<Duration> {
    let begun = now();
    let gateway = Gateway::start(upstream, database)?;
    one_request(gateway.address)?;
    Ok(begun.elapsed())
}

fn one_request(target: SocketAddr) -> Outcome {
    let dialect = Dialect::default();
    let one = NonZeroUsize::MIN;
    let load = Load { target, dialect: &dialect, connections: one, lasting: Duration::ZERO };
    load.run(&mut Keys::Fresh(&mut Vec::new())).map(drop).context("first request")
}

fn median(ascending: &[Duration]) -> f64 {
    millis(ascending.get(ascending.len() / 2).copied().unwrap_or_default())
}

#[expect(clippy::cast_precision_loss, reason = "for a person")]
fn mebibytes(bytes: u64) -> f64 {
    (bytes as f64 / f64::from(1 << 20) * 10.0).round() / 10.0
}
