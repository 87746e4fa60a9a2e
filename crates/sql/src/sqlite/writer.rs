//! The one thread that writes. It takes what has queued up since its last commit and commits it
//! together.

use std::{
    sync::{
        Arc,
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

use hapax_store::StoreError;
use tokio::sync::oneshot;

use super::{
    guard::{Guard, Trip},
    queue::{Queued, late},
    readers::Readers,
    session::{Ended, Session},
};
use crate::telemetry;

/// What the writer is told.
pub(super) enum Message {
    /// To write, with whatever else is there.
    Write(Job),
    /// To finish what came before, and to close the store.
    Close(oneshot::Sender<()>),
}

type Job = Box<dyn Queued>;

/// After this long without work the writer looks after its files.
const IDLE: Duration = Duration::from_millis(250);

/// A log that grew beyond this while it was being read is cut when there is time. It is twice
/// what it grows to before SQLite starts over in it.
const LONG_LOG: u64 = 8 << 20;

/// Starts the thread; it ends when it is told to close or nobody can tell it anything any more.
pub(super) fn start(
    session: Session,
    readers: Arc<Readers>,
    batch: usize,
) -> std::io::Result<mpsc::Sender<Message>> {
    let (sender, queue) = mpsc::channel();
    let guard = Arc::clone(&session.guard);
    let timeout = session.timeout;
    let writer = Writer { session: Some(session), guard, readers, queue, batch, timeout };
    thread::Builder::new().name("hapax-sqlite-write".to_owned()).spawn(move || writer.serve())?;
    Ok(sender)
}

struct Writer {
    /// `None` once the store's files are not the ones that were opened.
    session: Option<Session>,
    guard: Arc<Guard>,
    readers: Arc<Readers>,
    queue: mpsc::Receiver<Message>,
    batch: usize,
    timeout: Duration,
}

impl Drop for Writer {
    /// However the thread ends, nothing is written from here on, and the standing says so.
    fn drop(&mut self) {
        self.guard.note::<()>(&Err(closed()));
    }
}

impl Writer {
    fn serve(mut self) {
        loop {
            let closing = match self.queue.recv_timeout(IDLE) {
                Ok(Message::Write(first)) => self.write(first),
                Ok(Message::Close(done)) => Some(done),
                Err(RecvTimeoutError::Timeout) => {
                    self.look_after_files();
                    None
                }
                Err(RecvTimeoutError::Disconnected) => return self.close(),
            };
            if let Some(done) = closing {
                self.close();
                // Whoever asked may have stopped waiting.
                let _ = done.send(());
                return;
            }
        }
    }

    /// Commits a job together with those behind it. Answers with what came after them, if that
    /// was the word to close.
    fn write(&mut self, first: Job) -> Option<oneshot::Sender<()>> {
        let mut batch = Vec::with_capacity(self.batch);
        if let Err(error) = self.begin(&first) {
            first.answer(Err(error));
            return None;
        }
        // What arrived while this waited for the lock shares the commit.
        batch.extend(self.admit(first));
        let closing = self.fill(&mut batch);
        telemetry::batch(batch.len());
        match self.commit(&mut batch) {
            // One job may be the reason: each gets a transaction of its own.
            Err(StoreError::Unavailable { .. } | StoreError::Full) if batch.len() > 1 => {
                batch.into_iter().for_each(|job| self.write_alone(job));
            }
            result => batch.into_iter().for_each(|job| job.answer(result.clone())),
        }
        closing
    }

    fn write_alone(&mut self, job: Job) {
        let mut batch = [job];
        let [job] = &batch;
        let result = self.begin(job).and_then(|()| self.commit(&mut batch));
        let [job] = batch;
        job.answer(result);
    }

    /// Begins a transaction, if the store is still the known one and the job's time is not over.
    fn begin(&mut self, job: &Job) -> Result<(), StoreError> {
        let deadline = job.deadline();
        if let Err(trip) = self.guard.files().check() {
            return Err(self.trip(&trip));
        }
        if let Some(error) = self.guard.regressed() {
            return Err(error);
        }
        let Some(session) = &mut self.session else {
            return Err(closed());
        };
        if deadline < Instant::now() {
            return Err(late(self.timeout));
        }
        let begun = session.begin(deadline);
        if begun.is_err() {
            self.guard.note(&begun);
        }
        begun
    }

    /// A job that is still wanted and in time.
    fn admit(&self, job: Job) -> Option<Job> {
        if !job.take_up() {
            return None;
        }
        if job.deadline() < Instant::now() {
            job.answer(Err(late(self.timeout)));
            return None;
        }
        Some(job)
    }

    fn fill(&self, batch: &mut Vec<Job>) -> Option<oneshot::Sender<()>> {
        while batch.len() < self.batch {
            match self.queue.try_recv() {
                Ok(Message::Write(job)) => batch.extend(self.admit(job)),
                Ok(Message::Close(done)) => return Some(done),
                Err(_) => break,
            }
        }
        None
    }

    /// Runs the batch in the transaction that was begun, and commits it.
    fn commit(&mut self, batch: &mut [Job]) -> Result<(), StoreError> {
        let Some(session) = &mut self.session else {
            return Err(closed());
        };
        let mut ended = run(session, batch);
        if let Err(Ended::Unknown(reason)) = ended {
            // Every job recognises its own work: issued again, it finds out and changes nothing.
            tracing::warn!(%reason, "the answer of a commit was lost; it is issued again");
            let again = Instant::now().checked_add(self.timeout);
            let again = session.begin(again.unwrap_or_else(Instant::now)).map_err(Ended::from);
            ended = match again.and_then(|()| run(session, batch)) {
                Ok(()) => Ok(()),
                Err(second) => {
                    if let Ended::Tripped(trip) = &second {
                        self.trip(trip);
                    }
                    Err(Ended::Unknown(reason))
                }
            };
        }
        let result = match ended {
            Ok(()) => Ok(()),
            Err(Ended::NotWritten(error)) => Err(error),
            Err(Ended::Unknown(reason)) => Err(StoreError::AnswerLost { reason }),
            Err(Ended::Tripped(trip)) => Err(self.trip(&trip)),
        };
        self.guard.note(&result);
        result
    }

    /// Stops writing until a restart.
    fn trip(&mut self, trip: &Trip) -> StoreError {
        let error = self.guard.trip(trip);
        if trip.concerns_files()
            && let Some(session) = self.session.take()
        {
            self.readers.stop();
            session.abandon();
        }
        error
    }

    fn look_after_files(&mut self) {
        if self.session.is_none() {
            return;
        }
        if let Err(trip) = self.guard.files().check() {
            self.trip(&trip);
        } else if self.guard.files().log_bytes() > LONG_LOG
            && let Some(session) = &self.session
        {
            session.checkpoint();
        }
    }

    fn close(mut self) {
        self.readers.stop();
        if let Some(session) = self.session.take() {
            session.close();
        }
        while let Ok(Message::Write(job)) = self.queue.try_recv() {
            job.answer(Err(closed()));
        }
    }
}

fn run(session: &mut Session, batch: &mut [Job]) -> Result<(), Ended> {
    session.run(|tx| batch.iter_mut().try_for_each(|job| job.run(tx)))
}

fn closed() -> StoreError {
    StoreError::Unavailable { reason: "the store was closed".to_owned() }
}
