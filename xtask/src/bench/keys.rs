//! Keys as a good client makes them.

use uuid::Uuid;

/// What a load takes its keys from.
pub(super) enum Keys<'a> {
    /// Its requests have none.
    None,
    /// Time-bearing keys that were never used; they are noted here.
    Fresh(&'a mut Vec<String>),
    /// Keys that were used before, from the first one on, again and again.
    Again {
        /// At least one.
        known: &'a [String],
        /// How many were taken.
        taken: usize,
    },
}

impl<'a> Keys<'a> {
    pub(super) const fn again(known: &'a [String]) -> Self {
        Self::Again { known, taken: 0 }
    }

    /// Whether every answer has to be a replay.
    pub(super) const fn are_replays(&self) -> bool {
        matches!(self, Self::Again { .. })
    }

    pub(super) fn next(&mut self) -> Option<&str> {
        match self {
            Self::None => None,
            Self::Fresh(made) => {
                made.push(Uuid::now_v7().to_string());
                made.last().map(String::as_str)
            }
            Self::Again { known, taken } => {
                let key = known.get(*taken % known.len().max(1));
                *taken += 1;
                key.map(String::as_str)
            }
        }
    }
}
