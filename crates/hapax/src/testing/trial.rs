//! One world, one disturbance: what is done in it, and what is seen.

use std::{future::poll_fn, pin::Pin, sync::Arc, time::Duration};

use bytes::Bytes;
use hapax_core::{Found, State};
use http::{Request, Response};
use http_body::Body;
use http_body_util::Full;
use tokio::{select, spawn, task::JoinSet, time::timeout};
use tower_service::Service;

use super::{Fault, Kind, Passed, Point, Rehearsal, report::End};
use crate::{
    Hapax,
    http::{
        body::{BoxError, BufferBudget, ReadLimits, read_bounded},
        headers::IDEMPOTENCY_EXPIRES,
    },
};

/// How long one answer is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long copies are waited for while the first attempt stays; it goes on without them then.
const ARRIVAL: Duration = Duration::from_secs(5);

/// How often the request is sent again: one attempt more each time, so two are enough.
pub(super) const RETRIES: usize = 6;

/// What is sent.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) request: Request<Bytes>,
    pub(super) changed: Request<Bytes>,
    pub(super) copies: usize,
}

/// An answer, or why there was none.
pub(super) type Got = Result<Response<Bytes>, String>;

/// What was seen in one world.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) disturbed: Option<(Point, Fault)>,
    /// Whether the fault came.
    pub(super) is_struck: bool,
    /// What callers of the request were answered, in order. A dead process answers nothing.
    pub(super) answers: Vec<Got>,
    /// What one more was answered after the final one.
    pub(super) replay: Option<Got>,
    /// What callers of the changed request were answered.
    pub(super) changed: Vec<Got>,
    pub(super) end: End,
    pub(super) effects_before: Vec<(String, usize)>,
    pub(super) effects: Vec<(String, usize)>,
    pub(super) passed: Vec<Passed>,
}

/// How the application is asked, whatever service it is.
pub(super) type Ask = Box<dyn Fn(Request<Bytes>) -> Asking>;
type Asking = Pin<Box<dyn Future<Output = Got> + Send>>;

pub(super) struct Trial<'a> {
    asked: &'a Asked,
    engine: Hapax,
    ask: Ask,
    rehearsal: Arc<Rehearsal>,
    seen: Seen,
}

impl<'a> Trial<'a> {
    pub(super) fn new(
        asked: &'a Asked,
        engine: Hapax,
        ask: Ask,
        disturbed: Option<(Point, Fault)>,
    ) -> Self {
        let rehearsal = Arc::new(Rehearsal::new(disturbed.clone()));
        let seen = Seen {
            disturbed,
            is_struck: false,
            answers: Vec::new(),
            replay: None,
            changed: Vec::new(),
            end: End::Open,
            effects_before: Vec::new(),
            effects: Vec::new(),
            passed: Vec::new(),
        };
        Self { asked, engine, ask, rehearsal, seen }
    }

    pub(super) async fn run(mut self) -> Seen {
        self.engine.rehearse(Arc::clone(&self.rehearsal));
        match &self.seen.disturbed {
            Some((point, Fault::Repeat)) => {
                // Before it is claimed, another request is welcome.
                let is_claimed = point.kind() != Kind::Claim;
                self.repeat(is_claimed).await;
            }
            Some((_, Fault::Stall)) => self.stall().await,
            disturbed => {
                let kills = disturbed.as_ref().is_some_and(|(_, fault)| fault.kills());
                let first = self.ask().await;
                if !(kills && self.rehearsal.is_struck()) {
                    self.seen.answers.push(first);
                }
            }
        }
        self.ask_changed().await;
        self.retry().await;
        self.ask_changed().await;
        self.seen.is_struck = self.rehearsal.is_struck();
        self.seen.passed = self.rehearsal.passed();
        self.seen
    }

    /// The request, and copies of it while it is under way.
    async fn repeat(&mut self, with_changed: bool) {
        let mut first = spawn(self.ask());
        select! {
            () = self.rehearsal.until_struck() => {}
            answer = &mut first => return self.seen.answers.push(joined(answer)),
        }
        let mut copies = JoinSet::new();
        for _ in 0..self.asked.copies {
            let copy = self.ask();
            copies.spawn(async move { (copy.await, false) });
        }
        if with_changed {
            let changed = self.ask_with_changed();
            copies.spawn(async move { (changed.await, true) });
        }
        let all = copies.len();
        let mut answered = Vec::new();
        let rehearsal = &self.rehearsal;
        let arrived = async {
            while answered.len() + rehearsal.waiting() < all {
                select! {
                    Some(answer) = copies.join_next() => answered.push(answer),
                    () = rehearsal.one_more_waits() => {}
                }
            }
        };
        // Those that have not arrived by then come later.
        let _ = timeout(ARRIVAL, arrived).await;
        self.rehearsal.go_on();
        self.seen.answers.push(joined(first.await));
        while let Some(answer) = copies.join_next().await {
            answered.push(answer);
        }
        for answer in answered {
            match answer {
                Ok((got, true)) => self.seen.changed.push(got),
                Ok((got, false)) => self.seen.answers.push(got),
                Err(error) => self.seen.answers.push(Err(error.to_string())),
            }
        }
    }

    /// The request, standing still until another attempt has gone on in its place.
    async fn stall(&mut self) {
        let mut first = spawn(self.ask());
        select! {
            () = self.rehearsal.until_struck() => {}
            answer = &mut first => return self.seen.answers.push(joined(answer)),
        }
        self.ask_changed().await;
        self.end_lease().await;
        let second = self.ask().await;
        self.seen.answers.push(second);
        self.rehearsal.go_on();
        self.seen.answers.push(joined(first.await));
    }

    /// The request again, until there is nothing more to expect.
    async fn retry(&mut self) {
        // Undisturbed, the first answer is the one.
        let retries = if self.seen.disturbed.is_some() { RETRIES } else { 0 };
        for _ in 0..retries {
            if self.is_answered() {
                break;
            }
            self.end_lease().await;
            let executed = self.rehearsal.executed();
            let answer = self.ask().await;
            self.seen.answers.push(answer);
            let nobody_executes = executed == self.rehearsal.executed();
            if !self.is_answered() && nobody_executes && self.is_uncertain().await {
                return self.seen.end = End::OnHold;
            }
        }
        if self.is_answered() {
            self.seen.end = End::Final;
            self.seen.replay = Some(self.ask().await);
        }
    }

    fn is_answered(&self) -> bool {
        self.seen.answers.iter().any(is_final)
    }

    async fn is_uncertain(&self) -> bool {
        self.state().await == Some(State::Uncertain)
    }

    /// The changed request, where the key is taken: a free one is whoever's asks first.
    async fn ask_changed(&mut self) {
        if !matches!(self.state().await, None | Some(State::Released)) {
            let changed = self.ask_with_changed().await;
            self.seen.changed.push(changed);
        }
    }

    fn ask(&self) -> Asking {
        (self.ask)(self.asked.request.clone())
    }

    fn ask_with_changed(&self) -> Asking {
        (self.ask)(self.asked.changed.clone())
    }

    /// Lets the lease of an attempt that is under way run out: nobody renews it any more.
    async fn end_lease(&self) {
        let Some(found) = self.found().await else { return };
        if matches!(found.record.state(found.now), State::Claimed | State::Executing) {
            let store = &self.engine.inner.store;
            // If it fails, the retry finds the attempt under way, and says so.
            let _ = store.renew(found.record.ownership(), Duration::ZERO).await;
        }
    }

    async fn state(&self) -> Option<State> {
        self.found().await.map(|found| found.record.state(found.now))
    }

    async fn found(&self) -> Option<Found> {
        let record = self.rehearsal.record()?;
        self.engine.inner.store.find(record).await.ok().flatten()
    }
}

/// Whether this answer is the same ever after.
pub(super) fn is_final(got: &Got) -> bool {
    got.as_ref().is_ok_and(|answer| answer.headers().contains_key(IDEMPOTENCY_EXPIRES))
}

fn joined(answer: Result<Got, tokio::task::JoinError>) -> Got {
    answer.unwrap_or_else(|error| Err(error.to_string()))
}

/// How this service is asked.
pub(super) fn asking<S, R>(app: S) -> Ask
where
    S: Service<Request<Full<Bytes>>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<BoxError> + Send,
    R: Body<Data = Bytes> + Send + 'static,
    R::Error: Into<BoxError>,
{
    Box::new(move |request| {
        let answering = answer(app.clone(), request);
        Box::pin(async {
            let late = |_| Err(format!("no answer within {PATIENCE:?}"));
            timeout(PATIENCE, answering).await.unwrap_or_else(late)
        })
    })
}

async fn answer<S, R>(mut app: S, request: Request<Bytes>) -> Got
where
    S: Service<Request<Full<Bytes>>, Response = Response<R>>,
    S::Error: Into<BoxError>,
    R: Body<Data = Bytes>,
    R::Error: Into<BoxError>,
{
    let failed = |error: S::Error| format!("the service failed: {}", error.into());
    poll_fn(|cx| app.poll_ready(cx)).await.map_err(failed)?;
    let answer = app.call(request.map(Full::new)).await.map_err(failed)?;
    let (head, body) = answer.into_parts();
    let limits = ReadLimits { max_bytes: 64 << 20, within: PATIENCE, ..ReadLimits::default() };
    let budget = BufferBudget::new(limits.max_bytes);
    let body = read_bounded(body, limits, &budget).await.map_err(|error| error.to_string())?;
    Ok(Response::from_parts(head, body.bytes().clone()))
}
