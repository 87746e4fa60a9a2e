//! Signals that end the demo early, in order.

use std::process::ExitCode;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

/// Ctrl-C, a request to terminate, a terminal that is gone.
pub(super) struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Interrupts {
    /// From now on they do not end the process by themselves.
    pub(super) fn listen() -> Result<Self, Failure> {
        let listen = |kind| signal(kind).map_err(Failure::start);
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hangup: listen(SignalKind::hangup())?,
        })
    }

    /// Waits for the next one; the exit code is the shell's for it.
    pub(super) async fn next(&mut self) -> ExitCode {
        let signal = tokio::select! {
            _ = self.interrupt.recv() => SignalKind::interrupt(),
            _ = self.terminate.recv() => SignalKind::terminate(),
            _ = self.hangup.recv() => SignalKind::hangup(),
        };
        let number = u8::try_from(signal.as_raw_value()).unwrap_or_default();
        ExitCode::from(128 + number)
    }
}
