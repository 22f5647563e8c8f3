//! Terminating: the run ends at once, whatever it is doing and whether its code still replays or not. Its requests are torn down;
//! what may have happened stays unknown, and listed.

use super::ask::{Granted, Refusal, bounded_name};
use super::attempt::{Closing, Why};
use super::machine::{Machine, Mode};
use crate::contract::Operation;
use crate::error::{Code, Error};
use crate::fault::{Fault, planted};
use crate::journal::entry::{Record, RunOutcome};

impl Machine {
    /// Ends the run. It is over when its requests are settled, which they are soon, since they are torn down.
    ///
    /// # Errors
    /// When it has ended.
    pub fn terminate(&mut self, reason: Error, by: &str, now_ms: u64, random: u64) -> Result<Granted, Refusal> {
        self.not_over()?;
        if self.state.terminate.is_some() {
            return Ok(Granted::Already);
        }
        self.record(now_ms, Record::TerminateRequested { error: reason.bounded(), by: bounded_name(by) });
        self.end_terminated(now_ms, random);
        Ok(Granted::Now)
    }

    /// Whether the run was asked to end at once: nothing that its guest still does counts.
    #[must_use]
    pub fn is_terminating(&self) -> bool {
        self.mode == Mode::Continue && self.state.terminate.is_some() && self.state.ended.is_none()
    }

    /// Closes what is under way, and ends the run once nothing is. Also what is left to do of it after a restart.
    pub(super) fn end_terminated(&mut self, now_ms: u64, random: u64) {
        let Some(error) = self.state.terminate.clone() else { return };
        self.told.clear();
        // Lost ones first: the run's end follows upon the last one that is closed.
        self.end_lost_attempts(now_ms, random);
        self.ending = Some((RunOutcome::Terminated(error), false));
        if !planted(Fault::TerminateLetsRun) {
            let open: Vec<Operation> = self.live.keys().copied().collect();
            for op in open {
                let error = self.gave_up_error();
                self.close_attempt(op, Closing { error, why: Why::Terminated }, now_ms, random);
            }
        }
        self.end_if_nothing_open(now_ms);
    }

    /// What attempts end with that were open when the run was terminated.
    pub(super) fn gave_up_error(&self) -> Error {
        Error::new(Code::Terminated, "the run was terminated before this attempt ended").never_retried()
    }
}
