//! `cargo xtask bench --layer`: what the layer costs in front of a handler, on the store in memory.

use std::{
    num::{NonZeroU32, NonZeroUsize},
    process::Command,
};

use serde_json::{Value, json};

use super::instructions::Counter;
use crate::{
    proof,
    run::{Context, Failure, Outcome, cargo, line_of, release, run},
};

/// The kinds of calls that are counted: the program's name for each, and whose first or replay.
const COUNTED: [(&str, &str, &str); 6] = [
    ("bracketed-first", "bracketed", "first"),
    ("bracketed-replay", "bracketed", "replay"),
    ("execution-first", "execution", "first"),
    ("execution-replay", "execution", "replay"),
    ("one-call-first", "one-call", "first"),
    ("one-call-replay", "one-call", "replay"),
];

/// Builds the program, runs it, prints a table and writes `bench/layer.json`.
pub(super) fn measure(pairs: NonZeroUsize, rounds: NonZeroU32) -> Outcome {
    run(cargo().args(["build", "--release", "--locked", "-p", "hapax-bench-layer"]))?;
    let report = Report {
        pairs,
        rounds,
        one_thread: timed(pairs, rounds, &[])?,
        several_threads: timed(pairs, rounds, &["--multi-thread"])?,
        instructions: counted()?,
    };
    report.print();
    proof::write("bench/layer.json", report.to_json())
}

fn timed(pairs: NonZeroUsize, rounds: NonZeroU32, options: &[&str]) -> Outcome<Value> {
    let mut program = Command::new(release("bench-layer")?);
    program.arg("pairs").args([pairs.to_string(), rounds.to_string()]).args(options);
    eprintln!("==> bench-layer pairs {pairs} {rounds} {}", options.join(" "));
    let printed = line_of(&mut program).ok_or_else(|| Failure::new("bench-layer failed"))?;
    serde_json::from_str(&printed).context("what bench-layer printed")
}

/// The instructions of one call of each kind.
struct Instructions {
    valgrind: String,
    bare: u64,
    layered: Vec<u64>,
}

/// Counts by callgrind; `None` where it is not installed.
fn counted() -> Outcome<Option<Instructions>> {
    let Some(counter) = Counter::of("bench-layer")? else { return Ok(None) };
    // What all kinds do to have a request is no part of any.
    let request = counter.per_call("request")?;
    let of = |kind| Ok::<_, Failure>(counter.per_call(kind)?.saturating_sub(request));
    Ok(Some(Instructions {
        bare: of("bare")?,
        layered: COUNTED.iter().map(|(kind, ..)| of(kind)).collect::<Outcome<_>>()?,
        valgrind: counter.valgrind,
    }))
}

struct Report {
    pairs: NonZeroUsize,
    rounds: NonZeroU32,
    one_thread: Value,
    several_threads: Value,
    instructions: Option<Instructions>,
}

impl Report {
    /// What the layer adds to a call, in microseconds and instructions.
    fn print(&self) {
        println!();
        println!(
            "{:<24} {:>28} {:>28} {:>14}",
            "the layer adds, to a",
            "one thread: median   p95",
            "several: median   p95",
            "instructions"
        );
        for (at, (_, way, call)) in COUNTED.iter().enumerate() {
            let instructions = self.instructions.as_ref();
            let added = instructions
                .and_then(|counted| Some(counted.layered.get(at)?.saturating_sub(counted.bare)));
            println!(
                "{:<24} {:>28} {:>28} {:>14}",
                format!("{way} {call}"),
                micros(&self.one_thread, way, call),
                micros(&self.several_threads, way, call),
                added.map_or_else(|| "not counted".to_owned(), |added| added.to_string()),
            );
        }
        println!();
        println!(
            "{} pairs of each kind in each of {} rounds, a call with the layer beside one without; \
             a JSON body of 152 bytes, ten header fields, a UUIDv7 as the key, the store in memory",
            self.pairs, self.rounds
        );
        match &self.instructions {
            Some(counted) => println!(
                "instructions by {} without the processor's SHA extensions; the handler alone: {}",
                counted.valgrind, counted.bare
            ),
            None => println!("instructions are not counted: valgrind is not installed"),
        }
    }

    fn to_json(&self) -> Value {
        let instructions = self.instructions.as_ref().map(|counted| {
            let layered = COUNTED.iter().zip(&counted.layered).map(|((_, way, call), count)| {
                let added = count.saturating_sub(counted.bare);
                json!({"way": way, "call": call, "per_call": count, "overhead": added})
            });
            json!({
                "by": format!("{}, callgrind", counted.valgrind),
                "sha_extensions": false,
                "bare_per_call": counted.bare,
                "layered": layered.collect::<Vec<_>>(),
            })
        });
        json!({
            "store": "memory",
            "pairs": self.pairs,
            "rounds": self.rounds,
            "one_thread": self.one_thread,
            "several_threads": self.several_threads,
            "instructions": instructions.unwrap_or_else(|| "valgrind is not installed".into()),
        })
    }
}

fn micros(timed: &Value, way: &str, call: &str) -> String {
    let kinds = timed.as_array().map(Vec::as_slice).unwrap_or_default();
    let kind = kinds.iter().find(|kind| kind["way"] == way);
    let of = |what| {
        let nanos = kind.and_then(|kind| kind[call]["overhead_ns"][what].as_f64());
        nanos.unwrap_or(f64::NAN) / 1000.0
    };
    format!("{:.2} µs {:.2} µs", of("median"), of("p95"))
}
