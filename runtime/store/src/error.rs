//! What can go wrong in the store, grouped by what the caller does about it.

use std::path::PathBuf;

use stepwell_core::ids::{Digest, RunId};

use crate::rows::RunKey;
use crate::status::Status;

/// The store's result.
pub type Result<T> = std::result::Result<T, StoreError>;

/// Why the store could not do what it was asked. One failed commit fails everything in it, so errors can be cloned.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    // At opening: the operator has to act.
    /// Another process holds the data directory.
    #[error("{} is in use by another stepwell process{}: stop it first, or choose another directory", directory.display(), pid_text(*.pid))]
    InUse {
        /// The data directory.
        directory: PathBuf,
        /// The process, where its lock file could be read.
        pid: Option<u32>,
    },
    /// There is nothing to read.
    #[error("there is no stepwell database in {}", .0.display())]
    Missing(PathBuf),
    /// The database was written by a newer version. It has not been touched.
    #[error(
        "the database has schema version {found}, this stepwell knows versions up to {known}: use the newer stepwell that wrote it"
    )]
    NewerSchema {
        /// The database's version.
        found: u32,
        /// The newest version that this build can read.
        known: u32,
    },

    /// The database was written by an older version, and whoever only reads cannot bring it up to date.
    #[error(
        "the database has schema version {found}, which this stepwell brings to {known} before it reads it: start `stepwell serve`, or resume \
         a run, once"
    )]
    OlderSchema {
        /// The database's version.
        found: u32,
        /// The version that this build reads.
        known: u32,
    },

    /// The database has lost what it had said was durable: it is an older copy, or a part of it is gone. Effects of what is missing may
    /// have happened, and would be repeated.
    #[error(
        "the database has {found} of {acknowledged} rows that were durable: it is an older copy, or a part of it was lost (with its \
         write-ahead log, or by the disk). Effects of runs may have happened that it knows nothing of, and would happen again. Put the newest \
         copy back, with stepwell.db-wal where there is one; or go on from what there is with `stepwell restore FILE --replace`, which \
         says so to every run. (The number is in {})",
        mark.display()
    )]
    Behind {
        /// Rows that it has.
        found: u64,
        /// Rows that were said to be durable.
        acknowledged: u64,
        /// The file that says so.
        mark: PathBuf,
    },

    /// A copy is to be restored where a database is. Nothing has been touched.
    #[error(
        "there is a database in {} already: restore into another directory, or give --replace, which keeps what is there beside it",
        .0.display()
    )]
    Occupied(PathBuf),
    /// A copy is to be written where something is. It has not been touched.
    #[error("{} is there already: choose another name", .0.display())]
    Exists(PathBuf),

    // Of the disk: everything in the commit is lost, and works again once the cause is gone.
    /// No room left.
    #[error("the disk is full: {0}")]
    DiskFull(String),
    /// The database or its directory cannot be written.
    #[error("the database is read-only: {0}")]
    ReadOnly(String),
    /// Somebody else has held the database's own lock for too long, for instance a backup tool.
    #[error("the database is locked by another program: {0}")]
    Busy(String),
    /// The operating system refused a read or a write.
    #[error("input/output error: {0}")]
    Io(String),

    // Of the data.
    /// What is stored cannot be read. Other runs are not affected, unless the whole file is damaged.
    #[error("unreadable data: {0}")]
    Corrupt(String),

    // Of one run: it must stop in this process.
    /// The entries do not follow on the journal's last one: two writers, or a state that is out of date.
    #[error("run {run}: entries from {got} on cannot be appended, the journal's next is {expected}")]
    Conflict {
        /// The run.
        run: RunKey,
        /// The journal's next sequence number.
        expected: u64,
        /// Where the entries were to begin.
        got: u64,
    },
    /// The run has ended and takes nothing more.
    #[error("run {run} has {status} and takes nothing more")]
    Finished {
        /// The run.
        run: RunKey,
        /// Its end.
        status: Status,
    },
    /// An earlier write of this run was lost, so nothing that follows it may be kept.
    #[error("run {run} stopped when an earlier write failed: {cause}")]
    Stopped {
        /// The run.
        run: RunKey,
        /// The first failure.
        cause: Box<StoreError>,
    },

    // Of one request.
    /// There is no such run.
    #[error("there is no run {0}")]
    NoSuchRun(RunKey),
    /// A run of this id exists.
    #[error("run {0} exists")]
    RunExists(RunId),
    /// The run key that was wanted belongs to a run.
    #[error("the run key belongs to run {0}")]
    RunKeyTaken(RunId),
    /// Something was answered under the idempotency key already.
    #[error("the idempotency key has been answered")]
    AlreadyAnswered,
    /// The run had something else under the sender's key.
    #[error("something else was sent to the run under this key")]
    EventDiffers,
    /// The module is not in the store.
    #[error("module {0} is not in the store")]
    NoSuchModule(Digest),
    /// Somebody needs the module.
    #[error("{0}")]
    ModuleNeeded(String),
    /// There is no such token.
    #[error("there is no token {0}")]
    NoSuchToken(String),
    /// A token of this name exists.
    #[error("token {0} exists")]
    TokenExists(String),
    /// There is no such schedule.
    #[error("there is no schedule {0:?}")]
    NoSuchSchedule(String),
    /// No token without an end would be left that has this scope.
    #[error("no token without an end would be left with the scope {0}")]
    LastToken(String),
    /// What the request was prepared from has changed since. It can be prepared anew.
    #[error("what the request was prepared from has changed")]
    Outdated,
    /// The store was closed, or crashed in a test, before the write was durable.
    #[error("the store was closed before this was durable")]
    Closed,
    /// A fault of the store's own.
    #[error("internal fault of the store: {0}")]
    Internal(String),
}

impl StoreError {
    /// Whether the cause lies with the disk or the database as a whole, so that any write would have failed.
    #[must_use]
    pub fn is_of_the_disk(&self) -> bool {
        matches!(self, Self::DiskFull(_) | Self::ReadOnly(_) | Self::Busy(_) | Self::Io(_) | Self::Closed)
    }
}

fn pid_text(pid: Option<u32>) -> String {
    pid.map_or_else(String::new, |pid| format!(" (pid {pid})"))
}
