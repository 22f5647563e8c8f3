//! The tasks of live runs: one for each, found by the run, given to whoever is told something, and stopped with the engine.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use stepwell_core::error::{Code, Error};
use stepwell_store::RunKey;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::clock::real_now_ms;
use crate::drive::{Task, drive, set_aside};
use crate::driver::{End, Message};
use crate::engine::Engine;

/// Of one engine.
#[derive(Default)]
pub(crate) struct Tasks {
    list: Mutex<List>,
    /// One of them has.
    ended: Notify,
}

#[derive(Default)]
struct List {
    live: HashMap<RunKey, UnboundedSender<Message>>,
    /// The engine stops: there is no further task. What is on record is done by the next process.
    closed: bool,
}

impl Tasks {
    fn lock(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Stops every live run where it is, for good: none begins after this. Their requests are waited for, for a while; what is
    /// recorded is durable. Runs that do not come to their end in that time are left to the next process, as after a crash.
    pub async fn stop(&self) {
        {
            let mut tasks = self.tasks().lock();
            tasks.closed = true;
            for sender in tasks.live.values() {
                let _ = sender.send(Message::Stop);
            }
        }
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
        self.message(run, Message::Stop)
    }

    /// Whether the engine stops: what is asked of it is not done any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.tasks().lock().closed
    }

    /// Wakes a run: there may be something to do for it.
    pub(crate) fn wake(&self, run: RunKey) {
        self.tell(run, Message::Wake { fresh: false });
    }

    /// Tells a run something. Where it has no task it is given one, which hears this first; not in an engine that stops.
    pub(crate) fn tell(&self, run: RunKey, message: Message) {
        let (sender, messages) = {
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
            let (sender, messages) = unbounded_channel();
            // The receiver is right here.
            let _ = sender.send(message);
            tasks.live.insert(run, sender.clone());
            (sender, messages)
        };
        let engine = self.clone();
        tokio::spawn(async move {
            let own = sender.clone();
            let end = supervised(&engine, Task { run, sender, messages }).await;
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
            }
            engine.tasks().ended.notify_waiters();
        });
    }

    /// Tells a live run something. `false` where it has no task.
    pub(crate) fn message(&self, run: RunKey, message: Message) -> bool {
        self.tasks().lock().live.get(&run).is_some_and(|sender| sender.send(message).is_ok())
    }

    /// A run's task is about to end. Under the same lock as [`Engine::message`], so that no message is lost between them.
    pub(crate) fn leave(&self, run: RunKey, messages: &mut UnboundedReceiver<Message>) -> Result<(), Message> {
        let mut tasks = self.tasks().lock();
        match messages.try_recv() {
            Ok(message) => Err(message),
            Err(_) => {
                tasks.live.remove(&run);
                Ok(())
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
