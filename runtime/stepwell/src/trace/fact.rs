//! What traces take of a journal entry: no input, result, event or answer.

use stepwell_core::contract::{EffectClass, Operation};
use stepwell_core::error::Error;
use stepwell_core::journal::entry::{AttemptOutcome, Entry, Next, Record, Resolution, RunOutcome};

/// When, and what.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Fact {
    pub(super) at_ms: u64,
    pub(super) what: What,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum What {
    Started {
        run: String,
        workflow: String,
        digest: String,
    },
    StepBegun {
        op: Operation,
        step: String,
        effect: &'static str,
    },
    AttemptStarted {
        op: Operation,
        n: u32,
    },
    /// `over`: the step is.
    AttemptEnded {
        op: Operation,
        n: u32,
        failure: Option<Failure>,
        over: bool,
    },
    /// A person has said how the step ended.
    Resolved {
        op: Operation,
        failure: Option<Failure>,
    },
    Closed {
        op: Operation,
    },
    Ended {
        status: &'static str,
        failure: Option<Failure>,
    },
    /// What was before is of another run.
    Reran,
}

/// An error, for people.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Failure {
    pub(super) code: String,
    pub(super) message: String,
}

/// Of an error's message, in characters.
const MAX_MESSAGE: usize = 200;

impl Failure {
    fn of(error: &Error) -> Option<Self> {
        Some(Self { code: error.code.clone(), message: error.message.chars().take(MAX_MESSAGE).collect() })
    }
}

impl Fact {
    /// None where traces have no use for the entry.
    pub(super) fn of(entry: &Entry) -> Option<Self> {
        let what = match &entry.record {
            Record::Started(started) => What::Started {
                run: started.run.to_string(),
                workflow: started.workflow.clone(),
                digest: started.digest.to_string(),
            },
            Record::StepBegun(begun) => {
                What::StepBegun { op: begun.op, step: begun.step.to_string(), effect: class(begun.effect) }
            }
            Record::AttemptStarted { op, n, .. } => What::AttemptStarted { op: *op, n: *n },
            Record::AttemptEnded { op, n, outcome } => {
                let (failure, over) = match outcome {
                    AttemptOutcome::Succeeded(_) => (None, true),
                    AttemptOutcome::Failed { error, next } => (Failure::of(error), matches!(next, Next::GiveUp)),
                };
                What::AttemptEnded { op: *op, n: *n, failure, over }
            }
            Record::Resolved { op, resolution, .. } => match resolution {
                Resolution::Succeeded(_) => What::Resolved { op: *op, failure: None },
                Resolution::Failed(error) => What::Resolved { op: *op, failure: Failure::of(error) },
                Resolution::Retry { .. } => return None,
            },
            Record::Closed { op } => What::Closed { op: *op },
            Record::Ended { outcome, .. } => {
                let (status, failure) = match outcome {
                    RunOutcome::Succeeded(_) | RunOutcome::Continued(_) => ("succeeded", None),
                    RunOutcome::Failed(error) => ("failed", Failure::of(error)),
                    RunOutcome::Cancelled(error) => ("cancelled", Failure::of(error)),
                    RunOutcome::Terminated(error) => ("terminated", Failure::of(error)),
                };
                What::Ended { status, failure }
            }
            Record::Reran(_) => What::Reran,
            _ => return None,
        };
        Some(Self { at_ms: entry.at_ms, what })
    }
}

fn class(effect: EffectClass) -> &'static str {
    match effect {
        EffectClass::Repeatable => "repeatable",
        EffectClass::Keyed => "keyed",
        EffectClass::Once => "once",
    }
}
