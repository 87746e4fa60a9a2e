//! A service that is down for a while under many callers: how many requests it gets.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::Duration,
};

use axum::{Router, extract::State};
use bytes::Bytes;
use hapax_client::{Budget, Budgets, Client, Intent, Policy, Settings, ShareOfLoad, TokenBucket};
use http::{Request, Response, StatusCode, Uri};
use http_body_util::Full;
use serde_json::{Value, json};
use tokio::{
    net::TcpListener,
    task::JoinSet,
    time::{Instant, interval, sleep, sleep_until},
};
use tower_service::Service;

/// A storm.
#[derive(Clone, Copy, Debug)]
pub struct Storm {
    /// Callers at the same time. Each begins an intent every second, whatever became of the last one.
    pub callers: u32,
    /// How long the service works before and after the outage.
    pub around: Duration,
    /// How long it is down: it answers everything with 503.
    pub outage: Duration,
}

/// What bounds the resends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Bound {
    /// Only the attempts of each intent.
    None,
    /// The bucket of tokens of AWS's SDKs, the default.
    Tokens,
    /// The share of the load of Finagle and tower.
    Share,
}

/// What came of a storm.
#[derive(Clone, Debug)]
pub struct Load {
    /// Intents begun in each second.
    pub offered: Vec<u64>,
    /// Requests that arrived in each second.
    pub arrived: Vec<u64>,
    /// The same over the outage.
    pub in_outage: (u64, u64),
}

impl Load {
    /// Requests for each intent in the outage.
    #[must_use]
    pub fn amplification(&self) -> f64 {
        let (offered, arrived) = self.in_outage;
        let number = |count: u64| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
        number(arrived) / number(offered).max(1.0)
    }

    /// As JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "amplification": (self.amplification() * 1000.0).round() / 1000.0,
            "intents_in_outage": self.in_outage.0,
            "requests_in_outage": self.in_outage.1,
            "intents_per_second": self.offered,
            "requests_per_second": self.arrived,
        })
    }
}

impl Bound {
    fn budgets(self) -> Budgets {
        Budgets::new(match self {
            Self::None => Budget::unlimited,
            Self::Tokens => || Budget::tokens(TokenBucket::default()),
            Self::Share => || Budget::share(ShareOfLoad::default()),
        })
    }
}

/// Runs a storm on a service of this process, on a clock that stands still while something is to be
/// done: call it in a runtime of one thread whose time is paused.
pub async fn simulated(storm: Storm, bound: Bound) -> Load {
    let counts = Counts::new(storm);
    let settings = Settings::new(Policy::default()).budgets(bound.budgets());
    let client = Client::through(Inside(Arc::clone(&counts)), settings);
    storm.run(client, "http://service.example/".parse().unwrap_or_default(), counts).await
}

/// Runs a storm on a service behind real connections, in real time.
///
/// # Errors
/// When the service or the client cannot be started.
pub async fn real(storm: Storm, bound: Bound) -> Result<Load, Box<dyn std::error::Error>> {
    let counts = Counts::new(storm);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let uri = format!("http://{}/", listener.local_addr()?).parse()?;
    let answer = |State(counts): State<Arc<Counts>>| async move { counts.arrive().await };
    let service = Router::new().fallback(answer).with_state(Arc::clone(&counts));
    let serving = tokio::spawn(async move { axum::serve(listener, service).await });
    let settings = Settings::new(Policy::default()).budgets(bound.budgets());
    let load = storm.run(Client::with(settings, None)?, uri, counts).await;
    serving.abort();
    Ok(load)
}

impl Storm {
    fn lasting(&self) -> Duration {
        self.around * 2 + self.outage
    }

    async fn run<S, B>(self, client: Client<S>, uri: Uri, counts: Arc<Counts>) -> Load
    where
        Client<S>: Service<Intent> + Clone + Send + 'static,
        <Client<S> as Service<Intent>>::Future: Send,
        S: Service<Request<Full<Bytes>>, Response = Response<B>> + Clone + Send + Sync + 'static,
    {
        let mut callers = JoinSet::new();
        for nth in 0..self.callers {
            let (client, uri, counts) = (client.clone(), uri.clone(), Arc::clone(&counts));
            callers.spawn(async move {
                // Spread over the second.
                sleep(Duration::from_secs(1) * nth / self.callers).await;
                let mut ticks = interval(Duration::from_secs(1));
                while counts.began.elapsed() < self.lasting() {
                    ticks.tick().await;
                    let Ok(intent) = Intent::post(uri.clone()).body("{}").build() else { return };
                    counts.begin();
                    let mut client = client.clone();
                    tokio::spawn(async move { client.call(intent).await.is_ok() });
                }
            });
        }
        sleep_until(counts.began + self.lasting()).await;
        callers.shutdown().await;
        counts.load()
    }
}

/// What is counted, and the service that counts it.
struct Counts {
    storm: Storm,
    began: Instant,
    offered: Vec<AtomicU64>,
    arrived: Vec<AtomicU64>,
    in_outage: (AtomicU64, AtomicU64),
}

impl Counts {
    fn new(storm: Storm) -> Arc<Self> {
        let seconds = || (0..storm.lasting().as_secs()).map(|_| AtomicU64::new(0)).collect();
        let (offered, arrived) = (seconds(), seconds());
        Arc::new(Self {
            storm,
            began: Instant::now(),
            offered,
            arrived,
            in_outage: Default::default(),
        })
    }

    fn is_down(&self) -> bool {
        let since = self.began.elapsed();
        since >= self.storm.around && since < self.storm.around + self.storm.outage
    }

    fn count(&self, of: &[AtomicU64]) {
        let second = usize::try_from(self.began.elapsed().as_secs()).unwrap_or(usize::MAX);
        // What comes after the end is no part of it.
        if let Some(count) = of.get(second) {
            count.fetch_add(1, Relaxed);
        }
    }

    fn begin(&self) {
        self.count(&self.offered);
        if self.is_down() {
            self.in_outage.0.fetch_add(1, Relaxed);
        }
    }

    async fn arrive(&self) -> StatusCode {
        self.count(&self.arrived);
        if self.is_down() {
            self.in_outage.1.fetch_add(1, Relaxed);
            return StatusCode::SERVICE_UNAVAILABLE;
        }
        sleep(Duration::from_millis(2)).await;
        StatusCode::CREATED
    }

    fn load(&self) -> Load {
        let read = |counts: &[AtomicU64]| counts.iter().map(|count| count.load(Relaxed)).collect();
        let in_outage = (self.in_outage.0.load(Relaxed), self.in_outage.1.load(Relaxed));
        Load { offered: read(&self.offered), arrived: read(&self.arrived), in_outage }
    }
}

/// The service without a network.
#[derive(Clone)]
struct Inside(Arc<Counts>);

impl Service<Request<Full<Bytes>>> for Inside {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Full<Bytes>>) -> Self::Future {
        let counts = Arc::clone(&self.0);
        Box::pin(async move {
            let mut response = Response::new(Full::default());
            *response.status_mut() = counts.arrive().await;
            Ok(response)
        })
    }
}
