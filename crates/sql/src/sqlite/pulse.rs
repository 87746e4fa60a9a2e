//! Whether the threads of the store get on: a disk that hangs answers none of them.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

/// What a thread is at. Clones are one.
#[derive(Clone, Default)]
pub(super) struct Pulse(Arc<Mutex<Option<Instant>>>);

impl Pulse {
    /// The thread takes up a piece of work, or the next part of one.
    pub(super) fn works(&self) {
        *self.0.lock() = Some(Instant::now());
    }

    /// The thread has nothing to do.
    pub(super) fn rests(&self) {
        *self.0.lock() = None;
    }

    /// Whether the thread is at the same piece of work for longer than this.
    pub(super) fn hangs(&self, bound: Duration) -> bool {
        self.0.lock().is_some_and(|begun| begun.elapsed() > bound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_hangs_while_it_is_at_one_thing_for_too_long() {
        let pulse = Pulse::default();
        assert!(!pulse.hangs(Duration::ZERO), "it has done nothing yet");
        pulse.works();
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(2) {}
        assert!(pulse.hangs(Duration::from_millis(1)));
        assert!(!pulse.hangs(Duration::from_secs(60)));
        pulse.rests();
        assert!(!pulse.hangs(Duration::ZERO));
    }
}
