//! What evidence about an uncertain record amounts to, and what it makes of the record
//! (`protocol.md` 12, 13, 23).

use std::time::Duration;

use crate::{
    EndedBy, Ending, Event, OutcomeClass, OwnState, Owner, Ownership, Progress, Record, Retention,
    Settlement, State, StoreTime, StoredResponse, WriteRefused,
};

/// What evidence amounts to.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Verdict {
    /// The effect exists, and this is what it came to.
    Applied(AppliedOutcome),
    /// It does not, by any attempt so far, and none of them will still make it. Only a closer, or
    /// an operator who states the risk, can say so.
    NotApplied,
    /// It was not there when it was looked for. A request that is still under way may make it yet,
    /// so this is no [`NotApplied`](Self::NotApplied).
    NotSeenYet,
    /// Nothing was learned.
    Unknown,
}

/// What makes "not there" final, where something does (`protocol.md` 12).
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Closer {
    /// Nothing: a request that is under way may still arrive.
    None,
    /// The service can be told to refuse every attempt up to one that is made for this.
    Attempt,
    /// The service refuses by now everything that was sent: both clocks have passed its deadline.
    DeadlineOver,
}

impl Verdict {
    /// What a look amounts to under a closer; `None`: the earlier attempts are to be closed first,
    /// and what the service says then is the verdict.
    pub fn under(self, closer: Closer) -> Option<Self> {
        match (self, closer) {
            (Self::NotSeenYet | Self::NotApplied, Closer::DeadlineOver) => Some(Self::NotApplied),
            (Self::NotSeenYet | Self::NotApplied, Closer::Attempt) => None,
            // Without a closer "not there" is never final.
            (Self::NotApplied, Closer::None) => Some(Self::NotSeenYet),
            (verdict, _) => Some(verdict),
        }
    }
}

/// What an effect came to, as a retry is answered with it.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct AppliedOutcome {
    /// How it is to be understood.
    pub class: OutcomeClass,
    /// The status that a retry gets.
    pub status: u16,
    /// The answer that a retry gets; `None` when there is none to keep.
    pub response: Option<StoredResponse>,
}

/// Evidence that leaves a record uncertain, as the decision on a retry reads it.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Evidence {
    /// See [`Verdict::NotSeenYet`].
    NotSeenYet,
    /// See [`Verdict::Unknown`].
    Unknown,
}

/// A verdict that ends the attempt of an uncertain record, with whose it is.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Judgement {
    /// A random token of this verdict alone: by it the verdict is recognised when it is issued
    /// again, and told apart from another one that comes to the same status.
    pub token: Owner,
    /// The ownership that the evidence was about, as it was read.
    pub of: Ownership,
    /// What is certain now.
    pub ruling: Ruling,
    /// How long it is remembered.
    pub retention: Retention,
    /// Who says so, and why.
    pub statement: Statement,
}

/// What is certain after a judgement.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Ruling {
    /// The effect exists.
    Applied(AppliedOutcome),
    /// It does not and will not, by any attempt so far: the key is free.
    NotApplied,
}

/// Who says something about a record, and why: kept in its history.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Statement {
    /// A person, or a part of hapax.
    pub actor: String,
    /// In words, for whoever looks at it later.
    pub reason: String,
}

impl Judgement {
    /// The same as a settlement: it ends the attempt in the one slot there is.
    pub fn settlement(&self) -> Settlement {
        let retention = self.retention;
        match &self.ruling {
            Ruling::Applied(AppliedOutcome { class, status, response }) => Settlement::Outcome {
                class: *class,
                status: *status,
                response: response.clone(),
                retention,
            },
            Ruling::NotApplied => Settlement::NotApplied { every_attempt: true, retention },
        }
    }

    /// The word for it in the history.
    pub const fn word(&self) -> &'static str {
        match self.ruling {
            Ruling::Applied(_) => "judged-applied",
            Ruling::NotApplied => "judged-not-applied",
        }
    }
}

impl Record {
    /// The record ended by a judgement. Issued again after a lost answer, it changes nothing.
    ///
    /// # Errors
    /// [`WriteRefused`] when the record is not the one that the evidence was about any more, has
    /// ended otherwise, or is not uncertain.
    pub fn judge(&self, judgement: &Judgement, now: StoreTime) -> Result<Self, WriteRefused> {
        let settlement = judgement.settlement();
        let by = EndedBy::Verdict(judgement.token);
        if self.ending.is_some() {
            // The same again, or fenced.
            return self.end(&judgement.of, &settlement, by, now);
        }
        self.owned(&judgement.of)?;
        let (state, event) = (self.state(now), judgement.event());
        if state != State::Uncertain {
            return Err(crate::IllegalTransition { state, event }.into());
        }
        // What is judged is accounted for, whatever the attempt alone could have said.
        let accounted = match self.progress {
            Progress::Whole => Self { clean: true, ..self.clone() },
            Progress::Accounted | Progress::InDoubt { .. } => {
                Self { progress: Progress::Accounted, ..self.clone() }
            }
        };
        let settled = accounted.end(&judgement.of, &settlement, by, now)?;
        let clean = self.clean || event == Event::NotApplied;
        Ok(Self { clean, ..settled })
    }

    /// The record at the attempt that closes the earlier ones, uncertain as before, and the ending
    /// of the attempt before it: from here on a service that refuses older attempts can be told
    /// this number, and what it answers speaks for all before it (`protocol.md` 12).
    ///
    /// # Errors
    /// [`WriteRefused`] when the record is not as it was read, or not uncertain as a whole.
    pub fn close(
        &self,
        by: &Ownership,
        closing: Owner,
        epoch: u32,
        now: StoreTime,
    ) -> Result<(Self, Ending), WriteRefused> {
        self.owned(by)?;
        self.state(now).on(Event::Close)?;
        if self.progress != Progress::Whole {
            return Err(WriteRefused::NoSteps);
        }
        let next = Self {
            attempt: self.attempt.next(epoch),
            owner: closing,
            clean: false,
            ending: None,
            ..self.clone()
        };
        Ok((next, Ending::superseded(now)))
    }

    /// Whether an attempt that closes the earlier ones is this owner's: how one whose answer was
    /// lost recognises itself when it is issued again.
    pub fn is_closed_by(&self, closing: &Owner) -> bool {
        self.owner == *closing && self.ending.is_none() && self.own_state == OwnState::Uncertain
    }

    /// Whether everything that was sent is refused by now by a service that enforces `deadline`,
    /// counted from an attempt's admission.
    ///
    /// It is counted here from the end of the lease: that is one lease more than needed, which
    /// covers the difference between the service's clock and the store's.
    pub fn deadline_over(&self, deadline: Duration, now: StoreTime) -> bool {
        self.lease_end.is_some_and(|end| end.after(deadline) <= now)
    }

    /// Until when the service takes the present attempt, where it enforces `deadline`. To be asked
    /// of the record as it was claimed, before its first renewal.
    pub fn refused_after(&self, lease: Duration, deadline: Duration) -> Option<StoreTime> {
        self.lease_end.map(|end| end.before(lease).after(deadline))
    }
}

impl Judgement {
    const fn event(&self) -> Event {
        match &self.ruling {
            Ruling::Applied(AppliedOutcome { class: OutcomeClass::Succeeded, .. }) => {
                Event::Succeed
            }
            Ruling::Applied(AppliedOutcome { class: OutcomeClass::FailedTerminal, .. }) => {
                Event::FailTerminal
            }
            Ruling::NotApplied => Event::NotApplied,
        }
    }
}

/// How a status is to be understood that somebody says an effect came to; `None` for one that is
/// no outcome.
pub const fn class_of_status(status: u16) -> Option<OutcomeClass> {
    match status {
        // A part of an answer, and a word on an earlier one, are no outcome of their own.
        200..=205 | 207..=299 | 301..=303 => Some(OutcomeClass::Succeeded),
        400..=499 => Some(OutcomeClass::FailedTerminal),
        _ => None,
    }
}

/// When something that was looked at `probes` times without a result is looked at next: a random
/// part of a time that doubles, between a half and the whole of it, so that many do not come
/// together. `random` is anything.
pub fn next_probe(first: Duration, longest: Duration, probes: u32, random: u32) -> Duration {
    let doubled = first.saturating_mul(1_u32.checked_shl(probes.min(31)).unwrap_or(u32::MAX));
    let whole = doubled.min(longest);
    let half = whole / 2;
    half.saturating_add(half.mul_f64(f64::from(random) / f64::from(u32::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_looked_for_in_vain_is_looked_for_less_often_within_bounds() {
        const FIRST: Duration = Duration::from_secs(2);
        const LONGEST: Duration = Duration::from_secs(300);
        let mut before = Duration::ZERO;
        for probes in 0..200 {
            let (least, most) = (
                next_probe(FIRST, LONGEST, probes, 0),
                next_probe(FIRST, LONGEST, probes, u32::MAX),
            );
            assert!(least >= before / 2 && least < most && most <= LONGEST, "{probes}");
            before = most;
        }
        assert_eq!(before, LONGEST);
    }

    #[test]
    fn only_answers_that_end_something_are_outcomes() {
        assert_eq!(class_of_status(201), Some(OutcomeClass::Succeeded));
        assert_eq!(class_of_status(303), Some(OutcomeClass::Succeeded));
        assert_eq!(class_of_status(402), Some(OutcomeClass::FailedTerminal));
        for none in [0, 100, 199, 206, 300, 304, 307, 500, 503, 600] {
            assert_eq!(class_of_status(none), None, "{none}");
        }
    }
}
