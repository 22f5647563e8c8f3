//! What must hold of a rerun: what it has of the other run, and that it lives by itself from there.

use std::collections::BTreeSet;

use stepwell_core::contract::Operation;
use stepwell_core::ids::StepId;

use super::{Again, Kind, Ledger};
use crate::step::Known;

/// Where a step begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Its operation.
    pub op: Operation,
    /// The entry by which it was begun.
    pub seq: u64,
}

impl Ledger {
    /// Where the step of that id was begun, unless the run was taken back to before that.
    #[must_use]
    pub fn place_of(&self, id: &StepId) -> Option<Place> {
        let found = (0..).zip(&self.ops).find(|(_, op)| match &op.kind {
            Kind::Step(step) => !op.void && step.begun.step == *id,
            _ => false,
        });
        found.map(|(op, state)| Place { op, seq: state.begun_at })
    }

    /// How many effects of steps that do not exist in a rerun from there were done, or may have been.
    #[must_use]
    pub fn done_since_place(&self, place: &Place) -> usize {
        let gone = self.ops.iter().filter(|op| op.void || op.begun_at >= place.seq);
        let effects = gone.filter_map(|op| match &op.kind {
            Kind::Step(step) => Some(&step.effects),
            _ => None,
        });
        effects.flatten().filter(|effect| effect.known != Known::NotDone).count()
    }

    /// Whether it is not known yet, of something from before there, what became of it on another run.
    #[must_use]
    pub fn has_unheard_before(&self, place: &Place) -> bool {
        self.without_reply().any(|op| op < place.op && !self.ops[op as usize].void)
    }

    /// All keys that something was sent under.
    #[must_use]
    pub fn keys(&self) -> BTreeSet<String> {
        self.steps().flat_map(|step| &step.effects).filter_map(|effect| effect.key().map(str::to_owned)).collect()
    }

    /// Whether this is what a rerun of the other has from the beginning.
    ///
    /// # Errors
    /// What it has otherwise.
    pub fn is_rerun_of(&self, other: &Self, place: &Place) -> Result<(), String> {
        if self.ended() || self.paused || self.terminate.is_some() {
            return Err("a rerun has ended, or is paused".to_owned());
        }
        if self.ops.len() != place.op as usize {
            return Err(format!("the rerun has {} operations, and {} were begun before", self.ops.len(), place.op));
        }
        let told = other.delivered_at.partition_point(|seq| *seq < place.seq);
        if self.deliveries[..] != other.deliveries[..told] {
            return Err("the rerun's workflow is told other things than the other's was".to_owned());
        }
        for (at, (op, before)) in self.ops.iter().zip(&other.ops).enumerate().filter(|(_, (_, other))| !other.void) {
            let (Some(Ok(result)), Kind::Step(_) | Kind::Sleep { .. }) = (&before.outcome, &before.kind) else {
                continue;
            };
            if op.outcome.as_ref() != Some(&Ok(result.clone())) {
                return Err(format!("operation {at} has a result that its rerun does not have"));
            }
        }
        Ok(())
    }

    /// The run goes on from the journal of another, as it was before that entry.
    pub(super) fn reran(&mut self, to: u64) {
        (self.ended, self.terminate, self.paused) = (None, None, false);
        if self.cancel_told.is_none_or(|at| at >= to) {
            self.cancel = None;
        }
        self.taken_back(to);
        // Nothing goes on from what was void before.
        for op in self.ops.iter_mut().filter(|op| op.void) {
            op.kind = Kind::Sleep { due_ms: u64::MAX };
        }
        let cancelled_before = self.cancel_told.unwrap_or(0);
        for op in self.ops.iter_mut().filter(|op| op.is_open() && op.begun_at >= cancelled_before) {
            if let Kind::Child { again, .. } = &mut op.kind
                && !matches!(op.outcome, Some(Ok(_)))
            {
                (op.outcome, *again) = (None, Again::Now);
            }
        }
    }
}
