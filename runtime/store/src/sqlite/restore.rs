//! From a copy back to a database: the one way past the mark of what was acknowledged. What the runs of the copy are told is the
//! caller's; here it becomes durable with the database, or nothing of it does.
//!
//! ```text
//!   lock ─> copy beside ─> every open run, in one transaction ─> what was there moves aside ─> into place ─> the mark
//! ```
//!
//! Whoever dies on the way leaves a directory that is as it was, or one that is not opened: the mark knows of more rows than there are.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, TransactionBehavior};

use super::errors::of_the_file;
use super::lock::DirectoryLock;
use super::mark::Mark;
use super::reads::{all, journal, one_run};
use super::rows::{SqliteRows, unsigned};
use super::{DATABASE_FILE, SqliteOptions, backup, configure, create, epochs, open_to_read, schedules, schema};
use crate::apply::{Heads, Refusal, Write, apply};
use crate::error::{Result, StoreError};
use crate::rows::{Append, Epoch, RunKey, RunRow};
use crate::status::{FIRST_FINISHED_CODE, LAST_FINISHED_CODE};

/// What is to be restored, and where.
#[derive(Debug, Clone, Copy)]
pub struct Restoration<'a> {
    /// The copy. It is only read.
    pub copy: &'a Path,
    /// The data directory.
    pub directory: &'a Path,
    /// A database that is there is moved aside.
    pub replace: bool,
}

/// A run of the copy that has not ended.
#[derive(Debug)]
pub struct RunInCopy {
    /// Its number inside.
    pub key: RunKey,
    /// Its row, where that can be read.
    pub row: Result<RunRow>,
    /// Its entries, where they can be read.
    pub journal: Result<Vec<Vec<u8>>>,
    /// When the newest change was that the copy has of any run.
    pub newest_ms: u64,
}

/// What was restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// How many runs the copy had that had not ended.
    pub open_runs: u64,
    /// When the newest change was that the copy had of any run, in ms since the Unix epoch; 0 where it had none.
    pub newest_ms: u64,
    /// How many schedules were paused.
    pub paused_schedules: u64,
    /// Where the database is that was there before.
    pub aside: Option<PathBuf>,
}

/// Makes a copy the database of a data directory, in a new epoch. `each` says what is written to each run that has not ended. Where it
/// is not known what followed the copy, schedules are paused: what they start next may have been started before. `reason` says why, from
/// when the copy has its newest change.
///
/// # Errors
/// [`InUse`](StoreError::InUse), [`Missing`](StoreError::Missing) where the copy is none, [`Occupied`](StoreError::Occupied),
/// [`NewerSchema`](StoreError::NewerSchema), [`Corrupt`](StoreError::Corrupt), those of `each` and of the disk.
pub fn restore(
    what: Restoration<'_>,
    epoch: &Epoch,
    reason: &dyn Fn(u64) -> String,
    each: &mut dyn FnMut(RunInCopy) -> Result<Append>,
) -> Result<Restored> {
    if !create::is_there(what.copy) {
        return Err(StoreError::Missing(what.copy.to_owned()));
    }
    let _lock = DirectoryLock::take(what.directory)?;
    let file = what.directory.join(DATABASE_FILE);
    let there = create::is_there(&file) || create::is_there(&create::beside(&file, "-wal"));
    if there && !what.replace {
        return Err(StoreError::Occupied(what.directory.to_owned()));
    }
    let from = open_to_read(what.copy)?;
    schema::refuse_newer(&from)?;
    let unfinished = create::place_of_new(what.directory)?;
    backup::copy(&from, &unfinished)?;
    drop(from);
    let mut connection = Connection::open(&unfinished)?;
    configure(&connection, SqliteOptions::default())?;
    schema::migrate(&mut connection)?;
    let told = tell(&mut connection, epoch, reason, each)?;
    // Closing empties the write-ahead log into the file, and syncs it.
    connection.close().map_err(|(_, error)| error)?;
    let aside = if there { Some(move_aside(what.directory, &file)?) } else { None };
    create::move_into_place(&unfinished, &file, what.directory)?;
    Mark::reset(what.directory, &open_to_read(&file)?)?;
    Ok(Restored { aside, ..told })
}

/// Begins the epoch, and writes to each open run what is to be said to it: all of them, or none.
fn tell(
    connection: &mut Connection,
    epoch: &Epoch,
    reason: &dyn Fn(u64) -> String,
    each: &mut dyn FnMut(RunInCopy) -> Result<Append>,
) -> Result<Restored> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    epochs::begin(&transaction, epoch)?;
    let newest: i64 = transaction.query_row("SELECT ifnull(max(changed_at_ms), 0) FROM runs", [], |row| row.get(0))?;
    let newest_ms = unsigned(newest);
    let sql = format!(
        "SELECT id FROM runs WHERE status < {FIRST_FINISHED_CODE} UNION ALL SELECT id FROM runs WHERE status > {LAST_FINISHED_CODE}"
    );
    let open: Vec<RunKey> = all(&transaction, &sql, [], |row| row.get(0))?;
    let mut heads = Heads::default();
    for &key in &open {
        let row = one_run(&transaction, "id = ?1", [key]);
        let row = row.and_then(|row| row.ok_or(StoreError::NoSuchRun(key)));
        let journal = journal(&transaction, key).map(|entries| entries.into_iter().map(|(_, bytes)| bytes).collect());
        let append = each(RunInCopy { key, row, journal, newest_ms })?;
        let mut rows = SqliteRows::new(&transaction);
        match apply(&mut rows, &mut heads, &Write::Append(append)) {
            Ok(_) => {}
            // A status that this version does not know: nobody takes the run up.
            Err(Refusal::Row(StoreError::Corrupt(reason))) => {
                tracing::error!(run = key, reason, "a run cannot be read and stays as it is");
            }
            Err(Refusal::Rule(error) | Refusal::Row(error)) => return Err(error),
        }
    }
    let paused_schedules = if epoch.in_doubt { schedules::pause_all(&transaction, &reason(newest_ms))? } else { 0 };
    transaction.commit()?;
    Ok(Restored { open_runs: open.len() as u64, newest_ms, paused_schedules, aside: None })
}

/// Moves the database out of the way, with all that belongs to it. The mark stays: until it is set anew it says that rows are missing.
fn move_aside(directory: &Path, file: &Path) -> Result<PathBuf> {
    let aside = (1..u32::MAX).map(|n| directory.join(format!("replaced-{n}"))).find(|path| !path.exists());
    let aside = aside.ok_or_else(|| StoreError::Io("there is no name left for what is replaced".to_owned()))?;
    let moved = || {
        fs::create_dir(&aside)?;
        for suffix in ["", "-wal", "-shm"] {
            let from = create::beside(file, suffix);
            if from.exists() {
                fs::rename(&from, create::beside(&aside.join(DATABASE_FILE), suffix))?;
            }
        }
        File::open(&aside)?.sync_all()?;
        File::open(directory)?.sync_all()
    };
    moved().map_err(|error| of_the_file(&aside.display().to_string(), &error))?;
    Ok(aside)
}
