//! What was measured: a table for a person, `bench/results.json` for everything else.

use std::{num::NonZeroUsize, time::Duration};

use serde_json::{Value, json};

use super::load::Measured;
use crate::{proof, run::Outcome};

/// The rounds of each kind.
pub(super) struct Report {
    requests: NonZeroUsize,
    connections: NonZeroUsize,
    pub(super) upstream_alone: Vec<Measured>,
    pub(super) pass_through: Vec<Measured>,
    pub(super) first_execution: Vec<Measured>,
    pub(super) replay: Vec<Measured>,
}

impl Report {
    pub(super) const fn new(requests: NonZeroUsize, connections: NonZeroUsize) -> Self {
        Self {
            requests,
            connections,
            upstream_alone: Vec::new(),
            pass_through: Vec::new(),
            first_execution: Vec::new(),
            replay: Vec::new(),
        }
    }

    /// The table, rates beside the ratio to the pass-through of the same run.
    pub(super) fn print(&self) {
        println!();
        println!(
            "{:<32} {:>10} {:>10} {:>10} {:>10}",
            "kind of request", "a second", "ratio", "p50", "p99"
        );
        for (name, rounds) in self.kinds() {
            println!(
                "{:<32} {:>10.0} {:>10.2} {:>7.2} ms {:>7.2} ms",
                name,
                rate(rounds),
                self.ratio(rounds),
                millis(quantile(rounds, 0.50)),
                millis(quantile(rounds, 0.99)),
            );
        }
        println!();
        println!(
            "{} requests of each kind in each of {} rounds, {} connections; ratio to pass-through; \
             median of rounds",
            self.requests,
            self.pass_through.len(),
            self.connections
        );
    }

    /// Writes `bench/results.json`.
    pub(super) fn write(&self) -> Outcome {
        proof::write("bench/results.json", self.to_json())
    }

    fn kinds(&self) -> [(&'static str, &[Measured]); 4] {
        [
            ("upstream alone", &self.upstream_alone),
            ("pass-through, without a key", &self.pass_through),
            ("first execution, with a key", &self.first_execution),
            ("replay", &self.replay),
        ]
    }

    fn ratio(&self, rounds: &[Measured]) -> f64 {
        rate(rounds) / rate(&self.pass_through)
    }

    fn to_json(&self) -> Value {
        let kinds = self.kinds().map(|(name, rounds)| {
            json!({
                "kind": name,
                "requests_per_second": rounds.iter().map(|m| m.rate.round()).collect::<Vec<_>>(),
                "median_requests_per_second": rate(rounds).round(),
                "ratio_to_pass_through": (self.ratio(rounds) * 1000.0).round() / 1000.0,
                "p50_ms": millis(quantile(rounds, 0.50)),
                "p99_ms": millis(quantile(rounds, 0.99)),
            })
        });
        json!({
            "store": "sqlite, full sync",
            "requests": self.requests,
            "connections": self.connections,
            "rounds": self.pass_through.len(),
            "kinds": kinds,
        })
    }
}

/// The median rate of the rounds.
fn rate(rounds: &[Measured]) -> f64 {
    let mut rates: Vec<_> = rounds.iter().map(|round| round.rate).collect();
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The median of the rounds' quantiles.
fn quantile(rounds: &[Measured], share: f64) -> Duration {
    let mut of_rounds: Vec<_> = rounds.iter().map(|round| round.quantile(share)).collect();
    of_rounds.sort_unstable();
    of_rounds.get(of_rounds.len() / 2).copied().unwrap_or_default()
}

fn millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 100_000.0).round() / 100.0
}
