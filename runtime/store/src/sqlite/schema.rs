//! The tables, and how a database comes from one version of them to the next.
//!
//! A migration that has been released is never changed: the next change of the tables is a new one at the end.

use rusqlite::{Connection, TransactionBehavior};

use super::epochs::EPOCHS;
use super::links::LINKED;
use super::operated::{NEEDED, OPERATED};
use super::parts::PARTED;
use super::queue::LIMITED;
use super::schedules::SCHEDULED;
use crate::error::{Result, StoreError};

/// Number n brings a database of version n to n + 1. Since 10 an outcome may be a place in the journal (see `outcome`).
const MIGRATIONS: &[&str] =
    &[FIRST, SERVED, OPERATED, RETRIED, LINKED, EPOCHS, SCHEDULED, RERAN, LIMITED, NEEDED, PARTED];

/// Refuses a database that a newer version has written, before anything is done to it.
pub(super) fn refuse_newer(connection: &Connection) -> Result<()> {
    let found = version(connection)?;
    let known = MIGRATIONS.len() as u32;
    if found > known {
        return Err(StoreError::NewerSchema { found, known });
    }
    Ok(())
}

/// Refuses a database whose tables are those of an older version, where nothing is to be written.
pub(super) fn refuse_older(connection: &Connection) -> Result<()> {
    let found = version(connection)?;
    let known = MIGRATIONS.len() as u32;
    if found < known {
        return Err(StoreError::OlderSchema { found, known });
    }
    Ok(())
}

/// Brings the database to the newest version, all in one transaction.
pub(super) fn migrate(connection: &mut Connection) -> Result<()> {
    if version(connection)? as usize == MIGRATIONS.len() {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let found = version(&transaction)? as usize;
    for migration in MIGRATIONS.iter().skip(found) {
        transaction.execute_batch(migration)?;
    }
    transaction.pragma_update(None, "user_version", MIGRATIONS.len() as u32)?;
    transaction.commit()?;
    tracing::info!(from = found, to = MIGRATIONS.len(), "the database's tables are up to date");
    Ok(())
}

fn version(connection: &Connection) -> Result<u32> {
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    u32::try_from(version).map_err(|_| StoreError::Corrupt(format!("schema version {version}")))
}

/// Runs have small numbers inside, so that the keys of the large tables are short and grow at their end. The large tables keep
/// their rows in the order of writing, with the key beside them: clustering them by run costs several times as much.
/// Long columns come last, so that the others are read without them.
const FIRST: &str = "
CREATE TABLE runs (
    id            INTEGER PRIMARY KEY,
    run           TEXT NOT NULL UNIQUE,
    workflow      TEXT NOT NULL,
    digest        TEXT NOT NULL,
    run_key       TEXT UNIQUE,
    status        INTEGER NOT NULL,
    wake_at_ms    INTEGER,
    recoveries    INTEGER NOT NULL DEFAULT 0,
    created_at_ms INTEGER NOT NULL,
    changed_at_ms INTEGER NOT NULL,
    detail        TEXT,
    status_text   TEXT,
    outcome       TEXT
) STRICT;
CREATE INDEX runs_by_status ON runs (status, id);
CREATE INDEX runs_by_workflow ON runs (workflow, id);

CREATE TABLE journal (
    run   INTEGER NOT NULL,
    seq   INTEGER NOT NULL,
    entry BLOB NOT NULL,
    PRIMARY KEY (run, seq)
) STRICT;

CREATE TABLE logs (
    run    INTEGER NOT NULL,
    turn   INTEGER NOT NULL,
    line   INTEGER NOT NULL,
    at_ms  INTEGER NOT NULL,
    level  INTEGER NOT NULL,
    step   TEXT,
    text   TEXT NOT NULL,
    fields TEXT,
    PRIMARY KEY (run, turn, line)
) STRICT;
-- With the number of the row, so in the order of writing.
CREATE INDEX logs_by_run ON logs (run);

-- One row for each run that is to be woken, so that the next is found without looking at any other.
CREATE TABLE timers (
    due_ms INTEGER NOT NULL,
    run    INTEGER NOT NULL,
    PRIMARY KEY (due_ms, run)
) STRICT, WITHOUT ROWID;

CREATE TABLE inbox (
    run     INTEGER NOT NULL,
    number  INTEGER NOT NULL,
    name    TEXT NOT NULL,
    dedup   TEXT,
    payload TEXT NOT NULL,
    PRIMARY KEY (run, number)
) STRICT;
CREATE UNIQUE INDEX inbox_by_dedup ON inbox (run, dedup) WHERE dedup IS NOT NULL;

CREATE TABLE modules (
    digest      TEXT PRIMARY KEY,
    added_at_ms INTEGER NOT NULL,
    size_bytes  INTEGER NOT NULL,
    description TEXT NOT NULL,
    bytes       BLOB NOT NULL
) STRICT;
";

/// For a server: what its clients ask for. The table of runs is made anew, so that its long columns stay the last ones. Where
/// something of an earlier run is unknown its row says so in words, or it is blocked (3); how many steps, its journal alone knows, and
/// counts as one here.
const SERVED: &str = "
ALTER TABLE runs RENAME TO earlier_runs;
DROP INDEX runs_by_status;
DROP INDEX runs_by_workflow;
CREATE TABLE runs (
    id            INTEGER PRIMARY KEY,
    run           TEXT NOT NULL UNIQUE,
    workflow      TEXT NOT NULL,
    digest        TEXT NOT NULL,
    run_key       TEXT UNIQUE,
    status        INTEGER NOT NULL,
    wake_at_ms    INTEGER,
    recoveries    INTEGER NOT NULL DEFAULT 0,
    created_at_ms INTEGER NOT NULL,
    changed_at_ms INTEGER NOT NULL,
    inbox_seen    INTEGER NOT NULL DEFAULT 0,
    unknown       INTEGER NOT NULL DEFAULT 0,
    tags          TEXT,
    detail        TEXT,
    status_text   TEXT,
    outcome       TEXT
) STRICT;
INSERT INTO runs (id, run, workflow, digest, run_key, status, wake_at_ms, recoveries, created_at_ms, changed_at_ms, unknown, detail,
                  status_text, outcome)
    SELECT id, run, workflow, digest, run_key, status, wake_at_ms, recoveries, created_at_ms, changed_at_ms,
           status = 3 OR coalesce(detail LIKE '%outcome of step % is unknown%', 0), detail, status_text, outcome FROM earlier_runs;
DROP TABLE earlier_runs;
CREATE INDEX runs_by_status ON runs (status, id);
CREATE INDEX runs_by_workflow ON runs (workflow, id);
-- Few runs at any time, so that whoever asks for them looks at no other.
CREATE INDEX runs_with_unknown ON runs (id) WHERE unknown > 0;
CREATE INDEX runs_by_workflow_and_status ON runs (workflow, status, id);

-- How many runs there are of each kind, so that nobody counts them one by one.
CREATE TABLE counts (
    workflow TEXT NOT NULL,
    status   INTEGER NOT NULL,
    n        INTEGER NOT NULL,
    PRIMARY KEY (workflow, status)
) STRICT, WITHOUT ROWID;
INSERT INTO counts (workflow, status, n) SELECT workflow, status, count(*) FROM runs GROUP BY workflow, status;
CREATE TRIGGER run_added AFTER INSERT ON runs BEGIN
    INSERT INTO counts (workflow, status, n) VALUES (new.workflow, new.status, 1)
        ON CONFLICT (workflow, status) DO UPDATE SET n = n + 1;
END;
CREATE TRIGGER run_moved AFTER UPDATE OF status ON runs WHEN old.status <> new.status BEGIN
    UPDATE counts SET n = n - 1 WHERE workflow = old.workflow AND status = old.status;
    INSERT INTO counts (workflow, status, n) VALUES (new.workflow, new.status, 1)
        ON CONFLICT (workflow, status) DO UPDATE SET n = n + 1;
END;
CREATE TRIGGER run_removed AFTER DELETE ON runs BEGIN
    UPDATE counts SET n = n - 1 WHERE workflow = old.workflow AND status = old.status;
END;

CREATE TABLE tags (
    name  TEXT NOT NULL,
    value TEXT NOT NULL,
    run   INTEGER NOT NULL,
    PRIMARY KEY (name, value, run)
) STRICT, WITHOUT ROWID;

-- The module that a workflow's new runs start on.
CREATE TABLE workflows (
    name            TEXT PRIMARY KEY,
    digest          TEXT NOT NULL,
    activated_at_ms INTEGER NOT NULL
) STRICT;

-- What was answered under an idempotency key. `kept` where runs were started by it, which hold it.
CREATE TABLE answers (
    key         TEXT PRIMARY KEY,
    principal   TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    at_ms       INTEGER NOT NULL,
    kept        INTEGER NOT NULL,
    status      INTEGER NOT NULL,
    body        TEXT NOT NULL
) STRICT;
CREATE INDEX answers_by_time ON answers (at_ms) WHERE kept = 0;

CREATE TABLE tokens (
    id            TEXT PRIMARY KEY,
    principal     TEXT NOT NULL,
    scopes        TEXT NOT NULL,
    hash          BLOB NOT NULL,
    created_at_ms INTEGER NOT NULL,
    expires_at_ms INTEGER
) STRICT;
";

/// Runs that were started in the place of others. Beside the table of runs, whose last columns are the long ones.
const RETRIED: &str = "
CREATE TABLE retries (
    run      INTEGER PRIMARY KEY,
    retry_of TEXT NOT NULL
) STRICT;
CREATE TRIGGER retry_removed AFTER DELETE ON runs BEGIN
    DELETE FROM retries WHERE run = old.id;
END;
";

/// Runs that go on from the journals of others, and from which step on they live by themselves. As `RETRIED`.
const RERAN: &str = "
CREATE TABLE reruns (
    run      INTEGER PRIMARY KEY,
    rerun_of TEXT NOT NULL,
    step     TEXT NOT NULL
) STRICT;
CREATE TRIGGER rerun_removed AFTER DELETE ON runs BEGIN
    DELETE FROM reruns WHERE run = old.id;
END;
";

#[cfg(test)]
mod tests {
    use super::super::lists;
    use super::*;
    use crate::rows::RunFilter;

    /// Runs by the minute of their start, their status and their module.
    const RUNS: [(i64, i64, &str); 3] = [(5, 0, "d"), (3, 11, "d"), (4, 10, "other")];
    const ANSWERS: [(&str, &str); 2] = [
        ("one", r#"{"id":"run_1"}"#),
        (
            "batch",
            r#"{"outcomes":[{"status":201,"run":{"id":"run_2"}},{"status":200,"run":{"id":"run_1"}},{"status":409}]}"#,
        ),
    ];

    fn add(database: &Connection, id: i64, minute: i64, status: i64, digest: &str) {
        let sql = "INSERT INTO runs (id, run, workflow, digest, status, created_at_ms, changed_at_ms)
                   VALUES (?1, ?2, 'w', ?3, ?4, ?5, ?5)";
        database.execute(sql, (id, format!("run_{id}"), digest, status, minute * 60_000 + 7)).unwrap();
    }

    fn second_version() -> Connection {
        let database = Connection::open_in_memory().unwrap();
        [FIRST, SERVED].iter().for_each(|migration| database.execute_batch(migration).unwrap());
        database.pragma_update(None, "user_version", 2).unwrap();
        (1..).zip(RUNS).for_each(|(id, (minute, status, digest))| add(&database, id, minute, status, digest));
        for (key, body) in ANSWERS {
            let sql = "INSERT INTO answers VALUES (?1, 'me', 'f', 1, 1, 201, ?2)";
            database.execute(sql, (key, body)).unwrap();
        }
        database
    }

    fn pairs(database: &Connection, sql: &str) -> Vec<(String, String)> {
        let mut statement = database.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        rows.map(std::result::Result::unwrap).collect()
    }

    fn text(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
    }

    #[test]
    fn what_the_second_version_has_left_is_counted_and_found() {
        let mut database = second_version();
        migrate(&mut database).unwrap();
        let needs = "SELECT digest, CAST(n AS TEXT) FROM needs WHERE n > 0 ORDER BY 1";
        assert_eq!(pairs(&database, needs), text(&[("d", "2")]));
        let held = "SELECT CAST(run AS TEXT), key FROM held ORDER BY 1, 2";
        assert_eq!(pairs(&database, held), text(&[("1", "one"), ("2", "batch")]));
        // As of those that come now.
        add(&database, 4, 9, 0, "other");
        database.execute("UPDATE runs SET status = 12 WHERE id = 1", []).unwrap();
        database.execute("UPDATE runs SET digest = 'moved' WHERE id = 2", []).unwrap();
        assert_eq!(pairs(&database, needs), text(&[("moved", "1"), ("other", "1")]));
        database.execute("DELETE FROM runs WHERE id = 2", []).unwrap();
        assert_eq!(pairs(&database, needs), text(&[("other", "1")]));
    }

    #[test]
    fn runs_of_a_time_are_found_whatever_the_clock_did() {
        let mut database = second_version();
        migrate(&mut database).unwrap();
        for (id, minute) in (4..).zip([6, 2, 2, 8, 7]) {
            add(&database, id, minute, 0, "d");
        }
        let started: Vec<(i64, u64)> = (1..).zip([5, 3, 4, 6, 2, 2, 8, 7].map(|minute| minute * 60_000 + 7)).collect();
        let times: Vec<Option<u64>> =
            std::iter::once(None).chain((1..=9).map(|minute| Some(minute * 60_000))).collect();
        for since_ms in &times {
            for until_ms in &times {
                let filter = RunFilter { since_ms: *since_ms, until_ms: *until_ms, ..RunFilter::default() };
                let list = lists::runs(&database, &filter).unwrap();
                assert!(list.unreadable.is_empty());
                let found: Vec<i64> = list.runs.iter().map(|row| row.key).collect();
                let wanted = |ms: u64| since_ms.is_none_or(|s| ms >= s) && until_ms.is_none_or(|u| ms < u);
                let expected: Vec<i64> =
                    started.iter().rev().filter(|(_, ms)| wanted(*ms)).map(|(id, _)| *id).collect();
                assert_eq!(found, expected, "since {since_ms:?} until {until_ms:?}");
            }
        }
    }
}
