//! HTTP as the engine sees it: from a request to its key and intent, from an [`Answer`] to the
//! response. Every door that speaks HTTP goes through here, so a request is the same operation and
//! its answer the same bytes, whichever door it comes to.
//!
//! In the order of a request's way: [`key()`], [`check_compared`], [`body::read_bounded`],
//! [`needed_content`], [`body_key`] where the key is in the body, [`RequestIntent`] and its
//! [`fingerprint()`]; the engine runs; [`read_reply`] within the execution; [`authorized`] before an earlier outcome is shown; then
//! [`respond`], or
//! [`refuse`] where a step before it found a problem. What connections, routes and scopes are is
//! the door's to know.
//!
//! [`Answer`]: crate::Answer
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "what a test collects, it made"))]

mod authorize;
pub mod body;
mod field_names;
pub mod headers;
mod intent;
mod key;
mod reply;
mod response;

pub use authorize::{authorization_unavailable, authorized, replay_forbidden};
pub use field_names::{FieldNames, KeyPlace, NotAHeader};
pub use intent::{RequestIntent, check_compared, fingerprint};
pub use key::{body_key, key, key_missing, needed_content};
pub use reply::{BrokenOff, read_reply, said, told};
pub use response::{moment, refuse, refuse_as, respond};
