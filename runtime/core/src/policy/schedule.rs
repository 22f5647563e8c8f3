//! What a schedule does when times of it have come: fire for one, pass some over, or wait. Which times those are, and whether a run of
//! it is open, are arguments; when it fires at all is the business of whoever knows calendars.

use serde::{Deserialize, Serialize};

use super::fault::{Fault, planted};

/// The most times that are made up for.
pub const MAX_CATCH_UP: u32 = 1_000;
/// How late a firing may be where nothing is made up for, in ms.
pub const ON_TIME_MS: u64 = 60_000;

/// What becomes of a firing while a run of the schedule is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Overlap {
    /// It is passed over.
    #[default]
    Skip,
    /// It waits until that run has ended.
    Queue,
    /// Both run.
    Allow,
}

/// The times of a schedule that have come and were not dealt with.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Come {
    /// The latest of them, the earliest first; as many as are made up for, and one at least where there is one.
    pub latest_ms: Vec<u64>,
    /// How many there are before those.
    pub earlier: u64,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// No time has come.
    Rest,
    /// A run is started for this time. Those before it, so many, were missed.
    Fire {
        /// The time, in ms since the Unix epoch.
        at_ms: u64,
        /// Times that came before it, and are too late.
        missed: u64,
    },
    /// No run is started for any time up to this one, itself included.
    Pass {
        /// The last of them.
        through_ms: u64,
        /// Times that are too late.
        missed: u64,
        /// Times for which a run was open.
        overlapped: u64,
    },
    /// A run is open, and has to end first.
    Wait,
}

/// Decides. `catch_up`: how many of the times that have come are made up for, the latest. `open`: whether a run of the schedule has not
/// ended.
#[must_use]
pub fn decide(come: &Come, now_ms: u64, catch_up: u32, overlap: Overlap, open: bool) -> Decision {
    let kept = come.latest_ms.len().min(catch_up.max(1) as usize);
    let (late, latest) = come.latest_ms.split_at(come.latest_ms.len() - kept);
    let missed = if planted(Fault::MissedForgotten) { 0 } else { come.earlier.saturating_add(late.len() as u64) };
    let (Some(&at_ms), Some(&through_ms)) = (latest.first(), latest.last()) else { return Decision::Rest };
    let at_ms = if planted(Fault::EarliestMadeUpFor) { come.latest_ms[0] } else { at_ms };
    let open = open && !planted(Fault::FireBesideAnOpenRun);
    if catch_up == 0 && now_ms.saturating_sub(at_ms) > ON_TIME_MS && !planted(Fault::FireHoweverLate) {
        return Decision::Pass { through_ms, missed: missed.saturating_add(1), overlapped: 0 };
    }
    match overlap {
        Overlap::Skip if open => {
            let overlapped = latest.len() as u64 - u64::from(planted(Fault::OverlapUncounted));
            Decision::Pass { through_ms, missed, overlapped }
        }
        Overlap::Queue if open => Decision::Wait,
        _ => Decision::Fire { at_ms, missed },
    }
}
