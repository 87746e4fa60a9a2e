//! A claim that its caller settles.

use std::sync::Arc;

use bytes::Bytes;
use hapax_core::{OutcomeClass, Problem, ProblemKind, Scope, Settlement, StoredResponse};
use hapax_store::Written;
use serde::{Serialize, de::DeserializeOwned};
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::{Asked, Refusal, refused, stored, unresolved};
use crate::{
    Answer, Execution, Hapax, Interrupted, NotDone,
    claim::Taken,
    drive::{Driven, Renewing},
    reply_slot::ReplySlot,
    running::Running,
    waiters::Leading,
};

/// What a claim came to.
#[derive(Debug)]
pub enum Begun {
    /// It is ours to do. Dropped without a word, it is given back if nothing was done, and goes on
    /// with the next claim, or is unresolved, if something was.
    Execute(Execution<Held>),
    /// It was done: this is what it came to.
    Replay(Outcome),
    /// Not now: another attempt is under way, or nothing could be claimed.
    Later(Refusal),
    /// It may have taken effect, and that has to be found out first.
    Unresolved(Refusal),
}

/// What an operation came to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Outcome {
    /// Whether it took effect.
    pub class: OutcomeClass,
    /// Its value, as JSON.
    pub data: Bytes,
}

impl Outcome {
    /// The value.
    ///
    /// # Errors
    /// When the data is not of this type.
    pub fn value<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.data)
    }

    /// As it is stored: the status tells the class.
    fn of(response: StoredResponse) -> Self {
        let class = match response.status {
            200..=299 => OutcomeClass::Succeeded,
            _ => OutcomeClass::FailedTerminal,
        };
        Self { class, data: response.body }
    }
}

/// Settled by its holder, with [`succeed`](Execution::succeed), [`fail`](Execution::fail) or
/// [`give_back`](Execution::give_back).
///
/// ```
/// use hapax::{Execution, Held, Interrupted};
///
/// async fn ship(mut x: Execution<Held>, address: &str) -> Result<(), Interrupted> {
///     if address.is_empty() {
///         return x.fail(&"no address").await;
///     }
///     let label = async |id| Ok::<_, std::io::Error>(format!("label {id} to {address}"));
///     match x.call("label", label).await {
///         Ok(label) => x.succeed(&label).await,
///         // The next claim goes on, if it may.
///         Err(_) => {
///             x.give_back().await;
///             Ok(())
///         }
///     }
/// }
/// # let _ = ship;
/// ```
#[derive(Debug)]
pub struct Held(Option<Holding>);

struct Holding {
    running: Arc<Running>,
    leading: Leading,
    _renewing: Renewing,
    /// A drain waits for it.
    token: TaskTrackerToken,
}

impl std::fmt::Debug for Holding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Holding").finish_non_exhaustive()
    }
}

impl Hapax {
    /// Claims an operation for a caller that does it and settles it itself, such as the consumer
    /// of a queue. [`once`](Self::once) is shorter where a closure can do it.
    ///
    /// ```
    /// use hapax::{Begun, Hapax, Scope};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let h = Hapax::in_memory();
    /// match h.claim("orders.ship", &Scope::single_tenant(), "order 7", "to Berlin").await? {
    ///     Begun::Execute(x) => x.succeed(&"shipped").await?,
    ///     Begun::Replay(outcome) => println!("it was {:?}", outcome.class),
    ///     Begun::Later(why) => println!("deliver it again: {why}"),
    ///     Begun::Unresolved(why) => println!("find out first: {why}"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Refusal`] when it will not be done under this key: the key was used for something else or
    /// is expired.
    ///
    /// # Panics
    /// If the operation's name is none: 1 to 128 characters of `a-z A-Z 0-9 . _ -`.
    pub async fn claim(
        &self,
        operation: &str,
        scope: &Scope,
        key: impl AsRef<[u8]>,
        intent: &(impl Serialize + ?Sized),
    ) -> Result<Begun, Refusal> {
        let asked = Asked::new(operation, scope, key.as_ref(), intent).map_err(Refusal)?;
        let attempting = match self.attempting(&asked).await {
            Ok(attempting) => attempting,
            Err(problem) => return begun(Answer::Problem(problem)),
        };
        let token = self.inner.tracker.token();
        let answer = self
            .track(|slot: ReplySlot<Execution<Held>>| async move {
                let running = match attempting.take_steps(&asked, &slot).await {
                    Taken::Ours(running) => running,
                    Taken::Answered(decision, answer) => {
                        attempting.count(decision);
                        return slot.send(answer.widen());
                    }
                };
                // Not sent to anybody, it is dropped, and so given back.
                let outcome = crate::FirstOutcome::Freed;
                slot.send(Answer::First { live: hold(running, token), outcome });
            })
            .await;
        begun(*answer)
    }
}

fn hold(running: Arc<Running>, token: TaskTrackerToken) -> Execution<Held> {
    let attempting = &running.attempting;
    let engine = &attempting.engine;
    let leading = engine.inner.waiters.lead(attempting.id, attempting.fingerprint);
    let lease = attempting.operation.policy().lease;
    let renewing = Renewing::start(engine, running.ownership(), lease);
    let holding = Holding { running: Arc::clone(&running), leading, _renewing: renewing, token };
    Execution { running, door: Held(Some(holding)) }
}

fn begun(answer: Answer<Execution<Held>>) -> Result<Begun, Refusal> {
    match answer {
        Answer::First { live, .. } => Ok(Begun::Execute(live)),
        Answer::Replayed { response, .. } | Answer::Shared { response } => {
            Ok(Begun::Replay(Outcome::of(response)))
        }
        Answer::Observed { retry_after, .. } => Ok(Begun::Unresolved(unresolved(retry_after))),
        Answer::Problem(problem) => match refused::<()>(problem) {
            NotDone::Later(refusal) => Ok(Begun::Later(refusal)),
            NotDone::Unresolved(refusal) => Ok(Begun::Unresolved(refusal)),
            NotDone::Refused(refusal) => Err(refusal),
            NotDone::Failed(()) => Err(Refusal(Problem::new(ProblemKind::HandlerFailed, ""))),
        },
    }
}

impl Execution<Held> {
    /// Settles it: it took effect, and this is its value. Durable when this returns.
    ///
    /// # Errors
    /// [`Interrupted`] when another attempt has it by now, or the store cannot take it; the next
    /// claim then goes on after the last step.
    pub async fn succeed<T: Serialize>(self, value: &T) -> Result<(), Interrupted> {
        self.end(OutcomeClass::Succeeded, value).await
    }

    /// Settles it: it did not take effect and never will under this key, and this is why. Durable
    /// when this returns.
    ///
    /// # Errors
    /// As [`succeed`](Self::succeed).
    pub async fn fail<T: Serialize>(self, why: &T) -> Result<(), Interrupted> {
        self.end(OutcomeClass::FailedTerminal, why).await
    }

    /// Gives it back before its first step: the key is free again. After a step, the next claim
    /// goes on from there. Durable when this returns.
    pub async fn give_back(mut self) {
        if let Some(holding) = self.door.0.take() {
            holding.abandon().await;
        }
    }

    async fn end<T: Serialize>(
        mut self,
        class: OutcomeClass,
        value: &T,
    ) -> Result<(), Interrupted> {
        let running = Arc::clone(&self.running);
        running.permit_end()?;
        let settlement = outcome(&running, class, value)?;
        running.admit().await?;
        let (record, _) = running.close();
        let Some(_holding) = self.door.0.take() else {
            return Err(Interrupted::Fenced);
        };
        let nobody = ReplySlot::<()>::answered();
        match running.attempting.store_settlement(&record, settlement, &nobody).await {
            Some(Written::Done(_)) => Ok(()),
            Some(Written::Refused { .. } | Written::Missing) => Err(Interrupted::Fenced),
            None => Err(Interrupted::Misused("the store is closed or has lost history".to_owned())),
        }
    }
}

/// What settles an execution with a value.
pub(crate) fn outcome<T: Serialize>(
    running: &Running,
    class: OutcomeClass,
    value: &T,
) -> Result<Settlement, Interrupted> {
    let mut response = stored(value).map_err(|error| Interrupted::Misused(error.to_string()))?;
    if class == OutcomeClass::FailedTerminal {
        response.status = 422;
    }
    let (status, response) = (response.status, Some(response));
    let retention = running.attempting.operation.policy().retention;
    Ok(Settlement::Outcome { class, status, response, retention })
}

impl Held {
    /// It is settled, so there is nothing to give back.
    #[cfg(feature = "sqlite")]
    pub(crate) fn settled(&mut self) {
        self.0 = None;
    }
}

impl Holding {
    async fn abandon(self) {
        let Self { running, leading, token, .. } = self;
        let nobody = ReplySlot::<()>::answered();
        running.attempting.settle_steps(&running, Driven::Abandoned, leading, nobody).await;
        drop(token);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let Some(holding) = self.0.take() else { return };
        // Outside a runtime nothing can be written; its lease ends by itself.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(holding.abandon());
        }
    }
}
