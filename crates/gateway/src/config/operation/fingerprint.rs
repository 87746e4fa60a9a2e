//! What makes two requests the same intent.

use hapax_core::{Json, Pointer};
use toml::de::DeValue;

use crate::config::{Fault, draft::OperationDraft, header, section::Value, words};

pub(super) fn read(value: Value<'_>, draft: &mut OperationDraft) {
    let place = value.place().clone();
    let Some(mut section) = value.section("{ exclude = [\"/client_time\"] }") else {
        return;
    };
    let rules = &mut draft.policy.fingerprint;
    if let Some(body) = section.take("body") {
        rules.body = body.parse("a word", "json", words::body_form).map(|body| body.value);
    }
    let mut pointers = |key: &'static str| {
        let list = section.take(key).map(|value| value.list("JSON Pointer", "/amount", pointer));
        list.unwrap_or_default().into_iter().map(|pointer| pointer.value).collect()
    };
    rules.include = pointers("include");
    rules.exclude = pointers("exclude");
    rules.unordered = pointers("unordered");
    if let Some(defaults) = section.take("defaults") {
        rules.defaults = read_defaults(defaults);
    }
    if let Some(headers) = section.take("headers") {
        let headers = headers.list("header name", "if-match", header::fingerprinted);
        rules.headers = headers.into_iter().map(|header| header.value).collect();
    }
    if section.finish() {
        draft.places.insert("fingerprint", place);
    }
}

pub(super) fn pointer(text: &str) -> Result<Pointer, Fault> {
    Pointer::parse(text)
        .map_err(|error| Fault::new(error.to_string(), "write it as in \"/amount\""))
}

fn read_defaults(value: Value<'_>) -> Vec<(Pointer, Json<'static>)> {
    let Some(mut section) = value.section("{ \"/currency\" = \"EUR\" }") else {
        return Vec::new();
    };
    let mut defaults = Vec::new();
    for (key, value) in section.take_all() {
        let place = section.report().keep(value.place().clone(), pointer(&key));
        let default = json(value.toml());
        if default.is_none() {
            value.wrong(Fault::new(
                "a date, inf or nan is no JSON value",
                "write what the request would hold, a date as a text in quotes",
            ));
        }
        if let (Some(place), Some(default)) = (place, default) {
            defaults.push((place.value, default));
        }
    }
    defaults
}

/// The JSON value that a TOML value stands for. TOML has no null, and JSON no dates.
pub(super) fn json(value: &DeValue<'_>) -> Option<Json<'static>> {
    let number = |text: &str| {
        let text = text.trim_start_matches('+');
        Some(Json::parse(text.as_bytes()).ok()?.into_owned())
    };
    match value {
        DeValue::String(text) => Some(Json::String(text.to_string().into())),
        DeValue::Boolean(value) => Some(Json::Bool(*value)),
        DeValue::Integer(integer) => {
            let integer = i128::from_str_radix(integer.as_str(), integer.radix()).ok()?;
            number(&integer.to_string())
        }
        DeValue::Float(float) => number(float.as_str()),
        DeValue::Datetime(_) => None,
        DeValue::Array(items) => {
            items.iter().map(|item| json(item.get_ref())).collect::<Option<_>>().map(Json::Array)
        }
        DeValue::Table(table) => {
            let member = |(name, value): (&toml::Spanned<_>, &toml::Spanned<DeValue<'_>>)| {
                let name: &toml::de::DeString<'_> = name.get_ref();
                Some((name.to_string().into(), json(value.get_ref())?))
            };
            let members = table.iter().map(member).collect::<Option<_>>()?;
            hapax_core::Members::new(members).map(Json::Object)
        }
    }
}
