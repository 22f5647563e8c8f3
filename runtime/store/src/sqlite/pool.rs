//! A few connections that only read. One is taken for each query and put back; nobody waits for one.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;

use super::open_to_read;
use crate::error::{Result, StoreError};

/// Connections kept between queries; more are opened when more queries run at once.
const MAX_IDLE: usize = 4;

pub(super) struct Pool {
    file: PathBuf,
    /// `None` once closed.
    idle: Mutex<Option<Vec<Connection>>>,
}

impl Pool {
    pub(super) fn new(file: PathBuf) -> Self {
        Self { file, idle: Mutex::new(Some(Vec::new())) }
    }

    /// Runs a query on one of the connections.
    pub(super) fn query<T>(&self, query: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let kept = self.idle().as_mut().ok_or(StoreError::Closed)?.pop();
        let connection = match kept {
            Some(connection) => connection,
            None => open_to_read(&self.file)?,
        };
        let answer = query(&connection);
        if let Some(idle) = self.idle().as_mut()
            && idle.len() < MAX_IDLE
        {
            idle.push(connection);
        }
        answer
    }

    pub(super) fn close(&self) {
        self.idle().take();
    }

    fn idle(&self) -> MutexGuard<'_, Option<Vec<Connection>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
