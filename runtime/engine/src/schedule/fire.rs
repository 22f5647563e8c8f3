//! The task that fires schedules: one for all of them, resting until the next is due. Each firing is a task of its own, so that one
//! whose module has to be compiled holds up no other.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use stepwell_core::error::{Code, Error};
use stepwell_core::policy::schedule::{Decision, Overlap, decide};
use stepwell_store::{Action, NewRun, Schedule, StoreError, Submission};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::keep::{new_version, written};
use super::spec::{Fired, Passed, SCHEDULE_TAG, ScheduleSpec, Told, Why};
use super::{run_key, spec_of, told_of};
use crate::clock::wall_now_ms;
use crate::effects::store_error;
use crate::engine::Engine;
use crate::fault::{Fault, planted};
use crate::start::StartRun;

/// The longest rest: a clock that is set is noticed within it.
const LONGEST_REST: Duration = Duration::from_secs(10);
/// How soon one is looked at again that waits for its run's end.
const WAITS: Duration = Duration::from_millis(500);
/// The same for one that could not start its run.
const FAILED: Duration = Duration::from_secs(5);
/// Schedules that are looked at at once.
const AT_ONCE: usize = 16;

/// How a due schedule was left.
#[derive(Debug, Clone, Copy)]
enum Left {
    /// It has moved on, or is to be looked at anew.
    On,
    /// A run of it is open.
    Waiting,
    /// It could not start its run, and tries again.
    Failing,
}

/// Which schedules are being looked at, and which not yet again.
#[derive(Default)]
struct Looking {
    now: HashSet<String>,
    not_before: HashMap<String, Instant>,
    tasks: JoinSet<(String, Left)>,
}

impl Engine {
    /// Fires schedules from now on, until the engine is stopped. What was due while nobody did is made up for as each schedule says.
    pub fn keep_schedules(&self) {
        let weak = self.downgrade();
        let changed = self.schedules_changed().clone();
        tokio::spawn(async move {
            let mut looking = Looking::default();
            loop {
                let Some(engine) = weak.upgrade() else { return };
                if engine.is_closed() {
                    return;
                }
                let rest = engine.look_at_due(&mut looking);
                // Not held while this rests: whoever drops the engine closes the database with it.
                drop(engine);
                tokio::select! {
                    Some(done) = looking.tasks.join_next() => looking.took(done),
                    () = tokio::time::sleep(rest) => {}
                    // What somebody has changed may not be in anybody's way any more.
                    () = changed.notified() => looking.not_before.clear(),
                }
            }
        });
    }

    /// Looks at each schedule that is due and not being looked at. How long nothing is to be done then.
    fn look_at_due(&self, looking: &mut Looking) -> Duration {
        let now_ms = wall_now_ms();
        let read = self.store().read();
        let (due, next) = match read.due_schedules(now_ms).and_then(|due| Ok((due, read.next_schedule(now_ms)?))) {
            Ok(read) => read,
            Err(error) => {
                tracing::error!(%error, "schedules cannot be read; they are looked at again");
                return FAILED;
            }
        };
        let now = Instant::now();
        looking.not_before.retain(|_, until| *until > now);
        for name in due {
            if looking.now.len() >= AT_ONCE {
                break;
            }
            if !looking.not_before.contains_key(&name) && looking.now.insert(name.clone()) {
                let engine = self.clone();
                looking.tasks.spawn(async move {
                    let of = name.clone();
                    let fired = tokio::spawn(async move { engine.fire(&of).await }).await;
                    let left = fired.unwrap_or_else(|error| {
                        tracing::error!(schedule = name, %error, "a schedule's task was lost; it is looked at again");
                        Left::Failing
                    });
                    (name, left)
                });
            }
        }
        let again = looking.not_before.values().map(|until| until.saturating_duration_since(now)).min();
        let next = next.map(|at_ms| Duration::from_millis(at_ms.saturating_sub(now_ms)));
        again.into_iter().chain(next).fold(LONGEST_REST, Duration::min)
    }

    async fn fire(&self, name: &str) -> Left {
        match self.try_fire(name).await {
            Ok(left) => left,
            // Somebody has changed it since it was read: it is looked at anew.
            Err(StoreError::Outdated) => Left::On,
            Err(error) => {
                tracing::error!(schedule = name, %error, "a schedule cannot fire; it is tried again");
                self.counters().schedule_failed();
                Left::Failing
            }
        }
    }

    async fn try_fire(&self, name: &str) -> Result<Left, StoreError> {
        // Taken away meanwhile, or paused.
        let Some(schedule) = self.store().read().schedule(name)? else { return Ok(Left::On) };
        let (None, Some(next_ms)) = (&schedule.paused, schedule.next_ms) else { return Ok(Left::On) };
        let read = told_of(&schedule).and_then(|told| Ok((told, spec_of(&schedule)?)));
        let (told, spec) = match read {
            Ok(read) => read,
            Err(error) => return self.failing(schedule, None, &error).await,
        };
        let times = match spec.timetable() {
            Ok(times) => times,
            Err(text) => return self.failing(schedule, Some(told), &Error::new(Code::InvalidArgument, text)).await,
        };
        let now_ms = wall_now_ms();
        // Whether a run is open may change until this is written; but for the schedule's own, which its version tells of, only to less.
        let open = spec.overlap != Overlap::Allow && self.store().read().has_open_run(name)?;
        match decide(&times.come(next_ms, now_ms, spec.catch_up), now_ms, spec.catch_up, spec.overlap, open) {
            // It was to fire by other data of its zone: now it has another time.
            Decision::Rest => self.move_on(schedule, told, times.after(now_ms), None).await,
            Decision::Wait => Ok(Left::Waiting),
            Decision::Pass { through_ms, missed, overlapped } => {
                let why = if overlapped > 0 { Why::Overlap } else { late(&schedule) };
                self.counters().schedule_passed();
                let told = passed(&schedule, told, through_ms, (missed, overlapped), why);
                self.move_on(schedule, told, times.after(through_ms), None).await
            }
            Decision::Fire { at_ms, missed } => {
                // Before anything is counted: what cannot be started stays due, and those before it with it.
                let new = match self.run_of(&schedule, spec, at_ms).await {
                    Ok(new) => new,
                    Err(error) => return self.failing(schedule, Some(told), &error).await,
                };
                let told = match times.latest(next_ms, at_ms - 1).filter(|_| missed > 0) {
                    Some(last_ms) => {
                        self.counters().schedule_passed();
                        passed(&schedule, told, last_ms, (missed, 0), late(&schedule))
                    }
                    None => told,
                };
                self.start_for(schedule, told, new, (at_ms, times.after(at_ms))).await
            }
        }
    }

    /// Starts the run of a time, and moves the schedule on to the next.
    async fn start_for(
        &self,
        schedule: Schedule,
        mut told: Told,
        new: NewRun,
        (at_ms, then_ms): (u64, Option<u64>),
    ) -> Result<Left, StoreError> {
        let before = told.clone();
        told.fired += 1;
        told.last = Some(Fired { at_ms, run: new.run.to_string(), existed: false });
        match self.move_on(schedule.clone(), told, then_ms, Some(new)).await {
            // A run has this time's name: of a schedule of the same name that was taken away since, or somebody has given it that.
            Err(StoreError::RunKeyTaken(run)) => {
                tracing::warn!(schedule = schedule.name, %run, at_ms, "a run has the run key of this time; none is started");
                let last = Some(Fired { at_ms, run: run.to_string(), existed: true });
                self.move_on(schedule, Told { last, ..before }, then_ms, None).await
            }
            other => other,
        }
    }

    /// Keeps the schedule as it stands now, and with it the run that it starts: both or neither.
    async fn move_on(
        &self,
        mut schedule: Schedule,
        told: Told,
        then_ms: Option<u64>,
        new: Option<NewRun>,
    ) -> Result<Left, StoreError> {
        let replaces = schedule.version;
        let fires = new.is_some();
        schedule.next_ms = then_ms;
        // A time that has passed mends nothing.
        let told = if fires {
            schedule.problem = None;
            Told { problem_since_ms: None, ..told }
        } else {
            told
        };
        written(&mut schedule, &told)?;
        let moves_on = |schedule| Action::PutSchedule { schedule, replaces: Some(replaces) };
        let submit = |action| self.store().submit(Submission { actions: vec![action], answer: None });
        let action = match new {
            Some(run) if planted(Fault::FireApart) => {
                submit(Action::Start(run)).await?;
                moves_on(schedule)
            }
            Some(run) if planted(Fault::MoveOnFirst) => {
                submit(moves_on(schedule)).await?;
                Action::Start(run)
            }
            Some(run) => Action::Fire { schedule, replaces, run },
            None => moves_on(schedule),
        };
        let kept = submit(action).await?;
        kept.runs.iter().for_each(|run| self.let_begin(*run, None));
        if fires {
            self.counters().schedule_fired();
        }
        Ok(Left::On)
    }

    /// Whoever looks at the schedule sees why it starts nothing. What it is to start stays due.
    async fn failing(&self, mut schedule: Schedule, told: Option<Told>, error: &Error) -> Result<Left, StoreError> {
        self.counters().schedule_failed();
        let problem = Some(error.to_string());
        if schedule.problem != problem {
            tracing::error!(schedule = schedule.name, %error, "a schedule cannot start its run; it is tried again");
            let replaces = schedule.version;
            schedule.problem = problem;
            match told {
                Some(mut told) => {
                    told.problem_since_ms = told.problem_since_ms.or_else(|| Some(wall_now_ms()));
                    written(&mut schedule, &told)?;
                }
                None => schedule.version = new_version(),
            }
            let actions = vec![Action::PutSchedule { schedule, replaces: Some(replaces) }];
            self.store().submit(Submission { actions, answer: None }).await?;
        }
        Ok(Left::Failing)
    }

    async fn run_of(&self, schedule: &Schedule, spec: ScheduleSpec, at_ms: u64) -> Result<NewRun, Error> {
        let active = self.store().read().active_of(&schedule.workflow).map_err(|error| store_error(&error))?;
        let active = active.ok_or_else(|| {
            Error::new(Code::UnknownWorkflow, format!("no module is active for workflow {:?}", schedule.workflow))
        })?;
        let mut tags: Vec<(String, String)> = spec.tags.into_iter().collect();
        tags.push((SCHEDULE_TAG.to_owned(), schedule.name.clone()));
        self.prepare(StartRun {
            run_key: Some(run_key(&schedule.name, at_ms)),
            run_timeout_ms: spec.run_timeout_ms,
            tags,
            ..StartRun::new(active.digest, Some(schedule.workflow.clone()), spec.input)
        })
        .await
    }
}

impl Looking {
    /// Takes a firing's end in.
    fn took(&mut self, done: Result<(String, Left), tokio::task::JoinError>) {
        // One that was given up goes with all.
        let Ok((name, left)) = done else { return };
        self.now.remove(&name);
        let rest = match left {
            Left::On => return,
            Left::Waiting => WAITS,
            Left::Failing => FAILED,
        };
        self.not_before.insert(name, Instant::now() + rest);
    }
}

/// Why times that have come are too late.
fn late(schedule: &Schedule) -> Why {
    if schedule.problem.is_some() { Why::Failed } else { Why::Missed }
}

/// Counts times that were passed over, and says so.
fn passed(schedule: &Schedule, mut told: Told, at_ms: u64, (missed, overlapped): (u64, u64), why: Why) -> Told {
    tracing::warn!(schedule = schedule.name, missed, overlapped, ?why, "a schedule has passed over times of its");
    let missed = if planted(Fault::PassUncounted) { 0 } else { missed };
    told.missed = told.missed.saturating_add(missed);
    told.overlapped = told.overlapped.saturating_add(overlapped);
    told.passed = Some(Passed { at_ms, why });
    told
}
