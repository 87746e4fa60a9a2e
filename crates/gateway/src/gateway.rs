//! The gateway: which way each request takes.

use std::sync::Arc;

use bytes::Bytes;
use hapax::{Hapax, http::headers::IDEMPOTENCY_KEY};
use hapax_core::Mode;
use http::{Request, Response, StatusCode, header::EXPECT};
use metrics::{counter, histogram};
use tokio::time::Instant;

use crate::{
    answer_body::AnswerBody,
    config::Config,
    headers, keyed,
    metric_definitions::{REQUEST_SECONDS, REQUESTS},
    observe, passthrough,
    server::Inbound,
    shared::{GatewayError, Routed, Shared},
};

/// The request flow of a configuration. Clones share everything.
#[derive(Clone)]
pub struct Gateway(Arc<Shared>);

impl Gateway {
    /// Makes the gateway of a configuration, registering its operations with the engine.
    ///
    /// # Errors
    /// [`GatewayError`] when the store cannot take the operations' policies, or an upstream's
    /// address is not one.
    pub async fn new(config: Config, hapax: Hapax) -> Result<Self, GatewayError> {
        Ok(Self(Arc::new(Shared::new(config, hapax).await?)))
    }

    /// Answers one request.
    pub async fn answer(&self, request: Request<Inbound>) -> Response<AnswerBody> {
        let begun = Instant::now();
        let shared = &*self.0;
        let (head, body) = request.into_parts();
        if let Err(fault) = headers::check_request(&head) {
            return plain(fault.status(), fault.to_string());
        }
        let Some((upstream, routed)) = shared.route(&head) else {
            return plain(StatusCode::NOT_FOUND, "no service takes this path".to_owned());
        };
        let (way, answer) = match routed {
            Routed::Keyed(route) => match route.operation.policy().mode {
                Mode::Enforce => keyed::answer(shared, route, upstream, head, body).await,
                Mode::Observe => {
                    ("observed", observe::answer(shared, route, upstream, head, body).await)
                }
            },
            Routed::NearMiss(problem) => {
                let expects = head.headers.contains_key(EXPECT);
                ("refused", keyed::refuse_unread(&problem, body, expects).await)
            }
            Routed::Elsewhere => {
                // A key on no route protects nothing; somebody may think that it does.
                let has_key = head.headers.contains_key(IDEMPOTENCY_KEY);
                let way = if has_key { "passed_with_key" } else { "passed" };
                let strip_ours = !shared.only_observes;
                (way, passthrough::answer(upstream, head, body, strip_ours).await)
            }
        };
        counter!(REQUESTS, "way" => way).increment(1);
        histogram!(REQUEST_SECONDS, "way" => way).record(begun.elapsed().as_secs_f64());
        answer
    }
}

fn plain(status: StatusCode, text: String) -> Response<AnswerBody> {
    let mut response = Response::new(AnswerBody::from(Bytes::from(text + "\n")));
    *response.status_mut() = status;
    response
}
