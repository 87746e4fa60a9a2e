//! What is about to happen, and lines to copy.

use std::{convert::Infallible, env, time::Duration};

use console::style;
use tokio::time::sleep;

use super::{DemoArgs, output::say, process::Handle, stage::Stage};

const KEY: &str = "0198c2f4-9a1e-7c55-9d0b-3f6a52e1b7aa";

/// Says what runs where, what comes, and how to try it meanwhile.
pub(super) fn announce(stage: &Stage, args: &DemoArgs, seed: u64) {
    let (service, gateway) = (stage.service.handle(), stage.gateway.handle());
    let DemoArgs { intents, concurrency, .. } = args;
    say("");
    line("payment service", &url(&service), "own ledger; slow, flaky, crashes");
    line("gateway", &url(&gateway), "SQLite; on_unknown = \"resend\"");
    line(
        "storm",
        &format!("{intents} payments"),
        &format!("{concurrency} at a time, --seed {seed}"),
    );
    try_it(&service, &gateway);
    about("Crash the service: it is started again.");
    say(format_args!("  curl -X POST {}/crash", url(&service)));
    say("\n  Effects come first: an intent is told when all of its clients know its end.\n");
}

/// Says how to try it by hand and how to end it, and then what is started again, until this is
/// dropped.
pub(super) async fn invite(stage: &Stage) -> Infallible {
    let (service, gateway) = (stage.service.handle(), stage.gateway.handle());
    say("\n  The service behaves well from now on, unless you crash it.");
    try_it(&service, &gateway);
    about("Crash the service, or kill the gateway: they are started again.");
    say(format_args!("  curl -X POST {}/crash", url(&service)));
    say(format_args!("  kill -KILL {}", gateway.pid()));
    about("What the gateway knows, and what it counts.");
    say(format_args!("  {} records list --store {}", program(), stage.store()));
    say(format_args!("  curl http://{}/metrics", gateway.operator()));
    say(format_args!("\n  {}", style("Ctrl-C ends all of it.").bold()));
    let watched = [("payment service", service), ("gateway", gateway)];
    let mut known = watched.each_ref().map(|(_, process)| process.pid());
    loop {
        sleep(Duration::from_millis(100)).await;
        for ((name, process), known) in watched.iter().zip(&mut known) {
            let pid = process.pid();
            if pid != std::mem::replace(known, pid) {
                say(format_args!("  The {name} was started again, as process {pid}."));
            }
        }
    }
}

fn line(name: &str, what: &str, note: &str) {
    say(format_args!("  {name:<18} {:<24} {}", style(what).bold(), style(note).dim()));
}

fn about(what: &str) {
    say(format_args!("\n  {}", style(format!("# {what}")).dim()));
}

/// This program as it was called, so that the line works where it was.
fn program() -> String {
    env::args_os().next().unwrap_or_else(|| "hapax".into()).to_string_lossy().into_owned()
}

fn url(process: &Handle) -> String {
    format!("http://{}", process.address())
}

fn try_it(service: &Handle, gateway: &Handle) {
    let pay = |amount| {
        say(format_args!("  curl -i {}/payments \\", url(gateway)));
        say(format_args!("    -H 'Idempotency-Key: \"{KEY}\"' \\"));
        say("    -H 'Content-Type: application/json' \\");
        say(format_args!(
            "    -d '{{\"amount\": {amount}, \"currency\": \"EUR\", \"to\": \"you\"}}'"
        ));
    };
    about("Pay. Twice: the second answer is a replay, and the ledger has one payment.");
    pay(1200);
    about("The same key for another amount: 422.");
    pay(9900);
    about("What took effect.");
    say(format_args!("  curl '{}/payments?to=you'", url(service)));
}
