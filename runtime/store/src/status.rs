//! Where a run stands. Which status may follow which is the engine's to decide; the store only holds the last one and
//! refuses to write to a run that has ended.

use std::fmt;
use std::str::FromStr;

/// A run's status. The first five are of runs that go on, the last four are final.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// Not started yet, or not taken up again yet.
    Queued,
    /// Live.
    Running,
    /// For a time, an event or a child run: the detail says which.
    Waiting,
    /// It needs a step whose outcome is unknown.
    Blocked,
    /// Set aside by a person or by a limit: the detail says why.
    Paused,
    /// Ended with a result.
    Succeeded,
    /// Ended with an error. The only end that can be taken up again, by a retry.
    Failed,
    /// Ended at its own pace after a request to cancel.
    Cancelled,
    /// Ended at once.
    Terminated,
}

/// A text that names no status.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no run status")]
pub struct UnknownStatus(pub String);

impl Status {
    /// Every status, in order.
    pub const ALL: [Self; 9] = [
        Self::Queued,
        Self::Running,
        Self::Waiting,
        Self::Blocked,
        Self::Paused,
        Self::Succeeded,
        Self::Failed,
        Self::Cancelled,
        Self::Terminated,
    ];

    /// Whether the run has ended.
    #[must_use]
    pub fn is_finished(self) -> bool {
        self.code() >= FIRST_FINISHED_CODE
    }

    /// As people and the API spell it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Blocked => "blocked",
            Self::Paused => "paused",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Terminated => "terminated",
        }
    }

    /// The number that is stored. Never renumbered: databases hold them, and everything below ten is unfinished.
    pub(crate) fn code(self) -> i64 {
        match self {
            Self::Queued => 0,
            Self::Running => 1,
            Self::Waiting => 2,
            Self::Blocked => 3,
            Self::Paused => 4,
            Self::Succeeded => FIRST_FINISHED_CODE,
            Self::Failed => 11,
            Self::Cancelled => 12,
            Self::Terminated => LAST_FINISHED_CODE,
        }
    }

    pub(crate) fn from_code(code: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.code() == code)
    }
}

/// Stored statuses from this number on are final.
pub(crate) const FIRST_FINISHED_CODE: i64 = 10;
/// The largest that this version knows.
pub(crate) const LAST_FINISHED_CODE: i64 = 13;

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Status {
    type Err = UnknownStatus;

    fn from_str(text: &str) -> Result<Self, UnknownStatus> {
        Self::ALL.into_iter().find(|status| status.as_str() == text).ok_or_else(|| UnknownStatus(text.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_survives_its_text_and_its_number() {
        for status in Status::ALL {
            assert_eq!(status.as_str().parse(), Ok(status));
            assert_eq!(Status::from_code(status.code()), Some(status));
        }
        assert!("Failed".parse::<Status>().is_err());
        assert_eq!(Status::from_code(5), None);
    }

    #[test]
    fn four_statuses_are_final() {
        let finished: Vec<_> = Status::ALL.into_iter().filter(|status| status.is_finished()).collect();
        assert_eq!(finished, [Status::Succeeded, Status::Failed, Status::Cancelled, Status::Terminated]);
    }
}
