//! Waits and events in the fold: the oldest event of a name is for the oldest wait of that name.

use super::{Op, OpKind, State};
use crate::contract::Operation;
use crate::fault::{Fault, planted};

impl State {
    pub(super) fn wait_begun(&mut self, op: Operation, name: &str, due_ms: Option<u64>) {
        self.open_waits.entry(name.to_owned()).or_default().insert(op);
        if let Some(due) = due_ms {
            self.timers.insert((due, op));
        }
        self.hand_out(name);
    }

    fn next_wait(&self, name: &str) -> Option<Operation> {
        let waits = self.open_waits.get(name)?;
        if planted(Fault::NewestWaitFirst) { waits.last().copied() } else { waits.first().copied() }
    }

    /// Gives kept events of that name to its waits: the oldest to the oldest.
    pub(super) fn hand_out(&mut self, name: &str) {
        while let Some(op) = self.next_wait(name) {
            let Some(at) = self.kept.iter().position(|kept| kept.name == name) else { return };
            let Some(taken) = self.kept.remove(at) else { return };
            self.disarm(op);
            self.forget_wait(op);
            if let Some(Op { kind: OpKind::Wait { event, .. }, .. }) = self.ops.get_mut(op as usize) {
                *event = Some(taken.clone());
            }
            // It exists: only operations of the run are in `open_waits`.
            let _ = self.settle(op, Ok(taken.payload));
        }
    }

    /// Events that came and that the workflow was not told of, oldest first.
    pub(in crate::run) fn events_left(&self) -> Vec<u64> {
        let given = self.ops.iter().filter(|op| op.is_open()).filter_map(|op| match &op.kind {
            OpKind::Wait { event: Some(event), .. } => Some(event.id),
            _ => None,
        });
        let mut left: Vec<u64> = self.kept.iter().map(|event| event.id).chain(given).collect();
        left.sort_unstable();
        left
    }

    /// Waits whose workflow has not been told of them: only they can be given anything more.
    pub(in crate::run) fn waits_not_told(&self) -> Vec<Operation> {
        let waits = (0..).zip(&self.ops).filter(|(_, op)| matches!(op.kind, OpKind::Wait { .. }) && !op.delivered);
        waits.map(|(op, _)| op).collect()
    }

    /// The number of the event that a wait has.
    pub(in crate::run) fn event_of(&self, op: Operation) -> Option<u64> {
        match &self.ops.get(op as usize)?.kind {
            OpKind::Wait { event, .. } => event.as_ref().map(|event| event.id),
            _ => None,
        }
    }

    pub(super) fn forget_wait(&mut self, op: Operation) {
        if let Some(Op { kind: OpKind::Wait { name, .. }, .. }) = self.ops.get(op as usize)
            && let Some(waits) = self.open_waits.get_mut(name)
        {
            waits.remove(&op);
            if waits.is_empty() {
                self.open_waits.remove(name);
            }
        }
    }
}
