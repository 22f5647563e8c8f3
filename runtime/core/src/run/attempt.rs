//! Attempts: how one starts, is answered, is closed, and what follows.
//!
//! An attempt is over for the journal when all its unsafe requests are settled: only then is it known what may have happened.

use std::collections::{BTreeMap, BTreeSet};

use super::guest::Owner;
use super::log::Room;
use super::machine::{Machine, Output, Told};
use super::state::Phase;
use crate::contract::{Attempt, AttemptKind, AttemptRef, EffectClass, Event, Exchange, Operation};
use crate::error::{Code, Error, Retryability};
use crate::fault::{Fault, planted};
use crate::journal::entry::{AttemptOutcome, Next, Record};
use crate::json::Json;
use crate::limits;
use crate::policy::effect::Outcome;
use crate::policy::key;
use crate::policy::retry::Verdict;

/// What belongs to an attempt while its body, or a request of it, is under way.
#[derive(Debug)]
pub(super) struct LiveAttempt {
    pub(super) n: u32,
    pub(super) deadline_ms: u64,
    pub(super) stage: Stage,
    pub(super) alone: bool,
    pub(super) open: BTreeMap<Exchange, Open>,
    /// Effects that this attempt has done, or was answered from the record for.
    pub(super) claimed: BTreeSet<u32>,
    /// Of these, those whose answers its body has been told.
    pub(super) heard: BTreeSet<u32>,
    /// An unsafe request was refused because of what may have happened, or may happen twice.
    pub(super) refused: bool,
    /// An effect's outcome turned out unknown after the body had answered.
    pub(super) untold: bool,
    /// The latest answer was 409 or 425 under a key whose outcome is unknown: the other side may still be at it.
    pub(super) still_at_it: bool,
    pub(super) log_lines: u32,
    pub(super) log: Room,
}

#[derive(Debug)]
pub(super) enum Stage {
    /// The body runs.
    Executing,
    /// The body has answered; its unsafe requests are awaited.
    Finishing(Result<Json, Error>),
    /// It was closed; its unsafe requests are awaited.
    Closing(Closing),
}

#[derive(Debug)]
pub(super) struct Closing {
    pub(super) error: Error,
    pub(super) why: Why,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// Its deadline passed.
    Deadline,
    /// A turn of its own took the instance down.
    Trapped,
    /// The instance was taken down by another.
    Lost,
    /// The run is cancelled, or the workflow closed the step.
    Closed,
    /// The run is at its end.
    RunEnd,
    /// The run is ended at once.
    Terminated,
}

/// An open exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Open {
    /// A request with a safe method.
    Safe,
    /// A request with any other: its effect.
    Unsafe(u32),
    Delay {
        due_ms: u64,
    },
}

impl LiveAttempt {
    fn new(n: u32, deadline_ms: u64, alone: bool) -> Self {
        Self {
            n,
            deadline_ms,
            stage: Stage::Executing,
            alone,
            open: BTreeMap::new(),
            claimed: BTreeSet::new(),
            heard: BTreeSet::new(),
            refused: false,
            untold: false,
            still_at_it: false,
            log_lines: 0,
            log: Room::of_turn("this attempt"),
        }
    }

    pub(super) fn has_unsafe_open(&self) -> bool {
        self.open.values().any(|open| matches!(open, Open::Unsafe(_)))
    }
}

impl Machine {
    /// Whether this step's attempt may share the instance with what runs in it now.
    pub(super) fn may_start(&self, op: Operation) -> bool {
        // One that must be alone comes first, lest others keep it waiting.
        match self.state.alone_ready.first() {
            _ if planted(Fault::ShareAfterTrap) => true,
            Some(_) => self.state.alone_ready.contains(&op) && self.live.is_empty(),
            None => !self.live.values().any(|live| live.alone),
        }
    }

    pub(super) fn start_attempt(&mut self, op: Operation, now_ms: u64) -> Option<Event> {
        let step = self.state.step(op)?;
        let (id, n, timeout_ms, alone) =
            (step.begun.step.clone(), self.state.next_attempt(step), step.begun.timeout_ms, step.alone);
        let operation_key = self.operation_key(step);
        let deadline_ms = now_ms.max(self.state.at_ms).saturating_add(timeout_ms);
        self.record(now_ms, Record::AttemptStarted { op, n, deadline_ms });
        self.live.insert(op, LiveAttempt::new(n, deadline_ms, alone));
        let attempt = AttemptRef { operation: op, number: n };
        self.guest.body_turn(attempt);
        Some(Event::Attempt(Attempt {
            id: attempt,
            kind: AttemptKind::Execute,
            idempotency_key: key::idempotency_key(self.run_id(), &id, self.epoch_in_keys(), n),
            operation_key,
            deadline_ms: Some(deadline_ms),
            unknown: Vec::new(),
        }))
    }

    /// The open attempt of that reference whose body may still act.
    pub(super) fn executing(&mut self, attempt: AttemptRef, closed: Code) -> Result<&mut LiveAttempt, Error> {
        let step = self.step_of(attempt.operation).map(ToString::to_string);
        let Some(step) = step else {
            let text = format!("operation {} is no step of this run", attempt.operation);
            return Err(Error::new(Code::UnknownOperation, text).never_retried());
        };
        let live = self.live.get_mut(&attempt.operation);
        live.filter(|live| live.n == attempt.number && matches!(live.stage, Stage::Executing)).ok_or_else(|| {
            let text = format!("attempt {} of step {step:?} is not open: it has ended, or was closed", attempt.number);
            Error::new(closed, text).never_retried()
        })
    }

    /// `step-finish`: the body answers its attempt.
    ///
    /// # Errors
    /// Refused for an attempt that is not open: a late answer is never recorded as a result.
    pub fn step_finish(
        &mut self,
        attempt: AttemptRef,
        outcome: Result<Json, Error>,
        now_ms: u64,
        random: u64,
    ) -> Result<(), Error> {
        if planted(Fault::LateFinish)
            && let Some(live) = self.live.get_mut(&attempt.operation)
        {
            live.stage = Stage::Executing;
            live.n = attempt.number.max(live.n);
        }
        self.executing(attempt, Code::AttemptClosed)?;
        let outcome = match outcome {
            Ok(value) if value.len() > limits::MAX_VALUE_BYTES => {
                let text = format!(
                    "the step's result has {} bytes of JSON; at most {} can be recorded. Keep large data elsewhere and \
                     return where it is",
                    value.len(),
                    limits::MAX_VALUE_BYTES
                );
                Err(Error::new(Code::ResultTooLarge, text).never_retried())
            }
            other => other,
        };
        let op = attempt.operation;
        // What has not been told yet was not known to the body when it answered.
        let untold = self.untold_unknown(op);
        self.drop_exchanges(op, false);
        if let Some(live) = self.live.get_mut(&op) {
            live.untold |= untold;
            live.stage = Stage::Finishing(outcome);
        }
        self.end_if_settled(op, now_ms, random);
        Ok(())
    }

    /// Whether an unsafe request of the attempt has ended in an unknown outcome that its body has not heard of.
    fn untold_unknown(&self, op: Operation) -> bool {
        let Some(step) = self.state.step(op) else { return false };
        self.told.iter().any(|told| match told {
            Told::Answered { op: of, effect: Some(effect), .. } => *of == op && step.is_unknown(*effect),
            _ => false,
        })
    }

    /// Closes an attempt from outside its body. The body is told, where it is still there.
    pub(super) fn close_attempt(&mut self, op: Operation, closing: Closing, now_ms: u64, random: u64) {
        let Some(live) = self.live.get_mut(&op) else { return };
        let attempt = AttemptRef { operation: op, number: live.n };
        // At a run's end, and when another took the instance down, requests are carried to their settlement: fewer unknowns.
        let carry = matches!(closing.why, Why::Lost | Why::RunEnd);
        let instance_gone = matches!(closing.why, Why::Lost | Why::Trapped);
        let executing = matches!(live.stage, Stage::Executing);
        if executing {
            live.stage = Stage::Closing(closing);
            self.guest.void |= self.guest.owner == Owner::Body(attempt);
        }
        // A result that was given stands; only its requests are waited for no longer.
        if executing && !instance_gone {
            self.told.retain(|told| !matches!(told, Told::Answered { op: of, .. } if *of == op));
            self.told.push_back(Told::Expired(attempt));
        }
        self.drop_exchanges(op, !carry);
        self.end_if_settled(op, now_ms, random);
    }

    /// Gives up the attempt's delays and safe requests; with `tear_down` its unsafe ones too, which then settle.
    pub(super) fn drop_exchanges(&mut self, op: Operation, tear_down: bool) {
        let Some(live) = self.live.get_mut(&op) else { return };
        let mut gone = BTreeSet::new();
        for (&exchange, &open) in &live.open {
            match open {
                Open::Delay { due_ms } => {
                    self.delays.remove(&(due_ms, exchange));
                    gone.insert(exchange);
                }
                Open::Safe => {
                    self.outputs.push(Output::Abort(exchange));
                    gone.insert(exchange);
                }
                Open::Unsafe(_) if tear_down => self.outputs.push(Output::Abort(exchange)),
                Open::Unsafe(_) => {}
            }
        }
        live.open.retain(|exchange, _| !gone.contains(exchange));
        for exchange in gone {
            self.exchange_over(exchange);
        }
    }

    /// Records the attempt's end, once nothing of it is under way.
    pub(super) fn end_if_settled(&mut self, op: Operation, now_ms: u64, random: u64) {
        if self.live.get(&op).is_none_or(|live| live.has_unsafe_open() || matches!(live.stage, Stage::Executing)) {
            return;
        }
        let Some(live) = self.live.remove(&op) else { return };
        self.told.retain(|told| !matches!(told, Told::Answered { op: of, .. } if *of == op));
        let (result, why) = match live.stage {
            Stage::Closing(closing) => (Err(closing.error), Some(closing.why)),
            Stage::Finishing(result) => (result, None),
            Stage::Executing => return,
        };
        let ended = Ended { refused: live.refused, untold: live.untold, still_at_it: live.still_at_it, why };
        self.end_attempt(op, live.n, result, &ended, now_ms, random);
        self.end_if_nothing_open(now_ms);
    }

    pub(super) fn end_attempt(
        &mut self,
        op: Operation,
        n: u32,
        result: Result<Json, Error>,
        ended: &Ended,
        now_ms: u64,
        random: u64,
    ) {
        let Some(step) = self.state.step(op) else { return };
        let (effect, doubted) = (step.begun.effect, step.doubted);
        let did = step.effects.iter().any(|e| e.outcome == Outcome::Done);
        // A request that was under way when its attempt was lost may have happened.
        let unknown = step.effects.iter().any(|e| e.in_flight && e.outcome != Outcome::Done) || step.has_unknown();
        let untold = ended.untold && !planted(Fault::AcceptUnheard);
        let result = match result {
            Ok(_) if effect != EffectClass::Repeatable && (ended.refused || untold) => Err(Error::new(
                Code::OutcomeUnknown,
                "the body answered while it was not known whether one of its requests had happened",
            )),
            other => other,
        };
        let outcome = match result {
            Ok(value) => AttemptOutcome::Succeeded(value),
            Err(error) => {
                let verdict = self.verdict(op, &error, ended, random);
                // The step may have been closed or cancelled after its body had failed, or while its requests were carried on.
                let (error, verdict) = match (verdict, self.abandoned(op)) {
                    _ if planted(Fault::RetryAbandoned) => (error, verdict),
                    (Verdict::RetryIn(_), Some(reason)) => (reason, Verdict::GiveUp),
                    (verdict, _) => (error, verdict),
                };
                let mut error = error.bounded();
                error.outcome_unknown = unknown;
                let may_harm = effect != EffectClass::Repeatable;
                let lost = matches!(ended.why, Some(Why::Lost | Why::Trapped | Why::Deadline | Why::Closed));
                let next = match verdict {
                    // What it did after the copy from which the run was restored is not known.
                    _ if may_harm && doubted => Next::Unknown,
                    _ if effect == EffectClass::Once && (unknown || ended.refused) => Next::Unknown,
                    _ if effect == EffectClass::Keyed && ended.refused => Next::Unknown,
                    Verdict::GiveUp if may_harm && unknown => Next::Unknown,
                    // Something was done, and its body did not come to say so: to call that a failure would have the workflow do
                    // it again in another way.
                    Verdict::GiveUp if may_harm && lost && did => Next::Unknown,
                    Verdict::GiveUp => Next::GiveUp,
                    Verdict::RetryIn(ms) => Next::Retry {
                        due_ms: now_ms.max(self.state.at_ms).saturating_add(ms),
                        alone: ended.why == Some(Why::Trapped),
                    },
                };
                AttemptOutcome::Failed { error, next }
            }
        };
        self.record(now_ms, Record::AttemptEnded { op, n, outcome });
    }

    fn verdict(&self, op: Operation, error: &Error, ended: &Ended, random: u64) -> Verdict {
        if matches!(ended.why, Some(Why::Closed | Why::RunEnd | Why::Terminated)) {
            return Verdict::GiveUp;
        }
        let Some(step) = self.state.step(op) else { return Verdict::GiveUp };
        let mut retryability = error.retryability;
        let told_to_wait = ended.still_at_it && error.is(Code::HttpStatus) && retryability == Retryability::Never;
        if told_to_wait || planted(Fault::RetryNonRetriable) {
            retryability = Retryability::Retry;
        }
        if planted(Fault::ClampRetryAfter)
            && let Retryability::AfterMs(ms) = &mut retryability
        {
            *ms = (*ms).min(step.begun.retry.max_ms);
        }
        let failure = step.failures + u32::from(!planted(Fault::ExtraAttempt));
        step.begun.retry.after_failure(failure, retryability, random)
    }

    /// Why a step is not attempted again, whatever became of its attempt: the run was cancelled, or the workflow closed it.
    pub(super) fn abandoned(&self, op: Operation) -> Option<Error> {
        let cancelled = self.state.cancel.clone().filter(|_| (op as usize) < self.state.cancelled_ops);
        let closed = self.state.ops.get(op as usize).is_some_and(|op| op.closed);
        cancelled
            .or_else(|| closed.then(|| Error::new(Code::Cancelled, "the workflow closed this step").never_retried()))
    }

    /// Attempts that the journal has open and no instance has: they are lost, and count.
    pub(super) fn end_lost_attempts(&mut self, now_ms: u64, random: u64) {
        for op in 0..self.state.ops.len() as Operation {
            let Some(Phase::Executing { n, .. }) = self.state.step(op).map(|step| step.phase) else { continue };
            if self.live.contains_key(&op) {
                continue;
            }
            let lost = "the process that executed this attempt ended before the attempt did";
            let (error, why) = match self.abandoned(op) {
                _ if self.state.terminate.is_some() => (self.gave_up_error(), Why::Terminated),
                Some(error) => (error, Why::Closed),
                None => (Error::new(Code::InvocationLost, lost), Why::Lost),
            };
            self.end_attempt(op, n, Err(error), &Ended { why: Some(why), ..Ended::default() }, now_ms, random);
        }
    }
}

/// How an attempt came to its end, beside its result.
#[derive(Debug, Default)]
pub(super) struct Ended {
    pub(super) refused: bool,
    pub(super) untold: bool,
    pub(super) still_at_it: bool,
    pub(super) why: Option<Why>,
}
