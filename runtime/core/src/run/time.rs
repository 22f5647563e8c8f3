//! What falls due: sleeps, waits, back-offs, deadlines, delays of bodies. Never before its time.

use super::attempt::{Closing, Open, Stage, Why};
use super::machine::{Machine, Mode, Told};
use super::state::{OpKind, Phase};
use crate::contract::{Answer, Operation};
use crate::fault::{Fault, planted};
use crate::journal::entry::Record;

impl Machine {
    /// When something falls due next, in ms since the Unix epoch.
    #[must_use]
    pub fn next_due_ms(&self) -> Option<u64> {
        let delay = self.delays.first().map(|(due, _)| *due);
        if self.state.ended.is_some() && !planted(Fault::TimerAfterEnd) {
            return None;
        }
        // What is left to do of a termination, after a restart.
        if self.is_terminating() && self.live.is_empty() {
            return Some(self.state.at_ms);
        }
        // While it replays, ends or is paused, only what is under way is looked at: nothing else is recorded then.
        if !self.guest.live || self.ending.is_some() || self.held(Fault::FireWhilePaused) {
            let deadlines = self.live.values().map(|live| live.deadline_ms).filter(|due| *due != u64::MAX);
            return deadlines.chain(delay).min();
        }
        [self.waits_until_ms(), delay].into_iter().flatten().min()
    }

    /// When the next thing falls due that the journal knows of, in ms since the Unix epoch: what a run without an instance waits for.
    #[must_use]
    pub fn waits_until_ms(&self) -> Option<u64> {
        let timer = self.state.timers.first().map(|(due, _)| *due);
        let run = self.state.started.deadline_ms.filter(|_| self.state.cancel.is_none());
        [timer, run].into_iter().flatten().min()
    }

    pub(super) fn time(&mut self, now_ms: u64, random: u64) {
        if self.mode == Mode::Verify {
            return;
        }
        self.delays_elapsed(now_ms);
        self.deadlines(now_ms, random);
        if self.is_terminating() && self.live.is_empty() {
            self.end_terminated(now_ms, random);
        }
        // Nothing else is recorded before the code has shown that it still is the run's.
        if self.guest.live && self.ending.is_none() && !self.held(Fault::FireWhilePaused) {
            self.fire_due(now_ms);
            if self.state.started.deadline_ms.is_some_and(|deadline| deadline <= now_ms) {
                self.run_timed_out(now_ms, random);
            }
        }
    }

    /// Whether none of the run's code has run.
    #[must_use]
    pub fn has_not_begun(&self) -> bool {
        !self.begun && self.state.script.is_empty()
    }

    /// A run that waits to begin has been open for as long as it may be: it is cancelled, and over. What has begun, is paused or is in
    /// time is left alone.
    pub fn expire_unbegun(&mut self, now_ms: u64, random: u64) {
        let overdue = self.state.started.deadline_ms.is_some_and(|deadline| deadline <= now_ms);
        let over = self.state.ended.is_some() || self.ending.is_some();
        if overdue && self.has_not_begun() && !over && !self.held(Fault::FireWhilePaused) {
            self.run_timed_out(now_ms, random);
        }
    }

    fn delays_elapsed(&mut self, now_ms: u64) {
        while let Some(&(due, exchange)) = self.delays.first().filter(|(due, _)| *due <= now_ms) {
            self.delays.remove(&(due, exchange));
            let Some(op) = self.exchange_over(exchange) else { continue };
            if let Some(live) = self.live.get_mut(&op)
                && matches!(live.open.remove(&exchange), Some(Open::Delay { .. }))
            {
                self.told.push_back(Told::Answered { op, exchange, effect: None, answer: Ok(Answer::Elapsed) });
            }
        }
    }

    /// Closes attempts whose deadline has passed. Once: what they wait for then is their requests' settlement.
    fn deadlines(&mut self, now_ms: u64, random: u64) {
        let overdue: Vec<Operation> =
            self.live.iter().filter(|(_, live)| live.deadline_ms <= now_ms).map(|(op, _)| *op).collect();
        for op in overdue {
            let Some(live) = self.live.get_mut(&op) else { continue };
            // Its timer has done its work; the deadline is not looked at again.
            live.deadline_ms = u64::MAX;
            let n = live.n;
            let executing = matches!(live.stage, Stage::Executing);
            self.state.disarm(op);
            if executing {
                let error = self.timeout_error(op, n);
                self.close_attempt(op, Closing { error, why: Why::Deadline }, now_ms, random);
            } else {
                self.drop_exchanges(op, true);
            }
        }
    }

    pub(super) fn fire_due(&mut self, now_ms: u64) {
        let early = if planted(Fault::EarlyTimer) { 3 } else { 0 };
        let due: Vec<(u64, Operation)> =
            self.state.timers.iter().copied().take_while(|(due, _)| *due <= now_ms.saturating_add(early)).collect();
        for (due, op) in due {
            match self.state.ops.get(op as usize).map(|op| &op.kind) {
                Some(OpKind::Sleep { .. }) => drop(self.record(now_ms, Record::TimerFired { op })),
                Some(OpKind::Wait { .. }) => drop(self.record(now_ms, Record::WaitExpired { op })),
                Some(OpKind::Step(step)) if matches!(step.phase, Phase::BackingOff { .. }) => {
                    self.state.timers.remove(&(due, op));
                    self.state.backed_off(op);
                }
                _ => {}
            }
        }
        if planted(Fault::EarlyAttempt) {
            for op in 0..self.state.ops.len() as Operation {
                if matches!(self.state.step(op).map(|step| step.phase), Some(Phase::BackingOff { .. })) {
                    self.state.backed_off(op);
                }
            }
        }
    }
}
