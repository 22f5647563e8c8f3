//! Replies in the fold: what became of operations on other runs.

use super::{Again, OpKind, State};
use crate::contract::Operation;
use crate::fault::{Fault, planted};
use crate::ids::RunId;
use crate::journal::entry::Reply;

impl State {
    /// The operation is over by it, unless the workflow closed it or a cancel failed it before.
    pub(super) fn reply_arrived(&mut self, id: u64, op: Operation, reply: &Reply) -> Result<(), String> {
        if !matches!(self.op(op)?.kind, OpKind::Send { .. } | OpKind::Child(_)) {
            return Err(format!("operation {op} is on no other run"));
        }
        self.last_event = id;
        self.errands.remove(&op);
        let again = std::mem::replace(&mut self.op(op)?.again, Again::No);
        if again == Again::IfFailed
            && matches!(reply, Reply::Failed(_))
            && self.op(op)?.is_open()
            && self.cancel.is_none()
        {
            self.op(op)?.again = Again::Now;
            return Ok(());
        }
        let outcome = match reply {
            Reply::Succeeded(value) => Ok(value.clone()),
            Reply::Failed(error) => Err(error.clone()),
        };
        if planted(Fault::DropReply) { Ok(()) } else { self.settle(op, outcome) }
    }

    /// The operation is open again, on a child of another id.
    pub(super) fn child_begun_again(&mut self, op: Operation, run: &RunId) -> Result<(), String> {
        let state = self.op(op)?;
        let (again, open) = (std::mem::replace(&mut state.again, Again::No), state.is_open());
        let OpKind::Child(child) = &mut state.kind else { return Err(format!("operation {op} is no child")) };
        if again != Again::Now || !open {
            return Err(format!("the child of operation {op} is not to be begun again"));
        }
        child.run = run.clone();
        if child.detached {
            self.errands.insert(op);
        }
        Ok(())
    }
}
