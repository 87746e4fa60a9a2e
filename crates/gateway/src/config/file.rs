//! The configuration file, table by table.

use super::{
    MOST_WORKERS, Report, StoreLocation, address, cors,
    draft::Draft,
    forwarding, header, limits, operation, problems, scope,
    section::{Section, Source, Value},
    service, store, tls,
};

/// Tables and keys of the whole design that this version does not have.
const LATER: [&str; 4] = ["console", "outbox", "reconciler", "relay"];

/// Reads a whole file. What is wrong with it is in the report; `None` where it is no TOML.
pub(super) fn read(text: &str, report: &Report) -> Option<Draft> {
    let source = Source::new(text, report);
    let document = source.document(text)?;
    Some(read_root(document))
}

fn read_root(mut root: Section<'_>) -> Draft {
    let mut draft = Draft::default();
    root.refuse_later(&LATER);
    if let Some(listen) = root.take("listen") {
        draft.listen = listen.parse("an address", "0.0.0.0:8080", address::listen);
    }
    if let Some(tls) = root.take("tls").and_then(Value::headed_section) {
        draft.tls = tls::read_server(tls);
    }
    if let Some(trusted) = root.take("trusted_proxies") {
        draft.forwarding.trusted = Some(forwarding::read_trusted(trusted));
    }
    if let Some(fields) = root.take("forwarded") {
        draft.forwarding.fields = forwarding::read_fields(fields).unwrap_or_default();
    }
    if let Some(store) = root.take("store") {
        draft.store = store.parse("a store", "sqlite:hapax.db", StoreLocation::parse);
    }
    if let Some(secret) = root.take("effect_secret") {
        draft.effect_secret = store::read_effect_secret(secret).unwrap_or_default();
    }
    draft.scope = root.take("scope").map(scope::read);
    if let Some(operator) = root.take("operator").and_then(Value::headed_section) {
        read_operator(operator, &mut draft);
    }
    if let Some(services) = root.take("service") {
        draft.services = services.headed_sections().into_iter().map(service::read).collect();
    }
    if let Some(operations) = root.take("operation") {
        draft.operations =
            operations.headed_sections().into_iter().filter_map(operation::read).collect();
    }
    if let Some(limits) = root.take("limits").and_then(Value::headed_section) {
        draft.limits = limits::read(limits);
    }
    if let Some(problems) = root.take("problems").and_then(Value::headed_section) {
        draft.problems = problems::read(problems);
    }
    if let Some(cors) = root.take("cors").and_then(Value::headed_section) {
        draft.cors = Some(cors::read(cors));
    }
    if let Some(document) = root.take("policy_document") {
        draft.policy_document = document.boolean().map(|document| document.value);
    }
    if let Some(request_id) = root.take("request_id") {
        let request_id = request_id.parse("a header name", "x-request-id", header::request_id);
        draft.request_id = request_id.map(|request_id| request_id.value);
    }
    if let Some(single) = root.take("single_instance") {
        draft.single_instance = single.boolean().is_some_and(|single| single.value);
    }
    if let Some(workers) = root.take("workers") {
        draft.workers = workers.whole_number(1, MOST_WORKERS, "2").map(|at| at.value);
    }
    if let Some(group_commit) = root.take("group_commit") {
        draft.group_commit = group_commit.whole_number(1, 4096, "128").map(|at| at.value);
    }
    if let Some(sweep) = root.take("sweep") {
        draft.sweep = sweep.whole_number(1, 100_000, "500").map(|at| at.value);
    }
    root.finish();
    draft
}

fn read_operator(mut section: Section<'_>, draft: &mut Draft) {
    section.refuse_later(&["tokens"]);
    if let Some(listen) = section.take("listen") {
        draft.operator_listen = listen.parse("an address", "127.0.0.1:8081", address::listen);
    }
    if let Some(tls) = section.take("tls").and_then(Value::headed_section) {
        draft.operator_tls = tls::read_server(tls);
    }
    section.finish();
}
