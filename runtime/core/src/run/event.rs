//! `wait-event`, and the events that come: each is for the oldest wait of its name, or kept until there is one.

use super::machine::{Machine, Mode};
use super::replay::Came;
use super::state::{OpKind, State};
use super::step::check_name;
use crate::contract::Operation;
use crate::error::{Code, Error};
use crate::journal::entry::Record;
use crate::json::Json;
use crate::limits;

impl Machine {
    /// Begins to wait for an event.
    ///
    /// # Errors
    /// Refused in a body's turn, with a name or time-out out of range, or with too many operations open.
    pub fn wait_event(&mut self, name: &str, timeout_ms: Option<u64>, now_ms: u64) -> Result<Operation, Error> {
        self.may_begin("a wait", name)?;
        check_name("event", name)?;
        if timeout_ms.is_some_and(|ms| ms > limits::MAX_SLEEP_MS) {
            let text = format!("the wait for {name:?} is too long: at most {} ms (10 years)", limits::MAX_SLEEP_MS);
            return Err(Error::new(Code::InvalidArgument, text).never_retried());
        }
        if let Some(op) = self.replayed(Came::Wait(name))? {
            self.guest.count_begun(op);
            return Ok(op);
        }
        let op = self.state.ops.len() as Operation;
        let due_ms = timeout_ms.map(|ms| now_ms.max(self.state.at_ms).saturating_add(ms));
        self.begun(now_ms, op, Record::WaitBegun { op, name: name.to_owned(), due_ms });
        Ok(op)
    }

    /// An event came. Numbers only grow, so one that is in the journal already is passed over.
    pub(super) fn event(&mut self, id: u64, name: String, payload: Json, now_ms: u64) {
        if id > self.state.last_event && self.mode == Mode::Continue {
            self.record(now_ms, Record::EventArrived { id, name, payload });
        }
    }
}

impl State {
    /// What a wait fails with that was not answered in time.
    pub(super) fn wait_timeout(&mut self, op: Operation) -> Result<Error, String> {
        match &self.op(op)?.kind {
            OpKind::Wait { name, .. } => {
                Ok(Error::new(Code::WaitTimeout, format!("event {name:?} did not come in time")).never_retried())
            }
            _ => Err(format!("operation {op} is no wait")),
        }
    }
}
