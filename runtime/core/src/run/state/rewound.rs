//! A failed run that is taken up again, in the fold: from which point on it is lived through anew, and what stays of what was.
//!
//! Entries stay; what is void is out of the script that replay follows. Nothing that was sent is forgotten by this.

use super::{Again, ItemKind, OpKind, Phase, Ready, State, Step};
use crate::contract::Operation;
use crate::fault::{Fault, planted};
use crate::journal::entry::RunOutcome;

impl State {
    /// Commands and deliveries from entry `to` on are void.
    pub(in crate::run) fn rewound(&mut self, to: u64, at_ms: u64) -> Result<(), String> {
        if !matches!(self.ended, Some((RunOutcome::Failed(_), _))) {
            return Err("the run has not failed".to_owned());
        }
        self.ended = None;
        // The time-out is of the run's being open, which it was not meanwhile.
        let rested_ms = at_ms.saturating_sub(self.at_ms);
        if let Some(deadline_ms) = &mut self.started.deadline_ms {
            *deadline_ms = deadline_ms.saturating_add(rested_ms);
        }
        self.taken_back(to);
        Ok(())
    }

    /// What is void is out of the script, and what is open goes on.
    pub(super) fn taken_back(&mut self, to: u64) {
        self.cut(to);
        let again = self.reopen();
        self.rearm();
        // In the order in which they came.
        let mut told: Vec<(Option<u64>, Operation)> = (0..)
            .zip(&self.ops)
            .filter(|(_, op)| op.is_open() && op.outcome.is_some())
            .map(|(op, state)| (state.settled_at, op))
            .collect();
        told.sort_unstable();
        self.ready = told.into_iter().map(|(_, op)| Ready::Deliver(op)).collect();
        self.hand_out_all();
        if self.cancel.is_some() && !self.cancel_told() {
            self.cancelled_ops = usize::MAX;
            self.ready.push_front(Ready::Cancel);
        }
        self.ready.extend(again.into_iter().map(Ready::Attempt));
    }

    /// Takes what is void out of the script.
    fn cut(&mut self, to: u64) {
        let from = self.script.partition_point(|item| item.seq < to);
        for item in self.script.split_off(from) {
            match item.kind {
                ItemKind::Begin(op) => self.make_void(op),
                ItemKind::Deliver(op) if !self.ops[op as usize].void => self.ops[op as usize].delivered = false,
                ItemKind::Close(op) if !self.ops[op as usize].void => self.ops[op as usize].closed = false,
                ItemKind::Deliver(_) | ItemKind::Close(_) => {}
                ItemKind::Cancel => self.undo_cancel(),
                ItemKind::Continue => self.continued = None,
            }
        }
        self.lives_by_itself();
    }

    fn make_void(&mut self, op: Operation) {
        let state = &mut self.ops[op as usize];
        (state.void, state.closed, state.again) = (true, true, Again::No);
        match &mut state.kind {
            OpKind::Step(step) => {
                let id = step.begun.step.clone();
                if let Some(count) = self.names.get_mut(&id.name) {
                    *count -= 1;
                }
                self.void_steps.insert(id, op);
            }
            // It goes back to its place in line, told or not.
            OpKind::Wait { event, .. } => {
                if let Some(event) = event.take()
                    && !planted(Fault::EventVoidWithItsWait)
                {
                    let at = self.kept.partition_point(|kept| kept.id < event.id);
                    self.kept.insert(at, event);
                }
            }
            // What was done stays done, and what comes of it is for nobody.
            OpKind::Sleep { .. } | OpKind::Send { .. } | OpKind::Child(_) => {}
        }
    }

    /// What failed by a cancel that is told anew has not failed yet. A result that a person has found out since stays.
    fn undo_cancel(&mut self) {
        for op in self.ops.iter_mut().filter(|op| op.cancelled) {
            op.cancelled = false;
            if matches!(op.outcome, Some(Err(_))) {
                (op.outcome, op.settled_at) = (None, None);
            }
        }
    }

    pub(super) fn cancel_told(&self) -> bool {
        self.script.iter().any(|item| item.kind == ItemKind::Cancel)
    }

    /// Steps that are open and have no result are attempted again, unless it is not known what they did (after a copy too), or the
    /// workflow was told to cancel after it had begun them; an event that a wait has given back is another's. So are children begun
    /// again, that had no result or get none since the run's end has asked them to cancel.
    fn reopen(&mut self) -> Vec<Operation> {
        let mut again = Vec::new();
        let cancelled = if self.cancel_told() { self.cancelled_ops } else { 0 };
        let (in_doubt, asked) = (self.in_doubt, self.cancel.is_some());
        for (op, state) in (0..).zip(&mut self.ops).filter(|(_, state)| state.is_open()) {
            let has_result = matches!(state.outcome, Some(Ok(_)));
            match &mut state.kind {
                OpKind::Step(_) if (op as usize) < cancelled => {}
                OpKind::Step(step) if !has_result && (step.phase != Phase::Unknown || step.abandoned) => {
                    step.phase = Phase::Ready;
                    step.abandoned = false;
                    step.doubted = false;
                    step.held = None;
                    step.failures = 0;
                    step.alone = false;
                    if planted(Fault::RetryKeepsFailure) && state.outcome.is_some() {
                        continue;
                    }
                    (state.outcome, state.settled_at) = (None, None);
                    if !(in_doubt && step.hold_if_not_cleared()) {
                        again.push(op);
                    }
                }
                OpKind::Child(_) if asked || has_result => {}
                OpKind::Child(_) if state.outcome.is_some() => {
                    (state.outcome, state.settled_at, state.again) = (None, None, Again::Now);
                }
                // A reply is under way that says no more than that the child was started, or it goes on by itself.
                OpKind::Child(child) if !child.detached && !child.abandoned => state.again = Again::IfFailed,
                OpKind::Wait { event: None, .. } if has_result => (state.outcome, state.settled_at) = (None, None),
                _ => {}
            }
        }
        again
    }

    /// Sleeps and waits that are open go on to their time.
    fn rearm(&mut self) {
        self.open_waits.clear();
        for (op, state) in (0..).zip(&self.ops).filter(|(_, state)| state.is_open() && state.outcome.is_none()) {
            if let (OpKind::Sleep { .. } | OpKind::Wait { .. }, Some(due_ms)) = (&state.kind, state.due_ms()) {
                self.timers.insert((due_ms, op));
            }
            if let OpKind::Wait { name, .. } = &state.kind {
                self.open_waits.entry(name.clone()).or_default().insert(op);
            }
        }
    }

    fn hand_out_all(&mut self) {
        let names: Vec<String> = self.open_waits.keys().cloned().collect();
        names.iter().for_each(|name| self.hand_out(name));
    }

    /// A step that begins, with what was done for one of its id that is void: its numbers go on, and what was sent stays known.
    pub(super) fn begun_again(&mut self, mut step: Step) -> Step {
        let Some(op) = self.void_steps.remove(&step.begun.step) else { return step };
        if let OpKind::Step(void) = &mut self.ops[op as usize].kind {
            (step.attempts, step.tried) = (void.attempts, void.tried);
            void.phase = Phase::Done;
            let effects = std::mem::take(&mut void.effects);
            if !planted(Fault::VoidStepForgotten) {
                step.effects = effects;
            }
        }
        step
    }
}
