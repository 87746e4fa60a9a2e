//! Keys as a good client makes them.

use std::{iter, num::NonZeroUsize};

use uuid::Uuid;

/// One `Idempotency-Key`, or none.
pub(super) type Key = Option<String>;

/// Time-bearing keys that were never used.
pub(super) fn fresh_keys(count: NonZeroUsize) -> Vec<Key> {
    iter::repeat_with(|| Some(Uuid::now_v7().to_string())).take(count.get()).collect()
}
