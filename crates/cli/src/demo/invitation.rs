//! What is about to happen, and lines to copy.

use console::style;

use super::{DemoArgs, output::say, stage::Stage};

const KEY: &str = "0198c2f4-9a1e-7c55-9d0b-3f6a52e1b7aa";

/// Says what runs where, and what comes.
pub(super) fn announce(stage: &Stage, args: &DemoArgs, seed: u64) {
    let DemoArgs { intents, concurrency, .. } = args;
    say("");
    let (service, gateway) = (stage.service.handle().address(), stage.gateway.handle().address());
    line("payment service", &format!("http://{service}"), "own ledger; slow, flaky, crashes");
    line("gateway", &format!("http://{gateway}"), "SQLite; on_unknown = \"resend\"");
    line(
        "storm",
        &format!("{intents} payments"),
        &format!("{concurrency} at a time, --seed {seed}"),
    );
    try_it(stage);
}

/// Says how to try it by hand, and how to end it.
pub(super) fn invite(stage: &Stage) {
    say("");
    say("  The service behaves well from now on, unless you crash it.");
    try_it(stage);
    say(format_args!("  {}", style("Ctrl-C ends all of it.").bold()));
}

fn line(name: &str, what: &str, note: &str) {
    say(format_args!("  {name:<18} {:<24} {}", style(what).bold(), style(note).dim()));
}

fn try_it(stage: &Stage) {
    let (service, gateway) = (stage.service.handle(), stage.gateway.handle());
    let about = |what| say(format_args!("\n  {}", style(format!("# {what}")).dim()));
    let pay = |amount| {
        say(format_args!("  curl -i http://{}/payments \\", gateway.address()));
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
    say(format_args!("  curl 'http://{}/payments?to=you'", service.address()));
    about("Crash the service, or kill the gateway: they are started again.");
    say(format_args!("  curl -X POST http://{}/crash", service.address()));
    say(format_args!("  kill -KILL {}", gateway.pid()));
    say("");
}
