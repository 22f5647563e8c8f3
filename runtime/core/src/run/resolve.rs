//! Resolving: a person has found out what became of a step whose outcome is unknown, and says so. The run goes on with that.

use super::ask::{Granted, Refusal, bounded_name, bounded_text};
use super::machine::Machine;
use super::state::Phase;
use crate::contract::Operation;
use crate::error::{Code, Error};
use crate::fault::{Fault, planted};
use crate::ids::StepId;
use crate::journal::entry::{Record, Resolution, StepBegun};
use crate::json::Json;
use crate::limits;
use crate::policy::effect::Outcome;

/// What a person has found out.
#[derive(Debug, Clone, PartialEq)]
pub enum Finding {
    /// It happened: the step ends with this result.
    Succeeded(Json),
    /// It did not happen, and is not to be tried again: the step fails with this error.
    Failed(Error),
    /// It is to be tried again: under the key that it had while the other side knows it, else under a new one. The attempts of the
    /// step's policy are counted anew.
    Retry,
}

/// What resolving a step led to.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolved {
    /// Whether the run goes on now, or once it is resumed.
    pub granted: Granted,
    /// The step.
    pub step: StepId,
    /// For a retry: with which keys its requests of unknown outcome are repeated.
    pub keys: Vec<KeyOfRetry>,
    /// The step is not tried again, since the run was cancelled or the workflow has lost interest in it: it fails with this.
    pub given_up: Option<Error>,
}

/// How a request of unknown outcome is repeated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyOfRetry {
    /// The effect, from 1 within the step.
    pub effect: u32,
    /// What stood in its `Idempotency-Key` header; none stood there for some methods.
    pub key: Option<String>,
    /// The same key stands there again; else the other side may have forgotten it, and there is a new one.
    pub kept: bool,
}

/// A step of unknown outcome, and what was sent for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownStep {
    /// The operation. It grows from step to step of a run.
    pub op: Operation,
    /// The step.
    pub step: StepId,
    /// The run was taken back to before it: it is nobody's to resolve, unless its workflow begins it again.
    pub void: bool,
    /// Its attempts so far.
    pub attempts: u32,
    /// It may have been attempted after the copy from which the database was restored: by attempts, and with effects, that are not
    /// on record.
    pub after_copy: bool,
    /// What may have happened. None where something was done, and the attempt was lost before it could say so; or where it is only
    /// not known what followed a copy.
    pub effects: Vec<UnknownEffect>,
}

/// A request that may have happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownEffect {
    /// The effect, from 1 within the step.
    pub effect: u32,
    /// The method.
    pub method: String,
    /// The URL.
    pub url: String,
    /// What stood in its `Idempotency-Key` header.
    pub key: Option<String>,
    /// When it was first sent, in ms since the Unix epoch.
    pub first_sent_ms: u64,
    /// When it was last sent, in ms since the Unix epoch.
    pub last_sent_ms: u64,
}

impl Machine {
    /// Records what a person has found out of the step of that id (as `charge` or `charge#2`), and in which way: `evidence`.
    ///
    /// # Errors
    /// When there is no such step, its outcome is not unknown, the result is too large, or the run is over or ending.
    pub fn resolve(
        &mut self,
        step: &str,
        finding: Finding,
        evidence: &str,
        by: &str,
        now_ms: u64,
    ) -> Result<Resolved, Refusal> {
        self.not_ending()?;
        let ops = 0..self.state.ops.len() as Operation;
        let of_step = |op: &Operation| self.state.step(*op).is_some_and(|of| of.begun.step.to_string() == step);
        // The latest of that id: earlier ones are void.
        let op = ops.into_iter().rfind(of_step).ok_or_else(|| Refusal::NoSuchStep(step.to_owned()))?;
        // It exists: it was just found.
        let Some(found) = self.state.step(op) else { return Err(Refusal::NoSuchStep(step.to_owned())) };
        if self.state.ops[op as usize].void {
            let stands = "the run was taken back to before it, and its workflow has not begun it again";
            return Err(Refusal::StepNotUnknown { step: step.to_owned(), stands });
        }
        if found.phase != Phase::Unknown && !planted(Fault::ResolveAnyStep) {
            return Err(Refusal::StepNotUnknown { step: step.to_owned(), stands: stands(found.phase) });
        }
        let id = found.begun.step.clone();
        let (resolution, keys, given_up) = match finding {
            Finding::Succeeded(value) if value.len() > limits::MAX_VALUE_BYTES => {
                return Err(Refusal::TooLarge { bytes: value.len() });
            }
            Finding::Succeeded(value) => (Resolution::Succeeded(value), Vec::new(), None),
            Finding::Failed(mut error) => {
                error.outcome_unknown = false;
                (Resolution::Failed(error.bounded().never_retried()), Vec::new(), None)
            }
            Finding::Retry => match self.abandoned(op) {
                // Nobody has said that it did not happen.
                Some(mut reason) => {
                    reason.outcome_unknown =
                        (found.has_unknown() || found.doubted) && !planted(Fault::GivenUpIsNotDone);
                    (Resolution::Failed(reason.clone()), Vec::new(), Some(reason))
                }
                None => {
                    let keys = self.keys_of_retry(op, now_ms);
                    let renewed = keys.iter().filter(|key| !key.kept).map(|key| key.effect).collect();
                    (Resolution::Retry { renewed }, keys, None)
                }
            },
        };
        let (evidence, by) = (bounded_text(evidence), bounded_name(by));
        self.record(now_ms, Record::Resolved { op, resolution, evidence, by });
        let granted = if self.state.paused.is_some() { Granted::OnResume } else { Granted::Now };
        Ok(Resolved { granted, step: id, keys, given_up })
    }

    fn keys_of_retry(&self, op: Operation, now_ms: u64) -> Vec<KeyOfRetry> {
        let now_ms = now_ms.max(self.state.at_ms);
        let Some(step) = self.state.step(op) else { return Vec::new() };
        let unknown = (1..).zip(&step.effects).filter(|(_, effect)| effect.outcome == Outcome::Unknown);
        let keys = unknown.map(|(k, effect)| {
            let dead = effect.key.is_some() && step.key_forgotten_ms(k).is_some_and(|at_ms| now_ms >= at_ms);
            let kept = !dead && !planted(Fault::ResolveRenews);
            KeyOfRetry { effect: k, key: effect.key.clone(), kept }
        });
        keys.collect()
    }

    /// The steps whose outcome is unknown, and what was sent for them.
    #[must_use]
    pub fn unknown(&self) -> Vec<UnknownStep> {
        let unknown = self.steps_unknown().map(|step| {
            let effects = (1..).zip(&step.effects).filter(|(_, effect)| effect.outcome == Outcome::Unknown);
            let effects = effects.map(|(k, effect)| UnknownEffect {
                effect: k,
                method: effect.what.method.clone(),
                url: effect.what.url.clone(),
                key: effect.key.clone(),
                first_sent_ms: effect.first_sent_ms,
                last_sent_ms: effect.last_sent_ms,
            });
            let StepBegun { op, step: id, .. } = &step.begun;
            UnknownStep {
                op: *op,
                step: id.clone(),
                void: self.state.ops[*op as usize].void,
                attempts: step.tried,
                after_copy: step.doubted,
                effects: effects.collect(),
            }
        });
        unknown.collect()
    }
}

/// A step that is not unknown, in words.
fn stands(phase: Phase) -> &'static str {
    match phase {
        Phase::Ready | Phase::BackingOff { .. } => "it waits for its next attempt",
        Phase::Executing { .. } => "an attempt of it is under way",
        Phase::Unknown => "it is unknown",
        Phase::Done => "it is over",
    }
}

/// What an error says that a person gives.
#[must_use]
pub fn found_error(message: &str) -> Error {
    Error::new(Code::StepFailed, message).never_retried()
}
