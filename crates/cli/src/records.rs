//! `hapax records`: looking at what the store knows, also while a gateway runs.

use std::{
    fmt::Write as _,
    io::{ErrorKind, Write as _},
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use clap::{Args, Subcommand};
use hapax_core::{
    EffectId, EffectSecret, Ending, EndingKind, Key, KeyError, KeyPolicy, KeySyntax, Observed,
    OperationName, OutcomeClass, Record, RecordId, Scope, State, StoreTime,
};
use hapax_gateway::config::StoreLocation;
use hapax_sql::SqliteStore;
use hapax_store::{Clock, HistoryEntry, Inspect, ListFilter, Listed, Observations, SystemClock};
use serde_json::{Value, json};

use crate::{effect_secret, failure::Failure};

/// Looks at records.
#[derive(Debug, Subcommand)]
pub(crate) enum Records {
    /// List records, newest first.
    List(List),
    /// Show one record with its history.
    Show(Show),
}

/// Where the records are and how they are printed.
#[derive(Args, Debug)]
struct Source {
    /// The store of the gateway.
    #[arg(long, default_value = "sqlite:hapax.db", value_name = "sqlite:PATH")]
    store: String,
    /// The file with the effect secret, if it is not beside the database.
    #[arg(long, value_name = "FILE")]
    effect_secret: Option<PathBuf>,
    /// Print JSON, one object a line.
    #[arg(long)]
    json: bool,
}

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
    #[arg(long, conflicts_with_all = ["operation", "state"])]
    observed: bool,
    /// At most so many.
    #[arg(long, default_value_t = 50)]
    limit: usize,
}

#[derive(Args, Debug)]
pub(crate) struct Show {
    #[command(flatten)]
    source: Source,
    /// The record, as `records list` prints it (a unique beginning is enough).
    #[arg(conflicts_with_all = ["key", "effect_id"])]
    record: Option<String>,
    /// The client's key; also say --operation and --scope or --single-tenant.
    #[arg(long, conflicts_with = "effect_id")]
    key: Option<String>,
    /// The identity that went upstream as Idempotency-Key.
    #[arg(long, value_name = "UUID")]
    effect_id: Option<String>,
    /// The operation the key was used for.
    #[arg(long, default_value = "default")]
    operation: String,
    /// Whose key it is.
    #[arg(long, conflicts_with = "single_tenant")]
    scope: Option<String>,
    /// All callers are one tenant; the default without --scope.
    #[arg(long)]
    single_tenant: bool,
}

/// Runs the command.
pub(crate) async fn run(command: Records) -> Result<ExitCode, Failure> {
    match command {
        Records::List(list) => run_list(list).await,
        Records::Show(show) => run_show(show).await,
    }
}

/// A key as a client sends it, quoted or bare; else as the bytes it is.
fn parse_key(text: &str) -> Result<Key, KeyError> {
    let any = KeyPolicy { syntax: KeySyntax::Lenient, min_length: 1, min_bits: 0 };
    match Key::from_field([text.as_bytes()], &any) {
        Ok(Some(key)) => Ok(key),
        _ => Key::from_bytes(text.as_bytes()),
    }
}

/// A store opened for reading, with the secret that shows effect ids, if it can be read.
struct Reading {
    store: SqliteStore,
    secret: Option<EffectSecret>,
    now: StoreTime,
    json: bool,
}

impl Reading {
    fn open(source: &Source) -> Result<Self, Failure> {
        let StoreLocation::Sqlite(path) = StoreLocation::parse(&source.store)
            .map_err(|fault| Failure::start(format!("--store: {fault}")))?;
        let store = SqliteStore::open_read_only(&path).map_err(Failure::start)?;
        let secret = effect_secret::peek(&path, source.effect_secret.as_deref());
        if let (Err(error), true) = (&secret, source.effect_secret.is_some()) {
            return Err(Failure::start(error));
        }
        Ok(Self { store, secret: secret.ok(), now: SystemClock.now(), json: source.json })
    }

    fn effect_id(&self, id: &RecordId) -> Option<EffectId> {
        self.secret.as_ref().map(|secret| EffectId::new(secret, id, ""))
    }

    /// The one record that `wanted` is true of, looking through all pages.
    async fn find(&self, wanted: impl Fn(&Listed) -> bool) -> Result<Vec<Listed>, Failure> {
        let mut found = Vec::new();
        let mut filter = ListFilter { limit: 1000, ..ListFilter::default() };
        loop {
            let page = self.store.list(filter.clone()).await?;
            let Some(last) = page.last() else {
                return Ok(found);
            };
            filter.before = Some(last.record.claim);
            found.extend(page.into_iter().filter(&wanted));
        }
    }
}

async fn run_list(list: List) -> Result<ExitCode, Failure> {
    let reading = Reading::open(&list.source)?;
    if list.observed {
        let observed = reading.store.observed(list.limit).await?;
        return print(&observed_text(&reading, &observed));
    }
    let operation = list.operation.as_deref().map(OperationName::new).transpose();
    let filter = ListFilter {
        operation: operation.map_err(Failure::start)?,
        state: list.state.as_deref().and_then(parse_state),
        limit: list.limit,
        ..ListFilter::default()
    };
    let records = reading.store.list(filter).await?;
    print(&list_text(&reading, &records))
}

async fn run_show(show: Show) -> Result<ExitCode, Failure> {
    let reading = Reading::open(&show.source)?;
    let found = if let Some(key) = &show.key {
        let key = parse_key(key).map_err(Failure::start)?;
        let scope = match &show.scope {
            Some(scope) => Scope::principal(scope.as_bytes()).map_err(Failure::start)?,
            None => Scope::single_tenant(),
        };
        let operation = OperationName::new(&show.operation).map_err(Failure::start)?;
        let id = RecordId::new(&scope, &operation, &key);
        reading.store.list(ListFilter { id: Some(id), limit: 1, ..ListFilter::default() }).await?
    } else if let Some(effect_id) = &show.effect_id {
        let wanted = EffectId::parse(effect_id)
            .ok_or_else(|| Failure::start("--effect-id is a UUID, as the upstream received it"))?;
        if reading.secret.is_none() {
            return Err(Failure::start(
                "effect ids can only be found with their secret; name it by --effect-secret FILE",
            ));
        }
        reading.find(|listed| reading.effect_id(&listed.record.id) == Some(wanted)).await?
    } else if let Some(beginning) = show.record.as_ref().filter(|text| !text.is_empty()) {
        reading.find(|listed| listed.record.id.to_string().starts_with(beginning.as_str())).await?
    } else {
        return Err(Failure::start("say which: a record, --key or --effect-id"));
    };
    let record = match found.as_slice() {
        [record] => record,
        [] => return Err(Failure::new(1, "there is no such record")),
        _ => {
            return Err(Failure::new(1, "more than one record begins like this; write more of it"));
        }
    };
    let history = reading.store.history(record.record.claim).await?;
    print(&show_text(&reading, record, &history))
}

/// Prints; a reader that went away (`| head`) is no error.
fn print(text: &str) -> Result<ExitCode, Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::new(1, format!("standard output cannot be written: {error}")))
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

fn list_text(reading: &Reading, records: &[Listed]) -> String {
    let mut text = String::new();
    if reading.json {
        for listed in records {
            let _ = writeln!(text, "{}", record_json(reading, listed));
        }
        return text;
    }
    let _ = writeln!(
        text,
        "{:<16}  {:<24}  {:<16}  {:>7}  {:>6}  {:>9}  {:<20}",
        "RECORD", "OPERATION", "STATE", "ATTEMPT", "STATUS", "AGE", "REPLAYED UNTIL"
    );
    for listed in records {
        let record = &listed.record;
        let operation = listed.operation.as_ref().map_or("?", |name| name.as_str());
        let _ = writeln!(
            text,
            "{:<16}  {:<24}  {:<16}  {:>7}  {:>6}  {:>9}  {:<20}",
            &record.id.to_string()[..16],
            operation,
            state_text(reading, listed),
            record.attempt.to_string(),
            record.ending.and_then(|e| e.status).map_or("-".to_owned(), |s| s.to_string()),
            age(reading.now.since(record.created)),
            outcome(record).map_or("-".to_owned(), |ending| moment(ending.until.outcome)),
        );
    }
    if records.is_empty() {
        text.push_str("no record matches\n");
    }
    text
}

fn show_text(reading: &Reading, listed: &Listed, history: &[HistoryEntry]) -> String {
    let mut text = String::new();
    if reading.json {
        let mut shown = record_json(reading, listed);
        shown["history"] = history
            .iter()
            .map(|entry| {
                json!({
                    "at": moment(entry.at),
                    "attempt": entry.attempt.to_string(),
                    "what": entry.what,
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
    let effect_id = reading.effect_id(&record.id).map(|id| id.to_string());
    line("effect id", effect_id.unwrap_or_else(|| "? (its secret is not at hand)".to_owned()));
    line("operation", listed.operation.as_ref().map_or("?".to_owned(), ToString::to_string));
    line("state", state_text(reading, listed));
    line("attempt", record.attempt.to_string());
    let clean = if record.clean { "yes" } else { "no: an earlier attempt may have had an effect" };
    line("clean", clean.to_owned());
    line("claimed", moment(record.created));
    line("admitted", record.first_admitted.map_or("-".to_owned(), moment));
    line("lease until", record.lease_end.map_or("locked, no lease".to_owned(), moment));
    match &record.ending {
        Some(ending) => {
            line("ended", moment(ending.at));
            line("status", ending.status.map_or("-".to_owned(), |status| status.to_string()));
            line("remembered until", moment(ending.until.tombstone));
            if let Some(outcome) = outcome(record) {
                line("replayed until", moment(outcome.until.outcome));
                let kept = listed.body_bytes.map(|bytes| format!("{bytes} bytes"));
                line("response", kept.unwrap_or_else(|| "not kept".to_owned()));
            }
        }
        None => line(
            "observed response",
            listed.body_bytes.map_or("none".to_owned(), |bytes| format!("{bytes} bytes")),
        ),
    }
    for entry in history {
        let what = format!("{}  attempt {}  {}", moment(entry.at), entry.attempt, entry.what);
        line("history", what);
    }
    text
}

fn record_json(reading: &Reading, listed: &Listed) -> Value {
    let record = &listed.record;
    let ending = record.ending;
    json!({
        "record": record.id.to_string(),
        "effect_id": reading.effect_id(&record.id).map(|id| id.to_string()),
        "operation": listed.operation.as_ref().map(|name| name.as_str()),
        "state": state_word(listed.state),
        "class": ending.and_then(|ending| ending.class).map(class_word),
        "attempt": record.attempt.to_wire(),
        "clean": record.clean,
        "status": ending.and_then(|ending| ending.status),
        "claimed": moment(record.created),
        "admitted": record.first_admitted.map(moment),
        "lease_until": record.lease_end.map(moment),
        "ended": ending.map(|ending| moment(ending.at)),
        "replayed_until": outcome(record).map(|ending| moment(ending.until.outcome)),
        "remembered_until": ending.map(|ending| moment(ending.until.tombstone)),
        "body_bytes": listed.body_bytes,
    })
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
            &seen.id.to_string()[..16],
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

/// The ending of an attempt that came to an outcome.
fn outcome(record: &Record) -> Option<Ending> {
    record.ending.filter(|ending| ending.kind == EndingKind::Outcome)
}

/// The state, and what the lease adds to it.
fn state_text(reading: &Reading, listed: &Listed) -> String {
    let word = state_word(listed.state);
    let held = matches!(listed.state, State::Claimed | State::Executing);
    if held && listed.record.lease_over(reading.now) {
        return format!("{word}, overdue");
    }
    word.to_owned()
}

const fn state_word(state: State) -> &'static str {
    match state {
        State::Claimed => "claimed",
        State::Executing => "executing",
        State::Released => "released",
        State::Succeeded => "succeeded",
        State::FailedTerminal => "failed_terminal",
        State::Uncertain => "uncertain",
        State::Tombstone => "tombstone",
    }
}

fn parse_state(word: &str) -> Option<State> {
    [
        State::Claimed,
        State::Executing,
        State::Released,
        State::Succeeded,
        State::FailedTerminal,
        State::Uncertain,
        State::Tombstone,
    ]
    .into_iter()
    .find(|state| state_word(*state) == word)
}

const fn class_word(class: OutcomeClass) -> &'static str {
    match class {
        OutcomeClass::Succeeded => "succeeded",
        OutcomeClass::FailedTerminal => "failed_terminal",
    }
}

/// RFC 3339 in UTC; a moment outside its years as microseconds.
fn moment(time: StoreTime) -> String {
    const LAST: i64 = 253_402_300_799_999_999;
    match u64::try_from(time.as_micros()) {
        Ok(micros) if time.as_micros() <= LAST => {
            let moment = std::time::UNIX_EPOCH + Duration::from_micros(micros);
            humantime::format_rfc3339_seconds(moment).to_string()
        }
        _ => time.to_string(),
    }
}

/// A duration in its two largest units.
fn age(age: Duration) -> String {
    let text = humantime::format_duration(Duration::from_secs(age.as_secs())).to_string();
    text.split_whitespace().take(2).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_quoted_or_bare() {
        let bare = parse_key("0198c2f4-9a1e-7c55").expect("a key");
        assert_eq!(parse_key("\"0198c2f4-9a1e-7c55\"").expect("a key"), bare);
        assert_eq!(parse_key("a, b").expect("bytes").as_bytes(), b"a, b");
    }

    #[test]
    fn every_state_has_its_word() {
        for word in ["claimed", "executing", "released", "succeeded", "failed_terminal"] {
            assert_eq!(parse_state(word).map(state_word), Some(word));
        }
        assert_eq!(parse_state("gone"), None);
    }

    #[test]
    fn moments_and_ages_are_readable_at_the_extremes() {
        assert_eq!(moment(StoreTime::from_micros(0)), "1970-01-01T00:00:00Z");
        assert_eq!(moment(StoreTime::from_micros(i64::MAX)), format!("{}us", i64::MAX));
        assert_eq!(age(Duration::from_millis(90_500)), "1m 30s");
        assert_eq!(age(Duration::ZERO), "0s");
    }
}
