//! What the client adds to a call that needs no retry: pairs of calls, one through it and one without.

use std::{
    convert::Infallible,
    future::{Ready, ready},
    hint::black_box,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use hapax_client::{Client, Intent, IntentError, Outcome, Policy, Settings};
use http::{
    HeaderName, HeaderValue, Request, Response, Uri,
    header::{AUTHORIZATION, CONTENT_TYPE},
};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tower_service::Service;

const URI: &str = "https://api.example/payments";
const CONTENT: &[u8] =
    b"{\"amount\":1200,\"currency\":\"EUR\",\"to\":\"acct_1\",\"reference\":\"order 7\"}";
const ANSWER: &[u8] = b"{\"id\":\"pay_1\",\"amount\":1200}";

/// A service that answers at once.
#[derive(Clone)]
pub struct AtOnce;

impl Service<Request<Full<Bytes>>> for AtOnce {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Full<Bytes>>) -> Self::Future {
        black_box(request);
        let mut response = Response::new(Full::new(Bytes::from_static(ANSWER)));
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(CONTENT_TYPE, json);
        ready(Ok(response))
    }
}

/// A call without the client: the same request, with a key that is there, and its whole answer.
pub async fn bare(service: &mut AtOnce) -> usize {
    let mut request = Request::new(Full::new(Bytes::from_static(CONTENT)));
    *request.method_mut() = http::Method::POST;
    *request.uri_mut() = Uri::from_static(URI);
    let headers = request.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer secret"));
    let key = HeaderValue::from_static("\"01a22c46-b0bd-7f12-81fb-42e7976a4542\"");
    headers.insert(HeaderName::from_static("idempotency-key"), key);
    let Ok(response) = service.call(request).await;
    #[expect(clippy::disallowed_methods, reason = "the service is in this process")]
    let Ok(content) = response.into_body().collect().await;
    content.to_bytes().len()
}

/// The client around the service.
#[must_use]
pub fn client() -> Client<AtOnce> {
    Client::through(AtOnce, Settings::new(Policy::default()))
}

/// A call through the client, its key and intent included.
///
/// # Errors
/// Never, as long as the intent is one.
pub async fn through(client: &Client<AtOnce>) -> Result<usize, IntentError> {
    let intent = Intent::post(Uri::from_static(URI))
        .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
        .header(AUTHORIZATION, HeaderValue::from_static("Bearer secret"))
        .body(CONTENT)
        .build()?;
    Ok(match client.send(intent).await {
        Ok(Outcome::Done(done)) => done.response.body().len(),
        _ => 0,
    })
}

/// Times pairs.
///
/// # Errors
/// When a call does not come to its answer.
pub async fn pairs(calls: usize) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
    let (mut service, client) = (AtOnce, client());
    let mut added = Vec::with_capacity(calls);
    let (mut bares, mut throughs) = (Vec::with_capacity(calls), Vec::with_capacity(calls));
    // What is done once is no part of it: the code is warm.
    for nth in 0..calls + calls / 10 {
        // Neither is always the one that finds the caches warm.
        let (without, with) = if nth % 2 == 0 {
            let without = time(async { Ok(bare(&mut service).await) }).await?;
            (without, time(through(&client)).await?)
        } else {
            let with = time(through(&client)).await?;
            (time(async { Ok(bare(&mut service).await) }).await?, with)
        };
        if nth >= calls / 10 {
            bares.push(without);
            throughs.push(with);
            added.push(with - without);
        }
    }
    Ok(json!({ "bare_ns": of(bares), "client_ns": of(throughs), "added_ns": of(added) }))
}

async fn time(
    call: impl Future<Output = Result<usize, IntentError>>,
) -> Result<i64, Box<dyn std::error::Error + Send + Sync>> {
    let begun = now();
    let length = call.await?;
    let took = begun.elapsed();
    if length != ANSWER.len() {
        return Err("a call did not come to its answer".into());
    }
    Ok(nanos(took))
}

fn of(mut nanos: Vec<i64>) -> Value {
    nanos.sort_unstable();
    let at = |percent: usize| {
        let last = nanos.len().saturating_sub(1);
        nanos.get(last * percent / 100).copied().unwrap_or_default()
    };
    json!({ "min": at(0), "median": at(50), "p95": at(95) })
}

fn nanos(took: Duration) -> i64 {
    i64::try_from(took.as_nanos()).unwrap_or(i64::MAX)
}

#[expect(clippy::disallowed_methods, reason = "it measures real time")]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}
