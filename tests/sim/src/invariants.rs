//! What must hold of a journal, entry by entry, and of every event and request that follows from it.
//!
//! A second reading of the journal, written from the rules. It knows nothing of the machine.

mod asked;
mod others;
mod reran;
mod rewound;

pub use reran::Place;

use std::collections::{BTreeMap, BTreeSet};

use stepwell_core::contract::{Attempt, AttemptRef, Event, Operation};
use stepwell_core::error::{Code, Error};
use stepwell_core::journal::codec;
use stepwell_core::journal::entry::{Entry, Record, RunOutcome};
use stepwell_core::json::Json;
use stepwell_core::policy::effect::is_safe_method;
use stepwell_core::run::Errand;

use crate::program::Ask;
use crate::step::Step;

/// The journal as the rules see it.
#[derive(Debug, Default)]
pub struct Ledger {
    ops: Vec<Op>,
    /// Deliveries to workflow code, in order; none is the request to cancel.
    pub deliveries: Vec<Option<Operation>>,
    /// The entries that they are.
    delivered_at: Vec<u64>,
    /// Entries so far.
    seq: u64,
    /// How often the run was taken up again after it had failed.
    rewound: usize,
    /// Events that came and are with no wait.
    kept: BTreeSet<(u64, String)>,
    payloads: BTreeMap<u64, Json>,
    last_event: u64,
    cancel: Option<Error>,
    /// The entry by which the workflow was told to cancel: what was open then has failed.
    cancel_told: Option<u64>,
    terminate: Option<Error>,
    paused: bool,
    /// How often the database was restored.
    restored: u32,
    /// What followed a copy is not known.
    in_doubt: bool,
    /// What people were told holds.
    pub promised: Vec<Ask>,
    ended: Option<RunOutcome>,
    /// The workflow has ended the run so that another goes on.
    continued: bool,
    /// By which entry.
    continued_at: Option<u64>,
    /// Children that were asked to cancel.
    given_up: Vec<Operation>,
    /// The child that was begun again by the last entry.
    again: Option<Operation>,
    /// What is to be done on other runs by the last entry.
    owed: Vec<Errand>,
    at_ms: u64,
}

#[derive(Debug)]
struct Op {
    kind: Kind,
    /// What the workflow is to be told.
    outcome: Option<Result<Json, Error>>,
    delivered: bool,
    closed: bool,
    cancelled: bool,
    /// The entries by which it was begun, told and closed.
    begun_at: u64,
    told_at: u64,
    closed_at: u64,
    /// The run was taken back to before it.
    void: bool,
}

#[derive(Debug)]
enum Kind {
    Step(Box<Step>),
    Sleep { due_ms: u64 },
    Wait { name: String, due_ms: Option<u64>, event: Option<u64> },
    Send { replied: bool },
    Child { awaited: bool, abandoned: bool, replied: bool, again: Again },
}

/// Whether a child is begun again, since its run was taken up again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Again {
    No,
    IfFailed,
    Now,
}

impl Ledger {
    /// Of a journal that is read again.
    ///
    /// # Errors
    /// What does not hold of it.
    pub fn read<B: AsRef<[u8]>>(journal: &[B]) -> Result<Self, String> {
        let mut ledger = Self::default();
        for (seq, bytes) in (0..).zip(journal) {
            let entry = codec::decode(seq, bytes.as_ref()).map_err(|e| e.to_string())?;
            if codec::encode(&entry) != bytes.as_ref() {
                return Err(format!("entry {seq} is not written as it was read"));
            }
            ledger.entry(&entry)?;
            // Done with the commit that had it.
            ledger.owed.clear();
        }
        Ok(ledger)
    }

    /// Whether the run has ended.
    #[must_use]
    pub fn ended(&self) -> bool {
        self.ended.is_some()
    }

    /// Names of events that somebody waits for.
    pub fn awaited(&self) -> impl Iterator<Item = &str> {
        self.ops.iter().filter(|op| op.is_open()).filter_map(|op| match &op.kind {
            Kind::Wait { name, event: None, .. } => Some(name.as_str()),
            _ => None,
        })
    }

    /// The step of an operation.
    #[must_use]
    pub fn step(&self, op: Operation) -> Option<&Step> {
        match &self.ops.get(op as usize)?.kind {
            Kind::Step(step) => Some(step),
            _ => None,
        }
    }

    /// All steps.
    pub fn steps(&self) -> impl Iterator<Item = &Step> {
        self.ops.iter().filter_map(|op| match &op.kind {
            Kind::Step(step) => Some(&**step),
            _ => None,
        })
    }

    /// All steps, and whether the workflow still waits for each.
    fn steps_mut(&mut self) -> impl Iterator<Item = (&mut Step, bool)> {
        self.ops.iter_mut().filter_map(|op| match &mut op.kind {
            Kind::Step(step) => Some((&mut **step, !op.closed && !op.cancelled)),
            _ => None,
        })
    }

    /// Takes the next entry.
    ///
    /// # Errors
    /// What does not hold.
    pub fn entry(&mut self, entry: &Entry) -> Result<(), String> {
        if entry.at_ms < self.at_ms {
            return Err("recorded time goes back".to_owned());
        }
        let takes_up = matches!(entry.record, Record::Rewound { .. } | Record::Restored(_));
        if self.ended() && !(takes_up && self.has_failed()) {
            return Err("an entry follows the end of the run".to_owned());
        }
        self.asked(&entry.record)?;
        self.nothing_owed()?;
        self.at_ms = entry.at_ms;
        self.record(&entry.record, entry.at_ms)?;
        self.seq += 1;
        Ok(())
    }

    fn record(&mut self, record: &Record, at_ms: u64) -> Result<(), String> {
        let seq = self.seq;
        match record {
            Record::Started(_) | Record::Resumed | Record::Repinned { .. } => {}
            Record::Resolved { op, resolution, .. } => {
                let state = self.op(*op)?;
                let Kind::Step(step) = &mut state.kind else { return Err(format!("operation {op} is no step")) };
                step.resolved(resolution, at_ms)?;
                state.outcome.clone_from(&step.over);
            }
            // In `asked`.
            Record::Paused { .. } | Record::Unpaused { .. } | Record::TerminateRequested { .. } => {}
            Record::StepBegun(begun) => {
                let mut step = Step::new(begun.clone());
                if let Some(void) = self.void_step(&begun.step) {
                    step.follows(void);
                }
                if self.in_doubt {
                    step.doubt(true);
                }
                self.begin(Kind::Step(Box::new(step)));
            }
            Record::Rewound { to, .. } => self.rewound(*to)?,
            Record::Reran(reran) => self.reran(reran.to),
            Record::Restored(restored) => {
                self.restored += 1;
                self.in_doubt |= restored.in_doubt;
                if restored.in_doubt {
                    self.steps_mut().for_each(|(step, open)| step.restored(open));
                }
            }
            Record::NothingFollowed { .. } => {
                self.in_doubt = false;
                let cancelling = self.is_cancelling();
                self.steps_mut().filter(|(_, open)| *open && !cancelling).for_each(|(step, _)| step.trust());
            }
            Record::SleepBegun { ms, due_ms, .. } => {
                if *due_ms < at_ms + ms {
                    return Err("a sleep is shorter than it says".to_owned());
                }
                self.begin(Kind::Sleep { due_ms: *due_ms });
            }
            Record::WaitBegun { name, due_ms, .. } => {
                if due_ms.is_some_and(|due| due < at_ms) {
                    return Err("a wait is over before it begins".to_owned());
                }
                self.begin(Kind::Wait { name: name.clone(), due_ms: *due_ms, event: None });
                self.hand_out();
            }
            Record::SendBegun { .. } => self.begin(Kind::Send { replied: false }),
            Record::ChildBegun(child) => {
                let (awaited, abandoned) = (!child.detached, child.abandoned);
                self.begin(Kind::Child { awaited, abandoned, replied: false, again: Again::No });
            }
            Record::ChildBegunAgain { op, .. } => self.child_begun_again(*op)?,
            Record::ContinuedAsNew { .. } => {
                if self.cancel_told.is_some() || std::mem::replace(&mut self.continued, true) {
                    return Err("the run continues although it was told to cancel, or twice".to_owned());
                }
                self.continued_at = Some(seq);
            }
            Record::ReplyArrived { id, op, reply } => self.replied(*id, *op, reply)?,
            Record::Closed { op } => {
                self.give_up_child(*op);
                self.closed(*op)?;
            }
            Record::Delivered { op } => {
                let state = self.op(*op)?;
                if state.outcome.is_none() || !state.is_open() {
                    return Err(format!("operation {op} is delivered and has no outcome, or was before"));
                }
                state.delivered = true;
                state.told_at = seq;
                self.deliveries.push(Some(*op));
                self.delivered_at.push(seq);
            }
            Record::CancelDelivered => {
                let Some(error) = self.cancel.clone() else { return Err("nobody asked for the cancel".to_owned()) };
                if let Some(step) = self.steps().find(|step| step.open.is_some()) {
                    return Err(format!("the cancel is told while step {} is under way", step.begun.step));
                }
                if let Some(op) = self.without_reply().next() {
                    return Err(format!("the cancel is told before it is known what became of operation {op}"));
                }
                self.cancel_told = Some(seq);
                (0..self.ops.len() as Operation).for_each(|op| self.give_up_child(op));
                self.ops.iter_mut().for_each(|op| op.cancel(&error));
                self.deliveries.push(None);
                self.delivered_at.push(seq);
            }
            Record::AttemptStarted { op, n, deadline_ms } => self.attempt_started(*op, *n, at_ms, *deadline_ms)?,
            Record::AttemptEnded { op, n, outcome } => {
                let cancelling = self.is_cancelling();
                let state = self.op(*op)?;
                let given_up = state.closed || cancelling;
                let Kind::Step(step) = &mut state.kind else { return Err(format!("operation {op} is no step")) };
                step.ended(*n, outcome, at_ms, given_up)?;
                state.outcome.clone_from(&step.over);
            }
            Record::Dispatched(dispatched) => self.step_mut(dispatched.op)?.dispatched(dispatched, at_ms)?,
            Record::Settled { op, effect, evidence, .. } => self.step_mut(*op)?.settled(*effect, evidence)?,
            Record::TimerFired { op } => match self.op(*op)?.kind {
                Kind::Sleep { due_ms } => self.fired(*op, Some(due_ms), Ok(Json::null()))?,
                _ => return Err(format!("operation {op} is no sleep")),
            },
            Record::WaitExpired { op } => match self.op(*op)?.kind {
                Kind::Wait { due_ms, event: None, .. } => {
                    let error = Error::new(Code::WaitTimeout, "");
                    self.fired(*op, due_ms, Err(error))?;
                }
                _ => return Err(format!("operation {op} is no wait, or has its event")),
            },
            Record::EventArrived { id, name, payload } => {
                if *id <= self.last_event {
                    return Err(format!("event {id} arrives after event {}", self.last_event));
                }
                self.last_event = *id;
                self.payloads.insert(*id, payload.clone());
                self.kept.insert((*id, name.clone()));
                self.hand_out();
            }
            Record::CancelRequested { error, .. } => {
                if self.cancel.replace(error.clone()).is_some() {
                    return Err("the run is cancelled twice".to_owned());
                }
            }
            Record::Ended { outcome, .. } => {
                self.goes_on(outcome)?;
                self.ended = Some(outcome.clone());
                let under_way = |step: &&Step| step.open.is_some() || step.effects.iter().any(|e| e.in_flight);
                if let Some(step) = self.steps().find(under_way) {
                    return Err(format!("the run ends while step {} is under way", step.begun.step));
                }
            }
        }
        Ok(())
    }

    /// Asked to cancel, and the workflow has not been told yet.
    fn is_cancelling(&self) -> bool {
        self.cancel.is_some() && self.cancel_told.is_none()
    }

    fn begin(&mut self, kind: Kind) {
        let (told_at, closed_at) = (u64::MAX, u64::MAX);
        let begun_at = self.seq;
        let (delivered, closed, cancelled) = (false, false, false);
        self.ops.push(Op {
            kind,
            outcome: None,
            delivered,
            closed,
            cancelled,
            begun_at,
            told_at,
            closed_at,
            void: false,
        });
    }

    fn op(&mut self, op: Operation) -> Result<&mut Op, String> {
        self.ops.get_mut(op as usize).ok_or_else(|| format!("there is no operation {op}"))
    }

    fn step_mut(&mut self, op: Operation) -> Result<&mut Step, String> {
        match &mut self.op(op)?.kind {
            Kind::Step(step) => Ok(step),
            _ => Err(format!("operation {op} is no step")),
        }
    }

    fn fired(&mut self, op: Operation, due_ms: Option<u64>, outcome: Result<Json, Error>) -> Result<(), String> {
        let at_ms = self.at_ms;
        let state = self.op(op)?;
        if due_ms.is_none_or(|due| at_ms < due) {
            return Err(format!("the timer of operation {op} fires early"));
        }
        if state.outcome.is_some() || !state.is_open() {
            return Err(format!("the timer of operation {op} fires, and it was over"));
        }
        state.outcome = Some(outcome);
        Ok(())
    }

    fn closed(&mut self, op: Operation) -> Result<(), String> {
        let seq = self.seq;
        let state = self.op(op)?;
        if !state.is_open() {
            return Err(format!("operation {op} is closed, and was over"));
        }
        state.closed = true;
        state.closed_at = seq;
        if let Kind::Step(step) = &mut state.kind {
            step.given_up();
        }
        if let Kind::Wait { name, event, .. } = &mut state.kind
            && let Some(id) = event.take()
        {
            let back = (id, name.clone());
            self.kept.insert(back);
            self.hand_out();
        }
        Ok(())
    }

    fn attempt_started(&mut self, op: Operation, n: u32, at_ms: u64, deadline_ms: u64) -> Result<(), String> {
        let others = |step: &&Step| step.begun.op != op && step.open.is_some();
        let alone = self.step(op).is_some_and(|step| step.alone);
        if self.steps().filter(others).any(|step| alone || step.alone) {
            return Err(format!("attempt {n} of operation {op} shares the instance with one that must be alone"));
        }
        let cancelling = self.is_cancelling();
        let cancelled_before = self.cancel_told.unwrap_or(0);
        let base = self.restored * 100_000;
        let state = self.op(op)?;
        if state.closed || state.begun_at < cancelled_before || cancelling {
            return Err(format!("attempt {n} of operation {op} starts although it was closed or cancelled"));
        }
        self.step_mut(op)?.started(n, at_ms, deadline_ms, base)
    }

    /// The oldest event of a name is for the oldest wait of that name.
    fn hand_out(&mut self) {
        for op in &mut self.ops {
            let free = op.is_open() && op.outcome.is_none();
            if let Kind::Wait { name, event: event @ None, .. } = &mut op.kind
                && free
                && let Some(found) = self.kept.iter().find(|(_, of)| of == name).cloned()
            {
                self.kept.remove(&found);
                *event = Some(found.0);
                op.outcome = self.payloads.get(&found.0).cloned().map(Ok);
            }
        }
    }

    /// A request leaves: all that led to it is durable, since this has seen only what is.
    ///
    /// # Errors
    /// What does not hold.
    pub fn leaves(
        &mut self,
        attempt: AttemptRef,
        key: Option<&str>,
        (method, url): (&str, &str),
        now_ms: u64,
    ) -> Result<(), String> {
        if self.terminate.is_some() {
            return Err(format!("a request leaves for {attempt:?}, and the run was terminated"));
        }
        let step = self.step_mut(attempt.operation)?;
        if step.open.is_none_or(|(n, _)| n != attempt.number) {
            return Err(format!("a request leaves for {attempt:?}, which is not recorded as started"));
        }
        if is_safe_method(method) { Ok(()) } else { step.left(attempt.number, key, method, url, now_ms) }
    }

    /// An event of a step's body.
    ///
    /// # Errors
    /// If the journal says otherwise.
    pub fn attempt(&self, attempt: &Attempt) -> Result<(), String> {
        let open = self.step(attempt.id.operation).and_then(|step| step.open);
        let given = attempt.deadline_ms.map(|deadline| (attempt.id.number, deadline));
        if open.is_none() || open != given { Err(format!("the journal has not started {attempt:?}")) } else { Ok(()) }
    }

    /// The instance's delivery number `at` to workflow code.
    ///
    /// # Errors
    /// If it is another than the journal's.
    pub fn delivery(&self, at: usize, event: &Event) -> Result<(), String> {
        let recorded = self.deliveries.get(at).ok_or("a delivery that is not in the journal")?;
        let op = match event {
            Event::Completed(op, _) | Event::Failed(op, _) => Some(*op),
            _ => None,
        };
        if *recorded != op {
            return Err(format!("delivery {at} is {event:?}, recorded is operation {recorded:?}"));
        }
        let Some(state) = op.and_then(|op| self.ops.get(op as usize)) else { return Ok(()) };
        let same = match (&state.outcome, event) {
            (Some(Ok(recorded)), Event::Completed(_, value)) => recorded == value,
            (Some(Err(recorded)), Event::Failed(_, error)) if recorded.is(Code::WaitTimeout) => {
                error.is(Code::WaitTimeout)
            }
            (Some(Err(recorded)), Event::Failed(_, error)) => recorded == error,
            _ => false,
        };
        if same { Ok(()) } else { Err(format!("delivery {at} is {event:?}, recorded is {:?}", state.outcome)) }
    }

    /// The guest is quiet and nothing was given to it: nothing may be waiting for it.
    ///
    /// # Errors
    /// What waits.
    pub fn nothing_to_deliver(&self) -> Result<(), String> {
        if self.paused || self.terminate.is_some() {
            return Ok(());
        }
        // A cancel is told first, and only once no attempt is under way.
        let under_way = self.steps().any(|step| step.open.is_some()) || self.without_reply().next().is_some();
        if self.is_cancelling() && under_way {
            return Ok(());
        }
        self.children_begun_again()?;
        match self.ops.iter().position(|op| op.is_open() && op.outcome.is_some()) {
            Some(op) => Err(format!("operation {op} has an outcome, the guest is quiet, and is not told")),
            None => Ok(()),
        }
    }
}

impl Op {
    fn is_open(&self) -> bool {
        !self.delivered && !self.closed
    }

    fn cancel(&mut self, error: &Error) {
        self.cancelled = self.is_open() && self.outcome.is_none();
        if !self.cancelled {
            return;
        }
        if let Kind::Step(step) = &mut self.kind {
            let may_harm = step.begun.effect != stepwell_core::contract::EffectClass::Repeatable;
            let unknown = step.effects.iter().any(|e| !e.in_flight && e.known == crate::step::Known::Unknown);
            if step.open.is_some() {
                return;
            }
            if step.unknown || may_harm && unknown {
                step.abandoned |= !step.unknown;
                step.unknown = true;
                return;
            }
            step.over = Some(Err(error.clone()));
        }
        self.outcome = Some(Err(error.clone()));
    }
}
