//! The gateway: which way each request takes.

use std::sync::Arc;

use bytes::Bytes;
use hapax::{Hapax, http::headers::IDEMPOTENCY_KEY};
use http::{Request, Response, StatusCode, header::EXPECT, request::Parts};
use metrics::{counter, histogram};
use tokio::time::Instant;

use crate::{
    answer_body::AnswerBody,
    config::Config,
    cors::Preflight,
    headers, keyed,
    metric_definitions::{REQUEST_SECONDS, REQUESTS},
    observe, passthrough,
    server::Inbound,
    shared::{GatewayError, Routed, Shared},
    well_known,
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
        let (way, answer) = shared.go(head, body).await;
        counter!(REQUESTS, "way" => way).increment(1);
        histogram!(REQUEST_SECONDS, "way" => way).record(begun.elapsed().as_secs_f64());
        answer
    }
}

impl Shared {
    async fn go(&self, head: Parts, body: Inbound) -> (&'static str, Response<AnswerBody>) {
        if let Some(documents) = &self.well_known
            && well_known::is_ours(head.uri.path())
        {
            return ("document", well_known::answer(self, documents, &head).await);
        }
        let preflight = Preflight::of(&head);
        let preflighted = preflight
            .as_ref()
            .and_then(|preflight| Some((preflight, self.preflighted(preflight, head.uri.path())?)));
        if let Some((preflight, route)) = preflighted
            && let Some(answer) = self.cors.preflight(preflight, &route.fields.key)
        {
            return ("preflight", answer);
        }
        let Some((upstream, routed)) = self.route(&head) else {
            let text = "no service takes this path".to_owned();
            return ("unrouted", plain(StatusCode::NOT_FOUND, text));
        };
        match routed {
            Routed::Keyed(route) if route.enforces() => {
                keyed::answer(self, route, upstream, head, body).await
            }
            Routed::Keyed(route) => {
                ("observed", observe::answer(self, route, upstream, head, body).await)
            }
            Routed::NearMiss(problem) => {
                let expects = head.headers.contains_key(EXPECT);
                ("refused", keyed::refuse_unread(self, None, &problem, body, expects).await)
            }
            Routed::Elsewhere => {
                // A key on no route protects nothing; somebody may think that it does.
                let has_key = head.headers.contains_key(IDEMPOTENCY_KEY);
                let way = if has_key { "passed_with_key" } else { "passed" };
                let strip_ours = !self.only_observes;
                let mut answer = passthrough::answer(self, upstream, head, body, strip_ours).await;
                if let Some((preflight, route)) = preflighted {
                    let operation = route.operation.name().as_str();
                    let (key, headers) = (&route.fields.key, answer.headers_mut());
                    self.cors.complete_preflight(preflight, operation, key, headers);
                }
                (way, answer)
            }
        }
    }
}

fn plain(status: StatusCode, text: String) -> Response<AnswerBody> {
    let mut response = Response::new(AnswerBody::from(Bytes::from(text + "\n")));
    *response.status_mut() = status;
    response
}
