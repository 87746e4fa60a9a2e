//! Errors as logs show them.

use std::error::Error;

/// An error and what caused it, in one line: errors do not repeat the text of their source.
pub(crate) fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
