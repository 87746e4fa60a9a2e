//! The gateway: which way each request takes.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use hapax::{Hapax, http::headers::IDEMPOTENCY_KEY};
use hapax_store::StandingState;
use http::{
    HeaderValue, Request, Response, StatusCode, Version,
    header::{CONNECTION, EXPECT},
    request::Parts,
};
use metrics::{counter, histogram};
use parking_lot::RwLock;
use thiserror::Error;
use tokio::time::Instant;
use tracing::{Instrument, debug};

use crate::{
    answer_body::AnswerBody,
    config::Config,
    correlation::Correlation,
    cors::{self, AnswerOf, Preflight},
    headers::{self, RequestFault},
    keyed,
    metric_definitions::{REQUEST_SECONDS, REQUESTS},
    observe,
    operator::Readiness,
    passthrough,
    server::Inbound,
    shared::{GatewayError, Route, Routed, Shared},
    tls::UpstreamTls,
    unsuited::{self, Unsuited},
    upstream::Upstream,
    well_known,
};

/// Where each request is logged, on the level of debugging. Paths are not: they may name customers.
const ACCESS: &str = "hapax_gateway::access";

/// The request flow of a configuration, which can be replaced. Clones share everything.
#[derive(Clone)]
pub struct Gateway {
    /// Held to take or put the whole, never across an await.
    shared: Arc<RwLock<Arc<Shared>>>,
}

impl Gateway {
    /// Makes the gateway of a configuration, registering its operations with the engine.
    ///
    /// # Errors
    /// [`GatewayError`] when the store cannot take the operations' policies, or an upstream's
    /// address is not one.
    pub async fn new(config: Config, hapax: Hapax) -> Result<Self, GatewayError> {
        let shared = Arc::new(Shared::new(config, hapax, None).await?);
        Ok(Self { shared: Arc::new(RwLock::new(shared)) })
    }

    /// Puts another configuration in the place of the present one: for requests that come from now
    /// on. Those under way end as they began; connections to services that stay are kept.
    ///
    /// # Errors
    /// [`ReloadError`]; the present configuration stays.
    pub async fn reload(&self, config: Config) -> Result<(), ReloadError> {
        let present = Arc::clone(&self.shared.read());
        let fixed = present.config.fixed_that_differ(&config);
        if !fixed.is_empty() {
            return Err(ReloadError::Fixed { settings: fixed.join(", ") });
        }
        let hapax = present.hapax.clone();
        let replacing = Shared::new(config, hapax, Some(&present)).await?;
        *self.shared.write() = Arc::new(replacing);
        Ok(())
    }

    /// Whether requests are better sent here than not.
    pub(crate) fn readiness(&self) -> Readiness {
        let shared = self.shared.read();
        if shared.hapax.is_draining() {
            return Readiness::NotReady("draining".to_owned());
        }
        if !shared.scopes.has_begun() && shared.keyed().next().is_some() {
            let why = "the keys that tokens are verified by were not fetched yet";
            return Readiness::NotReady(why.to_owned());
        }
        match shared.hapax.store().standing() {
            StandingState::Ready => Readiness::Ready,
            // Elsewhere they would not pass either.
            StandingState::Failing { reason } if shared.any_passes() => Readiness::Partly(format!(
                "{reason}; operations with store_down = \"pass\" run unprotected, others are refused"
            )),
            StandingState::Failing { reason } => Readiness::NotReady(reason),
            StandingState::Regressed { reason } => Readiness::NotReady(format!(
                "store-regressed: {reason}; restart once it is understood"
            )),
        }
    }

    /// What services are shown now, for [`Certificates`](crate::tls::Certificates).
    pub fn upstream_tls(&self) -> Vec<UpstreamTls> {
        self.shared.read().upstream_tls().cloned().collect()
    }

    /// Waits until all tunnels (`Upgrade`) are closed, and cuts those that are not within this
    /// time. Returns how many these were.
    pub async fn close_tunnels(&self, within: Duration) -> usize {
        let tunnels = self.shared.read().tunnels.clone();
        tunnels.close(within).await
    }

    /// Answers one request.
    pub async fn answer(&self, request: Request<Inbound>) -> Response<AnswerBody> {
        let shared = Arc::clone(&self.shared.read());
        let (head, body) = request.into_parts();
        // Boxed: the future of each function on the way would hold it.
        let mut head = Box::new(head);
        let correlation = Correlation::of(&mut head.headers, shared.request_id());
        let span = correlation.span();
        // A span that is not logged costs nothing where it is not entered either.
        if span.is_disabled() {
            shared.answer(head, body, correlation).await
        } else {
            shared.answer(head, body, correlation).instrument(span).await
        }
    }
}

/// Why a configuration cannot be put in the place of the present one.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReloadError {
    /// It differs in what a process is started with.
    #[error("{settings}: a change of it needs a restart")]
    Fixed {
        /// The settings, as in the configuration.
        settings: String,
    },
    /// No gateway can be made of it.
    #[error(transparent)]
    Gateway(#[from] GatewayError),
}

impl Shared {
    async fn answer(
        &self,
        mut head: Box<Parts>,
        body: Inbound,
        correlation: Correlation,
    ) -> Response<AnswerBody> {
        let begun = Instant::now();
        let method = head.method.clone();
        let (way, mut answer) = match headers::check_request(&head) {
            Err(fault) => ("malformed", malformed(fault, head.version)),
            Ok(()) => {
                self.receive(&mut head);
                self.go(head, body).await
            }
        };
        correlation.say(answer.headers_mut());
        let seconds = begun.elapsed().as_secs_f64();
        counter!(REQUESTS, "way" => way).increment(1);
        histogram!(REQUEST_SECONDS, "way" => way).record(seconds);
        let status = answer.status().as_u16();
        debug!(target: ACCESS, %method, way, status, seconds, "answered");
        answer
    }

    async fn go(&self, head: Box<Parts>, body: Inbound) -> (&'static str, Response<AnswerBody>) {
        if let Some(documents) = &self.well_known
            && well_known::is_ours(head.uri.path())
        {
            let answering = Box::pin(well_known::answer(self, documents, &head));
            return ("document", answering.await);
        }
        let preflight = Preflight::of(&head);
        let preflighted = preflight
            .as_ref()
            .and_then(|preflight| Some((preflight, self.preflighted(preflight, &head)?)));
        if let Some((preflight, route)) = preflighted
            && let Some(answer) = self.cors.preflight(preflight, route.fields.key.header())
        {
            return ("preflight", answer);
        }
        let Some((upstream, routed)) = self.route(&head) else {
            let text = "no service takes this host and path".to_owned();
            return ("unrouted", plain(StatusCode::NOT_FOUND, text));
        };
        match routed {
            Routed::Keyed(route) if route.enforces() => {
                self.enforce(route, upstream, head, body).await
            }
            Routed::Keyed(route) => {
                let answering = Box::pin(observe::answer(self, route, upstream, head, body));
                ("observed", answering.await)
            }
            Routed::NearMiss(problem) => {
                let expects = head.headers.contains_key(EXPECT);
                let origin = cors::origin(&head.headers);
                let mut answer = keyed::refuse_unread(self, None, &problem, body, expects).await;
                // Which operation it was meant for is not certain.
                self.cors.answer(origin.as_ref(), "", AnswerOf::Ours(None), answer.headers_mut());
                ("refused", answer)
            }
            Routed::Elsewhere => {
                // A key on no route protects nothing; somebody may think that it does.
                let has_key = head.headers.contains_key(IDEMPOTENCY_KEY);
                let way = if has_key { "passed_with_key" } else { "passed" };
                let strip_ours = !self.only_observes;
                let mut answer = passthrough::answer(self, upstream, head, body, strip_ours).await;
                if let Some((preflight, route)) = preflighted {
                    let operation = route.operation.name().as_str();
                    let (key, headers) = (route.fields.key.header(), answer.headers_mut());
                    self.cors.complete_preflight(preflight, operation, key, headers);
                }
                (way, answer)
            }
        }
    }

    async fn enforce(
        &self,
        route: &Route,
        upstream: &Upstream,
        head: Box<Parts>,
        body: Inbound,
    ) -> (&'static str, Response<AnswerBody>) {
        let Some(unsuited) = unsuited::check(route, &head) else {
            // Boxed: it would be part of the future of every request without a key.
            return Box::pin(keyed::answer(self, route, upstream, head, body)).await;
        };
        let origin = cors::origin(&head.headers);
        let mut answer = match unsuited {
            Unsuited::Grpc(content_type) => unsuited::refuse_grpc(content_type),
            Unsuited::Problem(problem) => {
                let expects = head.headers.contains_key(EXPECT);
                keyed::refuse_unread(self, Some(route), &problem, body, expects).await
            }
        };
        let operation = route.operation.name().as_str();
        self.cors.answer(origin.as_ref(), operation, AnswerOf::Ours(None), answer.headers_mut());
        ("refused", answer)
    }
}

fn malformed(fault: RequestFault, version: Version) -> Response<AnswerBody> {
    let mut answer = plain(fault.status(), fault.to_string());
    if version != Version::HTTP_2 {
        // Where it ends is not certain, so what comes behind it may be no request (RFC 9112,
        // sections 6.1 and 6.3).
        answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    answer
}

fn plain(status: StatusCode, text: String) -> Response<AnswerBody> {
    let mut response = Response::new(AnswerBody::from(Bytes::from(text + "\n")));
    *response.status_mut() = status;
    response
}
