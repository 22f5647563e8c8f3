//! `send-event`: workflow code sends an event to another run. It is in that run's inbox by the commit that records it, so it is sent
//! exactly once; whether it could be comes back as a reply.

use super::errand::Errand;
use super::machine::{Machine, Mode, Output};
use super::replay::Came;
use super::step::check_name;
use crate::contract::Operation;
use crate::error::{Code, Error};
use crate::fault::{Fault, planted};
use crate::ids::RunId;
use crate::journal::entry::{Record, Reply};
use crate::json::Json;
use crate::limits;

impl Machine {
    /// Sends an event to the run of that id.
    ///
    /// # Errors
    /// Refused in a body's turn, with an id or name out of range, a payload that is too large, or with too many operations open.
    pub fn send_event(&mut self, to: &str, name: &str, payload: Json, now_ms: u64) -> Result<Operation, Error> {
        self.may_begin("an event to another run", name)?;
        check_name("run", to)?;
        check_name("event", name)?;
        if payload.len() > limits::MAX_VALUE_BYTES {
            let (len, max) = (payload.len(), limits::MAX_VALUE_BYTES);
            let text = format!("the event {name:?} has {len} bytes of JSON; at most {max} can be recorded");
            return Err(Error::new(Code::ResultTooLarge, text).never_retried());
        }
        let to = RunId::new(to);
        if let Some(op) = self.replayed(Came::Send { to: &to, name, payload: &payload })? {
            self.guest.count_begun(op);
            if planted(Fault::SendAgain) {
                self.outputs.push(Output::Errand(Errand::Send { op, to, name: name.to_owned(), payload }));
            }
            return Ok(op);
        }
        let op = self.state.ops.len() as Operation;
        let (name, errand) =
            (name.to_owned(), Errand::Send { op, to: to.clone(), name: name.to_owned(), payload: payload.clone() });
        self.begun(now_ms, op, Record::SendBegun { op, to, name, payload });
        self.outputs.push(Output::Errand(errand));
        Ok(op)
    }

    /// What became of an operation on another run came. Numbers only grow, so what is in the journal already is passed over.
    pub(super) fn reply(&mut self, id: u64, op: Operation, reply: Reply, now_ms: u64) {
        if id > self.state.last_event && self.mode == Mode::Continue {
            let reply = match reply {
                Reply::Failed(error) => Reply::Failed(error.bounded()),
                done @ Reply::Succeeded(_) => done,
            };
            self.record(now_ms, Record::ReplyArrived { id, op, reply });
            self.begin_children_again(now_ms);
        }
    }
}
