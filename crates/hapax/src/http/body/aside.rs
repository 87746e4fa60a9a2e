//! Content that takes long to read: beside the async workers, and in memory that is set aside for it.

use std::{num::NonZero, thread::available_parallelism};

use tokio::task::spawn_blocking;
use tracing::error;

use super::{BufferBudget, ReadError};

/// Content from this many bytes on takes a worker for longer than others should wait for it.
const LARGE: usize = 64 << 10;

/// Whether content of so many bytes is read beside the workers.
pub(in crate::http) const fn is_large(bytes: usize) -> bool {
    bytes > LARGE
}

/// How many are read at once.
pub(super) fn most_at_once() -> usize {
    available_parallelism().map_or(1, NonZero::get)
}

/// Reads something beside the workers, one for each processor at a time. What that may `cost` in
/// memory counts in the budget meanwhile.
///
/// # Errors
/// [`ReadError::NoRoom`]; and [`ReadError::Unreadable`] where `read` panics.
pub(in crate::http) async fn read_aside<S, T>(
    budget: &BufferBudget,
    what: S,
    cost: impl FnOnce(&S) -> usize + Send + 'static,
    read: impl FnOnce(&S) -> T + Send + 'static,
) -> Result<T, ReadError>
where
    S: Send + 'static,
    T: Send + 'static,
{
    let turn = budget.turn().await;
    let mut held = budget.reserve();
    let limit = budget.limit();
    let reading = spawn_blocking(move || {
        let _turn = turn;
        match held.grow(cost(&what)) {
            true => Ok(read(&what)),
            false => Err(ReadError::NoRoom { budget: limit }),
        }
    });
    reading.await.unwrap_or_else(|error| {
        error!(%error, "a body could not be read");
        Err(ReadError::Unreadable)
    })
}

#[cfg(test)]
mod tests {
    use hapax_core::ProblemKind;

    use super::*;

    #[tokio::test]
    async fn what_reading_costs_counts_while_it_is_read() {
        let budget = BufferBudget::new(100);
        let seen = budget.clone();
        let read = read_aside(&budget, 60, |cost| *cost, move |_| seen.used()).await;
        assert!(matches!(read, Ok(60)));
        assert_eq!(budget.used(), 0);
        let read = read_aside(&budget, (), |()| 101, |()| ()).await;
        assert!(matches!(read, Err(ReadError::NoRoom { budget: 100 })));
        assert_eq!(budget.used(), 0);
    }

    #[tokio::test]
    async fn a_panic_refuses_the_request_and_leaves_room_for_the_next() {
        let budget = BufferBudget::new(100);
        for _ in 0..=most_at_once() {
            let read = read_aside(&budget, (), |()| 100, |()| panic!("on purpose")).await;
            let refused: Result<(), _> = read;
            let problem = refused.expect_err("it panicked").problem();
            assert_eq!(problem.kind, ProblemKind::BodyInvalid);
            assert_eq!(budget.used(), 0);
        }
    }

    #[tokio::test]
    async fn no_more_are_read_at_once_than_there_are_processors() {
        let budget = BufferBudget::new(100);
        let mut turns = Vec::new();
        for _ in 0..most_at_once() {
            turns.push(budget.turn().await);
        }
        let mut next = std::pin::pin!(read_aside(&budget, (), |()| 1, |()| ()));
        assert!(crate::poll_once::poll_once(next.as_mut()).await.is_pending());
        turns.clear();
        assert!(next.await.is_ok());
    }
}
