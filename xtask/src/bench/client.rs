//! `cargo xtask bench --client`: what the client adds to a call that needs no retry.

use std::{num::NonZeroUsize, process::Command};

use serde_json::{Value, json};

use super::instructions::Counter;
use crate::{
    proof,
    run::{Context, Failure, Outcome, cargo, line_of, release, run},
};

/// Builds the program, runs it, prints what it found and writes `bench/client.json`.
pub(super) fn measure(pairs: NonZeroUsize) -> Outcome {
    run(cargo().args(["build", "--release", "--locked", "-p", "hapax-bench-client"]))?;
    let mut program = Command::new(release("bench-client")?);
    eprintln!("==> bench-client pairs {pairs}");
    let printed = line_of(program.args(["pairs", &pairs.to_string()]));
    let printed = printed.ok_or_else(|| Failure::new("bench-client failed"))?;
    let timed: Value = serde_json::from_str(&printed).context("what bench-client printed")?;
    let micros = |what: &str| timed["added_ns"][what].as_f64().unwrap_or(f64::NAN) / 1000.0;
    println!();
    println!(
        "the client adds {:.2} µs to a call that needs no retry (median of {pairs} pairs; p95 {:.2} µs)",
        micros("median"),
        micros("p95")
    );
    let counted = match Counter::of("bench-client")? {
        None => "valgrind is not installed".into(),
        Some(counter) => {
            let (bare, client) = (counter.per_call("bare")?, counter.per_call("client")?);
            let added = client.saturating_sub(bare);
            println!("and {added} instructions ({bare} without it, {client} with it)");
            let by = format!("{}, callgrind", counter.valgrind);
            json!({ "by": by, "bare_per_call": bare, "client_per_call": client, "added": added })
        }
    };
    let report = json!({
        "what": "an intent with its key, through the client and a service that answers at once in the \
                 same process, beside the same request without the client",
        "pairs": pairs,
        "timed": timed,
        "instructions": counted,
    });
    proof::write("bench/client.json", report)
}
