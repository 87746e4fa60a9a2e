//! The client: what sends intents through any HTTP service of tower.

use std::{
    collections::HashMap,
    error::Error,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{Method, Request, Response, Uri};
use http_body::Body;
use http_body_util::Full;
use parking_lot::Mutex;
use thiserror::Error;
use tokio::{task::spawn_blocking, time::timeout};
use tower_layer::Layer;
use tower_service::Service;

use crate::{
    budget::Budgets,
    drive::Drive,
    intent::Intent,
    journal::{Begun, Ended, Journal, JournalError},
    latency::Latency,
    observation::Observation,
    outcome::{Operation, Outcome},
    policy::Policy,
};

/// Any error of a service.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// Tells from a service's error whether the request was sent: [`Observation::NeverSent`] only where
/// that is sure, else [`Observation::Lost`].
pub type Reached = fn(&(dyn Error + 'static)) -> Observation;

/// Follows what happens, for progress.
pub trait Watch: Send + Sync {
    /// Something happened.
    fn event(&self, event: &Event<'_>);
}

/// What happens on the way to an outcome.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The intent is sent, for the `nth` time.
    Sending {
        /// From 1 on.
        nth: u32,
    },
    /// It is to be sent again, or its status asked for, after a pause.
    Pausing {
        /// How long.
        pause: Duration,
        /// Why: what was seen, for a person.
        why: &'a str,
        /// Whether the status is asked for then.
        asks: bool,
    },
    /// The status of the operation is asked for.
    Asking,
}

/// Everything about a client but what it sends through.
#[derive(Clone)]
pub struct Settings {
    pub(crate) policy: Arc<Policy>,
    pub(crate) budgets: Budgets,
    pub(crate) journal: Option<Arc<dyn Journal>>,
    pub(crate) watch: Option<Arc<dyn Watch>>,
    pub(crate) longest_content: usize,
    pub(crate) reached: Reached,
    latencies: Arc<Mutex<HashMap<String, Arc<Latency>>>>,
}

/// Answers are kept up to 16 MiB.
const LONGEST_CONTENT: usize = 16 << 20;

/// Those that nobody uses are forgotten beyond so many: each is some 25 KiB.
const MOST_LATENCIES: usize = 1024;

impl Settings {
    /// Settings with this policy, budgets of their own, and no journal.
    pub fn new(policy: Policy) -> Self {
        Self {
            policy: Arc::new(policy),
            budgets: Budgets::default(),
            journal: None,
            watch: None,
            longest_content: LONGEST_CONTENT,
            reached: |_| Observation::Lost,
            latencies: Arc::default(),
        }
    }

    /// With these budgets, to share them with other clients of the process.
    #[must_use]
    pub fn budgets(mut self, budgets: Budgets) -> Self {
        self.budgets = budgets;
        self
    }

    /// With a journal: each intent with a key is durable before its first byte goes out.
    #[must_use]
    pub fn journal(mut self, journal: Arc<dyn Journal>) -> Self {
        self.journal = Some(journal);
        self
    }

    /// With somebody who follows what happens.
    #[must_use]
    pub fn watch(mut self, watch: Arc<dyn Watch>) -> Self {
        self.watch = Some(watch);
        self
    }

    /// With answers that are cut at so many bytes. Default: 16 MiB.
    #[must_use]
    pub const fn longest_content(mut self, bytes: usize) -> Self {
        self.longest_content = bytes;
        self
    }

    /// With a way to tell that a request never left. Default: none, every error may have been after
    /// the request was sent.
    #[must_use]
    pub fn reached(mut self, reached: Reached) -> Self {
        self.reached = reached;
        self
    }

    /// What was measured of a method at a destination: many quick questions say nothing of how long an
    /// order takes.
    pub(crate) fn latency(&self, method: &Method, destination: &str) -> Option<Arc<Latency>> {
        let of = format!("{method} {destination}");
        let mut known = self.latencies.lock();
        if let Some(latency) = known.get(&of) {
            return Some(Arc::clone(latency));
        }
        if known.len() >= MOST_LATENCIES {
            known.retain(|_, latency| Arc::strong_count(latency) > 1);
        }
        let latency = Arc::new(Latency::new()?);
        known.insert(of, Arc::clone(&latency));
        Some(latency)
    }

    pub(crate) fn tell(&self, event: Event<'_>) {
        if let Some(watch) = &self.watch {
            watch.event(&event);
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::new(Policy::default())
    }
}

/// Turns an HTTP service into a [`Client`].
impl<S> Layer<S> for Settings {
    type Service = Client<S>;

    fn layer(&self, service: S) -> Client<S> {
        Client::through(service, self.clone())
    }
}

/// Why nothing was sent.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SendError {
    /// The intent could not be written down first.
    #[error("nothing was sent: the intent cannot be written to the journal")]
    Journal(#[from] JournalError),
}

/// A client that sends intents until their outcomes are known, or it is known that they are not.
///
/// It is a [`Service`] of [`Intent`]s around a service of HTTP requests. Clones share policy, budgets
/// and measures.
#[derive(Clone)]
pub struct Client<S> {
    pub(crate) service: S,
    pub(crate) settings: Arc<Settings>,
}

impl<S> Client<S> {
    /// A client that sends through this service.
    pub fn through(service: S, settings: Settings) -> Self {
        Self { service, settings: Arc::new(settings) }
    }
}

impl<S, B> Client<S>
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>> + Clone,
    S::Error: Into<BoxError>,
    B: Body,
    B::Error: Into<BoxError>,
{
    /// Sends an intent until its outcome is known, as far as the policy goes.
    ///
    /// Dropped in the middle, the intent may have been sent: with a journal it is there to be resumed.
    ///
    /// # Errors
    /// [`SendError`]: nothing was sent.
    pub async fn send(&self, intent: Intent) -> Result<Outcome, SendError> {
        self.kept(intent, None).await
    }

    /// Finds out what became of an operation: asks for its status where that is known, and sends its
    /// intent again, with its key.
    ///
    /// # Errors
    /// [`SendError`]: nothing was sent.
    pub async fn find_out(&self, operation: Operation) -> Result<Outcome, SendError> {
        let Operation { intent, status, .. } = operation;
        self.kept(intent.sent_before(intent.made()), status).await
    }

    /// Writes an intent down before it is sent, and its outcome after it. Without a key there is
    /// nothing to resume.
    async fn kept(&self, intent: Intent, status: Option<Uri>) -> Result<Outcome, SendError> {
        let journal = self.settings.journal.as_ref().zip(intent.key().cloned());
        let Some((journal, key)) = journal else {
            return Ok(Drive::new(self, intent, status).run().await);
        };
        let (to, written) = (Arc::clone(journal), intent.clone());
        let intent = match self.bounded(move || to.begin(&written)).await? {
            Begun::New => intent,
            Begun::Again { made } => intent.sent_before(made),
        };
        let outcome = Drive::new(self, intent, status).run().await;
        // An outcome that cannot be written down is an outcome all the same: the intent is resumed once
        // too often then, which is harmless.
        let to = Arc::clone(journal);
        if let Some(ended) = Ended::of(&outcome)
            && let Err(error) = self.bounded(move || to.end(&key, ended)).await
        {
            tracing::warn!(%error, "the outcome of an intent cannot be written to the journal");
        }
        Ok(outcome)
    }

    /// Writes to a disk where waiting for it stops nobody, and for no longer than everything may take.
    async fn bounded<T: Send + 'static>(
        &self,
        write: impl FnOnce() -> Result<T, JournalError> + Send + 'static,
    ) -> Result<T, JournalError> {
        let bound = self.settings.policy.deadline;
        match timeout(bound, spawn_blocking(write)).await {
            Ok(Ok(written)) => written,
            Ok(Err(_)) => Err(JournalError::new("the program is being stopped")),
            Err(_) => Err(JournalError::new(format!(
                "its disk does not answer within {bound:?}; what it writes after all is resumed later"
            ))),
        }
    }
}

impl<S, B> Service<Intent> for Client<S>
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>> + Clone + Send + Sync + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
    B: Body + Send,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    type Response = Outcome;
    type Error = SendError;
    type Future = Pin<Box<dyn Future<Output = Result<Outcome, SendError>> + Send>>;

    /// The service is waited for by each attempt.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, intent: Intent) -> Self::Future {
        let client = self.clone();
        Box::pin(async move { client.send(intent).await })
    }
}
