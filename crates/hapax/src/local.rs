//! Steps that are transactions of the application: rows and recovery point commit together.

use std::{sync::Arc, time::Duration};

use hapax_core::{Classified, OutcomeClass, Record, StepData, StepEnd, StepName};
use hapax_sql::{OpenTransaction, Transactions};
use hapax_store::{StoreError, Written};
use metrics::counter;
use serde::{Serialize, de::DeserializeOwned};
use sqlx::SqliteConnection;
use tokio::time::{Instant, sleep, timeout};
use tracing::{error, warn};

use crate::{
    Answer, ByReturn, Executed, Execution, Held, Interrupted, Step, StepError,
    claim::Attempting,
    job::outcome,
    metric_definitions::TRANSACTIONS_KEPT,
    points::{Kind, Moment},
    running::Running,
    settle::Settling,
    transaction::Committed,
};

/// The last transaction, as a point that an attempt passes.
const FINISH: Step<'static> = Step::new("finish");

impl<D> Execution<D> {
    /// A step in the application's own database, in a transaction of its own: what `act` writes
    /// and the note that it is done commit together. An error of `act` rolls it back, and nothing
    /// was done.
    ///
    /// ```
    /// # use hapax::{Execution, StepError, sqlx};
    /// # async fn reserve(mut x: Execution) -> Result<i64, StepError<sqlx::Error>> {
    /// let order: i64 = x
    ///     .step("ordered", async |tx| {
    ///         let insert = sqlx::query("INSERT INTO orders DEFAULT VALUES");
    ///         Ok(insert.execute(tx).await?.last_insert_rowid())
    ///     })
    ///     .await?;
    /// # Ok(order)
    /// # }
    /// ```
    ///
    /// On SQLite it holds the only write lock of the database: do nothing slow in it.
    ///
    /// # Errors
    /// [`StepError::Failed`] with the error of `act`; [`StepError::Interrupted`] when the execution
    /// cannot go on, which the handler is to pass on.
    pub async fn step<'s, T, E, F>(
        &mut self,
        step: impl Into<Step<'s>>,
        act: F,
    ) -> Result<T, StepError<E>>
    where
        T: Serialize + DeserializeOwned,
        F: AsyncFnOnce(&mut SqliteConnection) -> Result<T, E>,
    {
        let step = step.into();
        let name = step.step_name()?;
        let running = &self.running;
        running.pass(Kind::Step, &step, Moment::Before).await?;
        running.check()?;
        if let Some(done) = running.done(&name)? {
            return Ok(step.decode(&done).map_err(|why| running.interrupt(why))?);
        }
        running.permit(&step, &name)?;
        let mut open = running.begin_transaction().await?;
        let value = match running.in_time(act(&mut open)).await? {
            Ok(value) => value,
            Err(error) => {
                running.rolled_back(open).await?;
                return Err(StepError::Failed(error));
            }
        };
        running.pass(Kind::Step, &step, Moment::Acted).await?;
        let data = step.encode(&value).map_err(|why| running.interrupt(why))?;
        running.commit_step(open, &name, data).await?;
        running.pass(Kind::Step, &step, Moment::Over).await?;
        Ok(value)
    }
}

impl Execution<ByReturn> {
    /// The last transaction: what `act` writes commits together with the answer of the handler, if
    /// that is a success or a definite refusal. To be returned by the handler as it is.
    ///
    /// ```
    /// # use hapax::{Execution, Interrupted, sqlx};
    /// # enum AppError { Database, Interrupted }
    /// # impl From<sqlx::Error> for AppError { fn from(_: sqlx::Error) -> Self { Self::Database } }
    /// # impl From<Interrupted> for AppError { fn from(_: Interrupted) -> Self { Self::Interrupted } }
    /// async fn paid(x: Execution) -> Result<String, AppError> {
    ///     x.finish(async |tx| {
    ///         sqlx::query("UPDATE orders SET paid = 1").execute(tx).await?;
    ///         Ok("paid".to_owned())
    ///     })
    ///     .await
    /// }
    /// ```
    ///
    /// # Errors
    /// The error of `act`, or of an execution that cannot go on; either rolls it back.
    pub async fn finish<R, E, F>(self, act: F) -> Result<R, E>
    where
        E: From<Interrupted>,
        F: AsyncFnOnce(&mut SqliteConnection) -> Result<R, E>,
    {
        let running = &self.running;
        running.pass(Kind::Finish, &FINISH, Moment::Before).await?;
        running.permit_end()?;
        let mut open = running.begin_transaction().await?;
        match running.in_time(act(&mut open)).await? {
            Ok(value) => {
                running.pass(Kind::Finish, &FINISH, Moment::Acted).await?;
                running.park(open).await?;
                running.pass(Kind::Finish, &FINISH, Moment::Over).await?;
                Ok(value)
            }
            Err(error) => {
                running.rolled_back(open).await?;
                Err(error)
            }
        }
    }
}

impl Execution<Held> {
    /// The last transaction: what `act` writes and its value, as the outcome, commit together.
    /// Durable when this returns.
    ///
    /// # Errors
    /// The error of `act`, or of an execution that cannot go on; either rolls it back, and the next
    /// claim goes on after the last step.
    pub async fn finish<T, E, F>(mut self, act: F) -> Result<T, E>
    where
        T: Serialize,
        E: From<Interrupted>,
        F: AsyncFnOnce(&mut SqliteConnection) -> Result<T, E>,
    {
        let running = Arc::clone(&self.running);
        running.permit_end()?;
        let mut open = running.begin_transaction().await?;
        let value = match running.in_time(act(&mut open)).await? {
            Ok(value) => value,
            Err(error) => {
                running.rolled_back(open).await?;
                return Err(error);
            }
        };
        let settlement = outcome(&running, OutcomeClass::Succeeded, &value)?;
        let (record, _) = running.close();
        let transactions = running.transactions()?;
        let committed =
            running.attempting.commit(transactions, open, &record, None, settlement).await;
        match committed {
            Committed::Done(_) => {
                self.door.settled();
                Ok(value)
            }
            Committed::NotWritten(error) => Err(Interrupted::Store(error).into()),
            Committed::EndedElsewhere => Err(Interrupted::Store(StoreError::EndedElsewhere).into()),
            Committed::Unknown(error) => Err(Interrupted::Store(error).into()),
        }
    }
}

impl Attempting {
    /// Settles an execution within its last transaction, or rolls that back where the handler's
    /// answer is no outcome.
    pub(crate) async fn settle_parked<T: Send>(
        &self,
        open: OpenTransaction,
        record: &Record,
        mut settling: Settling<T>,
    ) {
        let Some(transactions) = self.engine.inner.transactions.get() else {
            return;
        };
        if !matches!(settling.classified, Classified::Outcome(_)) {
            // What it had written is done again by the attempt that goes on.
            let _ = open.roll_back().await;
            return self.settle(record, settling).await;
        }
        let settlement = self.settlement(&mut settling);
        match self.commit(transactions, open, record, None, settlement).await {
            Committed::Done(record) => {
                self.answer_settled(Written::Done(record), settling).await;
            }
            Committed::Unknown(error) => {
                warn!(%error, record = %self.id, "whether the last transaction committed is unknown");
                settling.slot.send(Answer::Problem(self.unknown_problem(true)));
            }
            Committed::NotWritten(error) => {
                warn!(%error, record = %self.id, "the last transaction was not committed");
                self.interrupted(record, settling).await;
            }
            Committed::EndedElsewhere => {
                error!(
                    record = %self.id,
                    "a handler ended its last transaction itself: leave COMMIT and ROLLBACK to hapax"
                );
                counter!(TRANSACTIONS_KEPT).increment(1);
                self.interrupted(record, settling).await;
            }
        }
    }

    /// The execution is not over: the next retry goes on after its last step.
    async fn interrupted<T: Send>(&self, record: &Record, mut settling: Settling<T>) {
        settling.executed = Box::new(Executed::lost());
        settling.classified = Classified::Uncertain { show: false };
        self.settle(record, settling).await;
    }
}

impl Running {
    fn transactions(&self) -> Result<&Transactions, Interrupted> {
        self.attempting.engine.inner.transactions.get().ok_or_else(|| {
            self.interrupt(Interrupted::Misused(
                "the engine is not on the application's database: make it with Hapax::sqlite"
                    .to_owned(),
            ))
        })
    }

    pub(crate) async fn begin_transaction(&self) -> Result<OpenTransaction, Interrupted> {
        let mut open = self.transactions()?.begin().await.map_err(Interrupted::Store)?;
        open.cut_after(self.lease() / 3);
        Ok(open)
    }

    /// What is done in a transaction has a third of the lease: nobody else writes meanwhile.
    async fn in_time<T>(&self, acting: impl Future<Output = T>) -> Result<T, Interrupted> {
        let done = timeout(self.lease() / 3, acting).await;
        done.map_err(|_| self.interrupt(Interrupted::TooLong))
    }

    async fn rolled_back(&self, open: OpenTransaction) -> Result<(), Interrupted> {
        open.roll_back().await.map_err(|error| self.ended(error))
    }

    /// Why a transaction did not end as it was to.
    fn ended(&self, error: StoreError) -> Interrupted {
        match error {
            StoreError::EndedElsewhere => self.interrupt(Interrupted::Misused(error.to_string())),
            error => Interrupted::Store(error),
        }
    }

    async fn commit_step(
        &self,
        mut open: OpenTransaction,
        name: &StepName,
        data: StepData,
    ) -> Result<(), Interrupted> {
        let written = open.end_step(&self.ownership(), name, &data, self.lease()).await;
        let written = match written {
            Ok(written) => written,
            Err(error) => {
                self.rolled_back(open).await?;
                return Err(self.ended(error));
            }
        };
        if let Err(why) = self.note_unless_done(&written) {
            self.rolled_back(open).await?;
            return Err(why);
        }
        match self.commits(name, open.commit()).await {
            Ok(()) => {}
            Err(error @ StoreError::AnswerLost { .. }) => {
                self.find_step(name, error).await?;
            }
            Err(error) => return Err(self.ended(error)),
        }
        self.note(written)?;
        self.note_end(name, StepEnd::Done(data));
        Ok(())
    }

    /// Finds out whether a step is there whose commit's answer was lost: by looking for it when
    /// the store is free for the next transaction.
    async fn find_step(&self, name: &StepName, lost: StoreError) -> Result<(), Interrupted> {
        let record = self.record();
        let deadline = Instant::now() + self.attempting.engine.inner.options.store_timeout;
        let mut pause = Duration::from_millis(20);
        loop {
            let looked = async {
                self.transactions()?
                    .begin()
                    .await
                    .map_err(Interrupted::Store)?
                    .roll_back()
                    .await
                    .ok();
                let steps = self.attempting.engine.inner.store.steps(record.claim);
                self.attempting.engine.bounded(steps).await.map_err(Interrupted::Store)
            };
            match looked.await {
                Ok(steps) => {
                    let there = steps.iter().any(|step| {
                        step.name == *name && step.done.is_some() && step.attempt == record.attempt
                    });
                    // Not there, it was rolled back; the next attempt does it.
                    return if there { Ok(()) } else { Err(Interrupted::Store(lost)) };
                }
                // Whatever it came to is there for the next attempt.
                Err(why) if Instant::now() >= deadline => return Err(self.interrupt(why)),
                Err(why) => warn!(%why, "a step could not be looked for yet"),
            }
            sleep(pause).await;
            pause *= 2;
        }
    }

    /// The last transaction, if the handler has come to it. One that comes later is rolled back.
    pub(crate) fn take_parked(&self) -> Option<OpenTransaction> {
        match std::mem::replace(&mut *self.parked.lock(), Parked::Closed) {
            Parked::There(open) => Some(*open),
            Parked::Nothing | Parked::Closed => None,
        }
    }

    async fn park(&self, open: OpenTransaction) -> Result<(), Interrupted> {
        let too_late = {
            let mut parked = self.parked.lock();
            match *parked {
                Parked::Closed => open,
                _ => {
                    *parked = Parked::There(Box::new(open));
                    return Ok(());
                }
            }
        };
        // Nobody takes it any more, and it would hold the lock.
        self.rolled_back(too_late).await?;
        self.check()
    }
}

/// Where the last transaction waits for the handler's answer.
#[derive(Default)]
pub(crate) enum Parked {
    #[default]
    Nothing,
    There(Box<OpenTransaction>),
    /// The handler has answered.
    Closed,
}
