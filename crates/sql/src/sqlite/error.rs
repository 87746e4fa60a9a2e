//! What can be wrong with a SQLite file at start, and what became of a failed statement.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use hapax_store::StoreError;
use rusqlite::{Error, ErrorCode, ffi};
use thiserror::Error as ThisError;

/// Why a store cannot be opened. Each message names the cause and the remedy.
#[derive(Clone, Debug, Eq, PartialEq, ThisError)]
#[non_exhaustive]
pub enum OpenError {
    /// A database in memory, or a URI.
    #[error(
        "the store cannot be {0:?}: records have to survive a restart; give the path of a file, \
         such as hapax.db"
    )]
    NotAPath(PathBuf),
    /// The path is a directory.
    #[error("{0} is a directory; give the path of a file in it, such as {0}/hapax.db")]
    Directory(PathBuf),
    /// The path is a device, a socket or a pipe.
    #[error("{0} is not a regular file; give the path of a file")]
    NotAFile(PathBuf),
    /// The directory of the file does not exist.
    #[error("the directory of {0} does not exist; create it first")]
    DirectoryMissing(PathBuf),
    /// There is no such file, and it is only to be read.
    #[error("{0} does not exist; name the store that hapax serve uses")]
    Missing(PathBuf),
    /// The file is empty, and it is only to be read.
    #[error("{0} holds no records yet; hapax serve fills it")]
    Unused(PathBuf),
    /// The file or its directory may not be used.
    #[error(
        "no permission to use {0}; hapax needs to read and write the file, and to create files \
         in its directory"
    )]
    PermissionDenied(PathBuf),
    /// The file can be read only.
    #[error(
        "{0} is read-only; hapax needs to write it: check the permissions of the file and \
         whether its file system is mounted read-only"
    )]
    ReadOnly(PathBuf),
    /// The file is no SQLite database.
    #[error("{0} is not a SQLite database; give another path, or move the file away")]
    NotADatabase(PathBuf),
    /// It is a SQLite database of something else.
    #[error(
        "{0} is a SQLite database of another program; give hapax a file of its own, such as \
         hapax.db. An application that keeps hapax's tables in its own database opens it with \
         SqliteConfig::shared"
    )]
    NotHapax(PathBuf),
    /// It is damaged.
    #[error("{path} is damaged ({reason}); restore it from a backup while no hapax is running")]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What SQLite found.
        reason: String,
    },
    /// It was written by a newer hapax.
    #[error(
        "{path} has schema version {found}, this hapax knows versions up to {known}; use the \
         hapax that wrote it, or a newer one"
    )]
    NewerSchema {
        /// The file.
        path: PathBuf,
        /// The version that was found.
        found: u32,
        /// The newest version that this hapax knows.
        known: u32,
    },
    /// It was written by an older hapax, and is only to be read.
    #[error(
        "{path} has schema version {found}, this hapax reads version {known}; start hapax serve \
         on it once, it brings the file up to date"
    )]
    OlderSchema {
        /// The file.
        path: PathBuf,
        /// The version that was found.
        found: u32,
        /// The version that this hapax reads.
        known: u32,
    },
    /// A migration was applied with another text than this hapax has.
    #[error(
        "migration {version} of {path} is not the one that this hapax knows; use the hapax that \
         made the file, or start with a new file if its records need not be kept"
    )]
    OtherMigration {
        /// The file.
        path: PathBuf,
        /// The migration.
        version: u32,
    },
    /// Another process held its lock for too long.
    #[error(
        "{path} stayed locked by another process for {waited:?}; find it (a backup, a SQLite \
         shell?) and let it finish"
    )]
    Locked {
        /// The file.
        path: PathBuf,
        /// How long was waited.
        waited: Duration,
    },
    /// The file system cannot do write-ahead logging.
    #[error(
        "{path} cannot use SQLite's write-ahead log (journal mode stays {mode}); put it on a \
         local file system, not on a network share"
    )]
    NoWal {
        /// The file.
        path: PathBuf,
        /// The journal mode that it stayed in.
        mode: String,
    },
    /// Commits would not be forced to disk.
    #[error("SQLite would not force commits of {path} to disk (synchronous is {level}, not FULL)")]
    NotDurable {
        /// The file.
        path: PathBuf,
        /// The level that is in force.
        level: i64,
    },
    /// The application's pool has a database without a file.
    #[error(
        "the pool's database {pool:?} is in memory or temporary, or is named by a URI; records and \
         what the application writes share one file: give the pool {store} by its path, in tests \
         one in a temporary folder"
    )]
    PoolWithoutFile {
        /// What the pool opens.
        pool: PathBuf,
        /// The file of the store.
        store: PathBuf,
    },
    /// The application's pool has another file than the store.
    #[error(
        "the pool opens {pool} and the store {store}; records and what the application writes \
         share one file: open the store on the pool's, with SqliteConfig::shared"
    )]
    PoolOfOtherFile {
        /// What the pool opens.
        pool: PathBuf,
        /// The file of the store.
        store: PathBuf,
    },
    /// No space left.
    #[error("no space is left for {0}; free space on its disk")]
    Full(PathBuf),
    /// The disk, or the file system on it, fails.
    #[error(
        "the disk of {path} fails ({reason}); look at what the system's log says of it, and start \
         again when it works"
    )]
    Disk {
        /// The file.
        path: PathBuf,
        /// What failed.
        reason: String,
    },
    /// Anything else.
    #[error("{path} cannot be opened: {reason}")]
    Other {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
}

/// What the system calls an error of a disk.
const EIO: i32 = 5;

impl OpenError {
    pub(super) fn from_io(path: &Path, error: &io::Error) -> Self {
        use io::ErrorKind as Kind;
        let shown = path.to_owned();
        match error.kind() {
            Kind::NotFound => Self::DirectoryMissing(shown),
            Kind::NotADirectory => Self::DirectoryMissing(shown),
            Kind::PermissionDenied => Self::PermissionDenied(shown),
            Kind::ReadOnlyFilesystem => Self::ReadOnly(shown),
            Kind::StorageFull | Kind::QuotaExceeded => Self::Full(shown),
            _ if error.raw_os_error() == Some(EIO) => {
                Self::Disk { path: shown, reason: error.to_string() }
            }
            _ => Self::Other { path: shown, reason: error.to_string() },
        }
    }

    pub(super) fn from_sqlite(path: &Path, error: &Error, waited: Duration) -> Self {
        let path = path.to_owned();
        let reason = error.to_string();
        if error.sqlite_error().is_some_and(|it| it.extended_code == ffi::SQLITE_IOERR_SHMSIZE) {
            return Self::Full(path);
        }
        match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => Self::NotADatabase(path),
            Some(ErrorCode::DatabaseCorrupt) => Self::Corrupt { path, reason },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                Self::Locked { path, waited }
            }
            Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
                match look_into_directory(&path) {
                    Ok(()) => Self::PermissionDenied(path),
                    Err(error) => Self::from_io(&path, &error),
                }
            }
            Some(ErrorCode::ReadOnly) => Self::ReadOnly(path),
            Some(ErrorCode::DiskFull) => Self::Full(path),
            Some(ErrorCode::SystemIoFailure) => Self::Disk { path, reason },
            _ => Self::Other { path, reason },
        }
    }
}

/// Whether a file can be made beside this one, which SQLite does not say. The file itself is not
/// opened for it: closing it again would give up locks that this process may have on it.
fn look_into_directory(path: &Path) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}", std::process::id()));
    File::create_new(&name)?;
    fs::remove_file(&name)
}

/// Why an operation could not do its part of a transaction.
#[derive(Debug)]
pub(super) enum Failure {
    /// What was stored cannot be read. It concerns this operation alone, which has written
    /// nothing yet; the others go on.
    Unreadable(String),
    /// The transaction cannot go on.
    Transaction(StoreError),
}

impl Failure {
    pub(super) fn into_error(self) -> StoreError {
        match self {
            Self::Unreadable(reason) => StoreError::Corrupt { reason },
            Self::Transaction(error) => error,
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Transaction(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match &error {
            Error::FromSqlConversionFailure(..)
            | Error::IntegralValueOutOfRange(..)
            | Error::InvalidColumnType(..)
            | Error::Utf8Error(..) => Self::Unreadable(format!("a row cannot be read: {error}")),
            _ => Self::Transaction(store_error(&error)),
        }
    }
}

/// What a failed statement means for the operations of its transaction. It is rolled back, so
/// nothing of it is written.
pub(super) fn store_error(error: &Error) -> StoreError {
    let reason = error.to_string();
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full,
        Some(ErrorCode::ReadOnly) => StoreError::ReadOnly,
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            StoreError::Corrupt { reason }
        }
        _ => StoreError::Unavailable { reason },
    }
}

/// Whether another connection holds what is needed.
pub(super) fn is_busy(error: &Error) -> bool {
    let code = error.sqlite_error_code();
    matches!(code, Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}
