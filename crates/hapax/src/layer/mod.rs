//! The layer for tower services that speak HTTP.

use std::{
    fmt,
    pin::Pin,
    sync::{Arc, OnceLock},
};

use hapax_core::{OperationName, OperationPolicy, Scope};
use http::{Uri, request::Parts};
use tower_layer::Layer;

use crate::{
    Hapax,
    http::{
        FieldNames,
        body::{BufferBudget, ReadLimits},
    },
    protected::Protected,
};

mod service;
mod webhook;

pub use service::OperationService;
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
/// outside runs for every attempt, replays included; what is inside runs for the first alone, and
/// what it answers is what is stored.
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

/// Whether a caller may see the outcome of an operation that was done before.
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
    #[expect(clippy::panic, reason = "as axum does for a route that is none, at the start")]
    pub fn operation(&self, name: &str) -> OperationLayer {
        let name = OperationName::new(name).unwrap_or_else(|error| panic!("{name:?}: {error}"));
        let defined = self.inner.defined.read().get(&name).map(|there| there.policy().clone());
        let policy = defined.unwrap_or_else(|| {
            let mut policy = OperationPolicy::new(name, "");
            policy.key.required = true;
            policy
        });
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
    /// Operations of one name are one: use the same policy for all their routes, or
    /// [`Hapax::define`].
    ///
    /// # Panics
    /// When the layer is applied, if the policy is inconsistent, with what is wrong.
    #[must_use]
    pub fn policy(mut self, change: impl FnOnce(&mut OperationPolicy)) -> Self {
        change(&mut self.policy);
        Self { door: Arc::default(), ..self }
    }

    /// The service behind is one call, whatever it does: the claim is durable before it is called
    /// and its answer is before it is passed on. For services that take no attempt themselves.
    #[must_use]
    pub fn bracketed(self) -> Self {
        Self { way: Way::Bracketed, door: Arc::default(), ..self }
    }

    /// Where the scope comes from: the authenticated tenant or account. Without this it is the
    /// [`Scope`] in the request's extensions. `None` is refused with 401.
    #[must_use]
    pub fn scope(self, of: impl Fn(&Parts) -> Option<Scope> + Send + Sync + 'static) -> Self {
        Self { scope: Some(Arc::new(of)), door: Arc::default(), ..self }
    }

    /// Asked before the outcome of an earlier attempt is shown. Authentication in front of this
    /// layer has let the caller in; this is for what the handler would check, such as whether the
    /// account still belongs to the caller.
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

    /// What the body of a request may take: bytes, and time until it is there. 1 MiB and 10 s
    /// unless set.
    #[must_use]
    pub fn body_limits(self, limits: ReadLimits) -> Self {
        Self { limits, door: Arc::default(), ..self }
    }

    fn events(self, verify: Arc<Verify>) -> Self {
        Self { events: Some(verify), door: Arc::default(), ..self }
    }

    #[expect(clippy::panic, reason = "as axum does for a route that is none, at the start")]
    fn door(&self) -> Door {
        let wrong = self.policy.check();
        assert!(wrong.is_empty(), "operation {}: {}", self.policy.name, list(&wrong));
        let fields = FieldNames::of(&self.policy)
            .unwrap_or_else(|error| panic!("operation {}: {error}", self.policy.name));
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

fn list(wrong: &[hapax_core::PolicyError]) -> String {
    wrong.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
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
