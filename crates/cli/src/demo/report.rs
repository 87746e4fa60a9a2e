//! What the storm came to: a table and a verdict for a person, the same as JSON for programs.

use std::{fs, path::Path, time::Duration};

use console::style;
use serde_json::{Map, Value, json};

use super::{
    counts::Counts,
    order::Payment,
    output::say,
    storm::History,
    verdict::{Finding, Wrong, judge},
};
use crate::failure::Failure;

/// How many findings are shown one by one.
const SHOWN: usize = 8;

/// What a report is made of.
pub(super) struct Facts<'s> {
    pub(super) seed: u64,
    pub(super) took: Duration,
    pub(super) histories: &'s [History],
    pub(super) counts: &'s Counts,
    /// The service's ledger, the truth.
    pub(super) ledger: &'s [Payment],
    pub(super) arrivals: u64,
    pub(super) service_crashes: u64,
    pub(super) gateway_kills: u64,
    /// How often the gateway ended although nobody killed it.
    pub(super) gateway_failures: u64,
}

/// The numbers of a storm and the verdict.
pub(super) struct Report {
    seed: u64,
    took: Duration,
    rows: [Row; 13],
    findings: Vec<Finding>,
    open: u64,
    never_started: u64,
    gateway_failures: u64,
}

struct Row {
    name: &'static str,
    value: u64,
    note: &'static str,
}

impl Report {
    pub(super) fn new(facts: &Facts<'_>) -> Self {
        let row = |name, value, note| Row { name, value, note };
        let counts = facts.counts;
        let number =
            |which: fn(&&History) -> bool| as_u64(facts.histories.iter().filter(which).count());
        let open = number(|history| history.is_open());
        let never_started = number(|history| !history.started);
        let rows = [
            row(
                "intents",
                as_u64(facts.histories.len()),
                "payments that clients wanted, once each",
            ),
            row("attempts sent", counts.sent.get(), "duplicates, retries and changed amounts"),
            row("without an answer", counts.unanswered.get(), "cut, timed out, refused while down"),
            row("arrivals at the service", facts.arrivals, "what the gateway let through"),
            row("effects in the ledger", as_u64(facts.ledger.len()), "what took effect: the truth"),
            row("replays", counts.replays.get(), "answered from the record"),
            row("conflicts refused", counts.conflicts.get(), "a known key, another amount: 422"),
            row("in flight answered", counts.in_flight.get(), "the first was still running: 409"),
            row("unknown answered", counts.unknown.get(), "nobody knew yet; the retry found out"),
            row("service crashes", facts.service_crashes, "its process ended, with requests open"),
            row("gateway kills", facts.gateway_kills, "SIGKILL, started again on its database"),
            row("uncertain at the end", open, "intents without a final answer"),
            row("without hapax", counts.asked.get(), "times the service would be asked to pay"),
        ];
        let findings = judge(facts.histories, facts.ledger);
        let (seed, took) = (facts.seed, facts.took);
        let gateway_failures = facts.gateway_failures;
        Self { seed, took, rows, findings, open, never_started, gateway_failures }
    }

    /// Whether nothing was found that must not be.
    pub(super) fn passed(&self) -> bool {
        self.findings.is_empty() && self.gateway_failures == 0
    }

    /// The table and the verdict, 80 columns at most.
    pub(super) fn print(&self) {
        say("");
        for row in &self.rows {
            let value = style(format!("{:>7}", row.value)).bold();
            say(format_args!("  {:<24} {value}   {}", row.name, style(row.note).dim()));
        }
        say("");
        for finding in self.findings.iter().take(SHOWN) {
            say(format_args!("  {}", style(finding).red()));
        }
        let more = self.findings.len().saturating_sub(SHOWN);
        if more > 0 {
            say(format_args!("  and {more} more"));
        }
        let word = match self.word() {
            word @ "OK" => style(word).green(),
            word @ "INCOMPLETE" => style(word).yellow(),
            word => style(word).red(),
        };
        if self.passed() && self.is_cut_short() {
            say(format_args!("  {}  {}", word.bold(), self.cut_short()));
            say(format_args!("  {}", self.verdict()));
        } else {
            say(format_args!("  {}  {}", word.bold(), self.verdict()));
            if self.is_cut_short() {
                say(format_args!("  {}", self.cut_short()));
            }
        }
        let seconds = self.took.as_secs_f64();
        let how =
            format!("Judged by the service's own ledger. {seconds:.1} s, --seed {}", self.seed);
        say(format_args!("  {}", style(how).dim()));
    }

    /// Writes the same as JSON.
    pub(super) fn write(&self, path: &Path) -> Result<(), Failure> {
        let numbers: Map<_, _> =
            self.rows.iter().map(|row| (row.name.replace(' ', "_"), row.value.into())).collect();
        let findings: Vec<_> = self.findings.iter().map(Finding::to_string).collect();
        let mut report = Value::Object(numbers);
        report["seed"] = self.seed.into();
        report["seconds"] = ((self.took.as_secs_f64() * 10.0).round() / 10.0).into();
        report["never_started"] = self.never_started.into();
        report["gateway_failures"] = self.gateway_failures.into();
        report["findings"] = json!(findings);
        report["verdict"] = self.word().into();
        fs::write(path, format!("{report:#}\n"))
            .map_err(|error| Failure::new(1, format!("{}: {error}", path.display())))
    }

    fn word(&self) -> &'static str {
        match (self.passed(), self.is_cut_short()) {
            (true, false) => "OK",
            (true, true) => "INCOMPLETE",
            (false, _) => "FAILED",
        }
    }

    /// Whether the time was up before everybody knew.
    fn is_cut_short(&self) -> bool {
        self.open + self.never_started > 0
    }

    fn cut_short(&self) -> String {
        let Self { open, never_started, .. } = self;
        format!(
            "Time was up: {never_started} intents never started, {open} without a final answer."
        )
    }

    fn verdict(&self) -> String {
        let twice = |finding: &&Finding| matches!(finding.wrong, Wrong::TookEffect(_));
        let twice = self.findings.iter().filter(twice).count();
        if self.gateway_failures > 0 {
            return format!("the gateway ended by itself, {} times", self.gateway_failures);
        }
        match (self.findings.len(), twice) {
            (0, _) => {
                "No intent took effect twice, and every success told is in the ledger.".to_owned()
            }
            (_, 0) => format!("{} findings", self.findings.len()),
            (_, 1) => "1 intent took effect more than once.".to_owned(),
            (_, _) => format!("{twice} intents took effect more than once."),
        }
    }
}

fn as_u64(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
