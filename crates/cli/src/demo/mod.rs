//! `hapax demo`: a payment service, the gateway in front of it, and a storm.

mod chaos;
mod client;
mod counts;
mod interrupts;
mod invitation;
mod order;
mod output;
mod plan;
mod process;
mod progress;
mod report;
mod service;
mod stage;
mod storm;
mod verdict;

use std::{net::SocketAddr, path::PathBuf, process::ExitCode, sync::Arc, time::Duration};

use clap::{Args, value_parser};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use self::{
    chaos::chaos,
    counts::Counts,
    interrupts::Interrupts,
    invitation::{announce, invite},
    output::say,
    plan::{PAYEES, plan},
    progress::View,
    report::{Facts, Report},
    stage::Stage,
    storm::{History, Storm},
};
use crate::failure::Failure;

/// Shows it at work, with a payment service that is slow, fails, cuts connections and crashes.
///
/// The gateway stands in front of it, and a storm of duplicated, cut and retried requests comes
/// over both. The verdict is judged from the service's own ledger: the exit code is 1 if an intent
/// took effect twice, if a client was told a success that is not in the ledger, or if two clients
/// were told different successes for one intent.
#[derive(Args, Debug)]
pub(crate) struct DemoArgs {
    /// How many payments clients want to make.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = value_parser!(u32).range(1..=100_000))]
    intents: u32,
    /// How many of them are under way at the same time.
    #[arg(long, value_name = "N", default_value_t = 12, value_parser = value_parser!(u16).range(1..=1_000))]
    concurrency: u16,
    /// Repeat the plan of another storm [default: random].
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// When the storm ends at the latest.
    #[arg(long, value_name = "DURATION", default_value = "90s", value_parser = humantime::parse_duration)]
    duration: Duration,
    /// Leave service and gateway running after the storm, for you to try.
    #[arg(long)]
    keep: bool,
    /// Write the table as JSON too.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Let the service ignore the effect id, so that the verdict has something to find.
    #[arg(long, hide = true)]
    careless: bool,
    /// Be the payment service, and listen here.
    #[arg(long, hide = true, value_name = "ADDRESS", requires = "ledger")]
    service: Option<SocketAddr>,
    /// The ledger of the payment service.
    #[arg(long, hide = true, value_name = "FILE")]
    ledger: Option<PathBuf>,
}

/// Runs the demo, or the service that it runs as a process of its own.
pub(crate) async fn run(args: DemoArgs) -> Result<ExitCode, Failure> {
    if let (Some(listen), Some(ledger)) = (args.service, &args.ledger) {
        let (ledger, faults, careless) = (ledger.clone(), args.seed, args.careless);
        return service::run(service::Options { listen, ledger, faults, careless }).await;
    }
    let mut interrupts = Interrupts::listen()?;
    let seed = args.seed.unwrap_or_else(|| fastrand::u64(0..1_000_000));
    let mut stage = tokio::select! {
        stage = Stage::set(seed, args.careless) => stage?,
        code = interrupts.next() => return Ok(code),
    };
    let ended = play(&args, seed, &mut stage, &mut interrupts).await;
    stage.clear().await;
    ended
}

/// From the first word to the last; whoever calls clears the stage.
async fn play(
    args: &DemoArgs,
    seed: u64,
    stage: &mut Stage,
    interrupts: &mut Interrupts,
) -> Result<ExitCode, Failure> {
    announce(stage, args, seed);
    let report = tokio::select! {
        report = perform(args, seed, stage) => report?,
        code = interrupts.next() => {
            say("\n  Interrupted: there is no verdict.");
            return Ok(code);
        }
    };
    report.print();
    if let Some(path) = &args.report {
        report.write(path)?;
    }
    if !args.keep {
        say("  With --keep the service and the gateway stay, for you to try.");
    } else {
        stage.calm().await?;
        tokio::select! {
            failure = stage.broken() => return Err(failure),
            never = invite(stage) => match never {},
            _ = interrupts.next() => {}
        }
    }
    Ok(if report.passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The storm, and what it came to.
async fn perform(args: &DemoArgs, seed: u64, stage: &mut Stage) -> Result<Report, Failure> {
    let (begun, intents) = (Instant::now(), u64::from(args.intents));
    let (service, gateway) = (stage.service.handle(), stage.gateway.handle());
    let (ledger, counts) = (stage.ledger()?, Arc::new(Counts::default()));
    let (view, time_up) = (View::new(intents), CancellationToken::new());
    let storm =
        Storm { gateway: gateway.address(), counts: Arc::clone(&counts), time_up: time_up.clone() };
    let meanwhile = async {
        tokio::join!(
            view.follow(&counts, &ledger, &service, &gateway),
            chaos(intents, &counts, &service, &gateway, &view),
            async {
                sleep(args.duration).await;
                time_up.cancel();
            },
        )
    };
    let histories: Vec<History> = tokio::select! {
        histories = storm.run(plan(seed, args.intents), args.concurrency.into()) => {
            histories.map_err(|error| Failure::new(1, error))?
        }
        failure = stage.broken() => return Err(failure),
        never = meanwhile => match never.0 {},
    };
    view.clear();
    Ok(Report::new(&Facts {
        seed,
        took: begun.elapsed(),
        histories: &histories,
        counts: &counts,
        ledger: &ledger.payments(PAYEES).await?,
        arrivals: ledger.rows(PAYEES).await?.arrivals,
        service_crashes: service.exits(),
        gateway_kills: gateway.kills(),
        gateway_failures: gateway.exits().saturating_sub(gateway.kills()),
    }))
}
