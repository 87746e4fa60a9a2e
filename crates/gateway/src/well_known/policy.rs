//! The policy document.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use hapax_core::{InFlight, Key, KeySource, KeySyntax, Kind, Mode, ProblemKind, StoreDown};
use serde::Serialize;
use serde_json::Value;

use crate::{
    config::{Config, Operation, ScopeSource, StatusCodes},
    presenting::Presentation,
};

/// What callers can rely on.
#[derive(Debug, Serialize)]
pub(super) struct Policy {
    /// The version of the document's shape.
    pub(super) version: u32,
    pub(super) operations: Vec<OperationPolicy>,
    pub(super) retries: Retries,
    pub(super) problems: Vec<ProblemPolicy>,
}

/// One operation.
#[derive(Debug, Serialize)]
pub(super) struct OperationPolicy {
    pub(super) name: String,
    pub(super) kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
    pub(super) routes: Vec<RoutePolicy>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) contract: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) keyed: Option<KeyedPolicy>,
}

#[derive(Debug, Serialize)]
pub(super) struct RoutePolicy {
    pub(super) method: String,
    /// The host, or all below one; every host where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) host: Option<String>,
    pub(super) path: String,
}

/// What is said of an operation that takes a key.
#[derive(Debug, Serialize)]
pub(super) struct KeyedPolicy {
    pub(super) key: KeyPolicy,
    /// What makes two requests the same, as in the configuration.
    pub(super) intent: Value,
    pub(super) in_flight: InFlightPolicy,
    /// `hold`, `probe` or `resend`.
    pub(super) unknown_outcome: String,
    /// How long the answer is replayed, in seconds from the outcome.
    pub(super) outcome_seconds: u64,
    /// How long the key is refused instead of executing again, in seconds from the outcome.
    pub(super) key_seconds: u64,
    /// How long each source may go on retrying, in seconds.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) retried_by_seconds: BTreeMap<String, u64>,
    /// `refuse`, or `pass`: while its records cannot be kept, requests run without protection.
    pub(super) store_down: &'static str,
    /// The problems that a request can get, by name.
    #[serde(skip)]
    pub(super) problems: Vec<&'static str>,
    /// `enforce`, or `observe`: nothing is protected yet.
    pub(super) mode: &'static str,
    /// Statuses of problems that this operation has for itself.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) problem_statuses: BTreeMap<String, u16>,
}

#[derive(Debug, Serialize)]
pub(super) struct KeyPolicy {
    /// The field that it is in; or `body`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) header: Option<String>,
    /// The place in the body that it is at, as a JSON Pointer; of a form the name of a field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) body: Option<String>,
    pub(super) required: bool,
    pub(super) syntax: &'static str,
    pub(super) min_length: usize,
    pub(super) max_length: usize,
    pub(super) min_bits: u32,
}

#[derive(Debug, Serialize)]
pub(super) struct InFlightPolicy {
    /// How long a copy waits for the first attempt, in seconds.
    pub(super) wait_seconds: f64,
    /// `conflict` (409) or `accept` (202 with the address of the status).
    pub(super) then: &'static str,
    /// The preferences that are honoured (RFC 7240).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) preferences: Vec<&'static str>,
}

/// What may be retried, by whom, how often.
#[derive(Debug, Serialize)]
pub(super) struct Retries {
    pub(super) rules: Vec<&'static str>,
    pub(super) backoff: Backoff,
}

#[derive(Debug, Serialize)]
pub(super) struct Backoff {
    pub(super) kind: &'static str,
    pub(super) base_seconds: f64,
    pub(super) cap_seconds: f64,
    pub(super) attempts: u32,
}

#[derive(Debug, Serialize)]
pub(super) struct ProblemPolicy {
    #[serde(rename = "type")]
    pub(super) type_uri: String,
    #[serde(skip)]
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) status: u16,
    pub(super) retry: &'static str,
}

impl Policy {
    pub(super) fn of(config: &Config, presentation: &Presentation) -> Self {
        let mut seen = BTreeSet::new();
        // One whose routes lead to several services is in the configuration once for each.
        let operations = config.operations.iter();
        let operations = operations.filter(|operation| seen.insert(&operation.policy.name));
        let common = StatusCodes::new();
        let problem = |kind: ProblemKind| ProblemPolicy {
            type_uri: presentation.type_uri(kind),
            name: kind.name(),
            title: kind.title(),
            status: presentation.usual_status(kind, &common),
            retry: kind.retry().word(),
        };
        Self {
            version: 1,
            operations: operations
                .map(|operation| OperationPolicy::of(operation, &config.scope))
                .collect(),
            retries: Retries::advice(),
            problems: ProblemKind::ALL.into_iter().map(problem).collect(),
        }
    }

    pub(super) fn to_json(&self) -> String {
        // Plain data has no failure.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }
}

impl OperationPolicy {
    fn of(operation: &Operation, scope: &ScopeSource) -> Self {
        let policy = &operation.policy;
        let (kind, reason) = match &policy.kind {
            Kind::Keyed => ("keyed", None),
            Kind::Natural => ("natural", None),
            Kind::Unprotected { reason } => ("unprotected", Some(reason.clone())),
        };
        let route = |route: &crate::config::RoutePattern| RoutePolicy {
            method: route.method().to_string(),
            host: route.host().map(ToString::to_string),
            path: route.pattern().as_str().to_owned(),
        };
        Self {
            name: policy.name.to_string(),
            kind,
            reason,
            routes: operation.routes.iter().map(route).collect(),
            contract: operation.contract.clone(),
            keyed: (policy.kind == Kind::Keyed).then(|| KeyedPolicy::of(operation, scope)),
        }
    }
}

impl KeyedPolicy {
    fn of(operation: &Operation, scope: &ScopeSource) -> Self {
        let (policy, answers) = (&operation.policy, &operation.answers);
        let key = &policy.key;
        let (header, body) = match &key.from {
            KeySource::Header(name) => (Some(field_name(name)), None),
            KeySource::Body(place) => (None, Some(place.to_string())),
        };
        let mut intent = serde_json::to_value(&policy.fingerprint).unwrap_or_default();
        if let Value::Object(members) = &mut intent {
            members.remove("paths");
        }
        let preferences = [
            ("respond-async", answers.prefer.respond_async),
            ("wait", answers.prefer.wait.is_some()),
        ];
        Self {
            key: KeyPolicy {
                header,
                body,
                required: key.required,
                syntax: match key.policy.syntax {
                    KeySyntax::Lenient => "lenient",
                    KeySyntax::Strict => "strict",
                },
                min_length: key.policy.min_length,
                max_length: Key::MAX_LENGTH,
                min_bits: key.policy.min_bits,
            },
            intent,
            in_flight: InFlightPolicy {
                wait_seconds: match policy.in_flight {
                    InFlight::Conflict => 0.0,
                    InFlight::Wait(wait) => wait.as_secs_f64(),
                },
                then: if answers.accept { "accept" } else { "conflict" },
                preferences: preferences
                    .iter()
                    .filter_map(|(name, honoured)| honoured.then_some(*name))
                    .collect(),
            },
            unknown_outcome: policy.on_unknown.to_string(),
            outcome_seconds: policy.retention.outcome.as_secs(),
            key_seconds: policy.retention.tombstone.as_secs(),
            retried_by_seconds: seconds(&policy.retried_by),
            store_down: match policy.store_down {
                StoreDown::Refuse => "refuse",
                StoreDown::Pass => "pass",
            },
            problems: ProblemKind::ALL
                .into_iter()
                .filter(|kind| can_get(*kind, operation, scope))
                .map(ProblemKind::name)
                .collect(),
            mode: match policy.mode {
                Mode::Enforce => "enforce",
                Mode::Observe => "observe",
            },
            problem_statuses: answers
                .status_codes
                .iter()
                .map(|(kind, status)| (kind.name().to_owned(), *status))
                .collect(),
        }
    }
}

/// Whether a request of an operation can get such a problem.
fn can_get(kind: ProblemKind, operation: &Operation, scope: &ScopeSource) -> bool {
    use ProblemKind::{
        AuthorizationUnavailable, HandlerFailed, KeyMissing, OperationUnknown, PathUnclear,
        ReplayForbidden, ScopeMissing, ScopeUnavailable, UpstreamFailed,
    };
    match kind {
        KeyMissing => operation.policy.key.required,
        ReplayForbidden | AuthorizationUnavailable => operation.authorize.is_some(),
        ScopeMissing => !matches!(scope, ScopeSource::SingleTenant),
        ScopeUnavailable => matches!(scope, ScopeSource::Jwt(_)),
        // These are of other requests, or of services that hapax is built into.
        PathUnclear | UpstreamFailed | HandlerFailed | OperationUnknown => false,
        _ => true,
    }
}

/// A field's name as it is usually written: in capitals at the start of each word.
fn field_name(name: &str) -> String {
    let mut starts = true;
    let letter = |c: char| {
        let written = if starts { c.to_ascii_uppercase() } else { c };
        starts = c == '-';
        written
    };
    name.chars().map(letter).collect()
}

fn seconds(sources: &[(String, Duration)]) -> BTreeMap<String, u64> {
    sources.iter().map(|(source, horizon)| (source.clone(), horizon.as_secs())).collect()
}

impl Retries {
    fn advice() -> Self {
        Self {
            rules: vec![
                "Make the key before the first attempt, and keep it until the outcome is known. A \
                 new intent gets a new key, even with the same content.",
                "Retry at one layer only: the one that knows the intent. Proxies between this \
                 gateway and the service do not retry.",
                "Safe to repeat with the same key and content: no answer, a broken connection, a \
                 timeout, 5xx, 429, and every problem whose retry is same-request-and-key. It \
                 gets the first answer, or the truth that the outcome is not known, for as long as \
                 the key is remembered. Where the unknown outcome of an operation is resend, it may \
                 be sent to the service again under the same identity, which makes it one effect.",
                "An answer of 2xx with Hapax-Outcome: unknown or not-applied is no success.",
                "Wait for Retry-After where there is one. Otherwise back off with full jitter: a \
                 random time up to min(cap, base * 2^attempt).",
                "Program against the type of a problem, not against its status or its text.",
                "Idempotent-Replayed: true marks the first answer given again: a further retry \
                 changes nothing.",
                "Stop before Idempotency-Expires, and ask for the status instead of sending the \
                 intent under a new key.",
            ],
            backoff: Backoff {
                kind: "full-jitter",
                base_seconds: 0.5,
                cap_seconds: 20.0,
                attempts: 5,
            },
        }
    }
}
