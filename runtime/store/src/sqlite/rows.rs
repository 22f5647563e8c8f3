//! The rows within a transaction: one statement for each method, all of them cached.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension, params};

use stepwell_core::ids::{Digest, RunId};

use super::outcome::{self, OUTCOME, found};
use super::parts;
use super::queue::Queue;
use super::reads::all;
use super::{client_reads, forget, schedules};

use crate::error::{Result, StoreError};
use crate::ledger::{Child, Head, LastEntry, Rows};
use crate::links::{Link, Reply};
use crate::queue::QueueRows;
use crate::rows::{EndedRun, InboxEvent, LogRow, NewEvent, NewModule, NewRun, RunChange, RunKey};
use crate::schedules::Schedule;
use crate::status::{FIRST_FINISHED_CODE, LAST_FINISHED_CODE, Status};
use crate::submission::{Answer, Token};

pub(super) struct SqliteRows<'a> {
    connection: &'a Connection,
    queue: Queue<'a>,
    /// Rows added to the tables whose rows stay.
    added: u64,
}

impl<'a> SqliteRows<'a> {
    pub(super) fn new(connection: &'a Connection) -> Self {
        Self { connection, queue: Queue(connection), added: 0 }
    }

    /// Runs, entries and events added.
    pub(super) fn added(&self) -> u64 {
        self.added
    }

    fn add(&mut self, sql: &str, values: impl rusqlite::Params) -> Result<()> {
        self.added += self.execute(sql, values)? as u64;
        Ok(())
    }

    fn execute(&self, sql: &str, values: impl rusqlite::Params) -> Result<usize> {
        Ok(self.connection.prepare_cached(sql)?.execute(values)?)
    }

    fn find<T>(
        &self,
        sql: &str,
        values: impl rusqlite::Params,
        read: impl FnOnce(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>> {
        Ok(self.connection.prepare_cached(sql)?.query_row(values, read).optional()?)
    }
}

/// Entries that one statement adds: calling a statement costs about as much as a row.
const TOGETHER: usize = 8;
pub(super) const ADD_RUN: &str =
    "INSERT INTO runs (run, workflow, digest, run_key, status, created_at_ms, changed_at_ms, wake_at_ms, tags)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6, ?7, ?8)";
pub(super) const CHANGE_RUN: &str =
    "UPDATE runs SET status = ?2, detail = ?3, wake_at_ms = ?4, outcome = ?5, changed_at_ms = ?6,
         digest = coalesce(?7, digest), status_text = coalesce(?8, status_text),
         recoveries = coalesce(?9, recoveries), inbox_seen = coalesce(?10, inbox_seen)
     WHERE id = ?1";
const ADD_ONE: &str = "INSERT INTO journal (run, seq, entry) VALUES (?1, ?2, ?3)";
const ADD_TOGETHER: &str = "INSERT INTO journal (run, seq, entry) VALUES (?1, ?2, ?3), (?1, ?4, ?5), (?1, ?6, ?7),
    (?1, ?8, ?9), (?1, ?10, ?11), (?1, ?12, ?13), (?1, ?14, ?15), (?1, ?16, ?17)";

impl Rows for SqliteRows<'_> {
    fn head(&mut self, run: RunKey) -> Result<Option<Head>> {
        let sql = "SELECT status, wake_at_ms, (SELECT max(seq) FROM journal WHERE run = id),
                       EXISTS (SELECT 1 FROM entrants WHERE run = id) FROM runs WHERE id = ?1";
        let read = |row: &rusqlite::Row<'_>| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, Option<i64>>(1)?, row.get::<_, Option<i64>>(2)?, row.get(3)?))
        };
        let Some((code, wake_at_ms, last_seq, is_queued)) = self.find(sql, [run], read)? else { return Ok(None) };
        let status = Status::from_code(code)
            .ok_or_else(|| StoreError::Corrupt(format!("run {run} has the unknown status {code}")))?;
        let next_seq = last_seq.map_or(0, |seq| unsigned(seq) + 1);
        Ok(Some(Head { status, next_seq, wake_at_ms: wake_at_ms.map(unsigned), is_queued }))
    }

    fn run_by_id(&mut self, run: &RunId) -> Result<Option<RunKey>> {
        self.find("SELECT id FROM runs WHERE run = ?1", [run.as_str()], |row| row.get(0))
    }

    fn run_by_run_key(&mut self, run_key: &str) -> Result<Option<(RunId, RunKey)>> {
        self.find("SELECT run, id FROM runs WHERE run_key = ?1", [run_key], |row| {
            Ok((RunId::new(row.get::<_, String>(0)?), row.get(1)?))
        })
    }

    fn queue(&mut self) -> &mut dyn QueueRows {
        &mut self.queue
    }

    fn add_run(&mut self, run: &NewRun, wake_at_ms: Option<u64>) -> Result<RunKey> {
        let values = params![
            run.run.as_str(),
            run.workflow,
            run.digest.as_str(),
            run.run_key,
            Status::Queued.code(),
            signed(run.created_at_ms),
            wake_at_ms.map(signed),
            tags_text(&run.tags)?,
        ];
        self.add(ADD_RUN, values)?;
        let key = self.connection.last_insert_rowid();
        if let Some(retry_of) = &run.retry_of {
            self.execute("INSERT INTO retries (run, retry_of) VALUES (?1, ?2)", params![key, retry_of.as_str()])?;
        }
        if let Some(rerun) = &run.rerun {
            let sql = "INSERT INTO reruns (run, rerun_of, step) VALUES (?1, ?2, ?3)";
            self.execute(sql, params![key, rerun.of.run.as_str(), rerun.of.step])?;
            self.set_unknown(key, rerun.unknown)?;
        }
        Ok(key)
    }

    fn change_run(
        &mut self,
        run: RunKey,
        change: &RunChange,
        wake_at_ms: Option<u64>,
        last: Option<LastEntry<'_>>,
    ) -> Result<()> {
        let place = change.outcome.as_ref().zip(last).and_then(|(outcome, last)| outcome::place(outcome, last));
        let values = params![
            run,
            change.status.code(),
            change.detail,
            wake_at_ms.map(signed),
            place.as_ref().or(change.outcome.as_ref()),
            signed(change.at_ms),
            change.digest.as_ref().map(Digest::as_str),
            change.status_text,
            change.recoveries,
            change.inbox_seen.map(signed),
        ];
        self.execute(CHANGE_RUN, values)?;
        Ok(())
    }

    fn set_unknown(&mut self, run: RunKey, unknown: u32) -> Result<()> {
        self.execute("UPDATE runs SET unknown = ?2 WHERE id = ?1", params![run, unknown])?;
        Ok(())
    }

    fn add_entries(&mut self, run: RunKey, first_seq: u64, entries: &[Vec<u8>]) -> Result<()> {
        let (together, rest) = entries.as_chunks::<TOGETHER>();
        let mut seq = first_seq;
        if !together.is_empty() {
            let mut statement = self.connection.prepare_cached(ADD_TOGETHER)?;
            statement.raw_bind_parameter(1, run)?;
            for entries in together {
                for (entry, at) in entries.iter().zip((2..).step_by(2)) {
                    statement.raw_bind_parameter(at, signed(seq))?;
                    statement.raw_bind_parameter(at + 1, entry)?;
                    seq += 1;
                }
                self.added += statement.raw_execute()? as u64;
            }
        }
        if !rest.is_empty() {
            let mut statement = self.connection.prepare_cached(ADD_ONE)?;
            for entry in rest {
                self.added += statement.execute(params![run, signed(seq), entry])? as u64;
                seq += 1;
            }
        }
        Ok(())
    }

    fn add_part(&mut self, run: RunKey, seq: u64, number: u32, bytes: &[u8]) -> Result<()> {
        self.execute(parts::ADD, params![run, signed(seq), number, bytes])?;
        Ok(())
    }

    fn forget_parts(&mut self, run: RunKey, from: u64) -> Result<()> {
        self.execute("DELETE FROM parts WHERE run = ?1 AND seq >= ?2", [run, signed(from)])?;
        Ok(())
    }

    fn add_entry_in_parts(&mut self, run: RunKey, seq: u64, entry: &[u8]) -> Result<()> {
        self.added += parts::add_entry(self.connection, run, seq, entry)? as u64;
        Ok(())
    }

    fn add_log(&mut self, run: RunKey, row: &LogRow) -> Result<()> {
        let values =
            params![run, signed(row.turn), row.index, signed(row.at_ms), row.level, row.step, row.text, row.fields];
        self.execute(
            "INSERT OR IGNORE INTO logs (run, turn, line, at_ms, level, step, text, fields)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            values,
        )?;
        Ok(())
    }

    fn add_timer(&mut self, due_ms: u64, run: RunKey) -> Result<()> {
        self.execute("INSERT OR IGNORE INTO timers (due_ms, run) VALUES (?1, ?2)", [signed(due_ms), run])?;
        Ok(())
    }

    fn remove_timer(&mut self, due_ms: u64, run: RunKey) -> Result<()> {
        self.execute("DELETE FROM timers WHERE due_ms = ?1 AND run = ?2", [signed(due_ms), run])?;
        Ok(())
    }

    fn last_event(&mut self, run: RunKey) -> Result<u64> {
        let last =
            self.find("SELECT max(number) FROM inbox WHERE run = ?1", [run], |row| row.get::<_, Option<i64>>(0))?;
        Ok(last.flatten().map_or(0, unsigned))
    }

    fn event_by_dedup(&mut self, run: RunKey, dedup: &str) -> Result<Option<InboxEvent>> {
        let sql = "SELECT number, name, payload, op FROM inbox WHERE run = ?1 AND dedup = ?2";
        self.find(sql, params![run, dedup], inbox_event)
    }

    fn add_event(&mut self, number: u64, event: &NewEvent) -> Result<()> {
        self.add(
            "INSERT INTO inbox (run, number, name, dedup, payload) VALUES (?1, ?2, ?3, ?4, ?5)",
            params![event.run, signed(number), event.name, event.dedup, event.payload],
        )
    }

    fn add_reply(&mut self, run: RunKey, number: u64, op: u32, reply: Reply, payload: &str) -> Result<()> {
        self.add(
            "INSERT INTO inbox (run, number, name, payload, op) VALUES (?1, ?2, ?3, ?4, ?5)",
            params![run, signed(number), reply.as_str(), payload, op],
        )
    }

    fn events_left(&mut self, run: RunKey, numbers: &[u64], seen: u64) -> Result<Vec<NewEvent>> {
        let sql = "SELECT name, payload, dedup FROM inbox WHERE run = ?1 AND op IS NULL
                   AND (number > ?2 OR number IN (SELECT value FROM json_each(?3))) ORDER BY number";
        let read =
            |row: &rusqlite::Row<'_>| Ok(NewEvent { run, name: row.get(0)?, payload: row.get(1)?, dedup: row.get(2)? });
        let numbers = serde_json::Value::from(numbers).to_string();
        all(self.connection, sql, params![run, signed(seen), numbers], read)
    }

    fn link(&mut self, run: RunKey) -> Result<Link> {
        let sql =
            "SELECT parent, op, awaited, stays, cancel, continued_from, continued_as, first FROM links WHERE run = ?1";
        let read = |row: &rusqlite::Row<'_>| {
            let parent: Option<RunKey> = row.get(0)?;
            let op: Option<u32> = row.get(1)?;
            Ok(Link {
                parent: parent.zip(op),
                awaited: row.get(2)?,
                stays: row.get(3)?,
                cancel: row.get(4)?,
                continued_from: row.get(5)?,
                continued_as: row.get(6)?,
                first: row.get(7)?,
            })
        };
        Ok(self.find(sql, [run], read)?.unwrap_or_default())
    }

    fn put_link(&mut self, run: RunKey, link: &Link) -> Result<()> {
        let values = params![
            run,
            link.parent.map(|(parent, _)| parent),
            link.parent.map(|(_, op)| op),
            link.awaited,
            link.stays,
            link.cancel,
            link.continued_from,
            link.continued_as,
            link.first,
        ];
        self.execute(
            "INSERT OR REPLACE INTO links (run, parent, op, awaited, stays, cancel, continued_from, continued_as, first)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            values,
        )?;
        Ok(())
    }

    fn last_after(&mut self, first: RunKey) -> Result<Option<RunKey>> {
        self.find("SELECT run FROM links WHERE first = ?1 AND continued_as IS NULL", [first], |row| row.get(0))
    }

    fn open_children(&mut self, run: RunKey) -> Result<Vec<RunKey>> {
        let sql = format!(
            "SELECT links.run FROM links JOIN runs ON runs.id = links.run
             WHERE links.parent = ?1 AND (status < {FIRST_FINISHED_CODE} OR status > {LAST_FINISHED_CODE}) ORDER BY links.run"
        );
        all(self.connection, &sql, [run], |row| row.get(0))
    }

    fn children(&mut self, run: RunKey) -> Result<Vec<Child>> {
        let sql = format!(
            "SELECT id, status, {OUTCOME} FROM links CROSS JOIN runs ON id = links.run
             WHERE links.parent = ?1 ORDER BY links.run DESC"
        );
        let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get::<_, i64>(1)?, row.get(2)?));
        let children: Vec<(RunKey, i64, Option<String>)> = all(self.connection, &sql, [run], read)?;
        let child = |(run, code, outcome)| {
            let status = Status::from_code(code).ok_or_else(|| StoreError::Corrupt(format!("status {code}")))?;
            Ok(Child { run, status, outcome: found(outcome)? })
        };
        children.into_iter().map(child).collect()
    }

    fn release_run_key(&mut self, run: RunKey) -> Result<()> {
        self.execute("UPDATE runs SET run_key = NULL WHERE id = ?1", [run])?;
        Ok(())
    }

    fn add_module(&mut self, module: &NewModule) -> Result<bool> {
        let rows = self.execute(
            "INSERT OR IGNORE INTO modules (digest, added_at_ms, size_bytes, description, bytes)
             VALUES (?1, ?2, ?3, ?4, ?5)",
            params![
                module.digest.as_str(),
                signed(module.added_at_ms),
                module.bytes.len() as i64,
                module.description,
                module.bytes
            ],
        )?;
        Ok(rows == 1)
    }

    fn add_tag(&mut self, run: RunKey, name: &str, value: &str) -> Result<()> {
        self.execute("INSERT INTO tags (name, value, run) VALUES (?1, ?2, ?3)", params![name, value, run])?;
        Ok(())
    }

    fn has_module(&mut self, digest: &Digest) -> Result<bool> {
        Ok(self.find("SELECT 1 FROM modules WHERE digest = ?1", [digest.as_str()], |_| Ok(()))?.is_some())
    }

    fn workflow_on(&mut self, digest: &Digest) -> Result<Option<String>> {
        self.find("SELECT name FROM workflows WHERE digest = ?1", [digest.as_str()], |row| row.get(0))
    }

    fn runs_on(&mut self, digest: &Digest) -> Result<u64> {
        let n = self.find("SELECT n FROM needs WHERE digest = ?1", [digest.as_str()], |row| row.get(0))?;
        Ok(n.map_or(0, unsigned))
    }

    fn remove_module(&mut self, digest: &Digest) -> Result<()> {
        self.execute("DELETE FROM modules WHERE digest = ?1", [digest.as_str()])?;
        Ok(())
    }

    fn active(&mut self, workflow: &str) -> Result<Option<Digest>> {
        self.find("SELECT digest FROM workflows WHERE name = ?1", [workflow], |row| {
            Ok(Digest::from_text(row.get::<_, String>(0)?))
        })
    }

    fn activate(&mut self, workflow: &str, digest: &Digest, at_ms: u64) -> Result<()> {
        self.execute(
            "INSERT OR REPLACE INTO workflows (name, digest, activated_at_ms) VALUES (?1, ?2, ?3)",
            params![workflow, digest.as_str(), signed(at_ms)],
        )?;
        Ok(())
    }

    fn answer(&mut self, key: &str) -> Result<Option<Answer>> {
        self.find(client_reads::ANSWER, [key], client_reads::answer)
    }

    fn put_answer(&mut self, answer: &Answer) -> Result<()> {
        self.execute(
            "INSERT OR REPLACE INTO answers (key, principal, fingerprint, at_ms, kept, status, body)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            params![
                answer.key,
                answer.principal,
                answer.fingerprint,
                signed(answer.at_ms),
                answer.kept,
                answer.status,
                answer.body
            ],
        )?;
        Ok(())
    }

    fn forget_answers(&mut self, before_ms: u64, most: u32) -> Result<bool> {
        forget::answers(self.connection, before_ms, most)
    }

    fn hold(&mut self, run: RunKey, key: &str) -> Result<()> {
        self.execute("INSERT OR IGNORE INTO held (run, key) VALUES (?1, ?2)", params![run, key])?;
        Ok(())
    }

    fn ended(&mut self, run: RunKey) -> Result<Option<EndedRun>> {
        Ok(self.find(&format!("{} WHERE id = ?1", forget::ENDED), [run], forget::ended_run)?.flatten())
    }

    fn forget_run(&mut self, run: RunKey) -> Result<()> {
        forget::run(self.connection, run)
    }

    fn forget_rows(&mut self, most: u32) -> Result<bool> {
        forget::rows(self.connection, most)
    }

    fn try_writing(&mut self) -> Result<()> {
        self.execute("INSERT INTO tried (filler) VALUES (zeroblob(?1))", [TRIED_BYTES])?;
        self.execute("DELETE FROM tried", [])?;
        Ok(())
    }

    fn schedule_version(&mut self, name: &str) -> Result<Option<u64>> {
        schedules::version(self.connection, name)
    }

    fn put_schedule(&mut self, schedule: &Schedule) -> Result<()> {
        schedules::put(self.connection, schedule)
    }

    fn remove_schedule(&mut self, name: &str) -> Result<()> {
        schedules::remove(self.connection, name)
    }

    fn schedule_of(&mut self, run: RunKey) -> Result<Option<String>> {
        schedules::of_run(self.connection, run)
    }

    fn put_scheduled(&mut self, run: RunKey, schedule: &str) -> Result<()> {
        schedules::put_run(self.connection, run, schedule)
    }

    fn token(&mut self, id: &str) -> Result<Option<Token>> {
        self.find(client_reads::TOKEN, [id], client_reads::token)
    }

    fn tokens(&mut self) -> Result<Vec<Token>> {
        all(self.connection, client_reads::TOKENS, [], client_reads::token)
    }

    fn add_token(&mut self, token: &Token) -> Result<()> {
        self.execute(
            "INSERT INTO tokens (id, principal, scopes, hash, created_at_ms, expires_at_ms)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            params![
                token.id,
                token.principal,
                token.scopes,
                token.hash,
                signed(token.created_at_ms),
                token.expires_at_ms.map(signed)
            ],
        )?;
        Ok(())
    }

    fn expire_token(&mut self, id: &str, at_ms: u64) -> Result<()> {
        let sql = "UPDATE tokens SET expires_at_ms = min(coalesce(expires_at_ms, ?2), ?2) WHERE id = ?1";
        self.execute(sql, params![id, signed(at_ms)])?;
        Ok(())
    }
}

/// What a trial writes: pages of it, so that a database without room for another refuses it.
const TRIED_BYTES: i64 = 64 << 10;

/// A row of an inbox: its number, name and payload, and the operation that it replies to.
pub(super) fn inbox_event(row: &rusqlite::Row<'_>) -> rusqlite::Result<InboxEvent> {
    Ok(InboxEvent { number: unsigned(row.get(0)?), name: row.get(1)?, payload: row.get(2)?, reply_to: row.get(3)? })
}

/// A run's tags as its row has them, so that it is shown without looking elsewhere.
fn tags_text(tags: &[(String, String)]) -> Result<Option<String>> {
    if tags.is_empty() {
        return Ok(None);
    }
    let sorted: BTreeMap<_, _> = tags.iter().cloned().collect();
    serde_json::to_string(&sorted).map(Some).map_err(|error| StoreError::Internal(format!("tags: {error}")))
}

/// What [`tags_text`] has written.
pub(super) fn tags_of(text: &str) -> Result<Vec<(String, String)>> {
    let tags: BTreeMap<String, String> =
        serde_json::from_str(text).map_err(|error| StoreError::Corrupt(format!("tags: {error}")))?;
    Ok(tags.into_iter().collect())
}

/// SQLite's integers are signed. Times, turns and counts beyond its largest do not come up, and are held there.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A number that was written by [`signed`].
pub(super) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
