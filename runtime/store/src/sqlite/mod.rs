//! The ledger in SQLite: one directory, one database file, one process.
//!
//! One connection writes, under the group's mutex; a few read-only connections answer queries. The settings were measured
//! before they were chosen, see ARCHITECTURE.md.

mod ahead;
mod backup;
mod checkpoint;
mod client_reads;
mod create;
mod epochs;
mod errors;
mod forget;
mod links;
mod lists;
mod lock;
mod mark;
mod operated;
mod outcome;
mod parts;
#[cfg(test)]
mod plans;
mod pool;
mod queue;
mod queue_reads;
mod reads;
mod restore;
mod rows;
mod schedules;
mod schema;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, MAIN_DB, OpenFlags, TransactionBehavior};

use crate::due::Gather;
use crate::error::{Result, StoreError};
use crate::ledger::{Ledger, Rows};
use crate::{Grouped, SqliteStore};

use ahead::Ahead;
pub use backup::{Copied, back_up};
use checkpoint::Checkpointer;
use lock::DirectoryLock;
use mark::Mark;
use pool::Pool;
pub use reads::SqliteReads;
pub use restore::{Restoration, Restored, RunInCopy, restore};

/// The database's file in the data directory.
const DATABASE_FILE: &str = "stepwell.db";

/// What a commit survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// The loss of power: each commit waits for the disk.
    #[default]
    Disk,
    /// The end of this process, however it comes, but not that of the machine: the last commits before a loss of power may be
    /// gone. The database stays whole.
    Process,
}

/// How to open a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SqliteOptions {
    /// What a commit survives.
    pub durability: Durability,
    /// When writes that nobody waits for are committed.
    pub gather: Gather,
    /// How long to wait while another program, such as a backup tool, holds the database's lock.
    pub busy_timeout: Duration,
    /// How large the database's file may grow; beyond that, writes fail as on a full disk. `None` for as large as the disk.
    pub max_size_bytes: Option<u64>,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self {
            durability: Durability::default(),
            gather: Gather::default(),
            busy_timeout: Duration::from_secs(5),
            max_size_bytes: None,
        }
    }
}

impl SqliteStore {
    /// Opens the store of a data directory, and makes both where they do not exist.
    ///
    /// # Errors
    /// [`InUse`](StoreError::InUse) where another process has it open, [`NewerSchema`](StoreError::NewerSchema),
    /// [`ReadOnly`](StoreError::ReadOnly), [`Corrupt`](StoreError::Corrupt) where the file is no database,
    /// [`Behind`](StoreError::Behind) where it has lost what was acknowledged, and those of the disk.
    pub fn open(directory: &Path, options: SqliteOptions) -> Result<Self> {
        let (ledger, reads) = SqliteLedger::open(directory, options)?;
        Grouped::over(ledger, reads, options.gather)
    }
}

/// The writing side. The fields' order is that of their end: the lock goes last.
pub struct SqliteLedger {
    connection: Connection,
    checkpoints: Checkpointer,
    mark: Mark,
    ahead: Ahead,
    pool: Arc<Pool>,
    _lock: DirectoryLock,
}

impl SqliteLedger {
    /// The two sides of a database, for a store with a ledger of its own around this one. [`SqliteStore::open`] is the usual way.
    ///
    /// # Errors
    /// Those of [`SqliteStore::open`].
    pub fn open(directory: &Path, options: SqliteOptions) -> Result<(Self, SqliteReads)> {
        let lock = DirectoryLock::take(directory)?;
        create::where_missing(directory, options)?;
        let file = directory.join(DATABASE_FILE);
        let mut connection = Connection::open(&file)?;
        connection.busy_timeout(options.busy_timeout)?;
        schema::refuse_newer(&connection)?;
        if connection.is_readonly(MAIN_DB)? {
            return Err(StoreError::ReadOnly(format!("{} cannot be written", file.display())));
        }
        configure(&connection, options)?;
        schema::migrate(&mut connection)?;
        let mark = Mark::check(directory, &connection)?;
        let checkpoints = Checkpointer::begin(&file, &mut connection)?;
        let ahead =
            Ahead::of(&create::beside(&file, "-wal"), u64::from(checkpoint::MUCH) * PAGE_SIZE_BYTES.unsigned_abs());
        let pool = Arc::new(Pool::new(file));
        let reads = SqliteReads::new(pool.clone());
        Ok((Self { connection, checkpoints, mark, ahead, pool, _lock: lock }, reads))
    }
}

fn configure(connection: &Connection, options: SqliteOptions) -> Result<()> {
    // Only a new file takes the page size, and only before it is told to write ahead.
    connection.pragma_update(None, "page_size", PAGE_SIZE_BYTES)?;
    let mode: String = connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
    if !mode.eq_ignore_ascii_case("wal") {
        return Err(StoreError::Io(format!(
            "the file system does not offer what a write-ahead log needs (mode {mode})"
        )));
    }
    let synchronous = match options.durability {
        Durability::Disk => "FULL",
        Durability::Process => "NORMAL",
    };
    connection.pragma_update(None, "synchronous", synchronous)?;
    if let Some(bytes) = options.max_size_bytes {
        let pages = i64::try_from(bytes / PAGE_SIZE_BYTES as u64).unwrap_or(i64::MAX).clamp(1, MAX_PAGES);
        connection.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))?;
    }
    connection.set_prepared_statement_cache_capacity(64);
    Ok(())
}

const PAGE_SIZE_BYTES: i64 = 8 << 10;
/// SQLite's own bound.
const MAX_PAGES: i64 = 4_294_967_294;

impl Ledger for SqliteLedger {
    type Reads = SqliteReads;

    fn transaction(&mut self, work: &mut dyn FnMut(&mut dyn Rows) -> Result<()>) -> Result<()> {
        // Dropped without a commit, it rolls back.
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut rows = rows::SqliteRows::new(&transaction);
        work(&mut rows)?;
        let added = rows.added();
        self.ahead.make_room();
        transaction.commit()?;
        // Before anybody hears of the commit. A mark that cannot be written claims too little, which is no harm to what was committed.
        if let Err(error) = self.mark.rise(added) {
            tracing::warn!(%error, "the mark of what is acknowledged could not be written");
        }
        self.checkpoints.committed(&self.connection);
        Ok(())
    }
}

impl Drop for SqliteLedger {
    fn drop(&mut self) {
        if let Err(error) = self.mark.sync() {
            tracing::warn!(%error, "the mark of what is acknowledged could not be brought to the disk");
        }
        self.checkpoints.close();
        // The last connection to close tidies the write-ahead log up, and only one that may write can do that.
        self.pool.close();
    }
}

impl fmt::Debug for SqliteLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SqliteLedger")
    }
}

/// The reading half of a data directory, also while another process has it open. It takes no lock and changes nothing.
///
/// # Errors
/// [`Missing`](StoreError::Missing) where there is no database, and those of [`SqliteStore::open`] but for `InUse`.
pub fn read_only(directory: &Path) -> Result<SqliteReads> {
    let file = directory.join(DATABASE_FILE);
    if !create::is_there(&file) {
        return Err(StoreError::Missing(directory.to_owned()));
    }
    let connection = open_to_read(&file)?;
    schema::refuse_newer(&connection)?;
    schema::refuse_older(&connection)?;
    Ok(SqliteReads::new(Arc::new(Pool::new(file))))
}

fn open_to_read(file: &Path) -> Result<Connection> {
    let connection =
        Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(Duration::from_secs(5))?;
    Ok(connection)
}
