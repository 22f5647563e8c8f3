//! What is written to the store and read from it, as plain data.
//!
//! A journal entry is bytes here: what it means is the core's. Times are milliseconds since the Unix epoch.

use stepwell_core::ids::{Digest, RunId};

use crate::links::{Errand, Links, Successor};
use crate::queue::{QueueAs, Turn};
use crate::status::Status;
use crate::submission::Answer;

/// A run's number inside the store. Given in the order of the starts, never twice, and not shown outside.
pub type RunKey = i64;

/// A run to be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRun {
    /// Its name outside.
    pub run: RunId,
    /// The workflow's name.
    pub workflow: String,
    /// The module that it is pinned to.
    pub digest: Digest,
    /// The starter's own name for it: at most one run has it, for ever.
    pub run_key: Option<String>,
    /// When it was started.
    pub created_at_ms: u64,
    /// The journal's first entries, from sequence number 0 on.
    pub first: Vec<Vec<u8>>,
    /// Events that it finds in its inbox, in order.
    pub inbox: Vec<(String, String)>,
    /// The starter's marks on it, by which it is found. Names are given once.
    pub tags: Vec<(String, String)>,
    /// When it is to begin, where that is not at once.
    pub begins_at_ms: Option<u64>,
    /// With what it waits to begin.
    pub queue: QueueAs,
    /// The run that it is started in the place of.
    pub retry_of: Option<RunId>,
    /// It goes on from the journal of another run: `first` has that.
    pub rerun: Option<NewRerun>,
}

/// What a run that goes on from another's journal has of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRerun {
    /// Of which, and from where.
    pub of: RerunOf,
    /// How many entries that one had, and had ended with. One that has gone on since, or has begun to, is another than was looked at.
    pub entries: u64,
    /// How many of its steps have an unknown outcome.
    pub unknown: u32,
}

/// The run that another is a rerun of. It may have been taken away meanwhile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RerunOf {
    /// The run.
    pub run: RunId,
    /// The id of the step from whose beginning the other one lives by itself.
    pub step: String,
}

/// An epoch of the database, begun by restoring it from a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Epoch {
    /// Its name, which no other has.
    pub name: String,
    /// What was done after the copy was made is not known.
    pub in_doubt: bool,
    /// Who restored it.
    pub by: String,
}

/// What became of a start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Started {
    /// A new run, with status queued.
    New(RunKey),
    /// Its run key is taken. Nothing was written.
    Existing {
        /// The run that has the key.
        run: RunId,
        /// The same, inside.
        key: RunKey,
    },
}

/// One batch of one run: all of it becomes durable in one transaction, or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Append {
    /// The run.
    pub run: RunKey,
    /// The sequence number of the first entry: the number of entries that the journal has. Checked also when there are none.
    /// `None` where only the run's status changes, whatever is in its journal.
    pub first_seq: Option<u64>,
    /// The entries, in order.
    pub entries: Vec<Vec<u8>>,
    /// Lines for the run's log. A line whose turn and index are known is left as it is.
    pub logs: Vec<LogRow>,
    /// How the run stands after these entries, where that has changed.
    pub change: Option<RunChange>,
    /// How many steps of unknown outcome the run has after these entries, where that has changed.
    pub unknown: Option<u32>,
    /// What a client is answered who asked for this, under its key. An answer that the key holds already stays: the batch is true of
    /// its run all the same.
    pub answer: Option<Answer>,
    /// What the run does to others by these entries, in order.
    pub errands: Vec<Errand>,
    /// The run that goes on for this one, which ends by this batch.
    pub successor: Option<Box<Successor>>,
    /// This takes up a failed run again. Without it a run that has ended takes nothing; other ends take nothing at all.
    /// A run that was stopped by a refused batch has to be recovered first.
    pub reopens: bool,
}

impl Append {
    /// Entries alone.
    #[must_use]
    pub fn entries(run: RunKey, first_seq: u64, entries: Vec<Vec<u8>>) -> Self {
        Self { first_seq: Some(first_seq), entries, ..Self::nothing(run) }
    }

    /// A change of the run alone, by one that does not know its journal.
    #[must_use]
    pub fn change(run: RunKey, change: RunChange) -> Self {
        Self { change: Some(change), ..Self::nothing(run) }
    }

    fn nothing(run: RunKey) -> Self {
        Self {
            run,
            first_seq: None,
            entries: Vec::new(),
            logs: Vec::new(),
            change: None,
            unknown: None,
            answer: None,
            errands: Vec::new(),
            successor: None,
            reopens: false,
        }
    }

    /// The same batch with this change of the run.
    #[must_use]
    pub fn with_change(mut self, change: RunChange) -> Self {
        self.change = Some(change);
        self
    }
}

/// A line of a run's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogRow {
    /// The turn that wrote it.
    pub turn: u64,
    /// Which line of that turn, from 0.
    pub index: u32,
    /// When it was written.
    pub at_ms: u64,
    /// How important it is, from 0 (trace) to 4 (error).
    pub level: u8,
    /// The step whose body wrote it.
    pub step: Option<String>,
    /// The line.
    pub text: String,
    /// Its fields, JSON.
    pub fields: Option<String>,
}

/// A line's place in a run's log: turn and index.
pub type LogPlace = (u64, u32);

/// How a run stands from now on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunChange {
    /// The new status.
    pub status: Status,
    /// What it waits for, or why it is paused. Replaces the old detail, also with none.
    pub detail: Option<String>,
    /// When it has to be woken, at the earliest. Replaces the old time, also with none. A run that has ended has none.
    pub wake_at_ms: Option<u64>,
    /// Its result or error, JSON. Replaces the old one, also with none.
    pub outcome: Option<String>,
    /// When this was decided.
    pub at_ms: u64,
    /// Pins the run to another module. `None` leaves it where it is.
    pub digest: Option<Digest>,
    /// The workflow's own words on where it is. `None` leaves the old ones.
    pub status_text: Option<String>,
    /// Recoveries without progress so far. `None` leaves the number.
    pub recoveries: Option<u32>,
    /// The last of its inbox that its journal has, or that means nothing more to it. `None` leaves the number.
    pub inbox_seen: Option<u64>,
}

impl RunChange {
    /// To this status, with no detail, time or outcome.
    #[must_use]
    pub fn to(status: Status, at_ms: u64) -> Self {
        Self {
            status,
            detail: None,
            wake_at_ms: None,
            outcome: None,
            at_ms,
            digest: None,
            status_text: None,
            recoveries: None,
            inbox_seen: None,
        }
    }
}

/// A run as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunRow {
    /// Its number inside.
    pub key: RunKey,
    /// Its name outside.
    pub run: RunId,
    /// The workflow's name.
    pub workflow: String,
    /// The module that it is pinned to.
    pub digest: Digest,
    /// The starter's own name for it.
    pub run_key: Option<String>,
    /// Where it stands.
    pub status: Status,
    /// What it waits for, or why it is paused.
    pub detail: Option<String>,
    /// The workflow's own words on where it is.
    pub status_text: Option<String>,
    /// When it has to be woken.
    pub wake_at_ms: Option<u64>,
    /// The starter's marks on it, in the order of their names.
    pub tags: Vec<(String, String)>,
    /// The run that it was started in the place of.
    pub retry_of: Option<RunId>,
    /// The run that it is a rerun of.
    pub rerun_of: Option<RerunOf>,
    /// Its result or error, JSON. Not read for lists, since it may be large: there it is `None`.
    pub outcome: Option<String>,
    /// Recoveries without progress so far.
    pub recoveries: u32,
    /// How many of its steps have an unknown outcome.
    pub unknown: u32,
    /// When it was started.
    pub created_at_ms: u64,
    /// When its status was last written.
    pub changed_at_ms: u64,
    /// How it hangs together with other runs.
    pub links: Links,
    /// Whether it may begin, where the queue knows it.
    pub turn: Option<Turn>,
    /// Its concurrency key.
    pub concurrency_key: Option<String>,
    /// Its priority.
    pub priority: i32,
}

/// Some runs, and those that should be among them but cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunList {
    /// In the order that was asked for.
    pub runs: Vec<RunRow>,
    /// To be named to the operator; nothing else is hindered by them.
    pub unreadable: Vec<UnreadableRun>,
}

/// A run that has not ended, as far as it has to be known after a start of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unfinished {
    /// Its number inside.
    pub key: RunKey,
    /// Where it stands.
    pub status: Status,
    /// When it has to be woken.
    pub wake_at_ms: Option<u64>,
    /// Something is in its inbox that it has not seen.
    pub unseen: bool,
    /// Its parent has asked it to cancel.
    pub cancel: bool,
    /// Whether it may begin, where the queue knows it.
    pub turn: Option<Turn>,
}

/// A run that has ended, as far as whoever may take it away has to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndedRun {
    /// Its number inside.
    pub key: RunKey,
    /// How it ended.
    pub status: Status,
    /// When it was started.
    pub created_at_ms: u64,
    /// When it ended.
    pub ended_at_ms: u64,
    /// Something that it did is unknown.
    pub has_unknown: bool,
    /// No run was started after it.
    pub is_newest: bool,
}

/// A run whose row cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadableRun {
    /// Its number inside.
    pub key: RunKey,
    /// What is wrong with it.
    pub reason: String,
}

/// Which runs to list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFilter {
    /// Only runs with this status.
    pub status: Option<Status>,
    /// Only runs of this workflow.
    pub workflow: Option<String>,
    /// Only the run with this run key.
    pub run_key: Option<String>,
    /// Only runs that this one has started.
    pub parent: Option<RunId>,
    /// Only runs that have not ended.
    pub open: bool,
    /// Only runs that have steps of unknown outcome.
    pub unknown: bool,
    /// Only runs with all of these tags.
    pub tags: Vec<(String, String)>,
    /// Only runs that were started at this time or later.
    pub since_ms: Option<u64>,
    /// Only runs that were started before this time.
    pub until_ms: Option<u64>,
    /// Only runs that were started before this one: the last key of the page before.
    pub before: Option<RunKey>,
    /// At most so many.
    pub limit: u32,
}

impl Default for RunFilter {
    fn default() -> Self {
        Self {
            status: None,
            workflow: None,
            run_key: None,
            parent: None,
            open: false,
            unknown: false,
            tags: Vec::new(),
            since_ms: None,
            until_ms: None,
            before: None,
            limit: 100,
        }
    }
}

/// An event for a run's inbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEvent {
    /// The run.
    pub run: RunKey,
    /// The event's name.
    pub name: String,
    /// JSON.
    pub payload: String,
    /// The sender's key: a second event of this run with the same key is not kept.
    pub dedup: Option<String>,
}

/// What became of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivered {
    /// Its place in the run's inbox, from 1.
    pub number: u64,
    /// An event with that key was there already. Nothing was written, and the number is the first one's.
    pub repeated: bool,
}

/// An event in a run's inbox, or what became of one of its operations on other runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InboxEvent {
    /// Its place, from 1, without gaps.
    pub number: u64,
    /// Its name; that of a [`Reply`](crate::Reply) where it is one.
    pub name: String,
    /// JSON.
    pub payload: String,
    /// The operation that it replies to; none for an event.
    pub reply_to: Option<u32>,
}

/// A module to keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewModule {
    /// Of the bytes. The store does not check it.
    pub digest: Digest,
    /// The component.
    pub bytes: Vec<u8>,
    /// What it exports and imports, JSON.
    pub description: String,
    /// When it was uploaded.
    pub added_at_ms: u64,
}

/// A module without its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuleRow {
    /// Its name.
    pub digest: Digest,
    /// What it exports and imports, JSON.
    pub description: String,
    /// How large it is.
    pub size_bytes: u64,
    /// When it was first uploaded.
    pub added_at_ms: u64,
}
