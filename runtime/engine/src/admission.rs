//! Runs that wait to begin, in the engine: whoever the store lets begin is told so, and the store is asked again when time alone makes
//! room. Which run that is the store decides, with the write that made the room; nothing is counted here.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use stepwell_core::ids::RunId;
use stepwell_core::policy::admission::Wait;
use stepwell_store::{Action, Begins, InQueue, RunKey, Submission, Turn};

use crate::clock::real_now_ms;
use crate::driver::Message;
use crate::engine::Engine;
use crate::watch::RunEvent;

/// A store that cannot be asked is asked again after this, in ms.
const AGAIN_MS: u64 = 1_000;
/// The longest rest: a clock that is set forward is noticed within it.
const LONGEST_REST: Duration = Duration::from_secs(60);

/// Whom an engine lets begin.
#[derive(Default)]
pub(crate) struct Admission {
    /// All runs are this process's to drive.
    all: AtomicBool,
    /// Where they are not: those that are.
    own: Mutex<HashSet<RunKey>>,
}

impl Admission {
    fn takes(&self, run: RunKey) -> bool {
        self.all.load(Ordering::Relaxed) || self.own.lock().unwrap_or_else(PoisonError::into_inner).remove(&run)
    }
}

/// What a run waits for that may not begin yet, in words.
#[must_use]
pub fn wait_text(wait: Option<Wait>) -> String {
    let runs = |n: u32| if n == 1 { "1 run".to_owned() } else { format!("{n} runs") };
    match wait {
        None => "its turn to begin".to_owned(),
        Some(Wait::Runs(0)) => "a place: its workflow is limited to 0 runs".to_owned(),
        Some(Wait::Runs(n)) => format!("a place: its workflow is limited to {} at a time", runs(n)),
        Some(Wait::PerKey(n)) => {
            format!("a place: its workflow is limited to {} at a time with the same concurrency key", runs(n))
        }
        Some(Wait::Rate { .. }) => "its workflow's rate to let it begin".to_owned(),
        Some(Wait::KeyRate { .. }) => "the rate of its concurrency key to let it begin".to_owned(),
    }
}

/// Where a run is among those that wait, in words. `above` has started it, and has one of the places that it waits for.
#[must_use]
pub fn queue_text(found: &InQueue, above: Option<&RunId>) -> String {
    let above = above.map_or_else(String::new, |above| format!("; run {above}, which started it, has one"));
    let or_later = if found.place >= found.counted_to { " or later" } else { "" };
    format!("{}{above}; it is number {}{or_later} in line", wait_text(found.wait), found.place)
}

/// Starts the task that listens. It ends with the store.
pub(crate) fn start(engine: &Engine) {
    let mut heard = engine.store().begins();
    let weak = engine.downgrade();
    tokio::spawn(async move {
        let mut later: HashMap<String, u64> = HashMap::new();
        loop {
            let next = later.values().min().copied();
            let rest = next.map_or(LONGEST_REST, |at_ms| Duration::from_millis(at_ms.saturating_sub(real_now_ms())));
            let begins = tokio::select! {
                begins = heard.recv() => match begins {
                    Some(begins) => Some(begins),
                    None => return,
                },
                () = tokio::time::sleep(rest.min(LONGEST_REST)) => None,
            };
            // Not held while this rests: whoever drops the engine closes the database with it.
            let Some(engine) = weak.upgrade() else { return };
            match begins {
                Some(Begins::Run(run)) => engine.admitted(run),
                Some(Begins::Later(workflow, at_ms)) => {
                    later.entry(workflow).and_modify(|before| *before = at_ms.min(*before)).or_insert(at_ms);
                }
                Some(Begins::More(workflow)) => {
                    later.insert(workflow, 0);
                }
                None => {}
            }
            let now_ms = real_now_ms();
            let due: Vec<String> =
                later.iter().filter(|(_, at_ms)| **at_ms <= now_ms).map(|(workflow, _)| workflow.clone()).collect();
            for workflow in due {
                later.remove(&workflow);
                if !engine.admit(Some(workflow.clone())).await {
                    later.insert(workflow, now_ms.saturating_add(AGAIN_MS));
                }
            }
        }
    });
}

impl Engine {
    /// All runs are to be driven here: whoever waited when the last process ended is looked at.
    pub(crate) fn admit_all(&self) {
        self.admission().all.store(true, Ordering::Relaxed);
        let engine = self.clone();
        tokio::spawn(async move {
            while !engine.admit(None).await && !engine.is_closed() {
                tokio::time::sleep(Duration::from_millis(AGAIN_MS)).await;
            }
        });
    }

    /// Asks the store to let those begin that may now. `false` where it cannot be asked.
    async fn admit(&self, workflow: Option<String>) -> bool {
        let actions = vec![Action::Admit { workflow, at_ms: real_now_ms() }];
        match self.store().submit(Submission { actions, answer: None }).await {
            Ok(_) => true,
            Err(error) => {
                tracing::warn!(%error, "whether waiting runs may begin could not be looked at; it is in a moment");
                false
            }
        }
    }

    fn admitted(&self, run: RunKey) {
        if self.admission().takes(run) {
            self.tell(run, Message::Admitted);
        }
    }

    /// The run is this process's to drive, and waits for its turn.
    pub(crate) fn expects(&self, run: RunKey) {
        let admission = self.admission();
        if admission.all.load(Ordering::Relaxed) {
            return;
        }
        admission.own.lock().unwrap_or_else(PoisonError::into_inner).insert(run);
        // Room that was made by time alone has been told to nobody.
        let engine = self.clone();
        tokio::spawn(async move {
            engine.admit(None).await;
        });
    }

    /// Lets a run that was just written down begin; one that has no place yet does when it has one.
    pub(crate) fn begin(&self, run: RunKey) {
        match self.store().read().turn(run) {
            Ok(Some(Turn::Waits)) => {
                self.expects(run);
                self.tell_waits(run);
                let row = self.store().read().run_by_number(run);
                if let Some(at_ms) = row.ok().flatten().and_then(|row| row.wake_at_ms) {
                    self.arm(at_ms, run);
                }
            }
            // Its own task finds out what is wrong with the store.
            Ok(_) | Err(_) => self.tell(run, Message::Wake { fresh: true }),
        }
    }

    /// Tells the run's watchers what it waits for.
    pub(crate) fn tell_waits(&self, run: RunKey) {
        match self.store().read().in_queue(run, real_now_ms()) {
            Ok(Some(found)) => {
                let (what, until_ms) = (wait_text(found.wait), found.wait.and_then(Wait::until_ms));
                self.watchers().tell(run, &RunEvent::Waiting { what, until_ms });
            }
            Ok(None) => {}
            Err(error) => tracing::warn!(run, %error, "what the run waits for cannot be told"),
        }
    }
}
