//! A retry of a failed run: it is taken back to the failure that ended it, and lives on from there.
//!
//! Nothing that may have happened is forgotten by that: steps keep their keys, what was sent under them, and their numbers.

use super::again::VoidErrand;
use super::ask::{Granted, Refusal, RunStatus, bounded_name, bounded_text};
use super::guest::Guest;
use super::machine::Machine;
use super::state::{ItemKind, OpKind, Phase, Ready, Step};
use crate::contract::Operation;
use crate::error::Error;
use crate::fault::{Fault, planted};
use crate::ids::{Digest, StepId};
use crate::journal::entry::{Record, Restored, RunOutcome};
use crate::policy::effect::Outcome;

/// What is asked of a failed run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Retry {
    /// The step whose failure it is taken back to, as `charge` or `charge#2`; else the one that has reached the run's end.
    pub from_step: Option<String>,
    /// The module that it goes on with, where that is another. It has to replay clean on it as far as it is taken back to.
    pub digest: Option<Digest>,
    /// What was done after that point may be done again.
    pub confirm: bool,
    /// The restorations of the database that this run was part of, the earliest first. A run that has ended is told of none: those that
    /// it does not know it is told of now.
    pub restored: Vec<Restored>,
}

/// What a retry has led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retried {
    /// It goes on now.
    pub granted: Granted,
    /// The step whose failure it was taken back to. None where that is a child's, or it lives through its own code's last turn anew.
    pub step: Option<StepId>,
    /// The steps that are attempted again.
    pub again: Vec<StepId>,
    /// What was done, or may have been, after that point.
    pub void: Vec<VoidEffect>,
    /// What was done to other runs after that point, and children that have no result.
    pub others: Vec<VoidErrand>,
}

/// A request of a step that is void.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VoidEffect {
    /// The step.
    pub step: StepId,
    /// The effect, from 1 within the step.
    pub effect: u32,
    /// The method.
    pub method: String,
    /// The URL.
    pub url: String,
    /// What stood in its `Idempotency-Key` header.
    pub key: Option<String>,
    /// It is known that it happened; else it may have.
    pub done: bool,
}

impl VoidEffect {
    /// What was done for a step, or may have been.
    pub(super) fn of(step: &Step) -> impl Iterator<Item = Self> {
        let effects = (1..).zip(&step.effects).filter(|(_, effect)| effect.outcome != Outcome::NotDone);
        effects.map(|(k, effect)| Self {
            step: step.begun.step.clone(),
            effect: k,
            method: effect.what.method.clone(),
            url: effect.what.url.clone(),
            key: effect.key.clone(),
            done: effect.outcome == Outcome::Done,
        })
    }
}

/// Where a run is taken back to.
struct Cut {
    /// The first item of the script that is void.
    from: usize,
    /// The step or child whose failure is told there.
    step: Option<Operation>,
}

impl Machine {
    /// Takes a failed run up again.
    ///
    /// # Errors
    /// When it has not failed, when there is no such failure, or when something was done since that is not confirmed.
    pub fn retry(&mut self, retry: &Retry, reason: &str, by: &str, now_ms: u64) -> Result<Retried, Refusal> {
        let cut = self.cut(retry)?;
        let (void, others) = (self.void_effects(cut.from), self.void_errands(cut.from));
        if !(retry.confirm || void.is_empty() && others.is_empty()) {
            return Err(Refusal::NeedsConfirm(void, others));
        }
        let step = cut.step.and_then(|op| self.step_of(op).cloned());
        let (reason, by) = (bounded_text(reason), bounded_name(by));
        // Before it goes on: what it did after a copy, taken up again then too, is as unknown as that of a run that was open.
        for restored in self.not_told(&retry.restored) {
            self.record(now_ms, Record::Restored(restored));
        }
        self.record(now_ms, Record::Rewound { to: self.first_void(&cut), reason, by });
        if let Some(digest) = retry.digest.clone().filter(|digest| *digest != self.state.digest) {
            self.record(now_ms, Record::Repinned { digest });
        }
        self.anew();
        self.begin_children_again(now_ms);
        let again = self.attempted_next();
        Ok(Retried { granted: Granted::Now, step, again, void, others })
    }

    /// The same in memory alone, to see whether other code replays the run as far as it would be taken back to.
    ///
    /// # Errors
    /// When it has not failed, or there is no such failure.
    pub fn take_back(&mut self, retry: &Retry) -> Result<(), Refusal> {
        let to = self.first_void(&self.cut(retry)?);
        // It has failed: the cut was found.
        let _ = self.state.rewound(to, self.state.at_ms);
        Ok(())
    }

    pub(super) fn not_told(&self, restored: &[Restored]) -> Vec<Restored> {
        if planted(Fault::RetryForgetsRestore) {
            return Vec::new();
        }
        let epoch = self.state.epoch.as_deref();
        let known = restored.iter().rposition(|restored| Some(restored.epoch.as_str()) == epoch);
        restored[known.map_or(0, |at| at + 1)..].to_vec()
    }

    fn anew(&mut self) {
        self.guest = Guest::new(self.state.start_ms);
        self.told.clear();
        self.ending = None;
        self.begun = true;
    }

    fn first_void(&self, cut: &Cut) -> u64 {
        self.state.script.get(cut.from).map_or(self.state.entries, |item| item.seq)
    }

    fn cut(&self, retry: &Retry) -> Result<Cut, Refusal> {
        let error = match &self.state.ended {
            Some((RunOutcome::Failed(error), _)) => error,
            Some((other, _)) => return Err(Refusal::Ended(RunStatus::of(other))),
            None => return Err(Refusal::NotFailed),
        };
        if let Some(step) = &retry.from_step {
            return self.failure_of(step);
        }
        let reaches_the_end = |failure: &Error| {
            let same = failure.code == error.code && failure.message == error.message;
            same || error.causes.iter().any(|cause| cause.name == failure.name && cause.message == failure.message)
        };
        let failures = self.failures_told();
        let last = failures.into_iter().rfind(|(_, op)| self.failure(*op).is_some_and(reaches_the_end));
        match last {
            Some((from, op)) => Ok(Cut { from, step: Some(op) }),
            None if retry.digest.as_ref().is_some_and(|digest| *digest != self.state.digest) => {
                // What its code did after it was told something last is lived through by the other code.
                let told = |kind| matches!(kind, ItemKind::Deliver(_) | ItemKind::Cancel);
                let from = self.state.script.iter().rposition(|item| told(item.kind)).map_or(0, |at| at + 1);
                Ok(Cut { from, step: None })
            }
            None => Err(Refusal::NeedsCode),
        }
    }

    fn failure_of(&self, step: &str) -> Result<Cut, Refusal> {
        let named = |op: &Operation| self.step_of(*op).is_some_and(|id| id.to_string() == step);
        let found = self.failures_told().into_iter().rfind(|(_, op)| named(op));
        match found {
            Some((from, op)) => Ok(Cut { from, step: Some(op) }),
            None if (0..self.state.ops.len() as Operation).any(|op| named(&op)) => {
                Err(Refusal::StepNotFailed(step.to_owned()))
            }
            None => Err(Refusal::NoSuchStep(step.to_owned())),
        }
    }

    /// Steps and children whose failure the workflow was told, and where in the script. What was begun before the run was told to cancel is not
    /// attempted again, whatever it is taken back to.
    fn failures_told(&self) -> Vec<(usize, Operation)> {
        let told = self.state.script.iter().enumerate().filter_map(|(at, item)| match item.kind {
            ItemKind::Deliver(op) => Some((at, op)),
            _ => None,
        });
        let cancelled = if self.state.cancel.is_some() { self.state.cancelled_ops } else { 0 };
        told.filter(|(_, op)| self.failure(*op).is_some() && *op as usize >= cancelled).collect()
    }

    fn failure(&self, op: Operation) -> Option<&Error> {
        let state = self.state.ops.get(op as usize)?;
        if !matches!(state.kind, OpKind::Step(_) | OpKind::Child(_)) {
            return None;
        }
        state.outcome.as_ref()?.as_ref().err()
    }

    /// What was done, or may have been, by steps that were begun at that place of the script or after it.
    fn void_effects(&self, from: usize) -> Vec<VoidEffect> {
        let mut void = Vec::new();
        for item in &self.state.script[from..] {
            let ItemKind::Begin(op) = item.kind else { continue };
            void.extend(self.state.step(op).into_iter().flat_map(VoidEffect::of));
        }
        void
    }

    /// The steps that are to be attempted. None where the workflow is told to cancel first.
    pub(super) fn attempted_next(&self) -> Vec<StepId> {
        if self.state.ready.contains(&Ready::Cancel) {
            return Vec::new();
        }
        let steps = (0..self.state.ops.len() as Operation).filter(|op| !self.state.ops[*op as usize].void);
        let ready = steps.filter_map(|op| self.state.step(op)).filter(|step| step.phase == Phase::Ready);
        ready.map(|step| step.begun.step.clone()).collect()
    }
}
