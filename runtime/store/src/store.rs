//! The two halves of the store: [`Store`] writes, [`Reads`] reads what is durable.

use stepwell_core::ids::{Digest, RunId};

use tokio::sync::mpsc::UnboundedReceiver;

use crate::error::Result;
use crate::histogram::Counted;
use crate::pending::{Pending, Ticket};
use crate::queue::{Begins, InQueue, LimitsRow, QueueCounts, Turn};
use crate::rows::{
    Append, Delivered, EndedRun, Epoch, InboxEvent, LogPlace, LogRow, ModuleRow, NewEvent, NewModule, NewRun,
    RunFilter, RunKey, RunList, RunRow, Started, Unfinished, UnreadableRun,
};
use crate::schedules::{Schedule, ScheduleCounts};
use crate::status::Status;
use crate::submission::{Active, Answer, Kept, Submission, Token};

/// Writes. Everything goes through one queue in the order of the calls, so a later write is never durable without an earlier one.
///
/// A [`Pending`] is lazy only in its haste: its write is queued when the method returns and becomes durable by itself within
/// a few milliseconds. Awaiting it, or calling [`Pending::wait`], commits at once.
pub trait Store: Send + Sync {
    /// Starts a run, or finds the one that has its run key.
    ///
    /// When the method returns: nothing is durable. When the answer comes: the run with its first entries and events is, or
    /// the existing run.
    ///
    /// # Errors
    /// [`StoreError::RunExists`](crate::StoreError::RunExists) when the run id is taken; those of the disk.
    fn start_run(&self, run: NewRun) -> Pending<Started>;

    /// Queues a batch of a run and returns at once, whatever the disk does (but where very much is queued already, it helps
    /// to write it). When the method returns: nothing is durable, and nobody may be told anything that follows from it.
    ///
    /// Batches of a run are checked and kept in the order of the calls. One that cannot be kept stops its run: it and all
    /// later ones of that run fail, until [`Store::recover`]. [`Store::durable`] tells.
    fn append(&self, batch: Append) -> Ticket;

    /// When the answer comes: the ticket's batch, and everything queued before it that has not failed, is durable.
    ///
    /// # Errors
    /// What became of the batch: [`Conflict`](crate::StoreError::Conflict), [`Finished`](crate::StoreError::Finished),
    /// [`Stopped`](crate::StoreError::Stopped), or the failure of the commit that it was in.
    fn durable(&self, ticket: Ticket) -> Pending<()>;

    /// The same, by the writer's thread, and begun with this call: for who writes much and goes on meanwhile.
    fn durable_beside(&self, ticket: Ticket) -> Pending<()>;

    /// The same without any haste: when the store has committed it by itself, or at once where it never does that.
    fn durable_in_time(&self, ticket: Ticket) -> Pending<()>;

    /// Whether somebody waits for the disk, or has a moment ago: what much writing at once would hold up.
    fn is_waited_for(&self) -> bool;

    /// [`Store::durable`] for a thread that may block.
    ///
    /// # Errors
    /// Those of [`Store::durable`].
    fn flush(&self, ticket: Ticket) -> Result<()> {
        self.durable(ticket).wait()
    }

    /// Takes new batches of a run that was stopped by a failure. The caller has dropped everything that it knew of the run
    /// and goes on from its journal as it is read now. Batches queued before stay failed. Nothing is written.
    fn recover(&self, run: RunKey);

    /// Puts an event into a run's inbox.
    ///
    /// When the method returns: nothing is durable. When the answer comes: the event is.
    ///
    /// # Errors
    /// [`NoSuchRun`](crate::StoreError::NoSuchRun), [`Finished`](crate::StoreError::Finished), those of the disk. None of
    /// them stops the run.
    fn send_event(&self, event: NewEvent) -> Pending<Delivered>;

    /// Keeps a module. The answer is whether it is new; one that is known is left as it is.
    ///
    /// When the method returns: nothing is durable. When the answer comes: the module is.
    ///
    /// # Errors
    /// Those of the disk.
    fn put_module(&self, module: NewModule) -> Pending<bool>;

    /// Keeps everything that a client's request does, and the answer under its key, in one transaction: all of it or nothing.
    ///
    /// When the method returns: nothing is durable. When the answer comes: all of it is.
    ///
    /// # Errors
    /// [`AlreadyAnswered`](crate::StoreError::AlreadyAnswered), [`RunKeyTaken`](crate::StoreError::RunKeyTaken),
    /// [`NoSuchModule`](crate::StoreError::NoSuchModule), [`ModuleNeeded`](crate::StoreError::ModuleNeeded),
    /// [`EventDiffers`](crate::StoreError::EventDiffers), [`NoSuchToken`](crate::StoreError::NoSuchToken),
    /// [`TokenExists`](crate::StoreError::TokenExists), [`LastToken`](crate::StoreError::LastToken), [`Outdated`](crate::StoreError::Outdated), those of
    /// [`Store::send_event`], those of the disk. None of them stops a run, and nothing is kept.
    fn submit(&self, submission: Submission) -> Pending<Kept>;

    /// What commits come to for runs that wait to begin, in the order of the commits, from now on. One listens: who did before is told
    /// nothing more.
    fn begins(&self) -> UnboundedReceiver<Begins>;

    /// Transactions committed since the store was opened.
    fn commits(&self) -> u64;

    /// How long writes took since the store was opened.
    fn latencies(&self) -> Latencies;

    /// What is durable.
    fn read(&self) -> &dyn Reads;
}

/// How long writes took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Latencies {
    /// How long the oldest write of each commit had waited for it.
    pub queued: Counted,
    /// How long each commit took.
    pub commits: Counted,
}

/// Payloads of events that are read in one go, in bytes: a run that was left alone may have been sent any number of them.
pub const INBOX_PAGE_BYTES: usize = 8 << 20;

/// Reads. Every answer is from durable data only, as of some moment after the call: what is queued is not seen.
///
/// Each method can fail with the errors of the disk, and with [`Corrupt`](crate::StoreError::Corrupt) where what it needs
/// cannot be read.
pub trait Reads: ClientReads {
    /// A run's entries, in order, from sequence number 0 on. Empty for a run that does not exist.
    ///
    /// # Errors
    /// [`Corrupt`](crate::StoreError::Corrupt) also where a number is missing.
    fn journal(&self, run: RunKey) -> Result<Vec<(u64, Vec<u8>)>>;

    /// The greatest place that a line of the log has.
    ///
    /// # Errors
    /// See [`Reads`].
    fn last_log(&self, run: RunKey) -> Result<Option<LogPlace>>;

    /// A run's entries from a number on, in order, at most `limit`.
    ///
    /// # Errors
    /// [`Corrupt`](crate::StoreError::Corrupt) also where a number is missing.
    fn entries(&self, run: RunKey, from: u64, limit: u32) -> Result<Vec<(u64, Vec<u8>)>>;

    /// Lines of a run's log in the order in which they were written, at most `limit`: those after the line of a place, or from the
    /// first.
    ///
    /// # Errors
    /// See [`Reads`].
    fn logs(&self, run: RunKey, after: Option<LogPlace>, limit: u32) -> Result<Vec<LogRow>>;

    /// A run by its name.
    ///
    /// # Errors
    /// See [`Reads`].
    fn run(&self, run: &RunId) -> Result<Option<RunRow>>;

    /// A run by its number.
    ///
    /// # Errors
    /// See [`Reads`].
    fn run_by_number(&self, run: RunKey) -> Result<Option<RunRow>>;

    /// The epochs that began by restoring the database while it had this run, the earliest first.
    ///
    /// # Errors
    /// See [`Reads`].
    fn epochs(&self, run: RunKey) -> Result<Vec<Epoch>>;

    /// Runs, the latest first. No journal is read for it.
    ///
    /// # Errors
    /// See [`Reads`]; a single run that cannot be read is listed as such instead.
    fn runs(&self, filter: &RunFilter) -> Result<RunList>;

    /// Every run that has not ended, the earliest first, and those whose status cannot be read. No journal is read for it, no run
    /// that has ended, and of the others only what is small.
    ///
    /// # Errors
    /// See [`Reads`]; a single run that cannot be read is listed as such instead.
    fn unfinished(&self) -> Result<(Vec<Unfinished>, Vec<UnreadableRun>)>;

    /// Runs whose time has come, with their due times: the longest overdue first, at most `limit`. They stay listed until
    /// their next change says otherwise.
    ///
    /// # Errors
    /// See [`Reads`].
    fn due_timers(&self, now_ms: u64, limit: u32) -> Result<Vec<(u64, RunKey)>>;

    /// The earliest due time of all.
    ///
    /// # Errors
    /// See [`Reads`].
    fn next_wake(&self) -> Result<Option<u64>>;

    /// Events of a run with numbers above `after`, in order: as many as [`INBOX_PAGE_BYTES`] hold, and at least one where there is
    /// one.
    ///
    /// # Errors
    /// See [`Reads`].
    fn inbox(&self, run: RunKey, after: u64) -> Result<Vec<InboxEvent>>;

    /// A module's bytes.
    ///
    /// # Errors
    /// See [`Reads`].
    fn module(&self, digest: &Digest) -> Result<Option<Vec<u8>>>;

    /// Modules in the order of their digests: those that follow `after`, at most `limit`.
    ///
    /// # Errors
    /// See [`Reads`].
    fn modules(&self, after: Option<&Digest>, limit: u32) -> Result<Vec<ModuleRow>>;
}

/// Reads of the queue: of limits, and of runs that wait to begin. As with [`Reads`].
pub trait QueueStands: Send + Sync {
    /// Whether a run may begin, where the queue knows it.
    ///
    /// # Errors
    /// See [`Reads`].
    fn turn(&self, run: RunKey) -> Result<Option<Turn>>;

    /// Where a run is among those that wait at this time; `None` where it does not wait for a place. It costs no more than places are
    /// counted.
    ///
    /// # Errors
    /// See [`Reads`].
    fn in_queue(&self, run: RunKey, now_ms: u64) -> Result<Option<InQueue>>;

    /// The limits of a workflow, where it has any.
    ///
    /// # Errors
    /// See [`Reads`].
    fn limits_of(&self, workflow: &str) -> Result<Option<LimitsRow>>;

    /// All workflows that have limits, in the order of their names.
    ///
    /// # Errors
    /// See [`Reads`].
    fn all_limits(&self) -> Result<Vec<LimitsRow>>;

    /// How the limits of a workflow were changed, the latest first, at most `limit` times.
    ///
    /// # Errors
    /// See [`Reads`].
    fn limit_changes(&self, workflow: &str, limit: u32) -> Result<Vec<LimitsRow>>;

    /// How many runs of a workflow are under way and wait.
    ///
    /// # Errors
    /// See [`Reads`].
    fn queue_counts(&self, workflow: &str, now_ms: u64) -> Result<QueueCounts>;
}

/// Reads for answering clients. Every answer is from durable data only, as with [`Reads`].
pub trait ClientReads: QueueStands {
    /// The run that has this run key.
    ///
    /// # Errors
    /// See [`Reads`].
    fn run_by_run_key(&self, run_key: &str) -> Result<Option<RunRow>>;

    /// How many runs there are, by workflow and status. It costs as much as there are kinds of them, not as there are runs.
    ///
    /// # Errors
    /// See [`Reads`].
    fn counts(&self, workflow: Option<&str>) -> Result<Vec<(String, Status, u64)>>;

    /// A module without its bytes.
    ///
    /// # Errors
    /// See [`Reads`].
    fn module_row(&self, digest: &Digest) -> Result<Option<ModuleRow>>;

    /// Which module each workflow's new runs start on, in the order of their names.
    ///
    /// # Errors
    /// See [`Reads`].
    fn active(&self) -> Result<Vec<Active>>;

    /// The same for one workflow.
    ///
    /// # Errors
    /// See [`Reads`].
    fn active_of(&self, workflow: &str) -> Result<Option<Active>>;

    /// What was answered under an idempotency key; also where the answer holds it no longer.
    ///
    /// # Errors
    /// See [`Reads`].
    fn answer(&self, key: &str) -> Result<Option<Answer>>;

    /// Runs that have ended so, the earliest start first, after this one; at most `limit`.
    ///
    /// # Errors
    /// See [`Reads`].
    fn ended(&self, status: Status, after: RunKey, limit: u32) -> Result<Vec<EndedRun>>;

    /// A token, also where it has ended.
    ///
    /// # Errors
    /// See [`Reads`].
    fn token(&self, id: &str) -> Result<Option<Token>>;

    /// Whether there is any token, ended ones included.
    ///
    /// # Errors
    /// See [`Reads`].
    fn has_tokens(&self) -> Result<bool>;

    /// Tokens, the earliest first: those that follow the one that was made then and has this name, at most `limit`.
    ///
    /// # Errors
    /// See [`Reads`].
    fn tokens(&self, after: Option<(u64, &str)>, limit: u32) -> Result<Vec<Token>>;

    /// A schedule.
    ///
    /// # Errors
    /// See [`Reads`].
    fn schedule(&self, name: &str) -> Result<Option<Schedule>>;

    /// Schedules in the order of their names: those that follow `after`, at most `limit`.
    ///
    /// # Errors
    /// See [`Reads`].
    fn schedules(&self, after: Option<&str>, limit: u32) -> Result<Vec<Schedule>>;

    /// The names of schedules that fire at this time or before, the longest overdue first.
    ///
    /// # Errors
    /// See [`Reads`].
    fn due_schedules(&self, now_ms: u64) -> Result<Vec<String>>;

    /// When the next one fires that does so after this time.
    ///
    /// # Errors
    /// See [`Reads`].
    fn next_schedule(&self, after_ms: u64) -> Result<Option<u64>>;

    /// Whether a run that a schedule of this name has started has not ended; or one that goes on for such a run.
    ///
    /// # Errors
    /// See [`Reads`].
    fn has_open_run(&self, schedule: &str) -> Result<bool>;

    /// How schedules stand.
    ///
    /// # Errors
    /// See [`Reads`].
    fn schedule_counts(&self) -> Result<ScheduleCounts>;
}

/// The first events that a page holds.
pub(crate) fn inbox_page<E>(
    events: impl Iterator<Item = std::result::Result<InboxEvent, E>>,
) -> std::result::Result<Vec<InboxEvent>, E> {
    let (mut page, mut bytes) = (Vec::new(), 0);
    for event in events {
        let event = event?;
        bytes += event.payload.len();
        page.push(event);
        if bytes >= INBOX_PAGE_BYTES {
            break;
        }
    }
    Ok(page)
}
