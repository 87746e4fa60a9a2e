//! Observe mode: everything is forwarded as it came, and what enforcing would have done is
//! reported. Nothing here can fail, delay or change a request.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use hapax::Operation;
use hapax_core::{
    AnswerFacts, Classified, DecisionRules, Fingerprint, Key, ObservedEnd, RecordId, Retention,
    Said, Would, classify,
};
use hapax_store::Observation;
use http::{Response, request::Parts, response};
use metrics::counter;
use sha2::{Digest, Sha256};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tracing::{debug, info};

use crate::{
    answers::{AnswerBody, refuse},
    body::{CleanEnd, HashingBody, RecordingBody, WatchedBody},
    gateway::{Route, Shared},
    headers, keyed,
    metric_definitions::{OBSERVED, UNOBSERVED},
    passthrough,
    server::Inbound,
    upstream::{OutBody, Upstream},
};

/// How long two equal unkeyed requests count as one repeated.
const UNKEYED_WINDOW: Duration = Duration::from_secs(600);

/// How many arrivals may be under observation at once: beyond, they are only counted.
const MOST: usize = 4096;

/// The reporting of observe mode.
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
    let Ok(permit) = Arc::clone(&shared.observer.0).try_acquire_owned() else {
        counter!(UNOBSERVED, "reason" => "busy").increment(1);
        return passthrough::answer(upstream, head, body, false).await;
    };
    let (body, arrival) = match watch(shared, route, &head, body) {
        Ok(watched) => watched,
        Err((body, would)) => {
            counter!(
                OBSERVED,
                "operation" => route.operation.name().as_str().to_owned(),
                "keyed" => "yes",
                "would" => would
            )
            .increment(1);
            info!(operation = %route.operation.name(), would, "observed");
            return passthrough::answer(upstream, head, body, false).await;
        }
    };
    let (told, answered) = oneshot::channel();
    tokio::spawn(report(shared.hapax.clone(), arrival, answered, permit));
    match passthrough::send(upstream, head, body, false).await {
        Ok(answer) => {
            let (head, body) = answer.into_parts();
            let (body, end) = WatchedBody::new(body);
            // Nobody listens when the arrival could not be observed.
            let _ = told.send((Seen::of(&head), end));
            Response::from_parts(head, AnswerBody::watched(body))
        }
        // Without an answer the report ends as unknown.
        Err(problem) => refuse(&problem),
    }
}

/// An arrival whose body is still under way.
struct Arrival {
    operation: Arc<Operation>,
    identity: Identity,
}

enum Identity {
    Keyed { id: RecordId, head: Box<IntentHead>, content: oneshot::Receiver<Bytes> },
    Unkeyed { digest: crate::body::BodyDigest },
}

/// What of a head the intent needs once the body is there.
type IntentHead = hapax::Intent;

/// Wraps the body so that its content is known at its end, or says why enforcing would not have
/// come that far.
fn watch(
    shared: &Shared,
    route: &Route,
    head: &Parts,
    body: Inbound,
) -> Result<(OutBody, Arrival), (Inbound, &'static str)> {
    let operation = Arc::clone(&route.operation);
    let key = match keyed::key(route, &head.headers) {
        Ok(key) => key,
        Err(_) => return Err((body, "refuse_key")),
    };
    let Ok(scope) = keyed::scope(shared, &head.headers) else {
        return Err((body, "refuse_scope"));
    };
    match key {
        Some(key) => {
            let id = RecordId::new(&scope, operation.name(), &key);
            let intent = Box::new(keyed::intent(route, head, Bytes::new()));
            let (body, content) = RecordingBody::new(body, shared.read_limits.max_bytes);
            let identity = Identity::Keyed { id, head: intent, content };
            Ok((OutBody::streaming(body), Arrival { operation, identity }))
        }
        None => {
            // The same scope, method, target and bytes: the id that a key made of them would have.
            let target = head.uri.path_and_query().map_or("", |target| target.as_str());
            let name = format!("{}\0{target}\0", head.method);
            let seed = Key::from_bytes(b"unkeyed")
                .map(|key| RecordId::new(&scope, operation.name(), &key));
            let seed = seed.map_or_else(|_| [0; 32], |id| *id.as_bytes());
            let hash = Sha256::new().chain_update(seed).chain_update(name);
            let (body, digest) = HashingBody::new(body, hash);
            let identity = Identity::Unkeyed { digest };
            Ok((OutBody::streaming(body), Arrival { operation, identity }))
        }
    }
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
            event_stream: headers::is_event_stream(&head.headers),
            said: keyed::said(&head.headers),
        }
    }
}

/// Follows one arrival to its end. A store that fails is ignored.
async fn report(
    hapax: hapax::Hapax,
    arrival: Arrival,
    answered: oneshot::Receiver<(Seen, CleanEnd)>,
    _permit: OwnedSemaphorePermit,
) {
    let Arrival { operation, identity } = arrival;
    let Some((id, fingerprint, is_keyed)) = identify(&operation, identity).await else {
        counter!(UNOBSERVED, "reason" => "body").increment(1);
        return;
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
            counter!(UNOBSERVED, "reason" => "store").increment(1);
            debug!(%error, "an arrival was not reported");
            return;
        }
    };
    let name = operation.name().as_str().to_owned();
    let keyed_word = if is_keyed { "yes" } else { "no" };
    counter!(OBSERVED, "operation" => name, "keyed" => keyed_word, "would" => would.word())
        .increment(1);
    if would != Would::Execute {
        info!(
            operation = %operation.name(), record = %id, keyed = is_keyed, would = would.word(),
            duplicate = would.duplicates(), "observed"
        );
        return;
    }
    let end = end(&operation, answered).await;
    if let Err(error) = hapax.store().finish(id, end).await {
        debug!(%error, "an end was not reported");
    }
}

async fn identify(
    operation: &Operation,
    identity: Identity,
) -> Option<(RecordId, Fingerprint, bool)> {
    match identity {
        Identity::Keyed { id, head, content } => {
            let intent = hapax::Intent { body: content.await.ok()?, ..*head };
            let fingerprint = operation.fingerprint(&intent).ok()?;
            Some((id, fingerprint, true))
        }
        Identity::Unkeyed { digest } => {
            let digest = digest.finished().await?;
            let version = operation.policy().fingerprint.version();
            Some((RecordId::from_bytes(digest), Fingerprint::new(version, digest), false))
        }
    }
}

/// How the forwarded attempt ended, as enforcing would have classified it.
async fn end(operation: &Operation, answered: oneshot::Receiver<(Seen, CleanEnd)>) -> ObservedEnd {
    let Ok((seen, end)) = answered.await else {
        return ObservedEnd::Unknown;
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
