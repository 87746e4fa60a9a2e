//! How long attempts take, and so how long one may.

use std::time::Duration;

use hdrhistogram::Histogram;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::policy::AttemptTimeout;

/// What was measured at a destination lately.
#[derive(Debug)]
pub(crate) struct Latency(Mutex<Recent>);

/// Two spans of time: the present one, and the one before.
#[derive(Debug)]
struct Recent {
    began: Instant,
    present: Histogram<u32>,
    before: Histogram<u32>,
}

/// What is older than two of these does not count.
const SPAN: Duration = Duration::from_secs(60);

/// The least number of attempts of which one in a thousand means anything.
const ENOUGH: u64 = 1_000;

/// All but one in a thousand.
const QUANTILE: f64 = 0.999;

/// The longest attempt that is told from longer ones, in microseconds: ten minutes.
const LONGEST: u64 = 600_000_000;

impl Latency {
    /// A histogram with two significant digits, from microseconds to minutes; its bounds are right.
    pub(crate) fn new() -> Option<Self> {
        let empty = || Histogram::new_with_bounds(1, LONGEST, 2).ok();
        let (present, before) = (empty()?, empty()?);
        Some(Self(Mutex::new(Recent { began: Instant::now(), present, before })))
    }

    /// An attempt was answered after this long.
    pub(crate) fn answered(&self, after: Duration) {
        self.0.lock().record(after);
    }

    /// An attempt was not answered in time. It took longer than that: what is never measured as
    /// longer than the timeout cannot raise it.
    pub(crate) fn timed_out(&self, after: Duration) {
        self.0.lock().record(after.saturating_mul(2));
    }

    /// How long the next attempt may take: half as long again as all but one in a thousand did.
    pub(crate) fn timeout(&self, rule: &AttemptTimeout) -> Duration {
        let recent = &mut *self.0.lock();
        recent.turn();
        let slowest = recent.slowest();
        let timeout = slowest.map_or(rule.ceiling, |slowest| slowest.saturating_mul(3) / 2);
        timeout.max(rule.floor).min(rule.ceiling)
    }
}

impl Recent {
    fn record(&mut self, took: Duration) {
        self.turn();
        let micros = u64::try_from(took.as_micros()).unwrap_or(LONGEST);
        self.present.saturating_record(micros.max(1));
    }

    fn turn(&mut self) {
        let over = self.began.elapsed();
        if over < SPAN {
            return;
        }
        std::mem::swap(&mut self.present, &mut self.before);
        self.present.reset();
        if over >= 2 * SPAN {
            self.before.reset();
        }
        self.began = Instant::now();
    }

    fn slowest(&self) -> Option<Duration> {
        if self.present.len() + self.before.len() < ENOUGH {
            return None;
        }
        let of = |histogram: &Histogram<u32>| histogram.value_at_quantile(QUANTILE);
        Some(Duration::from_micros(of(&self.present).max(of(&self.before))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn rule() -> AttemptTimeout {
        AttemptTimeout { floor: 10 * MS, ceiling: 3000 * MS }
    }

    fn measured(count: u32, took: Duration) -> Latency {
        let latency = Latency::new().unwrap();
        (0..count).for_each(|_| latency.answered(took));
        latency
    }

    fn is_about(found: Duration, expected: Duration) -> bool {
        found >= expected && found <= expected + expected / 50
    }

    #[tokio::test(start_paused = true)]
    async fn with_little_measured_it_is_the_ceiling() {
        assert_eq!(measured(999, 20 * MS).timeout(&rule()), 3000 * MS);
        assert!(is_about(measured(1000, 20 * MS).timeout(&rule()), 30 * MS));
    }

    #[tokio::test(start_paused = true)]
    async fn one_in_a_thousand_does_not_count_and_more_do() {
        let latency = measured(9_990, 20 * MS);
        (0..9).for_each(|_| latency.answered(400 * MS));
        assert!(is_about(latency.timeout(&rule()), 30 * MS), "{:?}", latency.timeout(&rule()));
        (0..20).for_each(|_| latency.answered(400 * MS));
        assert!(is_about(latency.timeout(&rule()), 600 * MS), "{:?}", latency.timeout(&rule()));
    }

    #[tokio::test(start_paused = true)]
    async fn it_stays_between_floor_and_ceiling() {
        assert_eq!(measured(1000, MS).timeout(&rule()), 10 * MS);
        assert_eq!(measured(1000, 100_000 * MS).timeout(&rule()), 3000 * MS);
        assert_eq!(measured(1000, Duration::MAX).timeout(&rule()), 3000 * MS);
    }

    #[tokio::test(start_paused = true)]
    async fn a_service_that_became_slow_is_given_more_time() {
        let latency = measured(10_000, 20 * MS);
        let mut timeout = latency.timeout(&rule());
        for _ in 0..10 {
            (0..100).for_each(|_| latency.timed_out(timeout));
            timeout = latency.timeout(&rule());
        }
        assert_eq!(timeout, 3000 * MS);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_old_does_not_count() {
        let latency = measured(1000, 400 * MS);
        tokio::time::advance(61 * Duration::from_secs(1)).await;
        assert!(is_about(latency.timeout(&rule()), 600 * MS), "the span before counts");
        (0..1000).for_each(|_| latency.answered(20 * MS));
        tokio::time::advance(61 * Duration::from_secs(1)).await;
        assert!(is_about(latency.timeout(&rule()), 30 * MS));
        tokio::time::advance(121 * Duration::from_secs(1)).await;
        assert_eq!(latency.timeout(&rule()), 3000 * MS, "nothing is left");
    }
}
