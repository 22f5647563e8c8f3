//! What a schedule starts, and when, as whoever makes it says; what has become of it; and how it stands. Plain data.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use stepwell_core::json::Json;
use stepwell_core::policy::schedule::{MAX_CATCH_UP, Overlap};
use stepwell_store::Schedule;

use super::times::Timetable;

/// The mark on each run of a schedule; its value is the schedule's name.
pub const SCHEDULE_TAG: &str = "schedule";

/// What a schedule starts, and when.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScheduleSpec {
    /// A cron expression of five fields, or of six with seconds before them.
    pub cron: String,
    /// On whose clocks: a name of the time zone database.
    pub time_zone: String,
    /// The input of each run.
    pub input: Json,
    /// What becomes of a firing while a run of the schedule is open.
    #[serde(default)]
    pub overlap: Overlap,
    /// How many of the times that have passed while nothing could be started are made up for: the latest.
    pub catch_up: u32,
    /// How long each run may be open, in ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_timeout_ms: Option<u64>,
    /// Marks on each run, beside the schedule's own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
}

impl ScheduleSpec {
    /// When it fires.
    ///
    /// # Errors
    /// What cannot be used, in words.
    pub fn timetable(&self) -> Result<Timetable, String> {
        Timetable::new(&self.cron, &self.time_zone)
    }

    /// The same for one that is to be kept.
    ///
    /// # Errors
    /// What cannot be used, in words.
    pub fn checked(&self, now_ms: u64) -> Result<Timetable, String> {
        let times = self.timetable()?;
        if times.after(now_ms).is_none() {
            return Err(format!("cron {:?} never fires", self.cron));
        }
        if self.catch_up > MAX_CATCH_UP {
            return Err(format!("catchUp is {}; at most {MAX_CATCH_UP} are made up for", self.catch_up));
        }
        if self.catch_up == 0 && self.overlap == Overlap::Queue {
            return Err("catchUp is 0, so nothing could be queued: overlap \"queue\" needs at least 1".to_owned());
        }
        if self.tags.contains_key(SCHEDULE_TAG) {
            return Err(format!("the tag {SCHEDULE_TAG:?} is the schedule's own"));
        }
        Ok(times)
    }

    /// Whether the other one fires at the same times.
    pub(super) fn has_times_of(&self, other: &Self) -> bool {
        (&self.cron, &self.time_zone) == (&other.cron, &other.time_zone)
    }
}

/// What has become of a schedule.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Told {
    /// When it was made, in ms since the Unix epoch.
    pub created_at_ms: u64,
    /// When somebody last made it, replaced it, paused it or resumed it.
    pub changed_at_ms: u64,
    /// Who that was.
    pub changed_by: String,
    /// How many runs it has started.
    pub fired: u64,
    /// How many times were passed over because they were too late, or were taken away before they fired.
    pub missed: u64,
    /// How many times were passed over because a run was open.
    pub overlapped: u64,
    /// The last time for which there is a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Fired>,
    /// The last time that was passed over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed: Option<Passed>,
    /// Since when it cannot start its run, where it cannot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem_since_ms: Option<u64>,
}

/// A time for which there is a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Fired {
    /// The time, in ms since the Unix epoch.
    pub at_ms: u64,
    /// The run.
    pub run: String,
    /// It was there already, with the run key of this time: nothing was started.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub existed: bool,
}

/// A time that was passed over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Passed {
    /// The time, in ms since the Unix epoch.
    pub at_ms: u64,
    /// Why.
    pub why: Why,
}

/// Why a time was passed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Why {
    /// It was too late for it, by what the schedule makes up for.
    Missed,
    /// Its run could not be started, and then it was too late for it.
    Failed,
    /// A run of the schedule was open.
    Overlap,
    /// It was due when the schedule was paused.
    Paused,
    /// It was due when the schedule was given other times.
    Replaced,
}

/// How a schedule stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// It fires at its next time.
    Active,
    /// It has a time that has come, and a run of it is open.
    Waiting,
    /// It has a time that has come, and cannot start its run: why.
    Failing(String),
    /// It starts nothing until it is resumed: why.
    Paused(String),
    /// The clock has been set back, or was ahead when it last fired: it has dealt with all times up to this one, and fires again from there
    /// on.
    Behind {
        /// Its next time, in ms since the Unix epoch.
        next_ms: u64,
    },
    /// It has no time any more.
    Over,
}

impl Standing {
    /// How a schedule stands. `open`: whether a run of it has not ended.
    #[must_use]
    pub fn of(schedule: &Schedule, times: &Timetable, now_ms: u64, open: bool) -> Self {
        if let Some(why) = &schedule.paused {
            return Self::Paused(why.clone());
        }
        let Some(next_ms) = schedule.next_ms else { return Self::Over };
        if let Some(problem) = &schedule.problem {
            return Self::Failing(problem.clone());
        }
        if next_ms > now_ms {
            let is_next = times.after(now_ms).is_none_or(|at_ms| at_ms >= next_ms);
            return if is_next { Self::Active } else { Self::Behind { next_ms } };
        }
        if open { Self::Waiting } else { Self::Active }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: u64 = 60_000;

    fn schedule(next_ms: Option<u64>) -> Schedule {
        Schedule {
            name: "s".into(),
            version: 1,
            workflow: "w".into(),
            next_ms,
            paused: None,
            problem: None,
            spec: String::new(),
            told: String::new(),
        }
    }

    #[test]
    fn how_it_stands_is_read_off_its_row_and_the_clock() {
        let times = Timetable::new("* * * * *", "UTC").expect("a timetable");
        let stands = |schedule: &Schedule, open| Standing::of(schedule, &times, 10 * MINUTE + 1, open);
        let at = |minute: u64| schedule(Some(minute * MINUTE));
        assert_eq!((stands(&at(11), true), stands(&at(10), false)), (Standing::Active, Standing::Active));
        assert_eq!(stands(&at(10), true), Standing::Waiting);
        // What has been dealt with is not dealt with again.
        assert_eq!(stands(&at(12), false), Standing::Behind { next_ms: 12 * MINUTE });
        assert_eq!(stands(&schedule(None), false), Standing::Over);
        let failing = Schedule { problem: Some("no module".into()), ..at(10) };
        assert_eq!(stands(&failing, false), Standing::Failing("no module".into()));
        let paused = Schedule { paused: Some("by ana".into()), next_ms: None, ..failing };
        assert_eq!(stands(&paused, false), Standing::Paused("by ana".into()));
    }

    #[test]
    fn what_cannot_be_kept_is_said() {
        let spec = ScheduleSpec {
            cron: "* * * * *".into(),
            time_zone: "UTC".into(),
            input: Json::null(),
            overlap: Overlap::Skip,
            catch_up: 1,
            run_timeout_ms: None,
            tags: BTreeMap::new(),
        };
        let refused = |spec: ScheduleSpec| spec.checked(0).err().unwrap_or_default();
        assert_eq!(refused(spec.clone()), "");
        assert!(refused(ScheduleSpec { cron: "0 0 30 2 *".into(), ..spec.clone() }).contains("never fires"));
        assert!(refused(ScheduleSpec { catch_up: MAX_CATCH_UP + 1, ..spec.clone() }).contains("catchUp is 1001"));
        assert!(refused(ScheduleSpec { catch_up: 0, overlap: Overlap::Queue, ..spec.clone() }).contains("at least 1"));
        let tags = BTreeMap::from([("schedule".to_owned(), "x".to_owned())]);
        assert!(refused(ScheduleSpec { tags, ..spec }).contains("the schedule's own"));
    }
}
