//! `hapax records show`.

use std::{fmt::Write as _, process::ExitCode};

use clap::Args;
use hapax_core::{
    EffectId, Key, KeyError, KeyPolicy, KeySource, KeySyntax, OperationName, Progress, RecordId,
    Scope, State, Step,
};
use hapax_gateway::config::ScopeSource;
use hapax_store::{HistoryEntry, Inspect, ListFilter, Listed, Steps};
use serde_json::json;

use super::{
    Reading, Source, operations_text,
    text::{moment, outcome, print, record_json, state_text},
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
  observed         of an uncertain record: the service's answer, which did not settle the outcome";

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
    /// Whose key it is; said once for each claim where several are the scope.
    #[arg(long, conflicts_with = "single_tenant")]
    scope: Vec<String>,
    /// All callers are one tenant; the default without --scope.
    #[arg(long)]
    single_tenant: bool,
}

/// Runs the command.
pub(super) async fn run(show: Show) -> Result<ExitCode, Failure> {
    let reading = Reading::open(&show.source).await?;
    let listed = if let Some(key) = &show.key {
        by_key(&reading, &show, key).await?
    } else if let Some(effect_id) = &show.effect_id {
        by_effect_id(&reading, effect_id).await?
    } else if let Some(beginning) = show.record.as_ref().filter(|text| !text.is_empty()) {
        reading.beginning(beginning).await?
    } else {
        return Err(Failure::start("say which: a record, --key or --effect-id"));
    };
    reading.note_missing_effect_ids();
    let observed_status = reading.observed_status(&listed).await?;
    let history = reading.store.history(listed.record.claim).await?;
    let steps = reading.store.steps(listed.record.claim).await?;
    print(&show_text(&reading, &listed, observed_status, &steps, &history))
}

async fn by_effect_id(reading: &Reading, text: &str) -> Result<Listed, Failure> {
    let wanted = EffectId::parse(text)
        .ok_or_else(|| Failure::start("--effect-id is a UUID, as the upstream received it"))?;
    if let Err(no_secret) = &reading.secret {
        let why = no_secret.explain(&reading.path);
        return Err(Failure::start(format!("no record can be found by its effect id: {why}")));
    }
    let is_it = |listed: &Listed| reading.effect_id(listed) == Some(wanted);
    match reading.one(&format!("has the effect id {wanted}"), is_it).await {
        Ok(listed) => Ok(listed),
        Err(failure) => with_step(reading, wanted).await?.ok_or(failure),
    }
}

/// The record of which a step has this effect id.
async fn with_step(reading: &Reading, wanted: EffectId) -> Result<Option<Listed>, Failure> {
    let mut stepped = Vec::new();
    reading
        .each(|listed| {
            if listed.record.progress != Progress::Whole {
                stepped.push(listed);
            }
        })
        .await?;
    for listed in stepped {
        let steps = reading.store.steps(listed.record.claim).await?;
        let has = |step: &Step| reading.effect_id_of(&listed, step.name.as_str()) == Some(wanted);
        if steps.iter().any(has) {
            return Ok(Some(listed));
        }
    }
    Ok(None)
}

async fn by_key(reading: &Reading, show: &Show, text: &str) -> Result<Listed, Failure> {
    let key = parse_key(text)
        .map_err(|error| Failure::start(format!("no gateway takes such a --key: {error}")))?;
    let scope = match &show.scope[..] {
        [] => Scope::single_tenant(),
        names => Scope::names(names).map_err(Failure::start)?,
    };
    let operation = OperationName::new(&show.operation).map_err(Failure::start)?;
    if let Some(listed) = at(reading, &scope, &operation, &key).await? {
        return Ok(listed);
    }
    let of_scope = match &show.scope[..] {
        [] => "the single tenant".to_owned(),
        [scope] => format!("scope {scope:?}"),
        names => format!("scope {names:?}"),
    };
    let what = format!("no record of this key for operation {operation} and {of_scope}");
    let mut failure = reading.nothing(&what);
    for hint in hints(reading, show, &scope, &operation, &key).await? {
        let _ = write!(failure.message, "\n  {hint}");
    }
    Err(failure)
}

async fn at(
    reading: &Reading,
    scope: &Scope,
    operation: &OperationName,
    key: &Key,
) -> Result<Option<Listed>, Failure> {
    let id = Some(RecordId::new(scope, operation, key));
    let found = reading.store.list(ListFilter { id, limit: 1, ..ListFilter::default() }).await?;
    Ok(found.into_iter().next())
}

/// What may be wrong with a search by key that found nothing.
async fn hints(
    reading: &Reading,
    show: &Show,
    scope: &Scope,
    operation: &OperationName,
    key: &Key,
) -> Result<Vec<String>, Failure> {
    let mut hints = Vec::new();
    let configured = reading.config.as_ref();
    let policy = configured.and_then(|config| {
        let mut policies = config.operations.iter().map(|operation| &operation.policy);
        policies.find(|policy| policy.name == *operation).map(|policy| policy.key.clone())
    });
    let rules = policy.clone().unwrap_or_default();
    let of_a_header = matches!(rules.from, KeySource::Header(_));
    if of_a_header && let Err(error) = acceptable(key, &rules.policy) {
        let by = if policy.is_some() { "this gateway" } else { "a gateway with default settings" };
        hints.push(format!("{by} refuses this key: {error}"));
    }
    let operations = reading.operations().await?;
    for other in operations.iter().filter(|other| *other != operation) {
        if at(reading, scope, other, key).await?.is_some() {
            hints.push(format!("it has one for another operation: say --operation {other}"));
        }
    }
    let source = configured.map(|config| &config.scope).filter(|_| show.scope.is_empty());
    if let Some(source) = source.filter(|source| **source != ScopeSource::SingleTenant) {
        hints.push(format!("scopes are taken {source}: say --scope"));
    }
    hints.push(operations_text(&operations));
    Ok(hints)
}

/// A key as a client sends it, quoted or bare; else as the bytes it is.
fn parse_key(text: &str) -> Result<Key, KeyError> {
    let any = KeyPolicy { syntax: KeySyntax::Lenient, min_length: 1, min_bits: 0 };
    match Key::from_field([text.as_bytes()], &any) {
        Ok(Some(key)) => Ok(key),
        _ => Key::from_bytes(text.as_bytes()),
    }
}

/// Whether a gateway would take the key from a caller.
fn acceptable(key: &Key, policy: &KeyPolicy) -> Result<(), KeyError> {
    match key.to_field() {
        Some(field) => Key::from_field([field.as_bytes()], policy).map(|_| ()),
        None => Key::from_field([key.as_bytes()], policy).map(|_| ()),
    }
}

fn show_text(
    reading: &Reading,
    listed: &Listed,
    observed_status: Option<u16>,
    steps: &[Step],
    history: &[HistoryEntry],
) -> String {
    let mut text = String::new();
    if reading.json {
        let mut shown = record_json(reading, listed, observed_status);
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
        line("replayed until", moment(outcome.until.outcome));
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
        let what = format!("{}  attempt {}  {}", moment(entry.at), entry.attempt, entry.what);
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
    fn a_key_that_no_gateway_takes_is_told() {
        let judged = |text| acceptable(&parse_key(text).expect("a key"), &KeyPolicy::default());
        assert_eq!(judged("0198c2f4-9a1e-7c55-9d0b-3f6a52e1b7aa"), Ok(()));
        assert!(matches!(judged("short"), Err(KeyError::TooShort { .. })));
        assert!(matches!(judged("größe-der-sendung"), Err(KeyError::Malformed { .. })));
    }
}
