//! What the tests of the library have in common: an engine on a store in memory, a provider whose
//! acts can fail, and what callers get.
#![allow(dead_code, reason = "no test uses all of it")]

use std::{collections::HashMap, sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body,
    http::{HeaderMap, Request, StatusCode},
};
use bytes::Bytes;
use hapax::{Called, Hapax, Options, Secrets};
use hapax_core::{EffectSecret, State};
use hapax_store::{Inspect, ListFilter, ManualClock, MemoryStore};
use http_body_util::BodyExt;
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};
use tower::ServiceExt;

pub(crate) struct World {
    pub(crate) hapax: Hapax,
    pub(crate) store: MemoryStore,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) provider: Provider,
}

impl World {
    pub(crate) fn new() -> Self {
        let clock = Arc::new(ManualClock::new());
        let store = MemoryStore::new(clock.clone());
        let hapax = engine(&store);
        Self { hapax, store, clock, provider: Provider::default() }
    }

    /// The state of the only record.
    pub(crate) async fn state(&self) -> State {
        let all = self.store.list(ListFilter { limit: 9, ..Default::default() }).await.unwrap();
        assert_eq!(all.len(), 1, "{all:?}");
        all[0].state
    }

    pub(crate) async fn records(&self) -> usize {
        self.store.list(ListFilter { limit: 99, ..Default::default() }).await.unwrap().len()
    }
}

/// An engine as another process would have it.
pub(crate) fn engine(store: &MemoryStore) -> Hapax {
    let secrets = Secrets::single(EffectSecret::from_bytes([7; 32]));
    let options = Options { single_tenant: true, ..Options::default() };
    Hapax::new(Arc::new(store.clone()), secrets, options)
}

/// Something outside whose acts are counted, and fail as told.
#[derive(Clone, Default)]
pub(crate) struct Provider(Arc<Inner>);

#[derive(Default)]
struct Inner {
    acts: Mutex<Vec<(String, String)>>,
    faults: Mutex<HashMap<String, Fault>>,
    acted: Notify,
}

#[derive(Clone)]
enum Fault {
    Fail,
    Refuse,
    Panic,
    Hang,
    Hold(Arc<Semaphore>),
}

impl Provider {
    /// Fails the next act of this name, which may have happened; with a `!` it certainly did not.
    pub(crate) fn fail_once(&self, name: &str) {
        match name.strip_prefix('!') {
            Some(name) => self.put(name, Fault::Refuse),
            None => self.put(name, Fault::Fail),
        }
    }

    pub(crate) fn panic_once(&self, name: &str) {
        self.put(name, Fault::Panic);
    }

    pub(crate) fn hang_once(&self, name: &str) {
        self.put(name, Fault::Hang);
    }

    /// Holds the next act of this name until there is a permit.
    pub(crate) fn hold(&self, name: &str) -> Arc<Semaphore> {
        let gate = Arc::new(Semaphore::new(0));
        self.put(name, Fault::Hold(gate.clone()));
        gate
    }

    fn put(&self, name: &str, fault: Fault) {
        self.0.faults.lock().insert(name.to_owned(), fault);
    }

    /// Acts, and says which act it was.
    pub(crate) async fn act(&self, name: &str, id: &str) -> Called<u64, StatusCode> {
        let number = {
            let mut acts = self.0.acts.lock();
            acts.push((name.to_owned(), id.to_owned()));
            acts.len() as u64
        };
        self.0.acted.notify_waiters();
        let fault = self.0.faults.lock().remove(name);
        match fault {
            None => Called::Applied(number),
            Some(Fault::Refuse) => Called::NotApplied(StatusCode::BAD_GATEWAY),
            Some(Fault::Fail) => Called::Unknown(StatusCode::BAD_GATEWAY),
            Some(Fault::Panic) => panic!("on purpose"),
            Some(Fault::Hang) => std::future::pending().await,
            Some(Fault::Hold(gate)) => {
                gate.acquire().await.unwrap().forget();
                Called::Applied(number)
            }
        }
    }

    /// The same as a plain result.
    pub(crate) async fn tried(&self, name: &str, id: &str) -> Result<u64, StatusCode> {
        match self.act(name, id).await {
            Called::Applied(number) => Ok(number),
            Called::NotApplied(status) | Called::Unknown(status) => Err(status),
        }
    }

    /// The names of all acts, in order.
    pub(crate) fn acts(&self) -> Vec<String> {
        self.0.acts.lock().iter().map(|(name, _)| name.clone()).collect()
    }

    /// The effect ids under which this act was done.
    pub(crate) fn ids(&self, name: &str) -> Vec<String> {
        let acts = self.0.acts.lock();
        acts.iter().filter(|(act, _)| act == name).map(|(_, id)| id.clone()).collect()
    }

    /// Waits until an act of this name has begun.
    pub(crate) async fn until(&self, name: &str) {
        let begun = async {
            loop {
                let acted = self.0.acted.notified();
                if !self.ids(name).is_empty() {
                    return;
                }
                acted.await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), begun).await.expect("it acts");
    }
}

pub(crate) fn request(path: &str, key: &str, body: &'static str) -> Request<Body> {
    Request::post(path)
        .header("content-type", "application/json")
        .header("idempotency-key", key)
        .body(Body::from(body))
        .unwrap()
}

/// What a caller got.
#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Got {
    pub(crate) async fn from(app: &Router, request: Request<Body>) -> Self {
        let response = app.clone().oneshot(request).await.unwrap();
        let (head, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Self { status: head.status.as_u16(), headers: head.headers, body }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// The name of the problem that it is.
    pub(crate) fn problem(&self) -> String {
        let problem: serde_json::Value = serde_json::from_slice(&self.body).expect("a problem");
        let name = problem["type"].as_str().expect("a type");
        name.strip_prefix("urn:hapax:problem:").expect("ours").to_owned()
    }
}
