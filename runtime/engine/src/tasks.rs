//! The tasks of live runs: one for each, found by the run, given to whoever is told something, and stopped with the engine.
//!
//! A run that has something to do has a task once it has a place among the live ones (`ready.rs`); one that is asked something, at once.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use stepwell_core::error::{Code, Error};
use stepwell_store::RunKey;
use tokio::sync::mpsc::{Receiver, Sender, UnboundedReceiver, UnboundedSender, channel, unbounded_channel};
use tokio::sync::{Notify, OwnedSemaphorePermit};

use crate::clock::real_now_ms;
use crate::drive::{Place, Task, drive, set_aside};
use crate::driver::{End, Message};
use crate::engine::Engine;
use crate::ready::{Queue, Stands, Told};
use crate::watch::RunEvent;

/// Of one engine.
pub(crate) struct Tasks {
    list: Mutex<List>,
    /// One of them has.
    ended: Notify,
    /// Somebody waits for a place.
    came: Sender<()>,
}

#[derive(Default)]
struct List {
    live: HashMap<RunKey, UnboundedSender<Message>>,
    /// Those that wait for a place, and have no task.
    ready: Queue,
    /// The engine stops: there is no further task. What is on record is done by the next process.
    closed: bool,
}

impl Tasks {
    /// And where it is told that somebody waits for a place.
    pub(crate) fn new() -> (Self, Receiver<()>) {
        let (came, told) = channel(1);
        (Self { list: Mutex::default(), ended: Notify::new(), came }, told)
    }

    fn wait(&self, list: &mut List, run: RunKey, stood: Option<Stands>, told: Told) {
        list.ready.join(run, stood, told);
        // One word is enough for all that wait.
        let _ = self.came.try_send(());
    }

    fn lock(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl List {
    /// A task for a run that has none, which hears what it was told while it waited and then this.
    fn begin(&mut self, run: RunKey, told: Told, message: Option<Message>, place: Place) -> Task {
        let (sender, messages) = unbounded_channel();
        for message in told.messages().chain(message) {
            // The receiver is right here.
            let _ = sender.send(message);
        }
        self.live.insert(run, sender.clone());
        Task { run, sender, messages, by_hand: told.by_hand, place }
    }
}

/// What runs have to come to rest beside the time that their requests have: for a commit on a slow disk, or a long turn.
const STOPPING: Duration = Duration::from_secs(10);

impl Engine {
    /// How many runs have a task.
    #[must_use]
    pub fn live_runs(&self) -> usize {
        self.tasks().lock().live.len()
    }

    /// How many runs have something to do and wait for a place among the live ones.
    #[must_use]
    pub fn ready_runs(&self) -> usize {
        self.tasks().lock().ready.len()
    }

    /// Stops every live run where it is, for good: none begins after this. Their requests are waited for, for a while; what is
    /// recorded is durable. Runs that do not come to their end in that time are left to the next process, as after a crash.
    pub async fn stop(&self) {
        let left = {
            let mut tasks = self.tasks().lock();
            tasks.closed = true;
            for sender in tasks.live.values() {
                let _ = sender.send(Message::Stop);
            }
            tasks.ready.close()
        };
        // Nothing was done with them, so their rows say what the next process has to do.
        left.for_each(|run| self.watchers().tell(run, &RunEvent::Parked));
        let all_ended = async {
            loop {
                let idle = self.tasks().ended.notified();
                if self.tasks().lock().live.is_empty() {
                    return;
                }
                idle.await;
            }
        };
        if tokio::time::timeout(self.settings().stop_grace + STOPPING, all_ended).await.is_err() {
            tracing::warn!(
                runs = self.live_runs(),
                "runs did not come to rest in time; they go on with the next start"
            );
        }
    }

    /// Stops one run where it is. `false` where nothing of it is live.
    #[must_use]
    pub fn stop_run(&self, run: RunKey) -> bool {
        {
            let mut tasks = self.tasks().lock();
            if let Some(sender) = tasks.live.get(&run) {
                return sender.send(Message::Stop).is_ok();
            }
            if tasks.ready.leave(run).is_none() {
                return false;
            }
        }
        self.watchers().tell(run, &RunEvent::Parked);
        true
    }

    /// Whether the engine stops: what is asked of it is not done any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.tasks().lock().closed
    }

    /// Wakes a run: there may be something to do for it.
    pub(crate) fn wake(&self, run: RunKey) {
        self.tell(run, Message::Wake { fresh: false });
    }

    /// Tells a run something. Where it has no task it is given one, which hears this: at once if it is asked something, else when it
    /// has a place among the live ones. Not in an engine that stops.
    pub(crate) fn tell(&self, run: RunKey, message: Message) {
        let task = {
            let mut tasks = self.tasks().lock();
            let message = match tasks.live.get(&run) {
                Some(task) => match task.send(message) {
                    Ok(()) => return,
                    // Its task has ended, and is about to be taken from the list.
                    Err(unsent) => unsent.0,
                },
                None => message,
            };
            if tasks.closed {
                return;
            }
            match Told::of(&message) {
                None => {
                    let waited = tasks.ready.leave(run);
                    let (stood, told) = waited.map_or((None, Told::default()), |(stood, told)| (Some(stood), told));
                    tasks.begin(run, told, Some(message), Place { stood, taken: None })
                }
                Some(told) if tasks.ready.tell(run, told) => return,
                Some(told) => match self.free_place(&tasks, None) {
                    Some(place) => tasks.begin(run, told, None, Place { stood: None, taken: Some(place) }),
                    None => return self.tasks().wait(&mut tasks, run, None, told),
                },
            }
        };
        self.spawn(task);
    }

    /// Begins the run that has waited longest for a place, with this one. `false` where nobody waits.
    pub(crate) fn begin_next(&self, place: OwnedSemaphorePermit) -> bool {
        let task = {
            let mut tasks = self.tasks().lock();
            let Some((run, stood, told)) = tasks.ready.next() else { return false };
            self.counters().queued.add(stood.since.elapsed());
            tasks.begin(run, told, None, Place { stood: None, taken: Some(place) })
        };
        self.spawn(task);
        true
    }

    /// A place for a run that has a task, and may have stood in the queue, if there is one and nobody waits for it.
    pub(crate) fn place_at_once(&self, stood: Option<Stands>) -> Option<OwnedSemaphorePermit> {
        self.free_place(&self.tasks().lock(), stood)
    }

    fn free_place(&self, list: &List, stood: Option<Stands>) -> Option<OwnedSemaphorePermit> {
        if !list.ready.is_empty() {
            return None;
        }
        let place = self.places().clone().try_acquire_owned().ok()?;
        self.counters().queued.add(stood.map_or(Duration::ZERO, |stood| stood.since.elapsed()));
        Some(place)
    }

    fn spawn(&self, task: Task) {
        self.rest().works(self.watchers());
        let engine = self.clone();
        tokio::spawn(async move {
            let (run, own) = (task.run, task.sender.clone());
            let end = supervised(&engine, task).await;
            {
                // A task that left by itself is not in the list any more, and another may have come since.
                let mut tasks = engine.tasks().lock();
                if tasks.live.get(&run).is_some_and(|sender| sender.same_channel(&own)) {
                    tasks.live.remove(&run);
                }
            }
            match end {
                End::Later => engine.arm(real_now_ms().saturating_add(engine.later().stopped(run)), run),
                End::Parked { wake_at_ms: Some(at_ms) } => {
                    engine.later().gone_on(run);
                    engine.arm(at_ms, run);
                }
                End::Parked { wake_at_ms: None } | End::Done => engine.later().gone_on(run),
                End::Waits => {}
            }
            engine.tasks().ended.notify_waiters();
        });
    }

    /// Tells a run something that has a task, or is about to have one. `false` where it has none.
    pub(crate) fn message(&self, run: RunKey, message: Message) -> bool {
        let mut tasks = self.tasks().lock();
        match (tasks.live.get(&run), Told::of(&message)) {
            (Some(sender), _) => sender.send(message).is_ok(),
            (None, Some(told)) => tasks.ready.tell(run, told),
            (None, None) => false,
        }
    }

    /// A run's task is about to end. Under the same lock as [`Engine::tell`], so that no message is lost between them.
    pub(crate) fn leave(&self, run: RunKey, messages: &mut UnboundedReceiver<Message>) -> Result<(), Message> {
        self.left(run, messages).map(drop)
    }

    /// The same for a run that is to be taken up again when it has a place: it waits where it stood, or behind all others.
    pub(crate) fn leave_for_place(
        &self,
        run: RunKey,
        messages: &mut UnboundedReceiver<Message>,
        stood: Option<Stands>,
        told: Told,
    ) -> Result<(), Message> {
        let mut tasks = self.left(run, messages)?;
        self.tasks().wait(&mut tasks, run, stood, told);
        Ok(())
    }

    fn left(&self, run: RunKey, messages: &mut UnboundedReceiver<Message>) -> Result<MutexGuard<'_, List>, Message> {
        let mut tasks = self.tasks().lock();
        match messages.try_recv() {
            Ok(message) => Err(message),
            Err(_) => {
                tasks.live.remove(&run);
                Ok(tasks)
            }
        }
    }
}

/// Drives a run; a fault of this program's own sets the run aside, visibly, and takes nothing else with it.
async fn supervised(engine: &Engine, task: Task) -> End {
    let (driven, run) = (engine.clone(), task.run);
    let driving = tokio::spawn(async move {
        let long = driven.clone();
        long.long().carry(async move { drive(&driven, task).await }).await
    });
    match driving.await {
        Ok(end) => end,
        Err(error) => {
            let error = Error::new(Code::Internal, format!("a fault of Stepwell's own stopped the run: {error}"));
            tracing::error!(run, %error, "the run is set aside");
            set_aside(engine, run, &error).await;
            End::Done
        }
    }
}
