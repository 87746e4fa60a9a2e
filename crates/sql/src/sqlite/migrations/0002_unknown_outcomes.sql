-- Looking for what uncertain records came to, apart from the records themselves: a hot row has no
-- column that is written for it, and no index on its state or lease.

-- There while a record's outcome is looked for, and from the beginning of a later attempt on until
-- that has ended. due: when it is looked at next. evidence: 0 not seen, 1 unknown; NULL: not looked
-- into yet. holder: who looks into it now, and until when that counts.
CREATE TABLE hapax_watch (
    claim      INTEGER PRIMARY KEY,
    due        INTEGER NOT NULL,
    probes     INTEGER NOT NULL,
    evidence   INTEGER,
    holder     BLOB,
    held_until INTEGER
) STRICT;

CREATE INDEX hapax_watch_due ON hapax_watch (due);

-- What was uncertain before, and later attempts that are under way.
INSERT INTO hapax_watch (claim, due, probes)
SELECT r.claim, coalesce(r.lease_end, r.created), 0
FROM hapax_record r
LEFT JOIN hapax_ending e ON e.claim = r.claim AND e.attempt = r.attempt
WHERE e.kind IS NULL AND (r.state = 2 OR (r.attempt & 4294967295) > 1);

-- Who said so and why, of what somebody decided or looked up.
ALTER TABLE hapax_history ADD COLUMN actor TEXT;
ALTER TABLE hapax_history ADD COLUMN reason TEXT;
