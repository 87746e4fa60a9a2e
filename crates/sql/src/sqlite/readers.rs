//! The threads that read, each on a connection of its own, beside the writer.

use std::{
    sync::{Arc, mpsc},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use hapax_store::{Clock, StoreError};
use parking_lot::Mutex;
use rusqlite::Connection;

use super::{
    error::Failure,
    guard::Guard,
    pulse::Pulse,
    queue::{Call, late},
    sql,
    view::View,
};

/// How many threads read.
pub(super) const READERS: usize = 2;

/// The reading side of a store.
pub(super) struct Readers {
    queue: mpsc::Sender<Message>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    pulses: Vec<Pulse>,
}

enum Message {
    Read(Box<dyn Reading>),
    Stop,
}

/// One reader's share.
struct Reader {
    conn: Connection,
    guard: Arc<Guard>,
    clock: Arc<dyn Clock>,
    timeout: Duration,
    pulse: Pulse,
    queue: Arc<Mutex<mpsc::Receiver<Message>>>,
}

impl Readers {
    pub(super) fn start(
        connections: Vec<Connection>,
        guard: &Arc<Guard>,
        clock: &Arc<dyn Clock>,
        timeout: Duration,
    ) -> std::io::Result<Self> {
        let (sender, receiver) = mpsc::channel();
        let receiver = Arc::new(Mutex::new(receiver));
        let pulses = connections.iter().map(|_| Pulse::default()).collect::<Vec<_>>();
        let readers = connections.into_iter().zip(&pulses).map(|(conn, pulse)| Reader {
            conn,
            pulse: pulse.clone(),
            guard: Arc::clone(guard),
            clock: Arc::clone(clock),
            timeout,
            queue: Arc::clone(&receiver),
        });
        let threads = readers
            .map(|reader| {
                thread::Builder::new()
                    .name("hapax-sqlite-read".to_owned())
                    .spawn(move || reader.serve())
            })
            .collect::<std::io::Result<_>>()?;
        Ok(Self { queue: sender, threads: Mutex::new(threads), pulses })
    }

    /// Hands a reading to the next thread that is free.
    pub(super) fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&View<'_>) -> Result<T, Failure> + Send + 'static,
        call: Call<T>,
    ) -> Result<(), StoreError> {
        let message = Message::Read(Box::new(Read { work, call }));
        self.queue
            .send(message)
            .map_err(|_| StoreError::Unavailable { reason: "the store was closed".to_owned() })
    }

    /// Whether none of them gets on.
    pub(super) fn hang(&self, bound: Duration) -> bool {
        self.pulses.iter().all(|pulse| pulse.hangs(bound))
    }

    /// Finishes what was handed over, and closes the connections.
    pub(super) fn stop(&self) {
        let threads = std::mem::take(&mut *self.threads.lock());
        for _ in &threads {
            // A thread that has ended takes no message, and needs none.
            let _ = self.queue.send(Message::Stop);
        }
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("a reading thread of the store panicked");
            }
        }
    }
}

impl Reader {
    fn serve(self) {
        loop {
            // Whoever has the lock waits for the next message, the others for the lock.
            self.pulse.rests();
            let message = self.queue.lock().recv();
            match message {
                Ok(Message::Read(reading)) => {
                    self.pulse.works();
                    reading.run(&self);
                }
                Ok(Message::Stop) | Err(_) => return,
            }
        }
    }
}

impl Reader {
    /// Reads in one transaction, so that all of it is of one moment.
    fn look<T>(&self, work: impl FnOnce(&View<'_>) -> Result<T, Failure>) -> Result<T, Failure> {
        self.end()?;
        self.conn.prepare_cached(sql::BEGIN_READING)?.execute(())?;
        let read = self.read(work);
        self.end()?;
        read
    }

    /// Ends what is begun; there is nothing to undo. SQLite ends it by itself after some errors.
    fn end(&self) -> rusqlite::Result<()> {
        if self.conn.is_autocommit() {
            return Ok(());
        }
        self.conn.prepare_cached(sql::ROLLBACK)?.execute(()).map(drop)
    }

    fn read<T>(&self, work: impl FnOnce(&View<'_>) -> Result<T, Failure>) -> Result<T, Failure> {
        self.conn.prepare_cached(sql::LOOK)?.query_row((), |_| Ok(()))?;
        // The clock after the look: the time of a reading is not before what is read.
        work(&View::new(&self.conn, self.clock.now()))
    }
}

/// A reading in the queue, whatever it answers.
trait Reading: Send {
    fn run(self: Box<Self>, reader: &Reader);
}

struct Read<T, F> {
    work: F,
    call: Call<T>,
}

impl<T, F> Reading for Read<T, F>
where
    T: Send,
    F: FnOnce(&View<'_>) -> Result<T, Failure> + Send,
{
    fn run(self: Box<Self>, reader: &Reader) {
        let Self { work, call } = *self;
        if !call.take_up() {
            return;
        }
        if call.deadline() < Instant::now() {
            return call.answer(Err(late(reader.timeout)));
        }
        // A file that was replaced does not answer from the old one.
        if let Err(trip) = reader.guard.files().check() {
            return call.answer(Err(reader.guard.trip(&trip)));
        }
        call.answer(reader.look(work).map_err(Failure::into_error));
    }
}
