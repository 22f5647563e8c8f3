//! What a run's watchers are told: only what is durable, in order.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use stepwell_core::error::Error;
use stepwell_core::ids::StepId;
use stepwell_core::journal::entry::{Entry, RunOutcome};
use stepwell_core::run::LogLine;
use stepwell_store::{RunKey, Store, Ticket};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;

use crate::fault::{Fault, planted};
use crate::points::{Moment, Points};
use crate::tap::Tap;

/// Something that happened in a run.
#[derive(Debug, Clone)]
pub enum RunEvent {
    /// An entry of its journal.
    Entry {
        /// Its number.
        seq: u64,
        /// What it says.
        entry: Entry,
    },
    /// A line of its log.
    Log(LogLine),
    /// Its status text.
    StatusText(String),
    /// It waits, and holds no instance.
    Waiting {
        /// For what.
        what: String,
        /// Until when at the latest, in ms since the Unix epoch.
        until_ms: Option<u64>,
    },
    /// It needs steps whose outcome is unknown.
    Blocked(Vec<StepId>),
    /// It is over.
    Ended(RunOutcome),
    /// It is set aside, and can be resumed. The error says why.
    Paused(Error),
    /// The engine was stopped; the run goes on when it is resumed.
    Parked,
}

impl RunEvent {
    /// Whether nothing more happens in the run until somebody acts.
    #[must_use]
    pub fn is_last(&self) -> bool {
        matches!(self, Self::Blocked(_) | Self::Ended(_) | Self::Paused(_) | Self::Parked)
    }
}

/// What a watcher is told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Interest {
    /// Where the run comes to rest: that it waits, and each event after which nothing happens by itself.
    Rests,
    /// Everything.
    All,
}

impl Interest {
    pub(crate) fn includes(self, event: &RunEvent) -> bool {
        self == Self::All || event.is_last() || matches!(event, RunEvent::Waiting { .. })
    }
}

/// Who watches which run, and who is told of all of them.
pub(crate) struct Watchers(Mutex<HashMap<RunKey, Watched>>, AtomicUsize, Tap);

/// The watchers of one run.
#[derive(Default)]
struct Watched {
    events: Vec<Watcher>,
    changes: Option<watch::Sender<()>>,
}

struct Watcher {
    interest: Interest,
    sender: UnboundedSender<RunEvent>,
}

impl Watched {
    fn is_over(&self) -> bool {
        let gone = |watcher: &Watcher| watcher.sender.is_closed();
        self.events.iter().all(gone) && self.changes.as_ref().is_none_or(|changes| changes.receiver_count() == 0)
    }

    fn interest(&self) -> Option<Interest> {
        match &self.changes {
            Some(_) => Some(Interest::All),
            None => self.events.iter().map(|watcher| watcher.interest).max(),
        }
    }
}

impl Watchers {
    pub(crate) fn new(tap: Tap) -> Self {
        Self(Mutex::default(), AtomicUsize::default(), tap)
    }

    pub(crate) fn watch(&self, run: RunKey, interest: Interest) -> UnboundedReceiver<RunEvent> {
        let (sender, receiver) = unbounded_channel();
        self.of(&mut self.lock(), run).events.push(Watcher { interest, sender });
        receiver
    }

    pub(crate) fn changes(&self, run: RunKey) -> watch::Receiver<()> {
        self.of(&mut self.lock(), run).changes.get_or_insert_with(|| watch::Sender::new(())).subscribe()
    }

    /// Where the watchers of a run are. Those who have gone without a further event are noticed when somebody new comes, or when nothing
    /// happens any more.
    fn of<'a>(&self, watchers: &'a mut HashMap<RunKey, Watched>, run: RunKey) -> &'a mut Watched {
        if watchers.len() >= self.1.load(Ordering::Relaxed) {
            self.forget_gone(watchers);
        }
        watchers.entry(run).or_default()
    }

    fn forget_gone(&self, watchers: &mut HashMap<RunKey, Watched>) {
        watchers.retain(|_, watched| !watched.is_over());
        watchers.shrink_to(watchers.len() * 2);
        self.1.store(watchers.len() * 2 + SWEEP_AT, Ordering::Relaxed);
    }

    /// Nothing happens any more.
    pub(crate) fn rest(&self) {
        self.forget_gone(&mut self.lock());
    }

    /// What somebody wants to know of this run; `None` where nobody watches it.
    pub(crate) fn interest(&self, run: RunKey) -> Option<Interest> {
        if self.2.listens() {
            return Some(Interest::All);
        }
        self.lock().get(&run)?.interest()
    }

    pub(crate) fn tell(&self, run: RunKey, event: &RunEvent) {
        if let RunEvent::Entry { seq, entry } = event {
            self.2.see(run, *seq, entry);
        }
        let mut watchers = self.lock();
        if let Some(watched) = watchers.get_mut(&run) {
            let tell = |to: &Watcher| to.sender.send(event.clone()).is_ok();
            watched.events.retain(|to| if to.interest.includes(event) { tell(to) } else { !to.sender.is_closed() });
            if let Some(changes) = &watched.changes {
                changes.send_replace(());
            }
            if watched.is_over() {
                watchers.remove(&run);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RunKey, Watched>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// So many watched runs are looked through for those that nobody watches any more; then at twice what is left.
const SWEEP_AT: usize = 1_000;

/// Tells a run's watchers what its task hands over, once it is durable. It waits without hurrying the disk: a run that only
/// computes costs no more commits for being watched.
pub(crate) struct Publisher(UnboundedSender<(Ticket, Vec<RunEvent>)>);

/// A little more than the store lets a write rest.
const UNHURRIED: Duration = Duration::from_millis(6);

impl Publisher {
    pub(crate) fn new(run: RunKey, store: Arc<dyn Store>, watchers: Arc<Watchers>, points: Points) -> Self {
        let (sender, mut receiver) = unbounded_channel();
        tokio::spawn(async move {
            while let Some(group) = gather(&mut receiver).await {
                for (ticket, events) in group {
                    if !planted(Fault::ShowBeforeDurable) && store.durable_in_time(ticket).await.is_err() {
                        return;
                    }
                    points.pass(Moment::Showing).await;
                    events.iter().for_each(|event| watchers.tell(run, event));
                }
            }
        });
        Self(sender)
    }

    pub(crate) fn publish(&self, ticket: Ticket, events: Vec<RunEvent>) {
        // The task ends only after a failed commit, and then nothing may be shown.
        let _ = self.0.send((ticket, events));
    }
}

/// What is to be told next, once the store has had time to write it by itself. Where the run comes to rest nothing is waited for:
/// whoever brought it there has hurried the disk already.
async fn gather(receiver: &mut UnboundedReceiver<(Ticket, Vec<RunEvent>)>) -> Option<Vec<(Ticket, Vec<RunEvent>)>> {
    let rests = |group: &(Ticket, Vec<RunEvent>)| group.1.iter().any(|event| Interest::Rests.includes(event));
    let first = receiver.recv().await?;
    let mut rested = rests(&first);
    let mut group = vec![first];
    let mut unhurried = std::pin::pin!(tokio::time::sleep(UNHURRIED));
    // The fault shows what comes at once: else the disk is often there first.
    while !rested && !planted(Fault::ShowBeforeDurable) {
        tokio::select! {
            biased;
            next = receiver.recv() => match next {
                Some(next) => {
                    rested = rests(&next);
                    group.push(next);
                }
                None => break,
            },
            () = &mut unhurried => break,
        }
    }
    while let Ok(next) = receiver.try_recv() {
        group.push(next);
    }
    Some(group)
}
