//! What a run's task writes: gathered in the order of the machine's outputs over some turns, and handed to the store together.

mod gathered;

use std::sync::Arc;

use stepwell_core::journal::entry::{Entry, Record, RunOutcome};
use stepwell_core::run::LogLine;
use stepwell_store::{
    Answer, Append, Errand, LogPlace, LogRow, Pending, RunChange, RunKey, RunRow, Status, Store, StoreError, Successor,
    Ticket,
};

use self::gathered::{Gathered, Piece, Whole};
use crate::points::Points;
use crate::settings::Settings;
use crate::watch::{Publisher, RunEvent, Watchers};

/// Set in the place of a line of workflow code. Such lines are the store's last ones, so that its last line tells how far they
/// have been written; what bodies log is never replayed, and needs only a place of its own.
const OF_WORKFLOW: u64 = 1 << 62;

/// The turn that the store keeps a line under.
fn place(line: &LogLine) -> u64 {
    if line.step.is_some() { line.turn & (OF_WORKFLOW - 1) } else { OF_WORKFLOW | line.turn }
}

/// The last line of workflow code, as the machine counts them, from the last one of the store.
pub(crate) fn logged(last: Option<LogPlace>) -> Option<LogPlace> {
    let (turn, index) = last.filter(|(turn, _)| turn & OF_WORKFLOW != 0)?;
    Some((turn & !OF_WORKFLOW, index))
}

/// So many bytes of entries and lines are handed over together at most: they are in memory until then.
const TOGETHER_BYTES: usize = 64 << 10;
/// When so much has been handed over, what was before has to be durable: a run that writes more than the disk takes would fill the memory.
const WINDOW: Amount = Amount { bytes: 4 << 20, records: 20_000 };
/// The same where others wait for the disk: they would wait behind it.
const SHARED_WINDOW: Amount = Amount { bytes: 256 << 10, records: 500 };
/// So long may they be kept for that, in ms. Nothing is kept while the task waits.
const KEPT_MS: u64 = 2;

/// Bytes, and entries and lines.
#[derive(Debug, Clone, Copy, Default)]
struct Amount {
    bytes: usize,
    records: usize,
}

impl Amount {
    fn reaches(self, most: Self) -> bool {
        self.bytes >= most.bytes || self.records >= most.records
    }
}

/// The writing side of one run.
pub(crate) struct Writing {
    run: RunKey,
    store: Arc<dyn Store>,
    watchers: Arc<Watchers>,
    points: Points,
    /// Once there was something to tell.
    publisher: Option<Publisher>,
    next_seq: u64,
    gathered: Gathered,
    /// What was handed over in this window.
    window: Amount,
    /// When those of the window before are durable.
    before: Option<Pending<()>>,
    /// So many are handed over together where nobody waits for them.
    together: usize,
    change: Option<RunChange>,
    answer: Option<Answer>,
    /// What is handed over next takes a failed run up again.
    reopens: bool,
    successor: Option<Box<Successor>>,
    /// How many steps of unknown outcome the run has by what was handed over, and by what is about to be.
    unknown: (u32, u32),
    events: Vec<RunEvent>,
    status: Status,
    status_text: Option<String>,
    /// What is kept is to be handed over at this time.
    due_ms: Option<u64>,
    last: Option<Ticket>,
}

impl Writing {
    /// For a run as its row has it, whose journal has `next_seq` entries.
    pub(crate) fn new(
        row: &RunRow,
        store: Arc<dyn Store>,
        watchers: Arc<Watchers>,
        next_seq: u64,
        settings: &Settings,
    ) -> Self {
        let run = row.key;
        Self {
            run,
            store,
            watchers,
            points: settings.points.clone(),
            publisher: None,
            next_seq,
            gathered: Gathered::default(),
            window: Amount::default(),
            before: None,
            together: settings.together,
            change: None,
            answer: None,
            reopens: false,
            successor: None,
            unknown: (row.unknown, row.unknown),
            events: Vec::new(),
            status: row.status,
            status_text: None,
            due_ms: None,
            last: None,
        }
    }

    pub(crate) fn entry(&mut self, entry: Entry, bytes: Vec<u8>) {
        let seq = self.next_seq + self.gathered.entries() as u64;
        self.reopens |= matches!(entry.record, Record::Rewound { .. });
        self.gathered.entry(bytes);
        self.events.push(RunEvent::Entry { seq, entry });
    }

    pub(crate) fn log(&mut self, line: LogLine) {
        self.gathered.log(LogRow {
            turn: place(&line),
            index: line.index,
            at_ms: line.at_ms,
            level: line.level as u8,
            step: line.step.as_ref().map(ToString::to_string),
            text: line.message.clone(),
            fields: line.fields.as_ref().map(ToString::to_string),
        });
        self.events.push(RunEvent::Log(line));
    }

    pub(crate) fn status_text(&mut self, text: String) {
        self.events.push(RunEvent::StatusText(text.clone()));
        self.status_text = Some(text);
    }

    /// The run stands differently from now on; `event` says so to its watchers.
    pub(crate) fn change(&mut self, change: RunChange, event: Option<RunEvent>) {
        self.status = change.status;
        self.change = Some(change);
        self.events.extend(event);
    }

    /// What a client is answered, under its key: it is kept with what it speaks of.
    pub(crate) fn keep(&mut self, answer: Answer) {
        self.answer = Some(answer);
    }

    /// What the run does to another by the entry before: it is in the same commit.
    pub(crate) fn errand(&mut self, errand: Errand) {
        self.gathered.errand(errand);
    }

    /// The run that goes on for this one: it is in the same commit as its end.
    pub(crate) fn successor(&mut self, successor: Successor) {
        self.successor = Some(Box::new(successor));
    }

    /// So many steps of the run have an unknown outcome.
    pub(crate) fn unknown(&mut self, unknown: u32) {
        self.unknown.1 = unknown;
    }

    /// How the run stands by what was handed over.
    pub(crate) fn status(&self) -> Status {
        self.status
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Whether nothing has gathered that is to be handed over.
    pub(crate) fn is_empty(&self) -> bool {
        self.gathered.is_empty()
            && self.change.is_none()
            && self.answer.is_none()
            && self.successor.is_none()
            && self.unknown.0 == self.unknown.1
            && self.status_text.is_none()
    }

    /// Hands over what has gathered once it is much or old. To be called between turns.
    pub(crate) fn hand_over_if_due(&mut self, now_ms: u64) {
        if self.is_empty() {
            return;
        }
        let much = self.gathered.records() >= self.together || self.gathered.bytes() >= TOGETHER_BYTES;
        if much || now_ms >= *self.due_ms.get_or_insert(now_ms.saturating_add(KEPT_MS)) {
            self.hand_over(now_ms);
        }
    }

    /// [`Writing::hand_over`]; nothing where this task has had nothing to write.
    pub(crate) fn hand_over_any(&mut self, now_ms: u64) -> Option<Ticket> {
        let something = self.last.is_some() || !self.is_empty();
        something.then(|| self.hand_over(now_ms))
    }

    /// Hands over what has gathered, and gives the ticket after which all of it is durable.
    pub(crate) fn hand_over(&mut self, now_ms: u64) -> Ticket {
        self.due_ms = None;
        if let Some(text) = self.status_text.take() {
            let status = self.status;
            let change = self.change.get_or_insert_with(|| RunChange::to(status, now_ms));
            change.status_text = Some(text);
        }
        let unknown = (self.unknown.0 != self.unknown.1).then_some(self.unknown.1);
        if let Some(ticket) = self.last.filter(|_| self.is_empty()) {
            if !self.events.is_empty() {
                self.tell(ticket);
            }
            return ticket;
        }
        self.window.bytes += self.gathered.bytes();
        self.window.records += self.gathered.records();
        let (pieces, last) = self.gathered.take(self.whole());
        for piece in pieces {
            let append = self.append(piece);
            self.store.append(append);
        }
        let mut append = self.append(last);
        append.change = self.change.take();
        append.answer = self.answer.take();
        append.successor = self.successor.take();
        append.unknown = unknown;
        append.reopens = std::mem::take(&mut self.reopens);
        self.unknown.0 = self.unknown.1;
        let ticket = self.store.append(append);
        self.last = Some(ticket);
        self.tell(ticket);
        ticket
    }

    /// What of all that has gathered is one commit. The rest of it comes with the last piece.
    fn whole(&self) -> Whole {
        let ends = self.successor.is_some() || self.change.as_ref().is_some_and(|change| change.status.is_finished());
        if self.answer.is_some() || self.reopens || self.unknown.0 != self.unknown.1 {
            Whole::All
        } else if ends {
            Whole::End
        } else {
            Whole::Errands
        }
    }

    fn append(&mut self, piece: Piece) -> Append {
        let first_seq = self.next_seq;
        self.next_seq += piece.entries.len() as u64;
        let mut append = Append::entries(self.run, first_seq, piece.entries);
        append.logs = piece.logs;
        append.errands = piece.errands;
        append
    }

    /// Waits where the run is too far ahead of the disk. To be called between turns.
    ///
    /// # Errors
    /// Those of the store: what was handed over is not kept.
    pub(crate) async fn keep_pace(&mut self, now_ms: u64) -> Result<(), StoreError> {
        let is_over = self.window.reaches(WINDOW) || self.window.reaches(SHARED_WINDOW) && self.store.is_waited_for();
        if !is_over {
            return Ok(());
        }
        self.window = Amount::default();
        let Some(ticket) = self.hand_over_any(now_ms) else { return Ok(()) };
        match self.before.replace(self.store.durable_beside(ticket)) {
            Some(before) => before.await,
            None => Ok(()),
        }
    }

    fn tell(&mut self, ticket: Ticket) {
        if self.events.is_empty() {
            return;
        }
        match self.watchers.interest(self.run) {
            // Room for as many is kept: most runs have no watcher, and much to tell.
            None => return self.events.clear(),
            Some(interest) => self.events.retain(|event| interest.includes(event)),
        }
        if !self.events.is_empty() {
            let events = std::mem::take(&mut self.events);
            let new = || Publisher::new(self.run, self.store.clone(), self.watchers.clone(), self.points.clone());
            self.publisher.get_or_insert_with(new).publish(ticket, events);
        }
    }
}

/// The status of a run that ended so, and its result or error as JSON; none where another goes on for it.
pub(crate) fn ended(outcome: &RunOutcome) -> (Status, Option<String>) {
    let error = |error| Some(serde_json::to_string(error).unwrap_or_else(|_| "null".to_owned()));
    match outcome {
        RunOutcome::Succeeded(value) => (Status::Succeeded, Some(value.to_string())),
        RunOutcome::Continued(_) => (Status::Succeeded, None),
        RunOutcome::Failed(failure) => (Status::Failed, error(failure)),
        RunOutcome::Cancelled(reason) => (Status::Cancelled, error(reason)),
        RunOutcome::Terminated(reason) => (Status::Terminated, error(reason)),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use stepwell_core::ids::{Digest, RunId};
    use stepwell_store::testing::Failures;
    use stepwell_store::{Gather, MemoryStore, NewRun, QueueAs, Started};

    use super::*;
    use crate::tap::Tap;

    /// The writing side of a run in a store that commits nothing before somebody waits.
    async fn of_a_run(failures: Failures) -> Writing {
        let gather = Gather { linger: None, max_records: usize::MAX };
        let store: Arc<dyn Store> = Arc::new(MemoryStore::open(gather, failures).unwrap());
        let run = NewRun {
            run: RunId::new("run_1"),
            workflow: "checkout".into(),
            digest: Digest::of(b"module"),
            run_key: None,
            created_at_ms: 1,
            first: vec![b"started".to_vec()],
            inbox: Vec::new(),
            tags: Vec::new(),
            begins_at_ms: None,
            queue: QueueAs::default(),
            retry_of: None,
            rerun: None,
        };
        let Started::New(key) = store.start_run(run).await.unwrap() else { panic!("the store was empty") };
        let row = store.read().run_by_number(key).unwrap().unwrap();
        Writing::new(&row, store, Arc::new(Watchers::new(Tap::default())), 1, &Settings::new("unused"))
    }

    fn write(writing: &mut Writing, entries: usize, bytes: usize) {
        for _ in 0..entries {
            writing.gathered.entry(vec![0; bytes]);
        }
        writing.hand_over(1);
    }

    #[tokio::test]
    async fn a_run_that_is_far_ahead_hears_of_what_was_not_kept_before_it_goes_on() {
        let failures = Failures::default();
        let mut writing = of_a_run(failures.clone()).await;
        let full = StoreError::DiskFull("no space left".into());
        failures.fail_next_commit(full.clone());
        // What is handed over in a window is not waited for before the next is over.
        write(&mut writing, 4, 1 << 20);
        assert_eq!(writing.keep_pace(1).await, Ok(()));
        write(&mut writing, 4, 1 << 20);
        // The first of the pieces was lost, and the ticket is of the last.
        assert_eq!(writing.keep_pace(1).await, Err(StoreError::Stopped { run: writing.run, cause: Box::new(full) }));
    }

    #[tokio::test]
    async fn where_others_wait_windows_are_short() {
        let mut writing = of_a_run(Failures::default()).await;
        // So many that a window of its own is not over. One time may be too slow: whoever waited has not done so a moment ago.
        let mut rounds = 0..WINDOW.records / 600;
        while writing.before.is_none() {
            assert!(rounds.next().is_some(), "it is ahead of those who wait");
            write(&mut writing, 600, 1);
            writing.store.durable(writing.last.unwrap()).await.unwrap();
            writing.keep_pace(1).await.unwrap();
        }
    }
}
