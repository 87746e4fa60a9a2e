//! The `[[operation]]` tables.

use std::time::Duration;

use hapax_core::{InFlight, Json, Kind, OperationName, OperationPolicy, Pointer};
use toml::de::DeValue;

use super::{
    At, Fault, Place, RoutePattern,
    draft::OperationDraft,
    header,
    section::{Section, Value},
    suggest::choice,
    words,
};

/// Settings of the whole design that this version does not have.
const LATER: [&str; 8] =
    ["authorize", "cors", "outcome", "prefer", "probe", "reference", "status_codes", "store_down"];

/// Settings that mean something only where there is a key.
const OF_KEYED: [&str; 14] = [
    "admission",
    "collapse_for",
    "fingerprint",
    "in_flight",
    "key",
    "late_arrival",
    "lease",
    "on_unknown",
    "replay_headers",
    "response_cap",
    "retention",
    "retried_by",
    "store_refusals",
    "timeout",
];

/// The most bytes of a response that one row holds with room to spare; SQLite's limit is 10^9.
const LARGEST_RESPONSE: usize = 512 << 20;

/// Reads one table; `None` only where nothing can be made of it, which is reported.
pub(super) fn read(mut section: Section<'_>) -> Option<OperationDraft> {
    section.refuse_later(&LATER);
    let name = read_name(&mut section);
    // What the name should have been does not keep the other mistakes from being found.
    let name = name.or_else(|| OperationName::new("unnamed").ok())?;
    let mut draft = OperationDraft::new(section.place().clone(), OperationPolicy::new(name, ""));
    draft.policy.kind = read_kind(&mut section);
    read_routes(&mut section, &mut draft);
    if let Some(mode) = section.take("mode") {
        let mode = mode.parse("a word", "enforce", words::mode);
        draft.set("mode", mode, |policy, mode| policy.mode = mode);
    }
    if let Some(contract) = section.take("contract") {
        read_contract(contract, &mut draft);
    }
    match draft.policy.kind {
        Kind::Keyed => read_keyed(&mut section, &mut draft),
        Kind::Natural | Kind::Unprotected { .. } => refuse_keyed(&mut section),
    }
    draft.sound = section.finish();
    Some(draft)
}

fn read_name(section: &mut Section<'_>) -> Option<OperationName> {
    let Some(name) = section.take("name") else {
        section.wrong(
            "it has no name, which is part of the identity of its records",
            "add one that stays, such as name = \"payments.create\"",
        );
        return None;
    };
    let parse = |text: &str| {
        OperationName::new(text).map_err(|_| {
            Fault::new(
                "a name is 1 to 128 letters, digits, dots, underscores and hyphens",
                "write it as in \"payments.create\"",
            )
        })
    };
    name.parse("a name", "payments.create", parse).map(|name| name.value)
}

fn read_kind(section: &mut Section<'_>) -> Kind {
    const KINDS: [(&str, &str); 3] =
        [("keyed", "keyed"), ("natural", "natural"), ("unprotected", "unprotected")];
    let given = section.take("kind");
    let reason = section.take("reason");
    let place = given.as_ref().map_or_else(|| section.place().clone(), |kind| kind.place().clone());
    let word = match given {
        None => Some("keyed"),
        Some(kind) => kind.parse("a word", "keyed", |text| choice(text, &KINDS)).map(|at| at.value),
    };
    let told = reason.is_some();
    match (word, reason) {
        (Some("unprotected"), reason) => {
            let reason = reason.and_then(|reason| reason.text("only reads, whatever its method"));
            let reason = reason.map(|reason| reason.value).unwrap_or_default();
            if !told || reason.trim().is_empty() {
                section.report().add(
                    &place,
                    Fault::new(
                        "an unprotected operation says why it is",
                        "add reason = \"…\"; it is printed at every start",
                    ),
                );
            }
            Kind::Unprotected { reason }
        }
        (word, reason) => {
            if let Some((reason, word)) = reason.zip(word) {
                reason.wrong(Fault::new(
                    format!("a {word} operation needs no reason"),
                    "remove it, or write kind = \"unprotected\"",
                ));
            }
            if word == Some("natural") { Kind::Natural } else { Kind::Keyed }
        }
    }
}

fn read_routes(section: &mut Section<'_>, draft: &mut OperationDraft) {
    const EXAMPLE: &str = "POST /v1/payments";
    let given = section.take("routes");
    let missing = match given {
        None => Some(section.place().clone()),
        Some(routes) => {
            let place = routes.place().clone();
            let empty = matches!(routes.toml(), DeValue::Array(items) if items.is_empty());
            draft.routes = routes.list("route", EXAMPLE, RoutePattern::parse);
            empty.then_some(place)
        }
    };
    if let Some(place) = missing {
        let help = format!("add the routes that produce this effect, as in routes = [{EXAMPLE:?}]");
        section.report().add(&place, Fault::new("it has no routes", help));
    }
}

fn read_contract(value: Value<'_>, draft: &mut OperationDraft) {
    let Some(mut contract) = value.section("{ effect = \"captures the amount\" }") else {
        return;
    };
    for (key, value) in contract.take_all() {
        if let Some(text) = value.text("captures the amount") {
            draft.contract.insert(key, text.value);
        }
    }
}

fn refuse_keyed(section: &mut Section<'_>) {
    for key in OF_KEYED {
        if let Some(value) = section.take(key) {
            value.wrong(Fault::new(
                "it has a meaning for keyed operations only",
                "remove it, or write kind = \"keyed\"",
            ));
        }
    }
}

fn read_keyed(section: &mut Section<'_>, draft: &mut OperationDraft) {
    if let Some(key) = section.take("key") {
        read_key(key, draft);
    }
    if let Some(fingerprint) = section.take("fingerprint") {
        read_fingerprint(fingerprint, draft);
    }
    if let Some(in_flight) = section.take("in_flight") {
        let in_flight = read_in_flight(in_flight);
        draft.set("in_flight", in_flight, |policy, value| policy.in_flight = value);
    }
    if let Some(on_unknown) = section.take("on_unknown") {
        let on_unknown = on_unknown.parse("a word", "hold", words::on_unknown);
        draft.set("on_unknown", on_unknown, |policy, value| policy.on_unknown = value);
    }
    read_times(section, draft);
    if let Some(admission) = section.take("admission") {
        read_admission(admission);
    }
    if let Some(store_refusals) = section.take("store_refusals") {
        let store = store_refusals.boolean();
        draft.set("store_refusals", store, |policy, value| policy.store_refusals = value);
    }
    if let Some(cap) = section.take("response_cap") {
        let cap = read_response_cap(cap);
        draft.set("response_cap", cap, |policy, value| policy.response_cap = value);
    }
    if let Some(headers) = section.take("replay_headers") {
        let headers = headers.list("header name", "x-payment-id", header::replayed);
        draft.policy.replay_headers = headers.into_iter().map(|header| header.value).collect();
    }
}

fn read_key(value: Value<'_>, draft: &mut OperationDraft) {
    let Some(mut key) = value.section("{ required = true }") else { return };
    if let Some(from) = key.take("from") {
        let from = from.parse("a source", "header:idempotency-key", header::key_source);
        draft.set("key.from", from, |policy, value| policy.key.header = value);
    }
    if let Some(required) = key.take("required") {
        let required = required.boolean();
        draft.set("key.required", required, |policy, value| policy.key.required = value);
    }
    if let Some(syntax) = key.take("syntax") {
        let syntax = syntax.parse("a word", "lenient", words::key_syntax);
        draft.set("key.syntax", syntax, |policy, value| policy.key.policy.syntax = value);
    }
    if let Some(min_length) = key.take("min_length") {
        let min_length = min_length.whole_number(1, hapax_core::Key::MAX_LENGTH, "16");
        draft.set("key.min_length", min_length, |policy, value| {
            policy.key.policy.min_length = value;
        });
    }
    if let Some(min_bits) = key.take("min_bits") {
        let min_bits = min_bits.whole_number(0, super::MOST_KEY_BITS.into(), "64");
        draft.set("key.min_bits", min_bits, |policy, value| {
            policy.key.policy.min_bits = u32::try_from(value).unwrap_or(u32::MAX);
        });
    }
    key.finish();
}

fn read_fingerprint(value: Value<'_>, draft: &mut OperationDraft) {
    let place = value.place().clone();
    let Some(mut section) = value.section("{ exclude = [\"/client_time\"] }") else {
        return;
    };
    section.refuse_later(&["unordered"]);
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

fn pointer(text: &str) -> Result<Pointer, Fault> {
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
fn json(value: &DeValue<'_>) -> Option<Json<'static>> {
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

fn read_in_flight(value: Value<'_>) -> Option<At<InFlight>> {
    if value.is_table() {
        let mut section = value.section("{ wait = \"2s\" }")?;
        let Some(wait) = section.take("wait") else {
            section.wrong("it has no wait", "write { wait = \"2s\" } or \"conflict\"");
            return None;
        };
        let wait = wait.positive_duration("2s");
        section.finish();
        return wait.map(|At { place, value }| At { place, value: InFlight::Wait(value) });
    }
    let parse = |text: &str| match text {
        "accept" => Err(Fault::new(
            "answering 202 comes with a later version of hapax",
            "write \"conflict\" or { wait = \"2s\" }",
        )),
        "wait" => Err(Fault::new("it does not say how long", "write { wait = \"2s\" }")),
        _ => choice(text, &[("conflict", InFlight::Conflict)]),
    };
    value.parse("\"conflict\" or { wait = … }", "conflict", parse)
}

fn read_times(section: &mut Section<'_>, draft: &mut OperationDraft) {
    if let Some(collapse_for) = section.take("collapse_for") {
        let collapse_for = collapse_for.positive_duration("24h");
        draft.set("collapse_for", collapse_for, |policy, value| policy.collapse_for = Some(value));
    }
    if let Some(late_arrival) = section.take("late_arrival") {
        let late_arrival = late_arrival.duration("60s");
        draft.set("late_arrival", late_arrival, |policy, value| policy.late_arrival = value);
    }
    if let Some(lease) = section.take("lease") {
        let lease = lease.duration("30s");
        draft.set("lease", lease, |policy, value| policy.lease = value);
    }
    if let Some(timeout) = section.take("timeout") {
        let timeout = timeout.positive_duration("20s");
        draft.set("timeout", timeout, |policy, value| policy.timeout = value);
    }
    if let Some(retention) = section.take("retention") {
        read_retention(retention, draft);
    }
    if let Some(retried_by) = section.take("retried_by") {
        draft.places.insert("retried_by", retried_by.place().clone());
        draft.policy.retried_by = read_retried_by(retried_by);
    }
}

fn read_retention(value: Value<'_>, draft: &mut OperationDraft) {
    let example = "{ outcome = \"24h\", tombstone = \"30d\" }";
    let Some(mut section) = value.section(example) else { return };
    if let Some(outcome) = section.take("outcome") {
        let outcome = outcome.positive_duration("24h");
        draft.set("retention.outcome", outcome, |policy, value| policy.retention.outcome = value);
    }
    if let Some(tombstone) = section.take("tombstone") {
        let tombstone = tombstone.positive_duration("30d");
        draft.set("retention.tombstone", tombstone, |policy, value| {
            policy.retention.tombstone = value;
        });
    }
    section.finish();
}

fn read_retried_by(value: Value<'_>) -> Vec<(String, Duration)> {
    let Some(mut section) = value.section("{ client = \"24h\" }") else {
        return Vec::new();
    };
    let sources = section.take_all().into_iter();
    sources
        .filter_map(|(source, value)| Some((source, value.positive_duration("24h")?.value)))
        .collect()
}

fn read_admission(value: Value<'_>) {
    let parse = |text: &str| match text {
        "separate" => Err(Fault::new(
            "a separate admission comes with a later version of hapax",
            "write \"claim\", or remove it",
        )),
        _ => choice(text, &[("claim", ())]),
    };
    value.parse("a word", "claim", parse);
}

fn read_response_cap(value: Value<'_>) -> Option<At<usize>> {
    const EXAMPLE: &str = "1MiB";
    let place: Place = value.place().clone();
    let report = value.report();
    let cap = value.size(EXAMPLE)?;
    if cap.value > LARGEST_RESPONSE {
        let what = "no row of the store holds a response of more than 512MiB";
        report.add(&place, Fault::new(what, "write a smaller cap, such as \"1MiB\""));
        return None;
    }
    Some(cap)
}
