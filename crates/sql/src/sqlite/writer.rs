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
    pulse::Pulse,
    queue::{Queued, answer_all, late},
    readers::Readers,
    session::{Ended, Session},
};
use crate::telemetry;

/// What the writer is told.
pub(super) enum Message {
    /// To write, with whatever else is there.
    Write(Job),
    /// To raise the epoch: the store's user saw that it lost history.
    Distrust(Trip),
    /// To finish what came before, and to close the store.
    Close(oneshot::Sender<()>),
}

type Job = Box<dyn Queued>;

/// After this long without work the writer looks after its files.
const IDLE: Duration = Duration::from_millis(250);

/// A log that grew beyond this while it was being read is cut when there is time. It is twice
/// what it grows to before SQLite starts over in it.
const LONG_LOG: u64 = 8 << 20;

/// How often the log's length is looked at under load.
const LOOK: Duration = Duration::from_secs(1);

/// The pause between two tries whether commits get through again.
const TRIAL: Duration = Duration::from_millis(250);

/// The shortest pause between two looks at the whole of a file that was found damaged; the longest
/// is so many times as long as a look takes.
const LOOK_AT_ALL: (Duration, u32) = (Duration::from_secs(1), 10);

/// Starts the thread; it ends when it is told to close or nobody can tell it anything any more.
pub(super) fn start(
    session: Session,
    readers: Arc<Readers>,
    pulse: Pulse,
    batch: usize,
) -> std::io::Result<mpsc::Sender<Message>> {
    let (sender, queue) = mpsc::channel();
    let guard = Arc::clone(&session.guard);
    let (timeout, log) = (session.timeout, Log::default());
    let session = Some(session);
    let writer = Writer { session, guard, readers, queue, batch, timeout, pulse, log, trial: None };
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
    pulse: Pulse,
    log: Log,
    /// While nothing is written: when it is tried whether that can be again.
    trial: Option<Instant>,
}

/// What is known of the write-ahead log's length.
#[derive(Default)]
struct Log {
    looked: Option<Instant>,
    /// Whether it could not be cut, which has been said.
    stays: bool,
}

impl Drop for Writer {
    /// However the thread ends, nothing is written from here on, and the standing says so.
    fn drop(&mut self) {
        self.guard.closed(&closed());
    }
}

impl Writer {
    fn serve(mut self) {
        let mut behind = None;
        loop {
            let message = match behind.take() {
                Some(message) => Ok(message),
                None => {
                    self.pulse.rests();
                    // Whoever was just answered may have more: where all processors are busy, they
                    // go first, and more of them share the next commit.
                    thread::yield_now();
                    self.queue.recv_timeout(IDLE)
                }
            };
            self.pulse.works();
            match message {
                Ok(Message::Write(first)) => behind = self.write(first),
                Ok(Message::Distrust(trip)) => self.distrust(&trip),
                Ok(Message::Close(done)) => {
                    self.close();
                    // Whoever asked may have stopped waiting.
                    let _ = done.send(());
                    return;
                }
                Err(RecvTimeoutError::Timeout) => self.look_after_files(),
                Err(RecvTimeoutError::Disconnected) => return self.close(),
            }
        }
    }

    /// Commits a job together with those behind it. Answers with what came after them, if that
    /// was no job.
    fn write(&mut self, first: Job) -> Option<Message> {
        let mut batch = Vec::with_capacity(self.batch);
        self.try_again();
        if let Err(error) = self.begin(&first) {
            first.answer(Err(error));
            return None;
        }
        // What arrived while this waited for the lock shares the commit.
        batch.extend(self.admit(first));
        let behind = self.fill(&mut batch);
        telemetry::batch(batch.len());
        match self.commit(&mut batch) {
            // One job may be the reason: each gets a transaction of its own.
            Err(StoreError::Unavailable { .. } | StoreError::Full | StoreError::Corrupt { .. })
                if batch.len() > 1 =>
            {
                batch.into_iter().for_each(|job| self.write_alone(job));
            }
            result => answer_all(batch, &result),
        }
        if self.log.looked.is_none_or(|looked| looked.elapsed() > LOOK) {
            self.look_after_log();
        }
        behind
    }

    /// While nothing is written, finds out now and then whether that can be again.
    fn try_again(&mut self) {
        let due = self.trial.is_some_and(|next| next <= Instant::now());
        let Some(session) = self.session.as_mut().filter(|_| due) else { return };
        let Some(why) = session.let_go() else { return };
        let begun = Instant::now();
        let mut pause = TRIAL;
        if matches!(why, StoreError::Corrupt { .. }) {
            // A disk that cannot be read is damage to SQLite, too.
            let is_whole = session.is_whole();
            let (shortest, times) = LOOK_AT_ALL;
            pause = shortest.max(begun.elapsed().saturating_mul(times));
            if !is_whole {
                return self.hold_back(why, pause);
            }
        }
        // A commit that nobody waits for: what it comes to need not be known.
        let deadline = after(self.timeout);
        let tried = session.begin(deadline).map_err(Ended::from);
        let tried = tried.and_then(|()| {
            session.run(|tx| {
                tx.touch();
                Ok(())
            })
        });
        match tried {
            Ok(_) => {
                self.trial = None;
                self.guard.note(&Ok(()));
            }
            Err(Ended::Tripped(trip)) => {
                self.trip(&trip);
            }
            Err(Ended::NotWritten(_) | Ended::Unknown(_)) => self.hold_back(why, pause),
        }
    }

    /// Lets nothing be written until a trial after this pause has succeeded. Each commit whose
    /// answer is lost has to be found out about by its caller, however many they are and however
    /// long it lasts; and in a damaged file a record may not be found that is there.
    fn hold_back(&mut self, why: StoreError, pause: Duration) {
        self.trial = Some(after(pause));
        if let Some(session) = &mut self.session {
            session.hold_back(why);
        }
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
        self.pulse.works();
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
            self.note(&begun);
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

    /// Takes what has queued up, to the next message that is none of these.
    fn fill(&self, batch: &mut Vec<Job>) -> Option<Message> {
        while batch.len() < self.batch {
            match self.queue.try_recv() {
                Ok(Message::Write(job)) => batch.extend(self.admit(job)),
                Ok(other) => return Some(other),
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
        let ended = match run(session, batch) {
            Err(Ended::Unknown(reason)) => self.find_out(batch, reason),
            ended => ended,
        };
        let result = match ended {
            // What only reads says nothing of how writing goes.
            Ok(false) => return Ok(()),
            Ok(true) => Ok(()),
            Err(Ended::NotWritten(error)) => Err(error),
            Err(Ended::Unknown(reason)) => Err(StoreError::AnswerLost { reason }),
            Err(Ended::Tripped(trip)) => Err(self.trip(&trip)),
        };
        self.note(&result);
        result
    }

    /// Finds out what became of a commit: every job recognises its own work, and issued again
    /// changes nothing where that is there.
    fn find_out(&mut self, batch: &mut [Job], reason: String) -> Result<bool, Ended> {
        tracing::warn!(%reason, "the answer of a commit was lost; it is issued again");
        self.pulse.works();
        let Some(session) = &mut self.session else {
            return Err(Ended::Unknown(reason));
        };
        let deadline = after(self.timeout);
        if session.begin(deadline).is_err() {
            return Err(Ended::Unknown(reason));
        }
        match run(session, batch) {
            Ok(wrote) => return Ok(wrote),
            Err(Ended::Tripped(trip)) => {
                self.trip(&trip);
            }
            Err(Ended::NotWritten(_) | Ended::Unknown(_)) => {
                let why = format!("the last commit's answer was lost: {reason}");
                self.hold_back(StoreError::Unavailable { reason: why }, TRIAL);
            }
        }
        Err(Ended::Unknown(reason))
    }

    /// Notes how writing went.
    fn note(&mut self, result: &Result<(), StoreError>) {
        self.guard.note(result);
        if let Err(error @ StoreError::Corrupt { .. }) = result
            && self.trial.is_none()
        {
            self.hold_back(error.clone(), LOOK_AT_ALL.0);
        }
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

    fn distrust(&mut self, trip: &Trip) {
        let deadline = after(self.timeout);
        if let Some(session) = &mut self.session
            && session.begin(deadline).is_ok()
        {
            session.raise_epoch(trip);
            session.end();
        }
    }

    fn look_after_files(&mut self) {
        if self.session.is_none() {
            return;
        }
        if let Err(trip) = self.guard.files().check() {
            self.trip(&trip);
        } else {
            self.look_after_log();
        }
    }

    /// SQLite brings the log into the database by itself, and says nothing when it cannot.
    fn look_after_log(&mut self) {
        self.log.looked = Some(Instant::now());
        let Some(session) = &self.session else { return };
        let bytes = self.guard.files().log_bytes();
        telemetry::log(bytes);
        if bytes <= LONG_LOG {
            self.log.stays = false;
            return;
        }
        self.pulse.works();
        let cut = session.checkpoint();
        if let Err(error) = &cut
            && !self.log.stays
        {
            tracing::warn!(
                %error, bytes,
                "the write-ahead log cannot be brought into the database; it grows"
            );
        }
        self.log.stays = cut.is_err();
    }

    fn close(mut self) {
        self.readers.stop();
        if let Some(session) = self.session.take() {
            session.close();
        }
        while let Ok(message) = self.queue.try_recv() {
            if let Message::Write(job) = message {
                job.answer(Err(closed()));
            }
        }
    }
}

fn run(session: &mut Session, batch: &mut [Job]) -> Result<bool, Ended> {
    session.run(|tx| batch.iter_mut().try_for_each(|job| job.run(tx)))
}

/// A moment from now; now, where no clock holds it.
fn after(pause: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(pause).unwrap_or(now)
}

fn closed() -> StoreError {
    StoreError::Unavailable { reason: "the store was closed".to_owned() }
}
