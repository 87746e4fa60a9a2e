//! Whether the store is still the one that this node opened: the same files, the same
//! incarnation, and the node's mark where the node left it (`protocol.md` 17, 18).

use std::{
    ffi::OsString,
    fmt, fs, io,
    ops::RangeInclusive,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use hapax_store::{StandingState, StoreError};
use parking_lot::Mutex;
use rusqlite::{Connection, OptionalExtension};

use super::{sql, turns::Turns};

/// A process's own name in the store, made at random for each opening.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct NodeId([u8; 16]);

impl NodeId {
    pub(super) const fn new(random: [u8; 16]) -> Self {
        Self(random)
    }

    pub(super) const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

/// What a node knows of its store outside the store.
pub(super) struct Guard {
    files: Files,
    standing: Mutex<StandingState>,
    turns: Turns,
}

impl Guard {
    pub(super) fn new(files: Files) -> Self {
        let standing = Mutex::new(StandingState::Ready);
        Self { files, standing, turns: Turns::default() }
    }

    pub(super) const fn files(&self) -> &Files {
        &self.files
    }

    pub(super) const fn turns(&self) -> &Turns {
        &self.turns
    }

    pub(super) fn standing(&self) -> StandingState {
        self.standing.lock().clone()
    }

    /// The error that every write gets after a trip, until a restart.
    pub(super) fn regressed(&self) -> Option<StoreError> {
        match &*self.standing.lock() {
            StandingState::Regressed { reason } => {
                Some(StoreError::Regressed { reason: reason.clone() })
            }
            StandingState::Ready | StandingState::Failing { .. } => None,
        }
    }

    /// Notes that the store is not the known one any more. The first reason stays.
    pub(super) fn trip(&self, trip: &Trip) -> StoreError {
        let mut standing = self.standing.lock();
        if let StandingState::Regressed { reason } = &*standing {
            return StoreError::Regressed { reason: reason.clone() };
        }
        let reason = trip.to_string();
        tracing::error!(%reason, "the store is not the one this node opened: it is not used on");
        *standing = StandingState::Regressed { reason: reason.clone() };
        StoreError::Regressed { reason }
    }

    /// Notes that nothing is written any more, because the store was closed or its thread ended.
    pub(super) fn closed(&self, error: &StoreError) {
        let mut standing = self.standing.lock();
        if !matches!(*standing, StandingState::Regressed { .. }) {
            *standing = StandingState::Failing { reason: error.to_string() };
        }
    }

    /// Notes how the last write went.
    pub(super) fn note<T>(&self, result: &Result<T, StoreError>) {
        let mut standing = self.standing.lock();
        let next = match (&*standing, result) {
            (StandingState::Regressed { .. }, _) | (StandingState::Ready, Ok(_)) => return,
            (_, Ok(_)) => StandingState::Ready,
            (_, Err(error)) => StandingState::Failing { reason: error.to_string() },
        };
        if *standing != next {
            match &next {
                StandingState::Failing { reason } => tracing::warn!(%reason, "the store fails"),
                _ => tracing::info!("the store works again"),
            }
            *standing = next;
        }
    }
}

/// How it was noticed that the store is not the known one.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Trip {
    /// Nothing is at the path any more.
    Gone(PathBuf),
    /// Another file is at the path.
    Replaced(PathBuf),
    /// One of the files beside it, which belong to this opening, is another or gone.
    Companion(PathBuf),
    /// The file says that it is another store.
    OtherStore,
    /// Another node noticed a regression and raised the epoch.
    Epoch { found: i64, known: u32 },
    /// This node's mark is not there.
    NoMark,
    /// This node's mark stands elsewhere than it was left.
    Mark { found: i64, left: i64 },
    /// Its user saw what only the user can see.
    Distrusted(String),
}

impl Trip {
    /// Whether the open connection may still speak for the file at the path.
    pub(super) const fn concerns_files(&self) -> bool {
        matches!(self, Self::Gone(_) | Self::Replaced(_) | Self::Companion(_))
    }
}

impl fmt::Display for Trip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone(path) => write!(f, "{} is gone", path.display()),
            Self::Replaced(path) => {
                write!(f, "{} was replaced by another file", path.display())
            }
            Self::Companion(path) => write!(
                f,
                "{} was removed or replaced, as when a backup is copied back",
                path.display()
            ),
            Self::Distrusted(reason) => f.write_str(reason),
            Self::OtherStore => f.write_str("the file holds another store than this node opened"),
            Self::Epoch { found, known } => write!(
                f,
                "another node noticed lost history and raised the epoch from {known} to {found}"
            ),
            Self::NoMark => f.write_str(
                "this node's mark is missing: the store is from before this node started, or \
                 this node slept for more than 30 days",
            ),
            Self::Mark { found, left } => write!(
                f,
                "this node's mark stands at {found}, it was left at {left}: the store went back \
                 in time"
            ),
        }
    }
}

/// The files of an open store: the database, and its log and shared memory, which SQLite keeps
/// beside it while any process has it open.
pub(super) struct Files {
    main: File,
    companions: Vec<File>,
}

struct File {
    path: PathBuf,
    id: FileId,
}

/// Where SQLite has a file of a database: it follows symbolic links and keeps them beside the real
/// one.
pub(super) fn beside(database: &Path, suffix: &str) -> io::Result<PathBuf> {
    let mut name = OsString::from(fs::canonicalize(database)?);
    name.push(suffix);
    Ok(PathBuf::from(name))
}

/// Which file a path names.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    /// By the path alone: opening and closing the file would drop the locks that SQLite has on it
    /// in this process.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let found = fs::metadata(path)?;
        Ok(Self { device: found.dev(), inode: found.ino() })
    }
}

impl Files {
    /// The files as they are now, after the first transaction.
    pub(super) fn remember(path: &Path) -> io::Result<Self> {
        let main = File { path: path.to_owned(), id: FileId::of(path)? };
        let companions = [beside(path, "-wal")?, beside(path, "-shm")?].into_iter();
        let companions =
            companions.filter_map(|path| FileId::of(&path).ok().map(|id| File { path, id }));
        Ok(Self { companions: companions.collect(), main })
    }

    pub(super) fn path(&self) -> &Path {
        &self.main.path
    }

    /// Whether a path names the database.
    #[cfg(feature = "sqlx")]
    pub(super) fn is_main(&self, path: &Path) -> bool {
        FileId::of(path).is_ok_and(|id| id == self.main.id)
    }

    /// The length of the write-ahead log, in bytes.
    pub(super) fn log_bytes(&self) -> u64 {
        let log = self.companions.first().and_then(|file| fs::metadata(&file.path).ok());
        log.map_or(0, |found| found.len())
    }

    /// Whether the paths still name the files that are open.
    ///
    /// A file that cannot be looked at is no proof of anything: the store then fails by itself.
    pub(super) fn check(&self) -> Result<(), Trip> {
        match FileId::of(&self.main.path) {
            Ok(id) if id == self.main.id => {}
            Ok(_) => return Err(Trip::Replaced(self.main.path.clone())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(Trip::Gone(self.main.path.clone()));
            }
            Err(_) => {}
        }
        match self.companions.iter().find(|file| !file.is_in_place()) {
            Some(file) => Err(Trip::Companion(file.path.clone())),
            None => Ok(()),
        }
    }

    /// Whether the database is another file now, and the files beside its path are still ours:
    /// left over from the old one, and poison for whoever opens the new one with them.
    pub(super) fn companions_are_left_over(&self) -> bool {
        let replaced = FileId::of(&self.main.path).map_or(true, |id| id != self.main.id);
        replaced && self.companions.iter().all(File::is_in_place)
    }

    /// Removes the files beside a path that names another database now: whoever opens that one
    /// would take them for its own. To be called when nothing is in them and they are closed.
    pub(super) fn remove_companions(&self) {
        for file in self.companions.iter().filter(|file| file.is_in_place()) {
            if let Err(error) = fs::remove_file(&file.path) {
                let path = file.path.display();
                tracing::warn!(%path, %error, "a file left over from the old store is in the way");
            }
        }
    }

    /// Whether another file is at the path that can be opened without mixing it with ours.
    pub(super) fn successor_is_apart(&self) -> bool {
        let other = FileId::of(&self.main.path).is_ok_and(|id| id != self.main.id);
        other && self.companions.iter().all(|file| FileId::of(&file.path).ok() != Some(file.id))
    }
}

impl File {
    fn is_in_place(&self) -> bool {
        match FileId::of(&self.path) {
            Ok(id) => id == self.id,
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        }
    }
}

/// Where this node left its mark, and in which incarnation.
pub(super) struct Mark {
    pub(super) node: NodeId,
    uuid: [u8; 16],
    epoch: u32,
    /// One place, or two after a commit whose answer was lost.
    left: RangeInclusive<i64>,
}

impl Mark {
    pub(super) const fn new(node: NodeId, uuid: [u8; 16], epoch: u32) -> Self {
        Self { node, uuid, epoch, left: 0..=0 }
    }

    pub(super) const fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Where the mark stands, if it is where it was left, in the same incarnation.
    pub(super) fn verify(&self, conn: &Connection) -> rusqlite::Result<Result<i64, Trip>> {
        let found = conn
            .prepare_cached(sql::STANDING)?
            .query_row([self.node.as_bytes()], |row| {
                let uuid = row.get::<_, [u8; 16]>(0)?;
                Ok((uuid, row.get::<_, i64>(1)?, row.get::<_, Option<i64>>(2)?))
            })
            .optional()?;
        let Some((uuid, epoch, seq)) = found else {
            return Ok(Err(Trip::OtherStore));
        };
        Ok(match seq {
            _ if uuid != self.uuid => Err(Trip::OtherStore),
            None => Err(Trip::NoMark),
            Some(found) if !self.left.contains(&found) => {
                Err(Trip::Mark { found, left: *self.left.end() })
            }
            // Last: lost history is the better reason of the two.
            Some(_) if epoch != i64::from(self.epoch) => {
                Err(Trip::Epoch { found: epoch, known: self.epoch })
            }
            Some(seq) => Ok(seq),
        })
    }

    /// A commit left the mark here.
    pub(super) fn left_at(&mut self, seq: i64) {
        self.left = seq..=seq;
    }

    /// A commit that was to move the mark from `seq` on may have happened.
    pub(super) fn may_have_left(&mut self, seq: i64) {
        self.left = seq..=seq.saturating_add(1);
    }
}
