//! The rules of a single write: what it is checked against, and which rows it makes. The same for every implementation.

use std::collections::HashMap;

use crate::admission::{self, Changing, Gate};
use crate::errands;
use crate::error::{Result, StoreError};
use crate::ledger::{Head, LastEntry, Rows};
use crate::parts::{Part, is_in_parts};
use crate::queue::{Begins, Entrant};
use crate::rows::{Append, Delivered, InboxEvent, NewEvent, NewModule, NewRun, RunKey, Started};
use crate::status::Status;
use crate::submission::{Kept, Submission};
use crate::submit::{is_held, submit};

/// A queued write.
#[derive(Debug)]
pub(crate) enum Write {
    Start(NewRun),
    Append(Append),
    /// Before the batch that has its entry.
    Part(Part),
    Event(NewEvent),
    Module(NewModule),
    Submit(Submission),
}

/// What a write that was kept answers.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    Started(Started),
    Appended,
    Delivered(Delivered),
    Module(bool),
    Kept(Kept),
}

/// Why a write was not kept.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// It broke a rule. None of its rows were written, and the transaction goes on without it.
    Rule(StoreError),
    /// A row could not be read or written: the transaction is lost.
    Row(StoreError),
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Self::Row(error)
    }
}

/// The heads of runs that were written to lately, so that an append needs no lookup. True because this process is the only writer.
/// With them, what runs that wait to begin have of the transaction.
#[derive(Default)]
pub(crate) struct Heads(HashMap<RunKey, Head>, pub(crate) Gate);

/// Heads kept. Beyond that all are forgotten and looked up anew: rare, and simpler than choosing.
const MAX_HEADS: usize = 100_000;

impl Heads {
    /// Forgets everything: to be called when a transaction was lost, since heads are moved as rows are written.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// The runs' rows were changed by other means than theirs.
    pub(crate) fn forget_runs(&mut self) {
        self.0.clear();
    }

    /// What has come of the transaction for runs that wait, once it is committed.
    pub(crate) fn begins(&mut self) -> Vec<Begins> {
        self.1.take()
    }

    pub(crate) fn get(&mut self, rows: &mut dyn Rows, run: RunKey) -> Result<Option<Head>> {
        if let Some(head) = self.0.get(&run) {
            return Ok(Some(*head));
        }
        let head = rows.head(run)?;
        if let Some(head) = head {
            self.set(run, head);
        }
        Ok(head)
    }

    fn set(&mut self, run: RunKey, head: Head) {
        if head.status.is_finished() {
            self.0.remove(&run);
            return;
        }
        if self.0.len() >= MAX_HEADS {
            self.0.clear();
        }
        self.0.insert(run, head);
    }
}

/// Checks a write and makes its rows.
pub(crate) fn apply(rows: &mut dyn Rows, heads: &mut Heads, write: &Write) -> std::result::Result<Reply, Refusal> {
    match write {
        Write::Start(run) => start(rows, heads, run).map(Reply::Started),
        Write::Append(batch) => append(rows, heads, batch).map(|()| Reply::Appended),
        Write::Part(part) => keep_part(rows, heads, part).map(|()| Reply::Appended),
        Write::Event(event) => deliver(rows, heads, event).map(Reply::Delivered),
        Write::Module(module) => Ok(Reply::Module(rows.add_module(module)?)),
        Write::Submit(submission) => submit(rows, heads, submission).map(Reply::Kept),
    }
}

fn start(rows: &mut dyn Rows, heads: &mut Heads, run: &NewRun) -> std::result::Result<Started, Refusal> {
    if let Some(run_key) = &run.run_key
        && let Some((run, key)) = rows.run_by_run_key(run_key)?
    {
        return Ok(Started::Existing { run, key });
    }
    if rows.run_by_id(&run.run)?.is_some() {
        return Err(Refusal::Rule(StoreError::RunExists(run.run.clone())));
    }
    Ok(Started::New(add(rows, heads, run)?))
}

/// The rows of a run whose names are free. It begins when it may.
pub(crate) fn add(rows: &mut dyn Rows, heads: &mut Heads, run: &NewRun) -> Result<RunKey> {
    let Heads(_, gate) = heads;
    let entering = admission::entering(rows, gate, &run.workflow, &run.queue, run.begins_at_ms)?;
    let key = add_rows(rows, heads, run, entering.wake_at_ms.map(held), entering.turn.is_some())?;
    if let Some(turn) = entering.turn {
        let workflow = run.workflow.clone();
        let (name, priority, deadline_ms) = (run.queue.key.clone(), run.queue.priority, run.queue.deadline_ms);
        let entrant = Entrant { run: key, workflow, key: name.unwrap_or_default(), priority, turn, deadline_ms };
        admission::entered(rows, &mut heads.1, &entrant, run.created_at_ms)?;
    }
    Ok(key)
}

/// The same for one that goes on for another, whose place it has.
pub(crate) fn add_successor(rows: &mut dyn Rows, heads: &mut Heads, run: &NewRun, before: RunKey) -> Result<RunKey> {
    let known = rows.queue().entrant(before)?.is_some();
    let key = add_rows(rows, heads, run, None, known)?;
    admission::succeeded(rows, before, key)?;
    Ok(key)
}

fn add_rows(
    rows: &mut dyn Rows,
    heads: &mut Heads,
    run: &NewRun,
    wake_at_ms: Option<u64>,
    is_queued: bool,
) -> Result<RunKey> {
    let key = rows.add_run(run, wake_at_ms)?;
    rows.add_entries(key, 0, &run.first)?;
    for (number, (name, payload)) in (1..).zip(&run.inbox) {
        let (name, payload) = (name.clone(), payload.clone());
        rows.add_event(number, &NewEvent { run: key, name, payload, dedup: None })?;
    }
    for (name, value) in &run.tags {
        rows.add_tag(key, name, value)?;
    }
    if let Some(due_ms) = wake_at_ms {
        rows.add_timer(due_ms, key)?;
    }
    heads.set(key, Head { status: Status::Queued, next_seq: run.first.len() as u64, wake_at_ms, is_queued });
    Ok(key)
}

fn append(rows: &mut dyn Rows, heads: &mut Heads, batch: &Append) -> std::result::Result<(), Refusal> {
    let run = batch.run;
    let mut head = heads.get(rows, run)?.ok_or(Refusal::Rule(StoreError::NoSuchRun(run)))?;
    check(batch, head).map_err(Refusal::Rule)?;
    add_entries(rows, batch, &mut head)?;
    if batch.reopens {
        errands::reopened(rows, run)?;
    }
    errands::run(rows, heads, run, &batch.errands)?;
    for row in &batch.logs {
        rows.add_log(run, row)?;
    }
    if let Some(change) = &batch.change {
        let changing = Changing { run, change, reopens: batch.reopens, is_succeeded: batch.successor.is_some() };
        let last = batch.entries.last().map(|entry| (head.next_seq - 1, entry.as_slice()));
        change_run(rows, &mut heads.1, &changing, &mut head, last)?;
        if change.status.is_finished() {
            errands::ended(rows, heads, run, change, batch.successor.as_deref())?;
        }
    }
    if let Some(unknown) = batch.unknown {
        rows.set_unknown(run, unknown)?;
    }
    if let Some(answer) = &batch.answer
        && !is_held(rows, answer)?
    {
        rows.put_answer(answer)?;
    }
    heads.set(run, head);
    Ok(())
}

fn add_entries(rows: &mut dyn Rows, batch: &Append, head: &mut Head) -> Result<()> {
    let in_parts = |entry: &Vec<u8>| is_in_parts(batch, entry);
    for entries in batch.entries.chunk_by(|one, next| !in_parts(one) && !in_parts(next)) {
        match entries {
            [entry] if in_parts(entry) => rows.add_entry_in_parts(batch.run, head.next_seq, entry)?,
            entries => rows.add_entries(batch.run, head.next_seq, entries)?,
        }
        head.next_seq += entries.len() as u64;
    }
    Ok(())
}

/// What is in the journal is never written over.
fn keep_part(rows: &mut dyn Rows, heads: &mut Heads, part: &Part) -> std::result::Result<(), Refusal> {
    let (run, got) = (part.run, part.seq);
    let head = heads.get(rows, run)?.ok_or(Refusal::Rule(StoreError::NoSuchRun(run)))?;
    if got < head.next_seq {
        return Err(Refusal::Rule(StoreError::Conflict { run, expected: head.next_seq, got }));
    }
    Ok(rows.add_part(run, got, part.number, &part.bytes)?)
}

fn check(batch: &Append, head: Head) -> Result<()> {
    let taken_up = batch.reopens && head.status == Status::Failed;
    if head.status.is_finished() && !taken_up {
        return Err(StoreError::Finished { run: batch.run, status: head.status });
    }
    if let Some(got) = batch.first_seq.filter(|seq| *seq != head.next_seq) {
        return Err(StoreError::Conflict { run: batch.run, expected: head.next_seq, got });
    }
    Ok(())
}

fn change_run(
    rows: &mut dyn Rows,
    gate: &mut Gate,
    changing: &Changing<'_>,
    head: &mut Head,
    last: Option<LastEntry<'_>>,
) -> Result<()> {
    let Changing { run, change, .. } = *changing;
    let asked = if head.is_queued { admission::wake_of(rows, changing)? } else { change.wake_at_ms };
    // No timer outlives its run, whatever the caller says.
    let wake_at_ms = if change.status.is_finished() { None } else { asked.map(held) };
    rows.change_run(run, change, wake_at_ms, last)?;
    if wake_at_ms != head.wake_at_ms {
        if let Some(due_ms) = head.wake_at_ms {
            rows.remove_timer(due_ms, run)?;
        }
        if let Some(due_ms) = wake_at_ms {
            rows.add_timer(due_ms, run)?;
        }
    }
    head.status = change.status;
    head.wake_at_ms = wake_at_ms;
    if head.is_queued {
        admission::changed(rows, gate, changing)?;
    } else {
        head.is_queued = admission::changed_unknown(rows, gate, changing)?;
    }
    Ok(())
}

/// A time that the database cannot hold is as good as never.
pub(crate) fn held(due_ms: u64) -> u64 {
    due_ms.min(i64::MAX as u64)
}

pub(crate) fn deliver(
    rows: &mut dyn Rows,
    heads: &mut Heads,
    event: &NewEvent,
) -> std::result::Result<Delivered, Refusal> {
    // A repetition is answered before the run's end is looked at: the first one came in time.
    if let Some(first) = repeated(rows, heads, event)? {
        return Ok(Delivered { number: first.number, repeated: true });
    }
    let run = errands::current(rows, heads, event.run)?;
    let head = heads.get(rows, run)?.ok_or(Refusal::Rule(StoreError::NoSuchRun(run)))?;
    if head.status.is_finished() {
        return Err(Refusal::Rule(StoreError::Finished { run, status: head.status }));
    }
    let number = rows.last_event(run)? + 1;
    if run == event.run {
        rows.add_event(number, event)?;
    } else {
        rows.add_event(number, &NewEvent { run, ..event.clone() })?;
    }
    Ok(Delivered { number, repeated: false })
}

/// The first event with this one's key, of the run or of those that went on for it.
pub(crate) fn repeated(rows: &mut dyn Rows, heads: &mut Heads, event: &NewEvent) -> Result<Option<InboxEvent>> {
    let Some(dedup) = &event.dedup else { return Ok(None) };
    let mut run = event.run;
    loop {
        let first = rows.event_by_dedup(run, dedup)?;
        if first.is_some() || heads.get(rows, run)?.is_none_or(|head| !head.status.is_finished()) {
            return Ok(first);
        }
        match rows.link(run)?.continued_as {
            Some(next) => run = next,
            None => return Ok(None),
        }
    }
}
