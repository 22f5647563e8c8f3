//! Taking runs away: their own rows at once, so that nobody finds half of one; those in the large tables later, so many at a time.
//!
//! The last row that a large table has is never taken away but emptied, and belongs to no run then: rows are numbered on from it, and
//! the mark counts by these numbers.

use std::time::{Duration, Instant};

use rusqlite::{Connection, OptionalExtension as _, Row, ToSql};

use super::rows::{signed, tags_of, unsigned};
use crate::error::{Result, StoreError};
use crate::rows::{EndedRun, RunKey};
use crate::status::Status;

/// For [`ended_run`]: runs, of which a condition is to follow.
pub(super) const ENDED: &str =
    "SELECT id, status, created_at_ms, changed_at_ms, unknown > 0, id = (SELECT max(id) FROM runs) FROM runs";

/// A run of [`ENDED`]; none where it has not ended.
pub(super) fn ended_run(row: &Row<'_>) -> rusqlite::Result<Option<EndedRun>> {
    let status = Status::from_code(row.get(1)?).filter(|status| status.is_finished());
    let Some(status) = status else { return Ok(None) };
    Ok(Some(EndedRun {
        key: row.get(0)?,
        status,
        created_at_ms: unsigned(row.get(2)?),
        ended_at_ms: unsigned(row.get(3)?),
        has_unknown: row.get(4)?,
        is_newest: row.get(5)?,
    }))
}

/// Takes a run away but for its rows in the large tables. Keys that no other run holds are held like any other answer's from now on.
pub(super) fn run(connection: &Connection, run: RunKey) -> Result<()> {
    let tags: Option<String> =
        connection.prepare_cached("SELECT tags FROM runs WHERE id = ?1")?.query_row([run], |row| row.get(0))?;
    for (name, value) in tags.map_or(Ok(Vec::new()), |text| tags_of(&text))? {
        execute(connection, "DELETE FROM tags WHERE name = ?1 AND value = ?2 AND run = ?3", &[&name, &value, &run])?;
    }
    execute(
        connection,
        "UPDATE answers SET kept = 0 WHERE key IN (
             SELECT key FROM held AS own WHERE run = ?1
                 AND NOT EXISTS (SELECT 1 FROM held AS other WHERE other.key = own.key AND other.run <> ?1)
         )",
        &[&run],
    )?;
    execute(connection, "DELETE FROM held WHERE run = ?1", &[&run])?;
    execute(connection, "DELETE FROM links WHERE run = ?1", &[&run])?;
    execute(connection, "INSERT INTO leaving (run) VALUES (?1)", &[&run])?;
    match execute(connection, "DELETE FROM runs WHERE id = ?1", &[&run])? {
        1 => Ok(()),
        rows => Err(StoreError::Internal(format!("run {run} was {rows} rows"))),
    }
}

/// Takes rows of such runs away, at most so many, and for [`AT_ONCE`] at most. Whether any are left.
pub(super) fn rows(connection: &Connection, most: u32) -> Result<bool> {
    let began = Instant::now();
    let mut left = most;
    let mut leaving = next_leaving(connection)?;
    while let Some(run) = leaving
        && left > 0
        && began.elapsed() < AT_ONCE
    {
        let chunk = left.min(CHUNK);
        let gone = rows_of(connection, run, chunk)?;
        if gone < chunk {
            execute(connection, "DELETE FROM leaving WHERE run = ?1", &[&run])?;
            leaving = next_leaving(connection)?;
        }
        left -= gone.max(1);
    }
    // Rows of no run that others have come after.
    for sql in PASSED {
        execute(connection, sql, &[])?;
    }
    Ok(leaving.is_some())
}

/// For how long rows are taken away in one transaction: others wait for it. Large rows take longer than small ones.
const AT_ONCE: Duration = Duration::from_millis(20);
/// Rows between two looks at the clock.
const CHUNK: u32 = 32;

fn next_leaving(connection: &Connection) -> Result<Option<RunKey>> {
    let sql = "SELECT run FROM leaving ORDER BY run LIMIT 1";
    Ok(connection.prepare_cached(sql)?.query_row([], |row| row.get(0)).optional()?)
}

/// Takes rows of this run away, at most so many. How many it were.
fn rows_of(connection: &Connection, run: RunKey, most: u32) -> Result<u32> {
    let mut left = most;
    for (keep, remove) in TABLES {
        if let Some(keep) = keep {
            execute(connection, keep, &[&run])?;
        }
        left = left.saturating_sub(execute(connection, remove, &[&run, &left])?);
    }
    Ok(most - left)
}

/// Takes at most so many answers away that hold their keys no longer. Whether any may be left.
pub(super) fn answers(connection: &Connection, before_ms: u64, most: u32) -> Result<bool> {
    Ok(execute(connection, ANSWERS, &[&signed(before_ms), &most])? == most)
}

pub(super) const ANSWERS: &str =
    "DELETE FROM answers WHERE rowid IN (SELECT rowid FROM answers WHERE kept = 0 AND at_ms < ?1 LIMIT ?2)";

fn execute(connection: &Connection, sql: &str, values: &[&dyn ToSql]) -> Result<u32> {
    let rows = connection.prepare_cached(sql)?.execute(values)?;
    Ok(u32::try_from(rows).unwrap_or(u32::MAX))
}

/// For each table: what empties its last row, and what takes rows away, the latest first. What is left of a journal is a beginning.
pub(super) const TABLES: [(Option<&str>, &str); 4] = [
    (None, "DELETE FROM logs WHERE rowid IN (SELECT rowid FROM logs WHERE run = ?1 LIMIT ?2)"),
    (
        Some(
            "UPDATE inbox SET run = 0, number = rowid, name = '', dedup = NULL, payload = ''
             WHERE run = ?1 AND rowid = (SELECT max(rowid) FROM inbox)",
        ),
        "DELETE FROM inbox WHERE rowid IN (SELECT rowid FROM inbox WHERE run = ?1 ORDER BY number DESC LIMIT ?2)",
    ),
    (None, "DELETE FROM parts WHERE rowid IN (SELECT rowid FROM parts WHERE run = ?1 LIMIT ?2)"),
    (
        Some(
            "UPDATE journal SET run = 0, seq = rowid, entry = x'', in_parts = NULL
             WHERE run = ?1 AND rowid = (SELECT max(rowid) FROM journal)",
        ),
        "DELETE FROM journal WHERE rowid IN (SELECT rowid FROM journal WHERE run = ?1 ORDER BY seq DESC LIMIT ?2)",
    ),
];

const PASSED: [&str; 2] = [
    "DELETE FROM inbox WHERE run = 0 AND rowid < (SELECT max(rowid) FROM inbox)",
    "DELETE FROM journal WHERE run = 0 AND rowid < (SELECT max(rowid) FROM journal)",
];
