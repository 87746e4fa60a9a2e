//! What other processes on the same database noted: a key that ran at one of them is not executed
//! here before the store knows of it.

use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use hapax_core::{Classified, Problem, RecordId};
use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::warn;

use super::{
    hexadecimal::exactly,
    words::{judge, ran_without_record},
};
use crate::{
    causes::with_causes,
    spool::{Ended, Glance, Line, Other, Spool, Unreadable, directory, glance, listed},
};

/// A directory that changed so lately may change again within the same moment of its clock.
const SETTLES: Duration = Duration::from_secs(2);

/// What is noted in the files of other processes, and was not brought in yet.
pub(super) struct Others {
    database: PathBuf,
    /// Held while files are read, and by nobody who serves a request.
    reader: Mutex<Reader>,
    noted: Mutex<Noted>,
}

#[derive(Default)]
struct Reader {
    looked: Option<Instant>,
    /// The files, and when they were listed.
    listed: Option<(Vec<PathBuf>, SystemTime)>,
    seen: Vec<Glance>,
}

#[derive(Default)]
struct Noted {
    /// How long its reading took.
    took: Duration,
    /// Whether there are any files.
    are_listed: bool,
    /// Whether a file holds anything.
    is_something: bool,
    /// The records that may have run.
    records: HashMap<RecordId, Ran>,
    /// The runs under way that the store knows of.
    in_store: HashSet<String>,
}

#[derive(Clone, Copy)]
struct Ran {
    may_again: bool,
    is_in_store: bool,
}

impl Others {
    pub(super) fn new(database: PathBuf) -> Self {
        Self { database, reader: Mutex::default(), noted: Mutex::default() }
    }

    /// Whether anything is noted that the store may not know of.
    pub(super) fn are_there(&self) -> bool {
        self.noted.lock().records.values().any(|ran| !ran.is_in_store)
    }

    /// Whether there are other processes that may note something.
    pub(super) fn are_listed(&self) -> bool {
        self.noted.lock().are_listed
    }

    /// Whether a file of another process holds something.
    pub(super) fn hold_something(&self) -> bool {
        self.noted.lock().is_something
    }

    /// How long it took to read them.
    pub(super) fn took(&self) -> Duration {
        self.noted.lock().took
    }

    /// What a request gets whose key another process had, and the store may not know it; `None`:
    /// nothing is known of it.
    pub(super) fn known(&self, id: &RecordId) -> Option<Problem> {
        let ran = self.noted.lock().records.get(id).copied()?;
        (!ran.may_again && !ran.is_in_store).then(ran_without_record)
    }

    /// The same, also where the store knows: it may not be there to say so.
    pub(super) fn ever_known(&self, id: &RecordId) -> Option<Problem> {
        let ran = self.noted.lock().records.get(id).copied()?;
        (!ran.may_again).then(ran_without_record)
    }

    pub(super) fn is_in_store(&self, run: &str) -> bool {
        self.noted.lock().in_store.contains(run)
    }

    pub(super) fn note_in_store(&self, run: String, id: Option<RecordId>) {
        let mut noted = self.noted.lock();
        noted.in_store.insert(run);
        if let Some(ran) = id.and_then(|id| noted.records.get_mut(&id)) {
            ran.is_in_store = true;
        }
    }

    /// Reads what changed since it was last read. Blocks.
    pub(super) fn catch_up(&self, own: Option<&Path>) {
        let mut reader = self.reader.lock();
        // Of what takes long to read, what was read just now counts.
        if reader.looked.is_some_and(|looked| looked.elapsed() < self.took() * 2) {
            return;
        }
        let begun = Instant::now();
        let seen = reader.glance(&self.database, own);
        if seen != reader.seen {
            let is_something = seen.iter().any(|glance| !glance.is_empty());
            // What changes while it is read is read again the next time.
            reader.seen = seen;
            let others = read(&self.database, own);
            let took = begun.elapsed();
            let mut noted = self.noted.lock();
            (noted.took, noted.is_something) = (took, is_something);
            noted.are_listed = !reader.seen.is_empty();
            others.iter().for_each(|others| noted.take_over(others));
        }
        reader.looked = Some(Instant::now());
    }
}

impl Reader {
    fn glance(&mut self, database: &Path, own: Option<&Path>) -> Vec<Glance> {
        let changed = std::fs::metadata(directory(database)).and_then(|it| it.modified());
        let stands = self.listed.as_ref().zip(changed.ok()).is_some_and(|((_, at), changed)| {
            at.duration_since(changed).is_ok_and(|since| since > SETTLES)
        });
        if !stands {
            let now = SystemTime::now();
            match listed(database) {
                Ok(paths) => self.listed = Some((paths, now)),
                Err(error) => warn!(%error, "what other processes noted cannot be looked for"),
            }
        }
        let paths = self.listed.iter().flat_map(|(paths, _)| paths);
        let paths = paths.filter(|path| Some(&***path) != own).cloned().collect::<Vec<_>>();
        glance(&paths)
    }
}

/// The files of other processes; `None` where they cannot be looked for.
fn read(database: &Path, own: Option<&Path>) -> Option<Vec<Result<Other, Unreadable>>> {
    let others = Spool::others(database, own);
    others
        .inspect_err(|error| warn!(%error, "what other processes noted cannot be looked for"))
        .ok()
}

impl Noted {
    fn take_over(&mut self, others: &[Result<Other, Unreadable>]) {
        // Of one that cannot be read, what was known of it stays known.
        let is_whole = others.iter().all(Result::is_ok);
        for unreadable in others.iter().filter_map(|other| other.as_ref().err()) {
            warn!(error = %with_causes(unreadable), "what another process noted is not known here");
        }
        if is_whole {
            self.records.clear();
        }
        let mut noted = HashSet::new();
        for Other { lines, .. } in others.iter().flatten() {
            let ends = ends(lines);
            for line in lines {
                let Line::Begun(begun) = line else { continue };
                noted.insert(begun.run.clone());
                let Some(id) = exactly(&begun.record).map(RecordId::from_bytes) else { continue };
                let may_again = ends.get(&*begun.run).is_some_and(|end| frees(end));
                // A record with several runs is what all of them are.
                let is_in_store = may_again || self.in_store.contains(&begun.run);
                let all = Ran { may_again: true, is_in_store: true };
                let ran = self.records.entry(id).or_insert(all);
                ran.may_again &= may_again;
                ran.is_in_store &= is_in_store;
            }
        }
        if is_whole {
            self.in_store.retain(|run| noted.contains(run));
        }
    }
}

/// Whether nothing happened: its key may be executed again, and its own process tells the store.
pub(super) fn frees(end: &Ended) -> bool {
    judge(false, end, true) == Classified::NotApplied
}

/// The ends in a file, by their runs.
pub(super) fn ends(lines: &[Line]) -> HashMap<&str, &Ended> {
    let ends = lines.iter().filter_map(|line| match line {
        Line::Ended(ended) => Some((ended.run.as_str(), ended)),
        Line::Begun(_) => None,
    });
    ends.collect()
}
