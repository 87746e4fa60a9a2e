//! One layer retries: what a request of a user becomes at the bottom of several services.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    task::{Context, Poll},
    time::Duration,
};

use axum::{Router, extract::State, routing::post};
use hapax::Hapax;
use hapax_client::{
    Backoff, Budget, Budgets, Client, HeedLayer, HyperService, Intent, Outcome, Policy, Settings,
};
use http::{Request, StatusCode, Uri};
use tokio::net::TcpListener;
use tower::{Service, ServiceBuilder};

/// Three attempts, quickly, and no budget: the attempts alone are counted here.
fn settings() -> Settings {
    let base = Duration::from_millis(1);
    let policy = Policy {
        backoff: Backoff { base, ..Backoff::default() },
        throttled_base: base,
        ..Policy::default()
    };
    Settings::new(policy).budgets(Budgets::new(Budget::unlimited))
}

/// A service that tells those below nothing: what retries are without one layer.
#[derive(Clone)]
struct Untold<S>(S);

impl<S: Service<Request<B>>, B> Service<Request<B>> for Untold<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> S::Future {
        request.headers_mut().remove("hapax-retries");
        self.0.call(request)
    }
}

async fn listen(service: Router) -> Uri {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, service).await });
    format!("http://{address}/").parse().unwrap()
}

/// The bottom: it is down, and counts what it gets.
async fn bottom(arrivals: &Arc<AtomicU32>) -> Uri {
    let count = |State(arrivals): State<Arc<AtomicU32>>| async move {
        arrivals.fetch_add(1, SeqCst);
        StatusCode::SERVICE_UNAVAILABLE
    };
    listen(Router::new().fallback(count).with_state(Arc::clone(arrivals))).await
}

async fn send<S>(client: &mut S, to: Uri) -> StatusCode
where
    S: Service<Intent, Response = Outcome>,
    S::Error: std::fmt::Debug,
{
    match client.call(Intent::post(to).body("{}").build().unwrap()).await.unwrap() {
        Outcome::Done(done) => done.response.status(),
        Outcome::Refused(_) | Outcome::Unknown(_) => StatusCode::SERVICE_UNAVAILABLE,
    }
}

/// A service that uses the one below, with a client that makes three attempts.
async fn above(below: Uri, told: bool) -> Uri {
    let client: Client<HyperService> = Client::with(settings(), None).unwrap();
    let handler = move || {
        let (client, below) = (client.clone(), below.clone());
        async move { send(&mut { client }, below).await }
    };
    let service = Router::new().fallback(handler);
    listen(if told { service.layer(HeedLayer) } else { service }).await
}

/// What a user's request becomes under so many services that each make three attempts.
async fn arrivals_under(layers: u32, told: bool) -> u32 {
    let arrivals = Arc::default();
    let mut top = bottom(&arrivals).await;
    for _ in 1..layers {
        top = above(top, told).await;
    }
    let client = Client::with(settings(), None).unwrap();
    send(&mut client.clone(), top).await;
    arrivals.load(SeqCst)
}

#[tokio::test]
async fn k7_under_three_services_a_request_becomes_3_and_not_27() {
    assert_eq!(arrivals_under(3, false).await, 27);
    assert_eq!(arrivals_under(3, true).await, 3);
}

#[tokio::test]
async fn k7_under_five_services_a_request_becomes_3_and_not_243() {
    assert_eq!(arrivals_under(5, false).await, 243);
    assert_eq!(arrivals_under(5, true).await, 3);
}

/// Within a process nothing needs to be told by a field.
#[tokio::test]
async fn k7_clients_within_clients_leave_it_to_the_outermost() {
    let arrivals = Arc::default();
    let below = bottom(&arrivals).await;
    let inner: Client<HyperService> = Client::with(settings(), None).unwrap();
    let service = tower::service_fn(move |_: Request<_>| {
        let (mut inner, below) = (inner.clone(), below.clone());
        async move {
            let mut response = http::Response::new(http_body_util::Full::<bytes::Bytes>::default());
            *response.status_mut() = send(&mut inner, below).await;
            Ok::<_, std::convert::Infallible>(response)
        }
    });
    let mut outer = ServiceBuilder::new().layer(settings()).service(Untold(service));
    send(&mut outer, "http://outer.example/".parse().unwrap()).await;
    assert_eq!(arrivals.load(SeqCst), 3);
}

/// A service of the library heeds it too.
#[tokio::test]
async fn k7_the_layer_of_an_operation_leaves_it_to_whoever_is_above() {
    let arrivals = Arc::default();
    let below = bottom(&arrivals).await;
    let client: Client<HyperService> = Client::with(settings(), None).unwrap();
    let handler = move || {
        let (mut client, below) = (client.clone(), below.clone());
        async move { send(&mut client, below).await }
    };
    let operation = Hapax::in_memory().operation("payments.create").bracketed();
    let top = listen(Router::new().route("/", post(handler).layer(operation))).await;
    let mut client = Client::with(settings(), None).unwrap();
    send(&mut client, top).await;
    // The first attempt's outcome is unknown to the operation, which executes it once.
    assert_eq!(arrivals.load(SeqCst), 1);
}
