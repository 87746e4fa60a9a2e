//! Message bodies: read whole within bounds, collected up to a cap, or looked at while they stream.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "what a test collects, it made"))]

mod bounded;
mod budget;
mod capped;
mod discard;
mod tapped;

pub use self::bounded::{Buffered, ReadError, ReadLimits, read_bounded};
pub use self::budget::BufferBudget;
pub use self::capped::{Collected, Resumed, collect_capped};
pub(crate) use self::discard::discard;
pub use self::tapped::{
    BodyDigest, CleanEnd, Hashing, NotRecorded, Recorded, Recording, Tap, Tapped, Watching,
    hashing, recording, watching,
};

/// The error of a body whose kind does not matter here.
pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

#[cfg(test)]
mod tests;
