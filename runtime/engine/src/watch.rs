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

/// Who watches which run.
#[derive(Default)]
pub(crate) struct Watchers(Mutex<HashMap<RunKey, Watched>>, AtomicUsize);

/// The watchers of one run.
#[derive(Default)]
struct Watched {
    events: Vec<UnboundedSender<RunEvent>>,
    changes: Option<watch::Sender<()>>,
}

impl Watched {
    fn is_over(&self) -> bool {
        self.events.is_empty() && self.changes.as_ref().is_none_or(|changes| changes.receiver_count() == 0)
    }
}

impl Watchers {
    pub(crate) fn watch(&self, run: RunKey) -> UnboundedReceiver<RunEvent> {
        let (sender, receiver) = unbounded_channel();
        self.lock().entry(run).or_default().events.push(sender);
        receiver
    }

    pub(crate) fn changes(&self, run: RunKey) -> watch::Receiver<()> {
        let mut watchers = self.lock();
        // Whoever has gone without a further change is noticed when somebody new comes.
        if watchers.len() >= self.1.load(Ordering::Relaxed) {
            watchers.retain(|_, watched| !watched.is_over());
            self.1.store(watchers.len() * 2 + SWEEP_AT, Ordering::Relaxed);
        }
        watchers.entry(run).or_default().changes.get_or_insert_with(|| watch::Sender::new(())).subscribe()
    }

    pub(crate) fn has(&self, run: RunKey) -> bool {
        self.lock().contains_key(&run)
    }

    pub(crate) fn tell(&self, run: RunKey, event: &RunEvent) {
        let mut watchers = self.lock();
        if let Some(watched) = watchers.get_mut(&run) {
            watched.events.retain(|sender| sender.send(event.clone()).is_ok());
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
        let (sender, mut receiver) = unbounded_channel::<(Ticket, Vec<RunEvent>)>();
        tokio::spawn(async move {
            while let Some(first) = receiver.recv().await {
                let mut group = vec![first];
                while let Ok(next) = receiver.try_recv() {
                    group.push(next);
                }
                // Whoever waits for the end has hurried the disk already.
                let ends = group.iter().any(|(_, events)| events.iter().any(RunEvent::is_last));
                if !ends {
                    tokio::time::sleep(UNHURRIED).await;
                }
                for (ticket, events) in group {
                    if !planted(Fault::ShowBeforeDurable) && store.durable(ticket).await.is_err() {
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
