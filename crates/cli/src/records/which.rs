//! Which one record is meant: by itself, by the client's key, by what the service received.

use std::fmt::Write as _;

use clap::Args;
use hapax_core::{
    EffectId, Key, KeyError, KeyPolicy, KeySource, KeySyntax, OperationName, Progress, RecordId,
    Scope, Step,
};
use hapax_gateway::config::ScopeSource;
use hapax_store::{Inspect, ListFilter, Listed, Steps};

use super::{Reading, operations_text};
use crate::failure::Failure;

/// Which one record.
#[derive(Args, Debug)]
pub(super) struct Which {
    /// The record, as `records list` prints it (a unique beginning is enough).
    #[arg(conflicts_with_all = ["key", "effect_id"])]
    record: Option<String>,
    /// The client's key; also say --operation and --scope or --single-tenant.
    #[arg(long, conflicts_with = "effect_id")]
    key: Option<String>,
    /// The identity that went upstream as Idempotency-Key.
    #[arg(long, value_name = "UUID")]
    effect_id: Option<String>,
    /// The operation the key was used for [default: default].
    #[arg(long)]
    pub(super) operation: Option<String>,
    /// Whose key it is; said once for each claim where several are the scope. Only with --key:
    /// records do not tell their scope.
    #[arg(long, conflicts_with = "single_tenant", requires = "key")]
    scope: Vec<String>,
    /// All callers are one tenant; the default without --scope.
    #[arg(long, requires = "key")]
    single_tenant: bool,
}

impl Which {
    /// The record; `None` where nothing says which.
    pub(super) async fn find(&self, reading: &Reading) -> Result<Option<Listed>, Failure> {
        let found = if let Some(key) = &self.key {
            by_key(reading, self, key).await?
        } else if let Some(effect_id) = &self.effect_id {
            by_effect_id(reading, effect_id).await?
        } else if let Some(beginning) = self.record.as_ref().filter(|text| !text.is_empty()) {
            reading.beginning(beginning).await?
        } else {
            return Ok(None);
        };
        Ok(Some(found))
    }
}

async fn by_effect_id(reading: &Reading, text: &str) -> Result<Listed, Failure> {
    let wanted = EffectId::parse(text)
        .ok_or_else(|| Failure::start("--effect-id is a UUID, as the upstream received it"))?;
    if let Err(no_secret) = &reading.secret {
        let why = no_secret.explain(&reading.path);
        return Err(Failure::start(format!("no record can be found by its effect id: {why}")));
    }
    let is_it = |listed: &Listed| reading.effect_id(listed) == Some(wanted);
    match reading.one(["has", "have"], &format!("the effect id {wanted}"), is_it).await {
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

async fn by_key(reading: &Reading, which: &Which, text: &str) -> Result<Listed, Failure> {
    let key = parse_key(text)
        .map_err(|error| Failure::start(format!("no gateway takes such a --key: {error}")))?;
    let scope = match &which.scope[..] {
        [] => Scope::single_tenant(),
        names => Scope::names(names).map_err(Failure::start)?,
    };
    let operation = which.operation.as_deref().unwrap_or("default");
    let operation = OperationName::new(operation).map_err(Failure::start)?;
    if let Some(listed) = at(reading, &scope, &operation, &key).await? {
        return Ok(listed);
    }
    let of_scope = match &which.scope[..] {
        [] => "the single tenant".to_owned(),
        [scope] => format!("scope {scope:?}"),
        names => format!("scope {names:?}"),
    };
    let what = format!("no record of this key for operation {operation} and {of_scope}");
    let mut failure = reading.nothing(&what);
    for hint in hints(reading, which, &scope, &operation, &key).await? {
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
    which: &Which,
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
    let source = configured.map(|config| &config.scope).filter(|_| which.scope.is_empty());
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
