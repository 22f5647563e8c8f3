//! The tables' migration for those who operate a server: what lists, retention and the removal of modules go by, so that none of them
//! looks at every run.

/// Every table here is kept by triggers, or by the transaction that changes what it is about.
pub(super) const OPERATED: &str = "
-- For each minute in which runs were started, where to look for those of a time: none that were started in it or later have a number
-- before `first`, none that were started in it or before have one after `last`. Numbers are given in the order of the starts, but a
-- clock that is set back gives times anew.
CREATE TABLE minutes (
    minute INTEGER PRIMARY KEY,
    first  INTEGER NOT NULL,
    last   INTEGER NOT NULL
) STRICT;
INSERT INTO minutes (minute, first, last)
    SELECT minute, min(least) OVER (ORDER BY minute DESC ROWS UNBOUNDED PRECEDING),
           max(greatest) OVER (ORDER BY minute ROWS UNBOUNDED PRECEDING)
    FROM (SELECT created_at_ms / 60000 AS minute, min(id) AS least, max(id) AS greatest FROM runs GROUP BY 1);
CREATE TRIGGER run_timed AFTER INSERT ON runs BEGIN
    INSERT OR IGNORE INTO minutes (minute, first, last) VALUES (
        new.created_at_ms / 60000,
        ifnull((SELECT first FROM minutes WHERE minute > new.created_at_ms / 60000 ORDER BY minute LIMIT 1), new.id),
        new.id
    );
    UPDATE minutes SET last = new.id WHERE minute >= new.created_at_ms / 60000;
END;

-- How many runs need each module: those that are open, and those that have failed and can be taken up.
CREATE TABLE needs (
    digest TEXT PRIMARY KEY,
    n      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO needs (digest, n) SELECT digest, count(*) FROM runs WHERE status NOT IN (10, 12, 13) GROUP BY digest;
CREATE TRIGGER need_added AFTER INSERT ON runs WHEN new.status NOT IN (10, 12, 13) BEGIN
    INSERT INTO needs (digest, n) VALUES (new.digest, 1) ON CONFLICT (digest) DO UPDATE SET n = n + 1;
END;
CREATE TRIGGER need_moved AFTER UPDATE OF status, digest ON runs
WHEN (old.status IN (10, 12, 13)) <> (new.status IN (10, 12, 13)) OR old.digest <> new.digest BEGIN
    UPDATE needs SET n = n - 1 WHERE digest = old.digest AND old.status NOT IN (10, 12, 13);
    INSERT INTO needs (digest, n) SELECT new.digest, 1 WHERE new.status NOT IN (10, 12, 13)
        ON CONFLICT (digest) DO UPDATE SET n = n + 1;
END;
CREATE TRIGGER need_removed AFTER DELETE ON runs WHEN old.status NOT IN (10, 12, 13) BEGIN
    UPDATE needs SET n = n - 1 WHERE digest = old.digest;
END;

-- The idempotency keys under which a run was started: they are held for as long as one of their runs exists.
CREATE TABLE held (
    run INTEGER NOT NULL,
    key TEXT NOT NULL,
    PRIMARY KEY (run, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX held_by_key ON held (key);
INSERT OR IGNORE INTO held (run, key)
    SELECT runs.id, answers.key FROM answers CROSS JOIN runs ON runs.run = json_extract(answers.body, '$.id')
    WHERE answers.kept = 1 AND json_valid(answers.body);
INSERT OR IGNORE INTO held (run, key)
    SELECT runs.id, answers.key FROM answers CROSS JOIN json_each(answers.body, '$.outcomes') AS outcome
        CROSS JOIN runs ON runs.run = json_extract(outcome.value, '$.run.id')
    WHERE answers.kept = 1 AND json_valid(answers.body) AND json_extract(outcome.value, '$.status') = 201;

-- Runs that nobody finds any more, of which rows are left in the large tables.
CREATE TABLE leaving (run INTEGER PRIMARY KEY) STRICT;

-- Empty, but for a moment: whether rows can be written.
CREATE TABLE tried (filler BLOB NOT NULL) STRICT;
";

/// The triggers of `needs` anew, to the same effect. For a list of three SQLite makes a table in memory, with a cache of its own, each time
/// that it comes by one: several for each change of a run's status.
pub(super) const NEEDED: &str = "
DROP TRIGGER need_added;
DROP TRIGGER need_moved;
DROP TRIGGER need_removed;
CREATE TRIGGER need_added AFTER INSERT ON runs WHEN new.status NOT BETWEEN 10 AND 13 OR new.status = 11 BEGIN
    INSERT INTO needs (digest, n) VALUES (new.digest, 1) ON CONFLICT (digest) DO UPDATE SET n = n + 1;
END;
CREATE TRIGGER need_moved AFTER UPDATE OF status, digest ON runs
WHEN (old.status NOT BETWEEN 10 AND 13 OR old.status = 11) <> (new.status NOT BETWEEN 10 AND 13 OR new.status = 11)
    OR old.digest <> new.digest BEGIN
    UPDATE needs SET n = n - 1 WHERE digest = old.digest AND (old.status NOT BETWEEN 10 AND 13 OR old.status = 11);
    INSERT INTO needs (digest, n) SELECT new.digest, 1 WHERE new.status NOT BETWEEN 10 AND 13 OR new.status = 11
        ON CONFLICT (digest) DO UPDATE SET n = n + 1;
END;
CREATE TRIGGER need_removed AFTER DELETE ON runs WHEN old.status NOT BETWEEN 10 AND 13 OR old.status = 11 BEGIN
    UPDATE needs SET n = n - 1 WHERE digest = old.digest;
END;
";
