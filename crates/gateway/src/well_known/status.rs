//! The status of an operation: what has become of it, without its answer.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use hapax::{OperationStatus, http::key};
use hapax_core::{
    EffectId, Handle, OperationName, Problem, ProblemKind, RecordId, Scope, State, StoreTime,
};
use http::{
    HeaderName, HeaderValue, Response, StatusCode,
    header::{CACHE_CONTROL, CONTENT_TYPE, LINK, LOCATION, RETRY_AFTER},
    request::Parts,
};
use serde::Serialize;

use super::PATH;
use crate::{
    answer_body::AnswerBody,
    cors::{self, AnswerOf},
    shared::Shared,
};

const OPERATIONS: &str = "/operations/";

/// The parameter that names the record to those that do not have the key.
const OF: &str = "of";

/// What has become of an operation.
#[derive(Serialize)]
struct Status {
    #[serde(skip_serializing_if = "Option::is_none")]
    operation: Option<String>,
    id: String,
    state: &'static str,
    attempt: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    created: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<Outcome>,
}

#[derive(Serialize)]
struct Outcome {
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    /// Whether a retry gets the answer.
    replayable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    replayed_until: Option<String>,
}

/// Where the status of a record is, for its scope; nowhere where there are no documents.
fn address(shared: &Shared, id: RecordId, scope: &Scope) -> Option<String> {
    shared.well_known.as_ref()?;
    let effect_id = shared.hapax.effect_id(&id)?;
    let handle = shared.hapax.handle(id, scope)?;
    Some(format!("{PATH}{OPERATIONS}{effect_id}?{OF}={handle}"))
}

/// `Link` to the status of a record (RFC 8631).
pub(crate) fn link(
    shared: &Shared,
    id: RecordId,
    scope: &Scope,
    response: &mut Response<AnswerBody>,
) {
    let link = address(shared, id, scope).map(|address| format!("<{address}>; rel=\"status\""));
    if let Some(link) = link.and_then(|link| HeaderValue::try_from(link).ok()) {
        response.headers_mut().append(LINK, link);
    }
}

/// 202: the operation goes on, and its status is over there. It says nothing of the effect.
pub(crate) fn accepted(shared: &Shared, id: RecordId, scope: &Scope) -> Response<AnswerBody> {
    let effect_id = shared.hapax.effect_id(&id).map(|id| id.to_string()).unwrap_or_default();
    let mut response = json(&serde_json::json!({ "id": effect_id, "state": "executing" }));
    *response.status_mut() = StatusCode::ACCEPTED;
    let headers = response.headers_mut();
    let unknown = HeaderName::from_static("hapax-outcome");
    headers.insert(unknown, HeaderValue::from_static("unknown"));
    headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
    let location = address(shared, id, scope).and_then(|at| HeaderValue::try_from(at).ok());
    if let Some(location) = location {
        headers.insert(LOCATION, location);
    }
    link(shared, id, scope, &mut response);
    response
}

/// Answers `GET …/operations/{effect id}`: for the scope that the operation belongs to, by the
/// address that an answer named, or by the operation's key.
pub(super) async fn answer(shared: &Shared, head: &Parts, rest: &str) -> Response<AnswerBody> {
    let mut asked = Asked::default();
    let mut answer = match status(shared, head, rest, &mut asked).await {
        Ok(status) => describe(&status),
        Err(problem) => shared.presentation.refuse(&problem, None),
    };
    let operation = asked.operation.as_ref().map(OperationName::as_str).unwrap_or_default();
    let of = AnswerOf::Ours(asked.scope.as_ref());
    shared.cors.answer(cors::origin(&head.headers).as_ref(), operation, of, answer.headers_mut());
    answer
}

/// What is asked about, as far as that is known.
#[derive(Default)]
struct Asked {
    scope: Option<Scope>,
    operation: Option<OperationName>,
}

async fn status(
    shared: &Shared,
    head: &Parts,
    rest: &str,
    asked: &mut Asked,
) -> Result<OperationStatus, Problem> {
    let effect_id = rest.strip_prefix(OPERATIONS).and_then(EffectId::parse).ok_or_else(unknown)?;
    let scope = shared.scopes.scope_after_refresh(head).await?;
    asked.scope = Some(scope.clone());
    let named = of(head.uri.query()).and_then(|handle| shared.hapax.open_handle(&handle, &scope));
    let id = named.or_else(|| by_key(shared, head, &scope, effect_id)).ok_or_else(unknown)?;
    let found = match shared.status_of_run(&id) {
        Some(ran) => Some(ran),
        None => shared.hapax.status(id).await.map_err(|_| {
            Problem::new(ProblemKind::StoreUnavailable, "The store of operations is not available.")
                .retry_after(Duration::from_secs(1))
        })?,
    };
    let status = found.filter(|status| status.effect_id == effect_id).ok_or_else(unknown)?;
    asked.operation.clone_from(&status.operation);
    may_see(shared, head, &scope, &status).await?;
    Ok(status)
}

fn unknown() -> Problem {
    Problem::new(ProblemKind::OperationUnknown, "There is no such operation of this caller.")
}

/// How an operation ended is shown to those who may see its outcome.
async fn may_see(
    shared: &Shared,
    head: &Parts,
    scope: &Scope,
    status: &OperationStatus,
) -> Result<(), Problem> {
    if status.outcome.is_none() {
        return Ok(());
    }
    let operation = status.operation.as_ref();
    let authorizers = shared.authorizers_of(operation).ok_or_else(unknown)?;
    let Some(operation) = operation else { return Ok(()) };
    for authorizer in authorizers {
        let question = authorizer.question(head, shared.scopes.header(), scope, operation);
        authorizer.ask(&question, operation).await?;
    }
    Ok(())
}

/// The handle in a query.
fn of(query: Option<&str>) -> Option<Handle> {
    let mut pairs = query?.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find(|(name, _)| *name == OF).and_then(|(_, value)| Handle::parse(value))
}

/// The record of the request's key, under whichever operation it has this effect id.
fn by_key(shared: &Shared, head: &Parts, scope: &Scope, effect_id: EffectId) -> Option<RecordId> {
    shared.keyed().find_map(|route| {
        let rules = &route.operation.policy().key;
        let key = key(&rules.policy, route.fields.key.header()?, &head.headers).ok()??;
        let id = RecordId::new(scope, route.operation.name(), &key);
        (shared.hapax.effect_id(&id) == Some(effect_id)).then_some(id)
    })
}

fn describe(status: &OperationStatus) -> Response<AnswerBody> {
    let (state, goes_on) = match status.state {
        State::Claimed | State::Executing => ("executing", true),
        State::Released => ("not-applied", false),
        State::Succeeded => ("succeeded", false),
        State::FailedTerminal => ("failed", false),
        State::Uncertain => ("unknown", true),
        // What it came to is remembered, its answer is not.
        State::Tombstone if status.outcome.is_some_and(|outcome| outcome.succeeded) => {
            ("succeeded", false)
        }
        State::Tombstone => ("failed", false),
    };
    let mut response = json(&Status {
        operation: status.operation.as_ref().map(ToString::to_string),
        id: status.effect_id.to_string(),
        state,
        attempt: status.attempt.to_wire(),
        created: moment(status.created),
        outcome: status.outcome.map(|outcome| Outcome {
            status: outcome.status,
            replayable: outcome.kept,
            at: moment(outcome.at),
            replayed_until: outcome.kept.then(|| moment(outcome.replayed_until)).flatten(),
        }),
    });
    if goes_on {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

fn json(value: &impl Serialize) -> Response<AnswerBody> {
    let text = serde_json::to_vec(value).unwrap_or_default();
    let mut response = Response::new(AnswerBody::from(Bytes::from(text)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// RFC 3339, in whole seconds; `None` beyond what that can say.
fn moment(time: StoreTime) -> Option<String> {
    let since = Duration::from_micros(u64::try_from(time.as_micros()).ok()?);
    (since.as_secs() < 253_402_300_800)
        .then(|| humantime::format_rfc3339_seconds(SystemTime::UNIX_EPOCH + since).to_string())
}
