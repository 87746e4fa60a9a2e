//! Message bodies: looked at while they stream, or read to be thrown away. Those that are kept are
//! [`hapax::http::body`]'s.
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "what a test collects, it made"))]

mod discard;
#[cfg(test)]
#[path = "../../../hapax/src/http/body/scripted.rs"]
mod scripted;
mod tapped;

pub(crate) use self::discard::discard;
pub use self::tapped::{
    BodyDigest, CleanEnd, Hashing, NotRecorded, Recorded, Recording, Tap, Tapped, Watching,
    hashing, recording, watching,
};
