//! The suite that every store runs: the rules of the record protocol as tests.
//!
//! A store's test implements [`Harness`] and hands the expression that makes one to
//! [`conformance_tests!`](crate::conformance_tests):
//!
//! ```
//! use std::sync::Arc;
//!
//! use hapax_store::{
//!     ManualClock, MemoryStore, Store,
//!     conformance::{Ability, Harness},
//! };
//!
//! struct InMemory {
//!     clock: Arc<ManualClock>,
//!     node: MemoryStore,
//! }
//!
//! impl InMemory {
//!     fn fresh() -> Self {
//!         let clock = Arc::new(ManualClock::new());
//!         Self { node: MemoryStore::new(clock.clone()), clock }
//!     }
//! }
//!
//! impl Harness for InMemory {
//!     // A store can do without its faults for a while; the list says which rules wait for them.
//!     const CANNOT: &'static [Ability] = &[
//!         Ability::GoBack,
//!         Ability::ChangeIncarnation,
//!         Ability::LoseAnswers,
//!         Ability::EraseLease,
//!     ];
//!
//!     fn clock(&self) -> &ManualClock {
//!         &self.clock
//!     }
//!
//!     fn node(&self) -> Arc<dyn Store> {
//!         Arc::new(self.node.clone())
//!     }
//!
//!     async fn second_node(&mut self) -> Arc<dyn Store> {
//!         Arc::new(self.node.node())
//!     }
//!
//!     async fn reopen(&mut self) -> Arc<dyn Store> {
//!         self.node = self.node.node();
//!         self.node()
//!     }
//! }
//!
//! hapax_store::conformance_tests!(InMemory::fresh());
//! ```
//!
//! Each function in [`rules`] becomes one test on a harness of its own, so a failure names the
//! promise that was broken. The testing crate needs `tokio` with `macros` and `rt-multi-thread`.
//!
//! A rule that needs an ability which a harness does not have is not skipped silently: the harness
//! names it in [`Harness::CANNOT`], or the rule fails.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a rule that does not hold panics, as an assertion does"
)]

use std::{future::ready, sync::Arc, time::Duration};

use hapax_core::RecordId;

use crate::{ManualClock, Store};

mod given;
mod race;
pub mod rules;
#[cfg(test)]
mod seeded;

/// What a store's test gives the suite: an empty store on a clock that the suite moves, and the
/// faults that the store can be put through.
///
/// Every rule gets a harness of its own, so nothing is shared between rules.
pub trait Harness: Send + Sync + 'static {
    /// What this harness cannot do. The rules that need it are not applicable to the store; the
    /// list is explicit so that none is missed by accident.
    const CANNOT: &'static [Ability] = &[];

    /// How long one rule may take.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// The store's clock. Nobody else moves it.
    fn clock(&self) -> &ManualClock;

    /// The first node: the same one each time, until [`reopen`](Self::reopen).
    fn node(&self) -> Arc<dyn Store>;

    /// Another node on the same data, as another process would be.
    fn second_node(&mut self) -> impl Future<Output = Arc<dyn Store>> + Send;

    /// Stops the first node and opens the data again, as a restarted process does; answers with
    /// the new first node. The suite has dropped its own handles of the old one.
    fn reopen(&mut self) -> impl Future<Output = Arc<dyn Store>> + Send;

    /// Keeps the data as it is now, for [`go_back`](Self::go_back).
    fn keep_moment(&mut self) -> impl Future<Output = Result<(), Unsupported>> + Send {
        ready(Err(Unsupported))
    }

    /// Puts the data back to the kept moment under the feet of the running nodes, as restoring a
    /// backup does. The nodes are not told.
    fn go_back(&mut self) -> impl Future<Output = Result<(), Unsupported>> + Send {
        ready(Err(Unsupported))
    }

    /// Makes the data another incarnation (`protocol.md` 18) that holds the same records. The
    /// nodes are not told.
    fn change_incarnation(&mut self) -> impl Future<Output = Result<(), Unsupported>> + Send {
        ready(Err(Unsupported))
    }

    /// Loses the answer of the first node's next write to a record: it is
    /// [`StoreError::AnswerLost`](crate::StoreError::AnswerLost), and the write is there or not.
    fn lose_next_answer(
        &mut self,
        committed: bool,
    ) -> impl Future<Output = Result<(), Unsupported>> + Send {
        let _ = committed;
        ready(Err(Unsupported))
    }

    /// Removes the lease data of a record, as a damaged or foreign row would lack it.
    fn erase_lease(
        &mut self,
        id: RecordId,
    ) -> impl Future<Output = Result<(), Unsupported>> + Send {
        let _ = id;
        ready(Err(Unsupported))
    }
}

/// The harness cannot do this; it says so in [`Harness::CANNOT`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Unsupported;

/// What only some harnesses can do.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Ability {
    /// [`Harness::keep_moment`] and [`Harness::go_back`].
    GoBack,
    /// [`Harness::change_incarnation`].
    ChangeIncarnation,
    /// [`Harness::lose_next_answer`].
    LoseAnswers,
    /// [`Harness::erase_lease`].
    EraseLease,
}

impl Ability {
    /// Whether the rule can go on. `false`: it is not applicable, and the harness says so.
    #[track_caller]
    fn is_there<H: Harness>(self, answer: Result<(), Unsupported>) -> bool {
        let named = H::CANNOT.contains(&self);
        match answer {
            Ok(()) if named => panic!("the harness can {self:?}, yet names it in CANNOT"),
            Ok(()) => true,
            Err(Unsupported) if named => {
                println!("not applicable: the harness cannot {self:?}");
                false
            }
            Err(Unsupported) => panic!("the harness cannot {self:?} and does not say so in CANNOT"),
        }
    }
}

/// Runs one rule within the harness's patience.
#[doc(hidden)]
pub async fn run<H: Harness, F: Future<Output = ()>>(rule: impl FnOnce(H) -> F, harness: H) {
    let in_time = tokio::time::timeout(H::PATIENCE, rule(harness)).await;
    assert!(in_time.is_ok(), "the rule took longer than {:?}", H::PATIENCE);
}

/// One test for each rule of the suite, on the harness that the expression makes. The expression
/// is evaluated once for each rule, in an async block.
#[macro_export]
macro_rules! conformance_tests {
    ($harness:expr) => {
        $crate::for_each_rule! { [$crate::conformance_tests] @rule ($harness) }
    };
    (@rule ($harness:expr) $($rule:ident)+) => {
        $(
            #[::tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $rule() {
                $crate::conformance::run($crate::conformance::rules::$rule, $harness).await;
            }
        )+
    };
}
