//! What an implementation of the store provides: a transaction, and the rows within it. Everything else is shared.
//!
//! No rule lives behind these traits: what may be written is decided in `apply`, when it is written in `group`.

use stepwell_core::ids::{Digest, RunId};

use crate::error::Result;
use crate::links::{Link, Reply};
use crate::queue::QueueRows;
use crate::rows::{EndedRun, InboxEvent, LogRow, NewEvent, NewModule, NewRun, RunChange, RunKey};
use crate::schedules::Schedule;
use crate::status::Status;
use crate::store::Reads;
use crate::submission::{Answer, Token};

/// The writing side of an implementation.
pub trait Ledger: Send + 'static {
    /// The reading side: sees what is committed.
    type Reads: Reads + 'static;

    /// Runs `work` in one transaction. When this returns `Ok`, all that `work` wrote is durable; when it returns an error, of
    /// `work` or of the commit, none of it is seen by anybody.
    ///
    /// # Errors
    /// That of `work`, or the commit's.
    fn transaction(&mut self, work: &mut dyn FnMut(&mut dyn Rows) -> Result<()>) -> Result<()>;
}

/// What has to be known of a run before something is appended to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Where it stands.
    pub status: Status,
    /// How many entries its journal has.
    pub next_seq: u64,
    /// Its row in the table of timers.
    pub wake_at_ms: Option<u64>,
    /// The queue knows it.
    pub is_queued: bool,
}

/// A run that another has started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Child {
    /// The run.
    pub run: RunKey,
    /// Where it stands.
    pub status: Status,
    /// Its result or error, JSON.
    pub outcome: Option<String>,
}

/// The number of a run's last entry, and the entry.
pub type LastEntry<'a> = (u64, &'a [u8]);

/// The rows within a transaction. Lookups see what the transaction has written.
///
/// Each method can fail with the errors of the disk or of unreadable data; the transaction is then lost.
pub trait Rows {
    /// The state of a run that appends are checked against.
    fn head(&mut self, run: RunKey) -> Result<Option<Head>>;
    /// The run of this name.
    fn run_by_id(&mut self, run: &RunId) -> Result<Option<RunKey>>;
    /// The run with this run key.
    fn run_by_run_key(&mut self, run_key: &str) -> Result<Option<(RunId, RunKey)>>;
    /// Adds the run's own row, queued, with the time at which it is to be woken; not its entries and events.
    fn add_run(&mut self, run: &NewRun, wake_at_ms: Option<u64>) -> Result<RunKey>;
    /// The rows of runs that wait to begin.
    fn queue(&mut self) -> &mut dyn QueueRows;
    /// Writes what the change replaces, with this time to be woken at. The run's last entry, where it has come with the change, may have
    /// the outcome in it.
    fn change_run(
        &mut self,
        run: RunKey,
        change: &RunChange,
        wake_at_ms: Option<u64>,
        last: Option<LastEntry<'_>>,
    ) -> Result<()>;
    /// Writes how many steps of unknown outcome the run has.
    fn set_unknown(&mut self, run: RunKey, unknown: u32) -> Result<()>;
    /// Adds journal entries, the first of them under this number.
    fn add_entries(&mut self, run: RunKey, first_seq: u64, entries: &[Vec<u8>]) -> Result<()>;
    /// Keeps a part of an entry that is to come, in the place of one that is there.
    fn add_part(&mut self, run: RunKey, seq: u64, number: u32, bytes: &[u8]) -> Result<()>;
    /// Takes away the parts of entries that have not come, which are those from this number on.
    fn forget_parts(&mut self, run: RunKey, from: u64) -> Result<()>;
    /// Adds an entry whose parts have all been kept.
    fn add_entry_in_parts(&mut self, run: RunKey, seq: u64, entry: &[u8]) -> Result<()>;
    /// Adds a line unless its place is taken.
    fn add_log(&mut self, run: RunKey, row: &LogRow) -> Result<()>;
    /// Adds a row to the table of timers.
    fn add_timer(&mut self, due_ms: u64, run: RunKey) -> Result<()>;
    /// Takes a row out of it.
    fn remove_timer(&mut self, due_ms: u64, run: RunKey) -> Result<()>;
    /// The number of the inbox's last event, or 0.
    fn last_event(&mut self, run: RunKey) -> Result<u64>;
    /// The event with this key.
    fn event_by_dedup(&mut self, run: RunKey, dedup: &str) -> Result<Option<InboxEvent>>;
    /// Adds an event.
    fn add_event(&mut self, number: u64, event: &NewEvent) -> Result<()>;
    /// Adds what became of an operation on another run to the inbox of the run that has it.
    fn add_reply(&mut self, run: RunKey, number: u64, op: u32, reply: Reply, payload: &str) -> Result<()>;
    /// Events of the inbox with these numbers, and all after `seen`, in order. No replies.
    fn events_left(&mut self, run: RunKey, numbers: &[u64], seen: u64) -> Result<Vec<NewEvent>>;
    /// How the run hangs together with others; nothing where it does not.
    fn link(&mut self, run: RunKey) -> Result<Link>;
    /// Writes it.
    fn put_link(&mut self, run: RunKey, link: &Link) -> Result<()>;
    /// The last of the runs that have gone on for one another after this first one.
    fn last_after(&mut self, first: RunKey) -> Result<Option<RunKey>>;
    /// The runs that this one has started and that have not ended, in the order of their starts.
    fn open_children(&mut self, run: RunKey) -> Result<Vec<RunKey>>;
    /// The runs that this one has started, the latest first.
    fn children(&mut self, run: RunKey) -> Result<Vec<Child>>;
    /// The run has no run key any more.
    fn release_run_key(&mut self, run: RunKey) -> Result<()>;
    /// Adds a module unless it is known; whether it was new.
    fn add_module(&mut self, module: &NewModule) -> Result<bool>;
    /// Marks a run, so that it is found by it. The mark is kept with the run's own row as well.
    fn add_tag(&mut self, run: RunKey, name: &str, value: &str) -> Result<()>;
    /// Whether the module is known.
    fn has_module(&mut self, digest: &Digest) -> Result<bool>;
    /// A workflow whose new runs start on this module.
    fn workflow_on(&mut self, digest: &Digest) -> Result<Option<String>>;
    /// How many runs are open on this module, or have failed on it and can be taken up.
    fn runs_on(&mut self, digest: &Digest) -> Result<u64>;
    /// Takes a module away.
    fn remove_module(&mut self, digest: &Digest) -> Result<()>;
    /// The module that new runs of the workflow start on.
    fn active(&mut self, workflow: &str) -> Result<Option<Digest>>;
    /// Makes it this one.
    fn activate(&mut self, workflow: &str, digest: &Digest, at_ms: u64) -> Result<()>;
    /// The answer under a key.
    fn answer(&mut self, key: &str) -> Result<Option<Answer>>;
    /// Keeps an answer, in place of an older one under its key.
    fn put_answer(&mut self, answer: &Answer) -> Result<()>;
    /// Takes away answers from before this time, those of started runs excepted; at most so many. Whether any may be left.
    fn forget_answers(&mut self, before_ms: u64, most: u32) -> Result<bool>;
    /// An answer's key is held by a run from now on.
    fn hold(&mut self, run: RunKey, key: &str) -> Result<()>;
    /// The run, where it has ended.
    fn ended(&mut self, run: RunKey) -> Result<Option<EndedRun>>;
    /// Takes a run away, so that nobody finds it. Keys that it held last are held as others' are. What is left of it goes later.
    fn forget_run(&mut self, run: RunKey) -> Result<()>;
    /// Takes rows of runs away that were taken away themselves; at most so many. Whether any are left.
    fn forget_rows(&mut self, most: u32) -> Result<bool>;
    /// Writes what takes room, and takes it away again.
    fn try_writing(&mut self) -> Result<()>;
    /// The version of a schedule.
    fn schedule_version(&mut self, name: &str) -> Result<Option<u64>>;
    /// Keeps a schedule, in place of an older one of its name.
    fn put_schedule(&mut self, schedule: &Schedule) -> Result<()>;
    /// Takes a schedule away. Its runs stay its own.
    fn remove_schedule(&mut self, name: &str) -> Result<()>;
    /// The schedule that has started the run, or the one that it goes on for.
    fn schedule_of(&mut self, run: RunKey) -> Result<Option<String>>;
    /// The run is one of this schedule's from now on.
    fn put_scheduled(&mut self, run: RunKey, schedule: &str) -> Result<()>;
    /// A token.
    fn token(&mut self, id: &str) -> Result<Option<Token>>;
    /// All tokens.
    fn tokens(&mut self) -> Result<Vec<Token>>;
    /// Keeps a token.
    fn add_token(&mut self, token: &Token) -> Result<()>;
    /// Sets the time at which a token ends, unless it ends before.
    fn expire_token(&mut self, id: &str, at_ms: u64) -> Result<()>;
}
