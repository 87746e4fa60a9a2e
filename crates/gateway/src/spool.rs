//! What ran without a record, on disk beside the store: a line before it is sent, a line when it
//! has ended, each synced.
//!
//! Each process has a file of its own, locked while it lives. A file that nobody holds was left
//! behind by a process that is gone, and whoever comes by takes it over.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, ErrorKind, Read, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

/// What a file may grow to. An outage that is longer than this is no time to pass requests.
const LARGEST: u64 = 64 << 20;

/// A line of a spool: no key, no body, no credential.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub(crate) enum Line {
    /// A request is about to be sent.
    Begun(Begun),
    /// What it came to.
    Ended(Ended),
}

/// A request that is sent without a record.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Begun {
    /// The version of the line's form.
    pub(crate) v: u32,
    /// The execution's own token, in hexadecimal.
    pub(crate) run: String,
    /// The record that it would have, in hexadecimal.
    pub(crate) record: String,
    pub(crate) operation: String,
    /// The digest of the policy that it was admitted under, in hexadecimal.
    pub(crate) policy: String,
    /// The digest of the intent with its version, in hexadecimal.
    pub(crate) fingerprint: String,
    pub(crate) secret_version: u32,
    /// What the service received as `Idempotency-Key`.
    pub(crate) effect_id: String,
    /// When, in microseconds since the Unix epoch.
    pub(crate) at: i64,
}

/// What a request came to that was sent without a record.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Ended {
    /// The execution's own token.
    pub(crate) run: String,
    /// Whether anything may have left this process.
    pub(crate) sent: bool,
    /// The status of a complete answer.
    pub(crate) status: Option<u16>,
    /// Whether it was settled by its head.
    pub(crate) by_head: bool,
    /// `Hapax-Outcome`, if the service sent it.
    pub(crate) said: Option<String>,
    /// What the body says, where the operation has it read.
    pub(crate) told: Option<String>,
}

/// The form of [`Begun`] that this version writes and reads.
pub(crate) const VERSION: u32 = 1;

/// A file of lines. Dropped, it is given up to whoever comes by.
pub(crate) struct Spool {
    path: PathBuf,
    file: Mutex<Written>,
}

struct Written {
    file: File,
    /// Up to where whole lines reach.
    length: u64,
}

/// The file of another process, with its lines.
pub(crate) struct Other {
    pub(crate) lines: Vec<Line>,
    /// Taken over, if its process is gone.
    pub(crate) left_behind: Option<Spool>,
}

/// A file that cannot be read, or not by this version.
#[derive(Debug, thiserror::Error)]
#[error("{} cannot be read", path.display())]
pub struct Unreadable {
    path: PathBuf,
    /// Whether its process lives, and may just be writing it.
    pub(crate) is_held: bool,
    #[source]
    error: io::Error,
}

/// What a file looks like from outside: it changes with every line.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Glance {
    path: PathBuf,
    file: (u64, u64),
    length: u64,
    changed: (i64, i64),
}

impl Glance {
    pub(crate) const fn is_empty(&self) -> bool {
        self.length == 0
    }
}

impl Spool {
    /// A file of this process's own, beside a database. Its name is 32 hexadecimal digits.
    pub(crate) fn create(database: &Path, name: &str) -> io::Result<Self> {
        let path = beside(database, name);
        // It is locked before it has the name that others look for: nobody takes it over.
        let unnamed = beside(database, &format!("{name}.new"));
        let mut options = OpenOptions::new();
        let file = options.read(true).append(true).create_new(true).mode(0o600).open(&unnamed)?;
        file.try_lock().map_err(io::Error::from)?;
        fs::rename(&unnamed, &path)?;
        // A crash must not take the name of a file that already holds lines.
        File::open(directory(&path))?.sync_all()?;
        Ok(Self { path, file: Mutex::new(Written { file, length: 0 }) })
    }

    /// A file on a disk without any room.
    #[cfg(test)]
    pub(crate) fn on_a_full_disk() -> Self {
        let file = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let file = Mutex::new(Written { file, length: 0 });
        Self { path: PathBuf::from("/dev/full"), file }
    }

    /// On a disk that hangs until this is dropped.
    #[cfg(test)]
    pub(crate) fn hang(&self) -> impl Drop + '_ {
        self.file.lock()
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The files of other processes, with their lines: those left behind are taken over.
    pub(crate) fn others(
        database: &Path,
        own: Option<&Path>,
    ) -> io::Result<Vec<Result<Other, Unreadable>>> {
        let paths = listed(database)?.into_iter().filter(|path| Some(&**path) != own);
        Ok(paths.filter_map(|path| Self::other(path).transpose()).collect())
    }

    /// `None`: its process has just removed it.
    fn other(path: PathBuf) -> Result<Option<Other>, Unreadable> {
        let mut is_held = false;
        let unreadable = |is_held, error| Unreadable { path: path.clone(), is_held, error };
        let mut file = match OpenOptions::new().read(true).append(true).open(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            file => file.map_err(|error| unreadable(is_held, error))?,
        };
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => is_held = true,
            Err(TryLockError::Error(error)) => return Err(unreadable(is_held, error)),
        }
        let read = read_at(&mut file, &path).map_err(|error| unreadable(is_held, error))?;
        let Some((lines, length)) = read else { return Ok(None) };
        let left_behind =
            (!is_held).then(|| Self { path, file: Mutex::new(Written { file, length }) });
        Ok(Some(Other { lines, left_behind }))
    }

    /// Whether it still is the file that others find. Lines of one that was removed are lost with
    /// the process.
    pub(crate) fn is_in_place(&self) -> bool {
        is_at(&self.file.lock().file, &self.path).unwrap_or(false)
    }

    /// Writes a line; it is on disk when this returns. Blocks.
    pub(crate) fn append(&self, line: &Line) -> io::Result<()> {
        let mut bytes = serde_json::to_vec(line).map_err(io::Error::other)?;
        bytes.push(b'\n');
        let mut written = self.file.lock();
        if !is_at(&written.file, &self.path)? {
            let what = format!("{} was removed or replaced", self.path.display());
            return Err(io::Error::new(ErrorKind::NotFound, what));
        }
        let length = written.length;
        if length.saturating_add(bytes.len() as u64) > LARGEST {
            return Err(io::Error::new(ErrorKind::StorageFull, "the spool is full"));
        }
        let appended = written.file.write_all(&bytes).and_then(|()| written.file.sync_data());
        if let Err(error) = appended {
            // What is there of it must not be the beginning of the next line.
            written.file.set_len(length)?;
            return Err(error);
        }
        written.length = length.saturating_add(bytes.len() as u64);
        Ok(())
    }

    /// Forgets all lines, if they are in the store. No line is written meanwhile. Blocks.
    pub(crate) fn clear_if(&self, are_in_store: impl FnOnce() -> bool) -> io::Result<()> {
        let mut written = self.file.lock();
        if written.length > 0 && are_in_store() {
            written.file.set_len(0)?;
            written.file.sync_all()?;
            written.length = 0;
        }
        Ok(())
    }

    /// Removes the file: its lines are in the store. Blocks.
    pub(crate) fn remove(self) -> io::Result<()> {
        fs::remove_file(&self.path)
    }
}

/// What the files of all processes look like, by reading nothing of them.
pub(crate) fn glance(paths: &[PathBuf]) -> Vec<Glance> {
    let glances = paths.iter().filter_map(|path| {
        let found = fs::metadata(path).ok()?;
        Some(Glance {
            path: path.clone(),
            file: (found.dev(), found.ino()),
            length: found.len(),
            changed: (found.mtime(), found.mtime_nsec()),
        })
    });
    glances.collect()
}

/// The files of all processes beside a database. What else begins with the same name is not ours.
pub(crate) fn listed(database: &Path) -> io::Result<Vec<PathBuf>> {
    let prefix = beside(database, "");
    let prefix = prefix.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let entries = match fs::read_dir(directory(database)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut paths = Vec::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_name =
            |name: &str| name.len() == 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        if name.strip_prefix(&prefix).is_some_and(is_name) {
            paths.push(entry.path());
        }
    }
    paths.sort_unstable();
    Ok(paths)
}

/// The whole lines of a text, and where they end.
fn lines(text: &[u8]) -> io::Result<(Vec<Line>, u64)> {
    // A line without its end was never synced, so what it says was never done.
    let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
    let lines = text.get(..whole).unwrap_or_default();
    let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let lines = lines.map(serde_json::from_slice).collect::<Result<Vec<_>, _>>();
    let lines = lines.map_err(|error| {
        let what = format!("it holds a line that this version does not read: {error}");
        io::Error::new(ErrorKind::InvalidData, what)
    })?;
    Ok((lines, u64::try_from(whole).unwrap_or(u64::MAX)))
}

/// The lines of an open file; `None` where it is not at its path any more: between its opening and
/// its locking another process may have removed it.
fn read_at(file: &mut File, path: &Path) -> io::Result<Option<(Vec<Line>, u64)>> {
    if !is_at(file, path)? {
        return Ok(None);
    }
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    lines(&text).map(Some)
}

/// Whether a path leads to this file.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let own = file.metadata()?;
    match fs::metadata(path) {
        Ok(there) => Ok((there.dev(), there.ino()) == (own.dev(), own.ino())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn beside(database: &Path, name: &str) -> PathBuf {
    let mut path: OsString = database.as_os_str().to_owned();
    path.push(format!(".spool.{name}"));
    path.into()
}

pub(crate) fn directory(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun(run: &str) -> Line {
        Line::Begun(Begun {
            v: VERSION,
            run: run.to_owned(),
            record: "00".repeat(32),
            operation: "pay".to_owned(),
            policy: "11".repeat(32),
            fingerprint: "22".repeat(48),
            secret_version: 1,
            effect_id: "4f1c".to_owned(),
            at: 7,
        })
    }

    fn ended(run: &str) -> Line {
        let run = run.to_owned();
        Line::Ended(Ended {
            run,
            sent: true,
            status: Some(201),
            by_head: false,
            said: None,
            told: None,
        })
    }

    const NAME: &str = "00112233445566778899aabbccddeeff";

    fn database(dir: &tempfile::TempDir) -> PathBuf {
        dir.path().join("hapax.db")
    }

    fn others(database: &Path) -> Vec<Other> {
        let others = Spool::others(database, None).unwrap();
        others.into_iter().map(Result::unwrap).collect()
    }

    fn left_behind(database: &Path) -> Option<(Spool, Vec<Line>)> {
        let mut others = others(database);
        assert!(others.len() < 2);
        let Other { lines, left_behind } = others.pop()?;
        Some((left_behind?, lines))
    }

    #[test]
    fn what_a_dead_process_left_behind_is_read_once_and_up_to_its_last_whole_line() {
        let dir = tempfile::tempdir().unwrap();
        let database = database(&dir);
        assert!(others(&database).is_empty());
        let spool = Spool::create(&database, NAME).unwrap();
        for line in [begun("a"), ended("a"), begun("b")] {
            spool.append(&line).unwrap();
        }
        assert!(left_behind(&database).is_none(), "its process lives");
        assert_eq!(others(&database)[0].lines, [begun("a"), ended("a"), begun("b")]);
        let path = spool.path.clone();
        drop(spool);
        let whole = fs::read(&path).unwrap();
        let last = serde_json::to_vec(&begun("b")).unwrap().len() + 1;
        // Torn anywhere in its last line, the lines before it are there.
        for torn in whole.len() - last + 1..whole.len() {
            fs::write(&path, &whole[..torn]).unwrap();
            let (_, lines) = left_behind(&database).unwrap();
            assert_eq!(lines, [begun("a"), ended("a")], "{torn}");
        }
        fs::write(&path, &whole).unwrap();
        let (spool, lines) = left_behind(&database).unwrap();
        assert_eq!(lines.len(), 3);
        spool.remove().unwrap();
        assert!(others(&database).is_empty());
    }

    #[test]
    fn a_cleared_spool_takes_lines_again() {
        let dir = tempfile::tempdir().unwrap();
        let database = database(&dir);
        let spool = Spool::create(&database, NAME).unwrap();
        spool.append(&begun("a")).unwrap();
        spool.clear_if(|| false).unwrap();
        assert_eq!(others(&database)[0].lines, [begun("a")]);
        spool.clear_if(|| true).unwrap();
        spool.append(&begun("b")).unwrap();
        drop(spool);
        assert_eq!(left_behind(&database).unwrap().1, [begun("b")]);
    }

    #[test]
    fn a_file_of_a_newer_version_is_not_guessed_and_not_lost() {
        let dir = tempfile::tempdir().unwrap();
        let database = database(&dir);
        let path = beside(&database, NAME);
        fs::write(&path, "{\"what\":\"invented\"}\n").unwrap();
        assert!(Spool::others(&database, None).unwrap()[0].is_err());
        assert!(path.exists());
    }

    #[test]
    fn what_is_not_a_spool_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let database = database(&dir);
        let copy = beside(&database, &format!("{NAME}.bak"));
        fs::write(&copy, "mine").unwrap();
        fs::create_dir(beside(&database, "d")).unwrap();
        assert!(others(&database).is_empty());
        assert_eq!(fs::read(&copy).unwrap(), b"mine");
    }

    #[test]
    fn a_spool_is_locked_before_it_can_be_found() {
        let dir = tempfile::tempdir().unwrap();
        let database = database(&dir);
        let done = std::sync::atomic::AtomicBool::new(false);
        // All of them live until nobody looks any more.
        let spools = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    let taken = others(&database).into_iter().any(|it| it.left_behind.is_some());
                    assert!(!taken, "one of a living process was taken over");
                }
            });
            let spools = (0..200_u32).map(|n| Spool::create(&database, &format!("{n:032x}")));
            let spools = spools.collect::<Result<Vec<_>, _>>();
            done.store(true, std::sync::atomic::Ordering::Relaxed);
            spools
        });
        assert_eq!(spools.unwrap().len(), 200);
    }

    #[test]
    fn nothing_is_noted_in_a_file_that_was_removed() {
        let dir = tempfile::tempdir().unwrap();
        let database = database(&dir);
        let spool = Spool::create(&database, NAME).unwrap();
        spool.append(&begun("a")).unwrap();
        fs::remove_file(spool.path()).unwrap();
        assert!(!spool.is_in_place());
        assert!(spool.append(&begun("b")).is_err());
        // Another one of that name is not it.
        fs::write(spool.path(), "").unwrap();
        assert!(spool.append(&begun("b")).is_err());
    }

    #[test]
    fn every_line_shows_from_outside() {
        let dir = tempfile::tempdir().unwrap();
        let database = database(&dir);
        let spool = Spool::create(&database, NAME).unwrap();
        let look = || glance(&listed(&database).unwrap());
        let empty = look();
        assert!(empty[0].is_empty());
        spool.append(&begun("a")).unwrap();
        assert_ne!(look(), empty);
        assert_eq!(look(), look());
    }
}
