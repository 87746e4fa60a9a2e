//! An operation as a service protects it: one policy, and one registration for each way in which
//! an effect can be told.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use hapax_core::OperationPolicy;
use hapax_store::StoreError;

use crate::{Hapax, Operation};

/// An operation of a service. Which way of telling its effect applies is known when a handler
/// takes its attempt; a record that was made in one way is not gone on with in another.
#[derive(Debug)]
pub(crate) struct Protected {
    #[cfg(feature = "tower")]
    pub(crate) whole: Registered,
    pub(crate) steps: Registered,
    #[cfg(feature = "sqlite")]
    pub(crate) transaction: Registered,
}

impl Protected {
    pub(crate) fn new(policy: &OperationPolicy) -> Self {
        let told = |how: &str| Registered::new(policy, how);
        Self {
            #[cfg(feature = "tower")]
            whole: told("service"),
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
            engine.remember_once(&self.operation).await?;
            self.stored.store(true, Ordering::Release);
        }
        Ok(&self.operation)
    }
}
