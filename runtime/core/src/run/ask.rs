//! What people ask of a run: cancel, terminate, pause, resume. Each has an answer in every state; the table is in ARCHITECTURE.md.
//!
//! Whatever is granted is recorded first, so that it holds after a restart. The one who asked is answered once that is durable.

use super::machine::{Machine, Mode};
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
