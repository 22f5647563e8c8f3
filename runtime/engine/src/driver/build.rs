//! Getting an instance: a place among the live ones, the module, and the replay's beginning on record.
//!
//! A rebuild is recorded before it begins, so that a run which takes the process down with it is counted and set aside in the end.
//! Only a few are rebuilt at a time (`rebuild.rs`).

use std::future::Future;

use stepwell_core::error::Error;
use stepwell_host::Invocation;
use stepwell_store::{RunChange, Status};

use super::{Driver, End, until};
use crate::clock::real_now_ms;
use crate::commands::Shared;
use crate::drive::passes;
use crate::effects::Outside;
use crate::points::Moment;
use crate::ready::Told;

impl Driver {
    /// Whether the run cannot go on without an instance. One that has ended, is ending or is paused has nothing for it to do.
    pub(super) fn needs_instance(&self) -> bool {
        let shared = self.shared.lock();
        let machine = &shared.machine;
        self.drives() && machine.ended().is_none() && !machine.is_ending() && !machine.is_paused()
    }

    /// Whether this task is to go on with the run; else somebody only wanted an answer.
    pub(super) fn drives(&self) -> bool {
        self.wanted && self.engine.settings().drives
    }

    /// There may be something to do. Not for a run that a person has to take up, nor before its time to begin.
    pub(super) fn want(&mut self) {
        if self.set_aside || self.rests_until().is_some() {
            return;
        }
        if self.may_begin() {
            self.wanted = true;
        } else {
            self.before_its_turn();
        }
    }

    /// When a run begins that was started for later.
    pub(super) fn rests_until(&self) -> Option<u64> {
        self.begins_at.filter(|at_ms| *at_ms > real_now_ms())
    }

    /// Makes an instance. A rebuild is durable before it, so that a run which takes the process down with it is counted.
    pub(super) async fn build(&mut self) {
        self.event = None;
        // It may be long until there is an instance.
        self.writing.hand_over_any(real_now_ms());
        if !self.take_place().await {
            return;
        }
        if let Err(error) = self.load().await {
            if passes(&error) {
                let mut change = RunChange::to(Status::Queued, real_now_ms());
                change.detail = Some(error.to_string());
                self.writing.change(change, None);
                self.writing.hand_over(real_now_ms());
                self.later(&error);
            } else {
                self.set_aside(error).await;
            }
            return;
        }
        if !self.take_share().await {
            return;
        }
        self.disarm();
        self.begins_at = None;
        if self.writing.status() != Status::Running {
            self.writing.change(RunChange::to(Status::Running, real_now_ms()), None);
        }
        if std::mem::take(&mut self.fresh) {
            self.shared.lock().machine.begin();
        } else {
            if !self.turn_comes().await {
                return;
            }
            let resumed = {
                let mut shared = self.shared.lock();
                let Shared { machine, clock, .. } = &mut *shared;
                let spared = std::mem::take(&mut self.by_hand) || self.engine.later().tries(self.key);
                machine.resume(clock.now_ms(), spared)
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
        let (Some(module), Some(share)) = (&self.module, &self.share) else { return };
        let commands = Box::new(self.shared.clone());
        self.invocation = Some(Invocation::new(self.engine.host(), module, share.clone(), commands, &workflow, &input));
    }

    /// Takes a place among live instances. `false`: there is none now. The run is taken up again when there is, from its journal, so
    /// that nothing of it need be in memory meanwhile; or it was told something, and may need none any more.
    async fn take_place(&mut self) -> bool {
        if self.place.is_none() {
            self.place = self.engine.place_at_once(self.stood);
        }
        // Whoever is told to stop is not taken up again.
        if self.place.is_none() && self.stop_at.is_none() && self.durable().await {
            let told = Told { woken: true, fresh: self.fresh, admitted: false, by_hand: self.by_hand };
            match self.engine.leave_for_place(self.key, &mut self.messages, self.stood, told) {
                Ok(()) => self.end = Some(End::Waits),
                Err(message) => self.take(message),
            }
        }
        self.place.is_some()
    }

    async fn take_share(&mut self) -> bool {
        if let (None, Some(module)) = (&self.share, self.module.clone()) {
            let engine = self.engine.clone();
            self.share = self.hearing(async move { module.admit(engine.host()).await }).await;
        }
        self.share.is_some()
    }

    /// Waits, and hears meanwhile what the run is told. `None`: it does not need any more what it waited for.
    pub(super) async fn hearing<T>(&mut self, awaited: impl Future<Output = T>) -> Option<T> {
        let mut awaited = std::pin::pin!(awaited);
        loop {
            tokio::select! {
                biased;
                message = self.messages.recv() => {
                    if let Some(message) = message {
                        self.take(message);
                        self.writing.hand_over_any(real_now_ms());
                    }
                    if self.end.is_some() || self.stop_at.is_some() || !self.needs_instance() {
                        return None;
                    }
                }
                done = &mut awaited => return Some(done),
                () = until(self.stop_at) => return None,
            }
        }
    }

    /// The run's module, and what its workflow may reach.
    async fn load(&mut self) -> Result<(), Error> {
        if self.module.is_some() {
            return Ok(());
        }
        let (digest, name) = {
            let shared = self.shared.lock();
            (shared.machine.digest().clone(), shared.machine.started().workflow.clone())
        };
        let loaded = self.engine.loaded(&digest).await?;
        let workflow = loaded.workflow(Some(&name))?;
        self.shared.lock().outside = Outside {
            client: self.engine.client().clone(),
            destinations: self.engine.reach().of(workflow)?,
            secrets: workflow.secrets.clone(),
        };
        self.module = Some(loaded.module.clone());
        self.workflows = Some(loaded.workflows.clone());
        self.lengths = loaded.lengths.clone();
        Ok(())
    }

    /// The time at which the run was to be woken is of no use any more.
    pub(super) fn disarm(&mut self) {
        if let Some(at_ms) = self.armed.take() {
            self.engine.timers().remove(&(at_ms, self.key));
        }
    }
}
