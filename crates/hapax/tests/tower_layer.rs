//! The layer around services that are not axum handlers, or know nothing of hapax.
#![cfg(feature = "axum")]
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // a test that cannot go on fails
#![allow(clippy::disallowed_methods)] // what a test collects, it made

mod kit;

use std::{
    convert::Infallible,
    future::{Ready, ready},
    io::Write,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    http::{HeaderMap, HeaderValue, Request, Response, StatusCode},
    response::IntoResponse,
    routing::{MethodRouter, post},
};
use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use hapax::{
    Attempt, Event, Execution, Hapax, KeySource, Options, OutcomeRule, OutcomeRules, Pointer,
    Rejected, Scope, Secrets, Told, http::body::ReadLimits,
};
use hapax_core::{BodyForm, EffectSecret, State};
use http_body_util::{BodyExt, Full};
use kit::{Got, World, request};
use tower::{
    Layer, Service, ServiceExt, service_fn,
    util::{MapRequestLayer, MapResponseLayer},
};

const KEY: &str = "8e03978e-40d5-43dd-bc93-6894a57f9324";

fn counted(calls: &Arc<AtomicUsize>) -> usize {
    calls.load(Ordering::SeqCst)
}

#[tokio::test]
async fn a_service_that_knows_nothing_of_hapax_takes_effect_once() {
    let world = World::new();
    let calls = Arc::new(AtomicUsize::new(0));
    let service = {
        let calls = calls.clone();
        service_fn(move |request: Request<Full<Bytes>>| {
            let n = calls.fetch_add(1, Ordering::SeqCst);
            async move {
                let attempt = Attempt::of(request.extensions()).unwrap();
                assert_eq!(attempt.number().number(), 1);
                let body = request.into_body().collect().await.unwrap().to_bytes();
                let said = format!("{n}: {}", String::from_utf8_lossy(&body));
                Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(said))))
            }
        })
    };
    let service = world.hapax.operation("pay").bracketed().layer(service);
    for replayed in [None, Some("true")] {
        let request = request("/pay", KEY, "{\"a\":1}").map(|_| Full::from("{\"a\":1}"));
        let response = service.clone().oneshot(request).await.unwrap();
        let header = response.headers().get("idempotent-replayed");
        assert_eq!(header.map(|value| value.to_str().unwrap()), replayed);
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body, "0: {\"a\":1}");
    }
    assert_eq!(counted(&calls), 1);
}

#[tokio::test]
async fn a_bracketed_service_is_judged_by_its_answer() {
    for (status, state) in [
        (201, State::Succeeded),
        (402, State::FailedTerminal),
        (422, State::Released),
        (500, State::Uncertain),
    ] {
        let world = World::new();
        let answer = move || async move { StatusCode::from_u16(status).unwrap() };
        let layer = world.hapax.operation("pay").bracketed();
        let app = Router::new().route("/pay", post(answer)).layer(layer);
        assert_eq!(Got::from(&app, request("/pay", KEY, "1")).await.status, status);
        assert_eq!(world.state().await, state, "{status}");
    }
}

#[tokio::test]
async fn a_bracketed_service_that_fails_or_panics_leaves_an_unknown_outcome() {
    let world = World::new();
    let panics = service_fn(|_: Request<Body>| async {
        if true {
            panic!("on purpose");
        }
        Ok::<Response<Body>, Infallible>(Response::default())
    });
    let fails = service_fn(|_: Request<Body>| async {
        Err::<Response<Body>, _>(std::io::Error::other("on purpose"))
    });
    let layer = world.hapax.operation("pay").bracketed();
    let panicked = layer.layer(panics).oneshot(request("/pay", KEY, "1")).await.unwrap();
    assert_eq!(panicked.status(), 409);
    assert_eq!(world.state().await, State::Uncertain);
    let other = request("/pay", "0b2f4a0e-7a51-4a39-a8d3-3c2f1b1b8d11", "1");
    let failed = layer.layer(fails).oneshot(other).await.unwrap();
    assert_eq!(failed.status(), 409);
}

/// A service that may be called only after it was polled ready, and only once for each time.
#[derive(Default)]
struct Strict {
    ready: bool,
    calls: Arc<AtomicUsize>,
}

impl Clone for Strict {
    fn clone(&self) -> Self {
        Self { ready: false, calls: self.calls.clone() }
    }
}

impl Service<Request<Body>> for Strict {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Body>) -> Self::Future {
        assert!(std::mem::take(&mut self.ready), "called without having been polled ready");
        self.calls.fetch_add(1, Ordering::SeqCst);
        ready(Ok(Response::default()))
    }
}

#[tokio::test]
async fn p43_the_service_that_was_polled_ready_is_the_one_that_is_called() {
    let world = World::new();
    let strict = Strict::default();
    let calls = strict.calls.clone();
    let mut service = world.hapax.operation("pay").bracketed().layer(strict);
    for n in 0..3 {
        let key = format!("0b2f4a0e-7a51-4a39-a8d3-3c2f1b1b8d1{n}");
        let response = service.ready().await.unwrap().call(request("/pay", &key, "1")).await;
        assert_eq!(response.unwrap().status(), 200);
    }
    assert_eq!(counted(&calls), 3);
}

#[tokio::test]
async fn a_request_without_a_key_passes_where_none_is_required() {
    let world = World::new();
    let calls = Arc::new(AtomicUsize::new(0));
    let count = {
        let calls = calls.clone();
        move || {
            calls.fetch_add(1, Ordering::SeqCst);
            async { "done" }
        }
    };
    let layer = world.hapax.operation("pay").policy(|p| p.key.required = false).bracketed();
    let app = Router::new().route("/pay", post(count)).layer(layer);
    for _ in 0..2 {
        let unkeyed = Request::post("/pay").body(Body::from("1")).unwrap();
        assert_eq!(Got::from(&app, unkeyed).await.status, 200);
    }
    assert_eq!((counted(&calls), world.records().await), (2, 0));
}

#[tokio::test]
async fn a_key_in_the_body_protects_and_a_body_without_one_passes_whole() {
    let world = World::new();
    let calls = Arc::new(AtomicUsize::new(0));
    let echo = {
        let calls = calls.clone();
        move |body: String| {
            let n = calls.fetch_add(1, Ordering::SeqCst);
            async move { format!("{n}: {body}") }
        }
    };
    let layer = world.hapax.operation("pay").policy(|p| {
        p.key.required = false;
        p.key.from = KeySource::Body(Pointer::parse("/id").unwrap());
        p.key.policy = p.key.from.default_policy();
    });
    let app = Router::new().route("/pay", post(echo)).layer(layer.bracketed());
    let send = async |body: &'static str| {
        let request = Request::post("/pay").header("content-type", "application/json");
        Got::from(&app, request.body(Body::from(body)).unwrap()).await
    };
    assert_eq!(send(r#"{"id":7,"amount":1}"#).await.body, r#"0: {"id":7,"amount":1}"#);
    let replay = send(r#"{"amount":1.0,"id":7}"#).await;
    assert_eq!(replay.header("idempotent-replayed"), Some("true"));
    assert_eq!(replay.body, r#"0: {"id":7,"amount":1}"#);
    assert_eq!(send(r#"{"id":7,"amount":2}"#).await.problem(), "key-reused");
    assert_eq!(send(r#"{"id":null}"#).await.problem(), "key-invalid");
    assert_eq!(send("{").await.problem(), "body-invalid");
    for n in 1..3 {
        assert_eq!(send(r#"{"amount":1}"#).await.body, format!(r#"{n}: {{"amount":1}}"#));
    }
    assert_eq!((counted(&calls), world.records().await), (3, 1));
}

#[tokio::test]
async fn what_the_body_of_an_answer_tells_decides_in_place_of_its_status() {
    let world = World::new();
    let rule = OutcomeRule::of(Pointer::parse("/errors").unwrap());
    let rule = rule.when_absent(Told::Applied).when_present(Told::NotApplied);
    let layer = world.hapax.operation("pay").policy(|p| {
        p.outcome = Some(OutcomeRules::new(vec![rule]));
    });
    // The service answers with what it is asked.
    let app = Router::new().route("/pay", post(|body: String| async { body }));
    let app = app.layer(layer.bracketed());
    let refused = Got::from(&app, request("/pay", KEY, r#"{"errors":[]}"#)).await;
    assert_eq!((refused.status, refused.header("hapax-outcome")), (200, Some("not-applied")));
    for replayed in [None, Some("true")] {
        let got = Got::from(&app, request("/pay", KEY, r#"{"data":1}"#)).await;
        assert_eq!((got.status, got.header("idempotent-replayed")), (200, replayed));
    }
}

#[tokio::test]
async fn a_body_over_its_limits_is_refused_and_nothing_is_claimed() {
    let world = World::new();
    let limits =
        ReadLimits { max_bytes: 8, within: Duration::from_millis(20), ..ReadLimits::default() };
    let layer = world.hapax.operation("pay").body_limits(limits).bracketed();
    let app = Router::new().route("/pay", post(|| async { "done" })).layer(layer);
    let large = request("/pay", KEY, "123456789");
    assert_eq!(Got::from(&app, large).await.problem(), "body-too-large");
    let never = http_body_util::StreamBody::new(tokio_stream());
    let slow = request("/pay", KEY, "").map(|_| Body::new(never));
    assert_eq!(Got::from(&app, slow).await.problem(), "body-timeout");
    assert_eq!(world.records().await, 0);
}

#[tokio::test]
async fn p42_what_it_takes_to_read_a_large_body_has_to_fit_beside_it() {
    let world = World::new();
    let secrets = Secrets::single(EffectSecret::from_bytes([7; 32]));
    let options = Options { single_tenant: true, buffered_total: 1 << 20, ..Options::default() };
    let hapax = Hapax::new(Arc::new(world.store.clone()), secrets, options);
    let route = || Router::new().route("/pay", post(|| async { "done" }));
    let app = route().layer(hapax.operation("pay").bracketed());
    let by_body = route().layer(
        hapax
            .operation("by_body")
            .policy(|p| {
                p.key.from = KeySource::Body(Pointer::parse("/id").unwrap());
                p.key.policy = p.key.from.default_policy();
            })
            .bracketed(),
    );
    let send = async |app: &Router, body: &str| {
        Got::from(app, request("/pay", KEY, "").map(|_| Body::from(body.to_owned()))).await
    };
    let much = format!("{{\"id\":1,\"all\":[{}1]}}", "1,".repeat(100 << 10));
    for app in [&app, &by_body] {
        let refused = send(app, &much).await;
        assert_eq!((refused.status, refused.problem().as_str()), (503, "overloaded"));
        assert!(refused.header("retry-after").is_some());
    }
    assert_eq!(world.records().await, 0, "nothing is claimed");
    let little = format!("{{\"id\":1,\"all\":\"{}\"}}", "a".repeat(100 << 10));
    for app in [&app, &by_body] {
        for replayed in [None, Some("true")] {
            let got = send(app, &little).await;
            assert_eq!((got.status, got.header("idempotent-replayed")), (200, replayed));
        }
        let broken = send(app, &format!("{little}}}")).await;
        assert_eq!(broken.problem(), "body-invalid");
    }
}

/// A request whose body is in `gzip`.
fn gzip(key: &str, content: &str) -> Request<Body> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content.as_bytes()).unwrap();
    let mut request = request("/pay", key, "").map(|_| Body::from(encoder.finish().unwrap()));
    request.headers_mut().insert("content-encoding", HeaderValue::from_static("gzip"));
    request
}

#[tokio::test]
async fn t12_a_coded_request_is_compared_under_the_rules_of_its_record_where_the_present_ones_do_not_look()
 {
    for filling in [0, 100 << 10] {
        let world = World::new();
        let app = |hapax: &Hapax, body: Option<BodyForm>| {
            let layer = hapax.operation("pay").policy(|p| p.fingerprint.body = body);
            Router::new().route("/pay", post(|| async { "done" })).layer(layer.bracketed())
        };
        let content =
            |amount: u32| format!(r#"{{"amount":{amount},"note":"{}"}}"#, "a".repeat(filling));
        let before = app(&world.hapax, None);
        assert_eq!(Got::from(&before, gzip(KEY, &content(1))).await.status, 200);

        let after = app(&kit::engine(&world.store), Some(BodyForm::None));
        let replay = Got::from(&after, gzip(KEY, &content(1))).await;
        assert_eq!((replay.status, replay.header("idempotent-replayed")), (200, Some("true")));
        let respelled = Got::from(&after, gzip(KEY, &format!(" {}", content(1)))).await;
        assert_eq!(respelled.header("idempotent-replayed"), Some("true"));
        assert_eq!(Got::from(&after, gzip(KEY, &content(2))).await.problem(), "key-reused");
    }
}

#[tokio::test]
async fn a_body_that_is_not_its_coding_is_no_reason_to_refuse_where_none_is_looked_at() {
    let world = World::new();
    let layer = world.hapax.operation("pay").policy(|p| p.fingerprint.body = Some(BodyForm::None));
    let app = Router::new().route("/pay", post(|| async { "done" })).layer(layer.bracketed());
    for (body, replayed) in [("no gzip", None), ("nor this", Some("true"))] {
        let request = gzip(KEY, "").map(|_| Body::from(body));
        let got = Got::from(&app, request).await;
        assert_eq!((got.status, got.header("idempotent-replayed")), (200, replayed), "{body}");
    }
}

/// A stream of frames that never has one.
fn tokio_stream() -> impl futures_core::Stream<Item = Result<http_body::Frame<Bytes>, Infallible>> {
    struct Never;
    impl futures_core::Stream for Never {
        type Item = Result<http_body::Frame<Bytes>, Infallible>;
        fn poll_next(
            self: std::pin::Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Self::Item>> {
            Poll::Pending
        }
    }
    Never
}

#[tokio::test]
async fn a_plain_service_takes_its_attempt_by_the_extensions_of_the_request() {
    let world = World::new();
    let provider = world.provider.clone();
    let service = service_fn(move |request: Request<Body>| {
        let provider = provider.clone();
        async move {
            let mut x = match Execution::take(request.extensions()).await {
                Ok(x) => x,
                Err(not_taken) => return Ok::<_, Infallible>(not_taken.response()),
            };
            assert!(Attempt::of(request.extensions()).is_ok());
            let acted = x.call("charge", async |id| provider.act("charge", &id.to_string()).await);
            Ok(match acted.await {
                Ok(number) => Response::new(Body::from(number.to_string())),
                Err(error) => error.into_response(),
            })
        }
    });
    let service = world.hapax.operation("pay").layer(service);
    for _ in 0..2 {
        let response = service.clone().oneshot(request("/pay", KEY, "1")).await.unwrap();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body, "1");
    }
    assert_eq!(world.provider.acts(), ["charge"]);
}

#[tokio::test]
async fn p56_an_event_takes_effect_once_whatever_changes_between_its_deliveries() {
    let world = World::new();
    let field =
        |headers: &HeaderMap, name: &str| headers.get(name).map(|value| value.as_bytes().to_vec());
    let layer = world.hapax.webhook("psp.event", move |head, body| {
        let signed = field(&head.headers, "signature").ok_or(Rejected(StatusCode::UNAUTHORIZED))?;
        if signed != b"genuine" || body.is_empty() {
            return Err(Rejected(StatusCode::UNAUTHORIZED));
        }
        let id = field(&head.headers, "webhook-id").ok_or(Rejected(StatusCode::BAD_REQUEST))?;
        let scope = Scope::principal(b"psp").map_err(|_| Rejected(StatusCode::BAD_REQUEST))?;
        Ok(Event { scope, id })
    });
    let provider = world.provider.clone();
    let receive = move |mut x: Execution| {
        let provider = provider.clone();
        async move {
            x.call("book", async |id| provider.act("book", &id.to_string()).await)
                .await
                .map(|n: u64| n.to_string())
        }
    };
    let app = Router::new().route("/events", layer.post(receive));
    let deliver = |signature: &'static str, id: &'static str, body: &'static str| {
        let request = Request::post("/events").header("signature", signature);
        Got::from(&app, request.header("webhook-id", id).body(Body::from(body)).unwrap())
    };
    assert_eq!(deliver("forged", "evt_1", "{}").await.status, 401);
    assert_eq!(world.records().await, 0);
    let first = deliver("genuine", "evt_1", "{\"attempt\":1}").await;
    let second = deliver("genuine", "evt_1", "{\"attempt\":2}").await;
    assert_eq!((first.status, &first.body), (200, &second.body));
    assert_eq!(second.header("idempotent-replayed"), Some("true"));
    assert_eq!(deliver("genuine", "evt_2", "{\"attempt\":1}").await.status, 200);
    assert_eq!(world.provider.acts().len(), 2);
}

#[test]
#[should_panic(expected = "operation pay: lease cannot be zero")]
fn an_inconsistent_policy_is_found_when_the_application_starts() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _inside = runtime.enter();
    let world = World::new();
    let layer = world.hapax.operation("pay").policy(|p| p.lease = Duration::ZERO);
    drop(layer.layer(Strict::default()));
}

#[test]
#[should_panic(expected = "an operation's name is")]
fn a_name_that_is_none_is_found_when_the_application_starts() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _inside = runtime.enter();
    drop(World::new().hapax.operation("no name"));
}

#[tokio::test]
async fn layers_outside_run_for_every_attempt_and_what_is_inside_answers_the_first_alone() {
    // A handler is asked whether it takes its attempt; a bracketed service is not.
    for (is_bracketed, inside_runs) in [(false, 3), (true, 1)] {
        order_of_layers(is_bracketed, inside_runs).await;
    }
}

async fn order_of_layers(is_bracketed: bool, inside_runs: usize) {
    let world = World::new();
    let counts = [Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0))];
    let count = |which: &Arc<AtomicUsize>| {
        let which = which.clone();
        MapRequestLayer::new(move |request: Request<Body>| {
            which.fetch_add(1, Ordering::SeqCst);
            request
        })
    };
    // The answer of a layer inside is what is stored.
    let marked = MapResponseLayer::new(|mut response: Response<Body>| {
        response.headers_mut().insert("content-language", "eo".parse().unwrap());
        response
    });
    let taking = |mut x: Execution| async move {
        x.call("charge", async |_| Ok::<_, StatusCode>("charged".to_owned())).await
    };
    let plain = || async { "charged" };
    let handler: MethodRouter = if is_bracketed { post(plain) } else { post(taking) };
    let layer = world.hapax.operation("pay");
    let layer = if is_bracketed { layer.bracketed() } else { layer };
    let inside = handler.layer::<_, Infallible>(marked).layer::<_, Infallible>(count(&counts[1]));
    let app = Router::new().route("/pay", inside.layer(layer)).layer(count(&counts[0]));
    for _ in 0..3 {
        let got = Got::from(&app, request("/pay", KEY, "1")).await;
        assert_eq!((got.status, got.header("content-language")), (200, Some("eo")));
    }
    assert_eq!((counted(&counts[0]), counted(&counts[1])), (3, inside_runs));
}
