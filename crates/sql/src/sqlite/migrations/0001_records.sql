-- Records and what belongs to them. Bytes are BLOB and compared byte by byte; times are
-- microseconds since the Unix epoch, on the store's clock. Every name begins with hapax_, since the
-- tables may lie beside those of an application.

-- The store's incarnation: one row.
CREATE TABLE hapax_store (
    one   INTEGER PRIMARY KEY CHECK (one = 1),
    uuid  BLOB NOT NULL,
    epoch INTEGER NOT NULL
) STRICT;

-- Each node's own counter: a store that went back in time shows it where the node left it before.
CREATE TABLE hapax_mark (
    node BLOB PRIMARY KEY,
    seq  INTEGER NOT NULL,
    at   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What records are judged by. A digest without a text was used before its text was stored.
CREATE TABLE hapax_policy (
    n         INTEGER PRIMARY KEY,
    digest    BLOB NOT NULL UNIQUE,
    operation TEXT,
    text      TEXT
) STRICT;

CREATE TABLE hapax_secret (
    version     INTEGER PRIMARY KEY,
    fingerprint BLOB NOT NULL
) STRICT;

-- state: 0 claimed, 1 executing, 2 uncertain; the rest is told by the ending of the attempt.
-- progress: 0 judged as a whole, 1 its steps account for every effect, 2 a step is in doubt, which
-- may be done again before resend_before.
-- AUTOINCREMENT: a claim number is never used again, not even the highest one after a purge.
CREATE TABLE hapax_record (
    claim          INTEGER PRIMARY KEY AUTOINCREMENT,
    id             BLOB NOT NULL UNIQUE,
    attempt        INTEGER NOT NULL,
    owner          BLOB NOT NULL,
    state          INTEGER NOT NULL,
    fingerprint    BLOB NOT NULL,
    policy         INTEGER NOT NULL,
    lease_end      INTEGER,
    clean          INTEGER NOT NULL,
    first_admitted INTEGER,
    progress       INTEGER NOT NULL,
    resend_before  INTEGER,
    secret_version INTEGER NOT NULL,
    created        INTEGER NOT NULL
) STRICT;

-- Operators look for what is uncertain; it is rare among many.
CREATE INDEX hapax_record_uncertain ON hapax_record (claim) WHERE state = 2;

-- The one row that ends an attempt: the slot (claim, attempt) is the arbiter.
-- kind: 0 outcome, 1 superseded, 2 released. class: 0 succeeded, 1 failed_terminal.
-- due: when the sweeper has to look at it next; NULL for what goes with its record.
CREATE TABLE hapax_ending (
    claim           INTEGER NOT NULL,
    attempt         INTEGER NOT NULL,
    kind            INTEGER NOT NULL,
    class           INTEGER,
    status          INTEGER,
    kept            INTEGER NOT NULL,
    at              INTEGER NOT NULL,
    outcome_until   INTEGER NOT NULL,
    tombstone_until INTEGER NOT NULL,
    due             INTEGER,
    PRIMARY KEY (claim, attempt)
) STRICT, WITHOUT ROWID;

CREATE INDEX hapax_ending_due ON hapax_ending (due) WHERE due IS NOT NULL;

-- The wide part of a record. kind: 0 the stored outcome, 1 an observed answer.
CREATE TABLE hapax_body (
    claim   INTEGER PRIMARY KEY,
    attempt INTEGER NOT NULL,
    kind    INTEGER NOT NULL,
    head    BLOB NOT NULL,
    bytes   BLOB NOT NULL
) STRICT;

-- The steps of a record, in the order in which they were first begun. version and data: what a step
-- came to; NULL while it is in doubt.
CREATE TABLE hapax_step (
    claim   INTEGER NOT NULL,
    n       INTEGER NOT NULL,
    name    TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    begun   INTEGER NOT NULL,
    version INTEGER,
    data    BLOB,
    PRIMARY KEY (claim, n)
) STRICT, WITHOUT ROWID;

-- What happened to a record beside its plain course.
CREATE TABLE hapax_history (
    claim   INTEGER NOT NULL,
    n       INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    what    TEXT NOT NULL,
    PRIMARY KEY (claim, n)
) STRICT, WITHOUT ROWID;

-- Observe mode's memory, in the order of last arrivals; it decides nothing.
-- end_kind: 0 outcome, 1 not applied, 2 unknown.
CREATE TABLE hapax_observed (
    arrival     INTEGER PRIMARY KEY,
    id          BLOB NOT NULL UNIQUE,
    operation   TEXT NOT NULL,
    keyed       INTEGER NOT NULL,
    fingerprint BLOB NOT NULL,
    first       INTEGER NOT NULL,
    last        INTEGER NOT NULL,
    end_kind    INTEGER,
    end_class   INTEGER,
    end_at      INTEGER,
    lease_end   INTEGER NOT NULL,
    arrivals    INTEGER NOT NULL,
    replays     INTEGER NOT NULL,
    waits       INTEGER NOT NULL,
    refusals    INTEGER NOT NULL,
    holds       INTEGER NOT NULL,
    remember    INTEGER NOT NULL,
    until       INTEGER NOT NULL
) STRICT;

CREATE INDEX hapax_observed_until ON hapax_observed (until);
