//! How a schedule is shown.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::value::RawValue;
use stepwell_engine::schedule::{Fired, Overlap, Passed, Standing, Timetable, Why, run_key, spec_of, told_of};
use stepwell_engine::store::Schedule;
use utoipa::ToSchema;

use super::app::{App, now_ms};
use super::problem::{ApiCode, Problem};
use super::schedules::OverlapPolicy;
use super::views::raw;

/// A schedule. What does not apply is left out. Times are in ms since the Unix epoch.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Schedule)]
pub(crate) struct ScheduleView {
    /// Its name.
    name: String,
    /// Whose runs it starts.
    workflow: String,
    cron: String,
    time_zone: String,
    #[schema(value_type = Value)]
    input: Box<RawValue>,
    #[schema(value_type = OverlapPolicy)]
    overlap: Overlap,
    catch_up: u32,
    #[schema(required = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    run_timeout_ms: Option<u64>,
    tags: BTreeMap<String, String>,
    state: State,
    /// Why it is in this state, in words.
    #[schema(required = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    /// Since when it cannot start its run.
    #[schema(required = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    failing_since_ms: Option<u64>,
    /// The time that it is to deal with next; in the past where it waits or cannot start its run.
    #[schema(required = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    next_ms: Option<u64>,
    /// The last time for which there is a run.
    #[schema(required = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    last_fired: Option<LastFired>,
    /// The last time that was passed over.
    #[schema(required = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    last_skipped: Option<LastSkipped>,
    /// How many runs it has started.
    fired: u64,
    /// How many times it has passed over that were too late, or taken away; of one long time the first ten thousand are counted.
    missed: u64,
    /// How many times it has passed over because a run was open.
    overlapped: u64,
    created_at_ms: u64,
    /// When somebody last made it, replaced it, paused it or resumed it.
    changed_at_ms: u64,
    /// Who that was.
    changed_by: String,
    /// The times at which it fires; where one schedule is asked for.
    #[schema(required = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<Vec<Firing>>,
    #[serde(skip)]
    times: Timetable,
}

/// How a schedule stands.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = ScheduleState)]
pub(crate) enum State {
    /// It fires at its next time.
    Active,
    /// Its time has come, and a run of it is open, which has to end first.
    Waiting,
    /// Its time has come, and it could not start its run. It is tried again.
    Failing,
    /// It starts nothing until it is resumed.
    Paused,
    /// The clock was set back, or was ahead: it has dealt with the times up to its next one. Resuming it makes it begin from now.
    Behind,
    /// It has no time any more.
    Over,
}

/// A time at which a schedule fires.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Firing {
    at_ms: u64,
    /// The run key of the run that is started then.
    run_key: String,
}

/// A time for which there is a run.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LastFired {
    at_ms: u64,
    run: String,
    /// It had the run key of this time already, and nothing was started.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    existed: bool,
}

/// A time that was passed over.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LastSkipped {
    at_ms: u64,
    reason: SkipReason,
}

/// Why a time was passed over.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SkipReason {
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

impl From<Why> for SkipReason {
    fn from(why: Why) -> Self {
        match why {
            Why::Missed => Self::Missed,
            Why::Failed => Self::Failed,
            Why::Overlap => Self::Overlap,
            Why::Paused => Self::Paused,
            Why::Replaced => Self::Replaced,
        }
    }
}

/// Schedules in a list.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Schedules {
    /// In the order of their names.
    pub(crate) schedules: Vec<ScheduleView>,
    /// Gives the next page, where there is one.
    #[schema(required = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cursor: Option<String>,
}

/// A schedule as it is now.
pub(crate) fn view(app: &App, row: &Schedule) -> Result<ScheduleView, Problem> {
    let (spec, told) = (spec_of(row)?, told_of(row)?);
    let times = spec.timetable().map_err(|text| Problem::new(ApiCode::Internal, text))?;
    let open = spec.overlap == Overlap::Queue && app.reads().has_open_run(&row.name)?;
    let (state, detail) = state(Standing::of(row, &times, now_ms(), open));
    Ok(ScheduleView {
        name: row.name.clone(),
        workflow: row.workflow.clone(),
        cron: spec.cron,
        time_zone: spec.time_zone,
        input: raw(spec.input.as_str()),
        overlap: spec.overlap,
        catch_up: spec.catch_up,
        run_timeout_ms: spec.run_timeout_ms,
        tags: spec.tags,
        state,
        detail,
        failing_since_ms: told.problem_since_ms,
        next_ms: row.next_ms,
        last_fired: told.last.map(|Fired { at_ms, run, existed }| LastFired { at_ms, run, existed }),
        last_skipped: told.passed.map(|Passed { at_ms, why }| LastSkipped { at_ms, reason: why.into() }),
        fired: told.fired,
        missed: told.missed,
        overlapped: told.overlapped,
        created_at_ms: told.created_at_ms,
        changed_at_ms: told.changed_at_ms,
        changed_by: told.changed_by,
        next: None,
        times,
    })
}

fn state(standing: Standing) -> (State, Option<String>) {
    match standing {
        Standing::Active => (State::Active, None),
        Standing::Waiting => {
            (State::Waiting, Some("a run of it is open; the next is started once that has ended".into()))
        }
        Standing::Failing(why) => (State::Failing, Some(why)),
        Standing::Paused(why) => (State::Paused, Some(why)),
        Standing::Behind { .. } => {
            let text = "the clock was set back, or was ahead: it has dealt with the times up to its next one. Resume it to begin from now";
            (State::Behind, Some(text.into()))
        }
        Standing::Over => (State::Over, Some("its cron expression has no time any more".into())),
    }
}

impl ScheduleView {
    /// With the times at which it fires after this one.
    pub(crate) fn with_next(mut self, count: usize, after_ms: u64) -> Self {
        let following = std::iter::successors(self.times.after(after_ms), |at_ms| self.times.after(*at_ms));
        let firing = |at_ms| Firing { at_ms, run_key: run_key(&self.name, at_ms) };
        self.next = Some(following.take(count).map(firing).collect());
        self
    }
}
