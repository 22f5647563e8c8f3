//! Schedules as the store keeps them: a row each, replaced as a whole and only by who has seen the row that it replaces. So of two who
//! fire one at the same time, one is told that it is too late; and the run that a firing starts is in the transaction that moves the
//! schedule on. When one fires, and what its texts mean, is not known here.

/// A schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// Its name.
    pub name: String,
    /// A number that no other writing of it has, and no other schedule of this name.
    pub version: u64,
    /// Whose runs it starts.
    pub workflow: String,
    /// The next time of its that is to be dealt with, in ms since the Unix epoch: none while it is paused, or where none follows.
    pub next_ms: Option<u64>,
    /// Why nothing is started until it is resumed.
    pub paused: Option<String>,
    /// Why it cannot start a run now, though it is to.
    pub problem: Option<String>,
    /// What was asked for: JSON.
    pub spec: String,
    /// What has become of it: JSON.
    pub told: String,
}

/// How schedules stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ScheduleCounts {
    /// Those that fire, and can.
    pub active: u64,
    /// Those that are paused.
    pub paused: u64,
    /// Those that cannot start the run that they are to start.
    pub failing: u64,
}
