//! Making a run's instance, and building it again from the journal.
//!
//! A rebuild is recorded before it begins, so that a run which takes the process down with it is counted and set aside in the end.
//! Only a few are rebuilt at a time: a process that dies soon after its start, for whatever reason, then counts against those few
//! and not against every run that was under way.

use stepwell_host::Invocation;

use super::Driver;
use crate::commands::Shared;
use crate::points::{Moment, Points};

impl Driver {
    /// Makes an instance. A rebuild is durable before it, so that a run which takes the process down with it is counted.
    pub(super) async fn build(&mut self) {
        self.event = None;
        if !std::mem::take(&mut self.fresh) {
            if !self.turn_comes().await {
                return;
            }
            let resumed = {
                let mut shared = self.shared.lock();
                let Shared { machine, clock, .. } = &mut *shared;
                machine.resume(clock.now_ms(), std::mem::take(&mut self.by_hand))
            };
            if let Err(error) = resumed {
                self.set_aside(error).await;
                return;
            }
            self.carry_out();
            if !self.durable().await {
                return;
            }
            self.points().pass(Moment::Rebuilt).await;
            // What came while the run was left alone came before what falls due now.
            if self.inbox {
                self.read_inbox();
            }
        }
        let (workflow, input) = {
            let shared = self.shared.lock();
            let started = shared.machine.started();
            (started.workflow.clone(), started.input.clone())
        };
        let commands = Box::new(self.shared.clone());
        self.invocation =
            Some(Invocation::new(self.engine.host(), &self.module, self.share.clone(), commands, &workflow, &input));
    }

    /// Waits for a place among those that are rebuilt. Not if the run is to be left meanwhile.
    async fn turn_comes(&mut self) -> bool {
        // A rebuild that did not come to its end holds one still.
        self.rebuilding = None;
        let places = self.engine.rebuilds().clone();
        let mut place = std::pin::pin!(places.acquire_owned());
        loop {
            tokio::select! {
                biased;
                place = &mut place => {
                    // The engine never closes it.
                    self.rebuilding = place.ok();
                    return true;
                }
                message = self.messages.recv() => {
                    if let Some(message) = message {
                        self.take(message);
                    }
                }
            }
            if self.end.is_some() || self.must_stop() {
                return false;
            }
        }
    }

    /// A run that has come to its journal's end makes room for the next.
    pub(super) fn rebuilt(&mut self) {
        if self.rebuilding.is_some() && (self.end.is_some() || self.shared.lock().machine.is_live()) {
            self.rebuilding = None;
        }
    }

    /// Whether all that the instance holds now is in the journal.
    pub(super) fn can_be_dropped(&self) -> bool {
        let shared = self.shared.lock();
        shared.machine.is_live() && !shared.machine.has_attempts_under_way() && !shared.machine.is_ending()
    }

    pub(super) fn points(&self) -> &Points {
        &self.engine.settings().points
    }
}
