//! Where the answer of an attempt goes.

use std::{
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll},
};

use hapax_core::Problem;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::{Answer, engine::unknown_after_fault};

/// Where the answer goes: once, to a caller that may have hung up. Clones are one.
///
/// The answer is boxed: it passes through many hands.
pub(crate) struct ReplySlot<T>(Arc<Mutex<Option<Sender<T>>>>);

type Sender<T> = oneshot::Sender<Box<Answer<T>>>;

/// What claiming needs of it, whatever the answer's type: it only ever refuses early.
pub(crate) trait Early: Send + Sync {
    /// Refuses the caller; only the first answer counts.
    fn refuse(&self, problem: Problem);

    /// Whether nothing was answered yet.
    fn is_open(&self) -> bool;

    /// Ready when nobody waits for the answer any more.
    fn poll_closed(&self, cx: &mut Context<'_>) -> Poll<()>;
}

impl<T> Clone for ReplySlot<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> ReplySlot<T> {
    /// A slot, and where what is put into it arrives.
    pub(crate) fn new() -> (Self, Arriving<T>) {
        let (sender, receiver) = oneshot::channel();
        (Self(Arc::new(Mutex::new(Some(sender)))), Arriving(receiver))
    }

    /// A slot whose caller needs no answer.
    pub(crate) fn answered() -> Self {
        Self(Arc::default())
    }

    /// Answers the caller; only the first answer counts.
    pub(crate) fn send(&self, answer: Answer<T>) {
        if let Some(sender) = self.0.lock().take() {
            // A caller that hung up gets its answer by its retry.
            let _ = sender.send(Box::new(answer));
        }
    }
}

/// Where the answer arrives.
pub(crate) struct Arriving<T>(oneshot::Receiver<Box<Answer<T>>>);

impl<T> Arriving<T> {
    /// The answer. There is one on every path; if there ever were none, nothing is known.
    pub(crate) async fn answer(self) -> Box<Answer<T>> {
        let unknown = |_| Box::new(Answer::Problem(unknown_after_fault()));
        self.0.await.unwrap_or_else(unknown)
    }
}

impl<T: Send> Early for ReplySlot<T> {
    fn refuse(&self, problem: Problem) {
        self.send(Answer::Problem(problem));
    }

    fn is_open(&self) -> bool {
        self.0.lock().is_some()
    }

    fn poll_closed(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.0.lock().as_mut().map_or(Poll::Pending, |sender| sender.poll_closed(cx))
    }
}

impl dyn Early + '_ {
    /// Ends when nobody waits for the answer any more.
    pub(crate) async fn closed(&self) {
        poll_fn(|cx| self.poll_closed(cx)).await;
    }
}
