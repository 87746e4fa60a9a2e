//! How badly the service behaves: decided by the seed, the payee and how often a request for that
//! payee arrived, so that a seed gives the same faults again.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use axum::http::StatusCode;
use fastrand::Rng;

/// From this arrival on a payee's requests are treated well, so that every storm ends.
const WELL_FROM: u32 = 4;

/// The source of faults; without a seed there are none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Faults(pub(super) Option<u64>);

/// What happens to one request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Treatment {
    /// The time it takes before anything happens.
    pub(super) delay: Duration,
    pub(super) fault: Option<Fault>,
}

/// A fault.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Fault {
    /// It fails before the effect, and does not say that it was before.
    FailsBefore(StatusCode),
    /// It pays, and cuts the connection instead of answering.
    CutsAfter,
}

impl Faults {
    /// What happens to the `nth` request for a payee, counted from 1.
    pub(super) fn treat(self, payee: &str, nth: u32) -> Treatment {
        let Some(seed) = self.0 else {
            return Treatment { delay: Duration::ZERO, fault: None };
        };
        let mut hasher = DefaultHasher::new();
        (seed, payee, nth).hash(&mut hasher);
        let mut random = Rng::with_seed(hasher.finish());
        if nth >= WELL_FROM {
            return Treatment { delay: millis(random.u64(2..20)), fault: None };
        }
        let fault = match random.u8(0..100) {
            0..8 => Some(Fault::FailsBefore(StatusCode::INTERNAL_SERVER_ERROR)),
            8..15 => Some(Fault::FailsBefore(StatusCode::SERVICE_UNAVAILABLE)),
            15..29 => Some(Fault::CutsAfter),
            _ => None,
        };
        let delay = match random.u8(0..100) {
            0..4 => random.u64(2_400..3_000),
            4..20 => random.u64(300..1_200),
            _ => random.u64(5..60),
        };
        Treatment { delay: millis(delay), fault }
    }
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_faults_and_every_payee_is_served_in_the_end() {
        let faults = Faults(Some(7));
        let payees: Vec<_> = (0..500).map(|number| format!("payee-{number}")).collect();
        let faulty = payees.iter().filter(|payee| faults.treat(payee, 1).fault.is_some()).count();
        assert!((100..200).contains(&faulty), "{faulty} of 500");
        for payee in &payees {
            assert_eq!(faults.treat(payee, 1), faults.treat(payee, 1));
            assert_eq!(faults.treat(payee, WELL_FROM).fault, None);
        }
    }

    #[test]
    fn without_a_seed_there_are_none() {
        let well = Treatment { delay: Duration::ZERO, fault: None };
        assert!((1..100).all(|nth| Faults(None).treat("alice", nth) == well));
    }
}
