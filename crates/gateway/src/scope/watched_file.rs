//! A file that is read again when it changes.

use std::{
    error::Error,
    fmt, fs,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::{Arc, Weak},
    time::Duration,
};

use metrics::counter;
use parking_lot::RwLock;
use thiserror::Error;
use tokio::time::{MissedTickBehavior, interval};
use tracing::{info, warn};

use crate::metric_definitions::SCOPE_KEYS_LOADED;

/// How often the file is looked at.
const EVERY: Duration = Duration::from_secs(1);

/// The largest file that is read.
const MOST: u64 = 4 << 20;

/// What a file holds, kept up to date until it is dropped.
///
/// The file is read whole and compared, so that a link that points elsewhere now, as under an
/// orchestrator, is a change like any other. New content is taken when two readings have shown the
/// same: a file that is just being written is not. Content that is wrong changes nothing and is
/// reported.
pub(super) struct WatchedFile<T> {
    current: RwLock<Arc<T>>,
}

impl<T: Send + Sync + 'static> WatchedFile<T> {
    /// Reads the file, and again whenever it changes. `source` is its name in metrics.
    pub(super) async fn open<E: Error + Send + Sync + 'static>(
        path: &Path,
        source: &'static str,
        parse: impl Fn(&[u8]) -> Result<T, E> + Send + Sync + 'static,
    ) -> Result<Arc<Self>, FileError<E>> {
        let content = read(path.to_owned()).await;
        let content =
            content.map_err(|why| FileError::Unreadable { path: path.to_owned(), why })?;
        let parsed = parse(&content);
        let parsed = parsed.map_err(|why| FileError::Wrong { path: path.to_owned(), why })?;
        let file = Arc::new(Self { current: RwLock::new(Arc::new(parsed)) });
        tokio::spawn(watch(Arc::downgrade(&file), path.to_owned(), source, content, parse));
        Ok(file)
    }

    pub(super) fn current(&self) -> Arc<T> {
        Arc::clone(&self.current.read())
    }
}

async fn watch<T, E: fmt::Display>(
    file: Weak<WatchedFile<T>>,
    path: PathBuf,
    source: &'static str,
    mut known: Vec<u8>,
    parse: impl Fn(&[u8]) -> Result<T, E>,
) {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut seen: Option<Vec<u8>> = None;
    let mut is_missing = false;
    loop {
        ticks.tick().await;
        if file.strong_count() == 0 {
            return;
        }
        let content = match read(path.clone()).await {
            Ok(content) => content,
            Err(error) => {
                if !is_missing {
                    failed(&path, source, &error);
                }
                is_missing = true;
                continue;
            }
        };
        is_missing = false;
        if content == known {
            seen = None;
        } else if seen.as_ref() != Some(&content) {
            seen = Some(content);
        } else {
            match parse(&content) {
                Ok(parsed) => {
                    let Some(file) = file.upgrade() else { return };
                    *file.current.write() = Arc::new(parsed);
                    counter!(SCOPE_KEYS_LOADED, "source" => source, "result" => "ok").increment(1);
                    info!(file = %path.display(), "read again: it has changed");
                }
                Err(error) => failed(&path, source, &error),
            }
            // Also where it is wrong: it is said once.
            known = content;
            seen = None;
        }
    }
}

fn failed(path: &Path, source: &'static str, error: &impl fmt::Display) {
    counter!(SCOPE_KEYS_LOADED, "source" => source, "result" => "failed").increment(1);
    warn!(file = %path.display(), %error, "the file is wrong now; what it held before stays in use");
}

async fn read(path: PathBuf) -> io::Result<Vec<u8>> {
    let reading = tokio::task::spawn_blocking(move || {
        let mut content = Vec::new();
        fs::File::open(path)?.take(MOST + 1).read_to_end(&mut content)?;
        let is_too_large = u64::try_from(content.len()).map_or(true, |length| length > MOST);
        if is_too_large {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is larger than 4 MiB"));
        }
        Ok(content)
    });
    reading.await.unwrap_or_else(|error| Err(io::Error::other(error)))
}

/// What is wrong with a file.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FileError<E: Error> {
    /// It is not there, or may not be read.
    #[error("{} cannot be read: {why}; check the path, and that this user may read it", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        why: io::Error,
    },
    /// It does not hold what it should.
    #[error("{}: {why}", path.display())]
    Wrong {
        /// Which.
        path: PathBuf,
        /// What is wrong, and the remedy.
        why: E,
    },
}

#[cfg(test)]
mod tests {
    use std::num::ParseIntError;

    use tokio::time::timeout;

    use super::*;

    fn number(content: &[u8]) -> Result<u32, ParseIntError> {
        String::from_utf8_lossy(content).trim().parse()
    }

    async fn eventually(file: &WatchedFile<u32>, expected: u32) {
        let changed = async {
            while *file.current() != expected {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(Duration::from_secs(20), changed).await.expect("it is read again");
    }

    #[tokio::test]
    async fn a_file_is_read_again_and_what_is_wrong_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("number");
        fs::write(&path, "1\n").unwrap();
        let file = WatchedFile::open(&path, "test", number).await.unwrap();
        assert_eq!(*file.current(), 1);
        fs::write(&path, "2\n").unwrap();
        eventually(&file, 2).await;
        fs::write(&path, "none\n").unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, "3\n").unwrap();
        assert_eq!(*file.current(), 2, "nothing in between was taken");
        eventually(&file, 3).await;
    }

    #[tokio::test]
    async fn a_file_that_is_not_there_or_wrong_is_said_with_its_path() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("number");
        let missing = WatchedFile::open(&path, "test", number).await.err().unwrap().to_string();
        assert!(missing.contains("number cannot be read"), "{missing}");
        fs::write(&path, "x").unwrap();
        let wrong = WatchedFile::open(&path, "test", number).await.err().unwrap().to_string();
        assert!(wrong.ends_with("number: invalid digit found in string"), "{wrong}");
    }
}
