//! How the queue stands, for the engine and for clients.

use rusqlite::{OptionalExtension as _, params};

use super::queue::{LIMIT_CHANGES, LIMITS, Queue, limits_row, turn_of};
use super::reads::{SqliteReads, all};
use crate::admission;
use crate::error::Result;
use crate::queue::{InQueue, LimitsRow, QueueCounts, QueueReads as _, Turn};
use crate::rows::RunKey;
use crate::store::QueueStands;

impl QueueStands for SqliteReads {
    fn turn(&self, run: RunKey) -> Result<Option<Turn>> {
        self.query(|connection| {
            let mut statement = connection.prepare_cached("SELECT turn FROM entrants WHERE run = ?1")?;
            statement.query_row([run], |row| row.get(0)).optional()?.map(turn_of).transpose()
        })
    }

    fn in_queue(&self, run: RunKey, now_ms: u64) -> Result<Option<InQueue>> {
        self.query(|connection| admission::in_queue(&Queue(connection), run, now_ms))
    }

    fn limits_of(&self, workflow: &str) -> Result<Option<LimitsRow>> {
        let sql = format!("{LIMITS} WHERE workflow = ?1");
        self.query(|connection| Ok(connection.prepare_cached(&sql)?.query_row([workflow], limits_row).optional()?))
    }

    fn all_limits(&self) -> Result<Vec<LimitsRow>> {
        let sql = format!("{LIMITS} ORDER BY workflow");
        self.query(|connection| all(connection, &sql, [], limits_row))
    }

    fn limit_changes(&self, workflow: &str, limit: u32) -> Result<Vec<LimitsRow>> {
        self.query(|connection| all(connection, LIMIT_CHANGES, params![workflow, limit], limits_row))
    }

    fn queue_counts(&self, workflow: &str, now_ms: u64) -> Result<QueueCounts> {
        self.query(|connection| {
            let queue = Queue(connection);
            let wait = match queue.first_key(workflow)? {
                Some(key) => admission::first_wait(&queue, workflow, &key, now_ms)?,
                None => None,
            };
            let (under_way, waiting) = (queue.under_way(workflow)?, queue.waiting(workflow)?);
            Ok(QueueCounts { workflow: workflow.to_owned(), under_way, waiting, wait })
        })
    }
}
