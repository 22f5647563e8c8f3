//! The tables of schedules, and which runs are theirs.

use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::reads::all;
use super::rows::{signed, unsigned};
use crate::error::Result;
use crate::rows::RunKey;
use crate::schedules::{Schedule, ScheduleCounts};

/// Schedules are few, each a small row, found by when it fires. Of a schedule's runs those that are open are kept apart, by triggers: a
/// schedule that has started a million asks for them each time. 10 to 13 are the statuses of runs that have ended.
pub(super) const SCHEDULED: &str = "
CREATE TABLE schedules (
    name     TEXT PRIMARY KEY,
    version  INTEGER NOT NULL,
    workflow TEXT NOT NULL,
    next_ms  INTEGER,
    paused   TEXT,
    problem  TEXT,
    spec     TEXT NOT NULL,
    told     TEXT NOT NULL
) STRICT;
CREATE INDEX schedules_by_time ON schedules (next_ms) WHERE next_ms IS NOT NULL;

CREATE TABLE scheduled (
    run      INTEGER PRIMARY KEY,
    schedule TEXT NOT NULL
) STRICT;
CREATE TABLE scheduled_open (
    schedule TEXT NOT NULL,
    run      INTEGER NOT NULL,
    PRIMARY KEY (schedule, run)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER scheduled_added AFTER INSERT ON scheduled BEGIN
    INSERT OR IGNORE INTO scheduled_open (schedule, run)
        SELECT new.schedule, id FROM runs WHERE id = new.run AND status NOT BETWEEN 10 AND 13;
END;
CREATE TRIGGER scheduled_moved AFTER UPDATE OF status ON runs
WHEN (old.status BETWEEN 10 AND 13) <> (new.status BETWEEN 10 AND 13) BEGIN
    DELETE FROM scheduled_open WHERE new.status BETWEEN 10 AND 13
        AND run = new.id AND schedule = (SELECT schedule FROM scheduled WHERE run = new.id);
    INSERT OR IGNORE INTO scheduled_open (schedule, run)
        SELECT schedule, run FROM scheduled WHERE run = new.id AND new.status NOT BETWEEN 10 AND 13;
END;
CREATE TRIGGER scheduled_removed AFTER DELETE ON runs BEGIN
    DELETE FROM scheduled_open WHERE run = old.id AND schedule = (SELECT schedule FROM scheduled WHERE run = old.id);
    DELETE FROM scheduled WHERE run = old.id;
END;
";

const COLUMNS: &str = "name, version, workflow, next_ms, paused, problem, spec, told";

fn schedule(row: &Row<'_>) -> rusqlite::Result<Schedule> {
    Ok(Schedule {
        name: row.get(0)?,
        version: unsigned(row.get(1)?),
        workflow: row.get(2)?,
        next_ms: row.get::<_, Option<i64>>(3)?.map(unsigned),
        paused: row.get(4)?,
        problem: row.get(5)?,
        spec: row.get(6)?,
        told: row.get(7)?,
    })
}

pub(super) fn one(connection: &Connection, name: &str) -> Result<Option<Schedule>> {
    let sql = format!("SELECT {COLUMNS} FROM schedules WHERE name = ?1");
    Ok(connection.prepare_cached(&sql)?.query_row([name], schedule).optional()?)
}

pub(super) fn page(connection: &Connection, after: &str, limit: u32) -> Result<Vec<Schedule>> {
    let sql = format!("SELECT {COLUMNS} FROM schedules WHERE name > ?1 ORDER BY name LIMIT ?2");
    all(connection, &sql, params![after, limit], schedule)
}

pub(super) const DUE: &str = "SELECT name FROM schedules WHERE next_ms <= ?1 ORDER BY next_ms";

pub(super) fn due(connection: &Connection, now_ms: u64) -> Result<Vec<String>> {
    all(connection, DUE, [signed(now_ms)], |row| row.get(0))
}

pub(super) const NEXT: &str = "SELECT next_ms FROM schedules WHERE next_ms > ?1 ORDER BY next_ms LIMIT 1";

pub(super) fn next(connection: &Connection, after_ms: u64) -> Result<Option<u64>> {
    let next = connection.prepare_cached(NEXT)?.query_row([signed(after_ms)], |row| row.get(0)).optional()?;
    Ok(next.map(unsigned))
}

pub(super) const OPEN: &str = "SELECT run FROM scheduled_open WHERE schedule = ?1 LIMIT 1";

pub(super) fn has_open_run(connection: &Connection, name: &str) -> Result<bool> {
    Ok(connection.prepare_cached(OPEN)?.exists([name])?)
}

pub(super) fn counts(connection: &Connection) -> Result<ScheduleCounts> {
    let sql =
        "SELECT count(*), ifnull(sum(paused IS NOT NULL), 0), ifnull(sum(paused IS NULL AND problem IS NOT NULL), 0)
               FROM schedules";
    let numbers = connection.prepare_cached(sql)?.query_row([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let (all, paused, failing) = (unsigned(numbers.0), unsigned(numbers.1), unsigned(numbers.2));
    Ok(ScheduleCounts { active: all.saturating_sub(paused + failing), paused, failing })
}

pub(super) fn version(connection: &Connection, name: &str) -> Result<Option<u64>> {
    let sql = "SELECT version FROM schedules WHERE name = ?1";
    Ok(connection.prepare_cached(sql)?.query_row([name], |row| row.get(0)).optional()?.map(unsigned))
}

pub(super) fn put(connection: &Connection, schedule: &Schedule) -> Result<()> {
    let sql = format!("INSERT OR REPLACE INTO schedules ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)");
    connection.prepare_cached(&sql)?.execute(params![
        schedule.name,
        signed(schedule.version),
        schedule.workflow,
        schedule.next_ms.map(signed),
        schedule.paused,
        schedule.problem,
        schedule.spec,
        schedule.told
    ])?;
    Ok(())
}

pub(super) fn remove(connection: &Connection, name: &str) -> Result<()> {
    connection.prepare_cached("DELETE FROM schedules WHERE name = ?1")?.execute([name])?;
    Ok(())
}

pub(super) fn of_run(connection: &Connection, run: RunKey) -> Result<Option<String>> {
    let sql = "SELECT schedule FROM scheduled WHERE run = ?1";
    Ok(connection.prepare_cached(sql)?.query_row([run], |row| row.get(0)).optional()?)
}

pub(super) fn put_run(connection: &Connection, run: RunKey, name: &str) -> Result<()> {
    connection.prepare_cached("INSERT INTO scheduled (run, schedule) VALUES (?1, ?2)")?.execute(params![run, name])?;
    Ok(())
}

/// Pauses all that are not. How many there were.
pub(super) fn pause_all(connection: &Connection, reason: &str) -> Result<u64> {
    // Nobody has seen the versions of a copy that is restored, but the numbers may not come again all the same.
    let sql = "UPDATE schedules SET paused = ?1, next_ms = NULL, version = version + 1 WHERE paused IS NULL";
    Ok(connection.execute(sql, [reason])? as u64)
}
