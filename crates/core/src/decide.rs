//! The one decision: what an attempt gets for what is already known of its key.

use std::time::Duration;

use crate::{
    AdvanceReason, Evidence, OnUnknown, OutcomeClass, PinnedPolicy, Progress, Record, State,
    StoreTime,
};

/// How the attempt's intent compares with the stored one, under the version that one was stored
/// with.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Comparison {
    /// The same intent.
    Same,
    /// Another intent.
    Different,
    /// It was stored under a version, or a policy, that this node does not know.
    UnknownVersion,
}

/// What governs the handling of an unknown outcome, of the policy that the record was admitted
/// under and the present one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DecisionRules {
    /// What may be done about an unknown outcome.
    pub on_unknown: OnUnknown,
    /// How long the downstream collapses on the effect id; without it nothing is resent.
    pub collapse_for: Option<Duration>,
    /// The longest time a sent request can still be under way.
    pub late_arrival: Duration,
    /// Whether the effect happens where it did when the record was admitted; if not, nothing goes
    /// on (`protocol.md` 22).
    pub same_target: bool,
}

impl DecisionRules {
    /// The stricter of both: the policy is pinned at admission, and a new one can only take back
    /// permissions. Another downstream target never permits a resend (`protocol.md` 22).
    pub fn stricter(pinned: &PinnedPolicy, present: &PinnedPolicy) -> Self {
        let same_target = pinned.target == present.target;
        Self {
            on_unknown: pinned.on_unknown.min(present.on_unknown),
            collapse_for: match (pinned.collapse_for, present.collapse_for) {
                (Some(a), Some(b)) => Some(a.min(b)),
                _ => None,
            },
            late_arrival: pinned.late_arrival.max(present.late_arrival),
            same_target,
        }
    }

    /// The rules for a retry that has just had the service asked. That nothing was seen permits a
    /// resend where the downstream collapses, within its memory, which is checked when the
    /// permission is used (`protocol.md` 12, 13). That nothing was learned permits nothing.
    #[must_use]
    pub fn after(self, evidence: Evidence) -> Self {
        let on_unknown = match (self.on_unknown, evidence) {
            (OnUnknown::Probe, Evidence::NotSeenYet) => OnUnknown::Resend,
            (OnUnknown::Probe, Evidence::Unknown) => OnUnknown::Hold,
            (other, _) => other,
        };
        Self { on_unknown, ..self }
    }

    /// Whether the service may be asked what became of a record: its steps answer for themselves,
    /// and another service knows nothing of it.
    pub fn probes(&self, record: &Record) -> bool {
        self.on_unknown == OnUnknown::Probe
            && self.same_target
            && record.progress == Progress::Whole
    }

    /// Until when an uncertain record may be resent, if at all: first admission + late arrival
    /// must stay within the downstream's memory (`protocol.md` 13).
    pub fn resend_before(&self, record: &Record) -> Option<StoreTime> {
        if !self.same_target {
            return None;
        }
        match (record.progress, self.on_unknown, self.collapse_for, record.first_admitted) {
            // The step in doubt has its own permission, pinned when it was first begun.
            (Progress::InDoubt { resend_before }, ..) => resend_before,
            (Progress::Whole, OnUnknown::Resend, Some(memory), Some(first)) => {
                Some(first.after(memory).before(self.late_arrival))
            }
            _ => None,
        }
    }

    /// Whether the claim of an attempt that was not admitted may be taken over. An attempt that is
    /// judged as a whole is admitted under a permission; the beginning of a step asks for none.
    const fn may_take_over(&self, record: &Record) -> bool {
        record.clean || self.same_target || matches!(record.progress, Progress::Whole)
    }

    /// Why an uncertain record may go on at `now`, if it may.
    pub fn goes_on(&self, record: &Record, now: StoreTime) -> Option<AdvanceReason> {
        if record.progress == Progress::Accounted {
            return self.same_target.then_some(AdvanceReason::Resume);
        }
        let before = self.resend_before(record)?;
        (now < before).then_some(AdvanceReason::Resend { before })
    }
}

/// What an attempt gets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Decision {
    /// Execute as the next attempt, if the store still agrees.
    Advance(AdvanceReason),
    /// The executing holder's lease is over: make it uncertain, then decide again.
    Doubt,
    /// Someone is at it: wait, or answer `in-flight`.
    InFlight,
    /// Answer from the stored outcome, after authorization.
    Replay,
    /// The outcome is stored, its response is not: `outcome-not-kept`.
    NotKept,
    /// The outcome is unknown: ask the service, then decide [again](DecisionRules::after).
    Probe,
    /// The outcome is unknown and no other execution is permitted: the observed answer if there
    /// is one, else `outcome-unknown`.
    Hold,
    /// Another intent under a known key: `key-reused`.
    KeyReused,
    /// The outcome's retention is over: `key-expired`; never executes.
    KeyExpired(Option<OutcomeClass>),
    /// The record cannot be judged here: `policy-unknown`, never a guess.
    PolicyUnknown,
}

impl Decision {
    /// Whether only the authoritative store may be the source of this answer: it tells a caller
    /// something final that a stale read may get wrong (`protocol.md` 21).
    pub const fn needs_authority(self) -> bool {
        !matches!(self, Self::Replay | Self::NotKept | Self::InFlight | Self::Hold | Self::Probe)
    }

    /// What a copy gets that waited and has only read: it never executes in turn, and nothing final
    /// is said from a read that may be stale (`protocol.md` 21).
    #[must_use]
    pub const fn without_authority(self) -> Self {
        match self {
            Self::Probe | Self::Advance(AdvanceReason::Resend { .. } | AdvanceReason::Resume) => {
                Self::Hold
            }
            decided if decided.needs_authority() => Self::InFlight,
            decided => decided,
        }
    }
}

/// Decides what an attempt gets for an existing record. Every door, every store and every path
/// goes through here.
///
/// The intent is compared first, in every state but tombstones; a released clean stub takes a new
/// intent.
pub fn decide(
    record: &Record,
    compared: Comparison,
    now: StoreTime,
    rules: &DecisionRules,
) -> Decision {
    let state = record.state(now);
    match (state, compared) {
        (State::Tombstone, _) => {
            return Decision::KeyExpired(record.ending.and_then(|ending| ending.class));
        }
        (State::Released, _) if record.clean => {
            return Decision::Advance(AdvanceReason::Released);
        }
        (_, Comparison::UnknownVersion) => return Decision::PolicyUnknown,
        (_, Comparison::Different) => return Decision::KeyReused,
        (_, Comparison::Same) => {}
    }
    match state {
        State::Released => Decision::Advance(AdvanceReason::Released),
        // Steps that were done elsewhere are not continued here.
        State::Claimed if record.lease_over(now) && !rules.may_take_over(record) => Decision::Hold,
        State::Claimed if record.lease_over(now) => Decision::Advance(AdvanceReason::LeaseOver),
        State::Executing if record.lease_over(now) => Decision::Doubt,
        State::Claimed | State::Executing => Decision::InFlight,
        State::Uncertain => match rules.goes_on(record, now) {
            Some(reason) => Decision::Advance(reason),
            None if rules.probes(record) => Decision::Probe,
            None => Decision::Hold,
        },
        State::Succeeded | State::FailedTerminal => {
            let kept = record.ending.is_some_and(|ending| ending.kept);
            if kept { Decision::Replay } else { Decision::NotKept }
        }
        State::Tombstone => Decision::KeyExpired(None),
    }
}
