//! Looking into an uncertain record, as the engine does for a retry and in the background.

use hapax_core::{
    AppliedOutcome, Closer, Evidence, Found, Judgement, OutcomeClass, Owner, Ownership, Proof,
    Record, Ruling, Verdict,
};
use hapax_store::Written;

use crate::{
    Mutation,
    setup::{DEADLINE, ServiceKind, ticks},
    tampered::Write,
    turn::{Fault, Turn},
};

/// Where a look is: each step is one that others can come between.
#[derive(Clone, Debug, Hash)]
pub(crate) enum Look {
    Asking,
    /// The closing attempt is to be committed.
    Committing {
        closing: Owner,
    },
    /// It is committed: the service is to close.
    Closing {
        of: Ownership,
    },
    Judging {
        of: Ownership,
        token: Owner,
        ruling: Ruling,
    },
    Proving {
        of: Ownership,
        token: Owner,
        outcome: AppliedOutcome,
    },
}

/// What a step of a look came to.
pub(crate) enum Looked {
    GoesOn(Look),
    /// The record has moved on.
    Moved(Box<Found>),
    Gone,
    Still {
        evidence: Evidence,
        of: Ownership,
    },
}

impl Look {
    pub(crate) fn tokens(&self, see: &mut impl FnMut(&Owner)) {
        match self {
            Self::Asking => {}
            Self::Committing { closing } => see(closing),
            Self::Closing { of } => see(&of.owner),
            Self::Judging { of, token, .. } | Self::Proving { of, token, .. } => {
                see(&of.owner);
                see(token);
            }
        }
    }

    /// Whether its next step is a write to the store.
    pub(crate) const fn writes(&self) -> bool {
        !matches!(self, Self::Asking | Self::Closing { .. })
    }
}

impl Turn<'_> {
    /// The next step of a look into `found` by a process, where `holder` holds the record.
    pub(crate) fn look(
        &mut self,
        nth: usize,
        found: &Found,
        look: Look,
        holder: Option<Owner>,
        fault: Fault,
    ) -> Looked {
        let record = &found.record;
        let still = |of| Looked::Still { evidence: Evidence::Unknown, of };
        match look {
            Look::Asking => self.ask(nth, found),
            Look::Committing { closing } => {
                self.say(|| "commits an attempt that closes the earlier ones".to_owned());
                let (tampered, of) = (self.model.tampered, record.ownership());
                let statement = self.model.statement.clone();
                let written = self.write(nth, Write::Other, fault, |data, now| {
                    tampered.close_earlier(data, &of, closing, &statement, now)
                });
                match written {
                    Ok(Written::Done(closing)) => {
                        Looked::GoesOn(Look::Closing { of: closing.ownership() })
                    }
                    Ok(other) => self.moved(other),
                    Err(_) => still(of),
                }
            }
            Look::Closing { of } => {
                let (effect, attempt) = (self.node(nth).secret, of.attempt);
                let verdict = self.close(effect, attempt);
                self.say(|| {
                    format!("the service closes up to attempt {attempt}: {}", word(&verdict))
                });
                // Under the mutation the record is as it was: it is judged as that.
                let of = if self.has(Mutation::ClosesWithoutCommitting) {
                    record.ownership()
                } else {
                    of
                };
                self.weighed(verdict, of)
            }
            Look::Judging { of, token, ruling } => {
                let judgement = self.judgement(of, token, ruling);
                self.say(|| format!("writes the verdict: {}", judgement.word()));
                let tampered = self.model.tampered;
                let written = self.write(nth, Write::Other, fault, |data, now| {
                    tampered.judge(data, &judgement, holder, now)
                });
                match written {
                    Ok(Written::Refused { found, .. }) => self.overruled(judgement, found),
                    Ok(other) => self.moved(other),
                    Err(_) => still(of),
                }
            }
            Look::Proving { of, token, outcome } => {
                self.say(|| "writes the proof that the effect exists".to_owned());
                let proof = self.proof(record, of, token, outcome);
                let written =
                    self.write(nth, Write::Other, fault, |data, now| data.prove(&proof, now));
                match written {
                    Ok(other) => self.moved(other),
                    Err(_) => still(of),
                }
            }
        }
    }

    fn ask(&mut self, nth: usize, found: &Found) -> Looked {
        let record = &found.record;
        let still = Looked::Still { evidence: Evidence::Unknown, of: record.ownership() };
        if !self.model.rules.probes(record) {
            return still;
        }
        let verdict = self.view().probe(self.node(nth).secret);
        let closer = match self.model.setup.service {
            ServiceKind::Closes => Closer::Attempt,
            ServiceKind::KeepsDeadline
                if record.deadline_over(ticks(DEADLINE) + self.model.timeout, found.now) =>
            {
                Closer::DeadlineOver
            }
            _ if self.has(Mutation::NotSeenIsNotApplied) => Closer::DeadlineOver,
            _ => Closer::None,
        };
        self.say(|| format!("asks the service: {}", word(&verdict)));
        match verdict.under(closer) {
            Some(verdict) => self.weighed(verdict, record.ownership()),
            None if self.has(Mutation::ClosesWithoutCommitting) => {
                let of = record.ownership();
                let of = Ownership { attempt: record.attempt.next(0), ..of };
                Looked::GoesOn(Look::Closing { of })
            }
            None => Looked::GoesOn(Look::Committing { closing: self.token() }),
        }
    }

    fn weighed(&self, verdict: Verdict, of: Ownership) -> Looked {
        let ruling = match verdict {
            Verdict::Applied(outcome) => Ruling::Applied(outcome),
            Verdict::NotApplied => Ruling::NotApplied,
            Verdict::NotSeenYet => return Looked::Still { evidence: Evidence::NotSeenYet, of },
            Verdict::Unknown => return Looked::Still { evidence: Evidence::Unknown, of },
        };
        Looked::GoesOn(Look::Judging { of, token: self.token(), ruling })
    }

    /// That the effect exists is proof against a record that was freed meanwhile.
    fn overruled(&self, judgement: Judgement, found: Box<Found>) -> Looked {
        let Judgement { of, ruling, .. } = judgement;
        match ruling {
            Ruling::Applied(outcome)
                if outcome.class == OutcomeClass::Succeeded && found.record.denies(&of) =>
            {
                Looked::GoesOn(Look::Proving { of, token: judgement.token, outcome })
            }
            _ => Looked::Moved(found),
        }
    }

    fn moved(&self, written: Written) -> Looked {
        match written {
            Written::Refused { found, .. } => Looked::Moved(found),
            Written::Missing => Looked::Gone,
            Written::Done(_) => self
                .world
                .store
                .find(&self.model.id, self.world.time())
                .map_or(Looked::Gone, |found| Looked::Moved(Box::new(found))),
        }
    }

    fn judgement(&self, of: Ownership, token: Owner, ruling: Ruling) -> Judgement {
        let statement = self.model.statement.clone();
        Judgement { token, of, ruling, retention: self.model.retention, statement }
    }

    pub(crate) fn proof(
        &self,
        record: &Record,
        of: Ownership,
        token: Owner,
        outcome: AppliedOutcome,
    ) -> Proof {
        Proof {
            token,
            of,
            fingerprint: record.fingerprint,
            status: outcome.status,
            response: outcome.response,
            retention: self.model.retention,
            statement: self.model.statement.clone(),
        }
    }
}

fn word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Applied(_) => "it is applied",
        Verdict::NotApplied => "it is not applied, and will not be",
        Verdict::NotSeenYet => "it is not there",
        Verdict::Unknown => "nothing is learned",
    }
}
