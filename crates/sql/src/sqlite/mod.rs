//! The embedded store: one SQLite file.
//!
//! One thread writes; it commits together what has queued up. A few threads read beside it.
//! Callers reach both through channels, so a caller that goes away stops nothing.
#![expect(
    clippy::disallowed_methods,
    reason = "the one place of transactions, on threads of its own that sleep and see real time"
)]

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    time::Duration,
};

use hapax_core::{
    Advance, BeginStep, ClaimNumber, Found, NewClaim, Observed, ObservedEnd, OperationName,
    Ownership, PolicyDigest, RecordId, Seen, Settlement, Step, StepEnd, StepName, StoreTime, Would,
};
use hapax_store::{
    Claimed, Claims, Clock, HistoryEntry, Inspect, ListFilter, Listed, Lookup, Observation,
    Observations, Owned, Policies, Reply, SecretPin, Secrets, Standing, StandingState, Steps,
    StoreError, Sweep, Swept, SystemClock, Written,
};
use parking_lot::Mutex;
use tokio::sync::oneshot;

mod error;
mod faults;
mod guard;
#[cfg(feature = "sqlx")]
mod inside;
mod inspect;
mod migrate;
mod observations;
mod open;
mod policies;
mod pulse;
mod queue;
mod readers;
mod reconciling;
mod records;
mod rows;
mod session;
mod sql;
mod steps;
mod sweep;
mod turns;
mod view;
mod writer;
mod writes;

pub use error::OpenError;
#[cfg(feature = "faults")]
pub use faults::Fault;
#[cfg(feature = "sqlx")]
pub use inside::{OpenTransaction, Transactions};

use error::Failure;
use faults::Faults;
use guard::{Guard, NodeId, Trip};
use pulse::Pulse;
use queue::{GRACE, Write};
use readers::{READERS, Readers};
use reconciling::Lookout;
use session::Session;
use view::{Tx, View};
use writer::Message;

use crate::telemetry;

/// How a file is opened and used.
#[derive(Clone)]
pub struct SqliteConfig {
    /// The file; it is made if it is not there, its directory is not.
    pub path: PathBuf,
    /// How long an operation waits to be taken up, locks of other processes included. 2 s unless
    /// set. An answer takes at most twice as long.
    pub timeout: Duration,
    /// How many operations share a commit at most. 128 unless set.
    pub batch: usize,
    /// What leases and retention are judged by. All processes on the file have to agree on it:
    /// the machine's clock unless set.
    pub clock: Arc<dyn Clock>,
    /// The size that the file may grow to, in bytes; what goes beyond it fails as on a full disk.
    /// Unlimited unless set. A shared file counts as a whole, and only hapax's own writes fail.
    pub max_bytes: Option<u64>,
    /// Whether the file may be an application's own database, with tables of its own: hapax then
    /// keeps its tables, whose names begin with `hapax_` and `_hapax_`, beside them. `false`
    /// unless set: a file with nothing but other tables is refused.
    ///
    /// The file is put into SQLite's write-ahead log (`journal_mode = WAL`), which lasts; nothing
    /// else that belongs to the whole file is changed, not its `application_id`, `user_version`
    /// or page size. The application's writes and hapax's take turns on SQLite's one lock, so
    /// neither may hold it for long. Restoring the file from a backup takes hapax's history back
    /// too, which it notices.
    pub shared: bool,
}

impl SqliteConfig {
    /// The defaults, for this file.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            timeout: Duration::from_secs(2),
            batch: 128,
            clock: Arc::new(SystemClock),
            max_bytes: None,
            shared: false,
        }
    }
}

impl fmt::Debug for SqliteConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteConfig")
            .field("path", &self.path)
            .field("timeout", &self.timeout)
            .field("batch", &self.batch)
            .field("max_bytes", &self.max_bytes)
            .field("shared", &self.shared)
            .finish_non_exhaustive()
    }
}

/// A node's handle on a store in a SQLite file.
///
/// Several processes, each with a handle of its own, may share a file on one machine. What is
/// acknowledged is on disk: write-ahead log with full sync.
///
/// If the file is replaced, removed or set back while it is open, nothing is written any more and
/// [`Standing::standing`] says why, until the process is started again.
///
/// While its disk hangs, loses commits or turns out damaged, what writes is refused at once, and
/// the standing says so. It goes on by itself.
///
/// Its methods are called from within a tokio runtime that has a timer.
pub struct SqliteStore {
    /// `None`: opened only to read.
    writer: Option<mpsc::Sender<Message>>,
    /// The writer's.
    pulse: Pulse,
    readers: Arc<Readers>,
    guard: Arc<Guard>,
    node: NodeId,
    timeout: Duration,
    /// How far executions were looked at.
    lookout: Arc<Mutex<Lookout>>,
    #[cfg(feature = "sqlx")]
    clock: Arc<dyn Clock>,
    #[cfg(feature = "faults")]
    faults: Arc<Faults>,
}

impl SqliteStore {
    /// Opens a file, and makes it if it is not there.
    ///
    /// This blocks on the disk, and on locks of other processes for up to the configured timeout.
    ///
    /// # Errors
    /// [`OpenError`], with its remedy.
    pub fn open(config: SqliteConfig) -> Result<Self, OpenError> {
        let opened = open::to_write(&config)?;
        let SqliteConfig { path, timeout, batch, clock, .. } = config;
        let connections = (0..READERS)
            .map(|_| open::to_read(opened.files.path(), timeout))
            .collect::<Result<Vec<_>, _>>()?;
        let node = opened.mark.node;
        let guard = Arc::new(Guard::new(opened.files));
        let faults = Arc::new(Faults::default());
        let no_thread = |error: std::io::Error| OpenError::from_io(&path, &error);
        let readers = Readers::start(connections, &guard, &clock, timeout).map_err(no_thread)?;
        let readers = Arc::new(readers);
        #[cfg(feature = "sqlx")]
        let own_clock = Arc::clone(&clock);
        let session = Session::new(
            opened.conn,
            Arc::clone(&guard),
            opened.mark,
            clock,
            timeout,
            Arc::clone(&faults),
        );
        let pulse = Pulse::default();
        let writer = writer::start(session, Arc::clone(&readers), pulse.clone(), batch.max(1));
        let writer = Some(writer.map_err(no_thread)?);
        Ok(Self {
            writer,
            pulse,
            readers,
            guard,
            node,
            timeout,
            lookout: Arc::default(),
            #[cfg(feature = "sqlx")]
            clock: own_clock,
            #[cfg(feature = "faults")]
            faults,
        })
    }

    /// Opens the file of a store only to read it, also while other processes write it. Every
    /// write is answered with [`StoreError::ReadOnly`].
    ///
    /// # Errors
    /// [`OpenError`], with its remedy.
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        let SqliteConfig { path, timeout, clock, .. } = SqliteConfig::new(path.as_ref());
        let (connections, files) = open::only_to_read(&path, timeout, READERS)?;
        let guard = Arc::new(Guard::new(files));
        let no_thread = |error: std::io::Error| OpenError::from_io(&path, &error);
        let readers = Readers::start(connections, &guard, &clock, timeout).map_err(no_thread)?;
        Ok(Self {
            writer: None,
            pulse: Pulse::default(),
            readers: Arc::new(readers),
            guard,
            node: NodeId::new([0; 16]),
            timeout,
            lookout: Arc::default(),
            #[cfg(feature = "sqlx")]
            clock,
            #[cfg(feature = "faults")]
            faults: Arc::default(),
        })
    }

    /// Finishes what was asked for before and closes the file. What is asked for afterwards is
    /// answered with [`StoreError::Unavailable`].
    ///
    /// A handle that is dropped does the same without being waited for.
    pub async fn close(&self) {
        let (done, closed) = oneshot::channel();
        match &self.writer {
            // The thread answers when it is done; if it is gone, it was done before.
            Some(writer) if writer.send(Message::Close(done)).is_ok() => {
                let _ = closed.await;
            }
            _ => self.readers.stop(),
        }
    }

    /// Puts a fault in the way of a commit. Calls queue up.
    #[cfg(feature = "faults")]
    pub fn put_in_the_way(&self, fault: Fault) {
        self.faults.put_in_the_way(fault);
    }

    /// Hands a write to the writer. It may run more than once, in transactions of which one
    /// commits: it has to recognise its own work.
    fn write<T: Send + 'static>(
        &self,
        work: impl Fn(&Tx<'_>) -> Result<T, Failure> + Send + 'static,
    ) -> Reply<'_, T> {
        Box::pin(async move {
            let writer = self.writer.as_ref().ok_or(StoreError::ReadOnly)?;
            self.gets_on(|bound| self.pulse.hangs(bound))?;
            let (call, caller) = queue::call(self.timeout);
            let message = Message::Write(Box::new(Write::new(work, call)));
            if writer.send(message).is_err() {
                return Err(self.gone());
            }
            caller.answer().await
        })
    }

    fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&View<'_>) -> Result<T, Failure> + Send + 'static,
    ) -> Reply<'_, T> {
        Box::pin(async move {
            self.gets_on(|bound| self.readers.hang(bound))?;
            let (call, caller) = queue::call(self.timeout);
            if self.readers.read(work, call).is_err() {
                return Err(self.gone());
            }
            caller.answer().await
        })
    }

    /// Queues nothing for threads of which it is known that they get nowhere: nobody would wait for
    /// it, and it would be held until the disk answers.
    fn gets_on(&self, hangs: impl FnOnce(Duration) -> bool) -> Result<(), StoreError> {
        if !hangs(self.timeout.saturating_add(GRACE)) {
            return Ok(());
        }
        let error = self.hanging();
        telemetry::failed(&error);
        Err(error)
    }

    fn hanging(&self) -> StoreError {
        let reason = format!("the disk has not answered for more than {:?}", self.timeout);
        StoreError::Unavailable { reason }
    }

    /// Why no thread takes an operation.
    fn gone(&self) -> StoreError {
        self.guard.regressed().unwrap_or_else(|| StoreError::Unavailable {
            reason: "the store was closed".to_owned(),
        })
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore")
            .field("path", &self.guard.files().path())
            .field("standing", &self.guard.standing())
            .finish_non_exhaustive()
    }
}

impl Claims for SqliteStore {
    fn claim(&self, claim: NewClaim) -> Reply<'_, Claimed> {
        self.write(move |tx| records::claim(tx, &claim))
    }

    fn claim_all(&self, claims: Vec<NewClaim>) -> Reply<'_, Vec<Claimed>> {
        self.write(move |tx| records::claim_all(tx, &claims))
    }

    fn advance(&self, advance: Advance) -> Reply<'_, Claimed> {
        self.write(move |tx| records::advance(tx, &advance))
    }

    fn doubt(&self, id: RecordId, seen: Seen) -> Reply<'_, Option<Found>> {
        self.write(move |tx| records::doubt(tx, &id, &seen))
    }
}

impl Owned for SqliteStore {
    fn admit(
        &self,
        by: Ownership,
        lease: Duration,
        resend_before: Option<StoreTime>,
    ) -> Reply<'_, Written> {
        self.write(move |tx| records::admit(tx, &by, lease, resend_before))
    }

    fn renew(&self, by: Ownership, lease: Duration) -> Reply<'_, Written> {
        self.write(move |tx| records::renew(tx, &by, lease))
    }

    fn settle(&self, by: Ownership, settlement: Settlement) -> Reply<'_, Written> {
        self.write(move |tx| records::settle(tx, &by, &settlement))
    }
}

impl Steps for SqliteStore {
    fn begin_step(&self, by: Ownership, step: BeginStep, lease: Duration) -> Reply<'_, Written> {
        self.write(move |tx| steps::begin(tx, &by, &step, lease))
    }

    fn end_step(
        &self,
        by: Ownership,
        step: StepName,
        end: StepEnd,
        lease: Duration,
    ) -> Reply<'_, Written> {
        self.write(move |tx| steps::end(tx, &by, &step, &end, lease))
    }

    fn steps(&self, claim: ClaimNumber) -> Reply<'_, Vec<Step>> {
        self.read(move |view| steps::of(view, claim))
    }
}

impl Lookup for SqliteStore {
    fn find(&self, id: RecordId) -> Reply<'_, Option<Found>> {
        self.read(move |view| records::find(view, &id))
    }
}

impl Policies for SqliteStore {
    fn remember_policy(
        &self,
        digest: PolicyDigest,
        operation: OperationName,
        text: String,
    ) -> Reply<'_, ()> {
        self.write(move |tx| policies::remember(tx, &digest, &operation, &text))
    }

    fn policy(&self, digest: PolicyDigest) -> Reply<'_, Option<String>> {
        self.read(move |view| policies::text(view, &digest))
    }
}

impl Secrets for SqliteStore {
    fn pinned_secret(&self, version: u32) -> Reply<'_, Option<[u8; 16]>> {
        self.read(move |view| policies::secret(view, version))
    }

    fn pin_secret(&self, version: u32, fingerprint: [u8; 16]) -> Reply<'_, SecretPin> {
        self.write(move |tx| policies::pin_secret(tx, version, &fingerprint))
    }
}

impl Sweep for SqliteStore {
    fn sweep(&self, own_clock: StoreTime, limit: usize) -> Reply<'_, Swept> {
        let node = self.node;
        self.write(move |tx| sweep::sweep(tx, own_clock, limit, &node))
    }
}

impl Inspect for SqliteStore {
    fn list(&self, filter: ListFilter) -> Reply<'_, Vec<Listed>> {
        self.read(move |view| inspect::list(view, &filter))
    }

    fn operations(&self) -> Reply<'_, Vec<OperationName>> {
        self.read(policies::operations)
    }

    fn history(&self, claim: ClaimNumber) -> Reply<'_, Vec<HistoryEntry>> {
        self.read(move |view| inspect::history(view, claim))
    }
}

impl Observations for SqliteStore {
    fn arrive(&self, observation: Observation) -> Reply<'_, Would> {
        self.write(move |tx| observations::arrive(tx, &observation))
    }

    fn finish(&self, id: RecordId, end: ObservedEnd) -> Reply<'_, ()> {
        self.write(move |tx| observations::finish(tx, &id, end))
    }

    fn observed(&self, limit: usize) -> Reply<'_, Vec<Observed>> {
        self.read(move |view| observations::list(view, limit))
    }
}

impl Standing for SqliteStore {
    fn beat(&self) -> Reply<'_, ()> {
        self.write(|tx| {
            tx.touch();
            Ok(())
        })
    }

    fn standing(&self) -> StandingState {
        let bound = self.timeout.saturating_add(GRACE);
        match self.guard.standing() {
            // Who hangs cannot say so.
            StandingState::Ready if self.pulse.hangs(bound) || self.readers.hang(bound) => {
                StandingState::Failing { reason: self.hanging().to_string() }
            }
            standing => standing,
        }
    }

    fn distrust(&self, reason: String) {
        if self.guard.regressed().is_some() {
            return;
        }
        let trip = Trip::Distrusted(reason);
        self.guard.trip(&trip);
        if let Some(writer) = &self.writer {
            // A thread that has ended left nothing that could be written.
            let _ = writer.send(Message::Distrust(trip));
        }
    }
}
