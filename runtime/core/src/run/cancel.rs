//! Cancelling: the workflow is told, its open operations fail in order, and cleaning up may begin new ones.

use super::attempt::{Closing, Why};
use super::machine::{Machine, Mode};
use crate::contract::Operation;
use crate::error::{Code, Error};
use crate::journal::entry::Record;

impl Machine {
    /// The run is to be cancelled. While it replays, this waits; a second time changes nothing.
    pub(super) fn cancel(&mut self, error: Error, now_ms: u64, random: u64) {
        if self.state.cancel.is_some() || self.ending.is_some() || self.mode == Mode::Verify {
            return;
        }
        if !self.guest.live {
            self.cancel_wanted.get_or_insert(error);
            return;
        }
        self.record(now_ms, Record::CancelRequested { error: error.clone() });
        let open: Vec<Operation> = self.live.keys().copied().collect();
        for op in open {
            let closing = Closing { error: error.clone(), why: Why::Closed };
            self.close_attempt(op, closing, now_ms, random);
        }
    }

    /// The run has been open for as long as it may be.
    pub(super) fn run_timed_out(&mut self, now_ms: u64, random: u64) {
        let text = "the run was open for as long as its time-out allows, and was cancelled";
        self.cancel(Error::new(Code::RunTimeout, text).never_retried(), now_ms, random);
    }
}
