//! Traffic that needs no protection: streamed through untouched.

use std::time::Duration;

use hapax::http::{body::Buffered, headers::strip_ours_from_request};
use hapax_core::{Problem, ProblemKind};
use http::{Request, Response, request::Parts};
use metrics::counter;
use tracing::info;

use crate::{
    answer_body::AnswerBody,
    headers,
    metric_definitions::UPSTREAM_FAILURES,
    server::Inbound,
    shared::Shared,
    upstream::{OutBody, Reuse, SendError, Upstream, UpstreamBody},
};

/// Passes a request on and its answer back. `strip_ours` removes fields that only we may set.
pub(crate) async fn answer(
    shared: &Shared,
    upstream: &Upstream,
    head: Parts,
    body: Inbound,
    strip_ours: bool,
) -> Response<AnswerBody> {
    match send(upstream, head, OutBody::streaming(body), strip_ours).await {
        Ok(answer) => answer.map(AnswerBody::upstream),
        Err(problem) => shared.presentation.refuse(&problem, None),
    }
}

/// As [`answer`], for a request whose body was read; what only we may set is removed.
pub(crate) async fn answer_whole(
    shared: &Shared,
    upstream: &Upstream,
    head: Parts,
    body: &Buffered,
) -> Response<AnswerBody> {
    match send(upstream, head, OutBody::full(body.bytes().clone()), true).await {
        Ok(answer) => answer.map(AnswerBody::upstream),
        Err(problem) => shared.presentation.refuse(&problem, None),
    }
}

/// Sends a request on, its body as it comes.
pub(crate) async fn send(
    upstream: &Upstream,
    head: Parts,
    body: OutBody,
    strip_ours: bool,
) -> Result<Response<UpstreamBody>, Problem> {
    let mut request = Request::from_parts(head, body);
    let version = request.version();
    headers::to_upstream(request.headers_mut(), version);
    if strip_ours {
        strip_ours_from_request(request.headers_mut());
    }
    upstream.send(request, Reuse::Unkeyed).await.map_err(|error| match error {
        SendError::NeverSent { reason } => {
            counter!(UPSTREAM_FAILURES, "sent" => "no").increment(1);
            info!(%reason, "a request could not be passed on");
            Problem::new(
                ProblemKind::UpstreamUnreachable,
                "The service could not be reached and the request was not sent.",
            )
            .retry_after(Duration::from_secs(1))
        }
        SendError::Unknown { reason } => {
            counter!(UPSTREAM_FAILURES, "sent" => "maybe").increment(1);
            info!(%reason, "a request was passed on and no answer came back");
            Problem::new(
                ProblemKind::UpstreamFailed,
                "The request was sent and the service did not answer; it may have been processed.",
            )
        }
    })
}
