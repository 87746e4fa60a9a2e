//! The memory that all buffered request bodies share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use metrics::gauge;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::aside::most_at_once;
use crate::metric_definitions::BUFFERED_BYTES;

/// How many bytes of request bodies this process may hold at once, over all connections, with what it
/// takes to read the large ones.
///
/// It never waits: where there is no room, the request is refused and nothing of it was claimed.
/// Bytes count as they arrive, so a declared length that is never sent occupies nothing. Clones
/// share one budget.
#[derive(Clone, Debug)]
pub struct BufferBudget {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    limit: usize,
    used: AtomicUsize,
    /// So many large bodies are read at once.
    reading: Arc<Semaphore>,
}

impl BufferBudget {
    /// A budget of `limit` bytes.
    pub fn new(limit: usize) -> Self {
        let reading = Arc::new(Semaphore::new(most_at_once()));
        Self { shared: Arc::new(Shared { limit, used: AtomicUsize::new(0), reading }) }
    }

    /// All of it, in bytes.
    pub fn limit(&self) -> usize {
        self.shared.limit
    }

    /// What is held at present, in bytes.
    pub fn used(&self) -> usize {
        self.shared.used.load(Ordering::Relaxed)
    }

    /// A reservation of nothing, to grow.
    pub fn reserve(&self) -> Reservation {
        Reservation { budget: self.clone(), held: 0 }
    }

    /// Waits for its turn to read a large body.
    pub(super) async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        // Never closed, so always acquired.
        Arc::clone(&self.shared.reading).acquire_owned().await.ok()
    }

    /// Whether so many bytes could be held now.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.used().checked_add(bytes).is_some_and(|used| used <= self.shared.limit)
    }
}

/// A share of the budget, given back on drop.
#[derive(Debug)]
pub struct Reservation {
    budget: BufferBudget,
    held: usize,
}

impl Reservation {
    /// Takes `more` bytes; `false`, and nothing taken, where there is no room.
    #[must_use = "where nothing was taken, the bytes must not be kept"]
    pub fn grow(&mut self, more: usize) -> bool {
        let shared = &self.budget.shared;
        let grown = shared.used.try_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            used.checked_add(more).filter(|used| *used <= shared.limit)
        });
        if grown.is_ok() {
            self.held += more;
            gauge!(BUFFERED_BYTES).increment(as_float(more));
        }
        grown.is_ok()
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.shared.used.fetch_sub(self.held, Ordering::Relaxed);
        gauge!(BUFFERED_BYTES).decrement(as_float(self.held));
    }
}

/// A gauge is a float; a body is far below the 2^32 that convert exactly.
fn as_float(bytes: usize) -> f64 {
    u32::try_from(bytes).unwrap_or(u32::MAX).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_reserved_comes_back_and_nothing_passes_the_limit() {
        let budget = BufferBudget::new(10);
        let mut first = budget.reserve();
        let mut second = budget.reserve();
        assert!(first.grow(6) && second.grow(4));
        assert!(!first.grow(1) && !second.grow(usize::MAX));
        assert_eq!(budget.used(), 10);
        drop(first);
        assert_eq!(budget.used(), 4);
        assert!(second.grow(6));
        drop(second);
        assert_eq!(budget.used(), 0);
    }
}
