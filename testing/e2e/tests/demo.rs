//! `hapax demo` as a visitor runs it, with fewer intents and a fixed seed.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests: what they did not expect fails them, with a message"
)]

use std::{
    env, fs,
    io::{BufRead, BufReader},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use hapax_testkit::{Ran, eventually, hapax};
use serde_json::Value;

#[test]
fn the_demos_table_shows_one_effect_for_each_intent() {
    let (ran, report) = demo(&["--seed=7", "--intents=40", "--concurrency=20"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("  OK  No intent took effect twice"), "{}", ran.stdout);
    assert_eq!(report["verdict"], "OK");
    assert_eq!(report["findings"], Value::Array(Vec::new()));

    assert_eq!(number(&report, "intents"), 40);
    assert_eq!(number(&report, "effects_in_the_ledger"), 40);
    assert_eq!(number(&report, "uncertain_at_the_end"), 0);
    assert_eq!(number(&report, "conflicts_refused"), 6, "as planned by the seed");
    assert_eq!(number(&report, "service_crashes"), 3);
    assert_eq!(number(&report, "gateway_kills"), 1);
    // It was a storm: lost answers led to second arrivals, and duplicates did not.
    let arrivals = number(&report, "arrivals_at_the_service");
    assert!(arrivals > 40, "{report:#}");
    assert!(number(&report, "attempts_sent") > arrivals, "{report:#}");
    assert!(number(&report, "replays") > 40, "{report:#}");
    // What it would have been without hapax: more than what arrived, less than what was sent,
    // because half requests, changed amounts and those told to come back do not count.
    let without = number(&report, "without_hapax");
    assert!(without > arrivals, "{report:#}");
    let others = number(&report, "conflicts_refused") + number(&report, "in_flight_answered");
    assert!(without + others <= number(&report, "attempts_sent"), "{report:#}");
    assert_eq!(number(&report, "never_started"), 0);
    assert!(ran.stdout.contains("With --keep"), "{}", ran.stdout);
    let too_long = ran.stdout.lines().find(|line| line.chars().count() > 80);
    assert_eq!(too_long, None);
    assert!(number(&report, "unknown_answered") > 0, "{report:#}");

    for (name, value) in report.as_object().unwrap() {
        if let Some(value) = value.as_u64().filter(|_| !is_no_row(name)) {
            let row = format!("  {:<24} {value:>7}   ", name.replace('_', " "));
            assert!(ran.stdout.contains(&row), "{row:?} is not in the table\n{}", ran.stdout);
        }
    }
}

#[test]
fn the_verdict_fails_when_an_intent_took_effect_twice() {
    let (ran, report) = demo(&["--seed=7", "--intents=24", "--concurrency=12", "--careless"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stdout.contains("  FAILED  "), "{}", ran.stdout);
    assert!(ran.stdout.contains(": took effect 2 times"), "{}", ran.stdout);
    assert_eq!(report["verdict"], "FAILED");
    assert!(number(&report, "effects_in_the_ledger") > 24, "{report:#}");
}

#[test]
fn a_storm_that_runs_out_of_time_says_what_is_open() {
    let (ran, report) = demo(&["--seed=7", "--intents=500", "--concurrency=8", "--duration=2s"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let (open, never) = (number(&report, "uncertain_at_the_end"), number(&report, "never_started"));
    assert!((1..=8).contains(&open) && (1..500).contains(&never), "{report:#}");
    assert_eq!(report["verdict"], "INCOMPLETE");
    let line = format!(
        "  INCOMPLETE  Time was up: {never} intents never started, {open} without a final answer."
    );
    assert!(ran.stdout.lines().any(|said| said == line), "{line}\n{}", ran.stdout);
    assert!(!ran.stdout.contains("  OK  "), "{}", ran.stdout);
    assert!(report["seconds"].as_f64().unwrap() < 10.0, "{report:#}");
}

#[test]
fn an_interrupted_demo_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let mut demo = Started::start(folder.path(), &["--seed=7"]);
    let service = demo.line("  payment service    http://");
    let gateway = demo.line("  gateway            http://");
    demo.line("   ");
    assert!(TcpStream::connect(&service).is_ok() && TcpStream::connect(&gateway).is_ok());
    demo.signal("INT");
    assert_eq!(demo.ended(), Some(130));
    assert!(TcpStream::connect(&service).is_err(), "the service is still there");
    assert!(TcpStream::connect(&gateway).is_err(), "the gateway is still there");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "files are left");
}

#[test]
fn a_kept_demo_goes_on_until_it_is_told_to_end() {
    let folder = tempfile::tempdir().unwrap();
    let mut demo = Started::start(folder.path(), &["--seed=7", "--intents=1", "--keep"]);
    let gateway = demo.line("  gateway            http://");
    let store = demo.line(&format!("  {} records list --store ", binary().display()));
    let metrics = demo.line("  curl http://");
    demo.line("  Ctrl-C ends all of it.");
    assert!(TcpStream::connect(&gateway).is_ok());
    assert!(TcpStream::connect(metrics.strip_suffix("/metrics").unwrap()).is_ok());
    let listed = hapax(["records", "list", "--store", &store]);
    assert!(listed.code == Some(0) && listed.stdout.contains("succeeded"), "{listed:?}");
    demo.signal("TERM");
    assert_eq!(demo.ended(), Some(0));
    assert!(TcpStream::connect(&gateway).is_err(), "the gateway is still there");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "files are left");
}

/// Runs a demo to its end; its output, and its table as JSON.
fn demo(arguments: &[&str]) -> (Ran, Value) {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.json");
    let report_to = format!("--report={}", report.display());
    let ran = hapax(["demo", &report_to].into_iter().chain(arguments.iter().copied()));
    let report = fs::read(report).unwrap_or_else(|error| panic!("no report: {error}: {ran:?}"));
    (ran, serde_json::from_slice(&report).unwrap())
}

#[track_caller]
fn number(report: &Value, name: &str) -> u64 {
    report[name].as_u64().unwrap_or_else(|| panic!("no number {name} in {report:#}"))
}

/// Numbers of the report that are not in the table.
fn is_no_row(name: &str) -> bool {
    matches!(name, "seed" | "never_started" | "gateway_failures")
}

/// A demo under way, with a folder of its own for what it leaves behind.
struct Started {
    child: Child,
    lines: Box<dyn Iterator<Item = String>>,
}

impl Started {
    fn start(folder: &Path, arguments: &[&str]) -> Self {
        let mut child = Command::new(binary())
            .arg("demo")
            .args(arguments)
            .env("TMPDIR", folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines: Box::new(stdout.lines().map_while(Result::ok)) }
    }

    /// The word after this beginning of a line.
    #[track_caller]
    fn line(&mut self, beginning: &str) -> String {
        let rest = self.lines.find_map(|line| line.strip_prefix(beginning).map(str::to_owned));
        let rest = rest.unwrap_or_else(|| panic!("it ended without a line {beginning:?}"));
        rest.split(' ').next().unwrap_or_default().to_owned()
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args([format!("-{name}"), id]).status().unwrap();
        assert!(sent.success());
    }

    /// Its exit code.
    fn ended(&mut self) -> Option<i32> {
        eventually("the demo ends", Duration::from_secs(10), || {
            self.child.try_wait().unwrap().is_some()
        });
        self.child.wait().unwrap().code()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // It fails only when the demo has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The binary under test, where the harness finds it too.
fn binary() -> PathBuf {
    let beside = || {
        let this = env::current_exe().unwrap();
        this.ancestors().nth(2).unwrap().join("hapax")
    };
    env::var_os("HAPAX_BIN").map_or_else(beside, PathBuf::from)
}
