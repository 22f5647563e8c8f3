//! Group commit: the queue of writes, and when it becomes one transaction.
//!
//! - With a waiter, everything that is queued is committed at once: on the waiter's own thread when nobody else is
//!   committing (two changes of thread cost as much as the disk), else by the writer thread as soon as the other is done.
//! - Without one, by the writer thread, after `Gather::linger` or `Gather::max_records`.
//!
//! Invariants: writes are committed in the order of their numbers; `settled` only grows, and is moved while the ledger is
//! held; the ledger is locked before the queue, never the other way round.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use crate::apply::{Heads, Refusal, Reply, Write, apply};
use crate::error::{Result, StoreError};
use crate::histogram::Histogram;
use crate::ledger::Ledger;
use crate::pending::Ticket;
use crate::queue::Begins;
use crate::rows::RunKey;
use crate::settled::Settled;
use crate::stopped::Stopped;
use crate::store::Latencies;

/// When writes that nobody waits for are committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gather {
    /// So long after the first of them; with `None`, not on account of time.
    pub linger: Option<Duration>,
    /// When they make so many records.
    pub max_records: usize,
}

impl Default for Gather {
    fn default() -> Self {
        Self { linger: Some(Duration::from_millis(5)), max_records: 1_000 }
    }
}

/// Beyond so many times `max_records`, an append helps to write: a stalled disk must not fill the memory.
const CROWDED: usize = 16;

pub(crate) struct Group<L> {
    gather: Gather,
    queue: Mutex<Queue>,
    wake_writer: Condvar,
    /// `None` once closed.
    ledger: Mutex<Option<Applier<L>>>,
    /// Every write with a number up to this one has been committed or has failed.
    settled: Settled,
    stopped: Mutex<Stopped>,
    commits: AtomicU64,
    /// How long the oldest write of a commit has waited.
    queued: Histogram,
    /// How long a commit takes.
    committed: Histogram,
    /// Who is told what commits come to for runs that wait.
    begins: Mutex<Option<UnboundedSender<Begins>>>,
}

struct Applier<L> {
    ledger: L,
    heads: Heads,
}

#[derive(Default)]
struct Queue {
    writes: Vec<Queued>,
    records: usize,
    /// When the oldest write was queued.
    since: Option<Instant>,
    last_number: u64,
    /// Somebody waits, and the writer is to commit.
    wanted: bool,
    /// The writer sleeps until a time, so it need not be woken to begin with that.
    timed: bool,
    closed: bool,
}

struct Queued {
    number: u64,
    write: Write,
    answer: Option<oneshot::Sender<Result<Reply>>>,
}

/// What became of each write of a batch, in order.
type Outcomes = Vec<Result<Reply>>;

impl<L: Ledger> Group<L> {
    pub(crate) fn new(ledger: L, gather: Gather) -> Self {
        Self {
            gather,
            queue: Mutex::default(),
            wake_writer: Condvar::new(),
            ledger: Mutex::new(Some(Applier { ledger, heads: Heads::default() })),
            settled: Settled::default(),
            stopped: Mutex::default(),
            commits: AtomicU64::new(0),
            queued: Histogram::default(),
            committed: Histogram::default(),
            begins: Mutex::default(),
        }
    }

    /// What commits come to for runs that wait, from now on.
    pub(crate) fn begins(&self) -> UnboundedReceiver<Begins> {
        let (sender, receiver) = unbounded_channel();
        lock(&self.begins).replace(sender);
        receiver
    }

    pub(crate) fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    pub(crate) fn latencies(&self) -> Latencies {
        Latencies { queued: self.queued.counted(), commits: self.committed.counted() }
    }

    /// Queues a write and gives it its number.
    pub(crate) fn enqueue(&self, write: Write, answer: Option<oneshot::Sender<Result<Reply>>>) -> u64 {
        let mut queue = lock(&self.queue);
        queue.last_number += 1;
        let number = queue.last_number;
        queue.records += write.records().max(1);
        let first = queue.since.is_none();
        queue.since.get_or_insert_with(Instant::now);
        queue.writes.push(Queued { number, write, answer });
        let full = queue.records >= self.gather.max_records;
        let crowded = queue.records >= self.gather.max_records.saturating_mul(CROWDED);
        if full || (first && !queue.timed && self.gather.linger.is_some()) {
            self.wake_writer.notify_one();
        }
        drop(queue);
        if crowded {
            self.commit_queued(&mut lock(&self.ledger));
        }
        number
    }

    /// Returns when the write with this number has been committed or has failed, and sees to it that it soon has.
    pub(crate) async fn settle(&self, number: u64) {
        if self.settled.has(number) {
            return;
        }
        match self.ledger.try_lock() {
            Ok(mut ledger) => self.commit_queued(&mut ledger),
            Err(TryLockError::Poisoned(poisoned)) => self.commit_queued(&mut poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => self.call_writer(number),
        }
        self.settled.wait_for(number).await;
    }

    /// Whether the batch was kept. Only after it has settled.
    pub(crate) fn verdict(&self, ticket: Ticket) -> Result<()> {
        lock(&self.stopped).check(ticket)
    }

    /// Takes batches of a stopped run again, from the next one on.
    pub(crate) fn recover(&self, run: RunKey) {
        let queue = lock(&self.queue);
        lock(&self.stopped).recover(run, queue.last_number + 1);
    }

    /// The writer thread: returns when the group is closed and the queue empty.
    pub(crate) fn write_until_closed(&self) {
        while self.sleep_until_due() {
            self.commit_queued(&mut lock(&self.ledger));
        }
    }

    /// Lets the writer thread end when it has committed what is queued.
    pub(crate) fn close_queue(&self) {
        lock(&self.queue).closed = true;
        self.wake_writer.notify_one();
    }

    /// Gives the ledger up. What is still queued fails when somebody waits for it.
    pub(crate) fn close_ledger(&self) {
        lock(&self.ledger).take();
    }

    /// What a crash does: what is queued is lost, and whoever comes afterwards starts from what is durable.
    pub(crate) fn lose_queued(&self) {
        let mut ledger = lock(&self.ledger);
        if let Some(applier) = ledger.as_mut() {
            applier.heads.clear();
        }
        let (writes, _) = self.take_queued();
        let lost = writes.iter().map(|_| Err(StoreError::Closed)).collect();
        self.settle_all(writes, lost);
        let queue = lock(&self.queue);
        lock(&self.stopped).recover_all(queue.last_number + 1);
    }

    fn call_writer(&self, number: u64) {
        let mut queue = lock(&self.queue);
        // Otherwise it is in the transaction that is being committed now.
        if queue.writes.first().is_some_and(|first| first.number <= number)
            && !std::mem::replace(&mut queue.wanted, true)
        {
            self.wake_writer.notify_one();
        }
    }

    /// False when there is nothing left to do for ever.
    fn sleep_until_due(&self) -> bool {
        let mut queue = lock(&self.queue);
        loop {
            let Some(since) = queue.since else {
                if queue.closed {
                    return false;
                }
                queue = self.wake_writer.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            if queue.wanted || queue.closed || queue.records >= self.gather.max_records {
                return true;
            }
            let Some(linger) = self.gather.linger else {
                queue = self.wake_writer.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = linger.saturating_sub(since.elapsed());
            if left.is_zero() {
                return true;
            }
            queue.timed = true;
            queue = self.wake_writer.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0;
            queue.timed = false;
        }
    }

    /// What is queued, and since when.
    fn take_queued(&self) -> (Vec<Queued>, Option<Instant>) {
        let mut queue = lock(&self.queue);
        queue.records = 0;
        queue.wanted = false;
        (std::mem::take(&mut queue.writes), queue.since.take())
    }

    /// Commits everything that is queued in one transaction, and settles it.
    fn commit_queued(&self, applier: &mut Option<Applier<L>>) {
        let (writes, since) = self.take_queued();
        if writes.is_empty() {
            return;
        }
        if let Some(since) = since {
            self.queued.add(since.elapsed());
        }
        let began = Instant::now();
        let outcomes = match applier {
            None => writes.iter().map(|_| Err(StoreError::Closed)).collect(),
            Some(applier) => {
                // A panic must not leave anybody waiting for ever: it is a failed commit like any other.
                let attempt = catch_unwind(AssertUnwindSafe(|| self.commit_all(applier, &writes)));
                attempt.unwrap_or_else(|_| {
                    applier.heads.clear();
                    fail(&writes, &StoreError::Internal("a panic while committing".into()))
                })
            }
        };
        self.committed.add(began.elapsed());
        self.settle_all(writes, outcomes);
    }

    /// One transaction; one for each write where a single one may have spoilt it for the others.
    fn commit_all(&self, applier: &mut Applier<L>, writes: &[Queued]) -> Outcomes {
        match self.commit(applier, writes) {
            Ok(outcomes) => outcomes,
            Err(error) if error.is_of_the_disk() || writes.len() == 1 => {
                tracing::error!(%error, writes = writes.len(), "a commit failed");
                fail(writes, &error)
            }
            Err(error) => {
                tracing::error!(%error, writes = writes.len(), "a commit failed, its writes are committed one by one");
                writes.chunks(1).flat_map(|one| self.commit_one(applier, one)).collect()
            }
        }
    }

    fn commit_one(&self, applier: &mut Applier<L>, one: &[Queued]) -> Outcomes {
        let outcomes = self.commit(applier, one).unwrap_or_else(|error| fail(one, &error));
        // Not later: what follows in the same run must find it stopped.
        self.note_stops(one, &outcomes);
        outcomes
    }

    fn commit(&self, applier: &mut Applier<L>, writes: &[Queued]) -> Result<Outcomes> {
        let Applier { ledger, heads } = applier;
        let mut outcomes = Vec::with_capacity(writes.len());
        let committed = ledger.transaction(&mut |rows| {
            for queued in writes {
                let outcome = match self.check_stop(queued) {
                    Err(error) => Err(error),
                    Ok(()) => match apply(rows, heads, &queued.write) {
                        Ok(reply) => Ok(reply),
                        Err(Refusal::Rule(error)) => Err(error),
                        Err(Refusal::Row(error)) => return Err(error),
                    },
                };
                if let Err(error) = &outcome {
                    // At once: later batches of the run, in this very transaction, must not be kept.
                    self.stop(queued, error);
                }
                outcomes.push(outcome);
            }
            Ok(())
        });
        match committed {
            Ok(()) => {
                self.commits.fetch_add(1, Ordering::Relaxed);
                for begins in heads.begins() {
                    // Nobody need listen: what may begin is found in the rows.
                    let _ = lock(&self.begins).as_ref().map(|listener| listener.send(begins));
                }
                Ok(outcomes)
            }
            Err(error) => {
                heads.clear();
                Err(error)
            }
        }
    }

    fn check_stop(&self, queued: &Queued) -> Result<()> {
        queued.ticket().map_or(Ok(()), |ticket| self.verdict(ticket))
    }

    fn stop(&self, queued: &Queued, error: &StoreError) {
        if let Some(ticket) = queued.ticket() {
            lock(&self.stopped).stop(ticket, error.clone());
        }
    }

    fn note_stops(&self, writes: &[Queued], outcomes: &Outcomes) {
        for (queued, outcome) in writes.iter().zip(outcomes) {
            if let Err(error) = outcome {
                self.stop(queued, error);
            }
        }
    }

    /// Stops first, answers then, and moves `settled` last: whoever looks finds the whole truth.
    fn settle_all(&self, writes: Vec<Queued>, outcomes: Outcomes) {
        let Some(last) = writes.last().map(|queued| queued.number) else { return };
        self.note_stops(&writes, &outcomes);
        for (queued, outcome) in writes.into_iter().zip(outcomes) {
            if let Some(answer) = queued.answer {
                // Whoever asked may have gone.
                let _ = answer.send(outcome);
            }
        }
        self.settled.move_to(last);
    }
}

impl Queued {
    /// The ticket of a batch. Other writes stop no run.
    fn ticket(&self) -> Option<Ticket> {
        match &self.write {
            Write::Append(batch) => Some(Ticket { number: self.number, run: batch.run }),
            _ => None,
        }
    }
}

fn fail(writes: &[Queued], error: &StoreError) -> Outcomes {
    writes.iter().map(|_| Err(error.clone())).collect()
}

/// A panic under one of these locks leaves data that is still whole: all changes under them are single assignments.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
