//! The reading side in SQLite: queries on connections that cannot write, which see what is committed.

use std::fmt;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Row, params};

use stepwell_core::ids::{Digest, RunId};

use super::client_reads::module_row;
use super::outcome::{OUTCOME, found};
use super::parts;
use super::pool::Pool;
use super::queue::turn_of;
use super::rows::{inbox_event, signed, tags_of, unsigned};
use super::{epochs, lists};
use crate::error::{Result, StoreError};
use crate::links::Links;
use crate::queue::Turn;
use crate::rows::{
    Epoch, InboxEvent, LogPlace, LogRow, ModuleRow, RerunOf, RunFilter, RunKey, RunList, RunRow, Unfinished,
    UnreadableRun,
};
use crate::status::{FIRST_FINISHED_CODE, LAST_FINISHED_CODE, Status};
use crate::store::{Reads, inbox_page};

/// The reading side of a store in SQLite.
pub struct SqliteReads(Arc<Pool>);

impl SqliteReads {
    pub(super) fn new(pool: Arc<Pool>) -> Self {
        Self(pool)
    }

    pub(super) fn query<T>(&self, query: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        self.0.query(query)
    }
}

impl fmt::Debug for SqliteReads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SqliteReads")
    }
}

impl Reads for SqliteReads {
    fn journal(&self, run: RunKey) -> Result<Vec<(u64, Vec<u8>)>> {
        self.0.query(|connection| journal(connection, run))
    }

    fn entries(&self, run: RunKey, from: u64, limit: u32) -> Result<Vec<(u64, Vec<u8>)>> {
        self.0.query(|connection| entries(connection, run, from, Some(limit)))
    }

    fn epochs(&self, run: RunKey) -> Result<Vec<Epoch>> {
        self.0.query(|connection| epochs::of_run(connection, run))
    }

    fn last_log(&self, run: RunKey) -> Result<Option<LogPlace>> {
        let sql = "SELECT turn, line FROM logs WHERE run = ?1 ORDER BY turn DESC, line DESC LIMIT 1";
        self.0.query(|connection| {
            let read = |row: &Row<'_>| Ok((unsigned(row.get(0)?), row.get(1)?));
            Ok(connection.prepare_cached(sql)?.query_row([run], read).optional()?)
        })
    }

    fn logs(&self, run: RunKey, after: Option<LogPlace>, limit: u32) -> Result<Vec<LogRow>> {
        // Rows are numbered as they are written.
        let sql = "SELECT turn, line, at_ms, level, step, text, fields FROM logs
                   WHERE run = ?1 AND rowid > coalesce((SELECT rowid FROM logs WHERE run = ?1 AND turn = ?2 AND line = ?3), 0)
                   ORDER BY rowid LIMIT ?4";
        let (turn, line) = after.map_or((-1, -1), |(turn, line)| (signed(turn), i64::from(line)));
        self.0.query(|connection| all(connection, sql, params![run, turn, line, limit], log_row))
    }

    fn run(&self, run: &RunId) -> Result<Option<RunRow>> {
        self.0.query(|connection| one_run(connection, "run = ?1", [run.as_str()]))
    }

    fn run_by_number(&self, run: RunKey) -> Result<Option<RunRow>> {
        self.0.query(|connection| one_run(connection, "id = ?1", [run]))
    }

    fn runs(&self, filter: &RunFilter) -> Result<RunList> {
        self.0.query(|connection| lists::runs(connection, filter))
    }

    fn unfinished(&self) -> Result<(Vec<Unfinished>, Vec<UnreadableRun>)> {
        let sql = unfinished_sql();
        let read = |row: &Row<'_>| {
            let (key, code, wake_at_ms): (RunKey, i64, Option<i64>) = (row.get(0)?, row.get(1)?, row.get(2)?);
            let Some(status) = Status::from_code(code) else {
                return Ok(Err(UnreadableRun { key, reason: format!("{code} is no status of this version") }));
            };
            Ok(Ok(Unfinished {
                key,
                status,
                wake_at_ms: wake_at_ms.map(unsigned),
                unseen: row.get(3)?,
                cancel: row.get(4)?,
                turn: row.get::<_, Option<i64>>(5)?.and_then(Turn::from_code),
            }))
        };
        let (mut runs, mut unreadable) = (Vec::new(), Vec::new());
        for run in self.0.query(|connection| all(connection, &sql, [], read))? {
            match run {
                Ok(run) => runs.push(run),
                Err(run) => unreadable.push(run),
            }
        }
        Ok((runs, unreadable))
    }

    fn due_timers(&self, now_ms: u64, limit: u32) -> Result<Vec<(u64, RunKey)>> {
        let sql = "SELECT due_ms, run FROM timers WHERE due_ms <= ?1 ORDER BY due_ms, run LIMIT ?2";
        let read = |row: &Row<'_>| Ok((unsigned(row.get(0)?), row.get(1)?));
        self.0.query(|connection| all(connection, sql, params![signed(now_ms), limit], read))
    }

    fn next_wake(&self) -> Result<Option<u64>> {
        self.0.query(|connection| {
            let mut statement = connection.prepare_cached("SELECT min(due_ms) FROM timers")?;
            let earliest: Option<i64> = statement.query_row([], |row| row.get(0))?;
            Ok(earliest.map(unsigned))
        })
    }

    fn inbox(&self, run: RunKey, after: u64) -> Result<Vec<InboxEvent>> {
        let sql = "SELECT number, name, payload, op FROM inbox WHERE run = ?1 AND number > ?2 ORDER BY number";
        self.0.query(|connection| {
            let mut statement = connection.prepare_cached(sql)?;
            let events = statement.query_map([run, signed(after)], inbox_event)?;
            Ok(inbox_page(events)?)
        })
    }

    fn module(&self, digest: &Digest) -> Result<Option<Vec<u8>>> {
        self.0.query(|connection| {
            let mut statement = connection.prepare_cached("SELECT bytes FROM modules WHERE digest = ?1")?;
            Ok(statement.query_row([digest.as_str()], |row| row.get(0)).optional()?)
        })
    }

    fn modules(&self, after: Option<&Digest>, limit: u32) -> Result<Vec<ModuleRow>> {
        let sql = "SELECT digest, added_at_ms, size_bytes, description FROM modules WHERE digest > ?1 ORDER BY digest LIMIT ?2";
        let after = after.map_or("", Digest::as_str);
        self.0.query(|connection| all(connection, sql, params![after, limit], module_row))
    }
}

/// Runs that have not ended. A status that this version does not know is not taken for an end: such a run is set aside and named.
/// Left to itself, SQLite would look at every run for that.
pub(super) fn unfinished_sql() -> String {
    format!(
        "SELECT id, status, wake_at_ms, EXISTS (SELECT 1 FROM inbox WHERE run = id AND number > inbox_seen),
             EXISTS (SELECT 1 FROM links WHERE run = id AND cancel = 1), (SELECT turn FROM entrants WHERE run = id)
         FROM runs WHERE id IN (
             SELECT id FROM runs WHERE status < {FIRST_FINISHED_CODE}
             UNION ALL SELECT id FROM runs WHERE status > {LAST_FINISHED_CODE}
         ) ORDER BY id"
    )
}

/// A run's entries, from the first on.
pub(super) fn journal(connection: &Connection, run: RunKey) -> Result<Vec<(u64, Vec<u8>)>> {
    entries(connection, run, 0, None)
}

/// Those from a number on, none of which may be missing.
fn entries(connection: &Connection, run: RunKey, from: u64, limit: Option<u32>) -> Result<Vec<(u64, Vec<u8>)>> {
    let columns = parts::COLUMNS;
    let sql = format!("SELECT {columns} FROM journal WHERE run = ?1 AND seq >= ?2 ORDER BY seq LIMIT ?3");
    let mut statement = connection.prepare_cached(&sql)?;
    // A negative limit is none.
    let mut rows = statement.query(params![run, signed(from), limit.map_or(-1, i64::from)])?;
    let mut entries = Vec::new();
    for expected in from.. {
        let Some(row) = rows.next()? else { break };
        let row =
            parts::row(row).map_err(|error| StoreError::Corrupt(format!("entry {expected} of run {run}: {error}")))?;
        // In the transaction of the query, which is not over: the parts of an entry are there as long as it is.
        let (seq, entry) = parts::whole(connection, run, row)?;
        if seq != expected {
            return Err(StoreError::Corrupt(format!("entry {expected} of run {run} is missing")));
        }
        entries.push((seq, entry));
    }
    Ok(entries)
}

/// All rows of a query; one that cannot be read fails it.
pub(super) fn all<T>(
    connection: &Connection,
    sql: &str,
    values: impl rusqlite::Params,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>> {
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map(values, read)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

pub(super) fn one_run(
    connection: &Connection,
    condition: &str,
    values: impl rusqlite::Params,
) -> Result<Option<RunRow>> {
    let sql = format!("SELECT {RUN_COLUMNS}, {OUTCOME} FROM runs WHERE {condition}");
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(values)?;
    rows.next()?.map(run_row).transpose()
}

pub(super) const RUN_COLUMNS: &str =
    "id, runs.run, workflow, digest, run_key, status, detail, status_text, wake_at_ms, recoveries,
    created_at_ms, changed_at_ms, tags, unknown, (SELECT retry_of FROM retries WHERE retries.run = runs.id),
    (SELECT json_array(rerun_of, step) FROM reruns WHERE reruns.run = runs.id),
    (SELECT json_array(
        (SELECT run FROM runs WHERE id = l.parent), l.op, l.cancel, (SELECT run FROM runs WHERE id = l.continued_from),
        (SELECT run FROM runs WHERE id = l.continued_as), (SELECT run FROM runs WHERE id = l.first),
        CASE WHEN l.continued_as IS NOT NULL THEN (SELECT r.run FROM links AS n JOIN runs AS r ON r.id = n.run
            WHERE n.first = coalesce(l.first, l.run) AND n.continued_as IS NULL) END
    ) FROM links AS l WHERE l.run = runs.id),
    (SELECT json_array(turn, rank, key) FROM entrants AS e WHERE e.run = runs.id)";

/// A run of `RUN_COLUMNS`, with its outcome or none after them.
pub(super) fn run_row(row: &Row<'_>) -> Result<RunRow> {
    let code: i64 = row.get(5)?;
    let status =
        Status::from_code(code).ok_or_else(|| StoreError::Corrupt(format!("{code} is no status of this version")))?;
    let entrant = row.get::<_, Option<String>>(17)?.map(|text| entrant_of(&text)).transpose()?;
    let (turn, concurrency_key, priority) = entrant.unwrap_or_default();
    Ok(RunRow {
        key: row.get(0)?,
        run: RunId::new(row.get::<_, String>(1)?),
        workflow: row.get(2)?,
        digest: Digest::from_text(row.get::<_, String>(3)?),
        run_key: row.get(4)?,
        status,
        detail: row.get(6)?,
        status_text: row.get(7)?,
        wake_at_ms: row.get::<_, Option<i64>>(8)?.map(unsigned),
        recoveries: row.get(9)?,
        created_at_ms: unsigned(row.get(10)?),
        changed_at_ms: unsigned(row.get(11)?),
        tags: row.get::<_, Option<String>>(12)?.map_or(Ok(Vec::new()), |text| tags_of(&text))?,
        unknown: row.get(13)?,
        retry_of: row.get::<_, Option<String>>(14)?.map(RunId::new),
        rerun_of: row.get::<_, Option<String>>(15)?.map(|text| rerun_of(&text)).transpose()?,
        links: row.get::<_, Option<String>>(16)?.map_or(Ok(Links::default()), |text| links_of(&text))?,
        turn,
        concurrency_key,
        priority,
        outcome: found(row.get(18)?)?,
    })
}

fn rerun_of(text: &str) -> Result<RerunOf> {
    let (run, step): (String, String) =
        serde_json::from_str(text).map_err(|error| StoreError::Corrupt(format!("rerun: {error}")))?;
    Ok(RerunOf { run: RunId::new(run), step })
}

/// What [`RUN_COLUMNS`] makes of a run in the queue: its turn, key and priority.
fn entrant_of(text: &str) -> Result<(Option<Turn>, Option<String>, i32)> {
    let (turn, rank, key): (i64, i32, String) =
        serde_json::from_str(text).map_err(|error| StoreError::Corrupt(format!("a place in the queue: {error}")))?;
    Ok((Some(turn_of(turn)?), Some(key).filter(|key| !key.is_empty()), -rank))
}

/// What [`RUN_COLUMNS`] makes of a run's links.
fn links_of(text: &str) -> Result<Links> {
    type Name = Option<String>;
    let (parent, op, cancel, from, to, first, last): (Name, Option<u32>, i64, Name, Name, Name, Name) =
        serde_json::from_str(text).map_err(|error| StoreError::Corrupt(format!("links: {error}")))?;
    Ok(Links {
        parent: parent.map(RunId::new).zip(op),
        cancel: cancel != 0,
        continued_from: from.map(RunId::new),
        continued_as: to.map(RunId::new),
        first: first.map(RunId::new),
        last: last.map(RunId::new),
    })
}

fn log_row(row: &Row<'_>) -> rusqlite::Result<LogRow> {
    Ok(LogRow {
        turn: unsigned(row.get(0)?),
        index: row.get(1)?,
        at_ms: unsigned(row.get(2)?),
        level: row.get(3)?,
        step: row.get(4)?,
        text: row.get(5)?,
        fields: row.get(6)?,
    })
}
