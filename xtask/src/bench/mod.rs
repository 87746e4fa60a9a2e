//! `cargo xtask bench`: what the gateway costs, the store, or the layer, measured side by side in one
//! run.

mod client;
mod disk;
mod footprint;
mod instructions;
mod keys;
mod layer;
mod load;
mod message;
mod peers;
pub(crate) mod plot;
mod process;
mod report;
mod rounds;
mod store;
mod upstream;

use std::{
    num::{NonZeroU32, NonZeroUsize},
    process::Command,
    time::Duration,
};

use clap::Args;

use self::{
    footprint::Footprint, peers::Peers, report::Report, rounds::Bench as Run, upstream::Upstream,
};
use crate::run::{Context, Outcome, build_release, release, run};

/// Measure the release gateway on loopback and write bench/results.json; or the layer, or the store.
///
/// Load generator, proxies and the service behind them share this machine. Compared are, in every
/// round and one after the other: the service alone, nginx as a plain proxy, and the gateway with
/// requests without a key, first executions with a key, and their replays. Ratios are what counts;
/// rates depend on the machine.
#[derive(Args)]
pub(crate) struct Bench {
    /// Connections that send at the same time: one series for each number.
    #[arg(long, value_delimiter = ',', default_values = ["1", "16", "64", "256"])]
    connections: Vec<NonZeroUsize>,
    /// Rounds; the median counts.
    #[arg(long, default_value = "5")]
    rounds: NonZeroU32,
    /// How long each measurement of a round lasts, in milliseconds.
    #[arg(long, default_value = "1000")]
    millis: NonZeroU32,
    /// Measure the library's layer instead, in one process and on the store in memory, and write
    /// bench/layer.json: calls with the layer beside calls without, and instructions by valgrind.
    #[arg(long, conflicts_with_all = ["connections", "millis"])]
    layer: bool,
    /// Measure the client instead, in front of a service in the same process, and write
    /// bench/client.json: calls through it beside calls without, and instructions by valgrind.
    #[arg(long, conflicts_with_all = ["connections", "layer", "store"])]
    client: bool,
    /// Pairs of calls of each kind in each round, with --layer and --client.
    #[arg(long, default_value = "20000")]
    pairs: NonZeroUsize,
    /// Measure the store instead, and write bench/store.json: pairs of claim and settlement by how
    /// many writes share a commit, on an empty store and with many records, and first executions
    /// through the gateway on both. It takes some minutes and some gigabytes.
    #[arg(long, conflicts_with_all = ["connections", "layer"])]
    store: bool,
    /// Install the peers that are missing, from npm, PyPI and crates.io into target/peers. Those that
    /// are installed are measured in every run.
    #[arg(long, conflicts_with_all = ["store", "layer"])]
    peers: bool,
    /// How many records there are, with --store.
    #[arg(long, default_value = "5000000", requires = "store")]
    records: NonZeroU32,
    /// Measure only: this is the optimized build already.
    #[arg(long, hide = true)]
    measure: bool,
}

impl Bench {
    pub(crate) fn run(self) -> Outcome {
        if self.client {
            client::measure(self.pairs)
        } else if self.layer {
            layer::measure(self.pairs, self.rounds)
        } else if self.measure {
            self.measure()
        } else {
            self.build_and_measure()
        }
    }

    fn measure(&self) -> Outcome {
        // Many connections, each with two ends here.
        rlimit::increase_nofile_limit(u64::MAX).context("file limit")?;
        let lasting = Duration::from_millis(self.millis.get().into());
        if self.store {
            let (records, rounds) = (self.records, self.rounds);
            return store::Settings { records, rounds, lasting }.measure();
        }
        self.measure_gateway(lasting)
    }

    /// The load generator must be optimized too, or it is what is measured.
    fn build_and_measure(&self) -> Outcome {
        let with_store = ["-p", "xtask", "-p", "hapax-bench-store"];
        build_release(if self.store { &with_store } else { &with_store[..2] })?;
        let mut measure = Command::new(release("xtask")?);
        measure.args(["bench", "--measure"]);
        measure.args([format!("--rounds={}", self.rounds), format!("--millis={}", self.millis)]);
        if self.store {
            measure.args(["--store".to_owned(), format!("--records={}", self.records)]);
        } else {
            measure.args(self.peers.then_some("--peers"));
            let connections = self.connections.iter().map(ToString::to_string);
            measure.arg(format!("--connections={}", connections.collect::<Vec<_>>().join(",")));
        }
        run(&mut measure)
    }

    fn measure_gateway(&self, lasting: Duration) -> Outcome {
        let upstream = Upstream::start().context("upstream")?;
        let mut report = Report::new(&self.connections, lasting);
        Run::start(upstream.address(), lasting)?.measure(self.rounds, &mut report)?;
        eprintln!("==> memory and start");
        report.footprint = Some(Footprint::measure(upstream.address())?);
        report.peers = Some(Peers::measure(upstream.address(), self.rounds, lasting, self.peers)?);
        report.print();
        report.write()
    }
}
