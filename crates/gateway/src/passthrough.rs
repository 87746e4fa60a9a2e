//! Traffic that needs no protection: streamed through untouched.

use std::time::Duration;

use hapax::http::{
    body::Buffered,
    headers::{members, strip_ours_from_request},
};
use hapax_core::{Problem, ProblemKind};
use http::{HeaderMap, HeaderValue, Request, Response, header::EXPECT, request::Parts};
use metrics::counter;
use tracing::{info, warn};

use crate::{
    answer_body::AnswerBody,
    causes::with_causes,
    forwarded, headers,
    metric_definitions::UPSTREAM_FAILURES,
    server::Inbound,
    shared::Shared,
    tunnel::{self, ClientEnd},
    upstream::{NeverSent, OutBody, Reuse, SendError, Unknown, Upstream, UpstreamBody},
};

/// Passes a request on and its answer back; both ends are joined where the service agrees to an
/// `Upgrade`. `strip_ours` removes fields that only we may set.
pub(crate) async fn answer(
    shared: &Shared,
    upstream: &Upstream,
    mut head: Box<Parts>,
    body: Inbound,
    strip_ours: bool,
) -> Response<AnswerBody> {
    let upgrade = tunnel::asked(&head).zip(ClientEnd::take(&mut head));
    let body = OutBody::streaming(body);
    let body = if strip_ours { body.stripping_ours() } else { body };
    let answer = match upgrade {
        None => send(upstream, head, body, strip_ours).await,
        Some((protocol, client)) => {
            let request = outgoing(head, body, strip_ours);
            let answer = Box::pin(upstream.upgrade(request, protocol)).await;
            answer.map_err(|error| problem(upstream, error)).map(|mut answer| {
                shared.tunnels.join(client, &mut answer);
                answer
            })
        }
    };
    match answer {
        Ok(answer) => answer.map(AnswerBody::upstream),
        Err(problem) => shared.presentation.refuse(&problem, None),
    }
}

/// As [`answer`], for a request whose body was read; what only we may set is removed.
pub(crate) async fn answer_whole(
    shared: &Shared,
    upstream: &Upstream,
    mut head: Box<Parts>,
    body: &Buffered,
) -> Response<AnswerBody> {
    // The client was asked for it already.
    head.headers.remove(EXPECT);
    match send(upstream, head, OutBody::full(body.bytes().clone()), true).await {
        Ok(answer) => answer.map(AnswerBody::upstream),
        Err(problem) => shared.presentation.refuse(&problem, None),
    }
}

/// Sends a request on, its body as it comes.
pub(crate) async fn send(
    upstream: &Upstream,
    head: Box<Parts>,
    body: OutBody,
    strip_ours: bool,
) -> Result<Response<UpstreamBody>, Problem> {
    let expects = asks_first(&head.headers);
    let mut request = outgoing(head, body, strip_ours);
    if expects {
        request.headers_mut().insert(EXPECT, HeaderValue::from_static("100-continue"));
    }
    let answer = upstream.send(request, Reuse::Unkeyed).await;
    answer.map_err(|error| problem(upstream, error))
}

/// Whether the client sends its body when it is asked to; the service then decides that.
fn asks_first(headers: &HeaderMap) -> bool {
    let mut expectations = members(headers, &EXPECT);
    let first = expectations.next();
    first.is_some_and(|first| first.eq_ignore_ascii_case(b"100-continue"))
        && expectations.next().is_none()
}

fn outgoing(mut head: Box<Parts>, body: OutBody, strip_ours: bool) -> Request<OutBody> {
    headers::to_upstream(&mut head.headers, head.version);
    forwarded::tell(&mut head);
    if strip_ours {
        strip_ours_from_request(&mut head.headers);
    }
    Request::from_parts(*head, body)
}

fn problem(upstream: &Upstream, error: SendError) -> Problem {
    let service = upstream.name();
    match error {
        SendError::NeverSent { reason: reason @ NeverSent::NoUpgrade { .. } } => {
            info!(%reason, "an Upgrade was refused");
            let detail = "The service behind cannot turn a connection into a tunnel.";
            Problem::new(ProblemKind::UpgradeRefused, detail)
        }
        SendError::NeverSent { reason } => {
            count_failure(upstream, "no");
            warn!(service, reason = with_causes(&reason), "a request could not be passed on");
            Problem::new(
                ProblemKind::UpstreamUnreachable,
                "The service could not be reached and the request was not sent.",
            )
            .retry_after(Duration::from_secs(1))
        }
        SendError::Unknown { reason: reason @ Unknown::RequestBody(_) } => {
            info!(reason = with_causes(&reason), "a request's own body broke off");
            let detail = "The request's body broke off or is malformed. The service has got a part \
                          of it.";
            Problem::new(ProblemKind::UpstreamFailed, detail).with_status(400)
        }
        SendError::Unknown { reason } => {
            count_failure(upstream, "maybe");
            let reason = with_causes(&reason);
            warn!(service, reason, "a request was passed on and no answer came back");
            Problem::new(
                ProblemKind::UpstreamFailed,
                "The request was sent and the service did not answer; it may have been processed.",
            )
        }
    }
}

/// Counts a request without an answer, by whether it was sent.
pub(crate) fn count_failure(upstream: &Upstream, sent: &'static str) {
    let service = upstream.name().to_owned();
    counter!(UPSTREAM_FAILURES, "service" => service, "sent" => sent).increment(1);
}
