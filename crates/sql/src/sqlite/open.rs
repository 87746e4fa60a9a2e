//! Opening a file: found or made, with the log and durability that the store promises, its schema
//! up to date, this node registered.

use std::{
    fs::{self, OpenOptions},
    io::{self, ErrorKind},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use rusqlite::{Connection, OpenFlags};

use super::{
    SqliteConfig,
    error::{OpenError, is_busy},
    guard::{FileId, Files, Mark, NodeId, beside},
    migrate::{self, Content, KNOWN, Schema},
    sql,
};

/// What opening for writing comes to.
pub(super) struct Opened {
    pub(super) conn: Connection,
    pub(super) files: Files,
    pub(super) mark: Mark,
}

/// The page size of a new file, in bytes.
const PAGE: u32 = 4096;

/// Opens a file to write, and makes it if it is not there.
pub(super) fn to_write(config: &SqliteConfig) -> Result<Opened, OpenError> {
    let (path, timeout) = (absolute(&config.path)?, config.timeout);
    create(&path)?;
    let before = FileId::of(&path).map_err(|error| OpenError::from_io(&path, &error))?;
    let failed = |error| Failed::Sqlite(error).into_error(&path, timeout);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(&path, flags).map_err(failed)?;
    conn.busy_timeout(timeout).map_err(failed)?;
    // SQLite does not wait for every lock that it meets while the journal mode changes.
    let mark = until(timeout, || prepare(&conn, config))
        .map_err(|error| error.into_error(&path, timeout))?;
    let files = Files::remember(&path).map_err(|error| OpenError::from_io(&path, &error))?;
    if FileId::of(&path).ok() != Some(before) {
        let reason = "it was replaced while it was opened".to_owned();
        return Err(OpenError::Other { path, reason });
    }
    // From here on the writer waits by itself, within the time that its callers have.
    conn.busy_timeout(Duration::ZERO).map_err(failed)?;
    conn.set_prepared_statement_cache_capacity(64);
    Ok(Opened { conn, files, mark })
}

/// Opens a store's file to read.
pub(super) fn to_read(path: &Path, timeout: Duration) -> Result<Connection, OpenError> {
    reader(path, path, timeout)
}

/// Opens a store's file to read by its name or by a URI of it.
fn reader(name: impl AsRef<Path>, path: &Path, timeout: Duration) -> Result<Connection, OpenError> {
    let failed = |error| Failed::Sqlite(error).into_error(path, timeout);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_URI;
    let conn = Connection::open_with_flags(name, flags).map_err(failed)?;
    conn.busy_timeout(timeout).map_err(failed)?;
    conn.set_prepared_statement_cache_capacity(64);
    Ok(conn)
}

/// Opens connections that only read a store that nobody here writes.
pub(super) fn only_to_read(
    path: &Path,
    timeout: Duration,
    count: usize,
) -> Result<(Vec<Connection>, Files), OpenError> {
    let path = absolute(path)?;
    match fs::metadata(&path) {
        Ok(found) => must_be_file(&path, &found)?,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(OpenError::Missing(path));
        }
        Err(error) => return Err(OpenError::from_io(&path, &error)),
    }
    let check = |conn: &Connection| match migrate::content(conn)? {
        Content::Hapax => readable(migrate::schema(conn)?),
        Content::Empty => Err(Failed::Unused),
        Content::Foreign => Err(Failed::NotHapax),
    };
    // SQLite makes an index of the log even to read it. Where nothing can be written and there is no
    // log, everything is in the file.
    let name = if is_at_rest(&path) { at_rest(&path) } else { None };
    let mut connections = Vec::with_capacity(count);
    for _ in 0..count {
        let conn = match &name {
            Some(uri) => reader(uri, &path, timeout)?,
            None => to_read(&path, timeout)?,
        };
        check(&conn).map_err(|error| error.into_error(&path, timeout))?;
        connections.push(conn);
    }
    let files = Files::remember(&path).map_err(|error| OpenError::from_io(&path, &error))?;
    Ok((connections, files))
}

/// Whether a file lies on a file system that cannot be written, without a log.
fn is_at_rest(path: &Path) -> bool {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    let written = OpenOptions::new().write(true).open(path);
    let cannot = written.is_err_and(|error| error.kind() == ErrorKind::ReadOnlyFilesystem);
    cannot && fs::metadata(log).is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

/// The name by which SQLite opens a file that does not change; `None` for a path that no URI holds.
fn at_rest(path: &Path) -> Option<String> {
    let path = path.to_str()?.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    Some(format!("file:{path}?immutable=1"))
}

/// Raises the epoch of a store that took the place of another one: its later attempts are newer
/// than all that the other one knew.
pub(super) fn raise_epoch(path: &Path, timeout: Duration) -> rusqlite::Result<()> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags)?;
    conn.busy_timeout(timeout)?;
    if migrate::content(&conn)? == Content::Hapax {
        conn.pragma_update(None, "synchronous", "FULL")?;
        conn.execute(sql::RAISE_EPOCH, ())?;
    }
    Ok(())
}

fn absolute(path: &Path) -> Result<PathBuf, OpenError> {
    let text = path.to_string_lossy();
    if text.is_empty() || text.starts_with(":memory:") || text.starts_with("file:") {
        return Err(OpenError::NotAPath(path.to_owned()));
    }
    std::path::absolute(path).map_err(|error| OpenError::from_io(path, &error))
}

/// Makes the file, for its owner alone, unless it is there.
fn create(path: &Path) -> Result<(), OpenError> {
    let failed = |error: io::Error| OpenError::from_io(path, &error);
    match fs::metadata(path) {
        Ok(found) => return must_be_file(path, &found),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(file) => file.sync_all().map_err(failed)?,
        // Another process was quicker.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(()),
        Err(error) => return Err(failed(error)),
    }
    // A crash must not take the name of a file that already holds records.
    match path.parent() {
        Some(parent) => fs::File::open(parent).and_then(|dir| dir.sync_all()).map_err(failed),
        None => Ok(()),
    }
}

fn must_be_file(path: &Path, found: &fs::Metadata) -> Result<(), OpenError> {
    if found.is_dir() {
        return Err(OpenError::Directory(path.into()));
    }
    if found.is_file() { Ok(()) } else { Err(OpenError::NotAFile(path.into())) }
}

/// Why a file could not be prepared.
enum Failed {
    Sqlite(rusqlite::Error),
    /// The log could not be written over itself.
    Log(io::Error),
    NotHapax,
    /// Nothing was ever put in.
    Unused,
    ReadOnly,
    Schema(Schema),
    NoWal(String),
    NotDurable(i64),
    Random(getrandom::Error),
}

impl From<rusqlite::Error> for Failed {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl Failed {
    fn into_error(self, path: &Path, waited: Duration) -> OpenError {
        let shown = path.to_owned();
        match self {
            Self::Sqlite(error) => OpenError::from_sqlite(path, &error, waited),
            Self::Log(error) => OpenError::from_io(path, &error),
            Self::NotHapax => OpenError::NotHapax(shown),
            Self::Unused => OpenError::Unused(shown),
            Self::ReadOnly => OpenError::ReadOnly(shown),
            Self::Schema(Schema::Newer(found)) => {
                OpenError::NewerSchema { path: shown, found, known: KNOWN }
            }
            Self::Schema(Schema::Older(found)) => {
                OpenError::OlderSchema { path: shown, found, known: KNOWN }
            }
            Self::Schema(Schema::Other(version)) => {
                OpenError::OtherMigration { path: shown, version }
            }
            Self::Schema(Schema::Current) => OpenError::NotHapax(shown),
            Self::NoWal(mode) => OpenError::NoWal { path: shown, mode },
            Self::NotDurable(level) => OpenError::NotDurable { path: shown, level },
            Self::Random(error) => {
                OpenError::Other { path: shown, reason: format!("no random numbers: {error}") }
            }
        }
    }
}

/// Tries again while somebody else holds what is needed.
fn until<T>(
    timeout: Duration,
    mut attempt: impl FnMut() -> Result<T, Failed>,
) -> Result<T, Failed> {
    const PAUSE: Duration = Duration::from_millis(5);
    let started = Instant::now();
    loop {
        match attempt() {
            Err(Failed::Sqlite(error)) if is_busy(&error) && started.elapsed() < timeout => {
                thread::sleep(PAUSE);
            }
            result => return result,
        }
    }
}

/// Everything between an open file and a store; it may be repeated.
///
/// What is set here is this connection's own, beside the journal mode: a shared file is the
/// application's.
fn prepare(conn: &Connection, config: &SqliteConfig) -> Result<Mark, Failed> {
    // The first look at the file: it tells a database from garbage without reading it all.
    let content = migrate::content(conn)?;
    if content == Content::Foreign && !config.shared {
        return Err(Failed::NotHapax);
    }
    if conn.is_readonly(rusqlite::MAIN_DB)? {
        return Err(Failed::ReadOnly);
    }
    if content == Content::Empty {
        conn.pragma_update(None, "page_size", PAGE)?;
    }
    let mode =
        conn.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0))?;
    if !mode.eq_ignore_ascii_case("wal") {
        return Err(Failed::NoWal(mode));
    }
    // Acknowledged means forced to disk, on systems where that takes more than fsync too.
    conn.pragma_update(None, "synchronous", "FULL")?;
    conn.pragma_update(None, "fullfsync", true)?;
    conn.pragma_update(None, "checkpoint_fullfsync", true)?;
    let level = conn.pragma_query_value(None, "synchronous", |row| row.get::<_, i64>(0))?;
    if level < 2 {
        return Err(Failed::NotDurable(level));
    }
    // Negative: in KiB.
    conn.pragma_update(None, "cache_size", -16_384)?;
    conn.pragma_update(None, "temp_store", "MEMORY")?;
    conn.pragma_update(None, "trusted_schema", false)?;
    conn.pragma_update(None, "cell_size_check", true)?;
    if let Some(max_bytes) = config.max_bytes {
        let page = conn.pragma_query_value(None, "page_size", |row| row.get::<_, u32>(0))?;
        let pages = u32::try_from(max_bytes / u64::from(page.max(1))).unwrap_or(u32::MAX - 1);
        conn.pragma_update_and_check(None, "max_page_count", pages.max(1), |_| Ok(()))?;
    }
    conn.execute_batch(sql::BEGIN)?;
    let mark = force_log(&config.path)
        .map_err(Failed::Log)
        .and_then(|()| register(conn, config.clock.now().as_micros()));
    let end = if mark.is_ok() { sql::COMMIT } else { sql::ROLLBACK };
    conn.execute_batch(end)?;
    mark
}

/// Writes the log over itself and forces it to disk; in a transaction that keeps writers out.
///
/// A commit whose fsync failed is in the log all the same, as the system's memory has it, which may
/// take it for written. Whoever comes after a crash reads it there and takes it for a commit, and
/// what is committed behind it would be on disk without it.
fn force_log(path: &Path) -> io::Result<()> {
    const PIECE: usize = 1 << 16;
    // SQLite has no locks on the log itself, so that closing it again gives none up.
    let log = match OpenOptions::new().read(true).write(true).open(beside(path, "-wal")?) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        opened => opened?,
    };
    let (mut piece, mut at) = (vec![0; PIECE], 0);
    loop {
        let read = log.read_at(&mut piece, at)?;
        let Some(bytes) = piece.get(..read).filter(|bytes| !bytes.is_empty()) else { break };
        log.write_all_at(bytes, at)?;
        at = at.saturating_add(read as u64);
    }
    if at == 0 { Ok(()) } else { log.sync_all() }
}

/// Brings the schema up to date and gives this node its mark, in one transaction.
fn register(conn: &Connection, now_micros: i64) -> Result<Mark, Failed> {
    readable(migrate::bring_up(conn, now_micros)?)?;
    let node = NodeId::new(random()?);
    let uuid = uuid::Builder::from_random_bytes(random()?).into_uuid().into_bytes();
    conn.execute(sql::ADD_STORE, [&uuid])?;
    conn.execute(sql::ADD_MARK, (node.as_bytes(), now_micros))?;
    let incarnation = conn.query_row("SELECT uuid, epoch FROM hapax_store", (), |row| {
        Ok((row.get::<_, [u8; 16]>(0)?, row.get::<_, u32>(1)?))
    });
    let (uuid, epoch) = incarnation?;
    Ok(Mark::new(node, uuid, epoch))
}

fn readable(schema: Schema) -> Result<(), Failed> {
    match schema {
        Schema::Current => Ok(()),
        other => Err(Failed::Schema(other)),
    }
}

fn random() -> Result<[u8; 16], Failed> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(Failed::Random)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_is_synced_fully_and_read_back() {
        let dir = tempfile::tempdir().expect("a directory");
        let opened = to_write(&SqliteConfig::new(dir.path().join("hapax.db")));
        let conn = opened.expect("it opens").conn;
        let text = |name| conn.pragma_query_value(None, name, |row| row.get::<_, String>(0));
        let number = |name| conn.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        assert_eq!(text("journal_mode"), Ok("wal".to_owned()));
        assert_eq!(number("synchronous"), Ok(2), "FULL");
        assert_eq!(number("wal_autocheckpoint"), Ok(1000));
    }

    #[test]
    fn a_file_at_rest_is_read_without_a_file_beside_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("50%25 of #1?.db");
        drop(to_write(&SqliteConfig::new(&path)).expect("it opens").conn);
        let uri = at_rest(&path).expect("a name");
        let conn = reader(uri, &path, Duration::ZERO).expect("it opens");
        assert_eq!(migrate::content(&conn), Ok(Content::Hapax));
        let files = fs::read_dir(dir.path()).expect("a directory").count();
        assert_eq!(files, 1, "no log and no index of it");
        assert!(!is_at_rest(&path), "it can be written here");
    }

    #[test]
    fn a_database_that_cannot_have_a_log_is_refused() {
        let conn = Connection::open_in_memory().expect("memory");
        let config = SqliteConfig::new("/net/hapax.db");
        let refused = prepare(&conn, &config).map(drop).map_err(|failed| {
            failed.into_error(Path::new("/net/hapax.db"), Duration::ZERO).to_string()
        });
        let expected = "/net/hapax.db cannot use SQLite's write-ahead log (journal mode stays \
                        memory); put it on a local file system, not on a network share";
        assert_eq!(refused, Err(expected.to_owned()));
    }
}
