//! What the disk under the store can do.

use std::{
    fs::OpenOptions,
    io::{Seek, SeekFrom, Write},
    path::Path,
    time::Duration,
};

use serde_json::{Value, json};

use super::load::{Measured, now};
use crate::run::{Context, Outcome};

/// What is written before each sync: a page, as at the least commit.
const PAGE: [u8; 4096] = [7; 4096];
const PAGES: u64 = 256;

/// Synced writes, one after the other, to a file that has its size already, as a log that is used
/// again.
pub(super) fn syncs(folder: &Path, lasting: Duration) -> Outcome<Measured> {
    let path = folder.join("syncs");
    let file = OpenOptions::new().write(true).create(true).truncate(true).open(&path);
    let mut file = file.context(path.display())?;
    for _ in 0..PAGES {
        file.write_all(&PAGE).context(path.display())?;
    }
    file.sync_all().context(path.display())?;
    let (begun, mut latencies) = (now(), Vec::new());
    while begun.elapsed() < lasting {
        let one = now();
        let at = latencies.len() as u64 % PAGES * PAGE.len() as u64;
        file.seek(SeekFrom::Start(at)).context(path.display())?;
        file.write_all(&PAGE).context(path.display())?;
        file.sync_data().context(path.display())?;
        latencies.push(one.elapsed());
    }
    latencies.sort_unstable();
    let count = u32::try_from(latencies.len()).context("syncs")?;
    let rate = f64::from(count) / begun.elapsed().as_secs_f64();
    Ok(Measured { rate, latencies, ..Measured::default() })
}

/// The syncs of a run.
pub(super) fn to_json(rounds: &[Measured]) -> Value {
    let series = super::report::Series(rounds);
    json!({
        "syncs_per_second": series.rate().round(),
        "p50_ms": series.millis(0.50),
        "p99_ms": series.millis(0.99),
    })
}
