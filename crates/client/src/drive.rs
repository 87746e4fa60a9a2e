//! The way of an intent to its outcome: attempts, pauses and questions, as the course decides.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body::Body;
use http_body_util::Full;
use tokio::time::{Instant, sleep};
use tower_service::Service;

use crate::{
    attempt::{Attempt, Seen, Timing},
    budget::{Budget, Taken},
    course::{Course, Next},
    facts::is_replayed,
    intent::Intent,
    latency::Latency,
    observation::Observation,
    outcome::{Done, Operation, Outcome, Refusal, Refused},
    service::{BoxError, Client, Event, Settings},
    status,
};

/// An intent under way.
pub(crate) struct Drive<'a, S> {
    service: &'a S,
    settings: &'a Settings,
    intent: Intent,
    course: Course,
    budget: Budget,
    latency: Option<Arc<Latency>>,
    began: Instant,
    /// Whether whoever is below is told that it is sent again from here or above.
    tells_below: bool,
    status: Option<Uri>,
    last_taken: Option<Taken>,
    /// The last answer that did not stand.
    evidence: Option<Response<Bytes>>,
    sent: u32,
}

/// What is done next.
#[derive(Clone, Copy)]
enum Step {
    Send,
    Ask,
}

impl<'a, S, B> Drive<'a, S>
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>> + Clone,
    S::Error: Into<BoxError>,
    B: Body,
    B::Error: Into<BoxError>,
{
    /// An intent, whose status can be asked for there.
    pub(crate) fn new(client: &'a Client<S>, intent: Intent, status: Option<Uri>) -> Self {
        let settings = &*client.settings;
        let retried_above = hapax_above::retries();
        let destination = intent.destination();
        let request = intent.request_facts(retried_above);
        let course = Course::new(&settings.policy, request, status.is_some());
        Self {
            service: &client.service,
            settings,
            course,
            budget: settings.budgets.of(&destination),
            latency: settings.latency(intent.method(), &destination),
            began: Instant::now(),
            tells_below: retried_above || request.repeatable && settings.policy.attempts.get() > 1,
            intent,
            status,
            last_taken: None,
            evidence: None,
            sent: 0,
        }
    }

    /// Goes on until there is no more to do.
    pub(crate) async fn run(mut self) -> Outcome {
        let mut step = match (&self.status, self.course.in_doubt()) {
            (Some(_), _) => Step::Ask,
            // It may have been sent, and no key makes the two one.
            (None, true) if !self.intent.is_repeatable() => {
                return self.unknown_for("it has no key, so it is not sent again");
            }
            (None, _) => Step::Send,
        };
        self.budget.begin();
        loop {
            let seen = match step {
                Step::Send
                    if !self.course.may_begin(&self.settings.policy, self.began.elapsed()) =>
                {
                    return self.too_late();
                }
                Step::Send => self.send().await,
                Step::Ask => self.ask().await,
            };
            match self.decide(&seen) {
                Next::Resend(pause) => {
                    self.pause(pause, &seen, false).await;
                    step = Step::Send;
                }
                Next::Ask(pause) => {
                    self.pause(pause, &seen, true).await;
                    step = Step::Ask;
                }
                Next::Done => return self.done(seen),
                Next::Refused => return self.refused(seen),
                Next::Unknown => return self.unknown(seen),
            }
            self.evidence = seen.response.or(self.evidence.take());
        }
    }

    async fn send(&mut self) -> Seen {
        let attempt = self.attempt(self.sent);
        self.sent = self.sent.saturating_add(1);
        self.settings.tell(Event::Sending { nth: self.sent });
        let begun = Instant::now();
        // Clients that this request is handed to within the process do not retry.
        let sending = attempt.send(self.service.clone(), &self.intent);
        let seen = hapax_above::when(self.tells_below, sending).await;
        self.measure(&seen, begun.elapsed());
        if let Some(response) = &seen.response
            && let Some(link) = status::address(self.intent.uri(), response.headers())
        {
            self.status = Some(link);
        }
        seen
    }

    async fn ask(&mut self) -> Seen {
        let Some(address) = self.status.clone() else { return status::not_told() };
        self.settings.tell(Event::Asking);
        let request = status::question(&self.intent, address);
        // It is no resend, and whether to ask again is decided here.
        let attempt = self.attempt(0);
        let asking = attempt.exchange(self.service.clone(), request);
        status::read(hapax_above::retrying(asking).await)
    }

    fn attempt(&self, resend: u32) -> Attempt<'a> {
        let policy = &*self.settings.policy;
        let rule = &policy.attempt_timeout;
        let timeout = self.latency.as_ref().map_or(rule.ceiling, |it| it.timeout(rule));
        let left = policy.deadline.saturating_sub(self.began.elapsed());
        Attempt {
            policy,
            resend,
            tells_below: self.tells_below,
            timeout: timeout.min(left),
            longest_content: self.settings.longest_content,
            reached: self.settings.reached,
        }
    }

    fn measure(&self, seen: &Seen, took: Duration) {
        match (&self.latency, seen.timing) {
            (Some(latency), Timing::Answered) => latency.answered(took),
            (Some(latency), Timing::TimedOut) => latency.timed_out(took),
            _ => {}
        }
    }

    fn decide(&mut self, seen: &Seen) -> Next {
        let (policy, elapsed) = (&*self.settings.policy, self.began.elapsed());
        let (budget, taken) = (&self.budget, &mut self.last_taken);
        let next = self.course.next(policy, &seen.observation, elapsed, fastrand::f64(), |cost| {
            let got = budget.take(cost);
            *taken = got.or(*taken);
            got.is_some()
        });
        // The service works where it answers with something else than that it does not.
        if next == Next::Done
            && let Observation::Answered(answer) = seen.observation
            && (answer.kept || answer.status < 500 && answer.status != 429)
        {
            self.budget.succeed(self.last_taken);
        }
        next
    }

    async fn pause(&self, pause: Duration, seen: &Seen, asks: bool) {
        self.settings.tell(Event::Pausing { pause, why: &seen.why, asks });
        if !pause.is_zero() {
            sleep(pause).await;
        }
    }

    fn done(self, seen: Seen) -> Outcome {
        let sent = self.sent;
        match seen.response {
            Some(response) => {
                let replayed = is_replayed(response.headers());
                Outcome::Done(Done { response, replayed, cut: seen.cut, sent })
            }
            // An answer stands only where there is one.
            None => self.unknown(seen),
        }
    }

    fn refused(self, seen: Seen) -> Outcome {
        let why = match seen.observation {
            Observation::Answered(answer) => {
                answer.problem.map_or(Refusal::NotApplied, Refusal::Problem)
            }
            Observation::NeverSent { .. } => Refusal::NeverSent(seen.why),
            Observation::Lost | Observation::Status { .. } => Refusal::NotApplied,
        };
        Outcome::Refused(Refused { why, response: seen.response, sent: self.sent })
    }

    fn unknown(mut self, seen: Seen) -> Outcome {
        self.evidence = seen.response.or(self.evidence);
        self.unknown_for(seen.why)
    }

    fn unknown_for(self, why: impl Into<String>) -> Outcome {
        let (why, Self { intent, status, evidence, sent, .. }) = (why.into(), self);
        Outcome::Unknown(Operation { intent, status, evidence, why, sent })
    }

    /// The key is about to end, and is not sent any more.
    fn too_late(self) -> Outcome {
        if self.course.in_doubt() {
            return self
                .unknown_for("the service is about to forget its key, so it is not sent again");
        }
        let (response, sent) = (self.evidence, self.sent);
        Outcome::Refused(Refused { why: Refusal::KeyEnds, response, sent })
    }
}
