//! The effects that the service has made, and the fences before those that it will not make.

use std::{
    collections::HashMap,
    fs::{self, File, OpenOptions},
    io::{BufRead, BufReader, Write},
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};

use crate::{Arrival, mode::Mode};

/// A file of JSON lines, each on disk before anything else is done.
pub(crate) struct Log {
    file: File,
    lines: u64,
}

impl Log {
    pub(crate) fn open(path: &Path) -> Self {
        let file = OpenOptions::new().create(true).append(true).open(path).expect("a log");
        let text = fs::read(path).expect("a log");
        // A process that is killed while it writes leaves a part of a line. Nothing was done that
        // it is about.
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        file.set_len(whole as u64).expect("the rest of a line is gone");
        let lines = text.iter().filter(|byte| **byte == b'\n').count() as u64;
        Self { file, lines }
    }

    pub(crate) fn append(&mut self, line: &Value) {
        let mut bytes = line.to_string().into_bytes();
        bytes.push(b'\n');
        self.file
            .write_all(&bytes)
            .and_then(|()| self.file.sync_data())
            .expect("the log is on disk");
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.lines += 1;
        self.lines
    }
}

/// The lines of a log that was opened.
fn read(path: &Path) -> impl Iterator<Item = Value> {
    let lines = BufReader::new(File::open(path).expect("a log")).lines();
    lines.map(|line| serde_json::from_str(&line.expect("a line")).expect("JSON"))
}

/// All effects. Every question and every decision is one step under its lock.
pub(crate) struct Effects {
    mode: Mode,
    log: Log,
    fences: Log,
    /// The first effect of each identity.
    first: HashMap<String, u64>,
    /// Up to which attempt each identity is closed.
    closed: HashMap<String, u64>,
    /// The highest attempt of each identity that has arrived.
    seen: HashMap<String, u64>,
}

/// Why an effect is not made.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Refusal {
    /// Its deadline is over.
    Late,
    /// Its attempt is closed.
    Closed,
    /// A later attempt has arrived.
    Older,
    /// This identity has made its effect.
    Duplicate,
}

impl Effects {
    pub(crate) fn open(dir: &Path, mode: Mode) -> Self {
        let (effects, fences) = (dir.join("effects.jsonl"), dir.join("fences.jsonl"));
        let (log, fence_log) = (Log::open(&effects), Log::open(&fences));
        let mut all = Self {
            mode,
            log,
            fences: fence_log,
            first: HashMap::new(),
            closed: HashMap::new(),
            seen: HashMap::new(),
        };
        for line in read(&effects) {
            let key = line["key"].as_str().unwrap_or_default().to_owned();
            all.first.entry(key).or_insert(line["n"].as_u64().expect("a number"));
        }
        for line in read(&fences) {
            let key = line["key"].as_str().expect("a key").to_owned();
            let number = |name: &str| line[name].as_u64().unwrap_or_default();
            raise(&mut all.closed, &key, number("closed"));
            raise(&mut all.seen, &key, number("seen"));
        }
        all
    }

    pub(crate) const fn mode(&self) -> Mode {
        self.mode
    }

    /// The first effect of an identity.
    pub(crate) fn of(&self, key: &str) -> Option<u64> {
        self.first.get(key).copied()
    }

    /// Refuses every attempt up to this one from now on.
    pub(crate) fn close(&mut self, key: &str, attempt: u64) {
        self.fences.append(&json!({ "key": key, "closed": attempt }));
        raise(&mut self.closed, key, attempt);
    }

    /// Notes that an attempt is here, where that fences the earlier ones.
    pub(crate) fn notice(&mut self, arrival: &Arrival) {
        if self.mode != Mode::Refusing {
            return;
        }
        if let (Some(key), Some(attempt)) = (arrival.key(), arrival.attempt())
            && self.seen.get(&key).is_none_or(|seen| *seen < attempt)
        {
            self.fences.append(&json!({ "key": key, "seen": attempt }));
            raise(&mut self.seen, &key, attempt);
        }
    }

    /// Makes an effect, or finds the one that this identity has made.
    pub(crate) fn make(&mut self, arrival: &Arrival) -> Result<u64, Refusal> {
        let key = arrival.key().unwrap_or_default();
        let made = self.of(&key);
        match self.mode {
            Mode::Plain | Mode::Asked => {}
            Mode::Closing => self.in_time(arrival, &key)?,
            Mode::Refusing => {
                let seen = self.seen.get(&key).copied();
                if arrival.attempt().zip(seen).is_some_and(|(attempt, seen)| attempt < seen) {
                    return Err(Refusal::Older);
                }
            }
            Mode::Unique if made.is_some() => return Err(Refusal::Duplicate),
            Mode::Unique => {}
            Mode::Collapsing => {
                if let Some(made) = made {
                    return Ok(made);
                }
            }
        }
        let number = self.log.next();
        self.log.append(&json!({
            "n": number,
            "at": now(),
            "arrival": arrival.number,
            "key": key,
            "attempt": arrival.attempt(),
            "target": arrival.head.uri.to_string(),
            "text": arrival.text,
        }));
        self.first.entry(key).or_insert(number);
        Ok(number)
    }

    fn in_time(&self, arrival: &Arrival, key: &str) -> Result<(), Refusal> {
        let deadline = arrival
            .field("hapax-deadline")
            .map(|moment| humantime::parse_rfc3339(&moment).expect("a moment"));
        if deadline.is_some_and(|deadline| deadline < SystemTime::now()) {
            return Err(Refusal::Late);
        }
        let closed = self.closed.get(key).copied();
        let is_closed = |closed| arrival.attempt().is_none_or(|attempt| attempt <= closed);
        if closed.is_some_and(is_closed) { Err(Refusal::Closed) } else { Ok(()) }
    }
}

fn raise(fences: &mut HashMap<String, u64>, key: &str, to: u64) {
    let fence = fences.entry(key.to_owned()).or_default();
    *fence = to.max(*fence);
}

/// Microseconds since 1970, by the clock that the clients of a test have too.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    u64::try_from(since.as_micros()).expect("a moment")
}
