//! The configuration file, table by table.

use std::net::SocketAddr;

use http::Uri;

use super::{
    At, EffectSecretSource, Fault, Limits, Place, Report, ScopeSource, StoreLocation, address,
    draft::{Draft, ServiceDraft},
    header, operation, prefix,
    section::{Section, Source, Value},
};

/// Tables and keys of the whole design that this version does not have.
const LATER: [&str; 7] = ["console", "cors", "outbox", "problems", "reconciler", "relay", "tls"];

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
    if let Some(store) = root.take("store") {
        draft.store = store.parse("a store", "sqlite:hapax.db", StoreLocation::parse);
    }
    if let Some(secret) = root.take("effect_secret") {
        draft.effect_secret = read_effect_secret(secret).unwrap_or_default();
    }
    draft.scope = root.take("scope").map(read_scope);
    if let Some(operator) = root.take("operator").and_then(Value::headed_section) {
        draft.operator_listen = read_operator(operator);
    }
    if let Some(services) = root.take("service") {
        draft.services = services.headed_sections().into_iter().map(read_service).collect();
    }
    if let Some(operations) = root.take("operation") {
        draft.operations =
            operations.headed_sections().into_iter().filter_map(operation::read).collect();
    }
    if let Some(limits) = root.take("limits").and_then(Value::headed_section) {
        draft.limits = read_limits(limits);
    }
    if let Some(single) = root.take("single_instance") {
        draft.single_instance = single.boolean().is_some_and(|single| single.value);
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

fn read_effect_secret(value: Value<'_>) -> Option<EffectSecretSource> {
    const REMEDY: &str =
        "write { file = \"/etc/hapax/effect.key\" } or { env = \"EFFECT_SECRET\" }";
    if !value.is_table() {
        value.wrong(Fault::new("a secret does not stand in the configuration itself", REMEDY));
        return None;
    }
    let mut section = value.section("{ file = \"/etc/hapax/effect.key\" }")?;
    let file = section.take("file");
    let env = section.take("env");
    let source = match (file, env) {
        (Some(file), None) => {
            let path = file.parse("a path", "/etc/hapax/effect.key", |text| match text {
                "" => Err(Fault::new("the path is empty", REMEDY)),
                _ => Ok(text.into()),
            });
            path.map(|path| EffectSecretSource::File(path.value))
        }
        (None, Some(env)) => {
            let name = env.parse("a variable's name", "EFFECT_SECRET", |text| {
                let wrong = text.is_empty() || text.contains(['=', '\0']);
                let fault = || Fault::new("it is not the name of an environment variable", REMEDY);
                if wrong { Err(fault()) } else { Ok(text.to_owned()) }
            });
            name.map(|name| EffectSecretSource::Env(name.value))
        }
        (Some(_), Some(_)) => {
            section.wrong("it names a file and a variable", REMEDY);
            None
        }
        (None, None) => {
            section.wrong("it names neither a file nor a variable", REMEDY);
            None
        }
    };
    section.finish();
    source
}

fn read_scope(value: Value<'_>) -> Option<At<ScopeSource>> {
    const REMEDY: &str = "write { header = \"X-Account\" }, set by your authenticating proxy, \
                          or { single_tenant = true } if all callers are one tenant";
    let place = value.place().clone();
    let mut section = value.section("{ header = \"X-Account\" }")?;
    for key in ["jwt", "api_key"] {
        if let Some(value) = section.take(key) {
            value.wrong(Fault::new("it comes with a later version of hapax", REMEDY));
            return None;
        }
    }
    let scope = match (section.take("header"), section.take("single_tenant")) {
        (Some(name), None) => {
            let name = name.parse("a header name", "X-Account", header::scope);
            name.map(|At { place, value }| At { place, value: ScopeSource::Header(value) })
        }
        (None, Some(single)) => match single.boolean() {
            Some(At { value: false, place }) => {
                let what = "without a scope every request would be refused";
                section.report().add(&place, Fault::new(what, REMEDY));
                None
            }
            single => single.map(|_| At { place, value: ScopeSource::SingleTenant }),
        },
        (Some(_), Some(_)) => {
            section.wrong("it names a header and a single tenant", REMEDY);
            None
        }
        (None, None) => {
            section.wrong("it is empty", REMEDY);
            None
        }
    };
    section.finish();
    scope
}

fn read_operator(mut section: Section<'_>) -> Option<At<SocketAddr>> {
    section.refuse_later(&["tls", "tokens"]);
    let listen = section.take("listen");
    let listen = listen.and_then(|at| at.parse("an address", "127.0.0.1:8081", address::listen));
    section.finish();
    listen
}

fn read_service(mut section: Section<'_>) -> ServiceDraft {
    section.refuse_later(&["authorize", "cors", "host", "tls"]);
    let upstream = section.take("upstream");
    if upstream.is_none() {
        section.wrong("it has no upstream", "add upstream = \"http://127.0.0.1:3000\"");
    }
    let upstream = upstream.and_then(|value| -> Option<At<Uri>> {
        value.parse("a URL", "http://127.0.0.1:3000", address::upstream)
    });
    let prefix = match section.take("prefix") {
        Some(value) => value.parse("a path", "/v1", prefix),
        None => Some(At { place: section.place().clone(), value: String::new() }),
    };
    section.finish();
    ServiceDraft { upstream, prefix }
}

fn read_limits(mut section: Section<'_>) -> Limits {
    let mut limits = Limits::default();
    let sizes: [(&'static str, &mut usize, &str); 2] = [
        ("request_body", &mut limits.request_body, "1MiB"),
        ("buffered_total", &mut limits.buffered_total, "256MiB"),
    ];
    let mut largest_body: Option<Place> = None;
    for (key, limit, example) in sizes {
        if let Some(size) = section.take(key).and_then(|value| value.size(example)) {
            largest_body.get_or_insert(size.place);
            *limit = size.value;
        }
    }
    let durations = [
        ("body_within", &mut limits.body_within, "10s"),
        ("connect", &mut limits.connect, "2s"),
        ("store", &mut limits.store, "2s"),
    ];
    for (key, limit, example) in durations {
        if let Some(time) = section.take(key).and_then(|value| value.positive_duration(example)) {
            *limit = time.value;
        }
    }
    if let Some(drain) = section.take("drain").and_then(|value| value.duration("30s")) {
        limits.drain = drain.value;
    }
    if let Some(most) = section.take("max_connections") {
        let most = most.whole_number(1, 1_000_000, "10000");
        limits.max_connections = most.map_or(limits.max_connections, |most| most.value);
    }
    if let Some(place) = largest_body.filter(|_| limits.request_body > limits.buffered_total) {
        let what =
            "one request body (request_body) may be larger than all together (buffered_total)";
        let help = "raise buffered_total or lower request_body";
        section.report().add(&place, Fault::new(what, help));
    }
    section.finish();
    limits
}
