//! Driving an execution to its end, its limits, its panic or the end of the drain.

use std::{
    pin::{Pin, pin},
    time::Duration,
};

use hapax_core::Ownership;
use hapax_store::Written;
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep, sleep_until},
};
use tracing::{Instrument, error, info, warn};

use crate::{Hapax, catch_unwind::catch};

/// What an execution may take, from the moment at which it has its record.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    /// The time to its complete answer.
    pub(crate) timeout: Duration,
    /// The record whose lease is to be renewed while it runs, and for how long each time; nothing
    /// to renew where the claim is not committed before the outcome is.
    pub(crate) lease: Option<(Ownership, Duration)>,
}

/// How driving ended.
#[derive(Debug)]
pub(crate) enum Driven<T> {
    /// The execution came to its end.
    Ended(T),
    /// It panicked.
    Panicked,
    /// It did not end in time, and was dropped.
    TimedOut,
    /// The drain was over before it ended, and it was dropped.
    Abandoned,
}

impl Hapax {
    /// Runs an execution. The limits count from when `granted` is ready; before, it only prepares.
    pub(crate) fn drive<T>(
        &self,
        granted: Pin<&mut impl Future<Output = Limits>>,
        execution: Pin<Box<impl Future<Output = T>>>,
    ) -> impl Future<Output = Driven<T>> {
        self.drive_caught(granted, catch(execution))
    }

    fn drive_caught<T>(
        &self,
        granted: Pin<&mut impl Future<Output = Limits>>,
        execution: impl Future<Output = Option<T>>,
    ) -> impl Future<Output = Driven<T>> {
        async move {
            let limited = pin!(async {
                let limits = granted.await;
                let ends = Instant::now().checked_add(limits.timeout);
                let limit = async {
                    // Most executions end long before, so the renewing task is rare.
                    let _renewing = match limits.lease {
                        Some((ownership, lease)) if lease / 3 < limits.timeout => {
                            sleep(lease / 3).await;
                            Some(Renewing::start(self, ownership, lease))
                        }
                        _ => None,
                    };
                    match ends {
                        Some(ends) => sleep_until(ends).await,
                        // A limit that no clock can hold is none.
                        None => std::future::pending().await,
                    }
                };
                // Boxed: timers are not part of what never waits.
                Box::pin(self.limited(limit)).await;
                limits.timeout
            });
            tokio::select! {
                biased;
                executed = execution => match executed {
                    Some(executed) => Driven::Ended(executed),
                    None => {
                        error!("the execution panicked");
                        Driven::Panicked
                    }
                },
                timeout = limited => {
                    info!(?timeout, "no complete answer in time");
                    Driven::TimedOut
                }
                () = self.inner.abandon.cancelled() => Driven::Abandoned,
            }
        }
    }
}

/// Renews a lease until it is dropped.
pub(crate) struct Renewing(JoinHandle<()>);

impl Renewing {
    pub(crate) fn start(engine: &Hapax, ownership: Ownership, lease: Duration) -> Self {
        let store = engine.inner.store.clone();
        let renewing = async move {
            loop {
                match store.renew(ownership, lease).await {
                    Ok(Written::Done(_)) => {}
                    // Losing the lease is no permission to stop or to run again: the settle finds
                    // out who owns the record.
                    Ok(_) => return warn!("the lease was lost while the execution is under way"),
                    Err(error) => warn!(%error, "the lease could not be renewed yet"),
                }
                sleep(lease / 3).await;
            }
        };
        Self(tokio::spawn(renewing.in_current_span()))
    }
}

impl Drop for Renewing {
    fn drop(&mut self) {
        self.0.abort();
    }
}
