//! What file and flags have said so far, each value with the place it came from.

use std::{collections::BTreeMap, net::SocketAddr};

use hapax_core::{Kind, Mode, OperationName, OperationPolicy};
use http::{HeaderName, Uri};

use super::{
    Answers, At, Cors, EffectSecretSource, HostPattern, Limits, Place, Probe, Problems,
    RoutePattern, ScopeSource, StoreLocation, address, operation::Choice,
};
use crate::{
    forwarded::Forwarding,
    tls::{ServerTlsConfig, UpstreamTlsConfig},
    upstream::Protocol,
};

/// A configuration before its parts are held against each other.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) listen: Option<At<SocketAddr>>,
    pub(super) operator_listen: Option<At<SocketAddr>>,
    pub(super) tls: Option<ServerTlsConfig>,
    pub(super) operator_tls: Option<ServerTlsConfig>,
    pub(super) forwarding: Forwarding,
    pub(super) store: Option<At<StoreLocation>>,
    pub(super) effect_secret: EffectSecretSource,
    /// `Some(None)` is a scope that was given and is wrong.
    pub(super) scope: Option<Option<At<ScopeSource>>>,
    pub(super) single_instance: bool,
    pub(super) services: Vec<ServiceDraft>,
    pub(super) operations: Vec<OperationDraft>,
    pub(super) limits: Limits,
    pub(super) problems: Problems,
    pub(super) cors: Option<Cors>,
    pub(super) policy_document: Option<bool>,
    /// `Some(None)` switches it off.
    pub(super) request_id: Option<Option<HeaderName>>,
    pub(super) workers: Option<usize>,
    pub(super) group_commit: Option<usize>,
    pub(super) sweep: Option<usize>,
}

/// A service. What is absent is reported already.
#[derive(Debug)]
pub(super) struct ServiceDraft {
    pub(super) place: Place,
    pub(super) name: Option<OperationName>,
    pub(super) upstream: Option<At<Uri>>,
    /// Without the slash at its end: `""` is every path.
    pub(super) prefix: Option<At<String>>,
    /// `Some(None)` is a host that was given and is wrong.
    pub(super) host: Option<Option<At<HostPattern>>>,
    pub(super) protocol: Option<At<Protocol>>,
    pub(super) tls: Option<At<UpstreamTlsConfig>>,
    /// For operations that do not say it themselves.
    pub(super) authorize: Option<Choice>,
}

impl ServiceDraft {
    /// What records know it by; `None` where that is wrong.
    pub(super) fn identity(&self) -> Option<String> {
        let origin = || self.upstream.as_ref().map(|at| address::origin(&at.value));
        self.name.as_ref().map(ToString::to_string).or_else(origin)
    }

    /// The host that it is for; `None` is every host.
    pub(super) fn host(&self) -> Option<&HostPattern> {
        self.host.as_ref()?.as_ref().map(|at| &at.value)
    }
}

/// An operation. Its policy has no target yet.
#[derive(Debug)]
pub(super) struct OperationDraft {
    pub(super) place: Place,
    pub(super) policy: OperationPolicy,
    /// Where each setting was given, by its key.
    pub(super) places: BTreeMap<&'static str, Place>,
    pub(super) routes: Vec<At<RoutePattern>>,
    pub(super) contract: BTreeMap<String, String>,
    pub(super) answers: Answers,
    pub(super) probe: Option<Probe>,
    pub(super) authorize: Option<Choice>,
    /// Whether nobody wrote it: each service has its own, where there are several.
    pub(super) of_each_service: bool,
    /// Whether every value of its own was right. Otherwise holding them against each other would
    /// find what follows from that only.
    pub(super) sound: bool,
}

impl OperationDraft {
    pub(super) fn new(place: Place, policy: OperationPolicy) -> Self {
        Self {
            place,
            policy,
            places: BTreeMap::new(),
            routes: Vec::new(),
            contract: BTreeMap::new(),
            answers: Answers::default(),
            probe: None,
            authorize: None,
            of_each_service: false,
            sound: true,
        }
    }

    /// Whether its records decide what is executed.
    pub(super) fn enforces(&self) -> bool {
        enforces(&self.policy)
    }

    /// Takes over a value, if there is one, and remembers where it was given.
    pub(super) fn set<T>(
        &mut self,
        key: &'static str,
        value: Option<At<T>>,
        put: impl FnOnce(&mut OperationPolicy, T),
    ) {
        if let Some(At { place, value }) = value {
            self.places.insert(key, place);
            put(&mut self.policy, value);
        }
    }

    /// Where the first of these settings was given that was, else the whole operation.
    pub(super) fn place_of(&self, keys: &[&'static str]) -> &Place {
        keys.iter().find_map(|key| self.places.get(*key)).unwrap_or(&self.place)
    }
}

/// Whether the records of an operation decide what is executed.
pub(super) fn enforces(policy: &OperationPolicy) -> bool {
    policy.kind == Kind::Keyed && policy.mode == Mode::Enforce
}
