//! How a command ends when it cannot do its work: one message, one exit code.

use std::{error::Error, fmt::Display};

use hapax_store::StoreError;

/// A message for the user and the exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    pub(crate) message: String,
}

impl Failure {
    /// A failure with this exit code.
    pub(crate) fn new(code: u8, message: impl Display) -> Self {
        Self { code, message: message.to_string() }
    }

    /// A start that was refused: exit code 2, like a usage error.
    pub(crate) fn start(message: impl Display) -> Self {
        Self::new(2, message)
    }

    /// A start that was refused for a reason with reasons of its own.
    pub(crate) fn start_because(error: &dyn Error) -> Self {
        Self::because(2, error)
    }

    /// A failure with this exit code, for a reason with reasons of its own.
    pub(crate) fn because(code: u8, error: &dyn Error) -> Self {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            let text = cause.to_string();
            // Some say their reason themselves.
            if !message.contains(&text) {
                message = format!("{message}: {text}");
            }
            source = cause.source();
        }
        Self::new(code, message)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::new(1, error)
    }
}
