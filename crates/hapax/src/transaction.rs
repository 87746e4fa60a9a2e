//! The way of an attempt whose effect is one transaction of the application: claim, business rows
//! and outcome commit together, or none of them is there.

use std::{
    convert::Infallible,
    ops::{Deref, DerefMut},
    sync::Arc,
    time::Duration,
};

use hapax_core::{
    Admission, Advance, Classified, Decision, OutcomeClass, OwnState, Problem, ProblemKind, Record,
    Said, Settlement, classify_transaction,
};
use hapax_sql::{OpenTransaction, Transactions};
use hapax_store::{Certainty, Claimed, StoreError, Written};
use metrics::counter;
use parking_lot::Mutex;
use sqlx::SqliteConnection;
use tokio::time::{Instant, sleep};
use tracing::{error, warn};

use crate::{
    Answer, Attempt, Ended, Executed, FirstOutcome, Intent,
    claim::{self, Attempting, TURNS},
    drive::{Driven, Limits},
    metric_definitions::TRANSACTIONS_KEPT,
    points::{Kind, Moment},
    reply_slot::{Early, ReplySlot},
    settle::{Settling, freed, freed_problem},
    waiters::{Freed, Leading},
};

/// The transaction of a handler: what is done in it commits together with the claim and the stored
/// answer, or not at all.
///
/// It dereferences to sqlx's connection. The handler gives it back by dropping it, at its end at
/// the latest: the layer commits when the handler has answered, if the answer is a success or a
/// definite refusal (402, 403, 404, 409, 410, 412, 451, whose writes are taken back and whose
/// answer is kept); with any other answer everything is rolled back and the key is free.
///
/// # Limits
///
/// On SQLite an open transaction holds the only write lock of the database, so it has a third of
/// the operation's lease to end (10 s unless set). Do nothing slow in it.
///
/// A transaction that outlives its handler, in a task or in the body of a streaming answer, is not
/// committed: the caller gets 500, and `hapax_transactions_kept_total` counts it. `COMMIT` and
/// `ROLLBACK` are not the handler's to say.
///
/// ```
/// use axum::Json;
/// use hapax::{Tx, sqlx};
///
/// async fn create(mut tx: Tx, Json(item): Json<String>) -> Result<Json<i64>, StoreFailed> {
///     let insert = sqlx::query("INSERT INTO orders (item) VALUES (?)").bind(item);
///     let order = insert.execute(&mut *tx).await?.last_insert_rowid();
///     Ok(Json(order))
/// }
/// # struct StoreFailed;
/// # impl From<sqlx::Error> for StoreFailed { fn from(_: sqlx::Error) -> Self { Self } }
/// # impl axum::response::IntoResponse for StoreFailed {
/// #     fn into_response(self) -> axum::response::Response {
/// #         axum::http::StatusCode::INTERNAL_SERVER_ERROR.into_response()
/// #     }
/// # }
/// # fn app(h: &hapax::Hapax) -> axum::Router {
/// #     axum::Router::new().route("/orders", h.operation("orders.create").post(create))
/// # }
/// ```
pub struct Tx {
    /// There until it is dropped.
    open: Option<OpenTransaction>,
    lent: Arc<Lent>,
    attempt: Attempt,
}

impl Tx {
    /// The facts of this attempt.
    pub const fn attempt(&self) -> &Attempt {
        &self.attempt
    }

    /// Nothing: hapax commits when the handler has answered, and the answer with it.
    ///
    /// # Errors
    /// None.
    #[deprecated(note = "hapax commits when the handler has answered: leave it out")]
    #[expect(clippy::unused_async, reason = "as the one of sqlx that it stands for")]
    pub async fn commit(self) -> Result<(), sqlx::Error> {
        Ok(())
    }

    /// Rolls it back: there is nobody to settle it.
    pub(crate) async fn give_up(mut self) {
        if let Some(open) = self.open.take() {
            let _ = open.roll_back().await;
        }
    }
}

impl Deref for Tx {
    type Target = SqliteConnection;

    fn deref(&self) -> &SqliteConnection {
        match &self.open {
            Some(open) => open,
            None => unreachable!("it is there until it is dropped"),
        }
    }
}

impl DerefMut for Tx {
    fn deref_mut(&mut self) -> &mut SqliteConnection {
        match &mut self.open {
            Some(open) => open,
            None => unreachable!("it is there until it is dropped"),
        }
    }
}

impl Drop for Tx {
    fn drop(&mut self) {
        if let Some(open) = self.open.take() {
            self.lent.give_back(open);
        }
    }
}

impl std::fmt::Debug for Tx {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tx").field("attempt", &self.attempt).finish_non_exhaustive()
    }
}

/// Where a handler gives its transaction back.
struct Lent(Mutex<Place>);

enum Place {
    /// The handler has it.
    Away,
    /// It was given back.
    Back(Box<OpenTransaction>),
    /// It is too late: what comes now is rolled back.
    Closed,
}

impl Lent {
    fn give_back(&self, open: OpenTransaction) {
        let mut place = self.0.lock();
        // Closed: dropped, it is rolled back.
        if matches!(*place, Place::Away) {
            *place = Place::Back(Box::new(open));
        }
    }

    fn close(&self) -> Option<OpenTransaction> {
        match std::mem::replace(&mut *self.0.lock(), Place::Closed) {
            Place::Back(open) => Some(*open),
            Place::Away | Place::Closed => None,
        }
    }
}

/// A transaction that a handler has taken, as the layer sees it.
pub(crate) struct Taken {
    attempting: Attempting,
    attempt: Attempt,
    record: Box<Record>,
    transactions: Transactions,
    lent: Arc<Lent>,
    leading: Leading,
}

impl Attempting {
    /// Claims the record in a transaction of the application's. The claim is committed with the
    /// outcome, so nobody sees it before; in this process duplicates find the one that leads.
    pub(crate) async fn take_transaction(
        &self,
        transactions: &Transactions,
        intent: &dyn Intent,
        early: &dyn Early,
    ) -> claim::Taken<(Taken, Tx)> {
        // Nothing is done yet that could be interrupted.
        let _ = self.pass(Kind::Begin, Moment::Before).await;
        let (record, open, leading) = match self.open(transactions, intent, early).await {
            Ok(claim::Taken::Ours(opened)) => opened,
            Ok(claim::Taken::Answered(decision, answer)) => {
                return claim::Taken::Answered(decision, answer);
            }
            Err(error) => return self.store_failed(&error),
        };
        // The claim vanishes with the transaction, so there is nothing to undo.
        let attempt = match self.attempt_of(&record) {
            Ok(attempt) => attempt,
            Err((decision, problem)) => {
                return claim::Taken::Answered(decision, Answer::Problem(problem));
            }
        };
        self.count("execute");
        let lent = Arc::new(Lent(Mutex::new(Place::Away)));
        let tx = Tx { open: Some(open), lent: Arc::clone(&lent), attempt: attempt.clone() };
        let transactions = transactions.clone();
        let attempting = self.clone();
        let taken = Taken { attempting, attempt, record, transactions, lent, leading };
        claim::Taken::Ours((taken, tx))
    }

    async fn open(
        &self,
        transactions: &Transactions,
        intent: &dyn Intent,
        early: &dyn Early,
    ) -> Result<claim::Taken<(Box<Record>, OpenTransaction, Leading)>, StoreError> {
        let claim = self.new_claim(Admission::WithClaim)?;
        for _ in 0..TURNS {
            let waiters = &self.engine.inner.waiters;
            let Some(leading) = waiters.try_lead(self.id, self.fingerprint) else {
                return Ok(self.wait(intent, early).await);
            };
            // What can be answered without the write lock is.
            match self.look(intent, early, &leading).await? {
                Looked::Free => {}
                Looked::Answered(decision, answer) => {
                    return Ok(claim::Taken::Answered(decision, answer));
                }
                Looked::InFlight => {
                    // Who leads would wait for itself.
                    drop(leading);
                    return Ok(self.wait(intent, early).await);
                }
            }
            let mut open = transactions.begin().await?;
            open.cut_after(self.operation.policy().lease / 3);
            let mut claimed = open.claim(&claim).await?;
            for _ in 0..TURNS {
                let found = match claimed {
                    Claimed::Ours(record) => {
                        open.savepoint().await?;
                        return Ok(claim::Taken::Ours((record, open, leading)));
                    }
                    Claimed::Theirs(found) => found,
                    Claimed::Gone => break,
                };
                let (decision, rules) = self.decide(&found, Some(intent), None).await?;
                match decision {
                    Decision::Advance(reason) => {
                        let seen = found.record.seen();
                        let advance = Advance { seen, reason, claim: claim.clone() };
                        claimed = open.advance(&advance).await?;
                    }
                    // For these the lock is not held.
                    Decision::Doubt | Decision::InFlight => break,
                    decided => {
                        open.roll_back().await?;
                        let (word, answer) = self.answer(decided, found, &rules);
                        return Ok(claim::Taken::Answered(word, answer));
                    }
                }
            }
            open.roll_back().await?;
        }
        Ok(self.in_flight())
    }

    /// Looks at what is there without the write lock.
    async fn look(
        &self,
        intent: &dyn Intent,
        early: &dyn Early,
        _leading: &Leading,
    ) -> Result<Looked, StoreError> {
        let store = &self.engine.inner.store;
        let Some(mut found) = self.engine.bounded(store.find(self.id)).await? else {
            return Ok(Looked::Free);
        };
        for _ in 0..TURNS {
            let (decision, rules) = self.decide(&found, Some(intent), None).await?;
            match decision {
                Decision::Doubt => {
                    let seen = found.record.seen();
                    match self.insist(early, || store.doubt(self.id, seen)).await? {
                        Some(now) => found = now,
                        None => return Ok(Looked::Free),
                    }
                }
                // Another process, or an execution of this one that is told otherwise.
                Decision::InFlight => return Ok(Looked::InFlight),
                decided if decided.needs_authority() => return Ok(Looked::Free),
                decided => {
                    let (word, answer) = self.answer(decided, Box::new(found), &rules);
                    return Ok(Looked::Answered(word, answer));
                }
            }
        }
        Ok(Looked::InFlight)
    }
}

/// What is there, as far as a look tells.
enum Looked {
    /// Go on and take it.
    Free,
    InFlight,
    Answered(&'static str, Answer<Infallible>),
}

/// What a commit came to.
pub(crate) enum Committed {
    Done(Box<Record>),
    /// Certainly nothing of it is there.
    NotWritten(StoreError),
    /// The application ended the transaction itself.
    EndedElsewhere,
    /// Not to be found out now.
    Unknown(StoreError),
}

impl Taken {
    pub(crate) const fn attempt(&self) -> &Attempt {
        &self.attempt
    }

    /// What the handler may take. Nobody sees the claim, so there is nothing to renew.
    pub(crate) fn limits(&self) -> Limits {
        let policy = self.attempting.operation.policy();
        Limits { timeout: policy.timeout.min(policy.lease / 3), lease: None }
    }

    /// Commits or rolls back by what the handler answered, and answers.
    pub(crate) async fn settle<T: Send>(
        self,
        driven: Driven<Box<Executed<T>>>,
        slot: ReplySlot<T>,
    ) {
        let passed = self.attempting.pass(Kind::Handler, Moment::Acted).await;
        let executed = match driven {
            Driven::Ended(executed) if passed.is_ok() => executed,
            _ => Box::new(Executed::lost()),
        };
        let Some(open) = self.lent.close() else {
            return self.attempting.kept(self.leading, &slot);
        };
        let classified = match &executed.ended {
            Ended::Answered(reply) => {
                classify_transaction(self.attempting.facts(reply, &self.record))
            }
            Ended::NeverSent | Ended::Lost => Classified::NotApplied,
        };
        self.attempting.count_executed(&self.attempt, classified, &executed.ended);
        let Classified::Outcome(class) = classified else {
            return self.roll_back(open, executed, &slot).await;
        };
        let Self { attempting, record, transactions, leading, .. } = self;
        let mut settling = Settling { classified, executed, leading, slot };
        let settlement = attempting.settlement(&mut settling);
        match attempting.commit(&transactions, open, &record, Some(class), settlement).await {
            Committed::Done(record) => {
                attempting.answer_settled(Written::Done(record), settling).await;
            }
            Committed::NotWritten(error) => attempting.not_written(&record, &error, settling),
            Committed::EndedElsewhere => {
                attempting.ended_elsewhere(settling.leading, &settling.slot)
            }
            Committed::Unknown(_) => {
                settling.slot.send(Answer::Problem(attempting.unknown_problem(true)));
            }
        }
    }

    /// Nothing of it is there any more: the answer is passed on, and frees the key.
    async fn roll_back<T: Send>(
        self,
        open: OpenTransaction,
        executed: Box<Executed<T>>,
        slot: &ReplySlot<T>,
    ) {
        if let Err(StoreError::EndedElsewhere) = open.roll_back().await {
            return self.attempting.ended_elsewhere(self.leading, slot);
        }
        let Executed { ended, live } = *executed;
        // A success that is none: its word cannot be read, or it says that it does not know.
        let live = live.filter(|_| !promises_success(&ended));
        let problem = match live {
            Some(_) => freed_problem(&ended),
            None => freed_problem(&Ended::Lost),
        };
        let outcome = if self.record.clean {
            FirstOutcome::Freed
        } else {
            FirstOutcome::Unknown { retry_after: Duration::from_secs(1) }
        };
        let ended = if live.is_some() { ended } else { Ended::Lost };
        self.leading.free(freed(ended, &problem));
        slot.send(match live {
            Some(live) => Answer::First { live, outcome },
            None => Answer::Problem(problem),
        });
    }
}

impl Attempting {
    /// The handler did not give its transaction back. It is rolled back when whoever has it drops
    /// it; nobody can say now what else is done with it.
    fn kept<T: Send>(&self, leading: Leading, slot: &ReplySlot<T>) {
        error!(
            operation = %self.operation.name(),
            record = %self.id,
            "a handler answered and kept its transaction, in a task or in the body of its answer: \
             it is not committed. Drop it before the handler returns"
        );
        failed(leading, slot);
    }

    fn ended_elsewhere<T: Send>(&self, leading: Leading, slot: &ReplySlot<T>) {
        error!(
            operation = %self.operation.name(),
            record = %self.id,
            "a handler ended its transaction itself: what it wrote may be there without an outcome. \
             Leave COMMIT and ROLLBACK to hapax"
        );
        failed(leading, slot);
    }

    fn not_written<T>(&self, record: &Record, error: &StoreError, settling: Settling<T>) {
        warn!(%error, record = %record.id, "a transaction was not committed");
        let problem = match error {
            // The same work fails again.
            StoreError::Constraint { .. } => Problem::new(
                ProblemKind::HandlerFailed,
                "The service failed and nothing was applied.",
            ),
            error => self.store_problem(error),
        };
        let problem = if record.clean { problem.not_applied() } else { problem };
        settling.leading.free(Freed::Problem(problem.clone()));
        settling.slot.send(Answer::Problem(problem));
    }

    /// Settles a record within the application's transaction, and commits it.
    pub(crate) async fn commit(
        &self,
        transactions: &Transactions,
        mut open: OpenTransaction,
        record: &Record,
        undo_for: Option<OutcomeClass>,
        settlement: Settlement,
    ) -> Committed {
        let settled = async {
            if undo_for == Some(OutcomeClass::FailedTerminal) {
                // What was done on the way to a refusal is taken back; the refusal is kept.
                open.undo().await?;
            }
            let by = record.ownership();
            if record.own_state == OwnState::Claimed {
                // The effect is in this transaction, and so is its admission.
                match open.admit(&by, self.operation.policy().lease).await? {
                    Written::Done(_) => {}
                    refused => return Ok(refused),
                }
            }
            open.settle(&by, &settlement).await
        };
        match settled.await {
            Ok(Written::Done(settled)) => {
                let kind = if undo_for.is_some() { Kind::Commit } else { Kind::Settle };
                let committed = self.commits(kind, open.commit()).await;
                self.committed(transactions, committed, settled).await
            }
            Ok(Written::Refused { why, .. }) => {
                let reason = format!("the record cannot be settled: {why}");
                rolled_back(open, StoreError::Corrupt { reason }).await
            }
            Ok(Written::Missing) => {
                let reason = "the record is gone within its transaction".to_owned();
                rolled_back(open, StoreError::Corrupt { reason }).await
            }
            Err(error) => rolled_back(open, error).await,
        }
    }

    /// Finds out what became of a commit whose answer was lost: not by guessing, but by who owns
    /// the record when the store is free for the next transaction.
    async fn committed(
        &self,
        transactions: &Transactions,
        committed: Result<(), StoreError>,
        settled: Box<Record>,
    ) -> Committed {
        let error = match committed {
            Ok(()) => return Committed::Done(settled),
            Err(StoreError::EndedElsewhere) => return Committed::EndedElsewhere,
            Err(error) if error.certainty() == Certainty::NotWritten => {
                return Committed::NotWritten(error);
            }
            Err(error) => error,
        };
        warn!(%error, record = %settled.id, "the answer of a commit was lost; looking for the record");
        let deadline = Instant::now() + self.engine.inner.options.store_timeout;
        let mut pause = Duration::from_millis(20);
        loop {
            match found(transactions, &settled).await {
                Ok(true) => return Committed::Done(settled),
                Ok(false) => return Committed::NotWritten(error),
                Err(error @ StoreError::Regressed { .. }) => return Committed::Unknown(error),
                Err(error) if Instant::now() >= deadline => return Committed::Unknown(error),
                Err(error) => warn!(%error, "the record could not be looked for yet"),
            }
            sleep(pause).await;
            pause *= 2;
        }
    }
}

/// The handler has done something with its transaction that it must not.
fn failed<T>(leading: Leading, slot: &ReplySlot<T>) {
    counter!(TRANSACTIONS_KEPT).increment(1);
    let detail = "The service failed. It is not known whether anything was applied.";
    let problem = Problem::new(ProblemKind::HandlerFailed, detail);
    leading.free(Freed::Problem(problem.clone()));
    slot.send(Answer::Problem(problem));
}

/// Whether a caller takes an answer for a success that the handler has not taken back itself.
fn promises_success(ended: &Ended) -> bool {
    let Ended::Answered(reply) = ended else { return false };
    reply.said != Some(Said::NotApplied) && matches!(reply.status, 200..=299 | 301..=303)
}

/// Whether the record is there as this attempt settled it.
async fn found(transactions: &Transactions, settled: &Record) -> Result<bool, StoreError> {
    let mut open = transactions.begin().await?;
    let found = open.find(&settled.id).await?;
    open.roll_back().await?;
    Ok(found.is_some_and(|found| {
        found.record.ownership() == settled.ownership() && found.record.ending == settled.ending
    }))
}

async fn rolled_back(open: OpenTransaction, error: StoreError) -> Committed {
    match (open.roll_back().await, error) {
        (Err(StoreError::EndedElsewhere), _) | (_, StoreError::EndedElsewhere) => {
            Committed::EndedElsewhere
        }
        (_, error) => Committed::NotWritten(error),
    }
}
