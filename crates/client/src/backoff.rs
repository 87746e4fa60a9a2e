//! How long to wait between two attempts.
//!
//! The formulas are those of the AWS Architecture Blog's "Exponential Backoff And Jitter": without
//! jitter, callers that failed together come back together.

use std::time::Duration;

use serde::Deserialize;

/// A growing pause with jitter.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct Backoff {
    /// The first window. Default: 50 ms (AWS SDKs, 2026 retry mode).
    #[serde(with = "crate::seconds")]
    pub base: Duration,
    /// No window is longer. It is applied before the jitter. Default: 20 s (the same).
    #[serde(with = "crate::seconds")]
    pub cap: Duration,
    /// How the pause is drawn from its window. Default: [`Jitter::Full`].
    pub jitter: Jitter,
}

/// How a pause is drawn from its window `t = min(cap, base * 2^n)`.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Jitter {
    /// Evenly from `0` to `t`: the least load.
    #[default]
    Full,
    /// `t/2` and evenly up to as much again: never at once.
    Equal,
    /// Evenly from `base` to three times the last pause, at most `cap`: the window follows what was
    /// drawn and not the number of the attempt.
    Decorrelated,
}

/// A longer pause is not a pause, and no product of it overflows.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 60 * 60);

impl Backoff {
    /// The pause before the resend that follows `failures` failures (at least 1), `last` being the
    /// pause before. `random` is even in `0.0..1.0`.
    pub fn pause(&self, failures: u32, last: Duration, random: f64) -> Duration {
        let random = if random.is_finite() { random.clamp(0.0, 1.0) } else { 0.0 };
        let window = self.window(failures);
        match self.jitter {
            Jitter::Full => window.mul_f64(random),
            Jitter::Equal => window / 2 + (window / 2).mul_f64(random),
            Jitter::Decorrelated => {
                let cap = self.cap.min(LONGEST);
                let base = self.base.min(cap);
                let most = last.clamp(base, cap).saturating_mul(3);
                (base + most.saturating_sub(base).mul_f64(random)).min(cap)
            }
        }
    }

    /// `min(cap, base * 2^(failures - 1))`.
    fn window(&self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1);
        let factor = 1_u32.checked_shl(doublings).unwrap_or(u32::MAX);
        self.base.saturating_mul(factor).min(self.cap).min(LONGEST)
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self { base: Duration::from_millis(50), cap: Duration::from_secs(20), jitter: Jitter::Full }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn backoff(jitter: Jitter) -> Backoff {
        Backoff { base: 100 * MS, cap: 1000 * MS, jitter }
    }

    #[test]
    fn the_window_doubles_up_to_the_cap_before_the_jitter() {
        let full = backoff(Jitter::Full);
        for (failures, window) in
            [(1, 100), (2, 200), (3, 400), (4, 800), (5, 1000), (33, 1000), (u32::MAX, 1000)]
        {
            assert_eq!(full.pause(failures, Duration::ZERO, 1.0), window * MS, "{failures}");
            assert_eq!(full.pause(failures, Duration::ZERO, 0.0), Duration::ZERO, "{failures}");
            assert_eq!(full.pause(failures, Duration::ZERO, 0.5), window * MS / 2, "{failures}");
        }
    }

    #[test]
    fn equal_jitter_waits_half_of_the_window_at_least() {
        let equal = backoff(Jitter::Equal);
        assert_eq!(equal.pause(2, Duration::ZERO, 0.0), 100 * MS);
        assert_eq!(equal.pause(2, Duration::ZERO, 0.5), 150 * MS);
        assert_eq!(equal.pause(2, Duration::ZERO, 1.0), 200 * MS);
    }

    #[test]
    fn decorrelated_jitter_follows_the_last_pause() {
        let decorrelated = backoff(Jitter::Decorrelated);
        assert_eq!(decorrelated.pause(1, Duration::ZERO, 0.0), 100 * MS);
        assert_eq!(decorrelated.pause(1, Duration::ZERO, 1.0), 300 * MS);
        assert_eq!(decorrelated.pause(2, 200 * MS, 0.5), 350 * MS);
        assert_eq!(decorrelated.pause(9, 900 * MS, 1.0), 1000 * MS);
    }

    #[test]
    fn no_number_makes_it_fail() {
        for jitter in [Jitter::Full, Jitter::Equal, Jitter::Decorrelated] {
            let most = Backoff { base: Duration::MAX, cap: Duration::MAX, jitter };
            for random in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 0.0, 0.999] {
                backoff(jitter).pause(u32::MAX, Duration::MAX, random);
                most.pause(u32::MAX, Duration::MAX, random);
            }
        }
    }

    /// Full jitter is even over its window: each tenth of it gets a tenth of the pauses, within five
    /// standard deviations, and so is the even part of the others.
    #[test]
    fn pauses_are_spread_evenly() {
        let mut random = fastrand::Rng::with_seed(20_261_130);
        for (jitter, from, to) in
            [(Jitter::Full, 0, 400), (Jitter::Equal, 200, 400), (Jitter::Decorrelated, 100, 600)]
        {
            let mut tenths = [0_u32; 10];
            for _ in 0..100_000 {
                let pause = backoff(jitter).pause(3, 200 * MS, random.f64()).as_secs_f64() * 1e3;
                let place = (pause - f64::from(from)) / f64::from(to - from) * 10.0;
                assert!((0.0..10.0).contains(&place), "{jitter:?}: {pause} ms");
                let tenth = (0..10).rev().find(|tenth| f64::from(*tenth) <= place);
                tenths[tenth.unwrap() as usize] += 1;
            }
            for count in tenths {
                assert!((9_525..10_475).contains(&count), "{jitter:?}: {tenths:?}");
            }
        }
    }
}
