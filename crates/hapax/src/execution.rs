//! What a handler holds whose effect has several parts.

use std::{fmt, sync::Arc};

use hapax_core::{EffectId, StepEnd};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    Attempt, Called, Interrupted, Step, StepError,
    points::{Kind, Moment},
    running::Running,
};

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
///
/// ```
/// use axum::Json;
/// use hapax::{Execution, Interrupted, StepError, sqlx};
///
/// # enum AppError { Database, Carrier, Interrupted(Interrupted) }
/// # impl From<sqlx::Error> for AppError { fn from(_: sqlx::Error) -> Self { Self::Database } }
/// # impl From<std::io::Error> for AppError { fn from(_: std::io::Error) -> Self { Self::Carrier } }
/// # impl From<Interrupted> for AppError { fn from(e: Interrupted) -> Self { Self::Interrupted(e) } }
/// # impl<E> From<StepError<E>> for AppError where AppError: From<E> {
/// #     fn from(error: StepError<E>) -> Self { error.into_error() }
/// # }
/// # impl axum::response::IntoResponse for AppError {
/// #     fn into_response(self) -> axum::response::Response {
/// #         axum::http::StatusCode::BAD_GATEWAY.into_response()
/// #     }
/// # }
/// # async fn send(_: &str, _: &str) -> std::io::Result<String> { Ok(String::new()) }
/// async fn ship(mut x: Execution, Json(address): Json<String>) -> Result<Json<String>, AppError> {
///     let order: i64 = x
///         .step("ordered", async |tx| {
///             let insert = sqlx::query("INSERT INTO orders (address) VALUES (?)").bind(&address);
///             Ok::<_, sqlx::Error>(insert.execute(tx).await?.last_insert_rowid())
///         })
///         .await?;
///     let label = x.call("label", async |id| send(&id.to_string(), &address).await).await?;
///     x.finish(async |tx| {
///         let update = sqlx::query("UPDATE orders SET label = ? WHERE id = ?").bind(&label);
///         update.bind(order).execute(tx).await?;
///         Ok(Json(label))
///     })
///     .await
/// }
/// # fn app(h: &hapax::Hapax) -> axum::Router {
/// #     axum::Router::new().route("/shipments", h.operation("shipments.create").post(ship))
/// # }
/// ```
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
    /// ```
    /// use hapax::{Execution, Hapax, Scope, StepError};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # let h = Hapax::in_memory();
    /// let charge = |mut x: Execution| async move {
    ///     let charged = x.call("charge", async |id| Ok::<_, String>(format!("under {id}"))).await?;
    ///     Ok::<String, StepError<String>>(charged)
    /// };
    /// h.once("charges.create", &Scope::single_tenant(), "order 7", "42 EUR", charge).await.unwrap();
    /// # }
    /// ```
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
        running.pass(Kind::Call, &step, Moment::Before).await?;
        running.check()?;
        if let Some(done) = running.done(&name)? {
            return Ok(step.decode(&done).map_err(|why| running.interrupt(why))?);
        }
        running.permit(&step, &name)?;
        running.begin(&step, &name).await?;
        match call(running.attempt.effect_id_of(&step.name)).await.into() {
            Called::Applied(value) => {
                running.pass(Kind::Call, &step, Moment::Acted).await?;
                let data = step.encode(&value).map_err(|why| running.interrupt(why))?;
                running.end(&name, StepEnd::Done(data)).await?;
                running.pass(Kind::Call, &step, Moment::Over).await?;
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
    /// ```
    /// # use hapax::{Execution, StepError};
    /// # async fn notify(mut x: Execution) -> Result<(), StepError<std::io::Error>> {
    /// x.idempotent("search-index", async |_| {
    ///     // Sets what is so anyway.
    ///     Ok(())
    /// })
    /// .await
    /// # }
    /// ```
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
        let running = &self.running;
        running.pass(Kind::Idempotent, &step, Moment::Before).await?;
        running.check()?;
        running.admit().await?;
        let acted = act(running.attempt.effect_id_of(&step.name)).await;
        let value = acted.map_err(StepError::Failed)?;
        running.pass(Kind::Idempotent, &step, Moment::Acted).await?;
        Ok(value)
    }

    /// A step that changes nothing anywhere: nothing is stored of it, and it admits no effect.
    ///
    /// ```
    /// # use hapax::{Execution, StepError};
    /// # async fn limit_of(_: &str) -> Result<u64, String> { Ok(100) }
    /// # async fn pay(mut x: Execution, amount: u64) -> Result<(), StepError<String>> {
    /// let limit = x.pure("limit", async || limit_of("acme").await).await?;
    /// if amount > limit {
    ///     // Nothing has happened, so this frees the key.
    ///     return Err(StepError::Failed("too much".to_owned()));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`call`](Self::call); its error leaves nothing in doubt.
    pub async fn pure<T, E, F>(&mut self, step: &str, read: F) -> Result<T, StepError<E>>
    where
        F: AsyncFnOnce() -> Result<T, E>,
    {
        let step = Step::new(step);
        step.step_name()?;
        let running = &self.running;
        running.pass(Kind::Pure, &step, Moment::Before).await?;
        running.check()?;
        let value = read().await.map_err(StepError::Failed)?;
        running.pass(Kind::Pure, &step, Moment::Acted).await?;
        Ok(value)
    }
}

impl<D> fmt::Debug for Execution<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Execution").field("attempt", &self.running.attempt).finish_non_exhaustive()
    }
}
