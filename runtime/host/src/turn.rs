//! A turn: polling a guest until it is quiet, over, or out of time.
//!
//! Quiet is proven: the whole invocation is polled with a waker that remembers. Pending and not woken means that nothing is left to
//! run; woken, it is polled again, within the turn's budget. No guest call waits for anything outside, so nothing else can wake it.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use stepwell_core::contract::Event;
use wasmtime::UpdateDeadline;

use crate::port::Port;
use crate::trap::{Stop, Trap};

/// How long a turn may go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnDeadline {
    /// Computing time: what the guest spends running, not what it waits for its place on a thread.
    pub budget: Duration,
    /// The time on the clock at which it ends all the same, e.g. an attempt's.
    pub at: Option<Instant>,
}

impl TurnDeadline {
    /// A budget in milliseconds, and no deadline.
    #[must_use]
    pub fn budget_ms(ms: u64) -> Self {
        Self { budget: Duration::from_millis(ms), at: None }
    }

    /// The same budget with a deadline.
    #[must_use]
    pub fn until(self, at: Instant) -> Self {
        Self { at: Some(at), ..self }
    }
}

/// Ends an invocation from outside: the turn under way at its next epoch, or else the next turn before it runs.
#[derive(Clone)]
pub struct InterruptHandle(Arc<Shared>);

impl InterruptHandle {
    /// Ends it. Takes effect within some milliseconds, and once for all.
    pub fn interrupt(&self) {
        self.0.interrupted.store(true, Ordering::Relaxed);
    }
}

thread_local! {
    static GAVE_WAY: Cell<bool> = const { Cell::new(false) };
}

/// Whether a guest has given way at an epoch, on this thread and since this was last asked: it computes for long, and waits for nothing
/// but its next poll.
pub fn gave_way() -> bool {
    GAVE_WAY.take()
}

/// What the guest's functions, its epoch callback and the turn's poll share.
#[derive(Default)]
pub(crate) struct Shared {
    pub(crate) port: Port,
    clock: Mutex<Clock>,
    interrupted: AtomicBool,
    /// Events that it was told.
    deliveries: AtomicU64,
}

#[derive(Default)]
struct Clock {
    budget: Duration,
    deadline: Option<Instant>,
    /// Computing time of the turn, but for the poll under way.
    spent: Duration,
    poll: Option<Began>,
    /// It has given way, so it may not be alone on its core.
    is_long: bool,
}

/// A poll whose thread nobody asks gives way at its first epoch or its second. Where it took longer than this it did not compute: the process
/// was stopped, or the whole machine paused, and a run is not to fail for that.
const MOST: Duration = Duration::from_millis(100);

/// When a poll began.
#[derive(Clone, Copy)]
struct Began {
    at: Instant,
    /// By what its thread has computed. Asking costs more than most turns do, so of those that are not long nobody does.
    computed: Option<Duration>,
}

impl Began {
    fn now(is_long: bool) -> Self {
        Self { at: Instant::now(), computed: is_long.then(computed).flatten() }
    }

    /// Computing time since, on the same thread.
    fn spent(&self) -> Duration {
        match self.computed.zip(self.computed.and_then(|_| computed())) {
            Some((began, now)) => now.saturating_sub(began),
            None => self.at.elapsed().min(MOST),
        }
    }
}

/// What the calling thread has computed since it is there, where the operating system says so.
fn computed() -> Option<Duration> {
    #[cfg(target_os = "linux")]
    return rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime).try_into().ok();
    #[cfg(not(target_os = "linux"))]
    None
}

impl Shared {
    /// What a store does at an epoch. An instance that was idle meets an old epoch at once and goes on: only this turn counts.
    pub(crate) fn at_epoch(&self) -> wasmtime::Result<UpdateDeadline> {
        /// Less than an epoch: what has just begun need not give way.
        const JUST_BEGUN: Duration = Duration::from_millis(2);
        self.check()?;
        let mut clock = self.clock();
        if clock.poll.is_some_and(|began| began.at.elapsed() < JUST_BEGUN) {
            return Ok(UpdateDeadline::Continue(1));
        }
        clock.is_long = true;
        GAVE_WAY.set(true);
        Ok(UpdateDeadline::Yield(1))
    }

    fn check(&self) -> Result<(), Stop> {
        if self.interrupted.load(Ordering::Relaxed) {
            return Err(Stop::Interrupted);
        }
        let clock = self.clock();
        let spent = clock.spent + clock.poll.map_or(Duration::ZERO, |began| began.spent());
        if clock.deadline.is_some_and(|at| Instant::now() >= at) {
            return Err(Stop::Deadline);
        }
        if spent > clock.budget {
            return Err(Stop::TurnBudget { budget_ms: u64::try_from(clock.budget.as_millis()).unwrap_or(u64::MAX) });
        }
        Ok(())
    }

    /// Events that the guest was told: what belongs to a turn knows by this when the next has begun.
    pub(crate) fn deliveries(&self) -> u64 {
        self.deliveries.load(Ordering::Relaxed)
    }

    fn begin_turn(&self, deadline: TurnDeadline) {
        *self.clock() = Clock { budget: deadline.budget, deadline: deadline.at, ..Clock::default() };
    }

    fn begin_poll(&self) {
        GAVE_WAY.set(false);
        let mut clock = self.clock();
        clock.poll = Some(Began::now(clock.is_long));
    }

    fn end_poll(&self) {
        let mut clock = self.clock();
        if let Some(began) = clock.poll.take() {
            clock.spent += began.spent();
        }
    }

    fn clock(&self) -> MutexGuard<'_, Clock> {
        // Nothing panics under the lock.
        self.clock.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The waker that the guest is polled with.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The whole life of a guest, as one future that owns its store.
type Life<R> = Pin<Box<dyn Future<Output = wasmtime::Result<R>> + Send>>;

/// A guest under way.
pub(crate) struct Execution<R> {
    /// `None` once it is over.
    life: Option<Life<R>>,
    shared: Arc<Shared>,
    woken: Arc<Woken>,
}

/// How a turn ended.
pub(crate) enum Progress<R> {
    /// Nothing is left to run, and `next` is pending.
    Quiet,
    /// Nothing is left to run, and no `next` is pending.
    Idle,
    Returned(R),
    Trapped(Trap),
}

impl<R> Execution<R> {
    pub(crate) fn new(shared: Arc<Shared>, life: Life<R>) -> Self {
        Self { life: Some(life), shared, woken: Arc::default() }
    }

    pub(crate) fn interrupt_handle(&self) -> InterruptHandle {
        InterruptHandle(self.shared.clone())
    }

    /// Delivers `event`, if there is one, and lets the guest run. Dropped early, the turn is taken up by the next call.
    pub(crate) async fn turn(&mut self, event: Option<Event>, deadline: TurnDeadline) -> Progress<R> {
        self.shared.begin_turn(deadline);
        if let Some(event) = event {
            self.shared.deliveries.fetch_add(1, Ordering::Relaxed);
            self.shared.port.deliver(event);
        }
        let waker = Waker::from(self.woken.clone());
        poll_fn(|context| {
            let progress = self.poll(&waker);
            if progress.is_pending() {
                context.waker().wake_by_ref();
            }
            progress
        })
        .await
    }

    /// Polls until the guest has nothing left to run. Pending when others should have their turn on the thread first.
    fn poll(&mut self, waker: &Waker) -> Poll<Progress<R>> {
        /// Wakings within one stay on the thread.
        const POLLS: usize = 64;
        for _ in 0..POLLS {
            let Some(life) = &mut self.life else { return Poll::Ready(Progress::Trapped(Trap::ended())) };
            if let Err(stop) = self.shared.check() {
                self.life = None;
                return Poll::Ready(Progress::Trapped(stop.into()));
            }
            self.woken.0.store(false, Ordering::Relaxed);
            self.shared.begin_poll();
            let polled = life.as_mut().poll(&mut Context::from_waker(waker));
            self.shared.end_poll();
            if let Poll::Ready(end) = polled {
                self.life = None;
                return Poll::Ready(end.map_or_else(|error| Progress::Trapped(error.into()), Progress::Returned));
            }
            if !self.woken.0.load(Ordering::Relaxed) {
                let quiet = self.shared.port.is_pending();
                return Poll::Ready(if quiet { Progress::Quiet } else { Progress::Idle });
            }
            // Let others run before it is polled again.
            if GAVE_WAY.get() {
                break;
            }
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_poll_that_stood_still_has_not_computed() {
        let stood = Duration::from_secs(60);
        let began =
            Began { at: Instant::now().checked_sub(stood).expect("the machine is up for longer"), computed: None };
        assert_eq!(began.spent(), MOST);
    }
}
