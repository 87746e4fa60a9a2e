//! Holding the parts of a configuration against each other.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr, SocketAddr},
    num::NonZeroUsize,
    sync::Arc,
};

use hapax_core::OperationName;

use super::{
    At, Config, Environment, Fault, Operation, Place, Report, RoutePattern, Routes, ScopeSource,
    Service, StoreLocation, address, check,
    draft::{Draft, OperationDraft, ServiceDraft, enforces},
    fields,
    host::rank,
    operation::Choice,
    routes,
    service::{self, Area},
};
use crate::upstream::Protocol;

const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 8080);
const OPERATOR_LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8081);

/// The configuration. Of use only if nothing was reported.
pub(super) fn build(draft: Draft, has_file: bool, env: Environment, report: &Report) -> Config {
    let missing = |flag| if has_file { Place::File } else { Place::Flag(flag) };
    check_scope(&draft, has_file, report);
    check_listeners(&draft, report);
    check_replicas(&draft, env, &missing("--store"), report);
    check_services(&draft, &missing("--upstream"), report);
    check_operations(&draft, report);
    fields::check(&draft, report);
    let (services, operations) = connect(&draft.services, draft.operations);
    let mut near_misses = routes::NearMisses::default();
    let protects = |operation: &&Arc<Operation>| enforces(&operation.policy);
    operations.iter().filter(protects).for_each(|operation| near_misses.insert(operation));
    Config {
        listen: draft.listen.map_or(LISTEN, |listen| listen.value),
        operator_listen: draft.operator_listen.map_or(OPERATOR_LISTEN, |listen| listen.value),
        tls: draft.tls,
        operator_tls: draft.operator_tls,
        forwarding: draft.forwarding,
        store: draft
            .store
            .map_or_else(|| StoreLocation::Sqlite("hapax.db".into()), |store| store.value),
        effect_secret: draft.effect_secret,
        scope: draft.scope.flatten().map_or(ScopeSource::SingleTenant, |scope| scope.value),
        services,
        operations,
        limits: draft.limits,
        problems: draft.problems,
        cors: draft.cors,
        request_id: draft.request_id.unwrap_or(Some(fields::REQUEST_ID)),
        policy_document: draft.policy_document.unwrap_or(true),
        workers: draft.workers.and_then(NonZeroUsize::new),
        group_commit: draft.group_commit.unwrap_or(128),
        sweep: draft.sweep.unwrap_or(500),
        near_misses,
    }
}

fn check_scope(draft: &Draft, has_file: bool, report: &Report) {
    if let Some(scope) = &draft.scope {
        let asks_callers = draft.tls.as_ref().is_some_and(|tls| tls.clients.is_some());
        if let Some(At { place, value: ScopeSource::ClientCertificate(_) }) = scope
            && !asks_callers
        {
            let what = "callers are not asked for certificates, so every request would be refused";
            let help = "add a [tls] table with certificate, key and client_ca, the authorities that \
                        vouch for callers";
            report.add(place, Fault::new(what, help));
        }
        return;
    }
    let what = "there is no scope, and every request needs an owner";
    if has_file {
        let help = "add scope = { header = \"X-Account\" }, the header in which your authenticating \
                    proxy puts the caller's identity, or scope = { single_tenant = true } if all \
                    callers are one tenant";
        report.add(&Place::File, Fault::new(what, help));
    } else {
        let help = "say --single-tenant if all callers are one tenant, or name the header in which \
                    your authenticating proxy puts the caller's identity: --scope-header X-Account";
        report.add(&Place::Flag("--single-tenant, --scope-header"), Fault::new(what, help));
    }
}

fn check_listeners(draft: &Draft, report: &Report) {
    let value = |at: &Option<At<SocketAddr>>, default| at.as_ref().map_or(default, |at| at.value);
    let (public, operator) =
        (value(&draft.listen, LISTEN), value(&draft.operator_listen, OPERATOR_LISTEN));
    let given = draft.operator_listen.as_ref().or(draft.listen.as_ref());
    let Some(At { place, .. }) = given.filter(|_| address::collide(public, operator)) else {
        return;
    };
    let what = format!("callers ({public}) and operators ({operator}) need a port each");
    report.add(place, Fault::new(what, "give one of the two another port"));
}

fn check_replicas(draft: &Draft, env: Environment, missing: &Place, report: &Report) {
    if !env.kubernetes || draft.single_instance {
        return;
    }
    let place = draft.store.as_ref().map_or(missing, |store| &store.place);
    let what = "SQLite under an orchestrator (KUBERNETES_SERVICE_HOST is set): each replica would \
                have a file of its own and protect nothing";
    let help = "run exactly one replica and say so: --single-instance, or single_instance = true \
                in the file";
    report.add(place, Fault::new(what, help));
}

fn check_services(draft: &Draft, missing: &Place, report: &Report) {
    if draft.services.is_empty() {
        let help = if missing.is_flag() {
            "say --upstream http://127.0.0.1:3000, or name a file with --config"
        } else {
            "add a [[service]] with upstream = \"http://127.0.0.1:3000\""
        };
        report.add(missing, Fault::new("there is no service to pass requests to", help));
    }
    let mut seen = BTreeMap::new();
    for service in &draft.services {
        check_connection(service, report);
        let (Some(prefix), None | Some(Some(_))) = (&service.prefix, &service.host) else {
            continue;
        };
        let host = service.host();
        if let Some(first) = seen.insert((host, prefix.value.as_str()), &prefix.place) {
            let of_host = host.map_or(String::new(), |host| format!(" for {host}"));
            let on = on(first);
            let what = format!("\"{}/\" is the prefix of two services{of_host}{on}", prefix.value);
            let help = "give each service its own prefix, such as prefix = \"/v1\", or its own \
                        host, such as host = \"api.example.com\"";
            report.add(&prefix.place, Fault::new(what, help));
        }
    }
}

/// Whether a service can be spoken to as it is said.
fn check_connection(service: &ServiceDraft, report: &Report) {
    let Some(upstream) = &service.upstream else { return };
    let over_tls = upstream.value.scheme_str() == Some("https");
    if let Some(tls) = service.tls.as_ref().filter(|_| !over_tls) {
        let what = "the upstream is http://, which has no TLS";
        report.add(&tls.place, Fault::new(what, "write https:// in its upstream, or remove it"));
    }
    let protocol = service.protocol.as_ref();
    if let Some(protocol) = protocol.filter(|at| over_tls && at.value == Protocol::Http2) {
        let what = "h2c is HTTP/2 without TLS, and the upstream is https://";
        let help = "remove it: over TLS the service says itself whether it speaks HTTP/2";
        report.add(&protocol.place, Fault::new(what, help));
    }
}

fn check_operations(draft: &Draft, report: &Report) {
    let areas = areas(&draft.services);
    // Under a prefix or host that is wrong there might be anything.
    let is_right =
        |service: &ServiceDraft| service.prefix.is_some() && !matches!(service.host, Some(None));
    let has_services = !areas.is_empty() && draft.services.iter().all(is_right);
    let mut names = BTreeMap::new();
    for (at, operation) in draft.operations.iter().enumerate() {
        if operation.sound {
            check::policy(operation, report);
            if let Some(first) = names.insert(&operation.policy.name, &operation.place) {
                let what =
                    format!("two operations are named {}{}", operation.policy.name, on(first));
                let help = "name each once; routes that produce one effect share an operation";
                report.add(&operation.place, Fault::new(what, help));
            }
        }
        for (nth, route) in operation.routes.iter().enumerate() {
            if has_services && service::reached(&areas, &route.value).is_empty() {
                let (what, help) = match route.value.host() {
                    None => ("prefix", "correct the path, or add a [[service]] with its prefix"),
                    Some(_) => (
                        "host and prefix",
                        "correct it, or add a [[service]] with this host and prefix",
                    ),
                };
                let what = format!("\"{}\" is under the {what} of no service", route.value);
                report.add(&route.place, Fault::new(what, help));
            }
            let earlier = operation.routes.iter().take(nth);
            if earlier.clone().any(|other| other.value.is_same(&route.value)) {
                let what = format!("\"{}\" is there twice", route.value);
                report.add(&route.place, Fault::new(what, "leave one of them out"));
            }
            for other in draft.operations.iter().take(at) {
                check_unambiguous(operation, route, other, report);
            }
        }
        if has_services && operation.sound && operation.enforces() {
            check_one_service(operation, &draft.services, &areas, report);
        }
    }
}

/// One key is one effect, so it happens at one service, and one authority says who may see what it
/// came to.
fn check_one_service(
    operation: &OperationDraft,
    services: &[ServiceDraft],
    areas: &[Area<'_>],
    report: &Report,
) {
    let reached = operation.routes.iter().flat_map(|route| service::reached(areas, &route.value));
    let reached: BTreeSet<_> = reached.collect();
    let reached: Vec<_> = reached.into_iter().filter_map(|at| services.get(at)).collect();
    let identities: BTreeSet<_> = reached.iter().filter_map(|at| at.identity()).collect();
    let is_several = identities.len() > 1;
    if is_several && operation.of_each_service {
        // Said once, and of services that are right otherwise.
        let nameless = reached.iter().find(|service| service.name.is_none());
        if let Some(service) = nameless.filter(|_| report.count() == 0) {
            let what = "there are several services and no operation, and one key would be one \
                        effect at all of them";
            let help = "give each service a name, such as name = \"payments\", so that each has an \
                        operation of its own; or add operations";
            report.add(&service.place, Fault::new(what, help));
        }
    } else if is_several {
        let identities = identities.iter().map(String::as_str).collect::<Vec<_>>().join(" and ");
        let what = format!(
            "requests on its routes go to several services ({identities}), and one key would be one \
             effect at all of them"
        );
        let help = "write an operation for each service, with the host in its routes where the \
                    paths are the same, as in \"POST api.example.com/v1/payments\"; or give services \
                    that are one the same name";
        return report.add(operation.place_of(&["routes"]), Fault::new(what, help));
    }
    let mut asked = BTreeMap::new();
    for service in reached.iter().filter(|_| operation.authorize.is_none()) {
        let own = service.authorize.as_ref().and_then(Choice::asks);
        if asked.entry(service.identity()).or_insert_with(|| own.clone()) != &own {
            let what = "the services that its routes lead to differ in authorize, and one would show \
                        what another keeps to itself";
            let help = "say authorize in the operation itself";
            return report.add(&operation.place, Fault::new(what, help));
        }
    }
}

fn check_unambiguous(
    operation: &OperationDraft,
    route: &At<RoutePattern>,
    other: &OperationDraft,
    report: &Report,
) {
    let meets = |earlier: &&At<RoutePattern>| earlier.value.ambiguous_with(&route.value);
    if let Some(earlier) = other.routes.iter().find(meets) {
        let what = format!(
            "a request can be on \"{}\" of {} and on \"{}\" of {}{}, and neither is the more \
             special route",
            route.value,
            operation.policy.name,
            earlier.value,
            other.policy.name,
            on(&earlier.place),
        );
        let help =
            "give the route to one operation, or make one of the two literal where they meet";
        report.add(&route.place, Fault::new(what, help));
    }
}

fn areas(services: &[ServiceDraft]) -> Vec<Area<'_>> {
    fn area(service: &ServiceDraft) -> Area<'_> {
        let prefix = service.prefix.as_ref().map_or("", |at| at.value.as_str());
        Area { host: service.host(), prefix }
    }
    services.iter().map(area).collect()
}

fn on(place: &Place) -> String {
    match place {
        Place::Line(line, _) => format!(" (the other on line {line})"),
        _ => String::new(),
    }
}

/// Gives every service the operations that requests to it can be on. One without records may lead to
/// several services, and is there once for each.
fn connect(
    drafts: &[ServiceDraft],
    operations: Vec<OperationDraft>,
) -> (Vec<Service>, Vec<Arc<Operation>>) {
    let areas = areas(drafts);
    let mut services: Vec<Service> = drafts
        .iter()
        .zip(&areas)
        .map(|(draft, Area { host, prefix })| Service {
            name: draft.name.clone(),
            upstream: draft.upstream.as_ref().map(|at| at.value.clone()).unwrap_or_default(),
            host: host.cloned(),
            prefix: if prefix.is_empty() { "/".to_owned() } else { (*prefix).to_owned() },
            protocol: draft.protocol.as_ref().map(|at| at.value).unwrap_or_default(),
            tls: draft.tls.as_ref().map(|at| at.value.clone()).unwrap_or_default(),
            routes: Routes::default(),
        })
        .collect();
    let identities: BTreeSet<_> = services.iter().map(Service::identity).collect();
    let is_several = identities.len() > 1;
    let mut connected = Vec::new();
    for draft in operations {
        let routes: Vec<_> = draft.routes.into_iter().map(|route| route.value).collect();
        let mut variants: Vec<Arc<Operation>> = Vec::new();
        for route in &routes {
            for at in service::reached(&areas, route) {
                let Some(service) = services.get_mut(at) else { continue };
                let target = service.identity();
                let of_service = drafts.get(at).and_then(|service| service.authorize.as_ref());
                let authorize = draft.authorize.as_ref().or(of_service).and_then(Choice::asks);
                let known = variants.iter().find(|known| known.policy.target == target);
                let operation = match known {
                    Some(operation) => Arc::clone(operation),
                    None => {
                        let mut policy = draft.policy.clone();
                        if draft.of_each_service
                            && is_several
                            && let Some(name) = &service.name
                            && let Ok(name) = OperationName::new(&format!("default.{name}"))
                        {
                            policy.name = name;
                        }
                        policy.target = target;
                        let paths = routes.iter().map(|route| route.pattern().clone());
                        policy.fingerprint.paths = paths.collect();
                        let (routes, contract) = (routes.clone(), draft.contract.clone());
                        let (answers, probe) = (draft.answers.clone(), draft.probe.clone());
                        let operation =
                            Operation { policy, routes, authorize, contract, answers, probe };
                        let operation = Arc::new(operation);
                        variants.push(Arc::clone(&operation));
                        operation
                    }
                };
                service.routes.insert(route, &operation);
            }
        }
        variants.sort_by(|one, other| one.policy.target.cmp(&other.policy.target));
        connected.extend(variants);
    }
    // The most special host, then the longest prefix that fits is the first that fits.
    services.sort_by_key(|service| Reverse((rank(service.host.as_ref()), service.prefix.len())));
    (services, connected)
}
