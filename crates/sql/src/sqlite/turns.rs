//! Who in this process writes next. SQLite's lock knows no queue: who waits for it sleeps and tries
//! again, and a writer that is busy is always there first.

use std::{
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::Instant,
};

use tokio::sync::{Mutex, OwnedMutexGuard};

/// The queue for SQLite's lock, of the store's writer and the application's transactions.
#[derive(Default)]
pub(super) struct Turns(Arc<Mutex<Past>>);

/// The turn of whoever holds it, from before its transaction to behind its end.
pub(super) type Turn = OwnedMutexGuard<Past>;

/// What has happened since the store's writer had its turn.
#[derive(Default)]
pub(super) struct Past {
    /// Whether a transaction of the application has committed.
    pub(super) inside: bool,
}

impl Turns {
    /// The next turn, for a task.
    #[cfg(feature = "sqlx")]
    pub(super) async fn next(&self) -> Turn {
        Arc::clone(&self.0).lock_owned().await
    }

    /// The next turn, for a thread of its own; `None` when it does not come before `deadline`.
    pub(super) fn wait(&self, deadline: Instant) -> Option<Turn> {
        if let Ok(turn) = Arc::clone(&self.0).try_lock_owned() {
            return Some(turn);
        }
        let mut turn = pin!(Arc::clone(&self.0).lock_owned());
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        loop {
            if let Poll::Ready(turn) = turn.as_mut().poll(&mut Context::from_waker(&waker)) {
                return Some(turn);
            }
            let left = deadline.checked_duration_since(Instant::now())?;
            thread::park_timeout(left);
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_thread_waits_for_its_turn_and_no_longer_than_it_has_time() {
        let turns = Arc::new(Turns::default());
        let held = turns.wait(Instant::now()).expect("nobody has it");
        assert!(turns.wait(Instant::now() + Duration::from_millis(1)).is_none());
        let next = thread::spawn({
            let turns = Arc::clone(&turns);
            move || turns.wait(Instant::now() + Duration::from_secs(60)).is_some()
        });
        drop(held);
        assert!(next.join().expect("it ends"));
    }
}
