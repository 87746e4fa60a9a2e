//! What the clients have seen so far.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A number that only grows.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub(super) fn add_one(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// The numbers of a storm, from its clients.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Intents all of whose senders got their final answer.
    pub(super) settled: Count,
    /// Attempts sent, whole or in part.
    pub(super) sent: Count,
    /// Attempts that got no complete answer.
    pub(super) unanswered: Count,
    /// Complete requests for what was wanted, each of which a service alone would have got. Without
    /// those answered `in-flight` or `upstream-unreachable`: the first are sent again only because
    /// of hapax, the second found no service.
    pub(super) asked: Count,
    /// Answers from the record.
    pub(super) replays: Count,
    /// Answers `key-reused`.
    pub(super) conflicts: Count,
    /// Answers `in-flight`.
    pub(super) in_flight: Count,
    /// Answers that said the outcome was unknown.
    pub(super) unknown: Count,
    /// Answers that said the service cannot be reached.
    pub(super) unreachable: Count,
}
