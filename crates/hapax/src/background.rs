//! What the engine does without being asked: advancing its mark, sweeping, reconciling.

use std::time::Duration;

use hapax_core::StoreTime;
use hapax_store::{Clock, StoreError, SystemClock};
use metrics::counter;
use tokio::{
    task::JoinHandle,
    time::{Instant, MissedTickBehavior},
};
use tracing::{debug, error, warn};

use crate::{
    Hapax,
    metric_definitions::{SWEPT_BODIES, SWEPT_RECORDS},
    reconciler::reconcile,
};

/// How the background work is paced.
///
/// ```
/// use std::time::Duration;
///
/// let rarely = hapax::BackgroundOptions { sweep: Duration::from_secs(600), ..Default::default() };
/// assert_eq!(rarely.sweep_rows, 500);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct BackgroundOptions {
    /// How often the mark is advanced. Default 1 s.
    pub beat: Duration,
    /// How often a sweep starts when the one before found nothing left to do. Default 60 s.
    pub sweep: Duration,
    /// The pause between the steps of one sweep. Default 100 ms.
    pub sweep_pause: Duration,
    /// Rows a step touches at most. Default 500.
    pub sweep_rows: usize,
    /// How often uncertain records that are due are looked for. Default 1 s.
    pub reconcile: Duration,
    /// How many questions are asked at the same time, of each operation. Default 8.
    pub probes_at_once: usize,
    /// The pause after the first look into a record that came to nothing, and the longest one: it
    /// doubles, with jitter. Default 2 s and 5 min.
    pub probe_pause: (Duration, Duration),
}

impl Default for BackgroundOptions {
    fn default() -> Self {
        Self {
            beat: Duration::from_secs(1),
            sweep: Duration::from_secs(60),
            sweep_pause: Duration::from_millis(100),
            sweep_rows: 500,
            reconcile: Duration::from_secs(1),
            probes_at_once: 8,
            probe_pause: (Duration::from_secs(2), Duration::from_secs(300)),
        }
    }
}

impl Hapax {
    /// Starts the background work; it ends with the engine's shutdown.
    pub fn start_background(&self, options: BackgroundOptions) -> [JoinHandle<()>; 3] {
        let until_shutdown = |work: std::pin::Pin<Box<dyn Future<Output = ()> + Send>>| {
            let draining = self.inner.draining.clone();
            tokio::spawn(async move {
                draining.run_until_cancelled(work).await;
            })
        };
        [
            until_shutdown(Box::pin(beat(self.clone(), options))),
            until_shutdown(Box::pin(sweep(self.clone(), options))),
            until_shutdown(Box::pin(reconcile(self.clone(), options))),
        ]
    }
}

/// Advances the mark, so that a store that went back in time is noticed by an idle node too, and
/// a failing one recovers its standing.
async fn beat(engine: Hapax, options: BackgroundOptions) {
    let mut ticks = tokio::time::interval(options.beat);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut reported = None;
    loop {
        ticks.tick().await;
        let failed = engine.inner.store.beat().await.err();
        // Once per change, not once per second.
        if failed != reported {
            match &failed {
                Some(error @ StoreError::Regressed { .. }) => error!(%error, "keyed requests stop"),
                Some(error) => warn!(%error, "the store does not take writes"),
                None => warn!("the store takes writes again"),
            }
            reported = failed;
        }
    }
}

async fn sweep(engine: Hapax, options: BackgroundOptions) {
    let own_clock = OwnClock::start();
    loop {
        let rows = options.sweep_rows;
        let more = match engine.inner.store.sweep(own_clock.now(), rows).await {
            Ok(swept) => {
                counter!(SWEPT_BODIES).increment(swept.bodies as u64);
                counter!(SWEPT_RECORDS).increment(swept.purged as u64);
                debug!(bodies = swept.bodies, records = swept.purged, "swept");
                // A step may do less than it was allowed to and still leave work.
                swept.bodies > 0 || swept.purged > 0
            }
            Err(error) => {
                debug!(%error, "no sweep");
                false
            }
        };
        tokio::time::sleep(if more { options.sweep_pause } else { options.sweep }).await;
    }
}

/// The time of day when the process started, moved on by the clock that cannot be set: an embedded
/// store's clock is this machine's too, and a jump of it must not purge what is not over.
struct OwnClock {
    started: StoreTime,
    running: Instant,
}

impl OwnClock {
    fn start() -> Self {
        Self { started: SystemClock.now(), running: Instant::now() }
    }

    fn now(&self) -> StoreTime {
        self.started.after(self.running.elapsed())
    }
}
