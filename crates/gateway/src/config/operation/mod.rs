//! The `[[operation]]` tables.

mod answers;
mod authorize;
mod fingerprint;
mod key;
mod outcome;
mod probe;
mod store_down;
mod times;

pub use answers::{Answers, Prefer};
pub use probe::{Closer, PathTemplate, Probe};

use hapax_core::{Kind, OperationName, OperationPolicy};
use toml::de::DeValue;

pub use authorize::Authorize;
pub(super) use authorize::Choice;
pub(super) use authorize::read as read_authorize;

use super::{
    At, Fault, Place, RoutePattern,
    draft::OperationDraft,
    header,
    section::{Section, Value},
    suggest::choice,
    words,
};

/// Settings of the whole design that this version does not have.
const LATER: [&str; 2] = ["cors", "reference"];

/// Settings that mean something only where there is a key.
const OF_KEYED: [&str; 20] = [
    "admission",
    "authorize",
    "collapse_for",
    "fingerprint",
    "in_flight",
    "key",
    "late_arrival",
    "lease",
    "on_unknown",
    "outcome",
    "prefer",
    "probe",
    "replay_headers",
    "response_cap",
    "retention",
    "retried_by",
    "status_codes",
    "store_down",
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
        key::read(key, draft);
    }
    if let Some(fingerprint) = section.take("fingerprint") {
        fingerprint::read(fingerprint, draft);
    }
    if let Some(outcome) = section.take("outcome") {
        outcome::read(outcome, draft);
    }
    answers::read(section, draft);
    if let Some(on_unknown) = section.take("on_unknown") {
        let on_unknown = on_unknown.parse("a word", "hold", words::on_unknown);
        draft.set("on_unknown", on_unknown, |policy, value| policy.on_unknown = value);
    }
    if let Some(authorize) = section.take("authorize") {
        draft.authorize = authorize::read(authorize);
    }
    if let Some(probe) = section.take("probe") {
        probe::read(probe, draft);
    }
    if let Some(store_down) = section.take("store_down") {
        store_down::read(store_down, draft);
    }
    probe::check(section, draft);
    store_down::check(section, draft);
    times::read(section, draft);
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
