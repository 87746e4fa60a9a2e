//! A journal in a file of SQLite.

use std::{
    fs::{OpenOptions, Permissions},
    path::Path,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use hapax_core::{Key, says_not_applied};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use parking_lot::Mutex;
use rusqlite::{
    Connection, ErrorCode, OptionalExtension, Row, Transaction, TransactionBehavior, params,
};

use super::{Begun, Ended, Journal, JournalError};
use crate::intent::{IDEMPOTENCY_KEY, Intent};

/// A journal in a file. Fields whose value is marked sensitive ([`HeaderValue::set_sensitive`]) or whose
/// name is one of a credential, such as `Authorization`, `Cookie` and `X-Api-Key`, are not written:
/// whoever resumes an intent gives them anew ([`Intent::with_credentials`]).
pub struct SqliteJournal(Mutex<Connection>);

/// The version of the file's tables, in its `user_version`.
const VERSION: i64 = 1;

const TABLES: &str = "
CREATE TABLE intent (
    key     BLOB PRIMARY KEY,
    method  TEXT NOT NULL,
    uri     TEXT NOT NULL,
    headers BLOB NOT NULL,
    body    BLOB NOT NULL,
    made    INTEGER NOT NULL,
    ended   INTEGER,
    status  INTEGER
) STRICT, WITHOUT ROWID";

/// The version of a file, how many tables there are in it, and whether ours is one of them.
const FILE: &str = "
SELECT (SELECT user_version FROM pragma_user_version), (SELECT count(*) FROM sqlite_master),
(SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'intent')";

/// One that has ended is sent again by whoever wants its answer again; its key is as old as it was.
const BEGIN: &str = "
INSERT INTO intent (key, method, uri, headers, body, made) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (key) DO UPDATE SET method = excluded.method, uri = excluded.uri,
headers = excluded.headers, body = excluded.body, ended = NULL, status = NULL
WHERE intent.ended IS NOT NULL";

/// What is there of a key. What has ended has no content any more.
const THERE: &str = "
SELECT method, uri, headers, body, made, ended IS NOT NULL, status FROM intent WHERE key = ?1";

/// The content is not needed any more, and may be large.
const END: &str = "
UPDATE intent SET ended = ?2, status = ?3, headers = x'', body = x'' WHERE key = ?1 AND ended IS NULL";

const OPEN: &str = "
SELECT key, method, uri, headers, body, made FROM intent WHERE ended IS NULL ORDER BY made, key";

const FIND: &str = "
SELECT key, method, uri, headers, body, made FROM intent WHERE ended IS NULL AND key = ?1";

const FORGET: &str = "DELETE FROM intent WHERE ended < ?1";

/// How long it is remembered that an intent has ended.
const REMEMBERED: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// How long another process may hold the file.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long is waited before a file is tried again that another process has locked.
const TURN: Duration = Duration::from_millis(5);

/// What the names of fields with credentials have in them: `Authorization`, `X-Api-Key` and their like.
const SECRETS: [&str; 10] = [
    "authorization",
    "auth-",
    "-auth",
    "cookie",
    "token",
    "secret",
    "password",
    "credential",
    "api-key",
    "apikey",
];

impl SqliteJournal {
    /// Opens the journal in this file, and makes it where there is none: for its owner alone.
    ///
    /// # Errors
    /// [`JournalError`] when the file cannot be opened or is no journal.
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        let failed = |reason: &str| format!("{}: {reason}", path.display());
        make_private(path)
            .map_err(|error| JournalError::new(failed("it cannot be made")).because(error))?;
        let prepared =
            Connection::open(path).and_then(|mut conn| prepare(&mut conn).map(|file| (conn, file)));
        let (conn, file) = prepared
            .map_err(|error| JournalError::new(failed("it cannot be read")).because(error))?;
        match file {
            File::Empty | File::Journal => {}
            File::Newer => {
                return Err(JournalError::new(failed("it was written by a newer version")));
            }
            File::Other => return Err(JournalError::new(failed("it is no journal"))),
        }
        Ok(Self(Mutex::new(conn)))
    }

    /// Every intent whose outcome is not known, the oldest first.
    ///
    /// # Errors
    /// [`JournalError`] when the file cannot be read.
    pub fn open_intents(&self) -> Result<Vec<Intent>, JournalError> {
        let conn = self.0.lock();
        let mut statement = conn.prepare_cached(OPEN)?;
        let intents = statement.query_map((), intent)?;
        intents.map(|read| read?.ok_or_else(unreadable)).collect()
    }

    /// The intent of this key, if its outcome is not known.
    ///
    /// # Errors
    /// [`JournalError`] when the file cannot be read.
    pub fn open_intent(&self, key: &Key) -> Result<Option<Intent>, JournalError> {
        let conn = self.0.lock();
        let mut statement = conn.prepare_cached(FIND)?;
        let read = statement.query_row([key.as_bytes()], intent).optional()?;
        read.map(|read| read.ok_or_else(unreadable)).transpose()
    }
}

impl Journal for SqliteJournal {
    fn begin(&self, intent: &Intent) -> Result<Begun, JournalError> {
        let Some(key) = intent.key().map(Key::as_bytes) else { return Ok(Begun::New) };
        let (method, uri) = (intent.method().as_str(), intent.uri().to_string());
        let (headers, body) = (write_headers(intent.headers()), &intent.body()[..]);
        let mut conn = self.0.lock();
        let transaction = immediately(&mut conn)?;
        let there = transaction.prepare_cached(THERE)?.query_row([key], there).optional()?;
        if there.as_ref().is_some_and(|there| !there.is_of(intent)) {
            return Err(JournalError::new("this key was used for another request; take a new one"));
        }
        let made = micros(intent.made());
        transaction
            .prepare_cached(BEGIN)?
            .execute(params![key, method, uri, headers, body, made])?;
        transaction.commit()?;
        Ok(there.map_or(Begun::New, There::begun))
    }

    fn end(&self, key: &Key, ended: Ended) -> Result<(), JournalError> {
        let status = match ended {
            Ended::Done(status) => Some(status),
            Ended::Refused => None,
        };
        let now = micros(SystemTime::now());
        let conn = self.0.lock();
        conn.prepare_cached(END)?.execute(params![key.as_bytes(), now, status])?;
        Ok(())
    }
}

/// What is there of a key.
struct There {
    method: String,
    uri: String,
    headers: Vec<u8>,
    body: Vec<u8>,
    made: i64,
    has_ended: bool,
    status: Option<u16>,
}

fn there(row: &Row<'_>) -> rusqlite::Result<There> {
    let (method, uri, headers) = (row.get(0)?, row.get(1)?, row.get(2)?);
    let (body, made, has_ended, status) = (row.get(3)?, row.get(4)?, row.get(5)?, row.get(6)?);
    Ok(There { method, uri, headers, body, made, has_ended, status })
}

impl There {
    /// What was sent with a key is sent with it, and the key as it was written: nothing else.
    fn is_of(&self, intent: &Intent) -> bool {
        let key = |headers: &HeaderMap| headers.get(IDEMPOTENCY_KEY).cloned();
        let written = read_headers(&self.headers).and_then(|headers| key(&headers));
        let place = self.method == intent.method().as_str() && self.uri == intent.uri().to_string();
        let content = self.body == *intent.body() && written == key(intent.headers());
        self.was_refused() || place && (self.has_ended || content)
    }

    /// Whether it ended and nothing of it happened.
    fn was_refused(&self) -> bool {
        self.has_ended && self.status.is_none_or(says_not_applied)
    }

    fn begun(self) -> Begun {
        if self.was_refused() { Begun::New } else { Begun::Again { made: moment(self.made) } }
    }
}

/// An empty file of SQLite is a database; one that is there already keeps what it may.
fn make_private(path: &Path) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    match options.open(path) {
        Ok(file) => private(&file),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(unix)]
fn private(file: &std::fs::File) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    file.set_permissions(Permissions::from_mode(0o600))
}

#[cfg(not(unix))]
fn private(_: &std::fs::File) -> std::io::Result<()> {
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "this file is no store of hapax-sql")]
fn immediately(conn: &mut Connection) -> rusqlite::Result<Transaction<'_>> {
    conn.transaction_with_behavior(TransactionBehavior::Immediate)
}

/// Who makes a file at the same time locks it in ways that SQLite does not wait for.
#[expect(clippy::disallowed_methods, reason = "waits for a file, as SQLite does everywhere else")]
fn prepare(conn: &mut Connection) -> rusqlite::Result<File> {
    let begun = Instant::now();
    loop {
        let prepared = prepare_once(conn);
        let is_busy = prepared.as_ref().is_err_and(|error| {
            matches!(
                error.sqlite_error_code(),
                Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
            )
        });
        if !is_busy || begun.elapsed() >= PATIENCE {
            return prepared;
        }
        std::thread::sleep(TURN);
    }
}

fn prepare_once(conn: &mut Connection) -> rusqlite::Result<File> {
    conn.busy_timeout(PATIENCE)?;
    // Somebody else's database is not touched.
    let found = file(conn)?;
    if matches!(found, File::Newer | File::Other) {
        return Ok(found);
    }
    conn.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    // Durable when it returns.
    conn.pragma_update(None, "synchronous", "FULL")?;
    let transaction = immediately(conn)?;
    // Another process may have been quicker.
    if file(&transaction)? == File::Empty {
        transaction.execute(TABLES, ())?;
        transaction.pragma_update(None, "user_version", VERSION)?;
    }
    let old = SystemTime::now().checked_sub(REMEMBERED).unwrap_or(UNIX_EPOCH);
    transaction.execute(FORGET, [micros(old)])?;
    transaction.commit()?;
    Ok(File::Journal)
}

/// What a file is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum File {
    Empty,
    Journal,
    /// Of a version that this one does not know.
    Newer,
    Other,
}

fn file(conn: &Connection) -> rusqlite::Result<File> {
    let (version, tables, journals) = conn.query_row(FILE, (), |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))
    })?;
    Ok(match (version, tables, journals) {
        (0, 0, _) => File::Empty,
        (VERSION, _, 1) => File::Journal,
        (newer, _, 1) if newer > VERSION => File::Newer,
        _ => File::Other,
    })
}

fn micros(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

fn moment(micros: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

/// `None` where what is written there is no intent.
fn intent(row: &Row<'_>) -> rusqlite::Result<Option<Intent>> {
    let (key, method, uri) =
        (row.get::<_, Vec<u8>>(0)?, row.get::<_, String>(1)?, row.get::<_, String>(2)?);
    let (headers, body, made) =
        (row.get::<_, Vec<u8>>(3)?, row.get::<_, Vec<u8>>(4)?, row.get::<_, i64>(5)?);
    let made = moment(made);
    let read = || {
        let method = Method::from_bytes(method.as_bytes()).ok()?;
        let (uri, headers) = (uri.parse::<Uri>().ok()?, read_headers(&headers)?);
        let key = Key::from_bytes(&key).ok()?;
        Some(Intent::resumed(method, uri, headers, Bytes::from(body), Some(key), made))
    };
    Ok(read())
}

fn unreadable() -> JournalError {
    JournalError::new("the journal holds an intent that cannot be read")
}

/// Each field with its value, as on the wire: neither holds the end of a line.
fn write_headers(headers: &HeaderMap) -> Vec<u8> {
    let kept = headers.iter().filter(|(name, value)| !is_secret(name, value));
    let lines =
        kept.flat_map(|(name, value)| [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"]);
    lines.flatten().copied().collect()
}

/// It is nobody's business, and old by the time that it is needed again.
fn is_secret(name: &HeaderName, value: &HeaderValue) -> bool {
    let has = |word: &&str| name.as_str().contains(*word);
    name != IDEMPOTENCY_KEY && (value.is_sensitive() || SECRETS.iter().any(has))
}

fn read_headers(bytes: &[u8]) -> Option<HeaderMap> {
    let mut headers = HeaderMap::new();
    for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let line = line.strip_suffix(b"\r")?;
        let colon = line.windows(2).position(|pair| pair == b": ")?;
        let name = HeaderName::from_bytes(line.get(..colon)?).ok()?;
        headers.append(name, HeaderValue::from_bytes(line.get(colon + 2..)?).ok()?);
    }
    Some(headers)
}

impl From<rusqlite::Error> for JournalError {
    fn from(error: rusqlite::Error) -> Self {
        Self::new("the journal cannot be read or written").because(error)
    }
}
