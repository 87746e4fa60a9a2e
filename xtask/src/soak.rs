//! `cargo xtask soak`: the same promises at larger counts. What ran is written to `docs/proof`.

use std::{fs, num::NonZeroU32, process::Command};

use clap::Args;
use serde_json::{Value, json};

use crate::{
    proof,
    run::{Context, Failure, Outcome, cargo, release, run},
    test::{build, tests},
};

/// Run the model with its larger bounds, the demo's storm at large counts and the races many times;
/// write docs/proof/*.json.
///
/// A file says what ran, with which seed and counts, and what came of it, failures included.
#[derive(Args)]
pub(crate) struct Soak {
    /// How often each race runs.
    #[arg(long, default_value = "50")]
    rounds: NonZeroU32,
    /// Intents of each storm.
    #[arg(long, default_value = "2000")]
    intents: NonZeroU32,
    /// How many storms, each with the next seed.
    #[arg(long, default_value = "3")]
    storms: NonZeroU32,
    /// The seed of the first storm.
    #[arg(long, default_value = "1")]
    seed: u64,
    /// Only the model of the protocol, with its larger bounds.
    #[arg(long)]
    model: bool,
}

/// Tests that are worth more the more often they run.
struct Race {
    name: &'static str,
    package: &'static str,
    test: &'static str,
    filter: Option<&'static str>,
}

const RACES: [Race; 3] = [
    Race {
        name: "copies-through-two-gateways",
        package: "hapax-e2e",
        test: "promises",
        filter: Some("copies::t01"),
    },
    Race {
        name: "conformance-sqlite",
        package: "hapax-sql",
        test: "sqlite_conformance",
        filter: None,
    },
    Race {
        name: "conformance-memory",
        package: "hapax-store",
        test: "memory_conformance",
        filter: None,
    },
];

impl Soak {
    pub(crate) fn run(self) -> Outcome {
        let model = model()?;
        let mut failed = Vec::new();
        if !write("model", model)? {
            failed.push("model");
        }
        if !self.model {
            failed.extend(self.runs()?);
        }
        if failed.is_empty() {
            return Ok(());
        }
        Err(Failure::new(format!("failed: {}", failed.join(", "))))
    }

    /// The storms and the races; tells which failed.
    fn runs(&self) -> Outcome<Vec<&'static str>> {
        run(cargo().args(["build", "--release", "--locked", "-p", "hapax-cli"]))?;
        build()?;
        let mut failed = Vec::new();
        let storms = self.storms()?;
        if !write("demo-storm", storms)? {
            failed.push("demo-storm");
        }
        for race in &RACES {
            let raced = self.race(race);
            if !write(race.name, raced)? {
                failed.push(race.name);
            }
        }
        Ok(failed)
    }

    fn storms(&self) -> Outcome<Value> {
        let folder = tempfile::tempdir().context("folder for reports")?;
        let mut storms = Vec::new();
        for nth in 0..self.storms.get() {
            let seed = self.seed.wrapping_add(u64::from(nth));
            let report = folder.path().join(format!("{seed}.json"));
            let mut demo = Command::new(release("hapax")?);
            demo.arg("demo").args([
                format!("--intents={}", self.intents),
                format!("--seed={seed}"),
                "--concurrency=64".to_owned(),
                "--duration=30m".to_owned(),
                format!("--report={}", report.display()),
            ]);
            let outcome = outcome_of(run(&mut demo));
            let report = fs::read(&report).ok().and_then(|text| serde_json::from_slice(&text).ok());
            storms.push(json!({
                "seed": seed,
                "outcome": outcome,
                "report": report.unwrap_or(Value::Null),
            }));
        }
        Ok(json!({
            "what": format!("hapax demo --intents {} --concurrency 64", self.intents),
            "outcome": all_ok(&storms),
            "runs": storms,
        }))
    }

    /// Every round is a run of its own, in new processes; the first that fails is the last.
    fn race(&self, race: &Race) -> Value {
        let (mut passed, mut outcome) = (0, Ok(()));
        while passed < self.rounds.get() && outcome.is_ok() {
            eprintln!("==> {}: round {} of {}", race.name, passed + 1, self.rounds);
            let mut command = tests();
            command.args(["-p", race.package, "--test", race.test]).args(race.filter);
            outcome = run(&mut command);
            passed += u32::from(outcome.is_ok());
        }
        let what = [race.package, race.test, race.filter.unwrap_or("all")].join(" ");
        json!({
            "what": what,
            "rounds": self.rounds,
            "rounds_passed": passed,
            "outcome": outcome_of(outcome),
        })
    }
}

/// Every order of events in the larger configurations, and every mutation.
fn model() -> Outcome<Value> {
    run(cargo().args(["build", "--release", "--locked", "-p", "hapax-model"]))?;
    let folder = tempfile::tempdir().context("folder for the result")?;
    let result = folder.path().join("model.json");
    let mut model = Command::new(release("hapax-model")?);
    model.args(["--larger", "--json"]).arg(&result);
    let outcome = outcome_of(run(&mut model));
    let result =
        fs::read(&result).ok().and_then(|text| serde_json::from_slice::<Value>(&text).ok());
    Ok(json!({
        "what": "hapax-model --larger",
        "outcome": outcome,
        "result": result.unwrap_or(Value::Null),
    }))
}

/// Writes a proof, and tells whether it is one.
fn write(name: &str, result: Value) -> Outcome<bool> {
    let passed = result["outcome"] == "ok";
    proof::write(&format!("docs/proof/{name}.json"), result)?;
    Ok(passed)
}

fn all_ok(runs: &[Value]) -> &'static str {
    if runs.iter().all(|run| run["outcome"] == "ok") { "ok" } else { "failed" }
}

fn outcome_of(run: Outcome) -> String {
    run.map_or_else(|failure| failure.to_string(), |()| "ok".to_owned())
}
