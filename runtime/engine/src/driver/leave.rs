//! How a run's task leaves it: parked, paused, stopped with the engine, set aside, or after a failure of the store.

use stepwell_core::error::{Code, Error};
use stepwell_core::ids::StepId;
use stepwell_core::run::{Activity, Awaited, Input};
use stepwell_store::{RunChange, Status, StoreError};

use super::{Driver, End};
use crate::clock::real_now_ms;
use crate::effects::store_error;
use crate::fault::{Fault, planted};
use crate::long::come_back;
use crate::points::Moment;
use crate::watch::RunEvent;

impl Driver {
    /// Gives the instance up where replay brings it back for less than keeping it costs. Says whether that was all.
    pub(super) async fn park_if_idle(&mut self) -> bool {
        if !self.drives() && self.invocation.is_none() && !self.shared.lock().machine.is_ending() {
            return self.leave_alone().await;
        }
        let activity = {
            let shared = self.shared.lock();
            let machine = &shared.machine;
            if machine.can_park() || machine.ended().is_some() { Some(machine.activity()) } else { None }
        };
        let Some(activity) = activity else { return false };
        if let Activity::Waiting { what: Awaited::Sleep, until_ms: Some(until_ms) } = activity
            && self.engine.settings().skip_sleeps
        {
            self.shared.lock().clock.skip_to(until_ms);
            self.time();
            self.handle(Input::Quiet);
            return true;
        }
        let due = self.due();
        let near =
            real_now_ms().saturating_add(u64::try_from(self.engine.settings().keep_quiet.as_millis()).unwrap_or(0));
        if due.is_some_and(|due| due <= near) {
            return false;
        }
        let now_ms = real_now_ms();
        let (change, event, end) = match activity {
            Activity::Blocked(steps) => {
                let mut change = RunChange::to(Status::Blocked, now_ms);
                change.detail = unknown_text(&steps);
                // The run's own time-out still counts.
                change.wake_at_ms = due;
                (change, RunEvent::Blocked(steps), End::Parked { wake_at_ms: due })
            }
            Activity::Waiting { what, until_ms } => {
                let mut change = RunChange::to(Status::Waiting, now_ms);
                let what = what.to_string();
                let unknown = unknown_text(&self.shared.lock().machine.unknown_steps());
                change.detail =
                    Some([Some(what.clone()), unknown].into_iter().flatten().collect::<Vec<_>>().join("; "));
                change.wake_at_ms = due;
                (change, RunEvent::Waiting { what, until_ms: due.or(until_ms) }, End::Parked { wake_at_ms: due })
            }
            Activity::Paused => {
                let text = self.shared.lock().machine.pause_text().unwrap_or_default();
                let mut change = RunChange::to(Status::Paused, now_ms);
                change.detail = Some(text.clone());
                (change, RunEvent::Paused(Error::new(Code::Paused, text)), End::Done)
            }
            // It was over before this task began.
            Activity::Ended => return self.leave_alone().await,
            _ => return false,
        };
        let mut change = change;
        change.inbox_seen = Some(self.shared.lock().machine.last_event().max(self.inbox_seen));
        self.writing.change(change, Some(event));
        // Before the run is left: whoever takes it up next reads its journal from the disk.
        if !planted(Fault::ParkBeforeDurable) && !self.durable().await {
            return true;
        }
        self.points().pass(Moment::Parking).await;
        // Under the lock that senders of messages take: either the message is seen here, or its sender sees that the task is gone.
        if let Err(message) = self.engine.leave(self.key, &mut self.messages) {
            if self.invocation.is_some() {
                self.writing.change(RunChange::to(Status::Running, real_now_ms()), None);
            }
            self.take(message);
            if self.invocation.is_some() {
                self.handle(Input::Quiet);
            }
            return true;
        }
        self.invocation = None;
        self.end = Some(end);
        true
    }

    /// Leaves a run as it stands: whoever made this task wanted an answer, and the run has nothing to do on account of it.
    async fn leave_alone(&mut self) -> bool {
        if !self.durable().await {
            return true;
        }
        match self.engine.leave(self.key, &mut self.messages) {
            Ok(()) => {
                self.await_turn();
                self.end = Some(End::Done);
            }
            Err(message) => self.take(message),
        }
        true
    }

    pub(super) fn stop_is_due(&self) -> bool {
        self.stop_at.is_some_and(|at| real_now_ms() >= at)
    }

    /// The engine stops, and nothing of the run is under way any more, or its grace is over.
    pub(super) fn must_stop(&self) -> bool {
        self.stop_is_due() || self.stop_at.is_some() && !self.shared.lock().machine.has_attempts_under_way()
    }

    /// Leaves the run where it is. What is still under way is lost with the process, and the journal says so.
    pub(super) async fn stop(&mut self) {
        self.invocation = None;
        self.end = Some(End::Done);
        // What is paused or over stays so; what nothing was done with stays where it is.
        let stays = {
            let shared = self.shared.lock();
            shared.machine.is_paused() || shared.machine.ended().is_some()
        };
        if stays || !self.drives() {
            self.writing.hand_over_any(real_now_ms());
            return;
        }
        let mut change = RunChange::to(Status::Queued, real_now_ms());
        change.detail = Some("stopped with its process; it goes on when it is resumed".to_owned());
        self.writing.change(change, Some(RunEvent::Parked));
        self.writing.hand_over(real_now_ms());
    }

    pub(super) fn pause(&mut self, error: &Error) {
        let mut change = RunChange::to(Status::Paused, real_now_ms());
        change.detail = Some(error.to_string());
        self.writing.change(change, Some(RunEvent::Paused(error.clone())));
        self.end = Some(End::Done);
    }

    pub(super) async fn set_aside(&mut self, error: Error) {
        self.pause(&error);
        self.writing.hand_over(real_now_ms());
        let _ = self.durable().await;
    }

    /// Waits until everything handed over is on disk.
    pub(super) async fn durable(&mut self) -> bool {
        let Some(ticket) = self.writing.hand_over_any(real_now_ms()) else { return true };
        // Whoever waits may commit for all.
        come_back().await;
        match self.engine.store().durable(ticket).await {
            Ok(()) => true,
            Err(error) => {
                self.store_failed(&error);
                false
            }
        }
    }

    /// Nothing that followed the lost write may be shown or sent. The run goes on from its journal once the store takes it again.
    pub(super) fn store_failed(&mut self, error: &StoreError) {
        self.later(&store_error(error));
    }

    /// Gives the run up for now, for a cause that is none of its own: it is taken up anew in a while.
    pub(super) fn later(&mut self, error: &Error) {
        tracing::error!(run = self.key, %error, "the run cannot go on for now; it is taken up again in a while");
        self.invocation = None;
        self.engine.watchers().tell(self.key, &RunEvent::Paused(error.clone()));
        self.end = Some(End::Later);
    }
}

/// What people are told of steps whose outcome is unknown; nothing where there are none.
pub(crate) fn unknown_text(steps: &[StepId]) -> Option<String> {
    let names: Vec<String> = steps.iter().map(ToString::to_string).collect();
    (!names.is_empty()).then(|| format!("the outcome of step {} is unknown", names.join(", ")))
}
