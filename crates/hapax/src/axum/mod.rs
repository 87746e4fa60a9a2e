//! What an axum handler takes, and routes that are checked when they are compiled.

mod extract;
mod routing;

pub use routing::{TakesAttempt, TakesAttemptAt};
