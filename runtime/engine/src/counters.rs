//! What the engine has done since it was opened, in numbers. An addition to an atomic each; nothing is looked up for them.

use std::sync::atomic::{AtomicU64, Ordering};

use stepwell_core::journal::entry::{AttemptOutcome, Entry, Next, Record, RunOutcome};
use stepwell_store::Histogram;

/// How an attempt went, and what followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptEnd {
    /// With a result: the step is over.
    Succeeded,
    /// With an error, and another follows.
    Retried,
    /// With an error, and none follows: the step has failed.
    Failed,
    /// It is not known whether an effect of the step happened.
    Unknown,
}

impl AttemptEnd {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Succeeded, Self::Retried, Self::Failed, Self::Unknown];

    /// In a word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Retried => "retried",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
        }
    }

    fn of(outcome: &AttemptOutcome) -> Self {
        match outcome {
            AttemptOutcome::Succeeded(_) => Self::Succeeded,
            AttemptOutcome::Failed { next: Next::Retry { .. }, .. } => Self::Retried,
            AttemptOutcome::Failed { next: Next::GiveUp, .. } => Self::Failed,
            AttemptOutcome::Failed { next: Next::Unknown, .. } => Self::Unknown,
        }
    }
}

/// Counts since the engine was opened.
#[derive(Debug, Default)]
pub struct Counters {
    steps: AtomicU64,
    attempts: [AtomicU64; AttemptEnd::ALL.len()],
    recoveries: AtomicU64,
    schedules: [AtomicU64; 3],
    requests: AtomicU64,
    ended: [AtomicU64; 4],
    /// How long runs waited for their place among the live ones.
    pub(crate) queued: Histogram,
}

impl Counters {
    /// Steps that have begun.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }

    /// Attempts that have ended so.
    #[must_use]
    pub fn attempts(&self, end: AttemptEnd) -> u64 {
        self.attempts[end as usize].load(Ordering::Relaxed)
    }

    /// Runs that were rebuilt from their journals.
    #[must_use]
    pub fn recoveries(&self) -> u64 {
        self.recoveries.load(Ordering::Relaxed)
    }

    /// What became of schedules' times: runs that were started, times at which some were passed over, and trials to start one that failed.
    #[must_use]
    pub fn firings(&self) -> [(&'static str, u64); 3] {
        let number = |at: usize| self.schedules[at].load(Ordering::Relaxed);
        [("started", number(0)), ("skipped", number(1)), ("failed", number(2))]
    }

    pub(crate) fn schedule_fired(&self) {
        self.schedules[0].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn schedule_passed(&self) {
        self.schedules[1].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn schedule_failed(&self) {
        self.schedules[2].fetch_add(1, Ordering::Relaxed);
    }

    /// Unsafe requests that were put on record, to be sent.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Runs that have ended: by their status' name.
    #[must_use]
    pub fn ended(&self) -> [(&'static str, u64); 4] {
        let names = ["succeeded", "failed", "cancelled", "terminated"];
        std::array::from_fn(|at| (names[at], self.ended[at].load(Ordering::Relaxed)))
    }

    /// How long runs have waited for their place among the live ones.
    #[must_use]
    pub fn queued(&self) -> &Histogram {
        &self.queued
    }

    /// An entry was made.
    pub(crate) fn entry(&self, entry: &Entry) {
        let counter = match &entry.record {
            Record::StepBegun(_) => &self.steps,
            Record::AttemptEnded { outcome, .. } => &self.attempts[AttemptEnd::of(outcome) as usize],
            Record::Resumed => &self.recoveries,
            Record::Dispatched(_) => &self.requests,
            Record::Ended { outcome, .. } => match outcome {
                // As its row has it.
                RunOutcome::Succeeded(_) | RunOutcome::Continued(_) => &self.ended[0],
                RunOutcome::Failed(_) => &self.ended[1],
                RunOutcome::Cancelled(_) => &self.ended[2],
                RunOutcome::Terminated(_) => &self.ended[3],
            },
            _ => return,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}
