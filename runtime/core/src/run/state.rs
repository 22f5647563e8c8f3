//! What the journal says of a run: its fold, entry by entry.
//!
//! No decision is made here. What follows from an entry alone (an event goes to the oldest wait, a settled operation is ready to be
//! delivered) is done here, so that it is the same live and after a restart.

mod ends;
mod epoch;
mod op;
mod replies;
mod reran;
mod rewound;
mod steps;
mod waits;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use crate::contract::Operation;
use crate::error::Error;
use crate::ids::{Digest, RunId, StepId};
use crate::journal::entry::{Entry, Record, RunOutcome, Started};
use crate::json::Json;

pub(super) use self::op::{Again, Effect, Held, Op, OpKind, Phase, Step};

/// The fold of a journal.
#[derive(Debug)]
pub(super) struct State {
    pub(super) started: Started,
    /// The module that the run is pinned to now.
    pub(super) digest: Digest,
    pub(super) ops: Vec<Op>,
    /// How many steps of each name have begun.
    pub(super) names: BTreeMap<String, u32>,
    /// Steps that are void since the run was taken up again: one of that id goes on from what was done for it.
    void_steps: BTreeMap<StepId, Operation>,
    /// What can be given to the guest once it is quiet, oldest first.
    pub(super) ready: VecDeque<Ready>,
    /// When something falls due, and for which operation; each has at most one timer.
    pub(super) timers: BTreeSet<(u64, Operation)>,
    open_waits: BTreeMap<String, BTreeSet<Operation>>,
    /// Events that nobody has waited for yet, oldest first.
    kept: VecDeque<Event>,
    /// The last of the inbox: an event, or a reply.
    pub(super) last_event: u64,
    /// Operations whose reply comes with the commit that has them: it is there, or about to be.
    pub(super) errands: BTreeSet<Operation>,
    /// With what the run that goes on for it begins.
    pub(super) continued: Option<Json>,
    pub(super) cancel: Option<Error>,
    pub(super) terminate: Option<Error>,
    /// Nothing starts, falls due or is told until this is over.
    pub(super) paused: Option<Hold>,
    /// The epoch's name, once the database was restored; the first one has none.
    pub(super) epoch: Option<Arc<str>>,
    /// How often it was restored.
    pub(super) epochs: u32,
    /// The run may have gone on after the copy from which it was restored.
    pub(super) in_doubt: bool,
    /// Operations begun before the workflow was told to cancel: that ends them, and not those that clean up after it.
    pub(super) cancelled_ops: usize,
    /// Steps that are ready for an attempt which must be alone in the instance.
    pub(super) alone_ready: BTreeSet<Operation>,
    pub(super) ended: Option<(RunOutcome, bool)>,
    /// Commands and deliveries, in order: what replay follows.
    pub(super) script: Vec<Item>,
    /// Deliveries so far, void ones included.
    pub(super) turns: u64,
    /// Turns that other runs have lived through: the last of them, and whose they are, the earliest first.
    lived: Vec<(u64, RunId)>,
    /// It is a rerun, and nothing of its own has been recorded yet.
    pub(super) reran_now: bool,
    /// How long it may be open, in ms.
    pub(super) timeout_ms: Option<u64>,
    /// Rebuilds since the last entry that was none.
    pub(super) recoveries: u32,
    pub(super) entries: u64,
    pub(super) bytes: usize,
    pub(super) at_ms: u64,
    pub(super) start_ms: u64,
}

/// A pause, as it is told to people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hold {
    pub(super) by: String,
    pub(super) reason: String,
}

/// A command or delivery of the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) seq: u64,
    pub(super) at_ms: u64,
    /// The number of the latest delivery: no other turn of the run has it, a void one neither.
    pub(super) turn: u64,
    pub(super) kind: ItemKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ItemKind {
    /// Any command that begins an operation; which kind is the operation's.
    Begin(Operation),
    /// The run is to end, and another to go on.
    Continue,
    Close(Operation),
    Deliver(Operation),
    Cancel,
}

/// An event that came for the run. Its number in the inbox is its place in line.
#[derive(Debug, Clone)]
pub(super) struct Event {
    id: u64,
    name: String,
    payload: Json,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ready {
    Deliver(Operation),
    Cancel,
    Attempt(Operation),
}

impl State {
    /// The state after the first entry.
    pub(super) fn new(at_ms: u64, started: Started, bytes: usize) -> Self {
        Self {
            digest: started.digest.clone(),
            timeout_ms: started.deadline_ms.map(|deadline_ms| deadline_ms.saturating_sub(at_ms)),
            started,
            ops: Vec::new(),
            names: BTreeMap::new(),
            void_steps: BTreeMap::new(),
            ready: VecDeque::new(),
            timers: BTreeSet::new(),
            open_waits: BTreeMap::new(),
            kept: VecDeque::new(),
            last_event: 0,
            errands: BTreeSet::new(),
            continued: None,
            cancel: None,
            terminate: None,
            paused: None,
            epoch: None,
            epochs: 0,
            in_doubt: false,
            cancelled_ops: 0,
            alone_ready: BTreeSet::new(),
            ended: None,
            script: Vec::new(),
            turns: 0,
            lived: Vec::new(),
            reran_now: false,
            recoveries: 0,
            entries: 1,
            bytes,
            at_ms,
            start_ms: at_ms,
        }
    }

    /// Takes in the next entry.
    ///
    /// # Errors
    /// When it cannot follow what is there, in words.
    pub(super) fn apply(&mut self, entry: &Entry, bytes: usize) -> Result<(), String> {
        let takes_up = matches!(entry.record, Record::Rewound { .. } | Record::Restored(_));
        if self.ended.as_ref().is_some_and(|(outcome, _)| !(takes_up && matches!(outcome, RunOutcome::Failed(_)))) {
            return Err("it follows the end of the run".to_owned());
        }
        if entry.at_ms < self.at_ms {
            return Err("its time is before that of the entry it follows".to_owned());
        }
        let seq = self.entries;
        self.fold(seq, entry)?;
        self.recoveries = if matches!(entry.record, Record::Resumed) { self.recoveries + 1 } else { 0 };
        self.reran_now = matches!(entry.record, Record::Reran(_)) || self.reran_now && self.recoveries > 0;
        self.entries += 1;
        self.bytes += bytes;
        self.at_ms = entry.at_ms;
        Ok(())
    }

    fn fold(&mut self, seq: u64, entry: &Entry) -> Result<(), String> {
        let at_ms = entry.at_ms;
        self.turns += u64::from(matches!(entry.record, Record::Delivered { .. } | Record::CancelDelivered));
        let turn = self.turns;
        let mut script = |kind| self.script.push(Item { seq, at_ms, turn, kind });
        match &entry.record {
            Record::Started(_) => return Err("the run has begun already".to_owned()),
            Record::StepBegun(begun) => {
                script(ItemKind::Begin(begun.op));
                let step = self.step_begun(begun);
                let ready = step.phase == Phase::Ready;
                self.begin(begun.op, OpKind::Step(Box::new(step)))?;
                *self.names.entry(begun.step.name.clone()).or_insert(0) += 1;
                if ready {
                    self.ready.push_back(Ready::Attempt(begun.op));
                }
            }
            Record::SleepBegun { op, due_ms, .. } => {
                script(ItemKind::Begin(*op));
                self.begin(*op, OpKind::Sleep { due_ms: *due_ms })?;
                self.timers.insert((*due_ms, *op));
            }
            Record::WaitBegun { op, name, due_ms } => {
                script(ItemKind::Begin(*op));
                self.begin(*op, OpKind::Wait { name: name.clone(), due_ms: *due_ms, event: None })?;
                self.wait_begun(*op, name, *due_ms);
            }
            Record::SendBegun { op, to, name, payload } => {
                script(ItemKind::Begin(*op));
                let kind = OpKind::Send { to: to.clone(), name: name.clone(), payload: payload.clone() };
                self.begin(*op, kind)?;
                self.errands.insert(*op);
            }
            Record::ChildBegun(child) => {
                script(ItemKind::Begin(child.op));
                self.begin(child.op, OpKind::Child(child.clone()))?;
                if child.detached {
                    self.errands.insert(child.op);
                }
            }
            Record::ChildBegunAgain { op, run } => self.child_begun_again(*op, run)?,
            Record::ContinuedAsNew { input } => {
                script(ItemKind::Continue);
                if self.continued.replace(input.clone()).is_some() {
                    return Err("the run has continued already".to_owned());
                }
            }
            Record::Closed { op } => {
                script(ItemKind::Close(*op));
                self.closed(*op)?;
            }
            Record::Delivered { op } => {
                script(ItemKind::Deliver(*op));
                let op_state = self.op(*op)?;
                if op_state.outcome.is_none() || !op_state.is_open() {
                    return Err(format!("operation {op} has nothing to deliver"));
                }
                op_state.delivered = true;
                self.unready(Ready::Deliver(*op));
            }
            Record::CancelDelivered => {
                script(ItemKind::Cancel);
                self.unready(Ready::Cancel);
                self.cancel_delivered();
            }
            Record::AttemptStarted { op, n, deadline_ms } => self.attempt_started(*op, *n, *deadline_ms)?,
            Record::AttemptEnded { op, n, outcome } => self.attempt_ended(*op, *n, outcome)?,
            Record::Dispatched(dispatched) => self.dispatched(at_ms, dispatched)?,
            Record::Settled { op, effect, evidence, answer } => {
                self.settled(*op, *effect, evidence, answer.as_ref())?
            }
            Record::TimerFired { op } => {
                if !matches!(self.op(*op)?.kind, OpKind::Sleep { .. }) {
                    return Err(format!("operation {op} is no sleep"));
                }
                self.fired(*op, Ok(Json::null()))?;
            }
            Record::WaitExpired { op } => {
                let error = self.wait_timeout(*op)?;
                self.fired(*op, Err(error))?;
            }
            Record::EventArrived { id, name, payload } => {
                self.last_event = *id;
                self.kept.push_back(Event { id: *id, name: name.clone(), payload: payload.clone() });
                self.hand_out(name);
            }
            Record::ReplyArrived { id, op, reply } => self.reply_arrived(*id, *op, reply)?,
            Record::CancelRequested { error, .. } => {
                self.cancel = Some(error.clone());
                self.cancelled_ops = usize::MAX;
                // Before everything else that is ready: what begins after the request is already cleaning up.
                self.ready.push_front(Ready::Cancel);
            }
            Record::TerminateRequested { error, .. } => self.terminate = Some(error.clone()),
            Record::Paused { reason, by } => self.paused = Some(Hold { by: by.clone(), reason: reason.clone() }),
            Record::Unpaused { .. } => {
                self.paused.take().ok_or("the run is not paused")?;
            }
            Record::Resolved { op, resolution, .. } => self.resolved(*op, resolution)?,
            Record::Rewound { to, .. } => self.rewound(*to, at_ms)?,
            Record::Reran(reran) => self.reran(reran),
            Record::Resumed => {}
            Record::Repinned { digest } => self.digest = digest.clone(),
            Record::Restored(restored) => self.restored(restored),
            Record::NothingFollowed { .. } => self.nothing_followed(),
            Record::Ended { outcome, returned } => self.end(outcome, *returned),
        }
        Ok(())
    }

    pub(super) fn op(&mut self, op: Operation) -> Result<&mut Op, String> {
        self.ops.get_mut(op as usize).ok_or_else(|| format!("the run has no operation {op}"))
    }

    pub(super) fn step(&self, op: Operation) -> Option<&Step> {
        match &self.ops.get(op as usize)?.kind {
            OpKind::Step(step) => Some(step),
            _ => None,
        }
    }

    fn step_mut(&mut self, op: Operation) -> Result<&mut Step, String> {
        match &mut self.op(op)?.kind {
            OpKind::Step(step) => Ok(step),
            _ => Err(format!("operation {op} is no step")),
        }
    }

    fn begin(&mut self, op: Operation, kind: OpKind) -> Result<(), String> {
        if op as usize != self.ops.len() {
            return Err(format!("operation {op} does not follow operation {}", self.ops.len()));
        }
        self.ops.push(Op {
            kind,
            outcome: None,
            delivered: false,
            closed: false,
            cancelled: false,
            settled_at: None,
            void: false,
            again: Again::No,
        });
        Ok(())
    }

    fn settle(&mut self, op: Operation, outcome: Result<Json, Error>) -> Result<(), String> {
        let seq = self.entries;
        let state = self.op(op)?;
        if state.outcome.is_none() {
            state.outcome = Some(outcome);
            state.settled_at = Some(seq);
            if !state.closed {
                self.ready.push_back(Ready::Deliver(op));
            }
        }
        Ok(())
    }

    fn unready(&mut self, what: Ready) {
        if let Ready::Attempt(op) = what {
            self.alone_ready.remove(&op);
        }
        if let Some(at) = self.ready.iter().position(|ready| *ready == what) {
            self.ready.remove(at);
        }
    }

    /// Takes the operation's timer away, if it has one.
    pub(super) fn disarm(&mut self, op: Operation) {
        if let Some(due) = self.ops.get(op as usize).and_then(Op::due_ms) {
            self.timers.remove(&(due, op));
        }
    }

    fn fired(&mut self, op: Operation, outcome: Result<Json, Error>) -> Result<(), String> {
        let state = self.op(op)?;
        if state.outcome.is_some() || !state.is_open() {
            return Err(format!("operation {op} is over already"));
        }
        self.disarm(op);
        self.forget_wait(op);
        self.settle(op, outcome)
    }
}
