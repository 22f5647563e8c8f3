//! The machine's outside: what goes in, what comes out, and the one door by which entries are made.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::attempt::LiveAttempt;
use super::errand::Errand;
use super::guest::{Guest, Owner};
use super::log::Room;
use super::state::State;
use crate::contract::{Answer, AttemptRef, Event, Evidence, Exchange, Level, Operation, Request, Response};
use crate::error::{Code, Error};
use crate::ids::{Digest, RunId, StepId};
use crate::journal::codec::{self, Unreadable};
use crate::journal::entry::{Entry, Record, Reply, RunOutcome, Started};
use crate::journal::mismatch::Mismatch;
use crate::json::Json;
use crate::limits;

/// One run.
#[derive(Debug)]
pub struct Machine {
    pub(super) state: State,
    pub(super) mode: Mode,
    pub(super) guest: Guest,
    /// Attempts whose body is under way, or whose requests are.
    pub(super) live: BTreeMap<Operation, LiveAttempt>,
    pub(super) exchanges: BTreeMap<Exchange, UnderWay>,
    /// Of the bodies of the requests among them.
    pub(super) bytes_under_way: usize,
    pub(super) next_exchange: Exchange,
    /// Delays of bodies, by due time.
    pub(super) delays: BTreeSet<(u64, Exchange)>,
    /// Events for bodies, oldest first. They are gone with the instance.
    pub(super) told: VecDeque<Told>,
    pub(super) ending: Option<(RunOutcome, bool)>,
    /// An instance of it has been built: its code has run.
    pub(super) begun: bool,
    pub(super) stopped: Option<Mismatch>,
    /// No attempt is started any more: the process is about to end.
    pub(super) draining: bool,
    pub(super) outputs: Vec<Output>,
    /// The last log line of workflow code that is durable.
    pub(super) logged: Option<(u64, u32)>,
    /// What bodies may log in this process.
    pub(super) bodies_log: Room,
}

/// What the journal is read for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// To go on with the run.
    Continue,
    /// To see whether the code still does what it did. Nothing is recorded and nothing leaves.
    Verify,
}

/// An event that belongs to a body.
#[derive(Debug)]
pub(super) enum Told {
    Expired(AttemptRef),
    /// `effect`: what it was an answer to, where that was an unsafe request.
    Answered {
        op: Operation,
        exchange: Exchange,
        effect: Option<u32>,
        answer: Result<Answer, Error>,
    },
}

/// Whose an open exchange is, and what of it is held in memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct UnderWay {
    pub(super) op: Operation,
    pub(super) bytes: usize,
}

/// What happened, other than a command of the guest.
#[derive(Debug)]
pub enum Input {
    /// The guest is in `next` and has nothing else to run.
    Quiet,
    /// The guest has nothing to run and is not in `next`.
    Idle,
    /// The workflow's function returned.
    Returned(Result<Json, Error>),
    /// The instance is gone: it trapped, was interrupted, or hit a limit.
    Trapped(Error),
    /// A request is over.
    Settled {
        /// Which.
        exchange: Exchange,
        /// How far it got.
        evidence: Evidence,
        /// What the body is told.
        answer: Result<Response, Error>,
    },
    /// Time has passed.
    Time,
    /// An event came.
    Event {
        /// Its number in the run's inbox: from 1, growing.
        id: u64,
        /// Its name.
        name: String,
        /// What it carries.
        payload: Json,
    },
    /// What became of an operation on another run came to the inbox.
    Reply {
        /// Its number in the run's inbox.
        id: u64,
        /// The operation.
        op: Operation,
        /// What became of it.
        reply: Reply,
    },
}

/// What is to be done, in this order.
#[derive(Debug)]
pub enum Output {
    /// Append to the journal.
    Append {
        /// The entry.
        entry: Entry,
        /// As it is written.
        bytes: Vec<u8>,
    },
    /// Do this on Stepwell's own database, in the commit that has the entry before it.
    Errand(Errand),
    /// Give the guest this event, and run it.
    Deliver(Event),
    /// Send this request once every entry before it is durable.
    Send {
        /// By which its end is told.
        exchange: Exchange,
        /// Whose it is.
        attempt: AttemptRef,
        /// The request.
        request: Request,
        /// What the `Idempotency-Key` header is to be.
        key: Option<String>,
        /// From then on, in ms since the Unix epoch, the other side may have forgotten the key: nothing may leave any more, and
        /// the request is settled as not sent, with [`dead_key`](crate::policy::effect::dead_key).
        not_after_ms: Option<u64>,
    },
    /// Tear the request down, and settle it with what is known of it.
    Abort(Exchange),
    /// A line for the run's log.
    Log(LogLine),
    /// The run's status text.
    StatusText(String),
    /// Drop the instance, and build another by replay.
    Rebuild,
    /// The run is over, once every entry before this is durable.
    Finished(RunOutcome),
    /// The replay differs. Nothing more of the guest is recorded; evidence of requests still under way is.
    Stopped(Mismatch),
    /// The replay came to the recorded end.
    Verified,
}

/// A line of the run's log. Its place makes it one of a kind, so that it can be kept once however often it is written.
#[derive(Debug, Clone, PartialEq)]
pub struct LogLine {
    /// The turn of workflow code; for a body's line, its attempt with the highest bit set.
    pub turn: u64,
    /// Its number there.
    pub index: u32,
    /// In ms since the Unix epoch.
    pub at_ms: u64,
    /// Its weight.
    pub level: Level,
    /// The step whose body wrote it.
    pub step: Option<StepId>,
    /// The line.
    pub message: String,
    /// Data beside it.
    pub fields: Option<Json>,
}

/// A journal that no run can be made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadError(pub Unreadable);

impl std::fmt::Display for LoadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for LoadError {}

/// How long the turn that was just delivered may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnLimit {
    /// It is a turn of a step's body, else of workflow code: each has its budget of computing time.
    pub of_body: bool,
    /// When the turn is to be interrupted whatever it does, in ms since the Unix epoch.
    pub deadline_ms: Option<u64>,
}

impl Machine {
    /// The first entry of a run, as it is written.
    #[must_use]
    pub fn first_entry(at_ms: u64, started: Started) -> Vec<u8> {
        codec::encode(&Entry { at_ms, record: Record::Started(started) })
    }

    /// The run as its journal has it. `logged` is the place of the last durable log line of workflow code.
    ///
    /// # Errors
    /// When an entry cannot be read or cannot follow the one before.
    pub fn load<B: AsRef<[u8]>>(
        journal: impl IntoIterator<Item = B>,
        logged: Option<(u64, u32)>,
        mode: Mode,
    ) -> Result<Self, LoadError> {
        let mut entries = journal.into_iter();
        let unreadable = |seq, reason: &str| LoadError(Unreadable { seq, reason: reason.to_owned() });
        let first = entries.next().ok_or_else(|| unreadable(0, "the journal is empty"))?;
        let entry = codec::decode(0, first.as_ref()).map_err(LoadError)?;
        let Record::Started(started) = entry.record else {
            return Err(unreadable(0, "a journal begins with `started`"));
        };
        let mut state = State::new(entry.at_ms, started, first.as_ref().len());
        for (seq, bytes) in (1..).zip(entries) {
            let entry = codec::decode(seq, bytes.as_ref()).map_err(LoadError)?;
            state.apply(&entry, bytes.as_ref().len()).map_err(|reason| unreadable(seq, &reason))?;
        }
        let guest = Guest::new(state.start_ms);
        let terminate = state.terminate.clone().filter(|_| state.ended.is_none() && mode == Mode::Continue);
        Ok(Self {
            state,
            mode,
            guest,
            live: BTreeMap::new(),
            exchanges: BTreeMap::new(),
            bytes_under_way: 0,
            next_exchange: 0,
            delays: BTreeSet::new(),
            told: VecDeque::new(),
            ending: terminate.map(|error| (RunOutcome::Terminated(error), false)),
            begun: false,
            stopped: None,
            draining: false,
            outputs: Vec::new(),
            logged,
            bodies_log: Room::of_run("this run's steps"),
        })
    }

    /// Says what happened, other than a command. `random` is uniform over all of `u64`.
    pub fn handle(&mut self, input: Input, now_ms: u64, random: u64) {
        // Evidence is a truth about the world: it is recorded whatever the guest does.
        if let Input::Settled { exchange, evidence, answer } = input {
            self.settled(exchange, &evidence, answer, now_ms, random);
            return;
        }
        if self.stopped.is_some() || self.state.ended.is_some() && self.mode == Mode::Continue {
            return;
        }
        // Whatever its guest does from then on is for nothing.
        if self.is_terminating() && !matches!(input, Input::Time) {
            return;
        }
        match input {
            Input::Quiet => self.quiet(now_ms, random),
            Input::Idle => self.idle(now_ms, random),
            Input::Returned(result) => self.returned(result, now_ms, random),
            Input::Trapped(error) => self.trapped(error, now_ms, random),
            Input::Time => self.time(now_ms, random),
            Input::Event { id, name, payload } => self.event(id, name, payload, now_ms),
            Input::Reply { id, op, reply } => self.reply(id, op, reply, now_ms),
            Input::Settled { .. } => {}
        }
    }

    /// How many outputs wait to be carried out.
    #[must_use]
    pub fn output_count(&self) -> usize {
        self.outputs.len()
    }

    /// What is to be done since this was asked last, in order.
    pub fn outputs(&mut self) -> Vec<Output> {
        std::mem::take(&mut self.outputs)
    }

    /// The run's first instance is about to be built.
    pub fn begin(&mut self) {
        self.begun = true;
    }

    /// The run is about to be built again from its journal: the guest begins anew, what belonged to its last instance is gone.
    /// To be durable before the instance exists, so that a run which takes the host down with it is counted.
    ///
    /// # Errors
    /// After [`limits::MAX_RECOVERIES`] of these without progress, unless `by_hand`. Nothing is recorded then.
    pub fn resume(&mut self, now_ms: u64, by_hand: bool) -> Result<(), Error> {
        if self.state.recoveries >= limits::MAX_RECOVERIES && !by_hand {
            let times = self.state.recoveries;
            return Err(Error::new(
                Code::RecoveryLimit,
                format!("the run was rebuilt {times} times without getting further; `resume` tries once more"),
            ));
        }
        self.begun = true;
        self.guest = Guest::new(self.state.start_ms);
        self.told.clear();
        if self.mode == Mode::Continue && self.state.ended.is_none() {
            self.record(now_ms, Record::Resumed);
        }
        Ok(())
    }

    /// The run goes on with another module. To be called before any command, at best after a clean verification.
    pub fn repin(&mut self, digest: Digest, now_ms: u64) {
        self.record(now_ms, Record::Repinned { digest });
    }

    /// The process is about to end: from now on no attempt is started, so that those under way can come to their end.
    pub fn drain(&mut self) {
        self.draining = true;
    }

    /// Whether attempts are under way, or their requests.
    #[must_use]
    pub fn has_attempts_under_way(&self) -> bool {
        !self.live.is_empty()
    }

    /// How the run began.
    #[must_use]
    pub fn started(&self) -> &Started {
        &self.state.started
    }

    /// How long the run may be open, in ms from its start.
    #[must_use]
    pub fn run_timeout_ms(&self) -> Option<u64> {
        self.state.timeout_ms
    }

    /// The run.
    #[must_use]
    pub fn run_id(&self) -> &RunId {
        &self.state.started.run
    }

    /// The module that it is pinned to.
    #[must_use]
    pub fn digest(&self) -> &Digest {
        &self.state.digest
    }

    /// Entries so far; the next entry's number.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.state.entries
    }

    /// How the run ended.
    #[must_use]
    pub fn ended(&self) -> Option<&RunOutcome> {
        self.state.ended.as_ref().map(|(outcome, _)| outcome)
    }

    /// Whether the run ended because its function returned, so that a replay must come to the same end.
    #[must_use]
    pub fn ended_by_return(&self) -> bool {
        matches!(self.state.ended, Some((_, true)))
    }

    /// The number of the last event that is in the journal.
    #[must_use]
    pub fn last_event(&self) -> u64 {
        self.state.last_event
    }

    /// The difference that stopped it.
    #[must_use]
    pub fn stopped(&self) -> Option<&Mismatch> {
        self.stopped.as_ref()
    }

    /// The step of an operation, and the number of its failures so far.
    #[must_use]
    pub fn step_of(&self, op: Operation) -> Option<&StepId> {
        self.state.step(op).map(|step| &step.begun.step)
    }

    /// How long the present turn may take.
    #[must_use]
    pub fn turn_limit(&self) -> TurnLimit {
        match self.guest.owner {
            Owner::Workflow => TurnLimit { of_body: false, deadline_ms: None },
            Owner::Body(attempt) => {
                TurnLimit { of_body: true, deadline_ms: self.live.get(&attempt.operation).map(|live| live.deadline_ms) }
            }
        }
    }

    /// The one door: every entry is made here, by the same fold that reads it back.
    pub(super) fn record(&mut self, now_ms: u64, record: Record) -> u64 {
        let entry = Entry { at_ms: now_ms.max(self.state.at_ms), record };
        let bytes = codec::encode(&entry);
        let at_ms = entry.at_ms;
        match self.state.apply(&entry, bytes.len()) {
            Ok(()) => self.outputs.push(Output::Append { entry, bytes }),
            // A fault of this program: better to stop the run, visibly and with its journal whole, than to write nonsense.
            Err(reason) => self.stop(Mismatch {
                seq: self.state.entries,
                turn: self.guest.turn,
                recorded: "a journal in order".to_owned(),
                came: format!("an entry that cannot stand there ({reason})"),
                likely: "a fault of Stepwell's own; please report it with the journal".to_owned(),
            }),
        }
        at_ms
    }

    pub(super) fn stop(&mut self, mismatch: Mismatch) {
        if self.stopped.is_none() {
            self.stopped = Some(mismatch.clone());
            self.outputs.push(Output::Stopped(mismatch));
        }
    }
}
