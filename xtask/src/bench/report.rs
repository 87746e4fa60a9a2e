//! What was measured: a table for a person, a picture, and `bench/results.json` for everything else.

use std::{num::NonZeroUsize, time::Duration};

use serde_json::{Value, json};

use super::{disk, footprint::Footprint, load::Measured, peers::Peers, plot};
use crate::{proof, run::Outcome};

/// What is compared.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    Upstream,
    Nginx,
    PassThrough,
    First,
    Replay,
}

impl Kind {
    pub(super) const ALL: [Self; 5] =
        [Self::Upstream, Self::Nginx, Self::PassThrough, Self::First, Self::Replay];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Upstream => "the service alone",
            Self::Nginx => "nginx, plain proxy",
            Self::PassThrough => "hapax, without a key",
            Self::First => "hapax, first execution",
            Self::Replay => "hapax, replay",
        }
    }

    /// What is on disk when the caller has its answer.
    const fn durability(self) -> &'static str {
        match self {
            Self::Upstream | Self::Nginx | Self::PassThrough => "nothing is stored",
            Self::First => {
                "SQLite with full sync: the claim is synced before the request is forwarded, the \
                 outcome before the answer"
            }
            Self::Replay => "read from what was synced",
        }
    }
}

/// The rounds of one kind at one number of connections.
struct Measurement {
    kind: Kind,
    connections: NonZeroUsize,
    rounds: Vec<Measured>,
}

/// All that was measured.
pub(super) struct Report {
    connections: Vec<NonZeroUsize>,
    lasting: Duration,
    measurements: Vec<Measurement>,
    pub(super) syncs: Vec<Measured>,
    pub(super) footprint: Option<Footprint>,
    pub(super) peers: Option<Peers>,
}

impl Report {
    pub(super) fn new(connections: &[NonZeroUsize], lasting: Duration) -> Self {
        Self {
            connections: connections.to_vec(),
            lasting,
            measurements: Vec::new(),
            syncs: Vec::new(),
            footprint: None,
            peers: None,
        }
    }

    pub(super) fn connections(&self) -> Vec<NonZeroUsize> {
        self.connections.clone()
    }

    pub(super) fn most_connections(&self) -> NonZeroUsize {
        self.connections.iter().copied().max().unwrap_or(NonZeroUsize::MIN)
    }

    pub(super) fn add(&mut self, kind: Kind, connections: NonZeroUsize, measured: Measured) {
        let known = self.measurements.iter_mut();
        let known = known.into_iter().find(|m| m.kind == kind && m.connections == connections);
        match known {
            Some(known) => known.rounds.push(measured),
            None => {
                let rounds = vec![measured];
                self.measurements.push(Measurement { kind, connections, rounds });
            }
        }
    }

    /// The rounds of one kind; none where it was not measured.
    pub(super) fn series(&self, kind: Kind, connections: NonZeroUsize) -> Series<'_> {
        let mut known = self.measurements.iter();
        let known = known.find(|m| m.kind == kind && m.connections == connections);
        Series(known.map_or(&[], |known| &known.rounds))
    }

    /// The median over the rounds of one rate beside another of the same round.
    fn ratio(&self, of: Kind, to: Kind, connections: NonZeroUsize) -> f64 {
        let (of, to) = (self.series(of, connections).0, self.series(to, connections).0);
        let of_rounds = of.iter().zip(to).map(|(of, to)| of.rate / to.rate);
        (median(of_rounds.collect()) * 1000.0).round() / 1000.0
    }

    pub(super) fn print(&self) {
        for &connections in &self.connections {
            println!();
            println!(
                "{:<26} {:>10} {:>10} {:>10} {:>11} {:>11} {:>11}",
                format!("{connections} connections"),
                "a second",
                "to nginx",
                "to no key",
                "p50",
                "p99",
                "processor"
            );
            for kind in Kind::ALL {
                let series = self.series(kind, connections);
                if series.0.is_empty() {
                    continue;
                }
                println!(
                    "{:<26} {:>10.0} {:>10.2} {:>10.2} {:>8.2} ms {:>8.2} ms {:>8.1} µs",
                    kind.name(),
                    series.rate(),
                    self.ratio(kind, Kind::Nginx, connections),
                    self.ratio(kind, Kind::PassThrough, connections),
                    series.millis(0.50),
                    series.millis(0.99),
                    series.processor_micros(),
                );
            }
        }
        println!();
        let syncs = Series(&self.syncs);
        println!(
            "median of {} rounds of {:?} each; the disk: {:.0} syncs a second, p50 {:.2} ms",
            self.syncs.len(),
            self.lasting,
            syncs.rate(),
            syncs.millis(0.50)
        );
        if let Some(footprint) = &self.footprint {
            footprint.print();
        }
        if let Some(peers) = &self.peers {
            peers.print();
        }
    }

    /// Writes `bench/results.json` and draws `bench/results.svg`.
    pub(super) fn write(&self) -> Outcome {
        proof::write("bench/results.json", self.to_json())?;
        plot::write("bench/results.svg", self)
    }

    fn to_json(&self) -> Value {
        let measurements = self.measurements.iter().map(|measurement| {
            let (kind, connections) = (measurement.kind, measurement.connections);
            let series = Series(&measurement.rounds);
            json!({
                "kind": kind.name(),
                "connections": connections,
                "requests_per_second": series.0.iter().map(|m| m.rate.round()).collect::<Vec<_>>(),
                "median_requests_per_second": series.rate().round(),
                "ratio_to_nginx": self.ratio(kind, Kind::Nginx, connections),
                "ratio_to_pass_through": self.ratio(kind, Kind::PassThrough, connections),
                "p50_ms": series.millis(0.50),
                "p99_ms": series.millis(0.99),
                "processor_us_per_request": series.processor_micros(),
            })
        });
        let durability = Kind::ALL.map(|kind| (kind.name().to_owned(), kind.durability().into()));
        json!({
            "rounds": self.syncs.len(),
            "milliseconds_each": u64::try_from(self.lasting.as_millis()).unwrap_or(u64::MAX),
            "disk": disk::to_json(&self.syncs),
            "hapax_log": "error",
            "durability": Value::Object(durability.into_iter().collect()),
            "measurements": measurements.collect::<Vec<_>>(),
            "footprint": self.footprint.as_ref().map(Footprint::to_json),
            "peers": self.peers.as_ref().map(Peers::to_json),
        })
    }
}

/// The rounds of one measurement.
#[derive(Clone, Copy)]
pub(super) struct Series<'m>(pub(super) &'m [Measured]);

impl Series<'_> {
    /// The median rate.
    pub(super) fn rate(self) -> f64 {
        median(self.0.iter().map(|round| round.rate).collect())
    }

    /// The median of the processor time that one request took, in microseconds.
    fn processor_micros(self) -> f64 {
        let of_one = |round: &Measured| {
            let count = u32::try_from(round.latencies.len()).unwrap_or(u32::MAX).max(1);
            (round.processor_time.as_secs_f64() / f64::from(count) * 1e7).round() / 10.0
        };
        median(self.0.iter().map(of_one).collect())
    }

    /// The median of the rounds' quantiles, in milliseconds.
    pub(super) fn millis(self, share: f64) -> f64 {
        median(self.0.iter().map(|round| millis(round.quantile(share))).collect())
    }
}

/// The middle one; of an even number the upper.
pub(super) fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or(f64::NAN)
}

pub(super) fn millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 100_000.0).round() / 100.0
}
