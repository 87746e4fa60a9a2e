//! The way of a keyed request: key, scope, body, fingerprint, then the engine.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use hapax::{Ended, Executed, Execution, Intent, Reply};
use hapax_core::{
    BodyInvalid, Fingerprint, Fingerprinter, IntentParts, Key, OperationName, Problem, ProblemKind,
    RecordId, Said, Scope, StoredResponse,
};
use http::{
    HeaderMap, HeaderName, HeaderValue, Request, Response, Version,
    header::{CONTENT_ENCODING, CONTENT_TYPE, EXPECT, RETRY_AFTER},
    request::Parts,
};
use metrics::counter;
use tracing::{Instrument, info, info_span, warn};

use crate::{
    answers::{AnswerBody, HAPAX_OUTCOME, Live, refuse, respond},
    body::{Buffered, Collected, ReadError, collect_capped, discard, read_bounded},
    headers,
    metric_definitions::UPSTREAM_FAILURES,
    passthrough,
    server::Inbound,
    shared::{Route, Shared},
    upstream::{OutBody, Reuse, SendError, Upstream},
};

const HAPAX_ATTEMPT: HeaderName = HeaderName::from_static("hapax-attempt");

/// Answers a request of a keyed operation; without a key, where none is required, it passes. Also
/// says which way it took.
pub(crate) async fn answer(
    shared: &Shared,
    route: &Route,
    upstream: &Upstream,
    head: Parts,
    mut body: Inbound,
) -> (&'static str, Response<AnswerBody>) {
    let operation = &route.operation;
    let expects = head.headers.contains_key(EXPECT);
    let prepared = match key(route, &head.headers) {
        Ok(Some(key)) => prepare(shared, route, head, &mut body, &key).await,
        Ok(None) if operation.policy().key.required => Err(key_missing()),
        Ok(None) => {
            return ("keyed_without_key", passthrough::answer(upstream, head, body, true).await);
        }
        Err(problem) => Err(problem),
    };
    let answer = match prepared {
        Ok(prepared) => {
            let span = info_span!("attempt", operation = %operation.name(), record = %prepared.id);
            run(shared, route, upstream, prepared).instrument(span).await
        }
        Err(problem) => refuse_unread(&problem, body, expects).await,
    };
    ("keyed", answer)
}

/// Refuses a request whose body may still be under way. A client that waits to be asked for it is
/// not asked.
pub(crate) async fn refuse_unread(
    problem: &Problem,
    body: Inbound,
    expects: bool,
) -> Response<AnswerBody> {
    // One that was too slow is not given more time.
    let is_slow = problem.kind == ProblemKind::BodyTimeout;
    if !is_slow && (body.was_asked_for() || !expects) {
        discard(body).await;
    }
    refuse(problem)
}

/// 1. The key, before any other work.
pub(crate) fn key(route: &Route, headers: &HeaderMap) -> Result<Option<Key>, Problem> {
    let lines = headers.get_all(&route.key_header).iter().map(HeaderValue::as_bytes);
    Key::from_field(lines, &route.operation.policy().key.policy)
        .map_err(|error| Problem::new(ProblemKind::KeyInvalid, error.to_string()))
}

/// 2. The scope; a request that does not say whose it is is refused, never put into a common one.
pub(crate) fn scope(shared: &Shared, headers: &HeaderMap) -> Result<Scope, Problem> {
    let Some(header) = &shared.scope_header else {
        return Ok(Scope::single_tenant());
    };
    let line = headers::only(headers, header).filter(|_| !headers::ends_here(headers, header));
    let scope = line.and_then(|line| Scope::principal(line.as_bytes().trim_ascii()).ok());
    scope.ok_or_else(|| {
        let detail = format!("The request needs exactly one {header} header saying whose it is.");
        Problem::new(ProblemKind::ScopeMissing, detail)
    })
}

/// What is compared must be what the service sees: one line of each field that says how the body
/// is to be read, and none of them taken away at this hop.
pub(crate) fn check_compared(route: &Route, headers: &HeaderMap) -> Result<(), Problem> {
    let refuse = |field: &HeaderName, what: &str| {
        let detail = format!("The request's {field} {what}.");
        Err(Problem::new(ProblemKind::BodyInvalid, detail))
    };
    for field in [CONTENT_TYPE, CONTENT_ENCODING] {
        if headers.contains_key(&field) && headers::only(headers, &field).is_none() {
            return refuse(&field, "is there more than once; send one line");
        }
    }
    let compared = route.compared_headers.iter();
    let of_this_hop = [&CONTENT_TYPE, &CONTENT_ENCODING]
        .into_iter()
        .chain(compared)
        .find(|field| headers::ends_here(headers, field));
    match of_this_hop {
        Some(field) => refuse(field, "is named by Connection and so would not reach the service"),
        None => Ok(()),
    }
}

/// What the engine needs of a request.
struct Prepared {
    id: RecordId,
    fingerprint: Fingerprint,
    intent: RequestIntent,
    buffered: Buffered,
}

/// 2. to 4.: scope, body, fingerprint. Nothing is claimed before all of it is there.
async fn prepare(
    shared: &Shared,
    route: &Route,
    head: Parts,
    body: &mut Inbound,
    key: &Key,
) -> Result<Prepared, Problem> {
    let operation = &route.operation;
    let scope = scope(shared, &head.headers)?;
    check_compared(route, &head.headers)?;
    let buffered = read_bounded(body, shared.read_limits, &shared.budget)
        .await
        .map_err(|error| body_problem(&error))?;
    let intent = RequestIntent::new(operation.name(), &Arc::new(head), buffered.bytes());
    let fingerprint = operation.fingerprint(&intent).map_err(body_invalid)?;
    let id = RecordId::new(&scope, operation.name(), key);
    Ok(Prepared { id, fingerprint, intent, buffered })
}

/// A request as an intent: all of it, since older records may be compared by other parts.
pub(crate) struct RequestIntent {
    operation: OperationName,
    head: Arc<Parts>,
    body: Bytes,
}

impl RequestIntent {
    pub(crate) fn new(operation: &OperationName, head: &Arc<Parts>, body: &Bytes) -> Self {
        Self { operation: operation.clone(), head: Arc::clone(head), body: body.clone() }
    }
}

impl Intent for RequestIntent {
    fn fingerprint(&self, fingerprinter: &Fingerprinter) -> Result<Fingerprint, BodyInvalid> {
        let headers = &self.head.headers;
        let lines: Vec<(&str, &[u8])> =
            headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        fingerprinter.fingerprint(&IntentParts {
            operation: self.operation.as_str(),
            method: self.head.method.as_str(),
            path: self.head.uri.path(),
            query: self.head.uri.query(),
            media_type: headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes),
            content_encoding: headers.get(CONTENT_ENCODING).map(HeaderValue::as_bytes),
            headers: &lines,
            body: &self.body,
        })
    }
}

fn body_invalid(error: BodyInvalid) -> Problem {
    Problem::new(ProblemKind::BodyInvalid, error.to_string())
}

fn body_problem(error: &ReadError) -> Problem {
    let kind = match error {
        ReadError::TooLarge { .. } => ProblemKind::BodyTooLarge,
        ReadError::TooSlow { .. } => ProblemKind::BodyTimeout,
        ReadError::NoRoom { .. } => ProblemKind::Overloaded,
        ReadError::Incomplete(_) | ReadError::Trailers => ProblemKind::BodyInvalid,
    };
    let problem = Problem::new(kind, error.to_string());
    match error {
        ReadError::NoRoom { .. } => problem.retry_after(Duration::from_secs(1)),
        _ => problem,
    }
}

fn key_missing() -> Problem {
    Problem::new(
        ProblemKind::KeyMissing,
        "This operation requires an Idempotency-Key: one fresh random value, such as a UUID, for \
         each intent, sent again unchanged with each of its retries.",
    )
}

/// 5. to 9.: the engine claims, decides, executes by [`forward`], settles; then the reply.
async fn run(
    shared: &Shared,
    route: &Route,
    upstream: &Upstream,
    prepared: Prepared,
) -> Response<AnswerBody> {
    let Prepared { id, fingerprint, intent, buffered } = prepared;
    let head = Arc::clone(&intent.head);
    let (upstream, route) = (upstream.clone(), route.clone());
    let operation = Arc::clone(&route.operation);
    let execute = move |execution: Execution| async move {
        // The engine has dropped the intent by now, so the head is not copied.
        let request = outgoing(&route, Arc::unwrap_or_clone(head), &execution, &buffered);
        forward(&upstream, &route, request, &execution).await
    };
    respond(shared.hapax.run(&operation, id, fingerprint, intent, execute).await)
}

/// The request as the service sees it: the effect id in the key's place, the attempt beside it.
fn outgoing(
    route: &Route,
    head: Parts,
    execution: &Execution,
    buffered: &Buffered,
) -> Request<OutBody> {
    let mut request = Request::new(OutBody::full(buffered.bytes().clone()));
    let mut headers = head.headers;
    headers::to_upstream(&mut headers, head.version);
    headers::strip_ours_from_request(&mut headers);
    for field in route.look_alikes.iter() {
        headers::strip_look_alikes(&mut headers, field);
    }
    // A quoted UUID and a number are always valid values.
    if let Ok(effect_id) = HeaderValue::try_from(format!("\"{}\"", execution.effect_id())) {
        headers.insert(headers::IDEMPOTENCY_KEY, effect_id);
    }
    headers.insert(HAPAX_ATTEMPT, HeaderValue::from(execution.attempt().to_wire()));
    *request.method_mut() = head.method;
    *request.uri_mut() = head.uri;
    *request.version_mut() = Version::HTTP_11;
    *request.headers_mut() = headers;
    request
}

/// Sends the request once and brings back what the engine has to know of the answer.
async fn forward(
    upstream: &Upstream,
    route: &Route,
    request: Request<OutBody>,
    execution: &Execution,
) -> Executed<Live> {
    let effect_id = execution.effect_id();
    let answer = match upstream.send_telling(request, Reuse::Keyed, execution.sent()).await {
        Ok(answer) => answer,
        Err(SendError::NeverSent { reason }) => {
            counter!(UPSTREAM_FAILURES, "sent" => "no").increment(1);
            info!(%effect_id, %reason, "the request never left; nothing was applied");
            return Executed { ended: Ended::NeverSent, live: None };
        }
        Err(SendError::Unknown { reason }) => {
            counter!(UPSTREAM_FAILURES, "sent" => "maybe").increment(1);
            info!(%effect_id, %reason, "the request went out and no answer came back");
            return Executed { ended: Ended::Lost, live: None };
        }
    };
    let (mut head, body) = answer.into_parts();
    let said = said(&head.headers);
    let replayed = head.headers.get(headers::IDEMPOTENT_REPLAYED).is_some_and(|v| v == "true");
    headers::strip_ours_from_response(&mut head.headers);
    let status = head.status.as_u16();
    let retry_after = head.headers.get(RETRY_AFTER);
    let retry_after = retry_after.map(|value| Bytes::copy_from_slice(value.as_bytes()));
    let reply = Reply { status, said, replayed, response: None, retry_after };
    let by_head = |head, body| Executed {
        ended: Ended::Answered(reply.clone()),
        live: Some(Live { head, body }),
    };
    if headers::is_event_stream(&head.headers) {
        return by_head(head, AnswerBody::upstream(body));
    }
    match collect_capped(body, route.operation.policy().response_cap).await {
        Collected::OverCap(resumed) => by_head(head, AnswerBody::resumed(resumed)),
        Collected::Broken { received, error } => {
            counter!(UPSTREAM_FAILURES, "sent" => "maybe").increment(1);
            info!(%effect_id, status, received, %error, "the answer broke off; it proves nothing");
            Executed { ended: Ended::Lost, live: None }
        }
        Collected::Complete { bytes, trailers } => {
            let response = StoredResponse {
                status,
                headers: storable(&head.headers, &route.replay_headers),
                body: bytes.clone(),
            };
            let reply = Reply { response: Some(response), ..reply };
            let body = AnswerBody::full(bytes, trailers);
            Executed { ended: Ended::Answered(reply), live: Some(Live { head, body }) }
        }
    }
}

/// What the service says of the effect id. A field that is there and cannot be read is no word to
/// rely on, so it counts as `unknown`.
pub(crate) fn said(headers: &HeaderMap) -> Option<Said> {
    if !headers.contains_key(HAPAX_OUTCOME) {
        return None;
    }
    let word = headers::only(headers, &HAPAX_OUTCOME).and_then(|line| Said::parse(line.as_bytes()));
    if word.is_none() {
        warn!("Hapax-Outcome is not one of applied, not-applied, unknown; taken as unknown");
    }
    word.or(Some(Said::Unknown))
}

fn storable(headers: &HeaderMap, extras: &[HeaderName]) -> Vec<(Bytes, Bytes)> {
    let kept = headers::storable(headers, extras).into_iter();
    let bytes = |name: HeaderName, value: HeaderValue| {
        let name = Bytes::copy_from_slice(name.as_str().as_bytes());
        (name, Bytes::copy_from_slice(value.as_bytes()))
    };
    kept.map(|(name, value)| bytes(name, value)).collect()
}
