//! `hapax records list`.

use std::{fmt::Write as _, num::NonZeroUsize, process::ExitCode};

use clap::Args;
use hapax_core::{Observed, OperationName};
use hapax_store::{Inspect, ListFilter, Listed, Observations};
use serde_json::json;

use super::{
    Reading, Source, operations_text,
    text::{age, moment, note, outcome, parse_state, print, record_json, state_text},
};
use crate::failure::Failure;

pub(super) const HELP: &str = "\
Example:
  hapax records list --operation payments.create --state uncertain --limit 200

STATUS is that of the stored answer. In parentheses it is that of an answer which settled nothing.
`hapax records show --help` explains the words.";

/// How much of an id is printed and can be given back.
const SHORT_ID: usize = 16;

#[derive(Args, Debug)]
pub(crate) struct List {
    #[command(flatten)]
    source: Source,
    /// Only of this operation.
    #[arg(long)]
    operation: Option<String>,
    /// Only in this state.
    #[arg(long, value_parser = ["claimed", "executing", "released", "succeeded", "failed_terminal", "uncertain", "tombstone"])]
    state: Option<String>,
    /// What observe mode saw, instead of records.
    #[arg(long, conflicts_with_all = ["operation", "state", "before"])]
    observed: bool,
    /// At most so many.
    #[arg(long, value_name = "N", default_value = "50", value_parser = limit)]
    limit: NonZeroUsize,
    /// Only records claimed before this one: the last of the page before.
    #[arg(long, value_name = "RECORD")]
    before: Option<String>,
}

fn limit(text: &str) -> Result<NonZeroUsize, &'static str> {
    text.parse().map_err(|_| "write a whole number from 1 on, such as 200")
}

/// Rows up to a limit, and whether there are more.
struct Page<T> {
    rows: Vec<T>,
    more: bool,
}

impl<T> Page<T> {
    /// How many rows to ask for, to learn whether there are more.
    const fn probe(limit: NonZeroUsize) -> usize {
        limit.get().saturating_add(1)
    }

    fn of(mut rows: Vec<T>, limit: NonZeroUsize) -> Self {
        let more = rows.len() > limit.get();
        rows.truncate(limit.get());
        Self { rows, more }
    }
}

/// Runs the command.
pub(super) async fn run(list: List) -> Result<ExitCode, Failure> {
    let reading = Reading::open(&list.source).await?;
    let asked = Page::<()>::probe(list.limit);
    if list.observed {
        let page = Page::of(reading.store.observed(asked).await?, list.limit);
        return print_page(&reading, observed_text(&reading, &page.rows), &page, "");
    }
    if reading.foreign_secret() || reading.json {
        reading.note_missing_effect_ids();
    }
    let operation = list.operation.as_deref().map(OperationName::new).transpose();
    let before = match &list.before {
        Some(beginning) => Some(reading.beginning(beginning).await?.record.claim),
        None => None,
    };
    let filter = ListFilter {
        operation: operation.map_err(Failure::start)?,
        state: list.state.as_deref().and_then(parse_state),
        before,
        limit: asked,
        ..ListFilter::default()
    };
    let page = Page::of(reading.store.list(filter).await?, list.limit);
    let mut rows = Vec::with_capacity(page.rows.len());
    for listed in &page.rows {
        rows.push((listed, reading.observed_status(listed).await?));
    }
    let mut text = list_text(&reading, &rows);
    if rows.is_empty() && !reading.json {
        let _ = writeln!(text, "no record matches in the store {}", reading.path.display());
        if list.operation.is_some() {
            let _ = writeln!(text, "{}", operations_text(&reading.operations().await?));
        }
    }
    let last = page.rows.last().map_or_else(String::new, short_id);
    print_page(&reading, text, &page, &format!(" or --before {last}"))
}

/// Prints a page, and how to see more; beside JSON lines rather than among them.
fn print_page<T>(
    reading: &Reading,
    mut text: String,
    page: &Page<T>,
    or_how: &str,
) -> Result<ExitCode, Failure> {
    let more = format!("{} shown, there are more: --limit N{or_how}", page.rows.len());
    match (page.more, reading.json) {
        (false, _) => {}
        (true, false) => {
            let _ = writeln!(text, "{more}");
        }
        (true, true) => note(&more),
    }
    print(&text)
}

fn short_id(listed: &Listed) -> String {
    listed.record.id.to_string()[..SHORT_ID].to_owned()
}

/// Whether a terminal has room for effect ids beside the rest; what is read by programs stays as it
/// is, and has them with --json.
fn is_wide() -> bool {
    const WITH_EFFECT_IDS: u16 = 148;
    let terminal = console::Term::stdout();
    terminal.is_term() && terminal.size().1 >= WITH_EFFECT_IDS
}

fn list_text(reading: &Reading, rows: &[(&Listed, Option<u16>)]) -> String {
    let mut text = String::new();
    if reading.json {
        for (listed, observed_status) in rows {
            let _ = writeln!(text, "{}", record_json(reading, listed, *observed_status));
        }
        return text;
    }
    let shows_ids = reading.secret.is_ok() && is_wide();
    let effect_id_head = if shows_ids { "  EFFECT ID" } else { "" };
    let _ = writeln!(
        text,
        "{:<16}  {:<24}  {:<16}  {:>7}  {:>6}  {:>9}  {:<20}{effect_id_head}",
        "RECORD", "OPERATION", "STATE", "ATTEMPT", "STATUS", "AGE", "REPLAYED UNTIL"
    );
    for (listed, observed_status) in rows {
        let record = &listed.record;
        let operation = listed.operation.as_ref().map_or("?", |name| name.as_str());
        let status = match (record.ending.and_then(|ending| ending.status), observed_status) {
            (Some(status), _) => status.to_string(),
            (None, Some(observed)) => format!("({observed})"),
            (None, None) => "-".to_owned(),
        };
        let effect_id = match reading.effect_id(listed).filter(|_| shows_ids) {
            Some(id) => format!("  {id}"),
            None => String::new(),
        };
        let _ = writeln!(
            text,
            "{:<16}  {:<24}  {:<16}  {:>7}  {:>6}  {:>9}  {:<20}{effect_id}",
            short_id(listed),
            operation,
            state_text(reading, listed),
            record.attempt.to_string(),
            status,
            age(reading.now.since(record.created)),
            outcome(record)
                .filter(|ending| ending.kept)
                .map_or("-".to_owned(), |ending| moment(ending.until.outcome)),
        );
    }
    text
}

fn observed_text(reading: &Reading, observed: &[Observed]) -> String {
    let mut text = String::new();
    if reading.json {
        for seen in observed {
            let line = json!({
                "record": seen.id.to_string(),
                "operation": seen.operation.as_str(),
                "keyed": seen.keyed,
                "arrivals": seen.arrivals,
                "duplicates": seen.duplicates(),
                "would_replay": seen.replays,
                "would_wait": seen.waits,
                "would_refuse": seen.refusals,
                "would_hold": seen.holds,
                "first": moment(seen.first),
                "last": moment(seen.last),
            });
            let _ = writeln!(text, "{line}");
        }
        return text;
    }
    let _ = writeln!(
        text,
        "{:<16}  {:<24}  {:<5}  {:>8}  {:>10}  {:>6}  {:>5}  {:>6}  {:>5}  {:>9}",
        "INTENT",
        "OPERATION",
        "KEYED",
        "ARRIVALS",
        "DUPLICATES",
        "REPLAY",
        "WAIT",
        "REFUSE",
        "HOLD",
        "LAST SEEN"
    );
    for seen in observed {
        let _ = writeln!(
            text,
            "{:<16}  {:<24}  {:<5}  {:>8}  {:>10}  {:>6}  {:>5}  {:>6}  {:>5}  {:>9}",
            &seen.id.to_string()[..SHORT_ID],
            seen.operation.as_str(),
            if seen.keyed { "yes" } else { "no" },
            seen.arrivals,
            seen.duplicates(),
            seen.replays,
            seen.waits,
            seen.refusals,
            seen.holds,
            age(reading.now.since(seen.last)),
        );
    }
    if observed.is_empty() {
        text.push_str("nothing was observed\n");
    }
    text
}
