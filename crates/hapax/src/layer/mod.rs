//! The layer for tower services that speak HTTP.

use std::{
    fmt,
    pin::Pin,
    sync::{Arc, OnceLock},
};

use hapax_core::{OperationPolicy, Scope};
use http::{Uri, request::Parts};
use tower_layer::Layer;

use crate::{
    Hapax,
    http::{
        FieldNames,
        body::{BufferBudget, ReadLimits},
    },
    protected::{self, Protected},
};

mod service;
mod take;
mod webhook;

pub use service::OperationService;
pub use take::NotTaken;
pub use webhook::{Event, Rejected};

use webhook::Verify;

/// Protects the services behind it as one operation: [`Hapax::operation`].
///
/// A request needs an `Idempotency-Key`; its scope is the [`Scope`] that authentication in front of
/// this layer has put into the request's extensions. The handler takes its attempt by an extractor
/// (`Tx` or [`Execution`](crate::Execution)); a service that knows nothing of hapax is protected as
/// a whole with [`bracketed`](Self::bracketed).
///
/// # Order of layers
///
/// From the outside in: tracing and request ids, catching of panics, limits of bodies,
/// authentication, **this layer**, timeouts of the application, compression, the handler. What is
/// outside runs for every attempt, replays included. What is inside answers the first attempt alone,
/// and what it answers is what is stored. A handler that takes its attempt is asked for every
/// attempt whether it does: layers inside, and arguments before the one that takes it, run for
/// retries too, so let that be the first argument. A [bracketed](Self::bracketed) service is called
/// for the first attempt alone.
#[derive(Clone)]
pub struct OperationLayer {
    engine: Hapax,
    policy: OperationPolicy,
    way: Way,
    events: Option<Arc<Verify>>,
    scope: Option<Arc<ScopeOf>>,
    authorize: Option<Arc<Authorize>>,
    limits: ReadLimits,
    /// Made when it is first applied: axum applies it again for every connection. Whatever is
    /// changed takes a new one.
    door: Arc<OnceLock<Arc<Door>>>,
}

/// How the effect of a service is told.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Way {
    /// By what the handler takes.
    Taken,
    /// By the service's answer: the whole of it is one call.
    Bracketed,
}

type ScopeOf = dyn Fn(&Parts) -> Option<Scope> + Send + Sync;
type Authorize = dyn Fn(Arc<Parts>) -> Pin<Box<dyn Future<Output = Access> + Send>> + Send + Sync;

/// Whether a caller may see the outcome of an operation that was done before. See
/// [`authorize_replay`](OperationLayer::authorize_replay).
///
/// ```
/// use hapax::Access;
///
/// fn from_answer(allowed: Result<bool, std::io::Error>) -> Access {
///     match allowed {
///         Ok(true) => Access::Granted,
///         Ok(false) => Access::Denied,
///         Err(_) => Access::Unknown,
///     }
/// }
/// # assert_eq!(from_answer(Ok(false)), Access::Denied);
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Access {
    /// It may.
    Granted,
    /// It may not, or not any more: 403 without the outcome. The record stays, and nothing is
    /// executed again.
    Denied,
    /// That cannot be found out now: 503.
    Unknown,
}

impl Hapax {
    /// A layer that protects services as the operation of this name.
    ///
    /// ```
    /// # use hapax::Hapax;
    /// # fn app(h: &Hapax) {
    /// let layer = h
    ///     .operation("payments.create")
    ///     .policy(|policy| policy.timeout = std::time::Duration::from_secs(5))
    ///     .bracketed();
    /// # let _ = layer;
    /// # }
    /// ```
    ///
    /// # Panics
    /// If `name` is not 1 to 128 characters of `a-z A-Z 0-9 . _ -`: like a route that is none, that
    /// is found when the application starts.
    #[track_caller]
    pub fn operation(&self, name: &str) -> OperationLayer {
        let policy = protected::policy_of(name);
        let defined = self.inner.defined.read();
        let policy = defined.get(&policy.name).map_or(policy, |there| there.policy().clone());
        OperationLayer {
            engine: self.clone(),
            policy,
            way: Way::Taken,
            events: None,
            scope: None,
            authorize: None,
            limits: ReadLimits::default(),
            door: Arc::default(),
        }
    }
}

impl OperationLayer {
    /// Changes the policy: its times, what a duplicate gets, what makes two requests the same.
    /// Operations of one name are one. What makes two of their requests the same, and what may be
    /// done about an unknown outcome, is one for all their routes: give it by [`Hapax::define`].
    ///
    /// ```
    /// # use hapax::{Hapax, OnUnknown};
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # let h = Hapax::in_memory();
    /// // The provider remembers identities for a day: what is unknown may be done again.
    /// let layer = h.operation("payments.create").policy(|policy| {
    ///     policy.on_unknown = OnUnknown::Resend;
    ///     policy.collapse_for = Some(Duration::from_secs(86_400));
    /// });
    /// # drop(layer);
    /// # }
    /// ```
    ///
    /// # Panics
    /// If it gives the operation another name; when the layer is applied, if the policy is
    /// inconsistent or does not fit that of another layer of this name, with what is wrong.
    #[must_use]
    #[track_caller]
    pub fn policy(mut self, change: impl FnOnce(&mut OperationPolicy)) -> Self {
        protected::change(&mut self.policy, change);
        Self { door: Arc::default(), ..self }
    }

    /// The service behind is one call, whatever it does: the claim is durable before it is called
    /// and its answer is before it is passed on. For services that take no attempt themselves.
    ///
    /// ```
    /// use axum::{Router, routing::post};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # let h = hapax::Hapax::in_memory();
    /// let pay = post(|| async { "paid" }).layer(h.operation("payments.create").bracketed());
    /// let app: Router = Router::new().route("/payments", pay);
    /// # drop(app);
    /// # }
    /// ```
    #[must_use]
    pub fn bracketed(self) -> Self {
        Self { way: Way::Bracketed, door: Arc::default(), ..self }
    }

    /// Where the scope comes from: the authenticated tenant or account. Without this it is the
    /// [`Scope`] in the request's extensions. `None` is refused with 401.
    ///
    /// ```
    /// use hapax::Scope;
    ///
    /// /// What authentication has put into the extensions.
    /// #[derive(Clone)]
    /// struct Account(String);
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # let h = hapax::Hapax::in_memory();
    /// let layer = h.operation("payments.create").scope(|head| {
    ///     let account = head.extensions.get::<Account>()?;
    ///     Scope::principal(account.0.as_bytes()).ok()
    /// });
    /// # drop(layer);
    /// # }
    /// ```
    #[must_use]
    pub fn scope(self, of: impl Fn(&Parts) -> Option<Scope> + Send + Sync + 'static) -> Self {
        Self { scope: Some(Arc::new(of)), door: Arc::default(), ..self }
    }

    /// Asked before the outcome of an earlier attempt is shown. Authentication in front of this
    /// layer has let the caller in; this is for what the handler would check, such as whether the
    /// account still belongs to the caller.
    ///
    /// ```
    /// use hapax::Access;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # let h = hapax::Hapax::in_memory();
    /// # async fn is_member(_: &axum::http::HeaderMap) -> Option<bool> { Some(true) }
    /// let layer = h.operation("payments.create").authorize_replay(|head| async move {
    ///     match is_member(&head.headers).await {
    ///         Some(true) => Access::Granted,
    ///         Some(false) => Access::Denied,
    ///         None => Access::Unknown,
    ///     }
    /// });
    /// # drop(layer);
    /// # }
    /// ```
    #[must_use]
    pub fn authorize_replay<F, Fut>(self, may_see: F) -> Self
    where
        F: Fn(Arc<Parts>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Access> + Send + 'static,
    {
        let authorize = move |head: Arc<Parts>| -> Pin<Box<dyn Future<Output = Access> + Send>> {
            Box::pin(may_see(head))
        };
        Self { authorize: Some(Arc::new(authorize)), door: Arc::default(), ..self }
    }

    /// What the body of a request may take: bytes as sent and without its content codings, and time
    /// until it is there. 1 MiB, 8 MiB and 10 s unless set.
    ///
    /// ```
    /// use hapax::http::body::ReadLimits;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # let h = hapax::Hapax::in_memory();
    /// let layer = h
    ///     .operation("documents.create")
    ///     .body_limits(ReadLimits { max_bytes: 16 << 20, ..Default::default() });
    /// # drop(layer);
    /// # }
    /// ```
    #[must_use]
    pub fn body_limits(self, limits: ReadLimits) -> Self {
        Self { limits, door: Arc::default(), ..self }
    }

    /// Whoever takes an attempt has none where there is no key.
    #[cfg(feature = "axum")]
    #[track_caller]
    pub(crate) fn must_require_a_key(&self) {
        assert!(
            self.policy.key.required || self.events.is_some(),
            "operation {}: its handler takes an attempt, and there is none for requests without a \
             key; leave key.required on, or protect it as a whole with bracketed()",
            self.policy.name
        );
    }

    fn events(self, verify: Arc<Verify>) -> Self {
        Self { events: Some(verify), door: Arc::default(), ..self }
    }

    #[expect(clippy::panic, reason = "as axum does for a route that is none, at the start")]
    #[track_caller]
    fn door(&self) -> Door {
        let name = &self.policy.name;
        let mut layered = self.engine.inner.layered.lock();
        let pinned = layered.entry(name.clone()).or_insert_with(|| self.policy.pinned());
        assert!(
            *pinned == self.policy.pinned(),
            "operation {name}: it is protected twice, by policies that differ in what makes two \
             requests the same, or in what may be done about an unknown outcome; give it one by \
             Hapax::define"
        );
        drop(layered);
        let fields = FieldNames::of(&self.policy)
            .unwrap_or_else(|error| panic!("operation {name}: {error}"));
        Door {
            engine: self.engine.clone(),
            protected: Arc::new(Protected::new(&self.policy)),
            fields,
            way: self.way,
            events: self.events.clone(),
            scope: self.scope.clone(),
            authorize: self.authorize.clone(),
            limits: self.limits,
            budget: self.engine.inner.budget.clone(),
        }
    }
}

impl fmt::Debug for OperationLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OperationLayer")
            .field("operation", &self.policy.name)
            .field("way", &self.way)
            .finish_non_exhaustive()
    }
}

impl<S> Layer<S> for OperationLayer {
    type Service = OperationService<S>;

    #[track_caller]
    fn layer(&self, inner: S) -> OperationService<S> {
        let door = self.door.get_or_init(|| Arc::new(self.door()));
        OperationService::new(Arc::clone(door), inner)
    }
}

/// What the services behind one layer share.
struct Door {
    engine: Hapax,
    protected: Arc<Protected>,
    fields: FieldNames,
    way: Way,
    /// Where the key comes from that is none of the caller's.
    events: Option<Arc<Verify>>,
    scope: Option<Arc<ScopeOf>>,
    authorize: Option<Arc<Authorize>>,
    limits: ReadLimits,
    budget: BufferBudget,
}

impl Door {
    fn policy(&self) -> &OperationPolicy {
        self.protected.policy()
    }

    fn scope(&self, head: &Parts) -> Option<Scope> {
        match &self.scope {
            Some(of) => of(head),
            None if self.engine.inner.options.single_tenant => Some(Scope::single_tenant()),
            None => head.extensions.get::<Scope>().cloned(),
        }
    }
}

/// The target as the client sent it, where a router has taken a prefix away.
#[cfg(feature = "axum")]
fn original_target(head: &Parts) -> Option<Uri> {
    head.extensions.get::<::axum::extract::OriginalUri>().map(|original| original.0.clone())
}

#[cfg(not(feature = "axum"))]
fn original_target(_: &Parts) -> Option<Uri> {
    None
}
