//! `cargo xtask soak`: the same promises at larger counts. What ran is written to `docs/proof`.

use std::{fs, num::NonZeroU32, process::Command};

use clap::Args;
use serde_json::{Value, json};

use crate::{
    proof,
    run::{Context, Failure, Outcome, build_release, cargo, release, run},
    storm,
    test::{build, tests},
};

/// Run the model with its larger bounds, the demo's storm at large counts, the races many times, the
/// store with every call of many failing, gateways that are killed again and again, and services that
/// are down under many clients; write docs/proof/*.json.
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
    /// Kills in front of each kind of service.
    #[arg(long, default_value = "23")]
    kills: NonZeroU32,
    /// Only the proof of this name.
    #[arg(long, value_parser = PROOFS)]
    only: Option<String>,
}

const PROOFS: [&str; 8] = [
    "model",
    "demo-storm",
    "copies-through-two-gateways",
    "conformance-sqlite",
    "conformance-memory",
    "store-faults",
    "kill-loop",
    "retry-storm",
];

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
        build()?;
        let mut failed = Vec::new();
        if self.is_wanted("model") && !write("model", model()?)? {
            failed.push("model");
        }
        if self.is_wanted("demo-storm") && !write("demo-storm", self.storms()?)? {
            failed.push("demo-storm");
        }
        for race in RACES.iter().filter(|race| self.is_wanted(race.name)) {
            if !write(race.name, self.race(race))? {
                failed.push(race.name);
            }
        }
        if self.is_wanted("store-faults") && !write("store-faults", self.store_faults()?)? {
            failed.push("store-faults");
        }
        if self.is_wanted("kill-loop") && !write("kill-loop", self.kill_loop()?)? {
            failed.push("kill-loop");
        }
        if self.is_wanted("retry-storm") && !write("retry-storm", storm::prove()?)? {
            failed.push("retry-storm");
        }
        if failed.is_empty() {
            return Ok(());
        }
        Err(Failure::new(format!("failed: {}", failed.join(", "))))
    }

    fn is_wanted(&self, proof: &str) -> bool {
        self.only.as_deref().is_none_or(|only| only == proof)
    }

    /// Each kind of service is a test, which leaves a report.
    fn kill_loop(&self) -> Outcome<Value> {
        let folder = tempfile::tempdir().context("folder for reports")?;
        let mut tests = tests();
        tests.args(["-p", "hapax-e2e", "--test", "kills", "loops::"]);
        tests.env("HAPAX_KILLS", self.kills.to_string());
        tests.env("HAPAX_KILLS_SEED", self.seed.to_string());
        tests.env("HAPAX_KILLS_REPORTS", folder.path());
        let outcome = outcome_of(run(&mut tests));
        let mut reports = fs::read_dir(folder.path())
            .and_then(|files| {
                files.map(|file| fs::read(file?.path())).collect::<Result<Vec<_>, _>>()
            })
            .context("reports")?
            .iter()
            .map(|report| serde_json::from_slice::<Value>(report))
            .collect::<Result<Vec<_>, _>>()
            .context("reports")?;
        reports.sort_by_key(|report| report["downstream"].to_string());
        Ok(json!({
            "what": format!("hapax-e2e kills loops, {} kills in front of each", self.kills),
            "outcome": outcome,
            "runs": reports,
        }))
    }

    fn storms(&self) -> Outcome<Value> {
        build_release(&[])?;
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

    /// Every single call of the store on its files fails once: each round goes on with the next.
    fn store_faults(&self) -> Outcome<Value> {
        let folder = tempfile::tempdir().context("folder for reports")?;
        let report = folder.path().join("report");
        let (mut passed, mut outcome) = (0, Ok(()));
        while passed < self.rounds.get() && outcome.is_ok() {
            eprintln!("==> store-faults: round {} of {}", passed + 1, self.rounds);
            let mut command = tests();
            command.args(["-p", "hapax-e2e", "--test", "promises", "disk::nth"]);
            command.env("HAPAX_SOAK_ROUND", passed.to_string());
            outcome = run(command.env("HAPAX_SOAK_REPORT", &report));
            passed += u32::from(outcome.is_ok());
        }
        let lines = fs::read_to_string(&report).unwrap_or_default();
        let lines = lines.lines().filter_map(|line| serde_json::from_str(line).ok());
        Ok(json!({
            "what": "hapax-e2e promises disk::nth, with the next calls in each round",
            "rounds": self.rounds,
            "rounds_passed": passed,
            "faults": faults_of(lines),
            "outcome": outcome_of(outcome),
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

/// What became of the requests around the faults of each kind: those that were told to be stored,
/// that nothing was executed, and that the outcome is not known.
fn faults_of(lines: impl Iterator<Item = Value>) -> Value {
    let mut kinds = serde_json::Map::new();
    for line in lines {
        let what = line["what"].as_str().unwrap_or_default();
        let kind = kinds.entry(what).or_insert_with(
            || json!({"faults": 0, "highest": 0, "stored": 0, "refused": 0, "unknown": 0}),
        );
        let number = |of: &Value| of.as_u64().unwrap_or_default();
        kind["faults"] = json!(number(&kind["faults"]) + 1);
        kind["highest"] = json!(number(&kind["highest"]).max(number(&line["at"])));
        for told in ["stored", "refused", "unknown"] {
            kind[told] = json!(number(&kind[told]) + number(&line[told]));
        }
    }
    kinds.into()
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
