//! What the tests of the SQLite store begin with.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]
#![allow(clippy::expect_used, clippy::panic, reason = "tests")]

#[cfg(feature = "sqlx")]
pub mod inside;

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use bytes::Bytes;
use hapax_core::{
    Admission, Fingerprint, FingerprintVersion, NewClaim, OutcomeClass, Owner, PolicyDigest,
    Record, RecordId, Retention, Settlement, StoredResponse,
};
use hapax_sql::{SqliteConfig, SqliteStore};
use hapax_store::{Claimed, Claims, StoreError, Written};
use rusqlite::Connection;
use tempfile::TempDir;

/// A directory for a store's file.
pub struct Place(TempDir);

impl Place {
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    pub fn dir(&self) -> &Path {
        self.0.path()
    }

    pub fn file(&self) -> PathBuf {
        self.dir().join("hapax.db")
    }

    pub fn beside(&self, suffix: &str) -> PathBuf {
        self.dir().join(format!("hapax.db{suffix}"))
    }

    pub fn open(&self) -> SqliteStore {
        SqliteStore::open(SqliteConfig::new(self.file())).expect("the store opens")
    }

    /// Somebody with a SQLite shell.
    pub fn shell(&self) -> Connection {
        shell(&self.file())
    }

    /// A consistent copy of the store, as a backup makes it.
    pub fn back_up(&self) -> PathBuf {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let copy = self.dir().join(format!("backup-{number}.db"));
        let name = copy.to_str().expect("a plain path");
        self.shell().execute("VACUUM INTO ?1", [name]).expect("a backup is made");
        copy
    }
}

pub fn shell(file: &Path) -> Connection {
    let shell = Connection::open(file).expect("the file opens");
    shell.busy_timeout(Duration::from_secs(5)).expect("a timeout is set");
    shell
}

pub fn number(shell: &Connection, sql: &str) -> i64 {
    shell.query_row(sql, (), |row| row.get(0)).expect("a number")
}

/// Runs a program, so that this process opens and closes no file that SQLite has locks on here.
pub fn run(program: &str, args: &[&Path]) {
    let status = std::process::Command::new(program).args(args).status().expect("it runs");
    assert!(status.success(), "{program} {args:?}");
}

pub fn a_claim() -> NewClaim {
    claim_of(RecordId::from_bytes(unique()))
}

pub fn claim_of(id: RecordId) -> NewClaim {
    NewClaim {
        id,
        owner: Owner::from_bytes(unique()),
        fingerprint: Fingerprint::new(FingerprintVersion::from_bytes([1; 16]), [2; 32]),
        policy: PolicyDigest([3; 32]),
        lease: Duration::from_secs(30),
        admission: Admission::WithClaim,
        secret_version: 1,
    }
}

/// Bytes that no other call in any process gave, in practice.
fn unique<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("random numbers");
    bytes
}

pub fn outcome(body: impl Into<Bytes>) -> Settlement {
    Settlement::Outcome {
        class: OutcomeClass::Succeeded,
        status: 201,
        response: Some(StoredResponse { status: 201, headers: Vec::new(), body: body.into() }),
        retention: Retention::default(),
    }
}

pub fn ours(claimed: Result<Claimed, StoreError>) -> Record {
    match claimed {
        Ok(Claimed::Ours(record)) => *record,
        other => panic!("expected Ours, got {other:?}"),
    }
}

pub fn done(written: Result<Written, StoreError>) -> Record {
    match written {
        Ok(Written::Done(record)) => *record,
        other => panic!("expected Done, got {other:?}"),
    }
}

pub async fn executing(store: &SqliteStore) -> Record {
    ours(store.claim(a_claim()).await)
}

pub fn regressed<T: std::fmt::Debug>(result: Result<T, StoreError>) -> String {
    match result {
        Err(StoreError::Regressed { reason }) => reason,
        other => panic!("expected Regressed, got {other:?}"),
    }
}
