//! Observe mode: everything is forwarded as it came, and what enforcing would have done is
//! reported. Nothing here can fail, delay or change a request.

use std::{sync::Arc, time::Duration};

use hapax::{
    Hapax, Operation,
    http::{headers::is_event_stream, said, told},
};
use hapax_core::{
    AnswerFacts, Classified, DecisionRules, ObservedEnd, ProblemKind, Retention, Said, Told, Would,
    classify,
};
use hapax_store::Observation;
use http::{HeaderMap, Response, request::Parts, response};
use metrics::counter;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tracing::{debug, info};

use crate::{
    answer_body::AnswerBody,
    body::{CleanEnd, Recorded, recording, watching},
    metric_definitions::{OBSERVED, UNOBSERVED},
    passthrough,
    server::Inbound,
    shared::{Route, Shared},
    tunnel,
    upstream::{Upstream, UpstreamBody},
};

mod arrival;

use arrival::{Arrival, Identified};

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
    head: Box<Parts>,
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
    let (body, arrival) = Arrival::watch(shared, route, &head, body);
    let (told, answered) = oneshot::channel();
    tokio::spawn(report(shared.hapax.clone(), arrival, answered, permit));
    match passthrough::send(upstream, head, body, false).await {
        Ok(answer) => {
            let (head, body) = answer.into_parts();
            let (body, end) = watch_answer(shared, &route.operation, &head, body);
            // Nobody listens when the arrival could not be observed.
            let _ = told.send(Sending::Answered(Seen::of(&head), end));
            Response::from_parts(head, body)
        }
        Err(problem) => {
            if problem.kind == ProblemKind::UpstreamUnreachable {
                let _ = told.send(Sending::Never);
            }
            shared.presentation.refuse(&problem, None)
        }
    }
}

/// Wraps the body of an answer so that its end is known, and its content where that tells the
/// outcome.
fn watch_answer(
    shared: &Shared,
    operation: &Operation,
    head: &response::Parts,
    body: UpstreamBody,
) -> (AnswerBody, AnswerEnd) {
    let policy = operation.policy();
    let tells = policy.outcome.is_some() && head.status.is_success();
    if tells && !is_event_stream(&head.headers) {
        let (body, content) = recording(body, policy.response_cap, &shared.budget);
        (AnswerBody::recorded(body), AnswerEnd::Told(head.headers.clone(), content))
    } else {
        let (body, end) = watching(body);
        (AnswerBody::watched(body), AnswerEnd::Clean(end))
    }
}

/// How forwarding went.
enum Sending {
    Never,
    Answered(Seen, AnswerEnd),
}

/// The end of an answer.
enum AnswerEnd {
    Clean(CleanEnd),
    /// Its content tells the outcome.
    Told(HeaderMap, Recorded),
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
    let operation = Arc::clone(&arrival.operation);
    let (id, fingerprint, is_keyed) = match arrival.identify().await {
        Identified::Keyed(id, fingerprint) => (id, fingerprint, true),
        Identified::Unkeyed(id, fingerprint) => {
            if operation.policy().key.required {
                count(&operation, false, "refuse_key_missing");
            }
            (id, fingerprint, false)
        }
        Identified::Refused(would) => {
            let is_keyed = true;
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

/// How the forwarded attempt ended, as enforcing would have classified it.
async fn end(operation: &Operation, answered: oneshot::Receiver<Sending>) -> ObservedEnd {
    let (seen, end) = match answered.await {
        Ok(Sending::Answered(seen, end)) => (seen, end),
        Ok(Sending::Never) => return ObservedEnd::NotApplied,
        Err(_) => return ObservedEnd::Unknown,
    };
    let outcome = operation.policy().outcome.as_ref();
    let (complete, told) = match end {
        AnswerEnd::Clean(end) => {
            (seen.event_stream || end.await.is_ok(), outcome.map(|_| Told::Unknown))
        }
        AnswerEnd::Told(headers, content) => match (content.await, outcome) {
            (Ok(Ok(body)), Some(rules)) => (true, Some(told(rules, &headers, body.bytes()).await)),
            // Larger than what is kept: enforcing would not know more.
            (Ok(_), _) => (true, Some(Told::Unknown)),
            (Err(_), _) => (false, Some(Told::Unknown)),
        },
    };
    let facts = AnswerFacts {
        status: seen.status,
        complete,
        by_head: seen.event_stream,
        said: seen.said,
        told,
        clean: true,
        store_refusals: operation.policy().store_refusals,
    };
    match classify(facts) {
        Classified::Outcome(class) => ObservedEnd::Outcome(class),
        Classified::NotApplied => ObservedEnd::NotApplied,
        Classified::Uncertain { .. } => ObservedEnd::Unknown,
    }
}
