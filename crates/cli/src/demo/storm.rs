//! The storm: every intent is sent by several impatient clients until they know what came of it.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use http::StatusCode;
use tokio::{
    task::{JoinError, JoinSet},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::{
    client::{Answer, Attempt, Manner, pay},
    counts::Counts,
    order::Order,
    plan::{Copy, Intent},
};

/// The longest pause of a client that was not told how long to wait.
const LONGEST_PAUSE: Duration = Duration::from_millis(1_600);

/// What the clients of one intent were told.
#[derive(Debug)]
pub(super) struct History {
    pub(super) intent: Arc<Intent>,
    /// Whether its turn came before the time was up.
    pub(super) started: bool,
    /// One for each final answer that a sender of the intent got, and for each that got none.
    pub(super) told: Vec<Told>,
    /// What became of the same key with another amount.
    pub(super) changed: Option<Told>,
}

/// The end of one client's efforts.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Told {
    /// A success: everything of it that must be the same for everybody.
    Success { status: u16, location: Option<String>, body: Vec<u8> },
    /// A refusal that no retry changes.
    Refused { status: u16, problem: Option<String> },
    /// Nothing final before the time was up.
    Open,
}

impl History {
    /// Whether it had its turn, and somebody still does not know.
    pub(super) fn is_open(&self) -> bool {
        self.started && !self.is_settled()
    }

    /// Whether everybody knows.
    pub(super) fn is_settled(&self) -> bool {
        !self.told.iter().chain(&self.changed).any(|told| *told == Told::Open)
    }
}

/// The clients' side of a storm.
#[derive(Clone)]
pub(super) struct Storm {
    pub(super) gateway: SocketAddr,
    pub(super) counts: Arc<Counts>,
    /// The time is up.
    pub(super) time_up: CancellationToken,
}

impl Storm {
    /// Sends all intents, so many at a time, and returns what everybody was told.
    ///
    /// # Errors
    /// A client panicked; then nothing can be said.
    pub(super) async fn run(
        self,
        intents: Vec<Intent>,
        at_a_time: usize,
    ) -> Result<Vec<History>, JoinError> {
        let mut histories = Vec::with_capacity(intents.len());
        let mut under_way = JoinSet::new();
        let mut waiting = intents.into_iter();
        loop {
            while under_way.len() < at_a_time
                && let Some(intent) = waiting.next()
            {
                under_way.spawn(self.clone().send_intent(Arc::new(intent)));
            }
            match under_way.join_next().await {
                Some(history) => histories.push(history??),
                None => return Ok(histories),
            }
        }
    }

    async fn send_intent(self, intent: Arc<Intent>) -> Result<History, JoinError> {
        if self.time_up.is_cancelled() {
            return Ok(History { intent, started: false, told: vec![Told::Open], changed: None });
        }
        let mut clients = JoinSet::new();
        for nth in 0..intent.copies.len() {
            let (storm, intent) = (self.clone(), Arc::clone(&intent));
            clients.spawn(async move {
                match intent.copies.get(nth) {
                    Some(copy) => storm.send_copy(&intent, copy).await,
                    None => Vec::new(),
                }
            });
        }
        let mut told = Vec::new();
        while let Some(client) = clients.join_next().await {
            told.extend(client?);
        }
        let known = told.iter().any(|told| matches!(told, Told::Success { .. }));
        // Before anybody was told a success the key might still be free, for any order.
        let changed = if intent.changed && known {
            Some(self.send(&intent, &intent.changed_order(), &[]).await)
        } else {
            None
        };
        let history = History { intent, started: true, told, changed };
        if history.is_settled() {
            self.counts.settled.add_one();
        }
        Ok(history)
    }

    async fn send_copy(&self, intent: &Intent, copy: &Copy) -> Vec<Told> {
        self.pause(copy.after).await;
        let told = self.send(intent, &intent.order, &copy.manners).await;
        if copy.again && told != Told::Open {
            return vec![told, self.send(intent, &intent.order, &[]).await];
        }
        vec![told]
    }

    /// Sends until the answer is final: always with the same key, as long as it takes.
    async fn send(&self, intent: &Intent, order: &Order, manners: &[Manner]) -> Told {
        let mut manners = manners.iter().copied();
        let mut attempts = 0;
        while !self.time_up.is_cancelled() {
            self.counts.sent.add_one();
            let manner = manners.next().unwrap_or(Manner::Patient);
            let attempt = tokio::select! {
                attempt = pay(self.gateway, &intent.key, order, manner) => attempt,
                () = self.time_up.cancelled() => return Told::Open,
            };
            attempts += 1;
            if *order == intent.order && asks_the_service(&attempt) {
                self.counts.asked.add_one();
            }
            let pause = match attempt.answer {
                Some(answer) => {
                    self.count(&answer);
                    match judge(answer) {
                        Next::Done(told) => return told,
                        Next::Retry(after) => after.map(|least| least + jitter(200)),
                    }
                }
                None => {
                    self.counts.unanswered.add_one();
                    None
                }
            };
            self.pause(pause.unwrap_or_else(|| backoff(attempts))).await;
        }
        Told::Open
    }

    /// Waits, but not when the time is up.
    async fn pause(&self, pause: Duration) {
        let _ = timeout(pause, self.time_up.cancelled()).await;
    }

    fn count(&self, answer: &Answer) {
        let counts = &self.counts;
        if answer.field("idempotent-replayed").is_some() {
            counts.replays.add_one();
        }
        match answer.problem().as_deref() {
            Some("key-reused") => counts.conflicts.add_one(),
            Some("in-flight") => counts.in_flight.add_one(),
            Some("outcome-unknown") => counts.unknown.add_one(),
            Some("upstream-unreachable") => counts.unreachable.add_one(),
            // The service's own answer, shown but not settled.
            None if answer.field("hapax-outcome") == Some("unknown") => counts.unknown.add_one(),
            _ => {}
        }
    }
}

/// Whether a service alone would have got this request too: see [`Counts::asked`].
fn asks_the_service(attempt: &Attempt) -> bool {
    let problem = attempt.answer.as_ref().and_then(Answer::problem);
    attempt.complete && !matches!(problem.as_deref(), Some("in-flight" | "upstream-unreachable"))
}

enum Next {
    Done(Told),
    /// Not before this time, if one was named.
    Retry(Option<Duration>),
}

/// Whether an answer is final, as a good client sees it.
fn judge(answer: Answer) -> Next {
    let retry_after = answer.retry_after();
    let status = answer.status;
    let unknown = answer.field("hapax-outcome") == Some("unknown");
    if status.is_success() && !unknown {
        return Next::Done(Told::Success {
            status: status.as_u16(),
            location: answer.field("location").map(str::to_owned),
            body: answer.body.to_vec(),
        });
    }
    let transient = matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS);
    if unknown || transient || status.is_server_error() || retry_after.is_some() {
        return Next::Retry(retry_after);
    }
    Next::Done(Told::Refused { status: status.as_u16(), problem: answer.problem() })
}

/// Full jitter under a doubling bound.
fn backoff(attempts: u32) -> Duration {
    let bound = Duration::from_millis(100).saturating_mul(1 << attempts.min(8)).min(LONGEST_PAUSE);
    jitter(u64::try_from(bound.as_millis()).unwrap_or(u64::MAX))
}

fn jitter(below_millis: u64) -> Duration {
    Duration::from_millis(fastrand::u64(0..=below_millis))
}
