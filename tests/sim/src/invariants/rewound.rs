//! What must hold of a failed run that is taken up again: what is void, and what stays.

use stepwell_core::ids::StepId;
use stepwell_core::journal::entry::RunOutcome;

use super::{Again, Kind, Ledger};
use crate::step::{Known, Step};

impl Ledger {
    /// Whether the run has failed.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        matches!(self.ended, Some(RunOutcome::Failed(_)))
    }

    /// How often it was taken up again.
    #[must_use]
    pub fn retries(&self) -> usize {
        self.rewound
    }

    /// How often the database was restored, as far as the run knows.
    #[must_use]
    pub fn restorations(&self) -> usize {
        self.restored as usize
    }

    /// How many effects of steps that were begun at that entry or after it were done, or may have been.
    #[must_use]
    pub fn done_since(&self, to: u64) -> usize {
        let since = self.ops.iter().filter(|op| op.begun_at >= to);
        let effects = since.filter_map(|op| match &op.kind {
            Kind::Step(step) if !step.void => Some(&step.effects),
            _ => None,
        });
        effects.flatten().filter(|effect| effect.known != Known::NotDone).count()
    }

    /// The run is taken back to that entry.
    pub(super) fn rewound(&mut self, to: u64) -> Result<(), String> {
        if !self.has_failed() {
            return Err("a run is taken up again that has not failed".to_owned());
        }
        self.ended = None;
        self.paused = false;
        self.rewound += 1;
        self.taken_back(to);
        Ok(())
    }

    pub(super) fn taken_back(&mut self, to: u64) {
        let first = self.delivered_at.partition_point(|seq| *seq < to);
        let cancel_void = self.deliveries[first..].contains(&None);
        self.deliveries.truncate(first);
        self.delivered_at.truncate(first);
        self.cancel_told = self.cancel_told.filter(|at| *at < to);
        let asked = self.cancel.is_some();
        let continued = self.continued_at.is_some_and(|at| at >= to);
        if continued {
            (self.continued, self.continued_at) = (false, None);
        }
        let cancelled_before = self.cancel_told.unwrap_or(0);
        let in_doubt = self.in_doubt;
        for op in self.ops.iter_mut().filter(|op| !op.void) {
            if op.begun_at >= to {
                (op.void, op.closed) = (true, true);
                match &mut op.kind {
                    Kind::Step(step) => step.void = true,
                    Kind::Wait { name, event, .. } => {
                        if let Some(event) = event.take() {
                            self.kept.insert((event, name.clone()));
                        }
                    }
                    Kind::Child { again, .. } => *again = Again::No,
                    Kind::Sleep { .. } | Kind::Send { .. } => {}
                }
                continue;
            }
            op.delivered &= op.told_at < to;
            op.closed &= op.closed_at < to;
            // It is told anew, and fails what has no result by then.
            if cancel_void && std::mem::take(&mut op.cancelled) && !matches!(op.outcome, Some(Ok(_))) {
                op.outcome = None;
                if let Kind::Step(step) = &mut op.kind {
                    step.over = None;
                }
            }
            if !op.is_open() || op.begun_at < cancelled_before {
                continue;
            }
            match &mut op.kind {
                Kind::Step(step) => {
                    step.anew(in_doubt);
                    op.outcome.clone_from(&step.over);
                }
                Kind::Child { awaited, abandoned, again, .. } if !asked && !matches!(op.outcome, Some(Ok(_))) => {
                    if op.outcome.take().is_some() {
                        *again = Again::Now;
                    } else if *awaited && !*abandoned {
                        *again = Again::IfFailed;
                    }
                }
                Kind::Wait { event: None, .. } if matches!(op.outcome, Some(Ok(_))) => op.outcome = None,
                _ => {}
            }
        }
        self.hand_out();
    }

    /// The void step of that id, if the code has not begun it again.
    pub(super) fn void_step(&mut self, id: &StepId) -> Option<&mut Step> {
        let steps = self.ops.iter_mut().rev().filter_map(|op| match &mut op.kind {
            Kind::Step(step) => Some(&mut **step),
            _ => None,
        });
        let mut same = steps.filter(|step| step.begun.step == *id);
        same.next().filter(|step| step.void)
    }
}
