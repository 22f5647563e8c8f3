//! A rerun, in the fold: from the beginning of a step on a run lives by itself, and not as the run whose journal it goes on from.
//!
//! What was begun before stays what it was, with its results, keys and numbers, and goes on as in a run that is taken back. What was
//! begun since does not exist, nor what earlier retries of the other run have made void.

use super::{Again, ItemKind, OpKind, Phase, State};
use crate::contract::Operation;
use crate::fault::{Fault, planted};
use crate::ids::RunId;
use crate::journal::entry::Reran;

impl State {
    pub(super) fn reran(&mut self, reran: &Reran) {
        // What was asked of the other run was not asked of this one, unless its workflow has been told.
        (self.ended, self.terminate, self.paused) = (None, None, None);
        let told = |item: &super::Item| item.kind == ItemKind::Cancel && item.seq < reran.to;
        if !self.script.iter().any(told) && !planted(Fault::RerunCancelled) {
            (self.cancel, self.cancelled_ops) = (None, 0);
        }
        self.digest.clone_from(&reran.digest);
        self.started.deadline_ms = reran.deadline_ms;
        self.timers.clear();
        self.alone_ready.clear();
        self.errands.clear();
        self.taken_back(reran.to);
        self.forget_void();
        self.begin_open_children_again();
        let turns = self.deliveries();
        if self.lived.last().is_none_or(|(until, _)| *until < turns) && !planted(Fault::RerunSeesItself) {
            self.lived.push((turns, reran.of.clone()));
        }
    }

    /// Nothing that is done from now on goes on from what was done for a step that is void.
    fn forget_void(&mut self) {
        if planted(Fault::RerunGoesOnFromVoid) {
            return;
        }
        self.void_steps.clear();
        for op in self.ops.iter_mut().filter(|op| op.void) {
            if let OpKind::Step(step) = &mut op.kind {
                step.phase = Phase::Done;
                step.effects.clear();
            }
        }
    }

    /// What becomes of a child that the other run has started is told to that one. A child that had no result by then is begun again, as
    /// this run's.
    fn begin_open_children_again(&mut self) {
        let cancelled = if self.cancel_told() { self.cancelled_ops } else { 0 };
        for (op, state) in (0..).zip(&mut self.ops).filter(|(_, state)| state.is_open()) {
            let has_result = matches!(state.outcome, Some(Ok(_)));
            if matches!(state.kind, OpKind::Child(_)) && !has_result && op >= cancelled {
                (state.outcome, state.settled_at, state.again) = (None, None, Again::Now);
            }
        }
        let again = |op: Operation| self.ops[op as usize].again == Again::Now;
        let told = std::mem::take(&mut self.ready);
        self.ready =
            told.into_iter().filter(|ready| !matches!(ready, super::Ready::Deliver(op) if again(*op))).collect();
    }

    /// Whose turn it is that has this number among the deliveries that replay makes.
    pub(in crate::run) fn lives_in(&self, turn: u64) -> &RunId {
        let lived = self.lived.iter().find(|(until, _)| turn <= *until);
        lived.map_or(&self.started.run, |(_, run)| run)
    }

    /// What comes after the script's end is this run's, whoever has lived through it before it was taken back to here.
    pub(super) fn lives_by_itself(&mut self) {
        let turns = self.deliveries();
        if let Some(at) = self.lived.iter().position(|(until, _)| turns <= *until) {
            self.lived.truncate(at + 1);
            self.lived[at].0 = turns;
        }
    }

    fn deliveries(&self) -> u64 {
        let told = |kind| matches!(kind, ItemKind::Deliver(_) | ItemKind::Cancel);
        self.script.iter().filter(|item| told(item.kind)).count() as u64
    }
}
