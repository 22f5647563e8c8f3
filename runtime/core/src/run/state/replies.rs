//! Replies in the fold: what became of operations on other runs.

use super::{OpKind, State};
use crate::contract::Operation;
use crate::fault::{Fault, planted};
use crate::journal::entry::Reply;

impl State {
    /// The operation is over by it, unless the workflow closed it or a cancel failed it before.
    pub(super) fn reply_arrived(&mut self, id: u64, op: Operation, reply: &Reply) -> Result<(), String> {
        if !matches!(self.op(op)?.kind, OpKind::Send { .. } | OpKind::Child(_)) {
            return Err(format!("operation {op} is on no other run"));
        }
        self.last_event = id;
        self.errands.remove(&op);
        let outcome = match reply {
            Reply::Succeeded(value) => Ok(value.clone()),
            Reply::Failed(error) => Err(error.clone()),
        };
        if planted(Fault::DropReply) { Ok(()) } else { self.settle(op, outcome) }
    }
}
