//! Where the answer of an attempt goes.

use tokio::sync::oneshot;

use crate::Answer;

/// Where the answer goes: once, to a caller that may have hung up.
pub(crate) struct ReplySlot<T>(Option<oneshot::Sender<Answer<T>>>);

impl<T> ReplySlot<T> {
    pub(crate) const fn new(sender: oneshot::Sender<Answer<T>>) -> Self {
        Self(Some(sender))
    }

    /// A slot whose caller needs no answer.
    pub(crate) const fn answered() -> Self {
        Self(None)
    }

    /// Answers the caller; only the first answer counts.
    pub(crate) fn send(&mut self, answer: Answer<T>) {
        if let Some(sender) = self.0.take() {
            // A caller that hung up gets its answer by its retry.
            let _ = sender.send(answer);
        }
    }

    /// Whether nothing was answered yet.
    pub(crate) const fn is_open(&self) -> bool {
        self.0.is_some()
    }

    /// Ends when nobody waits for the answer any more.
    pub(crate) async fn closed(&mut self) {
        if let Some(sender) = &mut self.0 {
            sender.closed().await;
        }
    }
}
