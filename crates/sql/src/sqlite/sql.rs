//! Every statement of the SQLite store.
//!
//! Each is prepared once for each connection; a test prepares all of them on a fresh schema.

/// The columns of a record and of the ending of its present attempt, in the order that
/// `rows::record` reads them.
macro_rules! record {
    ($tail:literal) => {
        concat!(
            "SELECT r.claim, r.id, r.attempt, r.owner, r.state, r.fingerprint, p.digest, ",
            "r.lease_end, r.clean, r.first_admitted, r.progress, r.resend_before, ",
            "r.secret_version, r.created, ",
            "e.kind, e.class, e.status, e.kept, e.at, e.outcome_until, e.tombstone_until, ",
            "e.verdict",
            $tail
        )
    };
}

/// The tables behind [`record!`]'s columns.
macro_rules! record_tables {
    ($head:literal, $tail:literal) => {
        concat!(
            record!($head),
            " FROM hapax_record r JOIN hapax_policy p ON p.n = r.policy ",
            "LEFT JOIN hapax_ending e ON e.claim = r.claim AND e.attempt = r.attempt ",
            $tail
        )
    };
}

macro_rules! statements {
    ($($(#[$doc:meta])* $name:ident = $text:expr;)+) => {
        $($(#[$doc])* pub(super) const $name: &str = $text;)+

        /// All of the above, with their names.
        #[cfg(test)]
        pub(super) const ALL: &[(&str, &str)] = &[$((stringify!($name), $name)),+];
    };
}

statements! {
    BEGIN = "BEGIN IMMEDIATE";
    BEGIN_READING = "BEGIN";
    /// The first read of a transaction fixes what all its reads see.
    LOOK = "SELECT count(*) FROM hapax_store";
    COMMIT = "COMMIT";
    ROLLBACK = "ROLLBACK";

    /// Work of several parts that is done as a whole or not, within a transaction.
    BEGIN_PART = "SAVEPOINT part";
    UNDO_PART = "ROLLBACK TO part";
    END_PART = "RELEASE part";

    /// The application's transaction. Its savepoint is gone when somebody else has ended it.
    #[cfg_attr(not(feature = "sqlx"), allow(dead_code))]
    BEGIN_WITH_SAVEPOINT = "BEGIN IMMEDIATE; SAVEPOINT hapax";
    #[cfg_attr(not(feature = "sqlx"), allow(dead_code))]
    MOVE_SAVEPOINT = "RELEASE hapax; SAVEPOINT hapax";
    #[cfg_attr(not(feature = "sqlx"), allow(dead_code))]
    SET_SAVEPOINT = "SAVEPOINT hapax";
    #[cfg_attr(not(feature = "sqlx"), allow(dead_code))]
    UNDO_TO_SAVEPOINT = "ROLLBACK TO hapax";
    #[cfg_attr(not(feature = "sqlx"), allow(dead_code))]
    END_SAVEPOINT = "RELEASE hapax";
    /// How the application's connection writes, and into which file.
    #[cfg_attr(not(feature = "sqlx"), allow(dead_code))]
    DURABILITY =
        "SELECT (SELECT file FROM pragma_database_list WHERE name = 'main'), \
         (SELECT journal_mode FROM pragma_journal_mode), \
         (SELECT synchronous FROM pragma_synchronous)";
    /// What a claim in the application's transaction has to know.
    #[cfg_attr(not(feature = "sqlx"), allow(dead_code))]
    EPOCH_AND_POLICY =
        "SELECT epoch, (SELECT n FROM hapax_policy WHERE digest = ?1) FROM hapax_store";

    CHECKPOINT = "PRAGMA wal_checkpoint(TRUNCATE)";
    /// Answers `ok` where nothing is wrong.
    CHECK = "PRAGMA integrity_check(1)";
    /// Changes when another connection has committed.
    DATA_VERSION = "PRAGMA data_version";

    /// The store's incarnation and where this node's mark stands.
    STANDING = "SELECT uuid, epoch, (SELECT seq FROM hapax_mark WHERE node = ?1) FROM hapax_store";
    ADD_MARK = "INSERT INTO hapax_mark (node, seq, at) VALUES (?1, 0, ?2)";
    ADVANCE_MARK = "UPDATE hapax_mark SET seq = seq + 1, at = ?3 WHERE node = ?1 AND seq = ?2";
    RAISE_EPOCH = "UPDATE hapax_store SET epoch = epoch + 1";
    ADD_STORE =
        "INSERT INTO hapax_store (one, uuid, epoch) VALUES (1, ?1, 0) ON CONFLICT DO NOTHING";

    POLICY_NUMBER = "SELECT n FROM hapax_policy WHERE digest = ?1";
    ADD_POLICY_NUMBER = "INSERT INTO hapax_policy (digest) VALUES (?1)";
    ADD_POLICY =
        "INSERT INTO hapax_policy (digest, operation, text) VALUES (?1, ?2, ?3) \
         ON CONFLICT (digest) DO UPDATE SET operation = excluded.operation, text = excluded.text \
         WHERE text IS NULL";
    POLICY_TEXT = "SELECT text FROM hapax_policy WHERE digest = ?1 AND text IS NOT NULL";
    OPERATIONS = "SELECT DISTINCT operation FROM hapax_policy WHERE operation IS NOT NULL ORDER BY 1";

    SECRET = "SELECT fingerprint FROM hapax_secret WHERE version = ?1";
    ADD_SECRET =
        "INSERT INTO hapax_secret (version, fingerprint) VALUES (?1, ?2) ON CONFLICT DO NOTHING";

    /// The claim: the unique id arbitrates, nothing is read before. The connection tells the row's
    /// number: RETURNING has SQLite keep a copy of each page that the statement changes.
    ADD_RECORD =
        "INSERT INTO hapax_record (id, attempt, owner, state, fingerprint, policy, lease_end, \
         clean, first_admitted, progress, resend_before, secret_version, created) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13) \
         ON CONFLICT (id) DO NOTHING";
    /// The condition repeats what was read (`protocol.md` 3).
    MOVE_RECORD =
        "UPDATE hapax_record SET attempt = ?9, owner = ?10, state = ?11, fingerprint = ?12, \
         policy = ?13, lease_end = ?14, clean = ?15, first_admitted = ?16, progress = ?17, \
         resend_before = ?18 \
         WHERE claim = ?1 AND attempt = ?2 AND owner = ?3 AND state = ?4 AND fingerprint = ?5 \
         AND lease_end IS ?6 AND progress = ?7 AND resend_before IS ?8";
    RECORD_BY_CLAIM = record_tables!("", "WHERE r.claim = ?1");
    RECORD_BY_ID = record_tables!("", "WHERE r.id = ?1");

    ADD_ENDING =
        "INSERT INTO hapax_ending (claim, attempt, kind, class, status, kept, at, outcome_until, \
         tombstone_until, due, verdict) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) \
         ON CONFLICT DO NOTHING";
    /// A claim after a release takes the stub's slot; from here on it goes with its record.
    TAKE_STUB =
        "UPDATE hapax_ending SET due = NULL \
         WHERE claim = ?1 AND attempt = ?2 AND kind = 2 AND due IS NOT NULL";

    BODY = "SELECT head, bytes FROM hapax_body WHERE claim = ?1 AND kind = ?2";
    PUT_BODY =
        "INSERT INTO hapax_body (claim, attempt, kind, head, bytes) VALUES (?1, ?2, ?3, ?4, ?5) \
         ON CONFLICT (claim) DO UPDATE SET attempt = excluded.attempt, kind = excluded.kind, \
         head = excluded.head, bytes = excluded.bytes";
    DROP_BODY = "DELETE FROM hapax_body WHERE claim = ?1";

    STEPS =
        "SELECT n, name, attempt, begun, version, data FROM hapax_step \
         WHERE claim = ?1 ORDER BY n";
    /// The step of this name, and the one in doubt.
    STEPS_CONCERNED =
        "SELECT n, name, attempt, begun, version, data FROM hapax_step \
         WHERE claim = ?1 AND (name = ?2 OR version IS NULL)";
    ADD_STEP =
        "INSERT INTO hapax_step (claim, n, name, attempt, begun, version, data) VALUES (?1, \
         (SELECT coalesce(max(n), 0) + 1 FROM hapax_step WHERE claim = ?1), ?2, ?3, ?4, ?5, ?6)";
    BEGIN_STEP_AGAIN =
        "UPDATE hapax_step SET attempt = ?3 WHERE claim = ?1 AND n = ?2 AND version IS NULL";
    END_STEP =
        "UPDATE hapax_step SET version = ?3, data = ?4 \
         WHERE claim = ?1 AND n = ?2 AND version IS NULL";
    DROP_STEP = "DELETE FROM hapax_step WHERE claim = ?1 AND n = ?2 AND version IS NULL";
    DROP_STEPS = "DELETE FROM hapax_step WHERE claim = ?1";

    NOTE =
        "INSERT INTO hapax_history (claim, n, at, attempt, what, actor, reason) VALUES (?1, \
         (SELECT coalesce(max(n), 0) + 1 FROM hapax_history WHERE claim = ?1), ?2, ?3, ?4, ?5, \
         ?6)";
    HISTORY =
        "SELECT at, attempt, what, actor, reason FROM hapax_history WHERE claim = ?1 ORDER BY n";

    /// Whether this was noted before.
    HAS_SAID =
        "SELECT 1 FROM hapax_history WHERE claim = ?1 AND actor = ?2 AND reason = ?3 LIMIT 1";
    /// What became uncertain, or begins a later attempt, is looked at from a moment on.
    WATCH =
        "INSERT INTO hapax_watch (claim, due, probes) VALUES (?1, ?2, 0) \
         ON CONFLICT (claim) DO UPDATE SET due = excluded.due, probes = 0, evidence = NULL, \
         holder = NULL, held_until = NULL";
    END_WATCH = "DELETE FROM hapax_watch WHERE claim = ?1";
    /// Whether a record is held by this token, and what was learned of it last.
    HELD = "SELECT evidence FROM hapax_watch WHERE claim = ?1 AND holder = ?2";
    HOLD =
        "UPDATE hapax_watch SET holder = ?2, held_until = ?3 \
         WHERE claim = ?1 AND due <= ?4 AND (holder IS NULL OR held_until <= ?4)";
    PUT_OFF =
        "UPDATE hapax_watch SET due = ?3, probes = probes + 1, evidence = ?4, holder = NULL, \
         held_until = NULL WHERE claim = ?1 AND holder = ?2";
    /// Uncertain, due and free, of these operations; the longest due first.
    DUE =
        "SELECT w.claim, p.operation, w.probes FROM hapax_watch w \
         JOIN hapax_record r ON r.claim = w.claim JOIN hapax_policy p ON p.n = r.policy \
         LEFT JOIN hapax_ending e ON e.claim = r.claim AND e.attempt = r.attempt \
         WHERE w.due <= ?1 AND (w.holder IS NULL OR w.held_until <= ?1) AND r.state = 2 \
         AND e.kind IS NULL AND p.operation IN (SELECT value FROM json_each(?2)) \
         ORDER BY w.due LIMIT ?3";
    /// Later attempts whose lease may be over.
    DUE_EXECUTING =
        "SELECT w.claim FROM hapax_watch w JOIN hapax_record r ON r.claim = w.claim \
         LEFT JOIN hapax_ending e ON e.claim = r.claim AND e.attempt = r.attempt \
         WHERE w.due <= ?1 AND r.state = 1 AND r.lease_end <= ?1 AND e.kind IS NULL \
         ORDER BY w.due LIMIT ?2";
    /// The next records in the order of claims, and which of them have not ended.
    RECORDS_AFTER =
        "SELECT r.claim, r.lease_end, e.kind IS NULL AND r.state <> 2 FROM hapax_record r \
         LEFT JOIN hapax_ending e ON e.claim = r.claim AND e.attempt = r.attempt \
         WHERE r.claim > ?1 ORDER BY r.claim LIMIT ?2";
    /// Walks what is watched, which is rare among records.
    DOUBTS =
        "SELECT p.operation, coalesce(r.first_admitted, r.created) FROM hapax_watch w \
         JOIN hapax_record r ON r.claim = w.claim JOIN hapax_policy p ON p.n = r.policy \
         LEFT JOIN hapax_ending e ON e.claim = r.claim AND e.attempt = r.attempt \
         WHERE r.state = 2 AND e.kind IS NULL ORDER BY p.operation";

    /// Due before their tombstones are: their bodies and steps are still there.
    OUTCOMES_OVER = "SELECT e.claim, coalesce(length(b.bytes), 0) + \
         (SELECT coalesce(sum(length(data)), 0) FROM hapax_step WHERE claim = e.claim) \
         FROM hapax_ending e \
         LEFT JOIN hapax_body b ON b.claim = e.claim \
         WHERE e.due <= ?1 AND e.due < e.tombstone_until ORDER BY e.due LIMIT ?2";
    DROP_BODIES = "DELETE FROM hapax_body WHERE claim IN (SELECT value FROM json_each(?1))";
    SWEEP_STEPS = "DELETE FROM hapax_step WHERE claim IN (SELECT value FROM json_each(?1))";
    /// The tombstone is what is due next.
    BURY =
        "UPDATE hapax_ending SET due = tombstone_until \
         WHERE claim IN (SELECT value FROM json_each(?1)) AND due IS NOT NULL";
    TOMBSTONES_OVER =
        "SELECT e.claim FROM hapax_ending e \
         JOIN hapax_record r ON r.claim = e.claim AND r.attempt = e.attempt \
         WHERE e.due <= ?1 AND e.tombstone_until <= ?1 ORDER BY e.due LIMIT ?2";
    PURGE_HISTORY = "DELETE FROM hapax_history WHERE claim IN (SELECT value FROM json_each(?1))";
    PURGE_RECORDS = "DELETE FROM hapax_record WHERE claim IN (SELECT value FROM json_each(?1))";
    PURGE_ENDINGS = "DELETE FROM hapax_ending WHERE claim IN (SELECT value FROM json_each(?1))";
    PURGE_OBSERVED =
        "DELETE FROM hapax_observed WHERE arrival IN \
         (SELECT arrival FROM hapax_observed WHERE until <= ?1 ORDER BY until LIMIT ?2)";
    PURGE_MARKS = "DELETE FROM hapax_mark WHERE at < ?1 AND node <> ?2";

    OBSERVED_BY_ID =
        "SELECT id, operation, keyed, fingerprint, first, last, end_kind, end_class, end_at, \
         lease_end, arrivals, replays, waits, refusals, holds, remember FROM hapax_observed \
         WHERE id = ?1";
    OBSERVED =
        "SELECT id, operation, keyed, fingerprint, first, last, end_kind, end_class, end_at, \
         lease_end, arrivals, replays, waits, refusals, holds, remember FROM hapax_observed \
         ORDER BY arrival DESC LIMIT ?1";
    /// An arrival: the row moves to the end of the table, whatever the clock says.
    PUT_OBSERVED =
        "INSERT OR REPLACE INTO hapax_observed (id, operation, keyed, fingerprint, first, last, \
         end_kind, end_class, end_at, lease_end, arrivals, replays, waits, refusals, holds, \
         remember, until) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)";
    END_OBSERVED =
        "UPDATE hapax_observed SET end_kind = ?2, end_class = ?3, end_at = ?4, until = ?5 \
         WHERE id = ?1";

    /// The head of a listing; `inspect` adds the conditions.
    LIST_HEAD = record_tables!(
        ", p.operation, length(b.bytes)",
        "LEFT JOIN hapax_body b ON b.claim = r.claim WHERE r.claim < ?1"
    );
}
