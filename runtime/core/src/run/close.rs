//! `close`: workflow code loses interest in an open operation, as a race does in its losers.

use super::attempt::{Closing, Why};
use super::machine::Machine;
use super::replay::Came;
use super::state::Again;
use crate::contract::Operation;
use crate::error::{Code, Error};
use crate::fault::{Fault, planted};
use crate::journal::entry::Record;

impl Machine {
    /// Closes an operation. What is over already, or closed, stays as it is.
    ///
    /// # Errors
    /// Refused in a body's turn, and for a number that the run has not given.
    pub fn close(&mut self, op: Operation, now_ms: u64, random: u64) -> Result<(), Error> {
        if self.in_body() {
            let text = format!("operation {op} cannot be closed inside a step's body");
            return Err(Error::new(Code::OperationInsideStep, text).never_retried());
        }
        if self.is_terminating() {
            return Err(self.gave_up_error());
        }
        // The journal may have operations that this instance, on its way through it, has not begun yet.
        if op >= self.guest.next_op || self.state.ops[op as usize].void {
            let text = format!("operation {op} cannot be closed: the run has no operation of that number");
            return Err(Error::new(Code::UnknownOperation, text).never_retried());
        }
        // What the guest has heard of is over for it. Before the frontier the journal knows; the operation itself may be further.
        if self.at_frontier() && !self.state.ops[op as usize].is_open()
            || !self.at_frontier() && self.guest.over.contains(&op)
        {
            return Ok(());
        }
        if self.replayed(Came::Close(op))?.is_none() {
            // Before it is begun again there is none.
            let child = self.is_awaited_child(op) && self.state.ops[op as usize].again != Again::Now;
            self.record(now_ms, Record::Closed { op });
            self.guest.cursor = self.state.script.len();
            if child && !planted(Fault::CloseLeavesChild) {
                self.cancel_child(op);
            }
            if self.live.contains_key(&op) {
                let error = Error::new(Code::Cancelled, "the workflow closed this step").never_retried();
                self.close_attempt(op, Closing { error, why: Why::Closed }, now_ms, random);
            }
        }
        self.guest.open = self.guest.open.saturating_sub(1);
        Ok(())
    }
}
