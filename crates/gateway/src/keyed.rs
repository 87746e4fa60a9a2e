//! The way of a keyed request: key, scope, body, fingerprint, then the engine.

use std::sync::Arc;

use bytes::Bytes;
use hapax::{Ended, Executed, Execution, Intent, Reply};
use hapax_core::{Key, Problem, ProblemKind, RecordId, Said, Scope, StoredResponse};
use http::{
    HeaderMap, HeaderName, HeaderValue, Request, Response, Version, header::CONTENT_TYPE,
    request::Parts,
};
use metrics::counter;
use tracing::{Instrument, debug_span, info, warn};

use crate::{
    answers::{AnswerBody, HAPAX_OUTCOME, Live, refuse, respond},
    body::{Buffered, Collected, ReadError, collect_capped, read_bounded},
    gateway::{Route, Shared},
    headers,
    metric_definitions::UPSTREAM_FAILURES,
    passthrough,
    server::Inbound,
    upstream::{OutBody, Reuse, SendError, Upstream},
};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const HAPAX_ATTEMPT: HeaderName = HeaderName::from_static("hapax-attempt");

/// Answers a request of a keyed operation; without a key, where none is required, it passes.
pub(crate) async fn answer(
    shared: &Shared,
    route: &Route,
    upstream: &Upstream,
    head: Parts,
    body: Inbound,
) -> Response<AnswerBody> {
    let operation = &route.operation;
    let key = match key(route, &head.headers) {
        Ok(Some(key)) => key,
        Ok(None) if operation.policy().key.required => return refuse(&key_missing()),
        Ok(None) => return passthrough::answer(upstream, head, body, true).await,
        Err(problem) => return refuse(&problem),
    };
    match prepare(shared, route, &head, body, &key).await {
        Ok(prepared) => {
            let span = debug_span!("attempt", operation = %operation.name(), record = %prepared.id);
            run(shared, route, upstream, head, prepared).instrument(span).await
        }
        Err(problem) => refuse(&problem),
    }
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
    let mut lines = headers.get_all(header).iter();
    let scope = match (lines.next(), lines.next()) {
        (Some(line), None) => Scope::principal(line.as_bytes().trim_ascii()).ok(),
        _ => None,
    };
    scope.ok_or_else(|| {
        let detail = format!("The request needs exactly one {header} header saying whose it is.");
        Problem::new(ProblemKind::ScopeMissing, detail)
    })
}

/// What the engine needs of a request.
struct Prepared {
    id: RecordId,
    fingerprint: hapax_core::Fingerprint,
    intent: Intent,
    buffered: Buffered,
}

/// 2. to 4.: scope, body, fingerprint. Nothing is claimed before all of it is there.
async fn prepare(
    shared: &Shared,
    route: &Route,
    head: &Parts,
    body: Inbound,
    key: &Key,
) -> Result<Prepared, Problem> {
    let operation = &route.operation;
    let scope = scope(shared, &head.headers)?;
    if shared.hapax.is_draining() {
        return Err(Problem::new(ProblemKind::Draining, "This instance is shutting down.")
            .retry_after(std::time::Duration::from_secs(1)));
    }
    let buffered = read_bounded(body, shared.read_limits, &shared.budget)
        .await
        .map_err(|error| body_problem(&error))?;
    let intent = intent(route, head, buffered.bytes().clone());
    let fingerprint = operation
        .fingerprint(&intent)
        .map_err(|error| Problem::new(ProblemKind::BodyInvalid, error.to_string()))?;
    let id = RecordId::new(&scope, operation.name(), key);
    Ok(Prepared { id, fingerprint, intent, buffered })
}

/// The facts of a request that a fingerprint is computed from.
pub(crate) fn intent(route: &Route, head: &Parts, body: Bytes) -> Intent {
    let selected = &route.operation.policy().fingerprint.headers;
    let headers = selected.iter().flat_map(|name| {
        let values = head.headers.get_all(name.as_str()).iter();
        values.map(|value| (name.clone(), Bytes::copy_from_slice(value.as_bytes())))
    });
    let media_type = head.headers.get(CONTENT_TYPE);
    Intent {
        method: head.method.as_str().to_owned(),
        path: route.configured.open_part(&head.method, head.uri.path()),
        query: head.uri.query().map(str::to_owned),
        media_type: media_type.map(|value| Bytes::copy_from_slice(value.as_bytes())),
        headers: headers.collect(),
        body,
    }
}

fn body_problem(error: &ReadError) -> Problem {
    let kind = match error {
        ReadError::TooLarge { .. } => ProblemKind::BodyTooLarge,
        ReadError::TooSlow { .. } => ProblemKind::BodyTimeout,
        ReadError::NoRoom { .. } => ProblemKind::Overloaded,
        ReadError::Incomplete(_) => ProblemKind::BodyInvalid,
    };
    let problem = Problem::new(kind, error.to_string());
    match error {
        ReadError::NoRoom { .. } => problem.retry_after(std::time::Duration::from_secs(1)),
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
    head: Parts,
    prepared: Prepared,
) -> Response<AnswerBody> {
    let Prepared { id, fingerprint, intent, buffered } = prepared;
    let (upstream, route) = (upstream.clone(), route.clone());
    let operation = Arc::clone(&route.operation);
    let execute = move |execution: Execution| async move {
        let request = outgoing(head, &execution, &buffered);
        forward(&upstream, &route, request).await
    };
    let answer = shared.hapax.run(&operation, id, fingerprint, intent, execute).await;
    respond(answer)
}

/// The request as the service sees it: the effect id in the key's place, the attempt beside it.
fn outgoing(head: Parts, execution: &Execution, buffered: &Buffered) -> Request<OutBody> {
    let content = buffered.bytes().clone();
    let body = OutBody::full_with_trailers(content, buffered.trailers().cloned());
    let mut request = Request::new(body);
    let mut headers = head.headers;
    headers::to_upstream(&mut headers, head.version);
    headers::strip_ours_from_request(&mut headers);
    // A quoted UUID and a number are always valid values.
    if let Ok(effect_id) = HeaderValue::try_from(format!("\"{}\"", execution.effect_id())) {
        headers.insert(IDEMPOTENCY_KEY, effect_id);
    }
    headers.insert(HAPAX_ATTEMPT, HeaderValue::from(execution.attempt().to_wire()));
    *request.method_mut() = head.method;
    *request.uri_mut() = head.uri;
    *request.version_mut() = Version::HTTP_11;
    *request.headers_mut() = headers;
    request
}

/// Sends the request once and brings back what the engine has to know of the answer.
async fn forward(upstream: &Upstream, route: &Route, request: Request<OutBody>) -> Executed<Live> {
    let answer = match upstream.send(request, Reuse::Keyed).await {
        Ok(answer) => answer,
        Err(SendError::NeverSent { reason }) => {
            counter!(UPSTREAM_FAILURES, "sent" => "no").increment(1);
            info!(%reason, "the request never left; nothing was applied");
            return Executed { ended: Ended::NeverSent, live: None };
        }
        Err(SendError::Unknown { reason }) => {
            counter!(UPSTREAM_FAILURES, "sent" => "maybe").increment(1);
            warn!(%reason, "the request went out and no answer came back");
            return Executed { ended: Ended::Lost, live: None };
        }
    };
    let (mut head, body) = answer.into_parts();
    let said = said(&head.headers);
    let replayed = head.headers.get(headers::IDEMPOTENT_REPLAYED).is_some_and(|v| v == "true");
    headers::strip_ours_from_response(&mut head.headers);
    let status = head.status.as_u16();
    let by_head = |head, body| Executed {
        ended: Ended::Answered(Reply { status, by_head: true, said, replayed, response: None }),
        live: Some(Live { head, body }),
    };
    if headers::is_event_stream(&head.headers) {
        return by_head(head, AnswerBody::upstream(body));
    }
    match collect_capped(body, route.operation.policy().response_cap).await {
        Collected::OverCap(resumed) => by_head(head, AnswerBody::resumed(resumed)),
        Collected::Broken { received, error } => {
            counter!(UPSTREAM_FAILURES, "sent" => "maybe").increment(1);
            warn!(status, received, %error, "the answer broke off; it proves nothing");
            Executed { ended: Ended::Lost, live: None }
        }
        Collected::Complete { bytes, trailers } => {
            let response = StoredResponse {
                status,
                headers: storable(&head.headers, &route.replay_headers),
                body: bytes.clone(),
            };
            let reply = Reply { status, by_head: false, said, replayed, response: Some(response) };
            let body = AnswerBody::full(bytes, trailers);
            Executed { ended: Ended::Answered(reply), live: Some(Live { head, body }) }
        }
    }
}

/// What the service says of the effect id. A field that is there and cannot be read is no word to
/// rely on, so it counts as `unknown`.
pub(crate) fn said(headers: &HeaderMap) -> Option<Said> {
    let mut lines = headers.get_all(HAPAX_OUTCOME).iter();
    let first = lines.next()?;
    let word = Said::parse(first.as_bytes()).filter(|_| lines.next().is_none());
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
