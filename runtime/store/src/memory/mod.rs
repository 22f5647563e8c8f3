//! The ledger in memory: for tests and simulations. It keeps what it is given until it is dropped, and nothing longer.

mod client_reads;
mod links;
mod queue;
mod reads;
mod rows;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use stepwell_core::ids::{Digest, RunId};

use crate::due::Gather;
use crate::error::{Result, StoreError};
use crate::ledger::{Ledger, Rows};
use crate::links::Link;
use crate::rows::{EndedRun, InboxEvent, LogPlace, LogRow, NewEvent, NewModule, RunKey, RunRow};
use crate::schedules::Schedule;
use crate::submission::{Active, Answer, Token};
use crate::testing::{Failures, Faulty};
use crate::{Grouped, MemoryStore};

pub use reads::MemoryReads;

impl MemoryStore {
    /// An empty store. Commits fail as `failures` is told. With no `linger` in `gather`, nothing becomes durable before
    /// somebody waits for it (or so many records are queued), so that a test decides what a crash loses.
    ///
    /// # Errors
    /// When the operating system has no thread left.
    pub fn open(gather: Gather, failures: Failures) -> Result<Self> {
        let ledger = MemoryLedger::default();
        let reads = MemoryReads(ledger.0.clone());
        Grouped::over(Faulty::new(ledger, failures), reads, gather)
    }

    /// From now on the run's journal cannot be read, as after a fault of the disk.
    pub fn damage_journal(&self, run: RunKey) {
        self.reads.damage_journal(run);
    }
}

/// The writing side.
#[derive(Default)]
pub struct MemoryLedger(Shared);

type Shared = Arc<RwLock<State>>;

#[derive(Default)]
struct State {
    runs: BTreeMap<RunKey, RunState>,
    run_ids: HashMap<RunId, RunKey>,
    run_keys: HashMap<String, RunKey>,
    timers: BTreeSet<(u64, RunKey)>,
    modules: BTreeMap<Digest, NewModule>,
    active: BTreeMap<String, Active>,
    answers: HashMap<String, Answer>,
    tokens: BTreeMap<String, Token>,
    schedules: BTreeMap<String, Schedule>,
    queue: queue::Queue,
}

struct RunState {
    row: RunRow,
    inbox_seen: u64,
    journal: Vec<Vec<u8>>,
    /// By entry and number.
    parts: BTreeMap<(u64, u32), Vec<u8>>,
    logs: Vec<LogRow>,
    /// Where in `logs` the line of a place is.
    log_places: BTreeMap<LogPlace, usize>,
    inbox: Vec<Mail>,
    /// The keys that it was started under.
    held: Vec<String>,
    link: Link,
    schedule: Option<String>,
    /// A test said that the journal cannot be read.
    damaged: bool,
}

/// Something in an inbox: an event, or a reply in its form.
struct Mail {
    event: NewEvent,
    reply_to: Option<u32>,
}

impl State {
    fn run(&self, run: RunKey) -> Option<&RunState> {
        self.runs.get(&run)
    }

    /// A run's row with what the queue knows of it.
    fn shown(&self, run: RunKey) -> Option<RunRow> {
        let row = self.run(run)?.row.clone();
        let Some(entrant) = self.queue.find(run) else { return Some(row) };
        let concurrency_key = Some(entrant.key.clone()).filter(|key| !key.is_empty());
        Some(RunRow { turn: Some(entrant.turn), concurrency_key, priority: entrant.priority, ..row })
    }

    fn ended(&self, run: RunKey) -> Option<EndedRun> {
        let row = &self.run(run).filter(|found| found.row.status.is_finished())?.row;
        Some(EndedRun {
            key: run,
            status: row.status,
            created_at_ms: row.created_at_ms,
            ended_at_ms: row.changed_at_ms,
            has_unknown: row.unknown > 0,
            is_newest: self.runs.last_key_value().is_some_and(|(last, _)| *last == run),
        })
    }

    fn is_held(&self, key: &str) -> bool {
        self.runs.values().any(|found| found.held.iter().any(|held| held == key))
    }

    /// The rules look a run up before they write to it, so a missing one is a fault of ours.
    fn run_mut(&mut self, run: RunKey) -> Result<&mut RunState> {
        let found = self.runs.get_mut(&run);
        found.ok_or_else(|| StoreError::Internal(format!("rows for run {run}, which does not exist")))
    }
}

impl fmt::Debug for MemoryLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MemoryLedger")
    }
}

impl Ledger for MemoryLedger {
    type Reads = MemoryReads;

    fn transaction(&mut self, work: &mut dyn FnMut(&mut dyn Rows) -> Result<()>) -> Result<()> {
        // Held to the end, so that nobody sees half of it.
        let mut state = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let mut transaction = Transaction { state: &mut state, undo: Vec::new() };
        let outcome = work(&mut transaction);
        if outcome.is_err() {
            transaction.roll_back();
        }
        outcome
    }
}

struct Transaction<'a> {
    state: &'a mut State,
    undo: Vec<Undo>,
}

type Undo = Box<dyn FnOnce(&mut State) -> Result<()>>;

impl Transaction<'_> {
    fn on_undo(&mut self, undo: impl FnOnce(&mut State) -> Result<()> + 'static) {
        self.undo.push(Box::new(undo));
    }

    fn put(&mut self, run: RunKey, mail: Mail) -> Result<()> {
        self.state.run_mut(run)?.inbox.push(mail);
        self.on_undo(move |state| state.run_mut(run).map(|found| drop(found.inbox.pop())));
        Ok(())
    }

    fn roll_back(self) {
        for undo in self.undo.into_iter().rev() {
            // The latest write is undone first, so what an undo looks for is there.
            let _ = undo(self.state);
        }
    }
}

fn inbox_event(number: u64, mail: &Mail) -> InboxEvent {
    let NewEvent { name, payload, .. } = mail.event.clone();
    InboxEvent { number, name, payload, reply_to: mail.reply_to }
}
