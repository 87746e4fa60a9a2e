//! The engine: what it holds, and how it starts and stops.

use std::{collections::HashMap, sync::Arc, time::Duration};

use hapax_core::{
    EffectId, EffectSecret, Fingerprint, InFlight, OperationName, OperationPolicy, PinnedPolicy,
    PolicyDigest, Problem, ProblemKind, RecordId,
};
use hapax_store::{MemoryStore, SecretPin, Store, StoreError, SystemClock};
use parking_lot::RwLock;
use thiserror::Error;
use tokio::task::JoinHandle;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::warn;

use crate::{
    Answer, Attempt, Executed, Intent, Operation,
    claim::Attempting,
    detached::begin,
    owners::Owners,
    protected::Protected,
    reconcile::{Asked, Looks},
    reply_slot::ReplySlot,
    waiters::Waiters,
};

/// The engine. Cheap to clone; all clones are one.
///
/// ```
/// use hapax::{Hapax, Scope};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let h = Hapax::in_memory();
/// let bill = |_| async { Ok::<u64, String>(7) };
/// let first = h.once("orders.bill", &Scope::single_tenant(), "order 7", "42 EUR", bill).await;
/// let again = h.once("orders.bill", &Scope::single_tenant(), "order 7", "42 EUR", bill).await;
/// assert!(!first.unwrap().replayed);
/// assert!(again.unwrap().replayed);
/// h.shutdown(std::time::Duration::from_secs(1)).await;
/// # }
/// ```
#[derive(Clone)]
pub struct Hapax {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) secrets: Secrets,
    pub(crate) owners: Owners,
    pub(crate) options: Options,
    pub(crate) waiters: Arc<Waiters>,
    pub(crate) tracker: TaskTracker,
    /// Cancelled when no new attempt is accepted.
    pub(crate) draining: CancellationToken,
    /// Cancelled when the drain is over: what still executes becomes uncertain.
    pub(crate) abandon: CancellationToken,
    policies: RwLock<HashMap<PolicyDigest, Arc<PinnedPolicy>>>,
    /// The operations of this process by name, for those that name them.
    pub(crate) defined: RwLock<HashMap<OperationName, Arc<Protected>>>,
    /// The operations whose services can be asked what became of an effect.
    pub(crate) asked: RwLock<Vec<Asked>>,
    /// What this process knows of such questions.
    pub(crate) looks: Looks,
    /// What the layers of each operation have in common.
    #[cfg(feature = "tower")]
    pub(crate) layered: parking_lot::Mutex<HashMap<OperationName, PinnedPolicy>>,
    /// The application's own transactions, where the store is in its database.
    #[cfg(feature = "sqlite")]
    pub(crate) transactions: std::sync::OnceLock<hapax_sql::Transactions>,
    /// What a harness may have put in the way.
    #[cfg(feature = "testing")]
    pub(crate) points: crate::points::Points,
    /// The memory for bodies of requests, over all layers.
    #[cfg(feature = "tower")]
    pub(crate) budget: crate::http::body::BufferBudget,
}

/// The engine's times and limits.
///
/// ```
/// use std::time::Duration;
///
/// let options = hapax::Options { store_timeout: Duration::from_secs(1), ..Default::default() };
/// assert_eq!(options.retry_held, Duration::from_secs(60));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How long a caller waits for one answer of the store before it is told
    /// `store-unavailable` or `outcome-unknown`. Default 2 s.
    pub store_timeout: Duration,
    /// `Retry-After` on in-flight answers. Default 1 s.
    pub retry_in_flight: Duration,
    /// `Retry-After` on held unknown outcomes. Default 60 s.
    pub retry_held: Duration,
    /// `Retry-After` on unknown outcomes of operations whose service is asked. Default 5 s.
    pub retry_probed: Duration,
    /// The bytes that buffered bodies of requests may take together, in the library's layers.
    /// Default 256 MiB.
    pub buffered_total: usize,
    /// Whether all callers are one tenant. Otherwise every attempt names its [`Scope`]: two
    /// tenants never share a key. Default false.
    ///
    /// [`Scope`]: hapax_core::Scope
    pub single_tenant: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            store_timeout: Duration::from_secs(2),
            retry_in_flight: Duration::from_secs(1),
            retry_held: Duration::from_secs(60),
            retry_probed: Duration::from_secs(5),
            buffered_total: 256 << 20,
            single_tenant: false,
        }
    }
}

/// The effect secrets: the one in use, and the older versions that records still name.
#[derive(Clone, Debug)]
pub struct Secrets {
    version: u32,
    by_version: HashMap<u32, EffectSecret>,
}

impl Secrets {
    /// A single secret, version 1.
    pub fn single(secret: EffectSecret) -> Self {
        Self { version: 1, by_version: HashMap::from([(1, secret)]) }
    }

    /// The version that new records use.
    pub const fn version(&self) -> u32 {
        self.version
    }

    /// The secret of a version.
    pub fn of(&self, version: u32) -> Option<&EffectSecret> {
        self.by_version.get(&version)
    }

    /// Every version's.
    pub(crate) fn all(&self) -> impl Iterator<Item = &EffectSecret> {
        self.by_version.values()
    }

    /// Compares every secret with the store's fingerprints, and stores those that are new.
    ///
    /// # Errors
    /// [`SecretsError`] when the store knows another secret under a version: effect ids made with
    /// this one would be new to every downstream.
    pub async fn pin(&self, store: &dyn Store) -> Result<(), SecretsError> {
        for (version, secret) in &self.by_version {
            if store.pin_secret(*version, secret.fingerprint()).await? == SecretPin::Different {
                return Err(SecretsError::Different { version: *version });
            }
        }
        Ok(())
    }
}

/// Why the effect secrets cannot be used with this store.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum SecretsError {
    /// The store's effect ids were made with another secret.
    #[error(
        "the store's effect ids were made with another effect secret (version {version}); start \
         with the one that was used before: with a new one every upstream would see new operations"
    )]
    Different {
        /// The version that differs.
        version: u32,
    },
    /// The store could not be asked.
    #[error("the effect secret could not be compared with the store's")]
    Store(#[from] StoreError),
}

impl Hapax {
    /// An engine in memory, for tests and for trying out: nothing of it survives the process. All
    /// callers are one tenant.
    ///
    /// ```
    /// let h = hapax::Hapax::in_memory();
    /// assert_eq!(h.under_way(), 0);
    /// ```
    pub fn in_memory() -> Self {
        let store = Arc::new(MemoryStore::new(Arc::new(SystemClock)));
        // Its effect ids are seen by nobody who knows others.
        let secrets = Secrets::single(EffectSecret::from_bytes([0; 32]));
        Self::new(store, secrets, Options { single_tenant: true, ..Options::default() })
    }

    /// An engine on a store. The secrets must be [pinned](Secrets::pin) first.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use hapax::{EffectSecret, Hapax, Options, Secrets};
    /// use hapax_store::{MemoryStore, SystemClock};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let store = Arc::new(MemoryStore::new(Arc::new(SystemClock)));
    /// // The same for as long as the store is used: from a file or the environment.
    /// let secret = EffectSecret::from_bytes([7; 32]);
    /// let secrets = Secrets::single(secret);
    /// secrets.pin(&*store).await?;
    /// let h = Hapax::new(store, secrets, Options::default());
    /// h.start_background(Default::default());
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(store: Arc<dyn Store>, secrets: Secrets, options: Options) -> Self {
        let inner = Inner {
            store,
            secrets,
            owners: Owners::new(),
            options,
            waiters: Arc::default(),
            tracker: TaskTracker::new(),
            draining: CancellationToken::new(),
            abandon: CancellationToken::new(),
            policies: RwLock::default(),
            defined: RwLock::default(),
            asked: RwLock::default(),
            looks: Looks::default(),
            #[cfg(feature = "tower")]
            layered: parking_lot::Mutex::default(),
            #[cfg(feature = "sqlite")]
            transactions: std::sync::OnceLock::new(),
            #[cfg(feature = "testing")]
            points: crate::points::Points::default(),
            #[cfg(feature = "tower")]
            budget: crate::http::body::BufferBudget::new(options.buffered_total),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Registers an operation: its policy's text is stored before its digest is first used.
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot take the text.
    pub async fn register(&self, policy: OperationPolicy) -> Result<Arc<Operation>, StoreError> {
        let operation = Arc::new(Operation::new(policy));
        self.remember(&operation).await?;
        Ok(operation)
    }

    /// Stores a policy's text unless this engine knows that it is stored: layers of one policy
    /// write it once, and none waits for a lock because of it.
    pub(crate) async fn remember_once(&self, operation: &Operation) -> Result<(), StoreError> {
        if self.inner.policies.read().contains_key(&operation.digest()) {
            return Ok(());
        }
        self.remember(operation).await
    }

    async fn remember(&self, operation: &Operation) -> Result<(), StoreError> {
        let pinned = operation.pinned();
        let (digest, name) = (operation.digest(), operation.name().clone());
        self.bounded(self.inner.store.remember_policy(digest, name, pinned.text())).await?;
        self.inner.policies.write().insert(digest, Arc::new(pinned.clone()));
        Ok(())
    }

    /// The store, for looking at records and for readiness.
    pub fn store(&self) -> &dyn Store {
        &*self.inner.store
    }

    /// The identity that a new record would carry downstream, and the version of the effect secret
    /// that makes it.
    pub fn identity(&self, record: &RecordId) -> Option<(EffectId, u32)> {
        let version = self.inner.secrets.version();
        let secret = self.inner.secrets.of(version)?;
        Some((EffectId::new(secret, record, ""), version))
    }

    /// Whether new attempts are refused because the engine is shutting down.
    pub fn is_draining(&self) -> bool {
        self.inner.draining.is_cancelled()
    }

    /// Whether this process executes an attempt of a record, or is about to store its end. Asks
    /// nobody: that is known here whatever the store can be asked.
    pub fn executes(&self, record: &RecordId) -> bool {
        self.inner.waiters.has_lead(record)
    }

    /// How many attempts are under way, those that wait included.
    pub fn under_way(&self) -> usize {
        self.inner.tracker.len()
    }

    /// Runs work that goes on without whoever waits for it, and that [`shutdown`](Self::shutdown)
    /// waits for, as it does for attempts.
    ///
    /// # Errors
    /// The problem `draining` once a shutdown has begun: nothing of it was done.
    pub fn go_on<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<JoinHandle<T>, Problem> {
        // As in `track`: it is counted before the check.
        let _counted = self.inner.tracker.token();
        if self.is_draining() {
            return Err(draining());
        }
        Ok(self.inner.tracker.spawn(work))
    }

    /// Answers one attempt: claims, decides, executes if nobody did, settles. Nothing of that begins
    /// before it is waited for.
    ///
    /// Whatever waits of claiming, executing and settling runs in a tracked task: dropping this
    /// future, because the caller hung up, changes nothing of them. `execute` is called at most
    /// once, after the record is claimed and admitted; if it panics or outlives the operation's
    /// timeout, the outcome is unknown. An answer that says the effect happened is given only after
    /// that is durable.
    pub fn run<T, F, Fut>(
        &self,
        operation: &Arc<Operation>,
        id: RecordId,
        fingerprint: Fingerprint,
        intent: impl Intent + 'static,
        execute: F,
    ) -> impl Future<Output = Answer<T>>
    where
        T: Send + 'static,
        F: FnOnce(Attempt) -> Fut + Send + 'static,
        Fut: Future<Output = Executed<T>> + Send + 'static,
    {
        let in_flight = operation.policy().in_flight;
        self.run_while(in_flight, operation, id, fingerprint, intent, execute)
    }

    /// As [`run`](Self::run), for a caller that has its own wish while another attempt is under
    /// way.
    pub fn run_while<T, F, Fut>(
        &self,
        in_flight: InFlight,
        operation: &Arc<Operation>,
        id: RecordId,
        fingerprint: Fingerprint,
        intent: impl Intent + 'static,
        execute: F,
    ) -> impl Future<Output = Answer<T>>
    where
        T: Send + 'static,
        F: FnOnce(Attempt) -> Fut + Send + 'static,
        Fut: Future<Output = Executed<T>> + Send + 'static,
    {
        // Not async: its future would hold what it is given beside what becomes of that.
        let attempting = Attempting::new(self.clone(), Arc::clone(operation), id, fingerprint);
        let attempting = Attempting { in_flight, ..attempting };
        let execute = |attempt| async move { Box::new(execute(attempt).await) };
        let tracked = self.track(|slot| attempting.run(intent, execute, slot));
        async move { *tracked.await }
    }

    /// Runs the whole way of an attempt, which shutdown waits for and the caller's end does not end.
    pub(crate) fn track<T, F>(
        &self,
        attempt: impl FnOnce(ReplySlot<T>) -> F,
    ) -> impl Future<Output = Box<Answer<T>>>
    where
        T: Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let (slot, arriving) = ReplySlot::new();
        // Large, and boxed before anything is built around it that would be as large.
        let attempt = self.lives(Box::pin(attempt(slot.clone())));
        async move {
            // Not before somebody waits for it: shutdown would wait as well, or be over by then. It
            // is tracked before the check, so that a shutdown that begins in between waits.
            let token = self.inner.tracker.token();
            if self.is_draining() {
                slot.send(Answer::Problem(draining()));
            } else {
                let begun = begin(Box::pin(async move {
                    attempt.await;
                    drop(token);
                }));
                // It may go on behind its answer.
                drop(begun.await);
            }
            // What goes on has the slot that counts.
            drop(slot);
            arriving.answer().await
        }
    }

    /// Stops: refuses new attempts, waits for executions up to `bound`, then makes what is left
    /// uncertain and waits for that to be stored, up to the store's timeout. Returns how many
    /// tasks did not end even then.
    pub async fn shutdown(&self, bound: Duration) -> usize {
        let inner = &self.inner;
        inner.draining.cancel();
        inner.tracker.close();
        if tokio::time::timeout(bound, inner.tracker.wait()).await.is_err() {
            warn!(left = inner.tracker.len(), "drain is over; what still executes is uncertain");
            inner.abandon.cancel();
            let grace = inner.options.store_timeout.saturating_mul(2);
            let _ = tokio::time::timeout(grace, inner.tracker.wait()).await;
        }
        inner.abandon.cancel();
        inner.tracker.len()
    }

    /// A reading that does not outlast the store's timeout, whatever the store does.
    pub(crate) async fn bounded<R>(
        &self,
        reading: hapax_store::Reply<'_, R>,
    ) -> Result<R, StoreError> {
        let bound = self.inner.options.store_timeout;
        let late = |_| StoreError::Unavailable { reason: format!("no answer within {bound:?}") };
        tokio::time::timeout(bound, reading).await.map_err(late)?
    }

    /// The policy behind a digest: known here, or read from the store once, within its timeout.
    /// `None` when it is absent or of a version that this node does not know.
    pub(crate) async fn pinned_policy(
        &self,
        digest: PolicyDigest,
    ) -> Result<Option<Arc<PinnedPolicy>>, StoreError> {
        if let Some(known) = self.inner.policies.read().get(&digest) {
            return Ok(Some(known.clone()));
        }
        let text = self.bounded(self.inner.store.policy(digest)).await?;
        let parsed = text.as_deref().and_then(PinnedPolicy::parse).map(Arc::new);
        if let Some(policy) = &parsed {
            self.inner.policies.write().insert(digest, policy.clone());
        }
        Ok(parsed)
    }
}

fn draining() -> Problem {
    Problem::new(
        ProblemKind::Draining,
        "This instance is shutting down and executed nothing. Send the same request again.",
    )
    .retry_after(Duration::from_secs(1))
}

pub(crate) fn unknown_after_fault() -> Problem {
    Problem::new(
        ProblemKind::OutcomeUnknown,
        "The operation may have taken effect. Ask again with the same key.",
    )
    .retry_after(Duration::from_secs(60))
}
