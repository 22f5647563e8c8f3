//! `sleep`: workflow code waits for a time to pass. It costs a row, however long it is.

use super::machine::Machine;
use super::replay::Came;
use crate::contract::Operation;
use crate::error::{Code, Error};
use crate::journal::entry::Record;
use crate::limits;

impl Machine {
    /// Begins a sleep of `ms` milliseconds from recorded time.
    ///
    /// # Errors
    /// Refused in a body's turn, beyond ten years, or with too many operations open.
    pub fn sleep(&mut self, ms: u64, now_ms: u64) -> Result<Operation, Error> {
        self.may_begin("a sleep", &format!("{ms} ms"))?;
        if ms > limits::MAX_SLEEP_MS {
            let text = format!("a sleep of {ms} ms is too long: at most {} ms (10 years)", limits::MAX_SLEEP_MS);
            return Err(Error::new(Code::InvalidArgument, text).never_retried());
        }
        if let Some(op) = self.replayed(Came::Sleep)? {
            self.guest.count_begun(op);
            return Ok(op);
        }
        let op = self.state.ops.len() as Operation;
        // From recorded time, so that it is never short by the journal's own clock where the host's was set back.
        let due_ms = now_ms.max(self.state.at_ms).saturating_add(ms);
        self.begun(now_ms, op, Record::SleepBegun { op, ms, due_ms });
        Ok(op)
    }
}
