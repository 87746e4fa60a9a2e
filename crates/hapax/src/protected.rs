//! An operation as a service protects it: one policy, and one registration for each way in which
//! an effect can be told.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use hapax_core::{OperationName, OperationPolicy};
use hapax_store::StoreError;

use crate::{Hapax, Operation};

/// An operation of a service. Which way of telling its effect applies is known when a handler
/// takes its attempt; a record that was made in one way is not gone on with in another.
#[derive(Debug)]
pub(crate) struct Protected {
    #[cfg(feature = "tower")]
    pub(crate) whole: Registered,
    /// A handler has answered without its attempt: nothing more is let through to it.
    #[cfg(feature = "tower")]
    pub(crate) is_bare: AtomicBool,
    pub(crate) steps: Registered,
    #[cfg(feature = "sqlite")]
    pub(crate) transaction: Registered,
}

/// The policy of an operation of which nothing is said but its name.
#[track_caller]
pub(crate) fn policy_of(name: &str) -> OperationPolicy {
    let mut policy = OperationPolicy::new(name_of(name), "");
    policy.key.required = true;
    policy
}

/// Changes a policy, and not whose it is.
#[track_caller]
pub(crate) fn change(policy: &mut OperationPolicy, change: impl FnOnce(&mut OperationPolicy)) {
    let name = policy.name.clone();
    change(policy);
    assert!(
        policy.name == name,
        "operation {name}: its policy gives it another name, {}; the name is where it begins",
        policy.name
    );
}

/// The name of an operation, which is written in the application's code.
#[track_caller]
#[expect(clippy::panic, reason = "as axum does for a route that is none")]
pub(crate) fn name_of(name: &str) -> OperationName {
    OperationName::new(name).unwrap_or_else(|error| panic!("{name:?}: {error}"))
}

impl Protected {
    /// Panics if the policy is inconsistent, with what is wrong: that is found at the start.
    #[track_caller]
    pub(crate) fn new(policy: &OperationPolicy) -> Self {
        let wrong: Vec<_> = policy.check().iter().map(ToString::to_string).collect();
        assert!(wrong.is_empty(), "operation {}: {}", policy.name, wrong.join("; "));
        let told = |how: &str| Registered::new(policy, how);
        Self {
            #[cfg(feature = "tower")]
            whole: told("service"),
            #[cfg(feature = "tower")]
            is_bare: AtomicBool::new(false),
            steps: told("steps"),
            #[cfg(feature = "sqlite")]
            transaction: told("transaction"),
        }
    }
}

#[cfg(feature = "tower")]
impl Protected {
    pub(crate) fn policy(&self) -> &OperationPolicy {
        self.whole.operation().policy()
    }
}

/// An operation whose policy is stored before it is first used.
#[derive(Debug)]
pub(crate) struct Registered {
    operation: Arc<Operation>,
    stored: AtomicBool,
}

impl Registered {
    /// The target is where the effect happens: another one permits nothing to go on.
    fn new(policy: &OperationPolicy, target: &str) -> Self {
        let policy = OperationPolicy { target: target.to_owned(), ..policy.clone() };
        Self { operation: Arc::new(Operation::new(policy)), stored: AtomicBool::new(false) }
    }

    #[cfg(feature = "tower")]
    pub(crate) const fn operation(&self) -> &Arc<Operation> {
        &self.operation
    }

    /// The operation, its policy's text stored.
    pub(crate) async fn ready(&self, engine: &Hapax) -> Result<&Arc<Operation>, StoreError> {
        if !self.stored.load(Ordering::Acquire) {
            // Once, so that its future is not part of every attempt's.
            Box::pin(engine.remember_once(&self.operation)).await?;
            self.stored.store(true, Ordering::Release);
        }
        Ok(&self.operation)
    }
}
