//! The way of a keyed request: key, scope, body, fingerprint, then the engine.

use std::sync::Arc;

use hapax::{
    Answer, Attempt, Ended, Executed, FirstOutcome, Sent,
    failpoints::{self, Failpoint},
    http::{
        BrokenOff, KeyPlace, RequestIntent, authorized,
        body::{Buffered, ReadError, read_bounded},
        body_key, check_compared, fingerprint,
        headers::{
            HAPAX_ATTEMPT, HAPAX_DEADLINE, IDEMPOTENCY_KEY, strip_look_alikes,
            strip_ours_from_request,
        },
        key, key_missing, moment, needed_content, read_reply, respond,
    },
};
use hapax_core::{EffectId, Fingerprint, Problem, ProblemKind, RecordId, Scope, StoreTime};
use http::{HeaderValue, Request, Response, StatusCode, Version, header::EXPECT, request::Parts};
use tokio::sync::oneshot;
use tracing::{Instrument, info, info_span, warn};

use crate::{
    answer_body::AnswerBody,
    authorize::Question,
    body::discard,
    causes::with_causes,
    cors::{self, AnswerOf},
    forwarded, headers,
    outage::Passing,
    passthrough,
    preference::Preference,
    server::{Inbound, IncompleteRequest},
    shared::{Route, Shared},
    unprotected::{Goes, Passed, WithoutRecord},
    upstream::{OutBody, Reuse, SendError, Upstream},
    well_known::{accepted, link},
};

/// Answers a request of a keyed operation; without a key, where none is required, it passes. Also
/// says which way it took.
pub(crate) async fn answer(
    shared: &Shared,
    route: &Route,
    upstream: &Upstream,
    head: Box<Parts>,
    body: Inbound,
) -> (&'static str, Response<AnswerBody>) {
    let origin = cors::origin(&head.headers);
    let Way { way, scope, is_live, mut answer } = go(shared, route, upstream, head, body).await;
    let operation = route.operation.name().as_str();
    let scope = scope.as_ref();
    let of = if is_live { AnswerOf::Service(scope) } else { AnswerOf::Ours(scope) };
    shared.cors.answer(origin.as_ref(), operation, of, answer.headers_mut());
    (way, answer)
}

/// Which way a request took, and what came of it.
struct Way {
    way: &'static str,
    /// Whose it is, as far as that was found out.
    scope: Option<Scope>,
    /// Whether the service made the answer just now.
    is_live: bool,
    answer: Response<AnswerBody>,
}

async fn go(
    shared: &Shared,
    route: &Route,
    upstream: &Upstream,
    head: Box<Parts>,
    mut body: Inbound,
) -> Way {
    let operation = &route.operation;
    let expects = head.headers.contains_key(EXPECT);
    let preference = Preference::of(&head.headers, route.answers.prefer);
    match prepare(shared, route, head, &mut body).await {
        Ok(Prepared::Keyed(keyed)) => {
            let request = shared.request_id().and_then(|id| keyed.intent.head().headers.get(id));
            let request = request.and_then(|id| id.to_str().ok());
            let (operation, record) = (operation.name(), keyed.id);
            let span = info_span!("attempt", %operation, %record, request);
            let scope = Some(keyed.scope.clone());
            let running = run(shared, route, upstream, keyed, preference).instrument(span);
            let (is_live, answer) = running.await;
            Way { way: "keyed", scope, is_live, answer }
        }
        Ok(Prepared::Unkeyed { head, read }) => {
            // Boxed, as all that is rare: it would be part of the future of every keyed request.
            let answer = match read {
                None => Box::pin(passthrough::answer(shared, upstream, head, body, true)).await,
                Some(body) => {
                    Box::pin(passthrough::answer_whole(shared, upstream, head, &body)).await
                }
            };
            Way { way: "keyed_without_key", scope: None, is_live: true, answer }
        }
        Err(problem) => {
            let refusing = refuse_unread(shared, Some(route), &problem, body, expects);
            let answer = Box::pin(refusing).await;
            Way { way: "keyed", scope: None, is_live: false, answer }
        }
    }
}

/// Refuses a request whose body may still be under way. A client that waits to be asked for it is
/// not asked.
pub(crate) async fn refuse_unread(
    shared: &Shared,
    route: Option<&Route>,
    problem: &Problem,
    body: Inbound,
    expects: bool,
) -> Response<AnswerBody> {
    // One that was too slow is not given more time.
    let is_slow = problem.kind == ProblemKind::BodyTimeout;
    if !is_slow && (body.was_asked_for() || !expects) {
        discard(body).await;
    }
    shared.presentation.refuse(problem, route.map(|route| &route.answers.status_codes))
}

/// A request that may go on.
enum Prepared {
    Keyed(Box<Keyed>),
    /// It has no key, and none is required. Its body was read where the key would have been in it.
    Unkeyed {
        head: Box<Parts>,
        read: Option<Buffered>,
    },
}

/// What the engine needs of a request.
struct Keyed {
    id: RecordId,
    scope: Scope,
    fingerprint: Fingerprint,
    intent: RequestIntent,
    buffered: Buffered,
    /// What is asked before the outcome of an earlier attempt is shown.
    question: Option<Question>,
}

/// 1. to 4.: key, scope, body, fingerprint. Nothing is claimed before all of it is there.
async fn prepare(
    shared: &Shared,
    route: &Route,
    head: Box<Parts>,
    body: &mut Inbound,
) -> Result<Prepared, Problem> {
    let (operation, place) = (&route.operation, &route.fields.key);
    let policy = operation.policy();
    let key_in_head = match place {
        KeyPlace::Header(header) => match key(&policy.key.policy, header, &head.headers)? {
            None if policy.key.required => return Err(key_missing(place)),
            None => return Ok(Prepared::Unkeyed { head, read: None }),
            key => key,
        },
        KeyPlace::Body(_) => None,
    };
    // Where the body may turn out to have no key, nothing is refused for want of a scope.
    let is_keyed = key_in_head.is_some() || policy.key.required;
    let early = if is_keyed { Some(shared.scopes.scope_after_refresh(&head).await?) } else { None };
    check_compared(&route.fields.compared, &head.headers)?;
    let buffered = read_bounded(body, shared.read_limits, &shared.budget)
        .await
        .map_err(|error| body_problem(&error))?;
    let content = needed_content(
        policy,
        place,
        &head.headers,
        buffered.bytes(),
        shared.read_limits,
        &shared.budget,
    );
    let content = content.await.map_err(|error| error.problem())?;
    let key = match place {
        KeyPlace::Header(_) => key_in_head,
        KeyPlace::Body(at) => {
            let content = content.of(buffered.bytes());
            body_key(policy, at, &head.headers, content, &shared.budget).await?
        }
    };
    let Some(key) = key else {
        return match policy.key.required {
            true => Err(key_missing(place)),
            false => Ok(Prepared::Unkeyed { head, read: Some(buffered) }),
        };
    };
    let scope = match early {
        Some(scope) => scope,
        None => shared.scopes.scope_after_refresh(&head).await?,
    };
    let question = route.authorizer.as_ref().map(|authorizer| {
        authorizer.question(&head, shared.scopes.header(), &scope, operation.name())
    });
    let intent = RequestIntent::new(operation.name(), &Arc::from(head), buffered.bytes());
    let intent = intent.with_content(content).within(&shared.budget);
    let fingerprint = fingerprint(operation, &intent).await?;
    let id = RecordId::new(&scope, operation.name(), &key);
    Ok(Prepared::Keyed(Box::new(Keyed { id, scope, fingerprint, intent, buffered, question })))
}

/// The problem of a body that did not come whole; one that stopped was too slow.
fn body_problem(error: &ReadError) -> Problem {
    match error {
        ReadError::Incomplete(cause)
            if let Some(stopped @ IncompleteRequest::Stalled) = cause.downcast_ref() =>
        {
            Problem::new(ProblemKind::BodyTimeout, stopped.to_string())
        }
        error => error.problem(),
    }
}

/// The engine claims, decides, executes by [`forward`] and settles: 5. to 9. Then the reply, and
/// whether it is the service's, made just now.
async fn run(
    shared: &Shared,
    route: &Route,
    upstream: &Upstream,
    keyed: Box<Keyed>,
    preference: Preference,
) -> (bool, Response<AnswerBody>) {
    let Keyed { id, scope, fingerprint, intent, buffered, question } = *keyed;
    let head = Arc::clone(intent.head());
    let operation = Arc::clone(&route.operation);
    let buffered = Arc::new(buffered);
    let without_record = shared.outage_of(route).await.map(|outage| {
        Box::new(WithoutRecord {
            outage: Arc::clone(outage),
            passing: Passing {
                operation: Arc::clone(&operation),
                id,
                fingerprint,
                intent: intent.clone(),
            },
            route: route.clone(),
            upstream: upstream.clone(),
            head: Arc::clone(&head),
            buffered: Arc::clone(&buffered),
        })
    });
    let may_see = MaySee { route, question };
    let claiming = match &without_record {
        None => None,
        Some(without_record) => match Box::pin(without_record.begin()).await {
            Goes::Claims(claiming) => Some(claiming),
            Goes::Passed(passed) => {
                let presenting = present_passed(shared, route, id, &scope, may_see, *passed);
                return Box::pin(presenting).await;
            }
        },
    };
    let (upstream, forwarded) = (upstream.clone(), route.clone());
    let (begins, begun) = oneshot::channel();
    // Dropped when it has executed, or when it is certain that it will not.
    let held = claiming.clone();
    let execute = move |attempt: Attempt| async move {
        let _held = held;
        // Nobody listens where the caller waits for the answer anyway.
        let _ = begins.send(());
        // The engine has dropped the intent by now, so the head is not copied.
        let head = Arc::unwrap_or_clone(head);
        let carried = Carried::of(&attempt);
        let request = outgoing(&forwarded, head, carried, &buffered);
        forward(&upstream, &forwarded, request, attempt.sent(), carried.effect_id).await
    };
    let in_flight = preference.in_flight(operation.policy().in_flight);
    let running = shared.hapax.run_while(in_flight, &operation, id, fingerprint, intent, execute);
    let answer = tokio::select! {
        biased;
        answer = running => Some(answer),
        // It goes on by itself: it is claimed, and was begun in a task of its own.
        () = preference.answers_early(begun) => None,
    };
    if let (Some(Answer::Problem(problem)), Some(without_record)) = (&answer, &without_record)
        && route.passes()
        && problem.kind == ProblemKind::StoreUnavailable
    {
        if let Some(claiming) = claiming {
            claiming.give_up();
        }
        let passed = Box::pin(without_record.pass()).await;
        return Box::pin(present_passed(shared, route, id, &scope, may_see, passed)).await;
    }
    // After every wait: what was allowed before it may be over.
    let answer = match answer {
        Some(answer) => Some(authorized(answer, || may_see.ask()).await),
        None => None,
    };
    let accepts = route.answers.accept || preference.respond_async;
    let is_live = matches!(answer, Some(Answer::First { .. }));
    let mut response = match answer {
        None => accepted(shared, id, &scope),
        Some(Answer::Problem(problem)) if accepts && problem.kind == ProblemKind::InFlight => {
            accepted(shared, id, &scope)
        }
        Some(answer) => present(shared, route, id, &scope, answer),
    };
    let is_accepted = !is_live && response.status() == StatusCode::ACCEPTED;
    preference.say(response.headers_mut(), is_accepted, is_live);
    (is_live, response)
}

/// Whether the caller may see what an earlier attempt came to.
struct MaySee<'a> {
    route: &'a Route,
    question: Option<Question>,
}

impl MaySee<'_> {
    async fn ask(&self) -> Result<(), Problem> {
        match (&self.route.authorizer, &self.question) {
            (Some(authorizer), Some(question)) => {
                Box::pin(authorizer.ask(question, self.route.operation.name())).await
            }
            _ => Ok(()),
        }
    }
}

/// The reply to a request that did not take the usual way.
async fn present_passed(
    shared: &Shared,
    route: &Route,
    id: RecordId,
    scope: &Scope,
    may_see: MaySee<'_>,
    passed: Passed,
) -> (bool, Response<AnswerBody>) {
    let answer = match passed {
        Passed::Live(response) => return (true, response),
        Passed::Kept(response) => match may_see.ask().await {
            Ok(()) => return (false, response),
            Err(problem) => Answer::Problem(problem),
        },
        Passed::Known(answer) => authorized(answer, || may_see.ask()).await,
    };
    (false, present(shared, route, id, scope, answer))
}

/// 9. The reply; where it settles nothing it says where the status is.
fn present(
    shared: &Shared,
    route: &Route,
    id: RecordId,
    scope: &Scope,
    answer: Answer<Response<AnswerBody>>,
) -> Response<AnswerBody> {
    use ProblemKind::{InFlight, OutcomeNotKept, OutcomeUnknown};
    let answer = shared.replay_room.hold(answer);
    let is_open = match &answer {
        Answer::Problem(problem) => {
            matches!(problem.kind, InFlight | OutcomeUnknown | OutcomeNotKept)
        }
        Answer::Observed { .. } => true,
        Answer::First { outcome, .. } => matches!(outcome, FirstOutcome::Unknown { .. }),
        Answer::Replayed { .. } | Answer::Shared { .. } => false,
    };
    let mut response = match answer {
        Answer::Problem(problem) => {
            shared.presentation.refuse(&problem, Some(&route.answers.status_codes))
        }
        answer => respond(answer),
    };
    if is_open {
        link(shared, id, scope, &mut response);
    }
    response
}

/// What a request carries downstream beside its content.
#[derive(Clone, Copy)]
pub(crate) struct Carried {
    pub(crate) effect_id: EffectId,
    pub(crate) attempt: hapax_core::Attempt,
    pub(crate) deadline: Option<StoreTime>,
}

impl Carried {
    fn of(attempt: &Attempt) -> Self {
        Self {
            effect_id: attempt.effect_id(),
            attempt: attempt.number(),
            deadline: attempt.deadline(),
        }
    }
}

/// The request as the service sees it: the effect id in the key's place, the attempt beside it.
pub(crate) fn outgoing(
    route: &Route,
    mut head: Parts,
    carried: Carried,
    buffered: &Buffered,
) -> Request<OutBody> {
    let Carried { effect_id, attempt, deadline } = carried;
    headers::to_upstream(&mut head.headers, head.version);
    forwarded::tell(&mut head);
    let mut headers = head.headers;
    strip_ours_from_request(&mut headers);
    for field in route.look_alikes.iter() {
        strip_look_alikes(&mut headers, field);
    }
    // A quoted UUID and a number are always valid values.
    if let Ok(effect_id) = HeaderValue::try_from(format!("\"{effect_id}\"")) {
        headers.insert(IDEMPOTENCY_KEY, effect_id);
    }
    headers.insert(HAPAX_ATTEMPT, HeaderValue::from(attempt.to_wire()));
    if let Some(deadline) = deadline.and_then(moment) {
        headers.insert(HAPAX_DEADLINE, deadline);
    }
    let mut request = Request::new(OutBody::full(buffered.bytes().clone()));
    *request.method_mut() = head.method;
    *request.uri_mut() = head.uri;
    *request.version_mut() = Version::HTTP_11;
    *request.headers_mut() = headers;
    request
}

/// Sends the request once and brings back what the engine has to know of the answer.
pub(crate) fn forward<'a>(
    upstream: &'a Upstream,
    route: &'a Route,
    request: Request<OutBody>,
    sent: &'a Sent,
    effect_id: EffectId,
) -> impl Future<Output = Executed<Response<AnswerBody>>> + use<'a> {
    let sending = upstream.send_telling(request, Reuse::Keyed, sent);
    async move {
        let answer = match sending.await {
            Ok(answer) => answer,
            Err(SendError::NeverSent { reason }) => {
                passthrough::count_failure(upstream, "no");
                let (service, reason) = (upstream.name(), with_causes(&reason));
                warn!(%effect_id, service, reason, "the request was not sent, or was refused unread; nothing was applied");
                return Executed { ended: Ended::NeverSent, live: None };
            }
            Err(SendError::Unknown { reason }) => {
                passthrough::count_failure(upstream, "maybe");
                let (service, reason) = (upstream.name(), with_causes(&reason));
                info!(%effect_id, service, reason, "the request went out and no answer came back");
                return Executed { ended: Ended::Lost, live: None };
            }
        };
        failpoints::pass(Failpoint::Head).await;
        let policy = route.operation.policy();
        let (cap, outcome) = (policy.response_cap, policy.outcome.as_ref());
        match read_reply(answer, cap, &route.fields.replayed, outcome).await {
            Ok((reply, answer)) => {
                Executed { ended: Ended::Answered(reply), live: Some(answer.map(AnswerBody::from)) }
            }
            Err(BrokenOff { status, received, error }) => {
                passthrough::count_failure(upstream, "maybe");
                info!(%effect_id, service = upstream.name(), status, received, %error, "the answer broke off; it proves nothing");
                Executed { ended: Ended::Lost, live: None }
            }
        }
    }
}
