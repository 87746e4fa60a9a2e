//! How many connections there may be, and what is said when there are as many.

use std::{sync::Arc, time::Duration};

use metrics::gauge;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};
use tracing::warn;

use crate::metric_definitions::CONNECTIONS;

/// How often it is said that a listener is full.
const SAID_EVERY: Duration = Duration::from_secs(60);

/// The connections that a listener may have.
pub(super) struct Room {
    places: Arc<Semaphore>,
    most: usize,
    listener: &'static str,
    said: Option<Instant>,
}

/// One of them, counted while it is there.
#[derive(Debug)]
pub(super) struct Taken {
    listener: &'static str,
    _place: OwnedSemaphorePermit,
}

impl Room {
    pub(super) fn new(most: usize, listener: &'static str) -> Self {
        let most = most.clamp(1, Semaphore::MAX_PERMITS);
        Self { places: Arc::new(Semaphore::new(most)), most, listener, said: None }
    }

    /// A place, as soon as there is one. `None` never comes: it is not closed.
    pub(super) async fn take(&mut self) -> Option<Taken> {
        if self.places.available_permits() == 0 && self.may_say(Instant::now()) {
            warn!(
                listener = self.listener,
                connections = self.most,
                "there are as many connections as may be; others wait in the kernel's queue. Raise \
                 limits.max_connections, or find out who holds them"
            );
        }
        let place = Arc::clone(&self.places).acquire_owned().await.ok()?;
        gauge!(CONNECTIONS, "listener" => self.listener).increment(1.0);
        Some(Taken { listener: self.listener, _place: place })
    }

    fn may_say(&mut self, now: Instant) -> bool {
        let is_due = self.said.is_none_or(|said| now.saturating_duration_since(said) >= SAID_EVERY);
        if is_due {
            self.said = Some(now);
        }
        is_due
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        gauge!(CONNECTIONS, "listener" => self.listener).decrement(1.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn that_a_listener_is_full_is_said_now_and_then_and_not_each_time() {
        let mut room = Room::new(1, "callers");
        let now = Instant::now();
        assert!(room.may_say(now));
        assert!(!room.may_say(now + SAID_EVERY / 2));
        assert!(room.may_say(now + SAID_EVERY));
        assert!(!room.may_say(now + SAID_EVERY));
    }
}
