//! What a handler holds whose effect has several parts.

use std::{fmt, sync::Arc};

use hapax_core::{EffectId, StepEnd};
use serde::{Serialize, de::DeserializeOwned};

use crate::{Attempt, Called, Interrupted, Step, StepError, running::Running};

/// One attempt at an effect that has several parts.
///
/// Each part is a *step* with a name of its own. What a step came to is stored, so that an
/// execution that was interrupted anywhere (by a crash, a timeout, an error answer) goes on after
/// its last step when the request is sent again: steps that ended give their stored value and are
/// not done again, and a step that was under way is done again with the same effect id where that
/// is permitted.
///
/// Until its first step nothing has happened: a handler that answers with an error before frees
/// the key.
///
/// The type parameter says who settles it: what the handler returns, or its holder.
pub struct Execution<D = ByReturn> {
    pub(crate) running: Arc<Running>,
    pub(crate) door: D,
}

/// Settled by what the handler, or the closure, returns.
#[derive(Debug)]
pub struct ByReturn(pub(crate) ());

impl<D> Execution<D> {
    /// The facts of this attempt.
    pub fn attempt(&self) -> &Attempt {
        &self.running.attempt
    }

    /// A call of something outside, *bracketed*: that it begins is durable before, what it came to
    /// is durable after.
    ///
    /// `call` gets the step's effect id, to be sent along as the idempotency key of the other
    /// side. Its error leaves the step in doubt unless it is [`Called::NotApplied`]: the execution
    /// then stops, and the next retry does the step again with the same effect id where the
    /// operation or the [step](Step::resend_for) permits that.
    ///
    /// # Errors
    /// [`StepError::Failed`] with the error of `call`; [`StepError::Interrupted`] when the
    /// execution cannot go on, which the handler is to pass on.
    ///
    /// # Cancel safety
    /// Given up before its end, it is in doubt for the rest of this attempt: nothing follows it.
    pub async fn call<'s, T, E, C, F>(
        &mut self,
        step: impl Into<Step<'s>>,
        call: F,
    ) -> Result<T, StepError<E>>
    where
        T: Serialize + DeserializeOwned,
        C: Into<Called<T, E>>,
        F: AsyncFnOnce(EffectId) -> C,
    {
        let step = step.into();
        let name = step.step_name()?;
        let running = &self.running;
        running.check()?;
        if let Some(done) = running.done(&name)? {
            return Ok(step.decode(&done).map_err(|why| running.interrupt(why))?);
        }
        running.permit(&step, &name)?;
        running.begin(&step, &name).await?;
        match call(running.attempt.effect_id_of(step.name)).await.into() {
            Called::Applied(value) => {
                let data = step.encode(&value).map_err(|why| running.interrupt(why))?;
                running.end(&name, StepEnd::Done(data)).await?;
                Ok(value)
            }
            Called::NotApplied(error) => {
                running.end(&name, StepEnd::NotApplied).await?;
                Err(StepError::Failed(error))
            }
            Called::Unknown(error) => {
                running.interrupt(Interrupted::InDoubt { step: name.to_string() });
                Err(StepError::Failed(error))
            }
        }
    }

    /// A step that may be done any number of times with the same effect id, for ever: nothing is
    /// stored of it, and every attempt does it again.
    ///
    /// # Errors
    /// As [`call`](Self::call); its error leaves nothing in doubt.
    pub async fn idempotent<'s, T, E, F>(
        &mut self,
        step: impl Into<Step<'s>>,
        act: F,
    ) -> Result<T, StepError<E>>
    where
        F: AsyncFnOnce(EffectId) -> Result<T, E>,
    {
        let step = step.into();
        step.step_name()?;
        self.running.check()?;
        self.running.admit().await?;
        act(self.running.attempt.effect_id_of(step.name)).await.map_err(StepError::Failed)
    }

    /// A step that changes nothing anywhere: nothing is stored of it, and it admits no effect.
    ///
    /// # Errors
    /// As [`call`](Self::call); its error leaves nothing in doubt.
    pub async fn pure<T, E, F>(&mut self, step: &str, read: F) -> Result<T, StepError<E>>
    where
        F: AsyncFnOnce() -> Result<T, E>,
    {
        Step::new(step).step_name()?;
        self.running.check()?;
        read().await.map_err(StepError::Failed)
    }
}

impl<D> fmt::Debug for Execution<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Execution").field("attempt", &self.running.attempt).finish_non_exhaustive()
    }
}
