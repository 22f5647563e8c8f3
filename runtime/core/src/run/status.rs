//! What a run is doing, for people and for whoever decides whether its instance is still needed; and what is given to a quiet guest.

use super::machine::{Machine, Mode, Told};
use super::state::{OpKind, Phase, Ready, Step};
use crate::contract::{EffectClass, Event, Operation};
use crate::error::{Code, Error};
use crate::fault::{Fault, planted};
use crate::ids::{RunId, StepId};
use crate::journal::entry::Record;
use crate::limits;

/// What a run is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Activity {
    /// Its code or a body has something to do, or a request is under way.
    Running,
    /// It waits; nothing of it is in the instance that replay would not bring back.
    Waiting {
        /// For what, the nearest in time first.
        what: Awaited,
        /// Until when at the latest, in ms since the Unix epoch.
        until_ms: Option<u64>,
    },
    /// It needs steps of unknown outcome, and nothing else can wake it.
    Blocked(Vec<StepId>),
    /// A person has paused it, and nothing of it is under way.
    Paused,
    /// It is over.
    Ended,
    /// Its replay differed.
    Stopped,
}

/// What a run waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Awaited {
    /// A sleep's end.
    Sleep,
    /// An event of that name.
    Event(String),
    /// The next attempt of that step.
    Retry(StepId),
    /// The end of that child run.
    Child(RunId),
}

impl std::fmt::Display for Awaited {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Sleep => f.write_str("a sleep"),
            Self::Event(name) => write!(f, "event {name:?}"),
            Self::Retry(step) => write!(f, "the next attempt of step {step}"),
            Self::Child(run) => write!(f, "child run {run}"),
        }
    }
}

impl Machine {
    /// What the run is doing.
    #[must_use]
    pub fn activity(&self) -> Activity {
        if self.stopped.is_some() {
            return Activity::Stopped;
        }
        if self.state.ended.is_some() {
            return Activity::Ended;
        }
        if self.state.paused.is_some() && self.live.is_empty() && self.ending.is_none() {
            return Activity::Paused;
        }
        let own = !self.told.is_empty() || !self.state.errands.is_empty();
        let busy = !self.live.is_empty() || own || self.ending.is_some();
        if busy || !self.state.ready.is_empty() {
            return Activity::Running;
        }
        let timer = self.state.timers.first().copied();
        let timed = timer.and_then(|(due, op)| Some((self.awaited(op)?, Some(due))));
        let open = (0..self.state.ops.len() as Operation).filter(|op| self.state.ops[*op as usize].is_open());
        let untimed = || open.clone().find_map(|op| Some((self.awaited(op)?, None)));
        if let Some((what, until_ms)) = timed.or_else(untimed) {
            return Activity::Waiting { what, until_ms };
        }
        let unknown: Vec<StepId> = open
            .filter_map(|op| self.state.step(op))
            .filter(|step| step.phase == Phase::Unknown)
            .map(|step| step.begun.step.clone())
            .collect();
        if unknown.is_empty() { Activity::Running } else { Activity::Blocked(unknown) }
    }

    /// The steps whose outcome is unknown. Once the run has ended, those too that it did not wait for.
    #[must_use]
    pub fn unknown_steps(&self) -> Vec<StepId> {
        self.steps_unknown().map(|step| step.begun.step.clone()).collect()
    }

    /// How many they are.
    #[must_use]
    pub fn unknown_count(&self) -> u32 {
        u32::try_from(self.steps_unknown().count()).unwrap_or(u32::MAX)
    }

    pub(super) fn steps_unknown(&self) -> impl Iterator<Item = &Step> {
        let ended = self.state.ended.is_some() && !planted(Fault::UnknownForgottenAtEnd);
        let left = |step: &Step| step.begun.effect != EffectClass::Repeatable && step.has_unknown();
        let steps = (0..self.state.ops.len() as Operation).filter_map(|op| self.state.step(op));
        steps.filter(move |step| step.phase == Phase::Unknown || ended && step.phase != Phase::Done && left(step))
    }

    /// Whether the instance can be dropped: all that it holds, replay brings back.
    #[must_use]
    pub fn can_park(&self) -> bool {
        match self.activity() {
            Activity::Paused => true,
            Activity::Waiting { .. } | Activity::Blocked(_) => self.guest.live && self.told.is_empty(),
            Activity::Running | Activity::Ended | Activity::Stopped => false,
        }
    }

    fn awaited(&self, op: Operation) -> Option<Awaited> {
        match &self.state.ops.get(op as usize)?.kind {
            OpKind::Sleep { .. } => Some(Awaited::Sleep),
            OpKind::Wait { name, .. } => Some(Awaited::Event(name.clone())),
            OpKind::Step(step) => match step.phase {
                Phase::BackingOff { .. } => Some(Awaited::Retry(step.begun.step.clone())),
                _ => None,
            },
            OpKind::Child(child) if !child.detached && self.state.ops[op as usize].outcome.is_none() => {
                Some(Awaited::Child(child.run.clone()))
            }
            // Its reply is there, or about to be.
            OpKind::Send { .. } | OpKind::Child(_) => None,
        }
    }

    /// The guest is quiet: it is given the next event, if there is one.
    pub(super) fn quiet(&mut self, now_ms: u64, random: u64) {
        let held = self.mode == Mode::Continue && self.held(Fault::DeliverWhilePaused);
        if held && !self.guest.live {
            return;
        }
        if !self.at_frontier() {
            if let Some(event) = self.redelivered() {
                self.outputs.push(super::machine::Output::Deliver(event));
            }
            return;
        }
        if self.mode == Mode::Verify {
            self.deadlock("", now_ms, random);
            return;
        }
        self.frontier(now_ms, random);
        if self.stopped.is_some() || self.ending.is_some() {
            return;
        }
        if held {
            // Bodies go on to their end.
            if let Some(event) = self.next_told() {
                self.outputs.push(super::machine::Output::Deliver(event));
            }
            return;
        }
        if self.state.entries as usize > limits::MAX_JOURNAL_ENTRIES || self.state.bytes > limits::MAX_JOURNAL_BYTES {
            let text = format!(
                "the run's journal has {} entries and {} bytes; a run may have {} and {}. Split the work into several runs",
                self.state.entries,
                self.state.bytes,
                limits::MAX_JOURNAL_ENTRIES,
                limits::MAX_JOURNAL_BYTES
            );
            self.fail(Error::new(Code::JournalTooLong, text).never_retried(), now_ms, random);
            return;
        }
        if let Some(event) = self.next_event(now_ms) {
            self.outputs.push(super::machine::Output::Deliver(event));
        } else if self.live.is_empty() && self.guest.open == 0 {
            let text =
                "the workflow awaits something that no step, sleep or event will settle: nothing of the run is open";
            self.deadlock(text, now_ms, random);
        }
    }

    /// The guest has come to the journal's end: from here on it runs live.
    pub(super) fn frontier(&mut self, now_ms: u64, random: u64) {
        if self.guest.live {
            return;
        }
        self.guest.live = true;
        if planted(Fault::RerunCompleted) {
            self.state.forget_a_result();
        }
        self.end_lost_attempts(now_ms, random);
        self.begin_children_again(now_ms);
        self.time(now_ms, random);
    }

    /// The next event for a body.
    fn next_told(&mut self) -> Option<Event> {
        while let Some(told) = self.told.pop_front() {
            match told {
                Told::Expired(attempt) => {
                    self.guest.expired_turn(attempt);
                    return Some(Event::Expired(attempt));
                }
                Told::Answered { op, exchange, effect, answer } => {
                    let Some(live) = self.live.get_mut(&op) else { continue };
                    live.heard.extend(effect.filter(|effect| live.claimed.contains(effect)));
                    let attempt = crate::contract::AttemptRef { operation: op, number: live.n };
                    self.guest.body_turn(attempt);
                    return Some(Event::Answered(exchange, answer));
                }
            }
        }
        None
    }

    fn next_event(&mut self, now_ms: u64) -> Option<Event> {
        if let Some(event) = self.next_told() {
            return Some(event);
        }
        // Nothing else begins or is told before a request to cancel, and that waits until no attempt is under way, and until it is
        // known what became of what has been done on other runs.
        let under_way = !self.live.is_empty() && !planted(Fault::CancelTooEarly)
            || !self.state.errands.is_empty() && !planted(Fault::CancelBeforeReply);
        if matches!(self.state.ready.front(), Some(Ready::Cancel)) && under_way {
            return None;
        }
        let at = (0..self.state.ready.len()).find(|at| match self.state.ready[*at] {
            Ready::Attempt(op) => !self.draining && self.may_start(op),
            Ready::Deliver(_) | Ready::Cancel => true,
        })?;
        match self.state.ready[at] {
            Ready::Attempt(op) => self.start_attempt(op, now_ms),
            Ready::Deliver(op) => {
                let event = self.outcome_event(op)?;
                let at_ms = self.record(now_ms, Record::Delivered { op });
                self.guest.open = self.guest.open.saturating_sub(1);
                self.delivered(at_ms);
                Some(event)
            }
            Ready::Cancel => {
                let children = self.children_given_up();
                let at_ms = self.record(now_ms, Record::CancelDelivered);
                children.into_iter().for_each(|op| self.cancel_child(op));
                self.guest.cancelled = true;
                self.delivered(at_ms);
                Some(Event::Cancelled)
            }
        }
    }

    fn delivered(&mut self, at_ms: u64) {
        self.guest.cursor = self.state.script.len();
        self.guest.workflow_turn(at_ms, self.state.turns);
    }
}
