//! Group commit: the queue of writes, and when it becomes one transaction.
//!
//! - With a waiter, everything that is queued is committed, once the tasks that are ready have had their turn: they may have something for
//!   the same commit. On the waiter's own thread where it is alone (two changes of thread cost as much as the disk), else by the writer
//!   thread, so that no thread that others need waits for the disk.
//! - Without one, by the writer thread, after `Gather::linger` or `Gather::max_records`.
//! - What is bulky, by the writer thread alone, a piece after the other, so that quick writes have their commits in between; and where
//!   there are such, it rests after each for twice as long as that took.
//!
//! Invariants: writes of a lane are committed in the order of their numbers (see `lanes`, also for a run's); `settled` only grows, and
//! is moved while the ledger is held; the ledger is locked before the queue, never the other way round.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Instant;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use crate::apply::{Heads, Refusal, Reply, Write, apply};
use crate::due::{Due, Gather, Queue};
use crate::error::{Result, StoreError};
use crate::histogram::Histogram;
use crate::lanes::{Lane, Place, Queued, Taken};
use crate::ledger::Ledger;
use crate::pending::{Ticket, give_way};
use crate::queue::Begins;
use crate::rows::RunKey;
use crate::settled::Settled;
use crate::stopped::Stopped;
use crate::store::Latencies;

/// Beyond so many times `max_records`, an append helps to write: a stalled disk must not fill the memory.
const CROWDED: usize = 16;
/// The same for bytes.
const CROWDED_BYTES: usize = 64 << 20;
/// Whoever has waited so long ago waits again soon, in ms.
const A_MOMENT_MS: u64 = 50;
pub(crate) struct Group<L> {
    gather: Gather,
    queue: Mutex<Queue>,
    wake_writer: Condvar,
    /// `None` once closed.
    ledger: Mutex<Option<Applier<L>>>,
    /// Of each lane: every write with a number up to this one has been committed or has failed.
    settled: [Settled; 2],
    /// How many wait for quick writes.
    waiting: AtomicUsize,
    /// The writer thread waits for the ledger: others leave it to that, which might come to nothing else beside them.
    writer_waits: AtomicBool,
    began: Instant,
    /// When somebody last waited for a quick write, in ms since `began`.
    waited_ms: AtomicU64,
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

/// What became of each write of a batch, in order.
type Outcomes = Vec<Result<Reply>>;

impl<L: Ledger> Group<L> {
    pub(crate) fn new(ledger: L, gather: Gather) -> Self {
        Self {
            gather,
            queue: Mutex::default(),
            wake_writer: Condvar::new(),
            ledger: Mutex::new(Some(Applier { ledger, heads: Heads::default() })),
            settled: Default::default(),
            waiting: AtomicUsize::new(0),
            writer_waits: AtomicBool::new(false),
            began: Instant::now(),
            waited_ms: AtomicU64::new(0),
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

    /// Queues a write, and says where.
    pub(crate) fn enqueue(&self, write: Write, answer: Option<oneshot::Sender<Result<Reply>>>) -> Place {
        let mut queue = lock(&self.queue);
        let first = queue.lanes.quick_since().is_none();
        let place = queue.lanes.push(write, answer, Instant::now());
        let records = queue.lanes.records(place.lane);
        let full = records >= self.gather.max_records;
        // Whoever writes bulk waits for that before it goes on, and others do not carry it for them.
        let most = self.gather.max_records.saturating_mul(CROWDED);
        let crowded = place.lane == Lane::Quick && (records >= most || queue.lanes.bytes(Lane::Quick) >= CROWDED_BYTES);
        if full || (self.gather.linger.is_some() && (first && !queue.timed || place.lane == Lane::Bulk)) {
            self.wake_writer.notify_one();
        }
        drop(queue);
        if crowded {
            let mut ledger = lock(&self.ledger);
            while self.commit(&mut ledger, Lane::Quick) {}
        }
        place
    }

    /// Returns when this write has been committed or has failed, and sees to it that it soon has.
    pub(crate) async fn settle(&self, place: Place) {
        let settled = &self.settled[place.lane as usize];
        if settled.has(place.number) {
            return;
        }
        if place.lane == Lane::Bulk {
            self.call_writer(place);
            return self.settled(place).await;
        }
        self.waited_ms.store(self.now_ms(), Ordering::Relaxed);
        let _waiting = Counted::new(&self.waiting);
        give_way().await;
        match self.try_ledger() {
            Some(mut ledger) => while !settled.has(place.number) && self.commit(&mut ledger, Lane::Quick) {},
            None => self.call_writer(place),
        }
        self.settled(place).await;
    }

    /// Returns when this write has been committed or has failed.
    pub(crate) async fn settled(&self, place: Place) {
        self.settled[place.lane as usize].wait_for(place.number).await;
    }

    /// The ledger, where it is free for a waiter to commit by itself.
    fn try_ledger(&self) -> Option<MutexGuard<'_, Option<Applier<L>>>> {
        if self.waiting.load(Ordering::Relaxed) > 1 || self.writer_waits.load(Ordering::Relaxed) {
            return None;
        }
        match self.ledger.try_lock() {
            Ok(ledger) => Some(ledger),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Whether what nobody waits for is committed after a time.
    pub(crate) fn commits_by_itself(&self) -> bool {
        self.gather.linger.is_some()
    }

    /// Whether somebody waits, or has a moment ago.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.now_ms().saturating_sub(self.waited_ms.load(Ordering::Relaxed)) < A_MOMENT_MS
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Whether the batch was kept. Only after it has settled.
    pub(crate) fn verdict(&self, ticket: Ticket) -> Result<()> {
        lock(&self.stopped).check_all(ticket.run, (ticket.first, ticket.place.number))
    }

    /// Takes batches of a stopped run again, from the next one on.
    pub(crate) fn recover(&self, run: RunKey) {
        let queue = lock(&self.queue);
        lock(&self.stopped).recover(run, queue.lanes.last_number() + 1);
    }

    /// The writer thread: returns when the group is closed and the queue empty.
    pub(crate) fn write_until_closed(&self) {
        while let Some(lane) = self.sleep_until_due() {
            self.writer_waits.store(true, Ordering::Relaxed);
            let mut ledger = lock(&self.ledger);
            self.writer_waits.store(false, Ordering::Relaxed);
            self.commit(&mut ledger, lane);
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
        let all = lock(&self.queue).lanes.take_all();
        for taken in all.into_iter().flatten() {
            let lost = taken.writes.iter().map(|_| Err(StoreError::Closed)).collect();
            self.settle_all(taken, lost);
        }
        let queue = lock(&self.queue);
        lock(&self.stopped).recover_all(queue.lanes.last_number() + 1);
    }

    /// Has the writer thread commit what is queued up to this write.
    pub(crate) fn call_writer(&self, place: Place) {
        let mut queue = lock(&self.queue);
        // Otherwise it is in the transaction that is being committed now.
        if queue.lanes.has(place) && !std::mem::replace(&mut queue.wanted[place.lane as usize], true) {
            self.wake_writer.notify_one();
        }
    }

    /// What the writer thread is to commit next; `None` when there is nothing left to do for ever.
    fn sleep_until_due(&self) -> Option<Lane> {
        let mut queue = lock(&self.queue);
        loop {
            let left = match queue.due(self.gather, Instant::now()) {
                Due::Commit(lane) => return Some(lane),
                Due::Over => return None,
                Due::Later(left) => left,
            };
            let Some(left) = left else {
                queue = self.wake_writer.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            queue.timed = queue.lanes.quick_since().is_some();
            queue = self.wake_writer.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0;
            queue.timed = false;
        }
    }

    /// Commits the next writes of a lane in one transaction, and settles them. False where there were none.
    fn commit(&self, applier: &mut Option<Applier<L>>, lane: Lane) -> bool {
        let alone = !self.is_waited_for();
        let Some(taken) = lock(&self.queue).take(lane, alone) else { return false };
        self.queued.add(taken.since.elapsed());
        let began = Instant::now();
        let writes = &taken.writes;
        let outcomes = match applier {
            None => writes.iter().map(|_| Err(StoreError::Closed)).collect(),
            Some(applier) => {
                // A panic must not leave anybody waiting for ever: it is a failed commit like any other.
                let attempt = catch_unwind(AssertUnwindSafe(|| {
                    let outcomes = self.commit_all(applier, writes);
                    forget_parts(applier, writes, &outcomes);
                    outcomes
                }));
                attempt.unwrap_or_else(|_| {
                    applier.heads.clear();
                    fail(writes, &StoreError::Internal("a panic while committing".into()))
                })
            }
        };
        let took = began.elapsed();
        self.committed.add(took);
        if lane == Lane::Bulk {
            lock(&self.queue).rest(took, Instant::now());
        }
        self.settle_all(taken, outcomes);
        true
    }

    /// One transaction; one for each write where a single one may have spoilt it for the others.
    fn commit_all(&self, applier: &mut Applier<L>, writes: &[Queued]) -> Outcomes {
        match self.transact(applier, writes) {
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
        let outcomes = self.transact(applier, one).unwrap_or_else(|error| fail(one, &error));
        // Not later: what follows in the same run must find it stopped.
        self.note_stops(one, &outcomes);
        outcomes
    }

    fn transact(&self, applier: &mut Applier<L>, writes: &[Queued]) -> Result<Outcomes> {
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
        queued.write.run().map_or(Ok(()), |run| lock(&self.stopped).check(run, queued.number))
    }

    /// Only batches stop their runs.
    fn stop(&self, queued: &Queued, error: &StoreError) {
        if let Some(run) = queued.write.run() {
            lock(&self.stopped).stop(run, queued.number, error.clone());
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
    fn settle_all(&self, taken: Taken, outcomes: Outcomes) {
        let Taken { lane, writes, .. } = taken;
        let Some(last) = writes.last().map(|queued| queued.number) else { return };
        self.note_stops(&writes, &outcomes);
        lock(&self.queue).lanes.settled(lane, &writes);
        for (queued, outcome) in writes.into_iter().zip(outcomes) {
            if let Some(answer) = queued.answer {
                // Whoever asked may have gone.
                let _ = answer.send(outcome);
            }
        }
        self.settled[lane as usize].move_to(last);
    }
}

/// One more, for as long as this is there.
struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Parts of an entry that will not come are taken away: on a full disk they would have what little is left.
fn forget_parts<L: Ledger>(applier: &mut Applier<L>, writes: &[Queued], outcomes: &Outcomes) {
    let failed = writes.iter().zip(outcomes).filter(|(queued, outcome)| {
        // What is behind a failure has been written no more.
        queued.write.has_parts() && matches!(outcome, Err(error) if !matches!(error, StoreError::Stopped { .. }))
    });
    let runs: HashSet<RunKey> = failed.filter_map(|(queued, _)| queued.write.run()).collect();
    if runs.is_empty() {
        return;
    }
    let Applier { ledger, heads } = applier;
    let forgotten = ledger.transaction(&mut |rows| {
        for run in &runs {
            if let Some(head) = heads.get(rows, *run)? {
                rows.forget_parts(*run, head.next_seq)?;
            }
        }
        Ok(())
    });
    if let Err(error) = forgotten {
        heads.clear();
        tracing::debug!(%error, "parts of an entry that did not come stay until their run goes, or writes them over");
    }
}

fn fail(writes: &[Queued], error: &StoreError) -> Outcomes {
    writes.iter().map(|_| Err(error.clone())).collect()
}

/// A panic under one of these locks leaves data that is still whole: all changes under them are single assignments.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
