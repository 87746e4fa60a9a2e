//! Lines for a person.

use std::{fmt::Display, io::Write};

/// Prints a line; nobody there to read it is no reason to stop.
pub(super) fn say(line: impl Display) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
