//! What must hold of a run of which people have asked something.

use stepwell_core::contract::EffectClass;
use stepwell_core::journal::entry::{Record, RunOutcome};
use stepwell_core::run::Machine;

use super::Ledger;
use crate::program::Ask;
use crate::step::Known;

impl Ledger {
    /// Whether the run is paused.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// Whether the run was asked to cancel.
    #[must_use]
    pub fn is_cancel_asked(&self) -> bool {
        self.cancel.is_some()
    }

    /// Whether the run was asked to end at once.
    #[must_use]
    pub fn is_terminated(&self) -> bool {
        self.terminate.is_some()
    }

    /// The rules of pausing and terminating, before the entry is taken in.
    pub(super) fn asked(&mut self, record: &Record) -> Result<(), String> {
        let goes_on = matches!(
            record,
            Record::AttemptStarted { .. }
                | Record::Delivered { .. }
                | Record::CancelDelivered
                | Record::TimerFired { .. }
                | Record::WaitExpired { .. }
        );
        let acts = matches!(
            record,
            Record::StepBegun(_)
                | Record::SleepBegun { .. }
                | Record::WaitBegun { .. }
                | Record::SendBegun { .. }
                | Record::ChildBegun(_)
                | Record::ChildBegunAgain { .. }
                | Record::ContinuedAsNew { .. }
                | Record::Closed { .. }
                | Record::Dispatched(_)
        );
        if self.paused && goes_on {
            return Err(format!("the run is paused, and this is recorded: {record:?}"));
        }
        if self.terminate.is_some() && (goes_on || acts) {
            return Err(format!("the run was terminated, and this is recorded: {record:?}"));
        }
        match record {
            Record::Paused { .. } if std::mem::replace(&mut self.paused, true) => {
                Err("the run is paused twice".to_owned())
            }
            Record::Unpaused { .. } if !std::mem::replace(&mut self.paused, false) => {
                Err("the run is resumed, and was not paused".to_owned())
            }
            Record::TerminateRequested { error, .. } if self.terminate.replace(error.clone()).is_some() => {
                Err("the run is terminated twice".to_owned())
            }
            Record::Ended { outcome, .. } => match (&self.terminate, outcome) {
                (Some(error), RunOutcome::Terminated(with)) if error == with => Ok(()),
                (None, RunOutcome::Terminated(_)) => Err("the run is terminated, and nobody asked for it".to_owned()),
                (Some(_), other) => Err(format!("the run was terminated, and ends with {other:?}")),
                (None, RunOutcome::Cancelled(_)) if self.cancel.is_none() => {
                    Err("the run is cancelled, and nobody asked for it".to_owned())
                }
                (None, _) => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// Somebody was told that this is so.
    pub fn promise(&mut self, ask: Ask) {
        self.promised.push(ask);
    }

    /// The journal as it is after a crash: everything that people were told still holds. `unanswered` was asked after all that, and
    /// may have been recorded.
    ///
    /// # Errors
    /// What does not.
    pub fn keeps(&mut self, promised: Vec<Ask>, unanswered: Option<Ask>) -> Result<(), String> {
        let paused = promised.iter().rev().find(|ask| matches!(ask, Ask::Pause | Ask::Resume | Ask::Retry));
        let paused = paused.filter(|_| !matches!(unanswered, Some(Ask::Pause | Ask::Resume)));
        let retries = promised.iter().filter(|ask| **ask == Ask::Retry).count();
        if retries > self.retries() {
            return Err("people were told that the run is taken up again, and after a crash it is not".to_owned());
        }
        let kept = self.ended()
            || (!promised.contains(&Ask::Cancel) || self.is_cancel_asked())
                && (!promised.contains(&Ask::Terminate) || self.is_terminated())
                && paused.is_none_or(|ask| (*ask == Ask::Pause) == self.paused);
        if !kept {
            return Err(format!("people were told that this holds, and after a crash it does not: {promised:?}"));
        }
        self.promised = promised;
        Ok(())
    }

    /// The run is over: no timer is left, and what may have happened is still listed.
    ///
    /// # Errors
    /// What does not hold.
    pub fn over(&self, machine: &Machine) -> Result<(), String> {
        if let Some(due_ms) = machine.next_due_ms() {
            return Err(format!("the run is over, and something falls due at {due_ms}"));
        }
        let listed = machine.unknown_steps();
        let may = |step: &&crate::step::Step| {
            step.begun.effect != EffectClass::Repeatable
                && step.over.is_none()
                && step.effects.iter().any(|effect| effect.known == Known::Unknown)
        };
        match self.steps().filter(may).find(|step| !listed.contains(&step.begun.step)) {
            Some(step) => {
                Err(format!("what step {} did is unknown, and at the run's end it is not listed", step.begun.step))
            }
            None => Ok(()),
        }
    }
}
