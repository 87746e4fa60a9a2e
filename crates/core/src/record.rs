//! The durable row of an intent, and every step it can take.
//!
//! A store keeps [`Record`]s and their [`Ending`]s; the methods here say which write is legal and
//! what it writes. Every write after the claim matches (id, attempt, owner), and an attempt ends
//! by exactly one row in its slot (claim number, attempt).

use std::time::Duration;

use thiserror::Error;

use crate::{
    Attempt, ClaimNumber, EndedBy, Ending, EndingKind, Event, Fingerprint, IllegalTransition,
    Owner, PolicyDigest, Progress, RecordId, Retention, State, StoreTime, StoredResponse,
};

/// How a stored outcome is to be understood.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum OutcomeClass {
    /// The effect exists.
    Succeeded,
    /// It does not, and the same request will not make it.
    FailedTerminal,
}

/// The state column of a record's own row; the rest is told by its ending.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum OwnState {
    /// See [`State::Claimed`].
    Claimed,
    /// See [`State::Executing`].
    Executing,
    /// See [`State::Uncertain`].
    Uncertain,
}

/// The durable row for (scope, operation, key).
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Record {
    /// The unique identity.
    pub id: RecordId,
    /// The number of the claim that made it.
    pub claim: ClaimNumber,
    /// The present attempt.
    pub attempt: Attempt,
    /// Who owns the present attempt.
    pub owner: Owner,
    /// The row's own state.
    pub own_state: OwnState,
    /// The digest of the first accepted intent.
    pub fingerprint: Fingerprint,
    /// The policy it was admitted under.
    pub policy: PolicyDigest,
    /// Until when the holder is presumed alive. `None` means locked, never free.
    pub lease_end: Option<StoreTime>,
    /// Whether every admitted *earlier* attempt is proven not applied.
    pub clean: bool,
    /// When an attempt that is not proven not applied was first admitted.
    pub first_admitted: Option<StoreTime>,
    /// What its steps say of its effects.
    pub progress: Progress,
    /// The version of the effect secret; later attempts use it too.
    pub secret_version: u32,
    /// When it was first claimed.
    pub created: StoreTime,
    /// The ending of the present attempt, if it has one.
    pub ending: Option<Ending>,
}

/// A record as a store found it, with the store's time of the reading.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Found {
    /// The record.
    pub record: Record,
    /// The stored outcome, or the observed answer of an uncertain record.
    pub response: Option<StoredResponse>,
    /// When it was read, on the store's clock.
    pub now: StoreTime,
}

/// A first claim of a record.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct NewClaim {
    /// The record's identity.
    pub id: RecordId,
    /// A fresh random token.
    pub owner: Owner,
    /// The intent.
    pub fingerprint: Fingerprint,
    /// The policy it is admitted under; its text was stored before.
    pub policy: PolicyDigest,
    /// How long the holder is presumed alive without a renewal.
    pub lease: Duration,
    /// How its execution is admitted.
    pub admission: Admission,
    /// The version of the effect secret in use.
    pub secret_version: u32,
}

/// When the effect of a claimed record may begin.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Admission {
    /// At once: the claim is the admission too, and the record begins as executing.
    WithClaim,
    /// By a write of its own ([`Record::admit`]).
    Separate,
    /// By its first step ([`Record::begin_step`]): the steps tell what was done.
    BySteps,
}

/// What identifies one ownership; every write after the claim matches all of it.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Ownership {
    /// The record.
    pub id: RecordId,
    /// Its claim number.
    pub claim: ClaimNumber,
    /// The attempt.
    pub attempt: Attempt,
    /// The owner's token.
    pub owner: Owner,
}

/// All that was read of a record before a takeover; its condition repeats it (`protocol.md` 3).
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Seen {
    attempt: Attempt,
    owner: Owner,
    own_state: OwnState,
    fingerprint: Fingerprint,
    progress: Progress,
    ending: Option<EndingKind>,
}

/// Why a later attempt may begin.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum AdvanceReason {
    /// Claimed, never admitted, and its lease is over.
    LeaseOver,
    /// The stub of a released record.
    Released,
    /// Uncertain, and the downstream collapses on the effect id until `before`.
    Resend {
        /// Checked on the store's clock when the permission is used (`protocol.md` 13).
        before: StoreTime,
    },
    /// Uncertain, and its steps account for every effect: it goes on after the last one.
    Resume,
}

/// The move of a record to its next attempt.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Advance {
    /// What was read.
    pub seen: Seen,
    /// Why it is permitted.
    pub reason: AdvanceReason,
    /// The claim of the new attempt.
    pub claim: NewClaim,
}

/// What an attempt came to, as its owner says it.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Settlement {
    /// Final; replayed from now on.
    Outcome {
        /// How it is to be understood.
        class: OutcomeClass,
        /// The status that was answered.
        status: u16,
        /// What a retry is answered with; `None` when it is not kept.
        response: Option<StoredResponse>,
        /// How long it is remembered.
        retention: Retention,
    },
    /// Nothing happened. Only a clean record is released, unless the service spoke for every
    /// attempt.
    NotApplied {
        /// Whether it is proven of every admitted attempt, not of this one alone.
        every_attempt: bool,
        /// How long the stub is kept.
        retention: Retention,
    },
    /// It is not known what happened.
    Unknown {
        /// A complete answer, shown to retries as observed.
        observed: Option<StoredResponse>,
    },
}

/// Why a write touched no row.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum WriteRefused {
    /// Another attempt or owner has the record, or its slot is taken.
    #[error("the record has moved on: another owner, or the attempt has ended")]
    Fenced,
    /// The lease is still live.
    #[error("the lease of the present holder is live")]
    LeaseLive,
    /// An earlier attempt is not proven not applied.
    #[error("an earlier attempt may have been applied, so a refusal settles nothing")]
    NotClean,
    /// The time within which the downstream collapses on the effect id is over.
    #[error("the downstream may have forgotten the effect id, so it cannot be resent")]
    ResendOver,
    /// The attempt is judged as a whole.
    #[error("this attempt is judged as a whole and takes no steps")]
    NoSteps,
    /// Another step has no end yet.
    #[error("another step was begun and has not ended")]
    StepInDoubt,
    /// The step was not begun.
    #[error("the step was not begun")]
    NoSuchStep,
    /// The step has ended before.
    #[error("the step has ended already")]
    StepEnded,
    /// The record's state has no such step.
    #[error(transparent)]
    Illegal(#[from] IllegalTransition),
}

impl Record {
    /// The record of a first claim.
    pub fn new(claim: &NewClaim, number: ClaimNumber, epoch: u32, now: StoreTime) -> Self {
        Self {
            id: claim.id,
            claim: number,
            attempt: Attempt::first(epoch),
            owner: claim.owner,
            own_state: begin(claim),
            fingerprint: claim.fingerprint,
            policy: claim.policy,
            lease_end: Some(now.after(claim.lease)),
            clean: true,
            first_admitted: (claim.admission == Admission::WithClaim).then_some(now),
            progress: progress(claim),
            secret_version: claim.secret_version,
            created: now,
            ending: None,
        }
    }

    /// The record's state at `now` on the store's clock.
    pub fn state(&self, now: StoreTime) -> State {
        match &self.ending {
            Some(Ending { kind: EndingKind::Outcome, until, .. }) if until.outcome <= now => {
                State::Tombstone
            }
            Some(Ending { kind: EndingKind::Outcome, class, .. }) => match class {
                Some(OutcomeClass::Succeeded) => State::Succeeded,
                Some(OutcomeClass::FailedTerminal) => State::FailedTerminal,
                None => State::Uncertain,
            },
            Some(Ending { kind: EndingKind::Released, .. }) => State::Released,
            // The takeover that superseded an attempt moved the record on in the same
            // transaction; if a store shows only half of it, nothing may be assumed.
            Some(Ending { kind: EndingKind::Superseded, .. }) => State::Uncertain,
            None => match self.own_state {
                OwnState::Claimed => State::Claimed,
                OwnState::Executing => State::Executing,
                OwnState::Uncertain => State::Uncertain,
            },
        }
    }

    /// Whether the holder's lease is over at `now`. A record without lease data is locked.
    pub fn lease_over(&self, now: StoreTime) -> bool {
        self.lease_end.is_some_and(|end| end <= now)
    }

    /// What a takeover's condition has to repeat.
    pub fn seen(&self) -> Seen {
        Seen {
            attempt: self.attempt,
            owner: self.owner,
            own_state: self.own_state,
            fingerprint: self.fingerprint,
            progress: self.progress,
            ending: self.ending.map(|ending| ending.kind),
        }
    }

    /// The ownership of the present attempt.
    pub const fn ownership(&self) -> Ownership {
        Ownership { id: self.id, claim: self.claim, attempt: self.attempt, owner: self.owner }
    }

    /// Whether a claim with this token made the present attempt and it has not ended: how a claim
    /// whose answer was lost recognises itself when it is issued again.
    pub fn is_live_claim_of(&self, owner: &Owner) -> bool {
        self.owner == *owner && self.ending.is_none() && self.own_state != OwnState::Uncertain
    }

    /// The record at its next attempt, and the ending that closes the slot of the present one
    /// (none when the slot holds `released` already).
    ///
    /// # Errors
    /// [`WriteRefused`] when the record is not as it was seen, or the reason does not hold.
    pub fn advance(
        &self,
        advance: &Advance,
        epoch: u32,
        now: StoreTime,
    ) -> Result<(Self, Option<Ending>), WriteRefused> {
        if self.seen() != advance.seen {
            return Err(WriteRefused::Fenced);
        }
        let state = self.state(now);
        let claim = &advance.claim;
        let same_intent = claim.fingerprint == self.fingerprint;
        let event = match advance.reason {
            AdvanceReason::LeaseOver if state == State::Claimed && !self.lease_over(now) => {
                return Err(WriteRefused::LeaseLive);
            }
            AdvanceReason::LeaseOver => Event::TakeOver,
            AdvanceReason::Released => Event::TakeOver,
            AdvanceReason::Resend { before } if before <= now => {
                return Err(WriteRefused::ResendOver);
            }
            // A step in doubt has a permission of its own, pinned when it was first begun.
            AdvanceReason::Resend { .. } if self.is_in_doubt_for_good(now) => {
                return Err(WriteRefused::ResendOver);
            }
            AdvanceReason::Resend { .. } => Event::Resend,
            AdvanceReason::Resume => Event::Resume,
        };
        let expected = match advance.reason {
            AdvanceReason::LeaseOver => State::Claimed,
            AdvanceReason::Released => State::Released,
            AdvanceReason::Resend { .. } | AdvanceReason::Resume => State::Uncertain,
        };
        if state != expected {
            return Err(IllegalTransition { state, event }.into());
        }
        let goes_on = state == State::Uncertain;
        if event == Event::Resume && self.progress != Progress::Accounted {
            return Err(WriteRefused::StepInDoubt);
        }
        // Steps tell only of attempts that had some.
        let has_steps = self.progress != Progress::Whole;
        if (goes_on || !self.clean) && has_steps != (claim.admission == Admission::BySteps) {
            return Err(WriteRefused::NoSteps);
        }
        // A new intent may take over only where nothing can have happened under the old one.
        let takes_new_intents = state == State::Released && self.clean;
        if !same_intent && !takes_new_intents {
            return Err(WriteRefused::Fenced);
        }
        let mut next = state.on(event)?;
        if claim.admission == Admission::WithClaim {
            next = next.on(Event::Admit)?;
        }
        let admitted = (next == State::Executing).then_some(now);
        let moved = Self {
            attempt: self.attempt.next(epoch),
            owner: claim.owner,
            own_state: begin(claim),
            fingerprint: claim.fingerprint,
            // What goes on stays under the policy that its first attempt was admitted under.
            policy: if goes_on { self.policy } else { claim.policy },
            lease_end: Some(now.after(claim.lease)),
            clean: self.clean && !goes_on,
            first_admitted: if self.clean && !goes_on { admitted } else { self.first_admitted },
            progress: if self.clean && !goes_on { progress(claim) } else { self.progress },
            ending: None,
            ..self.clone()
        };
        let superseded = (state != State::Released).then_some(Ending::superseded(now));
        Ok((moved, superseded))
    }

    /// The record admitted by its owner. Issued again, it changes nothing.
    ///
    /// `resend_before` is the end of the permission that a resend was claimed under: it is checked
    /// again here, when it is used (`protocol.md` 13), and also when this is issued again after a
    /// lost answer.
    ///
    /// # Errors
    /// [`WriteRefused`] when it is not the owner's any more, not claimed, the permission is over,
    /// or a step is in doubt.
    pub fn admit(
        &self,
        by: &Ownership,
        lease: Duration,
        resend_before: Option<StoreTime>,
        now: StoreTime,
    ) -> Result<Self, WriteRefused> {
        self.owned(by)?;
        let permitted = self.is_accounted() || resend_before.is_some_and(|before| now < before);
        if self.own_state == OwnState::Executing {
            // Its owner did not know, so nothing was sent: the permission is used only now.
            let used = permitted || self.progress != Progress::Whole;
            return if used { Ok(self.clone()) } else { Err(WriteRefused::ResendOver) };
        }
        self.state(now).on(Event::Admit)?;
        if let Progress::InDoubt { .. } = self.progress {
            // By that step alone: it checks the step's own permission.
            return Err(WriteRefused::StepInDoubt);
        }
        if !permitted {
            return Err(WriteRefused::ResendOver);
        }
        Ok(Self {
            own_state: OwnState::Executing,
            lease_end: Some(now.after(lease)),
            first_admitted: self.first_admitted.or(Some(now)),
            ..self.clone()
        })
    }

    /// The record with its lease extended by its owner.
    ///
    /// # Errors
    /// [`WriteRefused`] when it is not the owner's any more or is uncertain: the old owner's
    /// renewals then touch no row (`protocol.md` 4).
    pub fn renew(
        &self,
        by: &Ownership,
        lease: Duration,
        now: StoreTime,
    ) -> Result<Self, WriteRefused> {
        self.owned(by)?;
        if self.own_state == OwnState::Uncertain {
            return Err(WriteRefused::Fenced);
        }
        Ok(Self { lease_end: Some(now.after(lease)), ..self.clone() })
    }

    /// The record made uncertain because its executing holder's lease is over.
    ///
    /// # Errors
    /// [`WriteRefused`] when it is not as it was seen, not executing, or its lease is live.
    pub fn doubt(&self, seen: &Seen, now: StoreTime) -> Result<Self, WriteRefused> {
        if self.seen() != *seen {
            return Err(WriteRefused::Fenced);
        }
        let (state, event) = (self.state(now), Event::Doubt);
        if state == State::Claimed {
            // Nothing was admitted: it is taken over.
            return Err(IllegalTransition { state, event }.into());
        }
        state.on(event)?;
        if !self.lease_over(now) {
            return Err(WriteRefused::LeaseLive);
        }
        Ok(Self { own_state: OwnState::Uncertain, ..self.clone() })
    }

    /// The record settled by its owner: with an ending for the slot, or uncertain.
    ///
    /// Issued again after a lost answer, the same settlement changes nothing.
    ///
    /// # Errors
    /// [`WriteRefused`] when the record has moved on, the slot holds something else, or it is not
    /// clean enough to be released.
    pub fn settle(
        &self,
        by: &Ownership,
        settlement: &Settlement,
        now: StoreTime,
    ) -> Result<Self, WriteRefused> {
        self.end(by, settlement, EndedBy::Owner, now)
    }

    /// The record ended by its owner, or by a verdict about what its owner did.
    pub(crate) fn end(
        &self,
        of: &Ownership,
        settlement: &Settlement,
        by: EndedBy,
        now: StoreTime,
    ) -> Result<Self, WriteRefused> {
        if self.attempt != of.attempt || self.owner != of.owner {
            return Err(WriteRefused::Fenced);
        }
        // After the first step something is there, or may be.
        let stepped = self.progress != Progress::Whole && self.own_state != OwnState::Claimed;
        if let Settlement::NotApplied { every_attempt: false, .. } = settlement
            && (!self.clean || stepped)
        {
            return Err(WriteRefused::NotClean);
        }
        let (event, ending) = Ending::of(settlement, by, now);
        if let Some(there) = self.ending {
            let again = ending.is_some_and(|new| new.is_again(&there));
            return if again { Ok(self.clone()) } else { Err(WriteRefused::Fenced) };
        }
        let state = self.state(now);
        state.on(event)?;
        match event {
            Event::FailTerminal if !self.is_accounted() => return Err(WriteRefused::NotClean),
            // An attempt that was not admitted leaves in doubt only what was so before.
            Event::Doubt if state == State::Claimed && self.clean => {
                return Err(IllegalTransition { state, event }.into());
            }
            _ => {}
        }
        let released = event == Event::NotApplied;
        Ok(Self {
            own_state: if event == Event::Doubt { OwnState::Uncertain } else { self.own_state },
            clean: self.clean || released,
            // A stub has had no steps.
            progress: if released { Progress::Whole } else { self.progress },
            ending,
            ..self.clone()
        })
    }

    pub(crate) fn owned(&self, by: &Ownership) -> Result<(), WriteRefused> {
        let same = self.attempt == by.attempt && self.owner == by.owner;
        if same && self.ending.is_none() { Ok(()) } else { Err(WriteRefused::Fenced) }
    }
}

const fn begin(claim: &NewClaim) -> OwnState {
    match claim.admission {
        Admission::WithClaim => OwnState::Executing,
        Admission::Separate | Admission::BySteps => OwnState::Claimed,
    }
}

const fn progress(claim: &NewClaim) -> Progress {
    match claim.admission {
        Admission::WithClaim | Admission::Separate => Progress::Whole,
        Admission::BySteps => Progress::Accounted,
    }
}
