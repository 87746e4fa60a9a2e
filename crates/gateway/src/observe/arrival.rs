//! An observed request: as what enforcing would have recognised it.

use std::sync::Arc;

use hapax::{
    Operation,
    http::{
        KeyPlace, RequestIntent,
        body::{BufferBudget, Buffered, DecodeError, ReadLimits},
        body_key, check_compared, fingerprint, key, needed_content,
    },
};
use hapax_core::{Fingerprint, Key, Problem, ProblemKind, RecordId, Scope};
use http::request::Parts;
use sha2::{Digest, Sha256};

use crate::{
    body::{BodyDigest, NotRecorded, Recorded, hashing, recording},
    server::Inbound,
    shared::{Route, Shared},
    upstream::OutBody,
};

/// An arrival whose body is still under way.
pub(super) struct Arrival {
    pub(super) operation: Arc<Operation>,
    place: KeyPlace,
    limits: ReadLimits,
    budget: BufferBudget,
    identity: Identity,
}

/// By what an arrival will be recognised.
enum Identity {
    /// By the key in its head, or one that its body may tell.
    Keyed { key: Option<Key>, scope: Result<Scope, Problem>, head: Arc<Parts>, content: Recorded },
    /// By its bytes.
    Unkeyed(BodyDigest),
    /// Enforcing would not have come as far as the body.
    Refused(&'static str),
}

/// What is known of an arrival once its body has passed.
pub(super) enum Identified {
    Keyed(RecordId, Fingerprint),
    Unkeyed(RecordId, Fingerprint),
    /// Enforcing would have refused it.
    Refused(&'static str),
    /// It cannot be told.
    No(&'static str),
}

impl Arrival {
    /// Wraps the body so that its content is known at its end.
    pub(super) fn watch(
        shared: &Shared,
        route: &Route,
        head: &Parts,
        body: Inbound,
    ) -> (OutBody, Self) {
        let (body, identity) = Identity::watch(shared, route, head, body);
        let arrival = Self {
            operation: Arc::clone(&route.operation),
            place: route.fields.key.clone(),
            limits: shared.read_limits,
            budget: shared.budget.clone(),
            identity,
        };
        (body, arrival)
    }

    /// Follows the body to its end.
    pub(super) async fn identify(self) -> Identified {
        let Self { operation, place, limits, budget, identity } = self;
        let (key, scope, head, body) = match identity {
            Identity::Refused(would) => return Identified::Refused(would),
            Identity::Unkeyed(digest) => {
                return match digest.await {
                    Ok(digest) => unkeyed(&operation, digest),
                    Err(_) => Identified::No("body"),
                };
            }
            Identity::Keyed { key, scope, head, content } => match content.await {
                Ok(Ok(body)) => (key, scope, head, body),
                Ok(Err(NotRecorded::TooLarge)) => {
                    return Identified::Refused("refuse_body_too_large");
                }
                Ok(Err(NotRecorded::NoRoom)) => return Identified::No("room"),
                Err(_) => return Identified::No("body"),
            },
        };
        let (headers, sent, policy) = (&head.headers, body.bytes(), operation.policy());
        let content = match needed_content(policy, &place, headers, sent, limits, &budget).await {
            Ok(content) => content,
            Err(DecodeError::NoRoom { .. } | DecodeError::TooSlow { .. }) => {
                return Identified::No("room");
            }
            Err(DecodeError::TooLarge { .. } | DecodeError::TooDense) => {
                return Identified::Refused("refuse_body_too_large");
            }
            Err(_) => return Identified::Refused("refuse_body"),
        };
        let key = match (key, &place) {
            (None, KeyPlace::Body(at)) => {
                match body_key(policy, at, headers, content.of(sent), &budget).await {
                    Ok(Some(key)) => key,
                    Ok(None) => {
                        return unkeyed(&operation, digest(&scope, &operation, &head, &body));
                    }
                    Err(problem) => return unread(&problem),
                }
            }
            (Some(key), _) => key,
            (None, KeyPlace::Header(_)) => return Identified::No("body"),
        };
        let Ok(scope) = scope else { return Identified::Refused("refuse_scope") };
        let intent = RequestIntent::new(operation.name(), &head, sent);
        let intent = intent.with_content(content).within(&budget);
        match fingerprint(&operation, &intent).await {
            Ok(fingerprint) => {
                Identified::Keyed(RecordId::new(&scope, operation.name(), &key), fingerprint)
            }
            Err(problem) => unread(&problem),
        }
    }
}

impl Identity {
    fn watch(shared: &Shared, route: &Route, head: &Parts, body: Inbound) -> (OutBody, Self) {
        let operation = &route.operation;
        let rules = &operation.policy().key;
        let scope = shared.scopes.scope(head);
        let key = match &route.fields.key {
            KeyPlace::Header(header) => key(&rules.policy, header, &head.headers),
            KeyPlace::Body(_) => Ok(None),
        };
        let in_body = matches!(route.fields.key, KeyPlace::Body(_));
        let needs_scope = in_body && rules.required;
        let refused = match (&key, &scope) {
            (Err(_), _) => Some("refuse_key"),
            (Ok(key), Err(_)) if key.is_some() || needs_scope => Some("refuse_scope"),
            (Ok(None), _) if !in_body => None,
            _ => {
                let compared = check_compared(&route.fields.compared, &head.headers);
                compared.is_err().then_some("refuse_body")
            }
        };
        match (refused, key) {
            (Some(would), _) => (OutBody::streaming(body), Self::Refused(would)),
            (None, Ok(key)) if key.is_some() || in_body => {
                let (body, content) = recording(body, shared.read_limits.max_bytes, &shared.budget);
                let head = Arc::new(head.clone());
                (OutBody::streaming(body), Self::Keyed { key, scope, head, content })
            }
            (None, _) => {
                let (body, digest) = hashing(body, unkeyed_seed(&scope, operation, head));
                (OutBody::streaming(body), Self::Unkeyed(digest))
            }
        }
    }
}

/// An arrival whose body has no key or intent that could be read.
fn unread(problem: &Problem) -> Identified {
    match problem.kind {
        ProblemKind::KeyInvalid => Identified::Refused("refuse_key"),
        ProblemKind::Overloaded => Identified::No("room"),
        _ => Identified::Refused("refuse_body"),
    }
}

fn unkeyed(operation: &Operation, digest: [u8; 32]) -> Identified {
    let version = operation.policy().fingerprint.version();
    Identified::Unkeyed(RecordId::from_bytes(digest), Fingerprint::new(version, digest))
}

/// The digest of an unkeyed request whose body was read.
fn digest(
    scope: &Result<Scope, Problem>,
    operation: &Operation,
    head: &Parts,
    body: &Buffered,
) -> [u8; 32] {
    unkeyed_seed(scope, operation, head).chain_update(body.bytes()).finalize().into()
}

/// What the bytes of an unkeyed request are hashed after: scope, method and target.
fn unkeyed_seed(scope: &Result<Scope, Problem>, operation: &Operation, head: &Parts) -> Sha256 {
    let single = Scope::single_tenant();
    let scope = scope.as_ref().unwrap_or(&single);
    let target = head.uri.path_and_query().map_or("", |target| target.as_str());
    let mut hash = Sha256::new();
    hash.update(b"hapax unkeyed\0");
    // The id that a key of this scope would have keeps scopes and operations apart.
    if let Ok(key) = Key::from_bytes(b"unkeyed") {
        hash.update(RecordId::new(scope, operation.name(), &key).as_bytes());
    }
    for part in [head.method.as_str(), target] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash
}
