//! The way of an operation to a thread of the store, and of its answer back.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, ThreadId},
    time::{Duration, Instant},
};

use hapax_store::StoreError;
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    sync::oneshot,
    time,
};

use super::{error::Failure, view::Tx};
use crate::telemetry;

/// A call that waits for a thread of the store.
pub(super) struct Call<T> {
    reply: oneshot::Sender<Result<T, StoreError>>,
    claim: Claim,
    deadline: Instant,
    caller: Option<Thread>,
}

/// The caller's end of a call.
pub(super) struct Caller<T> {
    reply: oneshot::Receiver<Result<T, StoreError>>,
    claim: Claim,
    deadline: Instant,
    timeout: Duration,
}

/// A thread that runs all tasks of a runtime.
pub(super) struct Thread {
    id: ThreadId,
    runtime: Handle,
}

impl Thread {
    /// This one, if it is one.
    fn here() -> Option<Self> {
        let runtime = Handle::try_current().ok()?;
        let is_one = runtime.runtime_flavor() == RuntimeFlavor::CurrentThread;
        is_one.then(|| Self { id: thread::current().id(), runtime })
    }
}

/// Who has the call: the thread takes it up, or the caller takes it back. Whoever is first.
#[derive(Clone, Default)]
struct Claim(Arc<AtomicBool>);

impl Claim {
    fn take(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }
}

/// How much later than the thread, which knows the better reason, the caller gives up.
pub(super) const GRACE: Duration = Duration::from_millis(250);

/// A call that is to be taken up within `timeout`.
pub(super) fn call<T>(timeout: Duration) -> (Call<T>, Caller<T>) {
    let (sender, receiver) = oneshot::channel();
    let claim = Claim::default();
    let now = Instant::now();
    let deadline = now.checked_add(timeout).unwrap_or(now);
    let caller = Thread::here();
    let call = Call { reply: sender, claim: claim.clone(), deadline, caller };
    (call, Caller { reply: receiver, claim, deadline, timeout })
}

impl<T> Call<T> {
    pub(super) const fn deadline(&self) -> Instant {
        self.deadline
    }

    /// The thread that waits for it, where that is one.
    const fn caller(&self) -> Option<&Thread> {
        self.caller.as_ref()
    }

    /// Takes the call up; `false` when its caller has given up.
    pub(super) fn take_up(&self) -> bool {
        self.claim.take()
    }

    pub(super) fn answer(self, answer: Result<T, StoreError>) {
        // A caller that does not wait any more is not told.
        let _ = self.reply.send(answer);
    }
}

impl<T> Caller<T> {
    /// The answer, in bounded time: a disk that hangs does not hang the caller.
    pub(super) async fn answer(self) -> Result<T, StoreError> {
        let answer = self.wait().await;
        answer.inspect_err(telemetry::failed)
    }

    async fn wait(mut self) -> Result<T, StoreError> {
        let deadline = time::Instant::from_std(self.deadline) + GRACE;
        if let Ok(answer) = time::timeout_at(deadline, &mut self.reply).await {
            return answer.unwrap_or_else(|_| Err(self.unanswered("the store was closed")));
        }
        if self.claim.take() {
            return Err(late(self.timeout));
        }
        // It is in a transaction: whether that commits can only be waited for.
        match time::timeout(self.timeout, &mut self.reply).await {
            Ok(answer) => {
                answer.unwrap_or_else(|_| Err(self.unanswered("the store's thread ended")))
            }
            Err(_) => {
                let reason = format!("no answer from the disk within {:?}", self.timeout * 2);
                Err(StoreError::AnswerLost { reason })
            }
        }
    }

    /// The thread ended without an answer.
    fn unanswered(&self, reason: &str) -> StoreError {
        let reason = reason.to_owned();
        if self.claim.take() {
            StoreError::Unavailable { reason }
        } else {
            StoreError::AnswerLost { reason }
        }
    }
}

/// A call that nobody took up in time.
pub(super) fn late(timeout: Duration) -> StoreError {
    StoreError::Unavailable { reason: format!("the store did not get to it within {timeout:?}") }
}

/// A write in the writer's queue, whatever it answers.
pub(super) trait Queued: Send {
    fn deadline(&self) -> Instant;

    /// See [`Call::take_up`].
    fn take_up(&self) -> bool;

    /// See [`Call::caller`].
    fn caller(&self) -> Option<&Thread>;

    /// Does its part of a transaction; again in another one, if that came to nothing or its
    /// answer was lost.
    fn run(&mut self, tx: &Tx<'_>) -> Result<(), StoreError>;

    /// Answers the caller: with what came of it, or with why the transaction was not committed.
    fn answer(self: Box<Self>, committed: Result<(), StoreError>);
}

/// Answers all callers of a batch.
///
/// Those of one thread by one task there: a thread that runs all tasks of its runtime is woken by a
/// system call for each task that somebody else wakes, and by none for those that it wakes itself.
pub(super) fn answer_all(batch: Vec<Box<dyn Queued>>, committed: &Result<(), StoreError>) {
    let mut threads = HashMap::<ThreadId, (Handle, Vec<Box<dyn Queued>>)>::new();
    for job in batch {
        match job.caller() {
            Some(Thread { id, runtime }) => {
                let of_thread = threads.entry(*id).or_insert_with(|| (runtime.clone(), Vec::new()));
                of_thread.1.push(job);
            }
            None => job.answer(committed.clone()),
        }
    }
    for (runtime, jobs) in threads.into_values() {
        let committed = committed.clone();
        let answering = move || jobs.into_iter().for_each(|job| job.answer(committed.clone()));
        // Where the runtime has ended, nobody waits there any more.
        runtime.spawn(async move { answering() });
    }
}

/// A write: what to do, and its call.
pub(super) struct Write<T, F> {
    work: F,
    call: Call<T>,
    result: Option<Result<T, StoreError>>,
}

impl<T, F> Write<T, F> {
    pub(super) const fn new(work: F, call: Call<T>) -> Self {
        Self { work, call, result: None }
    }
}

impl<T, F> Queued for Write<T, F>
where
    T: Send,
    F: Fn(&Tx<'_>) -> Result<T, Failure> + Send,
{
    fn deadline(&self) -> Instant {
        self.call.deadline()
    }

    fn take_up(&self) -> bool {
        self.call.take_up()
    }

    fn caller(&self) -> Option<&Thread> {
        self.call.caller()
    }

    fn run(&mut self, tx: &Tx<'_>) -> Result<(), StoreError> {
        self.result = Some(match (self.work)(tx) {
            Ok(answer) => Ok(answer),
            Err(Failure::Transaction(error)) => return Err(error),
            Err(unreadable) => Err(unreadable.into_error()),
        });
        Ok(())
    }

    fn answer(self: Box<Self>, committed: Result<(), StoreError>) {
        let answer = match (committed, self.result) {
            (Ok(()), Some(result)) => result,
            (Err(error), _) => Err(error),
            (Ok(()), None) => {
                Err(StoreError::Unavailable { reason: "the store did not run it".to_owned() })
            }
        };
        self.call.answer(answer);
    }
}
