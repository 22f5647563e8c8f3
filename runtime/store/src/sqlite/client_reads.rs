//! Queries for answering clients: counts, modules and what is active, answers under keys, tokens.

use rusqlite::{Connection, OptionalExtension, Row, params};

use stepwell_core::ids::Digest;

use super::forget;
use super::reads::{SqliteReads, all, one_run};
use super::rows::{signed, unsigned};
use super::schedules;
use crate::error::{Result, StoreError};
use crate::rows::{EndedRun, ModuleRow, RunKey, RunRow};
use crate::schedules::{Schedule, ScheduleCounts};
use crate::status::Status;
use crate::store::ClientReads;
use crate::submission::{Active, Answer, Token};

impl ClientReads for SqliteReads {
    fn run_by_run_key(&self, run_key: &str) -> Result<Option<RunRow>> {
        self.query(|connection| one_run(connection, "run_key = ?1", [run_key]))
    }

    fn counts(&self, workflow: Option<&str>) -> Result<Vec<(String, Status, u64)>> {
        let sql = "SELECT workflow, status, n FROM counts WHERE n > 0 AND workflow = coalesce(?1, workflow)
                   ORDER BY workflow, status";
        let read =
            |row: &Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?, unsigned(row.get::<_, i64>(2)?)));
        let rows = self.query(|connection| all(connection, sql, [workflow], read))?;
        let status = |code| {
            Status::from_code(code).ok_or_else(|| StoreError::Corrupt(format!("{code} is no status of this version")))
        };
        rows.into_iter().map(|(workflow, code, n)| Ok((workflow, status(code)?, n))).collect()
    }

    fn module_row(&self, digest: &Digest) -> Result<Option<ModuleRow>> {
        let sql = "SELECT digest, added_at_ms, size_bytes, description FROM modules WHERE digest = ?1";
        self.query(|connection| one(connection, sql, [digest.as_str()], module_row))
    }

    fn active(&self) -> Result<Vec<Active>> {
        let sql = "SELECT name, digest, activated_at_ms FROM workflows ORDER BY name";
        self.query(|connection| all(connection, sql, [], active))
    }

    fn active_of(&self, workflow: &str) -> Result<Option<Active>> {
        let sql = "SELECT name, digest, activated_at_ms FROM workflows WHERE name = ?1";
        self.query(|connection| one(connection, sql, [workflow], active))
    }

    fn answer(&self, key: &str) -> Result<Option<Answer>> {
        self.query(|connection| one(connection, ANSWER, [key], answer))
    }

    fn ended(&self, status: Status, after: RunKey, limit: u32) -> Result<Vec<EndedRun>> {
        let sql = format!("{} WHERE status = ?1 AND id > ?2 ORDER BY id LIMIT ?3", forget::ENDED);
        let runs =
            self.query(|connection| all(connection, &sql, params![status.code(), after, limit], forget::ended_run))?;
        Ok(runs.into_iter().flatten().collect())
    }

    fn token(&self, id: &str) -> Result<Option<Token>> {
        self.query(|connection| one(connection, TOKEN, [id], token))
    }

    fn has_tokens(&self) -> Result<bool> {
        self.query(|connection| {
            Ok(connection.prepare_cached("SELECT EXISTS (SELECT 1 FROM tokens)")?.query_row([], |row| row.get(0))?)
        })
    }

    fn tokens(&self, after: Option<(u64, &str)>, limit: u32) -> Result<Vec<Token>> {
        let sql = "SELECT id, principal, scopes, hash, created_at_ms, expires_at_ms FROM tokens
                   WHERE (created_at_ms, id) > (?1, ?2) ORDER BY created_at_ms, id LIMIT ?3";
        let (at_ms, id) = after.map_or((-1, ""), |(at_ms, id)| (signed(at_ms), id));
        self.query(|connection| all(connection, sql, rusqlite::params![at_ms, id, limit], token))
    }

    fn schedule(&self, name: &str) -> Result<Option<Schedule>> {
        self.query(|connection| schedules::one(connection, name))
    }

    fn schedules(&self, after: Option<&str>, limit: u32) -> Result<Vec<Schedule>> {
        self.query(|connection| schedules::page(connection, after.unwrap_or_default(), limit))
    }

    fn due_schedules(&self, now_ms: u64) -> Result<Vec<String>> {
        self.query(|connection| schedules::due(connection, now_ms))
    }

    fn next_schedule(&self, after_ms: u64) -> Result<Option<u64>> {
        self.query(|connection| schedules::next(connection, after_ms))
    }

    fn has_open_run(&self, schedule: &str) -> Result<bool> {
        self.query(|connection| schedules::has_open_run(connection, schedule))
    }

    fn schedule_counts(&self) -> Result<ScheduleCounts> {
        self.query(schedules::counts)
    }
}

/// The answer under a key, for [`answer`].
pub(super) const ANSWER: &str =
    "SELECT key, principal, fingerprint, at_ms, kept, status, body FROM answers WHERE key = ?1";

/// One token, for [`token`].
pub(super) const TOKEN: &str =
    "SELECT id, principal, scopes, hash, created_at_ms, expires_at_ms FROM tokens WHERE id = ?1";

/// All tokens, for [`token`].
pub(super) const TOKENS: &str =
    "SELECT id, principal, scopes, hash, created_at_ms, expires_at_ms FROM tokens ORDER BY created_at_ms, id";

pub(super) fn answer(row: &Row<'_>) -> rusqlite::Result<Answer> {
    Ok(Answer {
        key: row.get(0)?,
        principal: row.get(1)?,
        fingerprint: row.get(2)?,
        at_ms: unsigned(row.get(3)?),
        kept: row.get(4)?,
        status: row.get(5)?,
        body: row.get(6)?,
    })
}

pub(super) fn module_row(row: &Row<'_>) -> rusqlite::Result<ModuleRow> {
    Ok(ModuleRow {
        digest: Digest::from_text(row.get::<_, String>(0)?),
        added_at_ms: unsigned(row.get(1)?),
        size_bytes: unsigned(row.get(2)?),
        description: row.get(3)?,
    })
}

fn active(row: &Row<'_>) -> rusqlite::Result<Active> {
    Ok(Active {
        workflow: row.get(0)?,
        digest: Digest::from_text(row.get::<_, String>(1)?),
        activated_at_ms: unsigned(row.get(2)?),
    })
}

pub(super) fn token(row: &Row<'_>) -> rusqlite::Result<Token> {
    Ok(Token {
        id: row.get(0)?,
        principal: row.get(1)?,
        scopes: row.get(2)?,
        hash: row.get(3)?,
        created_at_ms: unsigned(row.get(4)?),
        expires_at_ms: row.get::<_, Option<i64>>(5)?.map(unsigned),
    })
}

fn one<T>(
    connection: &Connection,
    sql: &str,
    values: impl rusqlite::Params,
    read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Option<T>> {
    Ok(connection.prepare_cached(sql)?.query_row(values, read).optional()?)
}
