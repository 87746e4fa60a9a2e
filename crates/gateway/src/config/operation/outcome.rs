//! What the body of an answer says of the effect.

use hapax_core::{Json, OutcomeRule, OutcomeRules, Told};
use toml::de::DeValue;

use super::fingerprint::{json, pointer};
use crate::config::{Fault, draft::OperationDraft, section::Value, suggest::choice};

const EXAMPLE: &str = "{ at = \"/errors\", absent = \"applied\" }";

/// One table, or a list of tables that are tried in order.
pub(super) fn read(value: Value<'_>, draft: &mut OperationDraft) {
    let place = value.place().clone();
    let tables = match value.toml() {
        DeValue::Array(_) => value.values("a table or a list of them", EXAMPLE),
        _ => vec![value],
    };
    let count = tables.len();
    let rules: Vec<_> = tables.into_iter().filter_map(rule).collect();
    if rules.len() == count {
        draft.policy.outcome = Some(OutcomeRules::new(rules));
        draft.places.insert("outcome", place);
    }
}

fn rule(value: Value<'_>) -> Option<OutcomeRule> {
    let mut section = value.section(EXAMPLE)?;
    let Some(at) = section.take("at") else {
        section.wrong("it does not say where to look", format!("write it as in {EXAMPLE}"));
        return None;
    };
    let at = at.parse("a JSON Pointer", "/errors", pointer);
    let mut word = |key: &'static str| {
        let word = section.take(key)?.parse("a word", "applied", told)?;
        Some(word.value)
    };
    let (absent, present) = (word("absent"), word("present"));
    let mut values: Vec<(Json<'static>, Told)> = Vec::new();
    let lists = [
        ("applied", Told::Applied),
        ("not_applied", Told::NotApplied),
        ("failed", Told::Failed),
        ("unknown", Told::Unknown),
    ];
    for (key, told) in lists {
        let listed = section.take(key).map(|list| list.values("a list of values", "[\"OK\"]"));
        for value in listed.unwrap_or_default() {
            match json(value.toml()) {
                None => value.wrong(Fault::new(
                    "a date, inf or nan is no JSON value",
                    "write what the answer would hold, a date as a text in quotes",
                )),
                Some(json) if values.iter().any(|(other, _)| *other == json) => {
                    value.wrong(Fault::new("it is listed twice", "list each value once"));
                }
                Some(json) => values.push((json, told)),
            }
        }
    }
    let rule = OutcomeRule { at: at?.value, absent, values, present };
    let (place, report) = (section.place().clone(), section.report());
    if !section.finish() {
        return None;
    }
    if rule.absent.is_none() && rule.present.is_none() && rule.values.is_empty() {
        let help = format!("write it as in {EXAMPLE}");
        report.add(&place, Fault::new("it says nothing about any answer", help));
        return None;
    }
    Some(rule)
}

fn told(text: &str) -> Result<Told, Fault> {
    let words = [
        ("applied", Told::Applied),
        ("not_applied", Told::NotApplied),
        ("failed", Told::Failed),
        ("unknown", Told::Unknown),
    ];
    choice(text, &words)
}
