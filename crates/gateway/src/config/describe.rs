//! What is printed at start.

use std::{collections::BTreeSet, fmt::Write};

use hapax_core::{InFlight, KeySource, Kind, Mode, OnUnknown, StoreDown};

use super::{Config, Operation, RoutePattern, duration::show};

impl Config {
    /// One line for each operation, with its policy.
    pub fn describe(&self) -> Vec<String> {
        let mut seen = BTreeSet::new();
        let operations = self.operations.iter();
        operations
            .filter(|operation| seen.insert(&operation.policy.name))
            .map(|operation| describe(operation))
            .collect()
    }
}

fn describe(operation: &Operation) -> String {
    let policy = &operation.policy;
    let head = format!("operation {}: {}", policy.name, routes(&operation.routes));
    let mode = match policy.mode {
        Mode::Enforce => "enforce",
        Mode::Observe => "observe",
    };
    match &policy.kind {
        Kind::Natural => return format!("{head} · natural, no key needed · mode {mode}"),
        Kind::Unprotected { reason } => return format!("{head} · unprotected: {reason}"),
        Kind::Keyed => {}
    }
    let key = if policy.key.required { "with a key, required" } else { "with a key" };
    let source = match &policy.key.from {
        KeySource::Header(name) if name == KeySource::IDEMPOTENCY_KEY => String::new(),
        KeySource::Header(name) => format!(" from {name}"),
        KeySource::Body(place) => format!(" from the body at {place}"),
    };
    let on_unknown = match (policy.on_unknown, policy.collapse_for) {
        (OnUnknown::Resend, Some(collapse_for)) => {
            format!("resend, the service collapses for {}", show(collapse_for))
        }
        (OnUnknown::Probe, collapse_for) => {
            let closer = operation.probe.as_ref().and_then(|probe| probe.closer.as_ref());
            let mut text = "probe".to_owned();
            if let Some(deadline) = policy.deadline {
                let after = deadline.saturating_add(policy.timeout);
                let _ = write!(text, ", what is not there after {} is final", show(after));
            } else if closer.is_some() {
                text.push_str(", what is not there is closed");
            }
            if let Some(collapse_for) = collapse_for {
                let _ = write!(text, ", the service collapses for {}", show(collapse_for));
            }
            text
        }
        (on_unknown, _) => on_unknown.to_string(),
    };
    let store_down = match policy.store_down {
        StoreDown::Refuse => "",
        StoreDown::Pass => " · passes while the store is down",
    };
    let in_flight = match (policy.in_flight, operation.answers.accept) {
        (InFlight::Conflict, true) => " · in flight accept",
        (InFlight::Conflict, false) => " · in flight conflict",
        (InFlight::Wait(_), true) => " · in flight wait, then accept",
        (InFlight::Wait(_), false) => "",
    };
    let authorize = match &operation.authorize {
        Some(authorize) => format!(" · replays authorized by {}", authorize.url),
        None => String::new(),
    };
    let outcome = if policy.outcome.is_some() { " · outcome read from the answer" } else { "" };
    format!(
        "{head} {key}{source} · on_unknown {on_unknown}{store_down}{in_flight}{outcome} · lease {} · \
         timeout {} · outcome kept {}, key refused for {}{authorize} · mode {mode}",
        show(policy.lease),
        show(policy.timeout),
        show(policy.retention.outcome),
        show(policy.retention.tombstone),
    )
}

/// The routes, or where they are every path, their methods.
fn routes(routes: &[RoutePattern]) -> String {
    if routes.iter().all(|route| route.pattern().as_str() == "/*") {
        return routes.iter().map(|route| route.method().as_str()).collect::<Vec<_>>().join(",");
    }
    routes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
