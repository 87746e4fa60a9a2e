//! Proof that an effect exists, where the record says by now that it does not: the key was freed by
//! a verdict, and the answer of the attempt, or of the service that was asked, came after it.

use crate::{
    EndedBy, Ending, EndingKind, Event, Fingerprint, OutcomeClass, OwnState, Owner, Ownership,
    Record, Retention, Settlement, Statement, StoreTime, StoredResponse, WriteRefused,
};

/// Proof that the effect of an attempt exists.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Proof {
    /// A random token of this proof alone: it owns the attempt that the proof makes, and by it the
    /// proof is recognised when it is issued again.
    pub token: Owner,
    /// The ownership that the proof is about.
    pub of: Ownership,
    /// The intent of that attempt.
    pub fingerprint: Fingerprint,
    /// The status that a retry gets.
    pub status: u16,
    /// The answer that a retry gets; `None` when there is none to keep.
    pub response: Option<StoredResponse>,
    /// How long it is remembered.
    pub retention: Retention,
    /// Who has it, and what it is.
    pub statement: Statement,
}

impl Proof {
    /// The word in the history for a proof that became the outcome.
    pub const BINDS: &'static str = "applied-after-all";
    /// The word in the history for one that came too late: the key was used again.
    pub const TOO_LATE: &'static str = "applied-too-late";

    /// The same as a settlement.
    pub fn settlement(&self) -> Settlement {
        Settlement::Outcome {
            class: OutcomeClass::Succeeded,
            status: self.status,
            response: self.response.clone(),
            retention: self.retention,
        }
    }
}

impl Record {
    /// Whether it says that nothing came of an attempt: by what that attempt came to, or by a later
    /// one that began in this belief.
    pub fn denies(&self, of: &Ownership) -> bool {
        let is_it = self.attempt == of.attempt && self.owner == of.owner;
        if !is_it {
            return self.attempt > of.attempt && self.clean;
        }
        let ended_as = self.ending.map(|ending| (ending.kind, ending.class));
        match ended_as {
            Some((EndingKind::Outcome, class)) => class != Some(OutcomeClass::Succeeded),
            Some((EndingKind::Released, _)) => true,
            Some((EndingKind::Superseded, _)) | None => false,
        }
    }

    /// The record that was freed, and that nobody has claimed since, at an attempt of its own that
    /// ends with the proof. Issued again after a lost answer, it changes nothing.
    ///
    /// # Errors
    /// [`WriteRefused`] when it does not deny the effect, another attempt is at it or has an
    /// outcome, or the key is used for another intent by now.
    pub fn prove(&self, proof: &Proof, epoch: u32, now: StoreTime) -> Result<Self, WriteRefused> {
        if self.owner == proof.token {
            return Ok(self.clone());
        }
        if !self.denies(&proof.of) || self.fingerprint != proof.fingerprint {
            return Err(WriteRefused::Fenced);
        }
        self.state(now).on(Event::Prove)?;
        let ending = Ending::of(&proof.settlement(), EndedBy::Verdict(proof.token), now).1;
        Ok(Self {
            attempt: self.attempt.next(epoch),
            owner: proof.token,
            own_state: OwnState::Uncertain,
            clean: false,
            ending,
            ..self.clone()
        })
    }
}
