//! 3. Message bodies: a request's read whole within bounds and its codings removed, and read as what
//!    it is; an answer's collected up to a cap.

mod aside;
mod bounded;
mod budget;
mod capped;
mod coding;
mod response;
#[cfg(test)]
pub(super) mod scripted;

pub(super) use self::aside::{is_large, read_aside};
pub use self::bounded::{Buffered, ReadError, ReadLimits, read_bounded};
pub use self::budget::{BufferBudget, Reservation};
pub use self::capped::{Collected, Resumed, collect_capped};
pub(super) use self::coding::content_of_answer;
pub use self::coding::{Content, DecodeError, content};
pub use self::response::ResponseBody;

/// The error of a body whose kind does not matter here.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
