//! `Expect: 100-continue`: a body that is sent once it is wanted (RFC 9110, section 10.1.1).

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use http::{Request, StatusCode};
use hyper::ext::on_informational;
use parking_lot::Mutex;
use tokio::time::{Sleep, sleep};

use super::OutBody;

/// How long an upstream may take to ask for the body; many never do, and wait for it.
const WITHIN: Duration = Duration::from_secs(1);

/// Whether the upstream wants the body. Clones share the answer.
#[derive(Clone, Debug, Default)]
pub(super) struct Wanted(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    answer: Option<bool>,
    waker: Option<Waker>,
}

/// What keeps a body until it is wanted.
#[derive(Debug)]
pub(super) struct Gate {
    wanted: Wanted,
    patience: Option<Pin<Box<Sleep>>>,
}

/// The body was not wanted, and is not sent.
#[derive(Debug, thiserror::Error)]
#[error("the upstream answered without asking for the body")]
pub(super) struct NotWanted;

impl Wanted {
    /// Keeps a request's body until an interim answer asks for it, or none came for a while. Over
    /// HTTP/2 whoever sends it has to look for that answer.
    pub(super) fn keep(request: &mut Request<OutBody>) -> Self {
        let wanted = Self::default();
        let asked = wanted.clone();
        on_informational(request, move |answer| {
            if answer.status() == StatusCode::CONTINUE {
                asked.answer(true);
            }
        });
        request.body_mut().keep(Gate { wanted: wanted.clone(), patience: None });
        wanted
    }

    /// Whether the body has been let go.
    pub(super) fn was_asked_for(&self) -> bool {
        self.0.lock().answer == Some(true)
    }

    /// Lets the body go.
    pub(super) fn let_go(&self) {
        self.answer(true);
    }

    /// The first answer counts.
    fn answer(&self, answer: bool) {
        let mut state = self.0.lock();
        state.answer.get_or_insert(answer);
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }
}

/// Says, when it is dropped, that the body is not wanted any more.
#[derive(Debug)]
pub(super) struct Unwanted(Wanted);

impl Unwanted {
    pub(super) const fn new(wanted: Wanted) -> Self {
        Self(wanted)
    }
}

impl Drop for Unwanted {
    fn drop(&mut self) {
        self.0.answer(false);
    }
}

impl Gate {
    /// Where it is told that the body is wanted.
    pub(super) fn wanted(&self) -> Wanted {
        self.wanted.clone()
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), NotWanted>> {
        let patience = self.patience.get_or_insert_with(|| Box::pin(sleep(WITHIN)));
        let mut state = self.wanted.0.lock();
        if state.answer.is_none() && patience.as_mut().poll(cx).is_ready() {
            state.answer = Some(true);
        }
        match state.answer {
            Some(true) => Poll::Ready(Ok(())),
            Some(false) => Poll::Ready(Err(NotWanted)),
            None => {
                state.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}
