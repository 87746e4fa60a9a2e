//! What ran without a record, on disk beside the store: a line before it is sent, a line when it
//! has ended, each synced.
//!
//! Each process has a file of its own, locked while it lives. A file that nobody holds was left
//! behind by a process that is gone, and whoever comes by takes it over.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, ErrorKind, Write},
    os::unix::fs::OpenOptionsExt,
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

impl Spool {
    /// A file of this process's own, beside a database.
    pub(crate) fn create(database: &Path, name: &str) -> io::Result<Self> {
        let path = beside(database, name);
        let mut options = OpenOptions::new();
        let file = options.read(true).append(true).create_new(true).mode(0o600).open(&path)?;
        file.try_lock().map_err(io::Error::from)?;
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

    /// The files that other processes left behind, taken over, with their lines.
    pub(crate) fn left_behind(database: &Path) -> io::Result<Vec<(Self, Vec<Line>)>> {
        let prefix = beside(database, "");
        let prefix = prefix.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut found = Vec::new();
        let entries = match fs::read_dir(directory(database)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(found),
            entries => entries?,
        };
        for entry in entries {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.starts_with(&prefix)
                && let Some(taken) = Self::take_over(path)?
            {
                found.push(taken);
            }
        }
        Ok(found)
    }

    fn take_over(path: PathBuf) -> io::Result<Option<(Self, Vec<Line>)>> {
        let file = match OpenOptions::new().read(true).append(true).open(&path) {
            // Its process has just removed it.
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let text = fs::read(&path)?;
        // A line without its end was never synced, so what it says was never done.
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        let lines = text.get(..whole).unwrap_or_default();
        let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let lines = lines.map(serde_json::from_slice).collect::<Result<Vec<_>, _>>();
        let lines = lines.map_err(|error| {
            let path = path.display();
            let what = format!("{path} holds a line that this version does not read: {error}");
            io::Error::new(ErrorKind::InvalidData, what)
        })?;
        let length = u64::try_from(whole).unwrap_or(u64::MAX);
        Ok(Some((Self { path, file: Mutex::new(Written { file, length }) }, lines)))
    }

    /// Writes a line; it is on disk when this returns. Blocks.
    pub(crate) fn append(&self, line: &Line) -> io::Result<()> {
        let mut bytes = serde_json::to_vec(line).map_err(io::Error::other)?;
        bytes.push(b'\n');
        let mut written = self.file.lock();
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

    /// Forgets all lines: they are in the store. Blocks.
    pub(crate) fn clear(&self) -> io::Result<()> {
        let mut written = self.file.lock();
        if written.length > 0 {
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

fn beside(database: &Path, name: &str) -> PathBuf {
    let mut path: OsString = database.as_os_str().to_owned();
    path.push(format!(".spool.{name}"));
    path.into()
}

fn directory(path: &Path) -> &Path {
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

    #[test]
    fn what_a_dead_process_left_behind_is_read_once_and_up_to_its_last_whole_line() {
        let dir = tempfile::tempdir().unwrap();
        let database = dir.path().join("hapax.db");
        assert!(Spool::left_behind(&database).unwrap().is_empty());
        let spool = Spool::create(&database, "one").unwrap();
        for line in [begun("a"), ended("a"), begun("b")] {
            spool.append(&line).unwrap();
        }
        assert!(Spool::left_behind(&database).unwrap().is_empty(), "its process lives");
        let path = spool.path.clone();
        drop(spool);
        let whole = fs::read(&path).unwrap();
        let last = serde_json::to_vec(&begun("b")).unwrap().len() + 1;
        // Torn anywhere in its last line, the lines before it are there.
        for torn in whole.len() - last + 1..whole.len() {
            fs::write(&path, &whole[..torn]).unwrap();
            let mut left = Spool::left_behind(&database).unwrap();
            let (_, lines) = left.pop().unwrap();
            assert_eq!(lines, [begun("a"), ended("a")], "{torn}");
        }
        fs::write(&path, &whole).unwrap();
        let (spool, lines) = Spool::left_behind(&database).unwrap().pop().unwrap();
        assert_eq!(lines.len(), 3);
        spool.remove().unwrap();
        assert!(Spool::left_behind(&database).unwrap().is_empty());
    }

    #[test]
    fn a_cleared_spool_takes_lines_again() {
        let dir = tempfile::tempdir().unwrap();
        let database = dir.path().join("hapax.db");
        let spool = Spool::create(&database, "one").unwrap();
        spool.append(&begun("a")).unwrap();
        spool.clear().unwrap();
        spool.append(&begun("b")).unwrap();
        drop(spool);
        assert_eq!(Spool::left_behind(&database).unwrap().pop().unwrap().1, [begun("b")]);
    }

    #[test]
    fn a_file_of_a_newer_version_is_not_guessed_and_not_lost() {
        let dir = tempfile::tempdir().unwrap();
        let database = dir.path().join("hapax.db");
        let path = beside(&database, "newer");
        fs::write(&path, "{\"what\":\"invented\"}\n").unwrap();
        assert!(Spool::left_behind(&database).is_err());
        assert!(path.exists());
    }
}
