//! What a process does with the runs that it finds: those that were under way go on, those that wait are armed.
//!
//! Only small columns are read, and no journal: a run that sleeps costs a place in the set of timers until it is due.

use stepwell_core::error::Error;
use stepwell_store::{InboxKind, RunKey, Status, Unfinished};

use crate::clock::real_now_ms;
use crate::effects::store_error;
use crate::engine::Engine;
use crate::fault::{Fault, planted};

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
            if self.goes_on(run, now_ms) {
                self.wake(run.key);
            } else if let (Status::Waiting | Status::Queued | Status::Blocked, Some(at_ms)) =
                (run.status, run.wake_at_ms)
            {
                if run.status != Status::Waiting || !planted(Fault::ForgetTimers) {
                    self.arm(at_ms, run.key);
                }
            }
        }
        Ok(())
    }

    fn goes_on(&self, run: &Unfinished, now_ms: u64) -> bool {
        match run.status {
            Status::Running => !planted(Fault::ForgetRunning),
            Status::Queued if run.wake_at_ms.is_some_and(|at_ms| at_ms > now_ms) => {
                // Events do not make it begin earlier; a request to cancel ends it.
                run.unseen && self.is_to_cancel(run.key)
            }
            Status::Queued => true,
            Status::Waiting => run.unseen,
            // What is blocked or set aside waits for a person; but a person may have spoken.
            _ => run.unseen && self.is_to_cancel(run.key),
        }
    }

    fn is_to_cancel(&self, run: RunKey) -> bool {
        let inbox = self.store().read().inbox(run, 0);
        inbox.is_ok_and(|events| events.iter().any(|event| event.kind == InboxKind::Cancel))
    }
}
