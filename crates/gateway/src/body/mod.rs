//! Message bodies: read whole within bounds, collected up to a cap, or hashed while they stream.

mod budget;
mod bounded;
mod capped;
mod hashing;

pub use self::bounded::{Buffered, ReadError, ReadLimits, read_bounded};
pub use self::budget::BufferBudget;
pub use self::capped::{Collected, Resumed, collect_capped};
pub use self::hashing::{BodyDigest, HashingBody};

/// The error of a body whose kind does not matter here.
pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

#[cfg(test)]
mod tests;
