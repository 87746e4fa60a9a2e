//! The decision: what to do after what was seen.
//!
//! One state machine, without clock, randomness and network: they are arguments. Its cases for all
//! languages are in `clients/policy-cases.json`.

use std::time::Duration;

use hapax_core::{AnswerFacts, Classified, ProblemKind, Retry, Said, classify};

use crate::{
    backoff::Backoff,
    observation::{Answer, Observation, OperationState},
    policy::Policy,
};

/// What to do next with an intent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Next {
    /// To send it again after a pause: the service may work on it.
    Resend(Duration),
    /// To ask for the status of the operation after a pause.
    Ask(Duration),
    /// Nothing: the answer is the service's, and it stands.
    Done,
    /// Nothing: the request was refused or never arrived, and nothing of it happened here.
    Refused,
    /// Nothing more now: it may have taken effect.
    Unknown,
}

/// What a resend takes from the budget.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Cost {
    /// The service, or the way to it, failed.
    Transient,
    /// The service has too much to do.
    Throttled,
}

/// What kind of request an intent is, and in what circumstances it is sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Request {
    /// Whether it has no effect whatever becomes of it (RFC 9110, section 9.2.1).
    pub safe: bool,
    /// Whether it may be sent again: it has a key, or is idempotent by itself (section 9.2.2).
    pub repeatable: bool,
    /// Whether it may be sent again without a key, too (section 9.2.2).
    pub idempotent: bool,
    /// Whether somebody above already sends again what fails: then this is sent once.
    pub retried_above: bool,
    /// Whether an earlier attempt may have taken effect, as after a restart.
    pub in_doubt: bool,
    /// How old the key is already.
    pub key_age: Duration,
}

/// The course of an intent: what was seen so far, as far as it matters for what is next.
#[derive(Clone, Debug)]
pub struct Course {
    request: Request,
    /// Attempts that the service may have worked on.
    attempts: u32,
    /// Failures without an answer in between, those that never left included.
    failures: u32,
    /// Whether the service works, or has worked, on what is not counted yet.
    uncounted: bool,
    /// Times that it waited for an operation that was under way.
    waits: u32,
    last_pause: Duration,
    in_doubt: bool,
    /// When the service forgets the key, from the beginning of the course on.
    key_end: Option<Duration>,
    status_known: bool,
}

/// What an observation asks for, before it is known whether that may be.
#[derive(Clone, Copy)]
enum Wish {
    /// To send again. `counts` as an attempt where the service may work on it; `floor` is how long
    /// it asked not to be asked.
    Resend { cost: Option<Cost>, counts: bool, floor: Duration },
    /// To send again, or to ask, until what is under way has ended.
    Wait { floor: Duration },
    /// To fetch what is there.
    Fetch,
    /// Nothing.
    Stop,
}

impl Course {
    /// A course before its first attempt. `status_known` is whether the status of the operation can be
    /// asked for already.
    pub fn new(policy: &Policy, request: Request, status_known: bool) -> Self {
        let key_end = policy.key_lifetime.map(|life| life.saturating_sub(request.key_age));
        Self {
            request,
            attempts: 0,
            failures: 0,
            uncounted: false,
            waits: 0,
            last_pause: Duration::ZERO,
            in_doubt: request.in_doubt,
            key_end,
            status_known,
        }
    }

    /// Whether the key may be sent now, `elapsed` since the beginning, or ends too soon.
    pub fn may_begin(&self, policy: &Policy, elapsed: Duration) -> bool {
        self.key_lives(policy, elapsed)
    }

    /// Whether something may have taken effect that no answer has told of.
    pub const fn in_doubt(&self) -> bool {
        self.in_doubt
    }

    /// What to do after an observation, `elapsed` since the beginning. `random` is even in
    /// `0.0..1.0`. `budget` is asked for a resend when nothing else stands against it.
    pub fn next(
        &mut self,
        policy: &Policy,
        seen: &Observation,
        elapsed: Duration,
        random: f64,
        budget: impl FnOnce(Cost) -> bool,
    ) -> Next {
        let wish = self.take_in(policy, seen, elapsed);
        let last = self.verdict(seen);
        let wish = match wish {
            _ if self.request.retried_above => Wish::Stop,
            Wish::Wait { .. } | Wish::Fetch if !self.request.repeatable => Wish::Stop,
            // One fetch is free; where what is there cannot be had, more of them are a load like any.
            Wish::Fetch if self.attempts > policy.attempts.get() => {
                let cost = Some(Cost::Transient);
                Wish::Resend { cost, counts: false, floor: Duration::ZERO }
            }
            wish => wish,
        };
        let (next, pause) = match wish {
            Wish::Stop => return last,
            Wish::Fetch => (Next::Resend(Duration::ZERO), Duration::ZERO),
            Wish::Wait { floor } => {
                let pause = self.waiting(policy, floor, random);
                let next = if self.status_known { Next::Ask(pause) } else { Next::Resend(pause) };
                (next, pause)
            }
            Wish::Resend { cost, counts, floor } => {
                let spent = counts && self.attempts >= policy.attempts.get();
                let pause = self.pausing(policy, cost, floor, random);
                if !self.request.repeatable && counts || spent {
                    return self.or_ask(policy, last, elapsed, random);
                }
                (Next::Resend(pause), pause)
            }
        };
        let then = elapsed.saturating_add(pause);
        if then >= policy.deadline {
            return last;
        }
        if matches!(next, Next::Resend(_)) {
            if !self.key_lives(policy, then) {
                return self.or_ask(policy, last, elapsed, random);
            }
            if let Wish::Resend { cost: Some(cost), .. } = wish
                && !budget(cost)
            {
                return self.or_ask(policy, last, elapsed, random);
            }
        }
        self.last_pause = pause;
        next
    }

    /// What an observation wishes; what it says is remembered.
    fn take_in(&mut self, policy: &Policy, seen: &Observation, elapsed: Duration) -> Wish {
        match *seen {
            Observation::NeverSent { lasting } => {
                self.failures = self.failures.saturating_add(1);
                let again = Wish::Resend { cost: None, counts: false, floor: Duration::ZERO };
                if lasting { Wish::Stop } else { again }
            }
            Observation::Lost => {
                self.count();
                self.in_doubt = true;
                self.failures = self.failures.saturating_add(1);
                Wish::Resend { cost: Some(Cost::Transient), counts: true, floor: Duration::ZERO }
            }
            Observation::Answered(answer) => {
                self.status_known |= answer.names_status;
                if let Some(expires_in) = answer.expires_in {
                    let end = elapsed.saturating_add(expires_in);
                    self.key_end = Some(self.key_end.map_or(end, |known| known.min(end)));
                }
                self.take_in_answer(policy, &answer)
            }
            Observation::Status { state, retry_after } => {
                let floor = longest(policy, retry_after);
                match state {
                    OperationState::Ended => Wish::Fetch,
                    OperationState::NotApplied => {
                        self.in_doubt = false;
                        if self.uncounted {
                            self.count();
                        }
                        Wish::Resend { cost: None, counts: true, floor }
                    }
                    OperationState::GoesOn => Wish::Wait { floor },
                    OperationState::NotTold => {
                        self.status_known = false;
                        // What is under way is asked for with its key; else the service may have to work.
                        match self.uncounted {
                            true => Wish::Wait { floor },
                            false => {
                                Wish::Resend { cost: Some(Cost::Transient), counts: true, floor }
                            }
                        }
                    }
                }
            }
        }
    }

    fn take_in_answer(&mut self, policy: &Policy, answer: &Answer) -> Wish {
        let floor = longest(policy, answer.retry_after);
        let under_way = match answer.problem {
            Some(ProblemKind::InFlight) => true,
            // Where it may be sent again, the status says so to everybody.
            Some(ProblemKind::OutcomeUnknown) => answer.status != 503,
            Some(_) => false,
            None => {
                let says_in_flight = policy.in_flight_statuses.contains(&answer.status);
                // The service's own word comes before what its statuses usually mean.
                answer.said == Some(Said::Unknown)
                    || answer.said.is_none() && !answer.kept && says_in_flight
            }
        };
        if under_way {
            self.in_doubt = true;
            self.uncounted = true;
            return Wish::Wait { floor };
        }
        self.count();
        if answer.said == Some(Said::NotApplied) {
            self.in_doubt = false;
        }
        let unknown = match answer.problem {
            Some(ProblemKind::OutcomeUnknown | ProblemKind::UpstreamFailed) => true,
            Some(ProblemKind::HandlerFailed) => answer.said != Some(Said::NotApplied),
            Some(_) => false,
            None => !answer.kept && matches!(facts(answer, true), Classified::Uncertain { .. }),
        };
        let again = match answer.problem {
            Some(kind) => match kind.retry() {
                Retry::Same => true,
                Retry::IfIdempotent => self.request.idempotent,
                Retry::Corrected | Retry::Never => false,
            },
            None if answer.kept || answer.said == Some(Said::Applied) => false,
            None => matches!(answer.status, 408 | 425 | 429 | 502 | 503 | 504),
        };
        self.in_doubt |= unknown;
        if !again {
            return Wish::Stop;
        }
        self.failures = self.failures.saturating_add(1);
        let throttled =
            answer.status == 429 || answer.status == 503 && answer.retry_after.is_some();
        let cost = if throttled { Cost::Throttled } else { Cost::Transient };
        Wish::Resend { cost: Some(cost), counts: true, floor }
    }

    const fn count(&mut self) {
        self.attempts = self.attempts.saturating_add(1);
        self.uncounted = false;
        self.waits = 0;
    }

    /// What it comes to when nothing more is done.
    fn verdict(&self, seen: &Observation) -> Next {
        let open = |otherwise| if self.in_doubt { Next::Unknown } else { otherwise };
        match seen {
            Observation::NeverSent { .. } => open(Next::Refused),
            Observation::Status { state: OperationState::NotApplied, .. } => Next::Refused,
            Observation::Lost | Observation::Status { .. } => Next::Unknown,
            Observation::Answered(answer) => match answer.problem {
                Some(ProblemKind::InFlight | ProblemKind::OutcomeUnknown) => Next::Unknown,
                // They tell of the operation itself, whatever was in doubt before.
                Some(ProblemKind::KeyExpired | ProblemKind::OutcomeNotKept) => Next::Refused,
                // Another intent has the key. What was sent before this course began may have been that
                // one: its content or its fields may have been others.
                Some(ProblemKind::KeyReused) if !self.request.in_doubt => Next::Refused,
                Some(_) => open(Next::Refused),
                None if self.request.safe || answer.kept && answer.said != Some(Said::Unknown) => {
                    Next::Done
                }
                None => match facts(answer, !self.in_doubt) {
                    Classified::Outcome(_) | Classified::NotApplied => Next::Done,
                    Classified::Uncertain { .. } => Next::Unknown,
                },
            },
        }
    }

    /// Where the outcome is unknown and its status can be asked for, that is done.
    fn or_ask(&mut self, policy: &Policy, last: Next, elapsed: Duration, random: f64) -> Next {
        if last != Next::Unknown || !self.status_known {
            return last;
        }
        let pause = self.waiting(policy, Duration::ZERO, random);
        if elapsed.saturating_add(pause) >= policy.deadline {
            return last;
        }
        self.last_pause = pause;
        Next::Ask(pause)
    }

    fn pausing(
        &self,
        policy: &Policy,
        cost: Option<Cost>,
        floor: Duration,
        random: f64,
    ) -> Duration {
        let base = match cost {
            Some(Cost::Throttled) => policy.throttled_base.max(policy.backoff.base),
            Some(Cost::Transient) | None => policy.backoff.base,
        };
        let backoff = Backoff { base, ..policy.backoff };
        floor.saturating_add(backoff.pause(self.failures.max(1), self.last_pause, random))
    }

    fn waiting(&mut self, policy: &Policy, floor: Duration, random: f64) -> Duration {
        self.waits = self.waits.saturating_add(1);
        floor.saturating_add(policy.waiting.pause(self.waits, self.last_pause, random))
    }

    fn key_lives(&self, policy: &Policy, at: Duration) -> bool {
        self.key_end.is_none_or(|end| {
            // What lives shorter than the margin may be sent for half of its life, counted from when it
            // was made: an old key has no shorter margin.
            let life = self.request.key_age.saturating_add(end);
            at.saturating_add(policy.lifetime_margin.min(life / 2)) < end
        })
    }
}

/// How long a service may make the client wait.
fn longest(policy: &Policy, asked: Option<Duration>) -> Duration {
    asked.unwrap_or_default().min(policy.longest_retry_after)
}

/// What a service's own answer amounts to, as the gateway reads it too.
fn facts(answer: &Answer, clean: bool) -> Classified {
    classify(AnswerFacts {
        status: answer.status,
        complete: true,
        by_head: false,
        said: answer.said,
        told: None,
        clean,
        store_refusals: false,
    })
}
