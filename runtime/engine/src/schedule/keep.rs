//! What people do with a schedule: make it, replace it, pause it, resume it, take it away. Each is written only over what was seen, and
//! tried anew where the schedule has fired meanwhile.

use stepwell_core::error::Error;
use stepwell_store::{Action, Answer, Schedule, StoreError, Submission};

use super::spec::{Passed, ScheduleSpec, Told, Why};
use super::times::Timetable;
use super::{spec_of, told_of};
use crate::clock::{random, wall_now_ms};
use crate::engine::Engine;

/// Who does it, and what is kept for a client's key in the commit that has it.
pub struct ScheduleBy<'a> {
    /// Who.
    pub by: &'a str,
    /// Made from the schedule as it is then, and whether it is new.
    pub answer: &'a (dyn Fn(&Schedule, bool) -> Option<Answer> + Send + Sync),
}

impl std::fmt::Debug for ScheduleBy<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScheduleBy").field("by", &self.by).finish_non_exhaustive()
    }
}

impl Engine {
    /// Makes a schedule, or replaces what one starts and when. One that gets other times goes on with the next of these, and what was due
    /// by then is passed over. Whether it is paused stays. To be given a checked spec. The schedule, and whether it is new.
    ///
    /// # Errors
    /// A schedule that cannot be read; those of the store.
    pub async fn put_schedule(
        &self,
        name: &str,
        workflow: &str,
        spec: &ScheduleSpec,
        by: &ScheduleBy<'_>,
    ) -> Result<(Schedule, bool), StoreError> {
        let text = serde_json::to_string(spec).map_err(|error| StoreError::Internal(error.to_string()))?;
        let times = spec.timetable().map_err(StoreError::Internal)?;
        loop {
            let now_ms = wall_now_ms();
            let known = self.store().read().schedule(name)?;
            let before = known.as_ref().map(|known| known.version);
            let (mut schedule, mut told) = match known {
                Some(known) if (known.workflow.as_str(), &known.spec) == (workflow, &text) => {
                    return self.answer(known, by).await.map(|known| (known, false));
                }
                Some(known) => (known.clone(), told_of(&known).map_err(corrupt)?),
                None => (fresh(name), Told { created_at_ms: now_ms, ..Told::default() }),
            };
            if before.is_none() {
                schedule.next_ms = times.after(now_ms);
            } else if schedule.paused.is_none() && !spec_of(&schedule).is_ok_and(|old| old.has_times_of(spec)) {
                let old = spec_of(&schedule).ok().and_then(|old| old.timetable().ok());
                pass_due(&mut told, old.as_ref(), schedule.next_ms, now_ms, Why::Replaced);
                schedule.next_ms = times.after(now_ms);
            }
            (schedule.workflow, schedule.spec) = (workflow.to_owned(), text.clone());
            match self.write_schedule(schedule, told, before, now_ms, by).await {
                Ok(schedule) => return Ok((schedule, before.is_none())),
                Err(StoreError::Outdated) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Pauses a schedule: what was due by then is passed over. One that is paused stays as it is.
    ///
    /// # Errors
    /// When there is no such schedule, or it cannot be read; those of the store.
    pub async fn pause_schedule(&self, name: &str, by: &ScheduleBy<'_>) -> Result<Schedule, StoreError> {
        self.change_schedule(name, by, |schedule, told, now_ms| {
            if schedule.paused.is_some() {
                return Ok(false);
            }
            let times = spec_of(schedule).ok().and_then(|spec| spec.timetable().ok());
            pass_due(told, times.as_ref(), schedule.next_ms, now_ms, Why::Paused);
            schedule.paused = Some(format!("it was paused by {:?}", by.by));
            schedule.next_ms = None;
            Ok(true)
        })
        .await
    }

    /// Resumes a schedule, from its next time on: what was due meanwhile is not made up for. For one that is not paused too: where the
    /// clock was set back, it no longer waits for the times that it has dealt with.
    ///
    /// # Errors
    /// When there is no such schedule, or it cannot be read; those of the store.
    pub async fn resume_schedule(&self, name: &str, by: &ScheduleBy<'_>) -> Result<Schedule, StoreError> {
        self.change_schedule(name, by, |schedule, _, now_ms| {
            let next_ms = spec_of(schedule).map_err(corrupt)?.timetable().map_err(StoreError::Corrupt)?.after(now_ms);
            let is_behind = schedule.next_ms.is_none_or(|at_ms| next_ms.is_some_and(|next_ms| next_ms < at_ms));
            if schedule.paused.is_none() && !is_behind {
                return Ok(false);
            }
            schedule.paused = None;
            schedule.next_ms = next_ms;
            Ok(true)
        })
        .await
    }

    /// Takes a schedule away. Its runs stay; what was due and waited does not fire.
    ///
    /// # Errors
    /// When there is no such schedule; those of the store.
    pub async fn remove_schedule(&self, name: &str) -> Result<(), StoreError> {
        let actions = vec![Action::RemoveSchedule(name.to_owned())];
        self.store().submit(Submission { actions, answer: None }).await.map(|_| ())
    }

    /// `change` answers whether there is anything to be written.
    async fn change_schedule(
        &self,
        name: &str,
        by: &ScheduleBy<'_>,
        change: impl Fn(&mut Schedule, &mut Told, u64) -> Result<bool, StoreError>,
    ) -> Result<Schedule, StoreError> {
        loop {
            let now_ms = wall_now_ms();
            let known = self.store().read().schedule(name)?;
            let mut schedule = known.ok_or_else(|| StoreError::NoSuchSchedule(name.to_owned()))?;
            let mut told = told_of(&schedule).map_err(corrupt)?;
            let before = schedule.version;
            if !change(&mut schedule, &mut told, now_ms)? {
                return self.answer(schedule, by).await;
            }
            match self.write_schedule(schedule, told, Some(before), now_ms, by).await {
                Err(StoreError::Outdated) => {}
                other => return other,
            }
        }
    }

    /// The schedule as it is, with the answer under the client's key.
    async fn answer(&self, schedule: Schedule, by: &ScheduleBy<'_>) -> Result<Schedule, StoreError> {
        if let Some(answer) = (by.answer)(&schedule, false) {
            self.store().submit(Submission { actions: Vec::new(), answer: Some(answer) }).await?;
        }
        Ok(schedule)
    }

    async fn write_schedule(
        &self,
        mut schedule: Schedule,
        mut told: Told,
        replaces: Option<u64>,
        now_ms: u64,
        by: &ScheduleBy<'_>,
    ) -> Result<Schedule, StoreError> {
        (told.changed_at_ms, told.changed_by) = (now_ms, by.by.to_owned());
        told.problem_since_ms = None;
        schedule.problem = None;
        written(&mut schedule, &told)?;
        let answer = (by.answer)(&schedule, replaces.is_none());
        let actions = vec![Action::PutSchedule { schedule: schedule.clone(), replaces }];
        self.store().submit(Submission { actions, answer }).await?;
        tracing::info!(
            schedule = schedule.name,
            by = by.by,
            paused = schedule.paused.is_some(),
            "a schedule was changed"
        );
        self.schedules_changed().notify_one();
        Ok(schedule)
    }
}

/// As it is to be written: with what has become of it, and a version that nothing else has.
pub(super) fn written(schedule: &mut Schedule, told: &Told) -> Result<(), StoreError> {
    schedule.told = serde_json::to_string(told).map_err(|error| StoreError::Internal(error.to_string()))?;
    schedule.version = new_version();
    Ok(())
}

/// A number as large as the store's are.
pub(super) fn new_version() -> u64 {
    random() >> 1
}

/// Counts what was due and does not fire any more.
fn pass_due(told: &mut Told, times: Option<&Timetable>, next_ms: Option<u64>, now_ms: u64, why: Why) {
    let (Some(times), Some(next_ms)) = (times, next_ms) else { return };
    let come = times.come(next_ms, now_ms, 1);
    if let Some(&at_ms) = come.latest_ms.last() {
        told.missed = told.missed.saturating_add(come.earlier + 1);
        told.passed = Some(Passed { at_ms, why });
    }
}

fn corrupt(error: Error) -> StoreError {
    StoreError::Corrupt(error.message)
}

fn fresh(name: &str) -> Schedule {
    Schedule {
        name: name.to_owned(),
        version: 0,
        workflow: String::new(),
        next_ms: None,
        paused: None,
        problem: None,
        spec: String::new(),
        told: String::new(),
    }
}
