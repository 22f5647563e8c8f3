//! How operations end from outside in the fold: closed by the workflow, or failed by a cancel.

use super::{OpKind, Phase, Ready, State};
use crate::contract::Operation;
use crate::fault::{Fault, planted};
use crate::journal::entry::RunOutcome;

impl State {
    pub(super) fn closed(&mut self, op: Operation) -> Result<(), String> {
        if !self.op(op)?.is_open() {
            return Err(format!("operation {op} is not open"));
        }
        self.unready(Ready::Deliver(op));
        self.unready(Ready::Attempt(op));
        self.forget_wait(op);
        let executing = matches!(self.step(op).map(|step| step.phase), Some(Phase::Executing { .. }));
        if !executing {
            self.disarm(op);
        }
        let state = self.op(op)?;
        state.closed = true;
        match &mut state.kind {
            OpKind::Step(step) if !executing => step.abandon(),
            // An event that was handed out but never told goes back to its place in line.
            OpKind::Wait { name, event, .. } => {
                if let Some(event) = event.take()
                    && !planted(Fault::DropEvent)
                {
                    let name = name.clone();
                    let at = self.kept.partition_point(|kept| kept.id < event.id);
                    self.kept.insert(at, event);
                    self.hand_out(&name);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The run is over: nothing is to be started, told or waited for any more. What may have happened stays unknown.
    pub(super) fn end(&mut self, outcome: &RunOutcome, returned: bool) {
        self.ended = Some((outcome.clone(), returned));
        self.paused = None;
        self.ready.clear();
        self.alone_ready.clear();
        if !planted(Fault::TimerAfterEnd) {
            self.timers.clear();
        }
        for op in &mut self.ops {
            if let OpKind::Step(step) = &mut op.kind
                && matches!(step.phase, Phase::Ready | Phase::BackingOff { .. })
                && !planted(Fault::UnknownForgottenAtEnd)
            {
                step.abandon();
            }
        }
    }

    /// The workflow is told: every operation that is open now fails, in the order of the operations. Results that were there before
    /// come first. No attempt is under way then; see `Machine::next_event`.
    pub(super) fn cancel_delivered(&mut self) {
        let Some(error) = self.cancel.clone() else { return };
        self.cancelled_ops = self.ops.len();
        for op in 0..self.ops.len() as Operation {
            let state = &mut self.ops[op as usize];
            if !state.is_open() || state.outcome.is_some() {
                continue;
            }
            state.cancelled = true;
            let due = state.due_ms();
            let unknown = match &mut state.kind {
                OpKind::Step(step) => {
                    step.abandon();
                    step.phase == Phase::Unknown
                }
                _ => false,
            };
            if let Some(due) = due {
                self.timers.remove(&(due, op));
            }
            self.unready(Ready::Attempt(op));
            self.forget_wait(op);
            if !unknown {
                // It exists: `op` is an index of `ops`.
                let _ = self.settle(op, Err(error.clone()));
            }
        }
        let failed = |ready: &Ready| match ready {
            Ready::Deliver(op) => {
                let by_cancel =
                    matches!(&self.ops[*op as usize].outcome, Some(Err(failure)) if failure.code == error.code);
                by_cancel.then_some(*op)
            }
            _ => None,
        };
        // A stable sort: what is no cancelled operation keeps its place before them.
        self.ready.make_contiguous().sort_by_key(failed);
    }
}
