//! The queue in SQLite: who waits to begin, in lines by their keys, and what the limits go by. Every question is answered by an index, and
//! none goes through those that wait.

use rusqlite::{Connection, OptionalExtension as _, Row, ToSql, params};
use stepwell_core::policy::admission::{Limits, Rate};

use super::reads::all;
use super::rows::{signed, unsigned};
use crate::error::{Result, StoreError};
use crate::queue::{Entrant, LimitsRow, Line, QueueReads, QueueRows, Rank, Turn};
use crate::rows::RunKey;

/// A turn (0 waits, 1 rests, 2 holds, 3 over) is of runs that the queue knows; of most runs it knows nothing.
pub(super) const LIMITED: &str = "
CREATE TABLE limits (
    workflow     TEXT PRIMARY KEY,
    runs         INTEGER,
    per_key      INTEGER,
    rate_runs    INTEGER,
    rate_per_ms  INTEGER,
    rate_per_key INTEGER NOT NULL,
    set_at_ms    INTEGER NOT NULL,
    set_by       TEXT NOT NULL
) STRICT;
-- How they came to be so: each change has all that it set.
CREATE TABLE limit_changes (
    number       INTEGER PRIMARY KEY,
    workflow     TEXT NOT NULL,
    runs         INTEGER,
    per_key      INTEGER,
    rate_runs    INTEGER,
    rate_per_ms  INTEGER,
    rate_per_key INTEGER NOT NULL,
    set_at_ms    INTEGER NOT NULL,
    set_by       TEXT NOT NULL
) STRICT;
CREATE INDEX limit_changes_by_workflow ON limit_changes (workflow, number);

CREATE TABLE entrants (
    run         INTEGER PRIMARY KEY,
    workflow    TEXT NOT NULL,
    key         TEXT NOT NULL,
    rank        INTEGER NOT NULL,
    turn        INTEGER NOT NULL,
    deadline_ms INTEGER
) STRICT;
CREATE INDEX entrants_in_order ON entrants (workflow, rank, run) WHERE turn = 0;
CREATE INDEX entrants_in_line ON entrants (workflow, key, rank, run) WHERE turn = 0;
CREATE INDEX entrants_with_key ON entrants (workflow, key) WHERE turn = 2;
CREATE TRIGGER entrant_removed AFTER DELETE ON runs BEGIN
    DELETE FROM entrants WHERE run = old.id;
END;

-- How many runs of a workflow wait and rest, so that nobody counts them one by one.
CREATE TABLE queues (
    workflow TEXT PRIMARY KEY,
    waits    INTEGER NOT NULL,
    rests    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TRIGGER entrant_came AFTER INSERT ON entrants WHEN new.turn < 2 BEGIN
    INSERT INTO queues (workflow, waits, rests) VALUES (new.workflow, new.turn = 0, new.turn = 1)
        ON CONFLICT (workflow) DO UPDATE SET waits = waits + (new.turn = 0), rests = rests + (new.turn = 1);
END;
CREATE TRIGGER entrant_moved AFTER UPDATE OF turn ON entrants WHEN old.turn <> new.turn AND (old.turn < 2 OR new.turn < 2) BEGIN
    INSERT INTO queues (workflow, waits, rests) VALUES (new.workflow, new.turn = 0, new.turn = 1)
        ON CONFLICT (workflow) DO UPDATE SET waits = waits + (new.turn = 0) - (old.turn = 0),
            rests = rests + (new.turn = 1) - (old.turn = 1);
END;
CREATE TRIGGER entrant_went AFTER DELETE ON entrants WHEN old.turn < 2 BEGIN
    UPDATE queues SET waits = waits - (old.turn = 0), rests = rests - (old.turn = 1) WHERE workflow = old.workflow;
END;

-- The first of those that wait with each key.
CREATE TABLE lines (
    workflow TEXT NOT NULL,
    key      TEXT NOT NULL,
    rank     INTEGER NOT NULL,
    run      INTEGER NOT NULL,
    open     INTEGER NOT NULL,
    until_ms INTEGER,
    PRIMARY KEY (workflow, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX lines_open ON lines (workflow, rank, run) WHERE open = 1;
CREATE INDEX lines_until ON lines (workflow, until_ms) WHERE until_ms IS NOT NULL;

-- Beginnings under a rate, for as long as its window.
CREATE TABLE begun (
    workflow TEXT NOT NULL,
    key      TEXT NOT NULL,
    n        INTEGER NOT NULL,
    at_ms    INTEGER NOT NULL,
    PRIMARY KEY (workflow, key, n)
) STRICT, WITHOUT ROWID;
CREATE INDEX begun_by_time ON begun (workflow, at_ms);
";

/// The queue's tables, in a transaction or as they are committed.
pub(super) struct Queue<'a>(pub(super) &'a Connection);

impl Queue<'_> {
    fn execute(&self, sql: &str, values: impl rusqlite::Params) -> Result<usize> {
        Ok(self.0.prepare_cached(sql)?.execute(values)?)
    }

    fn find<T>(
        &self,
        sql: &str,
        values: impl rusqlite::Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>> {
        Ok(self.0.prepare_cached(sql)?.query_row(values, read).optional()?)
    }

    /// The key of the first that waits in a workflow.
    pub(super) fn first_key(&self, workflow: &str) -> Result<Option<String>> {
        self.find(FIRST, [workflow], |row| row.get(0))
    }

    /// How many wait.
    pub(super) fn waiting(&self, workflow: &str) -> Result<u64> {
        let waits = self.find("SELECT waits FROM queues WHERE workflow = ?1", [workflow], |row| row.get(0))?;
        Ok(waits.map_or(0, unsigned))
    }
}

pub(super) const FIRST: &str = "SELECT key FROM entrants WHERE workflow = ?1 AND turn = 0 ORDER BY rank, run LIMIT 1";
pub(super) const HOLDING: &str =
    "SELECT count(*) FROM (SELECT 1 FROM entrants WHERE workflow = ?1 AND key = ?2 AND turn = 2 LIMIT ?3)";
/// A row value would be compared by its first part alone: the last one is the number of the row.
pub(super) const BEFORE: &str = "SELECT count(*) FROM (
    SELECT 1 FROM entrants WHERE workflow = ?1 AND turn = 0 AND rank < ?2
    UNION ALL SELECT 1 FROM entrants WHERE workflow = ?1 AND turn = 0 AND rank = ?2 AND run < ?3 LIMIT ?4)";
pub(super) const BEFORE_WITH_KEY: &str = "SELECT count(*) FROM (
    SELECT 1 FROM entrants WHERE workflow = ?1 AND key = ?5 AND turn = 0 AND rank < ?2
    UNION ALL SELECT 1 FROM entrants WHERE workflow = ?1 AND key = ?5 AND turn = 0 AND rank = ?2 AND run < ?3 LIMIT ?4)";
pub(super) const UNDER_WAY: &str = "SELECT (SELECT ifnull(sum(n), 0) FROM counts WHERE workflow = ?1 AND status < 10)
    - (SELECT ifnull(sum(waits + rests), 0) FROM queues WHERE workflow = ?1)";
pub(super) const BEGUN_BACK: &str = "SELECT at_ms FROM begun WHERE workflow = ?1 AND key = ?2
    AND n = (SELECT max(n) FROM begun WHERE workflow = ?1 AND key = ?2) - ?3";
pub(super) const FIRST_IN_LINE: &str =
    "SELECT rank, run FROM entrants WHERE workflow = ?1 AND key = ?2 AND turn = 0 ORDER BY rank, run LIMIT 1";
pub(super) const NEXT_LINE: &str =
    "SELECT key, rank, run FROM lines WHERE workflow = ?1 AND open = 1 ORDER BY rank, run LIMIT 1";
pub(super) const NEXT_OPENING: &str =
    "SELECT until_ms FROM lines WHERE workflow = ?1 AND until_ms IS NOT NULL ORDER BY until_ms LIMIT 1";
pub(super) const NEWEST_BEGUN: &str = "SELECT at_ms FROM begun WHERE workflow = ?1 ORDER BY at_ms DESC LIMIT 1";
pub(super) const OLD_BEGUN: &str = "SELECT workflow, key, n FROM begun WHERE workflow = ?1 AND at_ms <= ?2 LIMIT 3";
/// Queued (0) and paused (4) runs with a time of theirs have not begun.
pub(super) const DELAYED: &str = "SELECT id FROM runs INDEXED BY runs_by_workflow_and_status
    WHERE workflow = ?1 AND status IN (0, 4) AND wake_at_ms IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM entrants WHERE entrants.run = runs.id)";

/// All columns of limits, for [`limits_row`].
pub(super) const LIMITS: &str =
    "SELECT workflow, runs, per_key, rate_runs, rate_per_ms, rate_per_key, set_at_ms, set_by FROM limits";
pub(super) const LIMIT_CHANGES: &str =
    "SELECT workflow, runs, per_key, rate_runs, rate_per_ms, rate_per_key, set_at_ms, set_by FROM limit_changes
     WHERE workflow = ?1 ORDER BY number DESC LIMIT ?2";

pub(super) fn limits_row(row: &Row<'_>) -> rusqlite::Result<LimitsRow> {
    let rate: (Option<u32>, Option<i64>) = (row.get(3)?, row.get(4)?);
    let per_key = row.get(5)?;
    let rate = rate.0.zip(rate.1).map(|(runs, per_ms)| Rate { runs, per_ms: unsigned(per_ms), per_key });
    Ok(LimitsRow {
        workflow: row.get(0)?,
        limits: Limits { runs: row.get(1)?, per_key: row.get(2)?, rate },
        set_at_ms: unsigned(row.get(6)?),
        set_by: row.get(7)?,
    })
}

/// A stored turn.
pub(super) fn turn_of(code: i64) -> Result<Turn> {
    Turn::from_code(code).ok_or_else(|| StoreError::Corrupt(format!("{code} is no turn of this version")))
}

impl QueueReads for Queue<'_> {
    fn limits(&self, workflow: &str) -> Result<Option<Limits>> {
        let row = self.find(&format!("{LIMITS} WHERE workflow = ?1"), [workflow], limits_row)?;
        Ok(row.map(|row| row.limits))
    }

    fn entrant(&self, run: RunKey) -> Result<Option<Entrant>> {
        let sql = "SELECT workflow, key, rank, turn, deadline_ms FROM entrants WHERE run = ?1";
        let read = |row: &Row<'_>| {
            let deadline_ms: Option<i64> = row.get(4)?;
            let (rank, turn): (i32, i64) = (row.get(2)?, row.get(3)?);
            Ok((row.get(0)?, row.get(1)?, -rank, turn, deadline_ms.map(unsigned)))
        };
        let Some((workflow, key, priority, turn, deadline_ms)) = self.find(sql, [run], read)? else { return Ok(None) };
        Ok(Some(Entrant { run, workflow, key, priority, turn: turn_of(turn)?, deadline_ms }))
    }

    fn under_way(&self, workflow: &str) -> Result<u64> {
        Ok(self.find(UNDER_WAY, [workflow], |row| row.get(0))?.map_or(0, unsigned))
    }

    fn holding(&self, workflow: &str, key: &str, most: u32) -> Result<u32> {
        Ok(self.find(HOLDING, params![workflow, key, most], |row| row.get(0))?.unwrap_or(0))
    }

    fn begun_back(&self, workflow: &str, key: &str, back: u32) -> Result<Option<u64>> {
        let at_ms = self.find(BEGUN_BACK, params![workflow, key, i64::from(back) - 1], |row| row.get(0))?;
        Ok(at_ms.map(unsigned))
    }

    fn before(&self, entrant: &Entrant, with_key: bool, most: u32) -> Result<u32> {
        let (rank, run) = entrant.rank();
        let mut values: Vec<&dyn ToSql> = vec![&entrant.workflow, &rank, &run, &most];
        if with_key {
            values.push(&entrant.key);
        }
        let sql = if with_key { BEFORE_WITH_KEY } else { BEFORE };
        Ok(self.find(sql, values.as_slice(), |row| row.get(0))?.unwrap_or(0))
    }
}

impl QueueRows for Queue<'_> {
    fn has_limits(&self) -> Result<bool> {
        Ok(self.find("SELECT EXISTS (SELECT 1 FROM limits)", [], |row| row.get(0))?.unwrap_or(false))
    }

    fn set_limits(&mut self, row: &LimitsRow) -> Result<()> {
        let LimitsRow { workflow, limits, set_at_ms, set_by } = row;
        let rate = limits.rate;
        let values = params![
            workflow,
            limits.runs,
            limits.per_key,
            rate.map(|rate| rate.runs),
            rate.map(|rate| signed(rate.per_ms)),
            rate.is_some_and(|rate| rate.per_key),
            signed(*set_at_ms),
            set_by
        ];
        self.execute(
            "INSERT INTO limit_changes (workflow, runs, per_key, rate_runs, rate_per_ms, rate_per_key, set_at_ms, set_by)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            values,
        )?;
        if limits.is_empty() {
            self.execute("DELETE FROM limits WHERE workflow = ?1", [workflow])?;
            return Ok(());
        }
        self.execute(
            "INSERT OR REPLACE INTO limits (workflow, runs, per_key, rate_runs, rate_per_ms, rate_per_key, set_at_ms, set_by)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            values,
        )?;
        Ok(())
    }

    fn workflow_of(&self, run: RunKey) -> Result<Option<String>> {
        self.find("SELECT workflow FROM runs WHERE id = ?1", [run], |row| row.get(0))
    }

    fn put_entrant(&mut self, entrant: &Entrant) -> Result<()> {
        let (rank, run) = entrant.rank();
        let Entrant { workflow, key, turn, deadline_ms, .. } = entrant;
        self.execute(
            "INSERT INTO entrants (run, workflow, key, rank, turn, deadline_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
                 ON CONFLICT (run) DO UPDATE SET turn = ?5, deadline_ms = ?6",
            params![run, workflow, key, rank, turn.code(), deadline_ms.map(signed)],
        )?;
        Ok(())
    }

    fn unknown_delayed(&self, workflow: &str) -> Result<Vec<RunKey>> {
        all(self.0, DELAYED, [workflow], |row| row.get(0))
    }

    fn first_in_line(&self, workflow: &str, key: &str) -> Result<Option<Rank>> {
        self.find(FIRST_IN_LINE, [workflow, key], |row| Ok((row.get(0)?, row.get(1)?)))
    }

    fn put_line(&mut self, workflow: &str, key: &str, first: Option<Rank>) -> Result<()> {
        let Some((rank, run)) = first else {
            self.execute("DELETE FROM lines WHERE workflow = ?1 AND key = ?2", [workflow, key])?;
            return Ok(());
        };
        self.execute(
            "INSERT INTO lines (workflow, key, rank, run, open) VALUES (?1, ?2, ?3, ?4, 1)
                 ON CONFLICT (workflow, key) DO UPDATE SET rank = ?3, run = ?4 WHERE rank <> ?3 OR run <> ?4",
            params![workflow, key, rank, run],
        )?;
        Ok(())
    }

    fn open_line(&mut self, workflow: &str, key: &str) -> Result<()> {
        let sql = "UPDATE lines SET open = 1, until_ms = NULL WHERE workflow = ?1 AND key = ?2 AND open = 0";
        self.execute(sql, [workflow, key])?;
        Ok(())
    }

    fn close_line(&mut self, workflow: &str, key: &str, until_ms: Option<u64>) -> Result<()> {
        let sql = "UPDATE lines SET open = 0, until_ms = ?3 WHERE workflow = ?1 AND key = ?2";
        self.execute(sql, params![workflow, key, until_ms.map(signed)])?;
        Ok(())
    }

    fn open_lines(&mut self, workflow: &str, now_ms: u64) -> Result<()> {
        if now_ms == u64::MAX {
            let sql = "UPDATE lines SET open = 1, until_ms = NULL WHERE workflow = ?1 AND open = 0";
            self.execute(sql, [workflow])?;
        } else {
            let sql = "UPDATE lines SET open = 1, until_ms = NULL WHERE workflow = ?1 AND until_ms <= ?2";
            self.execute(sql, params![workflow, signed(now_ms)])?;
        }
        Ok(())
    }

    fn next_line(&self, workflow: &str) -> Result<Option<Line>> {
        self.find(NEXT_LINE, [workflow], |row| Ok(Line { key: row.get(0)?, first: (row.get(1)?, row.get(2)?) }))
    }

    fn next_opening(&self, workflow: &str) -> Result<Option<u64>> {
        Ok(self.find(NEXT_OPENING, [workflow], |row| row.get(0))?.map(unsigned))
    }

    fn queues(&self) -> Result<Vec<String>> {
        all(self.0, "SELECT workflow FROM queues WHERE waits > 0", [], |row| row.get(0))
    }

    fn add_begun(&mut self, workflow: &str, key: &str, at_ms: u64, old_ms: u64) -> Result<()> {
        self.execute(
            "INSERT INTO begun (workflow, key, n, at_ms) SELECT ?1, ?2,
                 ifnull((SELECT max(n) FROM begun WHERE workflow = ?1 AND key = ?2), 0) + 1, ?3",
            params![workflow, key, signed(at_ms)],
        )?;
        let sql = format!("DELETE FROM begun WHERE (workflow, key, n) IN ({OLD_BEGUN})");
        self.execute(&sql, params![workflow, signed(old_ms)])?;
        Ok(())
    }

    fn newest_begun(&self, workflow: &str) -> Result<Option<u64>> {
        Ok(self.find(NEWEST_BEGUN, [workflow], |row| row.get(0))?.map(unsigned))
    }

    fn begun_by(&mut self, workflow: &str, now_ms: u64) -> Result<()> {
        let sql = "UPDATE begun SET at_ms = ?2 WHERE workflow = ?1 AND at_ms > ?2";
        self.execute(sql, params![workflow, signed(now_ms)])?;
        Ok(())
    }

    fn forget_begun(&mut self, workflow: &str) -> Result<()> {
        self.execute("DELETE FROM begun WHERE workflow = ?1", [workflow])?;
        Ok(())
    }
}
