//! The way of an operation to a thread of the store, and of its answer back.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use hapax_store::StoreError;
use tokio::{
    runtime::{self, Handle, RuntimeFlavor},
    sync::oneshot,
    task, time,
};

use super::{error::Failure, view::Tx};
use crate::telemetry;

/// A call that waits for a thread of the store.
pub(super) struct Call<T> {
    reply: oneshot::Sender<Result<T, StoreError>>,
    claim: Claim,
    deadline: Instant,
    caller: Option<Handle>,
}

/// The caller's end of a call.
pub(super) struct Caller<T> {
    reply: oneshot::Receiver<Result<T, StoreError>>,
    claim: Claim,
    deadline: Instant,
    timeout: Duration,
}

/// The runtime of the task that this is part of, if one thread runs all of its tasks.
fn runtime_of_this_task() -> Option<Handle> {
    // Who waits outside a task may do so while nobody drives the runtime.
    task::try_id()?;
    let runtime = Handle::try_current().ok()?;
    (runtime.runtime_flavor() == RuntimeFlavor::CurrentThread).then_some(runtime)
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
    let caller = runtime_of_this_task();
    let call = Call { reply: sender, claim: claim.clone(), deadline, caller };
    (call, Caller { reply: receiver, claim, deadline, timeout })
}

impl<T> Call<T> {
    pub(super) const fn deadline(&self) -> Instant {
        self.deadline
    }

    /// The runtime of the task that waits for it, where one thread runs that.
    const fn caller(&self) -> Option<&Handle> {
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
    fn caller(&self) -> Option<&Handle>;

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
    // By runtime: a thread may drive several by turns.
    let mut runtimes = HashMap::<runtime::Id, (Handle, Answers)>::new();
    for job in batch {
        match job.caller() {
            Some(runtime) => {
                let answers = || Answers { jobs: Vec::new(), committed: committed.clone() };
                let of_runtime = runtimes.entry(runtime.id());
                let of_runtime = of_runtime.or_insert_with(|| (runtime.clone(), answers()));
                of_runtime.1.jobs.push(job);
            }
            None => job.answer(committed.clone()),
        }
    }
    for (runtime, answers) in runtimes.into_values() {
        runtime.spawn(async move { drop(answers) });
    }
}

/// Callers of a batch and what became of its commit. Dropped, it tells them: also where the runtime
/// that was to do so has ended.
struct Answers {
    jobs: Vec<Box<dyn Queued>>,
    committed: Result<(), StoreError>,
}

impl Drop for Answers {
    fn drop(&mut self) {
        for job in self.jobs.drain(..) {
            job.answer(self.committed.clone());
        }
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

    fn caller(&self) -> Option<&Handle> {
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

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, thread};

    use tokio::runtime::{Builder, Runtime};

    use super::*;

    const SOON: Duration = Duration::from_secs(10);

    fn of_one_thread() -> Runtime {
        Builder::new_current_thread().enable_all().build().unwrap()
    }

    /// A write that a task of this runtime waits for.
    fn asked_on(runtime: &Runtime, timeout: Duration) -> (Box<dyn Queued>, Caller<()>) {
        runtime.block_on(async move { tokio::spawn(async move { asked(timeout) }).await.unwrap() })
    }

    fn asked(timeout: Duration) -> (Box<dyn Queued>, Caller<()>) {
        let (call, caller) = call(timeout);
        assert!(call.take_up());
        (Box::new(Write::new(|_: &Tx<'_>| Ok(()), call)), caller)
    }

    #[test]
    fn callers_whom_one_task_answers_each_have_their_answer() {
        let runtime = of_one_thread();
        let (jobs, callers): (Vec<_>, Vec<_>) = (0..3).map(|_| asked_on(&runtime, SOON)).unzip();
        answer_all(jobs, &Err(StoreError::Full));
        runtime.block_on(async {
            for caller in callers {
                assert_eq!(caller.answer().await, Err(StoreError::Full));
            }
        });
    }

    #[test]
    fn of_two_runtimes_that_one_thread_drives_by_turns_each_has_its_own_callers_answered() {
        let (idle, driven) = (of_one_thread(), of_one_thread());
        let timeout = Duration::from_millis(20);
        let (of_idle, _waits) = asked_on(&idle, timeout);
        let (of_driven, waits) = asked_on(&driven, timeout);
        answer_all(vec![of_idle, of_driven], &Err(StoreError::Full));
        assert_eq!(driven.block_on(waits.answer()), Err(StoreError::Full));
    }

    #[test]
    fn a_caller_that_outlives_the_runtime_it_asked_on_has_its_answer() {
        let (ended, runtime) = (of_one_thread(), of_one_thread());
        let (job, caller) = asked_on(&ended, SOON);
        drop(ended);
        answer_all(vec![job], &Err(StoreError::Full));
        assert_eq!(runtime.block_on(caller.answer()), Err(StoreError::Full));
    }

    #[test]
    fn a_caller_outside_the_tasks_of_its_runtime_is_answered_though_nobody_drives_that() {
        let (sender, answered) = mpsc::channel();
        thread::spawn(move || {
            let answer = of_one_thread().handle().block_on(async {
                let (job, caller) = asked(SOON);
                answer_all(vec![job], &Err(StoreError::Full));
                caller.answer().await
            });
            sender.send(answer).unwrap();
        });
        assert_eq!(answered.recv_timeout(SOON), Ok(Err(StoreError::Full)));
    }
}
