//! What a process does with the runs that it finds: those that were under way go on, those that wait are armed.
//!
//! Only small columns are read, and no journal: a run that sleeps costs a place in the set of timers until it is due.

use stepwell_core::error::Error;
use stepwell_store::{RunFilter, Status, Turn, Unfinished};

use crate::clock::real_now_ms;
use crate::driver::Message;
use crate::effects::store_error;
use crate::engine::Engine;
use crate::fault::{Fault, planted};
use crate::start::RunRef;

impl Engine {
    /// Takes up every run that was under way when its process ended, and arms the timers of those that wait. What came for a run
    /// while nobody drove it, or was not seen by it, wakes it.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn recover(&self) -> Result<(), Error> {
        let (runs, unreadable) = self.store().read().unfinished().map_err(|error| store_error(&error))?;
        for run in &unreadable {
            tracing::error!(run = run.key, reason = run.reason, "a run cannot be read and is set aside");
        }
        let now_ms = real_now_ms();
        for run in &runs {
            if run.cancel {
                self.tell(run.key, Message::ParentGone);
            }
            if goes_on(run, now_ms) {
                self.wake(run.key);
            } else if let (Status::Waiting | Status::Queued | Status::Blocked, Some(at_ms)) =
                (run.status, run.wake_at_ms)
                && (run.status != Status::Waiting || !planted(Fault::ForgetTimers))
            {
                self.arm(at_ms, run.key);
            }
        }
        if !planted(Fault::ForgetTheLine) {
            self.admit_all();
        }
        Ok(())
    }

    /// The same for the open runs below one: for a process that drives that one alone. A run that waits is woken to see what for.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn recover_children(&self, run: &RunRef) -> Result<(), Error> {
        let mut above = vec![run.id.clone()];
        while let Some(parent) = above.pop() {
            let filter = RunFilter { parent: Some(parent), open: true, limit: u32::MAX, ..RunFilter::default() };
            for child in self.store().read().runs(&filter).map_err(|error| store_error(&error))?.runs {
                if child.links.cancel {
                    self.tell(child.key, Message::ParentGone);
                }
                if child.turn == Some(Turn::Waits) {
                    self.expects(child.key);
                }
                match (child.status, child.wake_at_ms) {
                    (Status::Running | Status::Waiting, _) | (Status::Queued, None) => self.wake(child.key),
                    (Status::Queued | Status::Blocked, Some(at_ms)) => self.arm(at_ms, child.key),
                    _ => {}
                }
                above.push(child.run);
            }
        }
        Ok(())
    }
}

fn goes_on(run: &Unfinished, now_ms: u64) -> bool {
    match run.status {
        Status::Running => !planted(Fault::ForgetRunning),
        // Events do not make it begin earlier.
        Status::Queued if run.turn == Some(Turn::Holds) => !planted(Fault::ForgetAdmitted),
        // It is told when it may begin.
        Status::Queued if run.turn == Some(Turn::Waits) => false,
        Status::Queued => run.wake_at_ms.is_none_or(|at_ms| at_ms <= now_ms),
        Status::Waiting => run.unseen,
        // What is blocked or set aside waits for a person, and what a person has asked is on record: it is queued.
        _ => false,
    }
}
