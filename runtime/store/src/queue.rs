//! Runs that wait to begin: what is kept of them, of the limits that they wait for, and of those that have begun. Plain data, and the
//! rows that an implementation provides; the rules are in `admission`.

use stepwell_core::policy::admission::{Limits, Wait};

use crate::error::Result;
use crate::rows::RunKey;

/// With what a run waits to begin, where its workflow has limits.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueueAs {
    /// Its concurrency key.
    pub key: Option<String>,
    /// Higher ones begin first; runs of the same priority in the order of their starts.
    pub priority: i32,
    /// When its time is over, begun or not.
    pub deadline_ms: Option<u64>,
}

/// Whether a run may begin, or has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Turn {
    /// It waits for a place.
    Waits,
    /// It has not begun, and does not wait for a place yet: it was started for later, or is paused.
    Rests,
    /// It has a place, until it ends.
    Holds,
    /// It has ended.
    Over,
}

impl Turn {
    /// The number that is stored. Never changed: databases hold it.
    pub(crate) fn code(self) -> i64 {
        match self {
            Self::Waits => 0,
            Self::Rests => 1,
            Self::Holds => 2,
            Self::Over => 3,
        }
    }

    pub(crate) fn from_code(code: i64) -> Option<Self> {
        [Self::Waits, Self::Rests, Self::Holds, Self::Over].into_iter().find(|turn| turn.code() == code)
    }

    /// Whether the run may not begin yet.
    #[must_use]
    pub fn is_to_come(self) -> bool {
        matches!(self, Self::Waits | Self::Rests)
    }
}

/// A run as the queue knows it: one of a workflow that has limits, or one with a key or a priority.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entrant {
    /// The run.
    pub run: RunKey,
    /// Its workflow.
    pub workflow: String,
    /// Its concurrency key; empty for none.
    pub key: String,
    /// Its priority.
    pub priority: i32,
    /// Where it is.
    pub turn: Turn,
    /// When its time is over, where it has not begun.
    pub deadline_ms: Option<u64>,
}

/// A place in the order in which runs begin: those of the lower rank first, then the earlier ones.
pub type Rank = (i32, RunKey);

impl Entrant {
    /// Its place in the order in which runs begin.
    #[must_use]
    pub fn rank(&self) -> Rank {
        (-self.priority, self.run)
    }
}

/// The first of those that wait with one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Their key; empty for none.
    pub key: String,
    /// The first of them.
    pub first: Rank,
}

/// The limits of a workflow, and who set them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitsRow {
    /// The workflow.
    pub workflow: String,
    /// Its limits; none where they were taken away.
    pub limits: Limits,
    /// When, in ms since the Unix epoch.
    pub set_at_ms: u64,
    /// Who.
    pub set_by: String,
}

/// How many runs of a workflow are where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueCounts {
    /// The workflow.
    pub workflow: String,
    /// Those that have begun and not ended.
    pub under_way: u64,
    /// Those that wait for a place.
    pub waiting: u64,
    /// What the first of them waits for; `None` where it is about to begin.
    pub wait: Option<Wait>,
}

/// A run's place among those that wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InQueue {
    /// What it waits for; `None` where nothing but those before it is in its way.
    pub wait: Option<Wait>,
    /// Its place among all of its workflow, from 1.
    pub place: u32,
    /// Its place among those with its key, from 1, where it has one.
    pub place_in_key: Option<u32>,
    /// No place beyond this one is counted: there it is the least that it can be.
    pub counted_to: u32,
}

/// Places are counted up to this one.
pub(crate) const COUNTED_TO: u32 = 10_000;

/// What has come of a commit for runs that wait.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Begins {
    /// The run may begin. It is told once: a process that comes later finds it [`Turn::Holds`].
    Run(RunKey),
    /// Some of the workflow may begin at that time, in ms since the Unix epoch: [`Action::Admit`](crate::Action::Admit) lets them.
    Later(String, u64),
    /// More of the workflow may begin than were looked at: [`Action::Admit`](crate::Action::Admit) goes on.
    More(String),
}

/// What the queue's rows say. Each method can fail with the errors of the disk or of unreadable data.
pub trait QueueReads {
    /// The limits of a workflow.
    fn limits(&self, workflow: &str) -> Result<Option<Limits>>;
    /// The run, where the queue knows it.
    fn entrant(&self, run: RunKey) -> Result<Option<Entrant>>;
    /// How many runs of the workflow have begun and not ended: by their rows, whether the queue knows them or not.
    fn under_way(&self, workflow: &str) -> Result<u64>;
    /// How many runs with this key have; not counted beyond `most`.
    fn holding(&self, workflow: &str, key: &str, most: u32) -> Result<u32>;
    /// When that one began after which `back - 1` others have begun, under a rate, with this key; empty for all of the workflow.
    fn begun_back(&self, workflow: &str, key: &str, back: u32) -> Result<Option<u64>>;
    /// How many wait before this one, or with its key; not counted beyond `most`.
    fn before(&self, entrant: &Entrant, with_key: bool, most: u32) -> Result<u32>;
}

/// The queue's rows within a transaction.
pub trait QueueRows: QueueReads {
    /// Whether any workflow has limits.
    fn has_limits(&self) -> Result<bool>;
    /// Sets the limits of a workflow, or takes them away where they are none, and keeps that they were changed.
    fn set_limits(&mut self, limits: &LimitsRow) -> Result<()>;
    /// The workflow of a run.
    fn workflow_of(&self, run: RunKey) -> Result<Option<String>>;
    /// Writes where a run is, in place of what was known of it.
    fn put_entrant(&mut self, entrant: &Entrant) -> Result<()>;
    /// Runs of the workflow that were started for later and are not known to the queue.
    fn unknown_delayed(&self, workflow: &str) -> Result<Vec<RunKey>>;
    /// The first of those that wait with this key.
    fn first_in_line(&self, workflow: &str, key: &str) -> Result<Option<Rank>>;
    /// Says who is the first of a line. A line that is new is open; one without a first is gone.
    fn put_line(&mut self, workflow: &str, key: &str, first: Option<Rank>) -> Result<()>;
    /// Opens a line: it is looked at again. One that is not there is left so.
    fn open_line(&mut self, workflow: &str, key: &str) -> Result<()>;
    /// Closes a line: it is not looked at before somebody opens it, or this time has come.
    fn close_line(&mut self, workflow: &str, key: &str, until_ms: Option<u64>) -> Result<()>;
    /// Opens all lines of the workflow that are closed until this time or an earlier one; with `u64::MAX` all of them.
    fn open_lines(&mut self, workflow: &str, now_ms: u64) -> Result<()>;
    /// Of the lines that are open, that whose first comes first.
    fn next_line(&self, workflow: &str) -> Result<Option<Line>>;
    /// The earliest time at which a closed line opens.
    fn next_opening(&self, workflow: &str) -> Result<Option<u64>>;
    /// Workflows of which runs wait.
    fn queues(&self) -> Result<Vec<String>>;
    /// Keeps that a run has begun under a rate, with this key; and takes away a few of those that began at `old_ms` or before.
    fn add_begun(&mut self, workflow: &str, key: &str, at_ms: u64, old_ms: u64) -> Result<()>;
    /// When the newest is kept to have begun.
    fn newest_begun(&self, workflow: &str) -> Result<Option<u64>>;
    /// The clock was set back: what is kept as begun later than this began now.
    fn begun_by(&mut self, workflow: &str, now_ms: u64) -> Result<()>;
    /// Takes away what is kept of beginnings under a rate.
    fn forget_begun(&mut self, workflow: &str) -> Result<()>;
}
