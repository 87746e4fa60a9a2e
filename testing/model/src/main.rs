//! `hapax-model`: sees every configuration to its end, and every mutation fail.

#![forbid(unsafe_code)]

use std::{fs, num::NonZeroUsize, path::PathBuf, process::ExitCode};

use clap::Parser;
use hapax_model::{BASES, Checked, LARGER, Model, SHOWN, Setup, check};
use serde_json::{Value, json};

/// Check the record protocol for one key in every order of events.
#[derive(Parser)]
struct Cli {
    /// Only configurations, and mutations, whose names contain this.
    name: Option<String>,
    /// The configurations of the long run instead of those of the tests.
    #[arg(long)]
    larger: bool,
    /// Print how each mutation breaks what it breaks.
    #[arg(long)]
    traces: bool,
    /// Threads of the checker.
    #[arg(long, default_value = "1")]
    threads: NonZeroUsize,
    /// Write what came of it here, as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            eprintln!("hapax-model: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// Whether everything is as it has to be.
fn run(cli: &Cli) -> Result<bool, String> {
    let wanted = |name: &str| cli.name.as_ref().is_none_or(|part| name.contains(part));
    let threads = cli.threads.get();
    let mut good = true;
    let mut configurations = Vec::new();
    let setups = if cli.larger { LARGER } else { BASES };
    for setup in setups.iter().filter(|setup| wanted(setup.name)) {
        let checked = check(&Model::new(*setup)?, threads);
        let kept = checked.broken.is_none();
        good &= kept;
        println!("{}: {}", setup.name, if kept { "kept" } else { "BROKEN" });
        println!("    {}", counts(&checked));
        if let Some(trace) = &checked.broken {
            println!("{trace}");
        }
        configurations.push(of_setup(setup, &checked));
    }
    let mut mutations = Vec::new();
    for shown in &SHOWN {
        let name = format!("{:?}", shown.mutation);
        if !wanted(&name) {
            continue;
        }
        let model = Model::mutated(shown.setup, shown.mutation, shown.breaks)?;
        let checked = check(&model, threads);
        let broken = checked.broken.is_some();
        good &= broken;
        let rule = shown.rule.unwrap_or("none");
        println!("{} (rule {rule}): {}", shown.words, if broken { "seen" } else { "NOT SEEN" });
        if let Some(trace) = checked.broken.iter().find(|_| cli.traces) {
            println!("{trace}");
        }
        mutations.push(json!({
            "rule": shown.rule,
            "dropped": shown.words,
            "breaks": shown.breaks.words(),
            "states": checked.states,
            "steps": checked.broken.map(|trace| trace.steps),
        }));
    }
    if let Some(path) = &cli.json {
        let outcome = if good { "ok" } else { "failed" };
        let result = json!({
            "outcome": outcome,
            "configurations": configurations,
            "mutations": mutations,
        });
        fs::write(path, result.to_string()).map_err(|error| format!("{path:?}: {error}"))?;
    }
    Ok(good)
}

fn of_setup(setup: &Setup, checked: &Checked) -> Value {
    json!({
        "name": setup.name,
        "bounds": format!("{:?}", setup.budget),
        "states": checked.states,
        "longest": checked.depth,
        "seconds": checked.seconds.round(),
        "reached": checked.reached,
        "broken": checked.broken.as_ref().map(|trace| trace.steps.clone()),
    })
}

fn counts(checked: &Checked) -> String {
    let Checked { states, depth, seconds, .. } = checked;
    format!("{states} states, at most {depth} steps, {seconds:.1} s")
}
