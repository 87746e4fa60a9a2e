//! `hapax records show`.

use std::{fmt::Write as _, process::ExitCode};

use clap::Args;
use hapax_core::{PinnedPolicy, State, Step};
use hapax_store::{HistoryEntry, Inspect, Listed, Steps};
use serde_json::json;

use super::{
    Reading, Source,
    text::{moment, outcome, print, record_json, state_text},
    which::Which,
};
use crate::failure::Failure;

pub(super) const HELP: &str = "\
Example:
  hapax records show --key 0198c2f4-9a1e-7c55-9d0b-3f6a52e1b7aa \\
      --operation payments.create --scope acme

Words:
  claimed          (state) the key is taken, nothing has been sent to the service
  executing        (state) one attempt has been let through and may be producing the effect
  overdue          its lease is over: whoever ran it is presumed dead
  released         (state) nothing happened; the same key executes again
  succeeded        (state) the effect exists, retries get the stored answer
  failed_terminal  (state) the service refused for good, retries get that answer
  uncertain        (state) the effect may exist: the answer was lost, late or inconclusive
  tombstone        (state) the answer is no longer replayed, the key is still refused
  attempt          a number that rises with every attempt at this intent
  clean            yes if all earlier attempts are proven to have had no effect
  claimed          (time) when the key was first taken
  admitted         (time) when an attempt that may have had an effect was first let through
  service          where the effect of the record happens, as it was when it was admitted
  on unknown       what that operation said then of outcomes that nobody knows
  observed         of an uncertain record: the service's answer, which did not settle the outcome";

#[derive(Args, Debug)]
pub(crate) struct Show {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    which: Which,
}

/// Runs the command.
pub(super) async fn run(show: Show) -> Result<ExitCode, Failure> {
    let reading = Reading::open(&show.source).await?;
    let Some(listed) = show.which.find(&reading).await? else {
        return Err(Failure::start("say which: a record, --key or --effect-id"));
    };
    reading.note_missing_effect_ids();
    let observed_status = reading.observed_status(&listed).await?;
    let history = reading.store.history(listed.record.claim).await?;
    let steps = reading.store.steps(listed.record.claim).await?;
    let pinned = reading.pinned_policy(&listed).await?;
    let shown = Shown { listed: &listed, pinned, observed_status, steps, history };
    print(&show_text(&reading, &shown))
}

/// A record with all that is known of it.
struct Shown<'a> {
    listed: &'a Listed,
    /// What it was admitted under.
    pinned: Option<PinnedPolicy>,
    observed_status: Option<u16>,
    steps: Vec<Step>,
    history: Vec<HistoryEntry>,
}

fn show_text(reading: &Reading, shown: &Shown<'_>) -> String {
    let Shown { listed, pinned, observed_status, steps, history } = shown;
    let mut text = String::new();
    if reading.json {
        let mut shown = record_json(reading, listed, *observed_status);
        shown["service"] = pinned.as_ref().map(|pinned| pinned.target.as_str()).into();
        shown["on_unknown"] = pinned.as_ref().map(|pinned| pinned.on_unknown.to_string()).into();
        shown["steps"] = steps
            .iter()
            .map(|step| {
                json!({
                    "begun": moment(step.begun),
                    "attempt": step.attempt.to_wire(),
                    "name": step.name.as_str(),
                    "effect_id": reading
                        .effect_id_of(listed, step.name.as_str())
                        .map(|id| id.to_string()),
                    "state": step_word(step),
                })
            })
            .collect();
        shown["history"] = history
            .iter()
            .map(|entry| {
                json!({
                    "at": moment(entry.at),
                    "attempt": entry.attempt.to_wire(),
                    "what": entry.what,
                    "actor": entry.statement.as_ref().map(|said| &said.actor),
                    "reason": entry.statement.as_ref().map(|said| &said.reason),
                })
            })
            .collect();
        let _ = writeln!(text, "{shown}");
        return text;
    }
    let record = &listed.record;
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "{name:<20} {value}");
    };
    line("record", record.id.to_string());
    if steps.is_empty() {
        line("effect id", effect_id_text(reading, listed));
    } else {
        line("effect id", "one for each step, see below".to_owned());
    }
    line("operation", listed.operation.as_ref().map_or("?".to_owned(), ToString::to_string));
    if let Some(pinned) = pinned {
        line("service", plain(&pinned.target));
        line("on unknown", pinned.on_unknown.to_string());
    }
    line("state", state_text(reading, listed));
    line("attempt", record.attempt.to_string());
    let clean = if record.clean {
        "yes: no earlier attempt had an effect"
    } else {
        "no: an earlier attempt may have had an effect"
    };
    line("clean", clean.to_owned());
    line("claimed", moment(record.created));
    line("admitted", record.first_admitted.map_or("-".to_owned(), moment));
    line("lease until", record.lease_end.map_or("locked, no lease".to_owned(), moment));
    if let Some(ending) = &record.ending {
        line("ended", moment(ending.at));
        line("status", ending.status.map_or("-".to_owned(), |status| status.to_string()));
        line("remembered until", moment(ending.until.tombstone));
    }
    let size = listed.body_bytes.map(|bytes| format!("{bytes} bytes"));
    if let Some(outcome) = outcome(record) {
        if outcome.kept {
            line("replayed until", moment(outcome.until.outcome));
        }
        line("response", size.unwrap_or_else(|| "not kept".to_owned()));
    } else if listed.state == State::Uncertain {
        let none = || "none: no whole answer arrived".to_owned();
        line("observed status", observed_status.map_or_else(none, |status| status.to_string()));
        line("observed response", size.unwrap_or_else(|| "none".to_owned()));
    }
    for step in steps {
        let (begun, attempt) = (moment(step.begun), step.attempt);
        let id = reading.effect_id_of(listed, step.name.as_str());
        let id = id.map_or("?".to_owned(), |id| id.to_string());
        let (name, word) = (&step.name, step_word(step));
        line("step", format!("{begun}  attempt {attempt}  {name}  effect id {id}  {word}"));
    }
    for entry in history {
        let mut what = format!("{}  attempt {}  {}", moment(entry.at), entry.attempt, entry.what);
        if let Some(said) = &entry.statement {
            let _ = write!(what, "  by {}: {}", plain(&said.actor), plain(&said.reason));
        }
        line("history", what);
    }
    text
}

/// What is known of a step; its data is the application's and is not shown.
const fn step_word(step: &Step) -> &'static str {
    match step.done {
        Some(_) => "done",
        None => "begun, may have happened",
    }
}

fn effect_id_text(reading: &Reading, listed: &Listed) -> String {
    match (reading.effect_id(listed), &reading.secret) {
        (Some(id), _) => id.to_string(),
        (None, Err(no_secret)) => no_secret.placeholder().to_owned(),
        (None, Ok(_)) => "? (made with another secret than the one at hand)".to_owned(),
    }
}

/// A text of somebody else's on one line: no control character reaches the terminal.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
