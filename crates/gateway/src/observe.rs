//! Observe mode: everything is forwarded as it came, and what enforcing would have done is
//! reported. Nothing here can fail, delay or change a request.

use std::{sync::Arc, time::Duration};

use hapax::{
    Hapax, Operation,
    http::{RequestIntent, check_compared, headers::is_event_stream, key, said},
};
use hapax_core::{
    AnswerFacts, Classified, DecisionRules, Fingerprint, Key, ObservedEnd, ProblemKind, RecordId,
    Retention, Said, Scope, Would, classify,
};
use hapax_store::Observation;
use http::{Response, request::Parts, response};
use metrics::counter;
use sha2::{Digest, Sha256};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tracing::{debug, info};

use crate::{
    answer_body::AnswerBody,
    body::{BodyDigest, CleanEnd, NotRecorded, Recorded, hashing, recording, watching},
    keyed,
    metric_definitions::{OBSERVED, UNOBSERVED},
    passthrough,
    server::Inbound,
    shared::{Route, Shared},
    tunnel,
    upstream::{OutBody, Upstream},
};

/// How long after its last arrival an equal unkeyed request counts as the same one repeated.
const UNKEYED_WINDOW: Duration = Duration::from_secs(600);

/// How many arrivals may be under observation at once: beyond, they are only counted.
const MOST: usize = 4096;

/// The reporting of observe mode. Clones are one.
#[derive(Clone)]
pub(crate) struct Observer(Arc<Semaphore>);

impl Default for Observer {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MOST)))
    }
}

/// Forwards a request of an observed operation, and reports on it beside the way.
pub(crate) async fn answer(
    shared: &Shared,
    route: &Route,
    upstream: &Upstream,
    head: Parts,
    body: Inbound,
) -> Response<AnswerBody> {
    if tunnel::asked(&head).is_some() {
        counter!(UNOBSERVED, "reason" => "upgrade").increment(1);
        return passthrough::answer(shared, upstream, head, body, false).await;
    }
    let Ok(permit) = Arc::clone(&shared.observer.0).try_acquire_owned() else {
        counter!(UNOBSERVED, "reason" => "busy").increment(1);
        return passthrough::answer(shared, upstream, head, body, false).await;
    };
    let (body, arrival) = watch(shared, route, &head, body);
    let (told, answered) = oneshot::channel();
    tokio::spawn(report(shared.hapax.clone(), arrival, answered, permit));
    match passthrough::send(upstream, head, body, false).await {
        Ok(answer) => {
            let (head, body) = answer.into_parts();
            let (body, end) = watching(body);
            // Nobody listens when the arrival could not be observed.
            let _ = told.send(Sending::Answered(Seen::of(&head), end));
            Response::from_parts(head, AnswerBody::watched(body))
        }
        Err(problem) => {
            if problem.kind == ProblemKind::UpstreamUnreachable {
                let _ = told.send(Sending::Never);
            }
            shared.presentation.refuse(&problem, None)
        }
    }
}

/// An arrival whose body is still under way.
struct Arrival {
    operation: Arc<Operation>,
    identity: Identity,
}

/// By what an arrival will be recognised.
enum Identity {
    Keyed {
        id: RecordId,
        head: Arc<Parts>,
        content: Recorded,
    },
    Unkeyed {
        digest: BodyDigest,
        required: bool,
    },
    /// Enforcing would not have come as far as the body.
    Refused(&'static str),
}

/// Wraps the body so that its content is known at its end.
fn watch(shared: &Shared, route: &Route, head: &Parts, body: Inbound) -> (OutBody, Arrival) {
    let operation = &route.operation;
    let scope = keyed::scope(shared, head);
    let key = key(&operation.policy().key.policy, &route.fields.key, &head.headers);
    let (body, identity) = match (key, scope) {
        (Err(_), _) => (OutBody::streaming(body), Identity::Refused("refuse_key")),
        (Ok(Some(_)), Err(_)) => (OutBody::streaming(body), Identity::Refused("refuse_scope")),
        (Ok(Some(_)), Ok(_)) if check_compared(&route.fields.compared, &head.headers).is_err() => {
            (OutBody::streaming(body), Identity::Refused("refuse_body"))
        }
        (Ok(Some(key)), Ok(scope)) => {
            let id = RecordId::new(&scope, operation.name(), &key);
            let cap = shared.read_limits.max_bytes;
            let (body, content) = recording(body, cap, &shared.budget);
            let head = Arc::new(head.clone());
            (OutBody::streaming(body), Identity::Keyed { id, head, content })
        }
        (Ok(None), scope) => {
            let seed = unkeyed_seed(&scope.unwrap_or(Scope::single_tenant()), operation, head);
            let (body, digest) = hashing(body, seed);
            let required = operation.policy().key.required;
            (OutBody::streaming(body), Identity::Unkeyed { digest, required })
        }
    };
    (body, Arrival { operation: Arc::clone(operation), identity })
}

/// What the bytes of an unkeyed request are hashed after: scope, method and target.
fn unkeyed_seed(scope: &Scope, operation: &Operation, head: &Parts) -> Sha256 {
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

/// How forwarding went.
enum Sending {
    Never,
    Answered(Seen, CleanEnd),
}

/// What of an answer's head classifies it.
struct Seen {
    status: u16,
    event_stream: bool,
    said: Option<Said>,
}

impl Seen {
    fn of(head: &response::Parts) -> Self {
        Self {
            status: head.status.as_u16(),
            event_stream: is_event_stream(&head.headers),
            said: said(&head.headers),
        }
    }
}

/// Follows one arrival to its end. A store that fails is ignored.
async fn report(
    hapax: Hapax,
    arrival: Arrival,
    answered: oneshot::Receiver<Sending>,
    _permit: OwnedSemaphorePermit,
) {
    let Arrival { operation, identity } = arrival;
    let is_keyed = !matches!(identity, Identity::Unkeyed { .. });
    let (id, fingerprint) = match identify(&operation, identity).await {
        Identified::As(id, fingerprint) => (id, fingerprint),
        Identified::Refused(would) => {
            count(&operation, is_keyed, would);
            return info!(operation = %operation.name(), keyed = is_keyed, would, "observed");
        }
        Identified::No(reason) => return counter!(UNOBSERVED, "reason" => reason).increment(1),
    };
    let policy = operation.policy();
    let retention = if is_keyed {
        policy.retention
    } else {
        Retention { outcome: UNKEYED_WINDOW, tombstone: UNKEYED_WINDOW }
    };
    let observation = Observation {
        id,
        operation: operation.name().clone(),
        keyed: is_keyed,
        fingerprint,
        timeout: policy.timeout,
        rules: DecisionRules::stricter(operation.pinned(), operation.pinned()),
        retention,
    };
    let would = match hapax.store().arrive(observation).await {
        Ok(would) => would,
        Err(error) => {
            debug!(%error, "an arrival was not reported");
            return counter!(UNOBSERVED, "reason" => "store").increment(1);
        }
    };
    count(&operation, is_keyed, would.word());
    if would != Would::Execute {
        return info!(
            operation = %operation.name(), record = %id, keyed = is_keyed, would = would.word(),
            duplicate = would.duplicates(), "observed"
        );
    }
    let end = end(&operation, answered).await;
    if let Err(error) = hapax.store().finish(id, end).await {
        debug!(%error, "an end was not reported");
    }
}

fn count(operation: &Operation, is_keyed: bool, would: &'static str) {
    let name = operation.name().as_str().to_owned();
    let keyed = if is_keyed { "yes" } else { "no" };
    counter!(OBSERVED, "operation" => name, "keyed" => keyed, "would" => would).increment(1);
}

/// What is known of an arrival once its body has passed.
enum Identified {
    As(RecordId, Fingerprint),
    /// Enforcing would have refused it.
    Refused(&'static str),
    /// It cannot be told.
    No(&'static str),
}

async fn identify(operation: &Operation, identity: Identity) -> Identified {
    match identity {
        Identity::Refused(would) => Identified::Refused(would),
        Identity::Keyed { id, head, content } => match content.await {
            Ok(Ok(body)) => {
                let intent = RequestIntent::new(operation.name(), &head, body.bytes());
                match operation.fingerprint(&intent) {
                    Ok(fingerprint) => Identified::As(id, fingerprint),
                    Err(_) => Identified::Refused("refuse_body"),
                }
            }
            Ok(Err(NotRecorded::TooLarge)) => Identified::Refused("refuse_body_too_large"),
            Ok(Err(NotRecorded::NoRoom)) => Identified::No("room"),
            Err(_) => Identified::No("body"),
        },
        Identity::Unkeyed { digest, required } => {
            if required {
                count(operation, false, "refuse_key_missing");
            }
            match digest.await {
                Ok(digest) => {
                    let version = operation.policy().fingerprint.version();
                    Identified::As(RecordId::from_bytes(digest), Fingerprint::new(version, digest))
                }
                Err(_) => Identified::No("body"),
            }
        }
    }
}

/// How the forwarded attempt ended, as enforcing would have classified it.
async fn end(operation: &Operation, answered: oneshot::Receiver<Sending>) -> ObservedEnd {
    let (seen, end) = match answered.await {
        Ok(Sending::Answered(seen, end)) => (seen, end),
        Ok(Sending::Never) => return ObservedEnd::NotApplied,
        Err(_) => return ObservedEnd::Unknown,
    };
    let facts = AnswerFacts {
        status: seen.status,
        complete: seen.event_stream || end.await.is_ok(),
        by_head: seen.event_stream,
        said: seen.said,
        clean: true,
        store_refusals: operation.policy().store_refusals,
    };
    match classify(facts) {
        Classified::Outcome(class) => ObservedEnd::Outcome(class),
        Classified::NotApplied => ObservedEnd::NotApplied,
        Classified::Uncertain { .. } => ObservedEnd::Unknown,
    }
}
