//! Observe mode: what enforcing would have done, decided by the same function.

use crate::{
    Attempt, ClaimNumber, Comparison, Decision, DecisionRules, EndedBy, Ending, EndingKind,
    Fingerprint, OperationName, OutcomeClass, OwnState, Owner, PolicyDigest, Progress, Record,
    RecordId, Retention, StoreTime, decide,
};

/// What enforcing would have done with an arrival.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Would {
    /// Executed it.
    Execute,
    /// Replayed the stored outcome.
    Replay,
    /// Let it wait for the first attempt, or answered `in-flight`.
    Wait,
    /// Refused it: another intent under a known key.
    Refuse,
    /// Not executed it, since the first attempt's outcome is unknown.
    Hold,
    /// Refused it as `key-expired`.
    Expire,
}

impl Would {
    /// The word in logs, metrics and listings.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Execute => "execute",
            Self::Replay => "replay",
            Self::Wait => "wait",
            Self::Refuse => "refuse",
            Self::Hold => "hold",
            Self::Expire => "expire",
        }
    }

    /// Whether forwarding this arrival duplicates, or may duplicate, an effect today.
    pub const fn duplicates(self) -> bool {
        !matches!(self, Self::Execute | Self::Refuse)
    }
}

/// How a forwarded attempt ended.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum ObservedEnd {
    /// An outcome that enforcing would have stored.
    Outcome(OutcomeClass),
    /// Nothing happened: enforcing would have freed the key.
    NotApplied,
    /// The effect may exist.
    Unknown,
}

/// What was observed of one key, or of one unkeyed intent. Kept apart from records: it never
/// decides anything.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Observed {
    /// The identity that a record would have, or that of the unkeyed intent.
    pub id: RecordId,
    /// The operation.
    pub operation: OperationName,
    /// Whether it carried a key; otherwise it was recognised by its bytes.
    pub keyed: bool,
    /// The first intent.
    pub fingerprint: Fingerprint,
    /// When it first arrived.
    pub first: StoreTime,
    /// When it last arrived.
    pub last: StoreTime,
    /// How the attempt that enforcing would have let through ended.
    pub end: Option<(ObservedEnd, StoreTime)>,
    /// Until when that attempt counts as under way without an end.
    pub lease_end: StoreTime,
    /// How often it arrived.
    pub arrivals: u32,
    /// How often enforcing would have replayed.
    pub replays: u32,
    /// How often it would have waited or answered `in-flight`.
    pub waits: u32,
    /// How often it would have refused another intent.
    pub refusals: u32,
    /// How often it would have held back.
    pub holds: u32,
}

impl Observed {
    /// The first arrival.
    pub fn first(
        id: RecordId,
        operation: OperationName,
        keyed: bool,
        fingerprint: Fingerprint,
        now: StoreTime,
        lease_end: StoreTime,
    ) -> Self {
        Self {
            id,
            operation,
            keyed,
            fingerprint,
            first: now,
            last: now,
            end: None,
            lease_end,
            arrivals: 1,
            replays: 0,
            waits: 0,
            refusals: 0,
            holds: 0,
        }
    }

    /// Counts another arrival and says what enforcing would have done with it. An unkeyed intent
    /// is the same one for `retention.outcome` after its last arrival.
    pub fn arrive(
        &mut self,
        fingerprint: Fingerprint,
        now: StoreTime,
        lease_end: StoreTime,
        rules: &DecisionRules,
        retention: Retention,
    ) -> Would {
        let compared =
            if fingerprint == self.fingerprint { Comparison::Same } else { Comparison::Different };
        let again = self.keyed || now < self.last.after(retention.outcome);
        let mut record = self.as_record(retention);
        if record.state(now) == crate::State::Executing && record.lease_over(now) {
            record.own_state = OwnState::Uncertain;
        }
        let would = match decide(&record, compared, now, rules) {
            // Equal bytes long after are a new intent; only a key says that they are not.
            _ if !again => Would::Execute,
            Decision::Advance(_) => Would::Execute,
            Decision::Replay | Decision::NotKept => Would::Replay,
            Decision::InFlight => Would::Wait,
            Decision::KeyReused | Decision::PolicyUnknown => Would::Refuse,
            Decision::KeyExpired(_) => Would::Expire,
            Decision::Hold | Decision::Probe | Decision::Doubt => Would::Hold,
        };
        self.last = now;
        self.arrivals = self.arrivals.saturating_add(1);
        let count = match would {
            Would::Execute => {
                // It would have been the next attempt: from here on its end counts.
                (self.fingerprint, self.end, self.lease_end) = (fingerprint, None, lease_end);
                return would;
            }
            Would::Replay | Would::Expire => &mut self.replays,
            Would::Wait => &mut self.waits,
            Would::Refuse => &mut self.refusals,
            Would::Hold => &mut self.holds,
        };
        *count = count.saturating_add(1);
        would
    }

    /// Notes how the attempt that enforcing would have let through ended.
    pub fn finish(&mut self, end: ObservedEnd, now: StoreTime) {
        self.end = Some((end, now));
    }

    /// How many arrivals were forwarded that enforcing would have answered itself.
    pub const fn duplicates(&self) -> u32 {
        self.replays.saturating_add(self.waits).saturating_add(self.holds)
    }

    /// The record that enforcing would have, as far as a decision reads it.
    fn as_record(&self, retention: Retention) -> Record {
        let ending = |kind, class, at| Ending {
            kind,
            class,
            status: None,
            kept: true,
            at,
            until: retention.until(at),
            by: EndedBy::Owner,
        };
        let (own_state, ending) = match self.end {
            None => (OwnState::Executing, None),
            Some((ObservedEnd::Unknown, _)) => (OwnState::Uncertain, None),
            Some((ObservedEnd::NotApplied, at)) => {
                (OwnState::Executing, Some(ending(EndingKind::Released, None, at)))
            }
            Some((ObservedEnd::Outcome(class), at)) => {
                (OwnState::Executing, Some(ending(EndingKind::Outcome, Some(class), at)))
            }
        };
        Record {
            id: self.id,
            claim: ClaimNumber(0),
            attempt: Attempt::first(0),
            owner: Owner::from_bytes([0; 16]),
            own_state,
            fingerprint: self.fingerprint,
            policy: PolicyDigest([0; 32]),
            lease_end: Some(self.lease_end),
            clean: true,
            first_admitted: Some(self.first),
            progress: Progress::Whole,
            secret_version: 0,
            created: self.first,
            ending,
        }
    }
}
