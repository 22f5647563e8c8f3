//! Epochs in the fold: what a restored database makes of a run.
//!
//! Whatever the run did after the copy was made is not in its journal. So every step that must not happen twice is unknown which may
//! have been attempted then: those that were not over, and those that begin from now on, since the run may have come as far before.

use super::{Held, Op, Phase, Ready, State, Step};
use crate::contract::{EffectClass, Operation};
use crate::fault::{Fault, planted};
use crate::journal::entry::{Restored, StepBegun};
use crate::limits;

impl State {
    /// The number of the step's next attempt: in each epoch they begin where none of an earlier one can have come.
    pub(in crate::run) fn next_attempt(&self, step: &Step) -> u32 {
        let epochs = if planted(Fault::SameNumbersAfterRestore) { 0 } else { self.epochs };
        step.attempts.max(epochs.saturating_mul(limits::ATTEMPTS_PER_EPOCH)).saturating_add(1)
    }

    /// A step as it begins, in the present epoch, with what was done for one of its id that is void.
    pub(super) fn step_begun(&mut self, begun: &StepBegun) -> Step {
        let mut step = self.begun_again(Step::new(begun.clone()));
        step.epoch.clone_from(&self.epoch);
        if self.in_doubt && may_harm(&step) && !planted(Fault::TrustNewSteps) {
            step.hold();
        }
        step
    }

    pub(super) fn restored(&mut self, restored: &Restored) {
        self.epoch = Some(restored.epoch.as_str().into());
        self.epochs = self.epochs.saturating_add(1);
        self.in_doubt |= restored.in_doubt;
        if !restored.in_doubt || planted(Fault::TrustOpenSteps) {
            return;
        }
        for op in 0..self.ops.len() as Operation {
            let Ok(step) = self.step_mut(op) else { continue };
            step.cleared = false;
            let trusted = step.phase == Phase::Unknown && planted(Fault::TrustUnknownSteps);
            if may_harm(step) && step.phase != Phase::Done && !trusted {
                self.doubt(op);
            }
        }
    }

    /// What this step did after the copy is not known. That holds of one too that was unknown in the copy: somebody may have had it
    /// attempted again, with effects and under keys that the copy knows nothing of.
    fn doubt(&mut self, op: Operation) {
        let Ok(step) = self.step_mut(op) else { return };
        step.doubted = true;
        match step.phase {
            Phase::Done | Phase::Unknown => return,
            // The attempt that is open is ended as lost, by an entry of its own.
            Phase::Executing { .. } => return step.held = Some(Held::Ready),
            Phase::BackingOff { due_ms } => step.held = Some(Held::Until(due_ms)),
            Phase::Ready => step.held = Some(Held::Ready),
        }
        self.disarm(op);
        self.unready(Ready::Attempt(op));
        if let Ok(step) = self.step_mut(op) {
            step.phase = Phase::Unknown;
        }
    }

    /// What is unknown for no other reason than the doubt is ready again.
    pub(super) fn nothing_followed(&mut self) {
        self.in_doubt = false;
        for op in 0..self.ops.len() as Operation {
            // What the workflow has given up is not attempted again.
            let cancelled = self.cancel.is_some() && (op as usize) < self.cancelled_ops;
            let Op { void, closed, .. } = self.ops[op as usize];
            if cancelled || closed && !void {
                continue;
            }
            let Ok(step) = self.step_mut(op) else { continue };
            if !step.doubted || step.phase != Phase::Unknown {
                continue;
            }
            step.doubted = false;
            let held = step.held.take();
            // It is unknown in the copy itself.
            let Some(held) = held.filter(|_| step.begun.effect != EffectClass::Once || !step.has_unknown()) else {
                continue;
            };
            if void {
                // Nobody attempts it, and nobody can resolve it.
                if !step.has_unknown() {
                    step.phase = Phase::Done;
                }
                continue;
            }
            step.failures = 0;
            match held {
                Held::Until(due_ms) => {
                    step.phase = Phase::BackingOff { due_ms };
                    self.timers.insert((due_ms, op));
                }
                Held::Ready => {
                    step.phase = Phase::Ready;
                    self.ready.push_back(Ready::Attempt(op));
                }
            }
        }
    }
}

impl Step {
    /// It is about to be attempted, and may have been already after the copy from which the run was restored.
    fn hold(&mut self) {
        self.doubted = true;
        self.held = Some(Held::Ready);
        self.phase = Phase::Unknown;
    }

    /// The same, of one that is to be attempted again since its run was taken back, unless a person has said since what became of it.
    pub(super) fn hold_if_not_cleared(&mut self) -> bool {
        let held = may_harm(self) && !self.cleared && !planted(Fault::TrustRewoundSteps);
        if held {
            self.hold();
        }
        held
    }
}

fn may_harm(step: &Step) -> bool {
    step.begun.effect != EffectClass::Repeatable
}
