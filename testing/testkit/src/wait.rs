//! Waiting for something, with a bound.
#![expect(
    clippy::disallowed_methods,
    reason = "the tests' own threads block, and what they wait for is another process's real time"
)]

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

/// How often a condition is looked at.
const EVERY: Duration = Duration::from_millis(5);

/// Waits until the condition holds.
///
/// # Panics
/// When it does not within the bound.
#[track_caller]
pub fn eventually(what: &str, bound: Duration, mut holds: impl FnMut() -> bool) {
    until(what, bound, || holds().then_some(()));
}

/// Lets time pass: only where what is waited for has no sign, such as a moment to be killed at.
pub fn pause(time: Duration) {
    sleep(time);
}

/// Waits until the condition holds; whether it did within the bound.
pub(crate) fn holds_within(bound: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + bound;
    while !holds() {
        if Instant::now() >= deadline {
            return false;
        }
        sleep(EVERY);
    }
    true
}

/// Waits until there is a value.
///
/// # Panics
/// When there is none within the bound.
#[track_caller]
pub fn until<T>(what: &str, bound: Duration, mut value: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + bound;
    loop {
        if let Some(value) = value() {
            return value;
        }
        assert!(Instant::now() < deadline, "not within {bound:?}: {what}");
        sleep(EVERY);
    }
}
