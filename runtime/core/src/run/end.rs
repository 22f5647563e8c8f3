//! How a run ends: its function returns, or the host ends it. Either way its open attempts are settled first.

use super::attempt::{Closing, Stage, Why};
use super::guest::Owner;
use super::machine::{Machine, Mode, Output};
use crate::contract::Operation;
use crate::error::{Code, Error};
use crate::fault::{Fault, planted};
use crate::journal::entry::{Record, RunOutcome};
use crate::json::Json;
use crate::limits;

impl Machine {
    pub(super) fn returned(&mut self, result: Result<Json, Error>, now_ms: u64, random: u64) {
        if let Some(recorded) = self.next_recorded_text() {
            let came = match &result {
                Ok(_) => "the workflow's end, with a result".to_owned(),
                Err(error) => format!("the workflow's end, with the error {error}"),
            };
            self.differs(&recorded, &came);
            return;
        }
        let result = match result {
            Ok(value) if value.len() > limits::MAX_VALUE_BYTES => {
                let (len, max) = (value.len(), limits::MAX_VALUE_BYTES);
                let text = format!("the workflow's result has {len} bytes of JSON; at most {max} can be recorded");
                Err(Error::new(Code::ResultTooLarge, text).never_retried())
            }
            other => other,
        };
        if self.mode == Mode::Verify {
            self.verify_end(&result);
            return;
        }
        self.frontier(now_ms, random);
        let continued = self.state.continued.is_some();
        let outcome = match (result, &self.state.cancel) {
            (Ok(_), Some(reason)) if continued && !planted(Fault::ContinueCancelled) => {
                RunOutcome::Cancelled(reason.clone())
            }
            (Ok(_), _) if continued => RunOutcome::Continued(self.id_of_next(now_ms)),
            (Ok(value), _) => RunOutcome::Succeeded(value),
            (Err(error), Some(reason)) => RunOutcome::Cancelled(reason.clone().with_failed_cleanup(error)),
            (Err(error), None) => RunOutcome::Failed(error.bounded()),
        };
        self.end(outcome, true, now_ms, random);
    }

    /// Ends the run from outside its code.
    pub(super) fn fail(&mut self, error: Error, now_ms: u64, random: u64) {
        self.end(RunOutcome::Failed(error.bounded()), false, now_ms, random);
    }

    pub(super) fn end(&mut self, outcome: RunOutcome, returned: bool, now_ms: u64, random: u64) {
        if self.ending.is_some() {
            return;
        }
        self.ending = Some((outcome, returned));
        let open: Vec<Operation> = self.live.keys().copied().collect();
        for op in open {
            let error = Error::new(Code::Cancelled, "the run ended before this attempt did").never_retried();
            self.close_attempt(op, Closing { error, why: Why::RunEnd }, now_ms, random);
        }
        self.end_if_nothing_open(now_ms);
    }

    pub(super) fn end_if_nothing_open(&mut self, now_ms: u64) {
        if !self.live.is_empty() && !planted(Fault::EndTooEarly) || self.stopped.is_some() {
            return;
        }
        if let Some((outcome, returned)) = self.ending.take() {
            self.told.clear();
            self.record(now_ms, Record::Ended { outcome: outcome.clone(), returned });
            self.go_on_in_another(&outcome);
            self.outputs.push(Output::Finished(outcome));
        }
    }

    /// The guest has nothing to run and is not in `next`: nothing will ever wake it.
    pub(super) fn idle(&mut self, now_ms: u64, random: u64) {
        if let Some(recorded) = self.next_recorded_text() {
            self.differs(&recorded, "a guest that waits for nothing");
            return;
        }
        self.frontier(now_ms, random);
        let text = "the guest has nothing to run and does not wait for an event: nothing can wake it";
        self.deadlock(text, now_ms, random);
    }

    pub(super) fn deadlock(&mut self, text: &str, now_ms: u64, random: u64) {
        if self.mode == Mode::Verify {
            self.differs("the run's end", "a guest that waits");
            return;
        }
        self.fail(Error::new(Code::Deadlock, text).never_retried(), now_ms, random);
    }

    /// The instance is gone. What it ran is lost, whatever the host carries to its settlement for it.
    pub(super) fn trapped(&mut self, error: Error, now_ms: u64, random: u64) {
        if self.ending.is_some() {
            return;
        }
        let owner = self.guest.owner;
        if self.mode == Mode::Verify {
            self.differs("a turn that ended", &error.to_string());
            return;
        }
        let of_the_host = error.is(Code::Internal) && self.live.is_empty();
        if of_the_host || !self.guest.live && !self.at_frontier() {
            // Not the code's failure but the host's: it had no room for the instance, or the same turn ended well before.
            self.outputs.push(Output::Rebuild);
            return;
        }
        if owner == Owner::Workflow {
            self.frontier(now_ms, random);
            self.lose_bodies(None, &error, now_ms, random);
            self.fail(error, now_ms, random);
            return;
        }
        let Owner::Body(owner) = owner else { return };
        self.lose_bodies(Some(owner.operation), &error, now_ms, random);
        if self.stopped.is_none() {
            self.outputs.push(Output::Rebuild);
        }
    }

    /// Closes what ran in the instance: the owner of the turn by its error, the others as lost.
    fn lose_bodies(&mut self, owner: Option<Operation>, error: &Error, now_ms: u64, random: u64) {
        self.told.clear();
        if let Some(owner) = owner {
            self.alone_from_now(owner);
        }
        let open: Vec<Operation> = self.live.keys().copied().collect();
        for op in open {
            let Some(live) = self.live.get(&op) else { continue };
            let executing = matches!(live.stage, Stage::Executing);
            let overdue = now_ms >= live.deadline_ms;
            let (error, why) = match owner {
                Some(owner)
                    if owner == op && (error.is(Code::StepTimeout) || error.is(Code::TurnTimeout) && overdue) =>
                {
                    let n = live.n;
                    (self.timeout_error(op, n), Why::Trapped)
                }
                Some(owner) if owner == op => (error.clone(), Why::Trapped),
                _ => {
                    let by = if owner.is_some() { "another step's body" } else { "the workflow's own code" };
                    let text = format!("{by} took the instance down ({})", error.code);
                    (Error::new(Code::InvocationLost, text), Why::Lost)
                }
            };
            if executing {
                self.close_attempt(op, Closing { error, why }, now_ms, random);
            }
        }
    }

    /// A body that took the instance down after its attempt was closed: the step's next attempt must be alone all the same. Where
    /// the attempt's end is recorded already, this holds in memory; a restart gives every attempt a new instance anyway.
    fn alone_from_now(&mut self, op: Operation) {
        match self.live.get_mut(&op).map(|live| &mut live.stage) {
            Some(Stage::Closing(closing)) if closing.why == Why::Deadline => closing.why = Why::Trapped,
            Some(_) => {}
            None => self.state.alone_next(op),
        }
    }

    /// What an attempt fails with that ran past its deadline.
    pub(super) fn timeout_error(&self, op: Operation, n: u32) -> Error {
        let Some(step) = self.state.step(op) else { return Error::new(Code::StepTimeout, "the attempt took too long") };
        let (id, ms) = (&step.begun.step, step.begun.timeout_ms);
        Error::new(Code::StepTimeout, format!("attempt {n} of step {:?} did not end within {ms} ms", id.to_string()))
    }
}
