//! Schedules: workflows that are started by the clock. Each firing has a run key of its own, and its run and the schedule's step to
//! the next time are one submission: so no time fires twice, whoever asks and whenever the process dies.

mod fire;
mod keep;
mod spec;
mod times;

pub use keep::ScheduleBy;
pub use spec::{Fired, Passed, SCHEDULE_TAG, ScheduleSpec, Standing, Told, Why};
pub use stepwell_core::policy::schedule::Overlap;
pub use times::Timetable;

use stepwell_core::error::{Code, Error};
use stepwell_store::Schedule;

fn unreadable(schedule: &Schedule, error: &serde_json::Error) -> Error {
    Error::new(Code::Internal, format!("schedule {:?} cannot be read: {error}", schedule.name))
}

/// What was asked of a schedule that the store has.
///
/// # Errors
/// When it cannot be read.
pub fn spec_of(schedule: &Schedule) -> Result<ScheduleSpec, Error> {
    serde_json::from_str(&schedule.spec).map_err(|error| unreadable(schedule, &error))
}

/// What has become of it.
///
/// # Errors
/// When it cannot be read.
pub fn told_of(schedule: &Schedule) -> Result<Told, Error> {
    serde_json::from_str(&schedule.told).map_err(|error| unreadable(schedule, &error))
}

/// The run key of a firing.
#[must_use]
pub fn run_key(name: &str, at_ms: u64) -> String {
    let at = i64::try_from(at_ms).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    let at = at.map_or_else(|| at_ms.to_string(), |at| at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
    format!("schedule:{name}:{at}")
}
