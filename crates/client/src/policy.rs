//! What a client may do, and for how long: plain data.

use std::{num::NonZeroU32, time::Duration};

use serde::Deserialize;

use crate::backoff::Backoff;

/// When an intent is sent again, and when not.
///
/// Attempts count against [`attempts`](Self::attempts) when the service may have worked on them.
/// Those that never left, and waiting for an operation that is under way, are bounded by the
/// [`deadline`](Self::deadline) alone.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// How often the service may be asked to work, the first attempt included. Default: 3 (AWS SDKs;
    /// Google SRE, "Handling Overload").
    pub attempts: NonZeroU32,
    /// How long all of it may take, from the first attempt on. Default: 60 s.
    #[serde(with = "crate::seconds")]
    pub deadline: Duration,
    /// The pause after a failure. Default: 50 ms doubling to 20 s, full jitter.
    pub backoff: Backoff,
    /// The first window after an answer that says that there is too much to do (429, and 503 with
    /// `Retry-After`). Default: 1 s (AWS SDKs, 2026 retry mode).
    #[serde(with = "crate::seconds")]
    pub throttled_base: Duration,
    /// The pause while an operation is under way or its outcome unknown. Default: 250 ms doubling to
    /// 5 s, full jitter.
    pub waiting: Backoff,
    /// The longest time that a `Retry-After` makes the client wait. Default: 60 s. What is longer
    /// counts as this: coming early is harmless with a key.
    #[serde(with = "crate::seconds")]
    pub longest_retry_after: Duration,
    /// How long the service remembers a key, from its first attempt on, where that is known beforehand.
    /// An answer's `Idempotency-Expires` counts where it is earlier. Default: none.
    #[serde(with = "crate::seconds::optional")]
    pub key_lifetime: Option<Duration>,
    /// How long before a key's end it is not sent any more: a request can be under way for a while.
    /// Default: 60 s.
    #[serde(with = "crate::seconds")]
    pub lifetime_margin: Duration,
    /// How long an attempt may take to its complete answer.
    pub attempt_timeout: AttemptTimeout,
    /// Statuses that say that a request with this key is under way, of services that say it without a
    /// problem of hapax. Default: none; `409` is right for Stripe.
    pub in_flight_statuses: Vec<u16>,
    /// What problems of hapax begin with, where the service configured it. Default:
    /// `urn:hapax:problem:`.
    pub problem_base: String,
}

/// How long one attempt may take: what all but one in a thousand took lately, so that a timeout is a
/// false alarm no more often ("Timeouts, retries, and backoff with jitter", Amazon Builders' Library).
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct AttemptTimeout {
    /// No timeout is shorter. Default: 1 s.
    #[serde(with = "crate::seconds")]
    pub floor: Duration,
    /// No timeout is longer, and as long as little was measured it is this. Default: 30 s.
    #[serde(with = "crate::seconds")]
    pub ceiling: Duration,
}

impl Policy {
    /// Asks the service to work once, and tells what came of it.
    pub fn once() -> Self {
        Self { attempts: NonZeroU32::MIN, ..Self::default() }
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            attempts: const { NonZeroU32::new(3).unwrap() },
            deadline: Duration::from_secs(60),
            backoff: Backoff::default(),
            throttled_base: Duration::from_secs(1),
            waiting: Backoff {
                base: Duration::from_millis(250),
                cap: Duration::from_secs(5),
                ..Backoff::default()
            },
            longest_retry_after: Duration::from_secs(60),
            key_lifetime: None,
            lifetime_margin: Duration::from_secs(60),
            attempt_timeout: AttemptTimeout::default(),
            in_flight_statuses: Vec::new(),
            problem_base: "urn:hapax:problem:".to_owned(),
        }
    }
}

impl Default for AttemptTimeout {
    fn default() -> Self {
        Self { floor: Duration::from_secs(1), ceiling: Duration::from_secs(30) }
    }
}
