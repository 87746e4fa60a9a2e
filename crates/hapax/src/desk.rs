//! Where a handler takes its attempt.
//!
//! A service is called before anybody knows how its effect is told; the handler says so by what it
//! takes, and the record is claimed at that moment. What became of it is found here when the
//! handler has answered.

use std::{
    convert::Infallible,
    mem,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use hapax_core::{Fingerprint, Problem, ProblemKind, RecordId};
use hapax_store::StoreError;
use metrics::counter;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tracing::error;

use crate::{
    Answer, Attempt, Ended, Executed, FirstOutcome, Hapax, Intent,
    claim::{Attempting, Taken},
    detached::begin,
    drive::{Driven, Limits},
    metric_definitions::ATTEMPTS_MISUSED,
    protected::{Protected, Registered},
    reply_slot::{Early, ReplySlot},
    running::Running,
    waiters::Leading,
};

/// What a request comes to the desk with.
pub(crate) struct Arrived {
    pub(crate) protected: Arc<Protected>,
    pub(crate) id: RecordId,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) intent: Arc<dyn Intent>,
}

/// Where the handler of one request takes its attempt, once.
pub(crate) struct Desk {
    engine: Hapax,
    arrived: Arrived,
    early: Box<dyn Early>,
    on_desk: Mutex<OnDesk>,
    granted: Mutex<Option<oneshot::Sender<Limits>>>,
    misused: AtomicBool,
}

/// What lies on the desk.
#[allow(clippy::large_enum_variant)] // the answer of a replay, moved once
enum OnDesk {
    /// Nothing was taken yet.
    Untaken,
    /// It is being taken.
    Taking,
    /// Nothing is to be executed.
    Answered(&'static str, Answer<Infallible>),
    /// An execution that is told by steps.
    Steps(Arc<Running>, Leading),
    /// An execution in one transaction.
    #[cfg(feature = "sqlite")]
    Transaction(Box<crate::transaction::Taken>),
    /// The handler has answered.
    Closed,
}

/// The handler got no attempt: the answer lies on the desk, and whatever the handler says instead
/// is not used.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct NotTaken;

impl Hapax {
    /// Answers one attempt of a service whose handler takes it. See [`run`](Self::run).
    pub(crate) fn run_taking<T, F, Fut>(
        &self,
        arrived: Arrived,
        execute: F,
    ) -> impl Future<Output = Box<Answer<T>>>
    where
        T: Send + 'static,
        F: FnOnce(Arc<Desk>) -> Fut + Send + 'static,
        Fut: Future<Output = Box<Executed<T>>> + Send + 'static,
    {
        let engine = self.clone();
        self.track(|slot| async move {
            let (granted, limits) = oneshot::channel();
            let desk = Arc::new(Desk {
                engine,
                arrived,
                early: Box::new(slot.clone()),
                on_desk: Mutex::new(OnDesk::Untaken),
                granted: Mutex::new(Some(granted)),
                misused: AtomicBool::new(false),
            });
            let limits = pin!(async {
                match limits.await {
                    Ok(limits) => limits,
                    // Nothing was taken, so nothing is limited here.
                    Err(_) => std::future::pending().await,
                }
            });
            let execution = Box::pin(execute(Arc::clone(&desk)));
            let driven = desk.engine.drive(limits, execution).await;
            desk.settle(driven, slot).await;
        })
    }
}

impl Desk {
    /// Takes the attempt for an execution that is told by steps.
    ///
    /// Detached: a claim that the handler gives up half-way may be there nevertheless, and is then
    /// given back.
    pub(crate) async fn take_steps(self: &Arc<Self>) -> Result<Arc<Running>, NotTaken> {
        self.begin_taking()?;
        let (desk, token) = (Arc::clone(self), self.engine.inner.tracker.token());
        let taking = async move {
            let taken = desk.claim_steps().await;
            drop(token);
            taken
        };
        begin(Box::pin(taking)).await.end().await.unwrap_or(Err(NotTaken))
    }

    async fn claim_steps(&self) -> Result<Arc<Running>, NotTaken> {
        let taken = match self.attempting(&self.arrived.protected.steps).await {
            Ok(attempting) => attempting.take_steps(&*self.arrived.intent, &*self.early).await,
            Err(answered) => answered,
        };
        match taken {
            Taken::Ours(running) => {
                let attempting = &running.attempting;
                let leading = self.engine.inner.waiters.lead(attempting.id, attempting.fingerprint);
                let limits = attempting.limits(&running.record());
                if !self.put(OnDesk::Steps(Arc::clone(&running), leading)) {
                    attempting.undo(&running.record()).await;
                    return Err(NotTaken);
                }
                self.grant(limits);
                Ok(running)
            }
            Taken::Answered(decision, answer) => self.answered(decision, answer),
        }
    }

    /// Takes the attempt as a transaction of the application.
    #[cfg(feature = "sqlite")]
    pub(crate) async fn take_transaction(&self) -> Result<crate::Tx, NotTaken> {
        use crate::points::{Kind, Moment};

        self.begin_taking()?;
        let Some(transactions) = self.engine.inner.transactions.get() else {
            self.misuse("a handler takes Tx, and the engine is not on the application's database");
            return Err(NotTaken);
        };
        let taken = match self.attempting(&self.arrived.protected.transaction).await {
            Ok(attempting) => {
                let intent = &*self.arrived.intent;
                attempting.take_transaction(transactions, intent, &*self.early).await
            }
            Err(answered) => answered,
        };
        match taken {
            Taken::Ours((taken, tx)) => {
                let limits = taken.limits();
                if !self.put(OnDesk::Transaction(Box::new(taken))) {
                    // What it gave goes with it: nobody takes the transaction back.
                    tx.give_up().await;
                    return Err(NotTaken);
                }
                self.grant(limits);
                // The handler has it from here on, so only its end is disturbed.
                let _ = self.engine.pass(self.arrived.id, Kind::Begin, Moment::Acted).await;
                Ok(tx)
            }
            Taken::Answered(decision, answer) => self.answered(decision, answer),
        }
    }

    /// The facts of the attempt, once it is taken.
    pub(crate) fn attempt(&self) -> Option<Attempt> {
        match &*self.on_desk.lock() {
            OnDesk::Steps(running, _) => Some(running.attempt.clone()),
            #[cfg(feature = "sqlite")]
            OnDesk::Transaction(taken) => Some(taken.attempt().clone()),
            _ => None,
        }
    }

    /// One attempt is taken once, in one way.
    fn begin_taking(&self) -> Result<(), NotTaken> {
        let mut on_desk = self.on_desk.lock();
        if matches!(*on_desk, OnDesk::Untaken) {
            *on_desk = OnDesk::Taking;
            return Ok(());
        }
        drop(on_desk);
        self.misuse("a handler takes one of Tx and Execution, once");
        Err(NotTaken)
    }

    /// Notes that the service is wrong; its callers are told that it failed.
    pub(crate) fn misuse(&self, what: &str) {
        let operation = self.arrived.protected.steps.operation().name();
        error!(%operation, "{what}");
        counter!(ATTEMPTS_MISUSED).increment(1);
        self.misused.store(true, Ordering::Relaxed);
    }

    async fn attempting<R>(&self, registered: &Registered) -> Result<Attempting, Taken<R>> {
        let operation = match registered.ready(&self.engine).await {
            Ok(operation) => Arc::clone(operation),
            Err(error) => return Err(self.store_failed(&error)),
        };
        let (id, fingerprint) = (self.arrived.id, self.arrived.fingerprint);
        Ok(Attempting::new(self.engine.clone(), operation, id, fingerprint))
    }

    fn store_failed<R>(&self, error: &StoreError) -> Taken<R> {
        Taken::Answered("store_unavailable", Answer::Problem(self.engine.store_problem(error)))
    }

    fn grant(&self, limits: Limits) {
        if let Some(granted) = self.granted.lock().take() {
            // A driver that is gone drops the handler too.
            let _ = granted.send(limits);
        }
    }

    fn answered<R>(
        &self,
        decision: &'static str,
        answer: Answer<Infallible>,
    ) -> Result<R, NotTaken> {
        self.put(OnDesk::Answered(decision, answer));
        Err(NotTaken)
    }

    /// Puts on the desk what was taken; false if the handler has answered meanwhile.
    fn put(&self, taken: OnDesk) -> bool {
        let mut on_desk = self.on_desk.lock();
        let in_time = matches!(*on_desk, OnDesk::Taking);
        if in_time {
            *on_desk = taken;
        }
        in_time
    }

    /// Answers by what lies on the desk and what the handler said.
    async fn settle<T: Send>(&self, driven: Driven<Box<Executed<T>>>, slot: ReplySlot<T>) {
        let on_desk = mem::replace(&mut *self.on_desk.lock(), OnDesk::Closed);
        let driven = if self.misused.load(Ordering::Relaxed) { Driven::Panicked } else { driven };
        match on_desk {
            OnDesk::Steps(running, leading) => {
                running.attempting.settle_steps(&running, driven, leading, slot).await;
            }
            #[cfg(feature = "sqlite")]
            OnDesk::Transaction(taken) => taken.settle(driven, slot).await,
            OnDesk::Answered(decision, answer) => {
                self.arrived.protected.steps.operation().count(decision);
                slot.send(answer.widen());
            }
            OnDesk::Untaken | OnDesk::Taking | OnDesk::Closed => {
                slot.send(self.without_attempt(driven));
            }
        }
    }

    /// The answer of a handler that has not taken its attempt. An error is that of something in
    /// front of the handler: nothing was claimed, and its answer is passed on. A success is one
    /// that nothing protects.
    fn without_attempt<T>(&self, driven: Driven<Box<Executed<T>>>) -> Answer<T> {
        if let Driven::Ended(executed) = driven
            && let Executed { ended: Ended::Answered(reply), live: Some(live) } = *executed
        {
            if reply.status >= 400 {
                return Answer::First { live, outcome: FirstOutcome::Untouched };
            }
            self.arrived.protected.is_bare.store(true, Ordering::Relaxed);
            self.misuse(
                "a handler answered a request with a key without having taken its attempt, and acted \
                 unprotected; until this is put right its requests are refused: take Tx or \
                 Execution, or protect the service as a whole with bracketed()",
            );
        }
        let detail = "The service failed. Whether it did something is not known to this layer.";
        Answer::Problem(Problem::new(ProblemKind::HandlerFailed, detail))
    }
}
