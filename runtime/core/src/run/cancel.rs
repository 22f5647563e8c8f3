//! Cancelling: the workflow is told, its open operations fail in order, and cleaning up may begin new ones.

use super::ask::{Granted, Refusal, bounded_name};
use super::attempt::{Closing, Why};
use super::machine::Machine;
use crate::contract::Operation;
use crate::error::{Code, Error};
use crate::fault::{Fault, planted};
use crate::journal::entry::{Record, RunOutcome};

impl Machine {
    /// Asks the run to cancel. This is recorded at once, also while the guest replays or the run is paused; the workflow is told when
    /// it is next quiet. A run none of whose code has run is over by this.
    ///
    /// # Errors
    /// When it has ended, or its end is decided.
    pub fn cancel(&mut self, reason: Error, by: &str, now_ms: u64, random: u64) -> Result<Granted, Refusal> {
        self.not_ending()?;
        if self.state.cancel.is_some() {
            return Ok(Granted::Already);
        }
        if planted(Fault::CancelInMemory) && !self.guest.live {
            return Ok(Granted::Now);
        }
        self.request_cancel(reason.bounded(), Some(bounded_name(by)), now_ms, random);
        Ok(if self.state.paused.is_some() { Granted::OnResume } else { Granted::Now })
    }

    /// Whether the run was asked to cancel.
    #[must_use]
    pub fn is_cancel_asked(&self) -> bool {
        self.state.cancel.is_some()
    }

    fn request_cancel(&mut self, error: Error, by: Option<String>, now_ms: u64, random: u64) {
        let untouched = !self.begun && self.state.script.is_empty();
        self.record(now_ms, Record::CancelRequested { error: error.clone(), by });
        if untouched {
            self.end(RunOutcome::Cancelled(error), false, now_ms, random);
            return;
        }
        let open: Vec<Operation> = self.live.keys().copied().collect();
        for op in open {
            let closing = Closing { error: error.clone(), why: Why::Closed };
            self.close_attempt(op, closing, now_ms, random);
        }
    }

    /// The run has been open for as long as it may be.
    pub(super) fn run_timed_out(&mut self, now_ms: u64, random: u64) {
        if self.state.cancel.is_some() {
            return;
        }
        let text = "the run was open for as long as its time-out allows, and was cancelled";
        self.request_cancel(Error::new(Code::RunTimeout, text).never_retried(), None, now_ms, random);
    }
}
