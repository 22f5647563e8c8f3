//! What people ask of a run: cancel, terminate, pause, resume. Each has an answer in every state; the table is in ARCHITECTURE.md.
//!
//! Whatever is granted is recorded first, so that it holds after a restart. The one who asked is answered once that is durable.

use super::again::{ErrandKind, VoidErrand};
use super::machine::{Machine, Mode};
use super::rerun::DoneSince;
use super::retry::VoidEffect;
use crate::journal::entry::RunOutcome;
use crate::limits;

/// What was asked is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Granted {
    /// It takes its course.
    Now,
    /// It takes its course when the paused run is resumed.
    OnResume,
    /// It was so before: nothing has changed.
    Already,
}

/// Why what was asked of a run is not done. Nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The run is over.
    Ended(RunStatus),
    /// The run's end is decided, and only its requests are waited for.
    Ending,
    /// The run's replay differs: it is set aside first.
    Stopped,
    /// The run has no step of that id.
    NoSuchStep(String),
    /// It is known what became of the step, or will be.
    StepNotUnknown {
        /// The step's id.
        step: String,
        /// How it stands, in words.
        stands: &'static str,
    },
    /// The result is larger than a value may be.
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// The run has not failed: there is nothing to retry.
    NotFailed,
    /// The step has not failed, or its workflow was not told: the run cannot be taken back to that.
    StepNotFailed(String),
    /// The run failed by its own code, and not by the failure of a step or child: the same code would fail again.
    NeedsCode,
    /// The run has not ended: it can be rerun when it has.
    NotEnded,
    /// The run has begun several steps of that name.
    StepAmbiguous {
        /// The name, as it was given.
        step: String,
        /// The ids of those steps.
        ids: Vec<String>,
    },
    /// What was done since the step began, or may have been, would be done again.
    RerunNeedsConfirm(Box<DoneSince>),
    /// The journal cannot be cut there, for this reason.
    NoRerun(String),
    /// What was done after the point that the run would be taken back to may be done again.
    NeedsConfirm(Vec<VoidEffect>, Vec<VoidErrand>),
}

/// How a run has ended, in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunStatus {
    /// With a result.
    Succeeded,
    /// With an error.
    Failed,
    /// After a request to cancel.
    Cancelled,
    /// At once.
    Terminated,
}

impl RunStatus {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Succeeded, Self::Failed, Self::Cancelled, Self::Terminated];

    /// Of an outcome.
    #[must_use]
    pub fn of(outcome: &RunOutcome) -> Self {
        match outcome {
            // What it was started for goes on, and has not failed.
            RunOutcome::Succeeded(_) | RunOutcome::Continued(_) => Self::Succeeded,
            RunOutcome::Failed(_) => Self::Failed,
            RunOutcome::Cancelled(_) => Self::Cancelled,
            RunOutcome::Terminated(_) => Self::Terminated,
        }
    }

    /// The word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Terminated => "terminated",
        }
    }
}

impl Refusal {
    /// A stable code, e.g. `run_ended` or `step_not_unknown`.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Ended(_) => "run_ended",
            Self::Ending => "run_ending",
            Self::Stopped => "run_stopped",
            Self::NoSuchStep(_) => "step_not_found",
            Self::StepNotUnknown { .. } => "step_not_unknown",
            Self::TooLarge { .. } => "result_too_large",
            Self::NotFailed => "run_not_failed",
            Self::StepNotFailed(_) => "step_not_failed",
            Self::NeedsCode => "retry_needs_module",
            Self::NotEnded => "run_not_ended",
            Self::StepAmbiguous { .. } => "step_ambiguous",
            Self::RerunNeedsConfirm(_) => "rerun_needs_confirm",
            Self::NoRerun(_) => "rerun_impossible",
            Self::NeedsConfirm(..) => "retry_needs_confirm",
        }
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ended(RunStatus::Cancelled) => f.write_str("the run was cancelled"),
            Self::Ended(RunStatus::Terminated) => f.write_str("the run was terminated"),
            Self::Ended(status) => write!(f, "the run has {}", status.as_str()),
            Self::Ending => f.write_str("the run's end is decided, and only its requests are waited for"),
            Self::Stopped => f.write_str("the run does not replay on its module, and is being set aside"),
            Self::NoSuchStep(step) => write!(f, "the run has no step {step:?}"),
            Self::StepNotUnknown { step, stands } => {
                write!(f, "the outcome of step {step:?} is not unknown: {stands}")
            }
            Self::NotFailed => f.write_str("the run has not failed: there is nothing to retry"),
            Self::StepNotFailed(step) => write!(
                f,
                "the workflow was not told of a failure of step {step:?}, or was told to cancel since it began: the run cannot be \
                 taken back to it"
            ),
            Self::NeedsCode => f.write_str(
                "the run failed by its own code, and not by the failure of a step or a child run: the same code would fail again. Give it another \
                 module, or name a step whose failure it was told",
            ),
            Self::NeedsConfirm(effects, others) => {
                f.write_str("this was done, or may have been, after the point that the run is taken back to")?;
                for of in effects {
                    write!(f, "; {} {} by step {}", of.method, of.url, of.step)?;
                }
                for other in others {
                    write!(f, "; {other}")?;
                }
                f.write_str(". What the workflow comes to is begun again")?;
                if others.iter().any(|other| matches!(other.what, ErrandKind::Child(_))) {
                    f.write_str(
                        ", children as new runs under new keys. Retry a child that has failed before this run, and it keeps what it did",
                    )?;
                }
                f.write_str(": confirm it")
            }
            Self::NotEnded => f.write_str("the run has not ended: it can be rerun when it has"),
            Self::StepAmbiguous { step, ids } => {
                write!(f, "the run has begun {} steps {step:?}: name one of {}", ids.len(), ids.join(", "))
            }
            Self::RerunNeedsConfirm(done) => done.fmt(f),
            Self::NoRerun(why) => write!(f, "the run cannot be rerun from there: {why}"),
            Self::TooLarge { bytes } => {
                write!(f, "the result has {bytes} bytes of JSON; at most {} can be recorded", limits::MAX_VALUE_BYTES)
            }
        }
    }
}

impl std::error::Error for Refusal {}

impl Machine {
    /// Whether anything may be asked of the run. Nobody asks anything of a verification.
    pub(super) fn not_over(&self) -> Result<(), Refusal> {
        debug_assert!(self.mode == Mode::Continue, "a verification records nothing");
        match &self.state.ended {
            Some((outcome, _)) => Err(Refusal::Ended(RunStatus::of(outcome))),
            None if self.stopped.is_some() => Err(Refusal::Stopped),
            None => Ok(()),
        }
    }

    /// Whether the run may still go another way than it is going.
    pub(super) fn not_ending(&self) -> Result<(), Refusal> {
        self.not_over()?;
        if self.ending.is_some() { Err(Refusal::Ending) } else { Ok(()) }
    }
}

/// Who asked, within what an entry holds of a name.
pub(super) fn bounded_name(by: &str) -> String {
    by[..by.floor_char_boundary(limits::MAX_NAME_BYTES)].to_owned()
}

/// What was said with it, within what an entry holds of a text.
pub(super) fn bounded_text(text: &str) -> String {
    text[..text.floor_char_boundary(limits::MAX_ERROR_MESSAGE_BYTES)].to_owned()
}
