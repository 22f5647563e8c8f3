//! What must hold of operations on other runs: each is done by the commit that has it, once, and what became of it is told.

use stepwell_core::contract::Operation;
use stepwell_core::journal::entry::Reply;
use stepwell_core::run::Errand;

use super::{Kind, Ledger};

impl Ledger {
    /// Operations that are done by their commit, and whose reply has not arrived.
    pub(super) fn without_reply(&self) -> impl Iterator<Item = Operation> {
        let waits = |kind: &Kind| matches!(kind, Kind::Send { replied: false });
        (0..).zip(&self.ops).filter(move |(_, op)| waits(&op.kind)).map(|(at, _)| at)
    }

    pub(super) fn replied(&mut self, id: u64, op: Operation, reply: &Reply) -> Result<(), String> {
        if id <= self.last_event {
            return Err(format!("reply {id} arrives after event {}", self.last_event));
        }
        self.last_event = id;
        let state = self.op(op)?;
        match &mut state.kind {
            Kind::Send { replied: replied @ false } => *replied = true,
            _ => return Err(format!("operation {op} is replied to, and does not wait for that")),
        }
        if !state.closed && state.outcome.is_none() {
            state.outcome = Some(match reply {
                Reply::Succeeded(value) => Ok(value.clone()),
                Reply::Failed(error) => Err(error.clone()),
            });
        }
        Ok(())
    }

    /// Something is to be done on another run: the entry that says so was the last one.
    ///
    /// # Errors
    /// If it was not.
    pub fn errand(&self, errand: &Errand) -> Result<(), String> {
        let Errand::Send { op, .. } = errand else { return Err(format!("nobody knows of {errand:?}")) };
        let last = self.ops.len().checked_sub(1) == Some(*op as usize);
        let sends = matches!(self.ops.last().map(|op| &op.kind), Some(Kind::Send { replied: false }));
        if last && sends { Ok(()) } else { Err(format!("this is done, and the journal does not say so: {errand:?}")) }
    }
}
