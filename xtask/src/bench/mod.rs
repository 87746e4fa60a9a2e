//! `cargo xtask bench`: what the gateway costs, or the layer, measured side by side in one run.

mod gateway;
mod keys;
mod layer;
mod load;
mod report;
mod upstream;

use std::{
    net::SocketAddr,
    num::{NonZeroU32, NonZeroUsize},
    process::Command,
};

use clap::Args;

use self::{
    gateway::Gateway,
    keys::fresh_keys,
    load::{Expected, Load},
    report::Report,
    upstream::Upstream,
};
use crate::run::{Context, Outcome, build_release, release, run};

/// Measure the release gateway on loopback and write bench/results.json; or the layer.
///
/// Load generator, gateway and upstream share this machine. Compared are, in every round: the
/// upstream alone, requests without a key through the gateway, first executions with a key, and
/// their replays. Ratios are what counts; rates depend on the machine. Peers and nginx are not
/// measured yet.
#[derive(Args)]
pub(crate) struct Bench {
    /// Requests of each kind in each round.
    #[arg(long, default_value = "20000")]
    requests: NonZeroUsize,
    /// Connections that send at the same time.
    #[arg(long, default_value = "64")]
    connections: NonZeroUsize,
    /// Rounds; the median counts.
    #[arg(long, default_value = "3")]
    rounds: NonZeroU32,
    /// Measure the library's layer instead, in one process and on the store in memory, and write
    /// bench/layer.json: calls with the layer beside calls without, and instructions by valgrind.
    #[arg(long, conflicts_with = "connections")]
    layer: bool,
    /// Measure only: this is the optimized build already.
    #[arg(long, hide = true)]
    measure: bool,
}

impl Bench {
    pub(crate) fn run(self) -> Outcome {
        if self.layer {
            layer::measure(self.requests, self.rounds)
        } else if self.measure {
            self.measure()
        } else {
            self.build_and_measure()
        }
    }

    /// The load generator must be optimized too, or it is what is measured.
    fn build_and_measure(&self) -> Outcome {
        build_release(&["-p", "xtask"])?;
        run(Command::new(release("xtask")?).args(["bench", "--measure"]).args([
            format!("--requests={}", self.requests),
            format!("--connections={}", self.connections),
            format!("--rounds={}", self.rounds),
        ]))
    }

    fn measure(&self) -> Outcome {
        let upstream = Upstream::start().context("upstream")?;
        let gateway = Gateway::start(&release("hapax")?, upstream.address())?;
        let mut report = Report::new(self.requests, self.connections);
        for round in 1..=self.rounds.get() {
            eprintln!("==> round {round} of {}", self.rounds);
            self.measure_round(upstream.address(), gateway.address(), &mut report)?;
        }
        report.print();
        report.write()
    }

    fn measure_round(
        &self,
        upstream: SocketAddr,
        gateway: SocketAddr,
        report: &mut Report,
    ) -> Outcome {
        let keys = fresh_keys(self.requests);
        let load = |target, keys, expected| {
            Load { target, connections: self.connections, keys, expected }.run()
        };
        let unkeyed = vec![None; self.requests.get()];
        report.upstream_alone.push(load(upstream, &unkeyed, Expected::Fresh)?);
        report.pass_through.push(load(gateway, &unkeyed, Expected::Fresh)?);
        report.first_execution.push(load(gateway, &keys, Expected::Fresh)?);
        report.replay.push(load(gateway, &keys, Expected::Replayed)?);
        Ok(())
    }
}
