//! The way of a request through the layer: key, scope, body, fingerprint, then the engine.

use std::{
    future, mem,
    pin::Pin,
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll},
};

use bytes::Bytes;
use hapax_core::{Key, Pointer, Problem, ProblemKind, RecordId, Said, StoredResponse};
use http::{HeaderMap, Request, Response, request::Parts};
use http_body::Body;
use tower_service::Service;
use tracing::{Instrument, info_span, warn};

use super::{Access, Authorize, Door, Way, original_target, webhook::identify};
use crate::{
    Answer, Attempt, Ended, Executed, Reply,
    claim::Attempting,
    desk::{Arrived, Desk},
    http::{
        KeyPlace, RequestIntent, authorization_unavailable, authorized,
        body::{BoxError, Buffered, ResponseBody, read_bounded},
        body_key, check_compared, fingerprint,
        headers::is_retried,
        key, key_missing, needed_content, read_reply, refuse, replay_forbidden, respond,
    },
};

/// A service that takes effect once for each key.
#[derive(Clone)]
pub struct OperationService<S> {
    door: Arc<Door>,
    inner: S,
}

impl<S> OperationService<S> {
    pub(super) const fn new(door: Arc<Door>, inner: S) -> Self {
        Self { door, inner }
    }
}

impl<S: std::fmt::Debug> std::fmt::Debug for OperationService<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OperationService").field("inner", &self.inner).finish_non_exhaustive()
    }
}

type Answered<B, E> = Result<Response<ResponseBody<B>>, E>;

impl<S, B, R> Service<Request<B>> for OperationService<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError> + Send + 'static,
    B: Body<Data = Bytes> + From<Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
    R: Body<Data = Bytes> + Unpin + Send + 'static,
    R::Error: Into<BoxError> + Send,
{
    type Response = Response<ResponseBody<R>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Answered<R, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // The one that was polled ready; its clone need not be (pitfall 43).
        let clone = self.inner.clone();
        let mut ready = mem::replace(&mut self.inner, clone);
        let key = match key_in_head(&self.door, request.headers()) {
            Ok(Some(key)) => key,
            Ok(None) => {
                let retried = is_retried(request.headers());
                let answer = hapax_above::when(retried, ready.call(request));
                return Box::pin(async { Ok(answer.await?.map(ResponseBody::streaming)) });
            }
            Err(problem) => return Box::pin(future::ready(Ok(refuse(&problem)))),
        };
        let (head, body) = request.into_parts();
        Box::pin(answer(Arc::clone(&self.door), ready, Arc::new(head), body, key))
    }
}

fn answer<S, B, R>(
    door: Arc<Door>,
    inner: S,
    head: Arc<Parts>,
    body: B,
    key: HeadKey,
) -> impl Future<Output = Answered<R, S::Error>> + Send
where
    S: Service<Request<B>, Response = Response<R>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError> + Send + 'static,
    B: Body<Data = Bytes> + From<Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
    R: Body<Data = Bytes> + Unpin + Send + 'static,
    R::Error: Into<BoxError> + Send,
{
    async move {
        if door.protected.is_bare.load(Ordering::Relaxed) {
            return Ok(refuse(&not_set_up()));
        }
        let prepared = match prepare(&door, head, body, key).await {
            Ok(Prepared::Keyed(keyed)) => keyed,
            Ok(Prepared::Unkeyed { head, buffered }) => {
                return Box::pin(unkeyed(inner, head, buffered)).await;
            }
            Err(problem) => return Ok(refuse(&problem)),
        };
        let (operation, record) = (&door.policy().name, prepared.arrived.id);
        let span = info_span!("attempt", %operation, %record);
        let head = door.authorize.is_some().then(|| Arc::clone(&prepared.head));
        let answer = run(&door, inner, prepared).instrument(span).await;
        Ok(respond(match (&door.authorize, head) {
            (Some(may_see), Some(head)) => {
                Box::pin(authorized(*answer, || permission(may_see.as_ref(), head))).await
            }
            _ => *answer,
        }))
    }
}

/// Passes a request on whose key was to be in its body, and was not.
async fn unkeyed<S, B, R>(
    mut inner: S,
    head: Arc<Parts>,
    buffered: Buffered,
) -> Answered<R, S::Error>
where
    S: Service<Request<B>, Response = Response<R>>,
    B: From<Bytes>,
    R: Body<Data = Bytes>,
{
    let body = B::from(buffered.bytes().clone());
    let answer = inner.call(Request::from_parts(Arc::unwrap_or_clone(head), body)).await?;
    Ok(answer.map(ResponseBody::streaming))
}

/// A request whose body is there.
enum Prepared {
    Keyed(Keyed),
    /// It has no key, and none is required.
    Unkeyed {
        head: Arc<Parts>,
        buffered: Buffered,
    },
}

/// What the engine and the service need of a request.
struct Keyed {
    arrived: Arrived,
    head: Arc<Parts>,
    buffered: Buffered,
}

/// 1. The key, before any other work, as far as the head tells.
enum HeadKey {
    /// The caller's.
    Key(Key),
    /// The caller's, which the body tells.
    InTheBody(Pointer),
    /// The event's, which its body tells.
    OfTheEvent,
}

/// `None`: it has none, and none is required.
fn key_in_head(door: &Door, headers: &HeaderMap) -> Result<Option<HeadKey>, Problem> {
    if door.events.is_some() {
        return Ok(Some(HeadKey::OfTheEvent));
    }
    let rules = &door.policy().key;
    match &door.fields.key {
        KeyPlace::Body(place) => Ok(Some(HeadKey::InTheBody(place.clone()))),
        KeyPlace::Header(header) => match key(&rules.policy, header, headers)? {
            None if rules.required => Err(key_missing(&door.fields.key)),
            key => Ok(key.map(HeadKey::Key)),
        },
    }
}

/// 2. to 4.: scope, body, fingerprint. Nothing is claimed before all of it is there.
fn prepare<B>(
    door: &Door,
    head: Arc<Parts>,
    body: B,
    key: HeadKey,
) -> impl Future<Output = Result<Prepared, Problem>>
where
    B: Body<Data = Bytes> + Send,
    B::Error: Into<BoxError>,
{
    async move {
        let policy = door.policy();
        let scope = match key {
            HeadKey::OfTheEvent => None,
            HeadKey::InTheBody(_) if !policy.key.required => door.scope(&head),
            _ => Some(door.scope(&head).ok_or_else(scope_missing)?),
        };
        check_compared(&door.fields.compared, &head.headers)?;
        let buffered =
            read_bounded(body, door.limits, &door.budget).await.map_err(|error| error.problem())?;
        let (place, headers, sent) = (&door.fields.key, &head.headers, buffered.bytes());
        let content = needed_content(policy, place, headers, sent, door.limits, &door.budget).await;
        let content = content.map_err(|error| error.problem())?;
        let (key, scope) = match (key, &door.events) {
            (HeadKey::Key(key), _) => (key, scope),
            (HeadKey::InTheBody(place), _) => {
                match body_key(policy, &place, headers, content.of(sent), &door.budget).await? {
                    Some(key) => (key, scope),
                    None if policy.key.required => return Err(key_missing(&door.fields.key)),
                    None => return Ok(Prepared::Unkeyed { head, buffered }),
                }
            }
            (HeadKey::OfTheEvent, Some(verify)) => {
                let (key, scope) = identify(verify.as_ref(), &head, buffered.bytes())?;
                (key, Some(scope))
            }
            (HeadKey::OfTheEvent, None) => return Err(key_missing(&door.fields.key)),
        };
        let scope = scope.ok_or_else(scope_missing)?;
        let operation = door.protected.whole.operation();
        let intent = RequestIntent::new(operation.name(), &head, buffered.bytes());
        let mut intent = intent.with_content(content);
        if let Some(target) = original_target(&head) {
            intent = intent.with_target(target);
        }
        let intent = Arc::new(intent.within(&door.budget));
        let fingerprint = fingerprint(operation, &intent).await?;
        let id = RecordId::new(&scope, operation.name(), &key);
        let protected = Arc::clone(&door.protected);
        let arrived = Arrived { protected, id, fingerprint, intent };
        Ok(Prepared::Keyed(Keyed { arrived, head, buffered }))
    }
}

/// The problem of a service that does not keep to its side.
pub(super) fn not_set_up() -> Problem {
    Problem::new(
        ProblemKind::HandlerFailed,
        "The service is not set up to protect this operation. Nothing was executed.",
    )
}

fn scope_missing() -> Problem {
    Problem::new(ProblemKind::ScopeMissing, "The request does not say whose it is.")
}

/// 5. to 8.: the engine claims, decides, executes by the service, settles.
fn run<S, B, R>(
    door: &Arc<Door>,
    inner: S,
    prepared: Keyed,
) -> impl Future<Output = Box<Answer<Live<R>>>> + Send
where
    S: Service<Request<B>, Response = Response<R>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError> + Send,
    B: From<Bytes> + Send + 'static,
    R: Body<Data = Bytes> + Unpin + Send + 'static,
    R::Error: Into<BoxError> + Send,
{
    async move {
        let engine = &door.engine;
        match door.way {
            Way::Taken => {
                let Keyed { arrived, head, buffered } = prepared;
                let door = Arc::clone(door);
                let execute =
                    move |desk: Arc<Desk>| Box::pin(call(door, inner, head, desk, buffered));
                engine.run_taking(arrived, execute).await
            }
            Way::Bracketed => {
                let operation = match prepared.arrived.protected.whole.ready(engine).await {
                    Ok(operation) => Arc::clone(operation),
                    Err(error) => return Box::new(Answer::Problem(engine.store_problem(&error))),
                };
                let Keyed { arrived, head, buffered } = prepared;
                let door = Arc::clone(door);
                let execute = move |attempt: Attempt| {
                    // The engine has dropped the intent by now, so the head is not copied.
                    let calling = Box::pin(call(door, inner, head, attempt.clone(), buffered));
                    async move {
                        let executed = calling.await;
                        if attempt.sent().may_have_left() { executed } else { not_executed() }
                    }
                };
                let Arrived { id, fingerprint, intent, .. } = arrived;
                let attempting = Attempting::new(engine.clone(), operation, id, fingerprint);
                engine.track(|slot| attempting.run(intent, execute, slot)).await
            }
        }
    }
}

type Live<R> = Response<ResponseBody<R>>;

/// The request as the service gets it.
fn request<B: From<Bytes>, X: Clone + Send + Sync + 'static>(
    head: Arc<Parts>,
    buffered: &Buffered,
    taken_from: X,
) -> Request<B> {
    let mut head = Arc::unwrap_or_clone(head);
    head.extensions.insert(taken_from);
    Request::from_parts(head, B::from(buffered.bytes().clone()))
}

/// A handler was to take an attempt where the service is protected as a whole: it was not called.
fn not_executed<B: From<Bytes>>() -> Box<Executed<Response<B>>> {
    let status = ProblemKind::HandlerFailed.status();
    let response = Some(StoredResponse { status, ..StoredResponse::default() });
    let said = Some(Said::NotApplied);
    let reply = Reply { status, said, told: None, replayed: false, response, retry_after: None };
    Box::new(Executed { ended: Ended::Answered(reply), live: Some(refuse(&not_set_up())) })
}

/// Calls the service, which takes its attempt from the request, and reads its answer as far as
/// settling needs it.
fn call<S, B, R, X>(
    door: Arc<Door>,
    mut inner: S,
    head: Arc<Parts>,
    taken_from: X,
    buffered: Buffered,
) -> impl Future<Output = Box<Executed<Live<R>>>>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Error: Into<BoxError>,
    B: From<Bytes>,
    X: Clone + Send + Sync + 'static,
    R: Body<Data = Bytes> + Unpin,
    R::Error: Into<BoxError>,
{
    async move {
        let retried = is_retried(&head.headers);
        let answering = inner.call(request(head, &buffered, taken_from));
        // Clients that the service uses leave it to whoever sends this request again.
        let answer = match hapax_above::when(retried, answering).await {
            Ok(answer) => answer,
            Err(error) => {
                let error: BoxError = error.into();
                warn!(%error, "the service failed without an answer");
                return Box::new(Executed::lost());
            }
        };
        let cap = door.policy().response_cap;
        let read =
            read_reply(answer, cap, &door.fields.replayed, door.policy().outcome.as_ref()).await;
        // Until here the body of the request may be in use.
        drop(buffered);
        match read {
            Ok((reply, live)) => {
                Box::new(Executed { ended: Ended::Answered(reply), live: Some(live) })
            }
            Err(broken) => {
                let error: BoxError = broken.error.into();
                warn!(status = broken.status, %error, "the answer of the service broke off");
                Box::new(Executed::lost())
            }
        }
    }
}

/// What the service says, as the problem that withholds an earlier outcome where it says no.
async fn permission(may_see: &Authorize, head: Arc<Parts>) -> Result<(), Problem> {
    match may_see(head).await {
        Access::Granted => Ok(()),
        Access::Denied => Err(replay_forbidden()),
        Access::Unknown => Err(authorization_unavailable()),
    }
}
