//! Stepwell's durable storage: runs, their journals and logs, timers, inboxes, modules and clients' answers, in SQLite or in memory.
//!
//! The engine appends to a run's journal without waiting for the disk, and waits only before something leaves or is shown:
//!
//! ```text
//! append ─┐                                          ┌─ SQLite: one writing connection
//! append ─┼─► lanes ─► one transaction (group) ─► ledger
//! event  ─┘     ▲        rules of each write (apply) └─ memory: the same, for tests
//!               └ durable(ticket): commit now, on this thread if nobody else is committing
//! ```
//!
//! Everything but the rows themselves is shared by both implementations. What entries mean is not known here, nor when a run
//! goes on: that is the core's and the engine's.

mod admission;
mod apply;
mod due;
mod errands;
mod error;
pub mod fault;
mod group;
mod grouped;
mod histogram;
mod lanes;
pub mod ledger;
mod links;
mod memory;
mod parts;
mod pending;
pub mod queue;
mod rows;
mod schedules;
mod settled;
mod size;
mod sqlite;
mod status;
mod stopped;
mod store;
mod submission;
mod submit;
pub mod testing;
mod tokens;

pub use due::Gather;
pub use error::{Result, StoreError};
pub use grouped::Grouped;
pub use histogram::{BOUNDS_US, Counted, Histogram};
pub use links::{Errand, Link, Links, Reply, Successor};
pub use memory::{MemoryLedger, MemoryReads};
pub use pending::{Pending, Ticket};
pub use queue::{Begins, InQueue, LimitsRow, QueueAs, QueueCounts, Turn};
pub use rows::{
    Append, Delivered, EndedRun, Epoch, InboxEvent, LogPlace, LogRow, ModuleRow, NewEvent, NewModule, NewRerun, NewRun,
    RerunOf, RunChange, RunFilter, RunKey, RunList, RunRow, Started, Unfinished, UnreadableRun,
};
pub use schedules::{Schedule, ScheduleCounts};
pub use sqlite::{
    Copied, Durability, Restoration, Restored, RunInCopy, SqliteLedger, SqliteOptions, SqliteReads, back_up, read_only,
    restore,
};
pub use status::{Status, UnknownStatus};
pub use store::{ClientReads, INBOX_PAGE_BYTES, Latencies, QueueStands, Reads, Store};
pub use submission::{Action, Active, Answer, Kept, Submission, Token};

/// The store on disk.
pub type SqliteStore = Grouped<SqliteLedger>;

/// The store in memory, with commits that fail on command: for tests.
pub type MemoryStore = Grouped<testing::Faulty<MemoryLedger>>;
