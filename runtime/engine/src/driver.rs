//! A run's task: it moves data between the machine, the instance, the store and the world, and decides nothing.
//!
//! ```text
//!   build the instance ──> turn ──> what came of it to the machine ──> its outputs are carried out ──┐
//!            ^               ^                                                                       │
//!            │               └────────────── an event to deliver ────────────────────────────────────┤
//!            └── rebuild ────────────────────────────────────────────────────────────────────────────┤
//!                            wait for a message or for time, or give the instance up ────────────────┘
//! ```

mod asked;
mod build;
mod guest;
mod leave;
mod others;
mod rebuild;
mod turn;

pub(crate) use leave::unknown_text;

use std::sync::Arc;
use std::time::Duration;

use stepwell_core::contract::{Definition, Event, Evidence, Exchange, Response};
use stepwell_core::error::{Code, Error};
use stepwell_core::journal::entry::Record;
use stepwell_core::run::{Input, Output};
use stepwell_host::{Invocation, MemoryShare, Module};
use stepwell_store::{INBOX_PAGE_BYTES, RunChange, RunKey, StoreError, Turn};
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use self::others::Other;
use crate::ask::{Answer, Question};
use crate::batch::{Writing, ended};
use crate::clock::{random, real_now_ms};
use crate::commands::Handle;
use crate::effects::{InFlight, Leave};
use crate::engine::Engine;
use crate::fault::{Fault, planted};
use crate::lengths::TurnLengths;
use crate::long::give_way_over_there;
use crate::points::Moment;
use crate::ready::Stands;
use crate::slice::Slice;
use crate::watch::RunEvent;

/// What a run's task is told.
#[derive(Debug)]
pub(crate) enum Message {
    /// A request is over.
    Settled { exchange: Exchange, evidence: Evidence, answer: Result<Response, Error> },
    /// Something is in the run's inbox.
    Inbox,
    /// There may be something to do for the run.
    Wake {
        /// Its journal was written in this process and nothing has run yet: there is nothing to recover.
        fresh: bool,
    },
    /// It waited to begin, and may now.
    Admitted,
    /// Somebody asks something of it, and waits for the answer.
    Ask(Question, Answer),
    /// The engine stops: the run is to be left where it is.
    Stop,
    /// The run's parent has ended, or waits for it no longer: it is asked to cancel.
    ParentGone,
    /// What was to be durable is not.
    StoreFailed(StoreError),
}

/// How a run's task ended.
#[derive(Debug)]
pub(crate) enum End {
    /// The run is over, or set aside; watchers know.
    Done,
    /// It waits without an instance, until this real time at the latest.
    Parked { wake_at_ms: Option<u64> },
    /// Something of the machine's is in its way, and passes: it is taken up anew from its journal in a while.
    Later,
    /// It waits for a place among the live ones.
    Waits,
}

pub(crate) struct Driver {
    pub(crate) engine: Engine,
    pub(crate) key: RunKey,
    /// Once an instance was needed.
    pub(crate) module: Option<Module>,
    pub(crate) shared: Handle,
    pub(crate) writing: Writing,
    pub(crate) sender: UnboundedSender<Message>,
    pub(crate) messages: UnboundedReceiver<Message>,
    /// The run has, or may have, something to do; else somebody only wanted an answer.
    pub(crate) wanted: bool,
    /// It was set aside by the engine, and is taken up again by a person alone.
    pub(crate) set_aside: bool,
    /// It was started to begin at this real time, and nothing of it has run.
    pub(crate) begins_at: Option<u64>,
    /// Whether it may begin, where the queue knows it.
    pub(crate) turn: Option<Turn>,
    /// When its timer is due, where one is armed.
    pub(crate) armed: Option<u64>,
    /// Its journal was written in this process and nothing has run yet: there is nothing to recover.
    pub(crate) fresh: bool,
    /// A person asked for this recovery: the limit does not apply.
    pub(crate) by_hand: bool,
    pub(crate) invocation: Option<Invocation>,
    pub(crate) in_flight: InFlight,
    /// Runs that are to be told of what this one has done to them, once that is durable.
    pub(crate) others: Vec<Other>,
    /// Of its module, once an instance was needed.
    pub(crate) workflows: Option<Arc<Vec<Definition>>>,
    /// Of its module's turns.
    pub(crate) lengths: Arc<TurnLengths>,
    /// Slices that it has used up one after the other, without waiting for anything.
    pub(crate) slices: u32,
    /// Its run key and tags, for the run that goes on for it.
    pub(crate) run_key: Option<String>,
    pub(crate) tags: Vec<(String, String)>,
    pub(crate) event: Option<Event>,
    pub(crate) end: Option<End>,
    /// The engine stops: until this real time, attempts under way may come to their end. No other is started.
    pub(crate) stop_at: Option<u64>,
    /// The inbox is to be read, once the run is live.
    pub(crate) inbox: bool,
    /// The last of the inbox that was given to the machine.
    pub(crate) inbox_seen: u64,
    /// The place among those that are being rebuilt; held until the run has come to its journal's end.
    pub(crate) rebuilding: Option<OwnedSemaphorePermit>,
    /// Where it waited for a place, if it has none yet.
    pub(crate) stood: Option<Stands>,
    /// The place among live instances. Held for as long as there is an instance.
    pub(crate) place: Option<OwnedSemaphorePermit>,
    /// What its instances have of the memory of all, once it has had one.
    pub(crate) share: Option<Arc<MemoryShare>>,
}

impl Driver {
    /// Drives the run until it is over, set aside, or waits for something that is not near.
    pub(crate) async fn run(mut self) -> End {
        let mut slice = Slice::begin();
        loop {
            if slice.is_over() {
                // Others may take their time.
                self.writing.hand_over_any(real_now_ms());
                self.slices = self.slices.saturating_add(1);
                if self.is_busy() {
                    give_way_over_there().await;
                    slice = Slice::begin();
                } else {
                    slice.give_way().await;
                }
            }
            if let Some(end) = self.end.take() {
                // Whoever takes the run up next reads its journal from the disk. What could not be written there has not happened.
                if !planted(Fault::ParkBeforeDurable) && !matches!(end, End::Later) {
                    let _ = self.durable().await;
                }
                self.points().pass(Moment::Leaving).await;
                return self.end.take().unwrap_or(end);
            }
            if self.must_stop() {
                self.stop().await;
                continue;
            }
            while let Ok(message) = self.messages.try_recv() {
                self.take(message);
            }
            if self.end.is_none() && self.invocation.is_none() && self.needs_instance() {
                self.build().await;
                if self.invocation.is_none() {
                    continue;
                }
            }
            if let Err(error) = self.writing.keep_pace(real_now_ms()).await {
                self.store_failed(&error);
                continue;
            }
            if self.invocation.is_some() {
                self.turn().await;
                // The turn's end was asked about already, with all that had come until then.
                if self.catch_up() {
                    self.ask();
                }
            }
            while self.end.is_none() && self.event.is_none() && (self.invocation.is_some() || !self.needs_instance()) {
                if self.must_stop() {
                    self.stop().await;
                } else if self.inbox && self.invocation.is_some() && self.shared.lock().machine.is_live() {
                    self.read_inbox();
                    self.handle(Input::Quiet);
                } else if !self.park_if_idle().await {
                    self.wait().await;
                }
            }
        }
    }

    /// Waits for a message or for time, and asks what is to be done then.
    async fn wait(&mut self) {
        self.slices = 0;
        self.writing.hand_over_any(real_now_ms());
        let due = self.due();
        tokio::select! {
            biased;
            message = self.messages.recv() => {
                if let Some(message) = message {
                    self.take(message);
                }
            }
            () = until(due) => self.time(),
            () = until(self.stop_at) => {}
        }
        self.catch_up();
        self.ask();
    }

    /// Asks what a quiet guest is to be given. After whatever has happened: what fell due or came meanwhile says by itself only that
    /// something can be given, and a run that is not asked for it waits without end.
    fn ask(&mut self) {
        if self.invocation.is_some() && self.event.is_none() && self.end.is_none() {
            self.handle(Input::Quiet);
        }
    }

    /// Takes what came meanwhile, then looks at the time: an attempt that is overdue is told so before anything else. Whether there was
    /// anything; then the machine is to be asked.
    fn catch_up(&mut self) -> bool {
        let mut came = false;
        while self.end.is_none()
            && let Ok(message) = self.messages.try_recv()
        {
            came = true;
            self.take(message);
        }
        if self.end.is_none() && self.due().is_some_and(|due| due <= real_now_ms()) {
            came = true;
            self.time();
        }
        came
    }

    /// When something of the run falls due, in real time.
    fn due(&self) -> Option<u64> {
        let shared = self.shared.lock();
        shared.machine.next_due_ms().map(|due| shared.clock.to_real_ms(due))
    }

    fn time(&mut self) {
        self.points().mark(Moment::Due);
        self.handle(Input::Time);
    }

    pub(crate) fn take(&mut self, message: Message) {
        match message {
            Message::Settled { exchange, evidence, answer } => {
                self.points().mark(Moment::Settling);
                self.in_flight.settled(exchange);
                self.handle(Input::Settled { exchange, evidence, answer });
                self.points().mark(Moment::Settled);
            }
            Message::Inbox => {
                self.inbox = true;
                self.want();
            }
            Message::Wake { fresh } => {
                // Late, it is about an instance that was built already.
                self.fresh |= fresh && self.module.is_none();
                self.want();
            }
            Message::Admitted => self.admitted(),
            Message::Ask(question, answer) => self.asked(&question, answer),
            Message::ParentGone => self.parent_is_gone(),
            Message::Stop => {
                let grace = u64::try_from(self.engine.settings().stop_grace.as_millis()).unwrap_or(u64::MAX);
                self.stop_at.get_or_insert(real_now_ms().saturating_add(grace));
                self.shared.lock().machine.drain();
            }
            Message::StoreFailed(error) => self.store_failed(&error),
        }
    }

    /// Gives the machine the events that it does not have yet.
    fn read_inbox(&mut self) {
        self.inbox = false;
        let after = self.shared.lock().machine.last_event().max(self.inbox_seen);
        match self.engine.store().read().inbox(self.key, after) {
            Ok(events) => {
                // A full page is not all; the next one is read once this one is on its way.
                self.inbox = events.iter().map(|event| event.payload.len()).sum::<usize>() >= INBOX_PAGE_BYTES;
                for event in events {
                    self.inbox_seen = event.number;
                    match self.input(event) {
                        Ok(input) => self.handle(input),
                        Err(error) => tracing::error!(run = self.key, %error, "a part of the inbox is passed over"),
                    }
                }
            }
            Err(error) => self.store_failed(&error),
        }
    }

    fn handle(&mut self, input: Input) {
        {
            let mut shared = self.shared.lock();
            let now_ms = shared.clock.now_ms();
            shared.machine.handle(input, now_ms, random());
        }
        self.carry_out();
        self.rebuilt();
    }

    /// Carries out what the machine has decided, in its order.
    fn carry_out(&mut self) {
        let outputs = {
            let machine = &mut self.shared.lock().machine;
            let outputs = machine.outputs();
            let doubt = machine.is_in_doubt();
            let may_change =
                |record: &Record| record.may_change_unknown() || doubt && matches!(record, Record::StepBegun(_));
            let changes = |output: &Output| matches!(output, Output::Append { entry, .. } if may_change(&entry.record));
            // As it is after all of them; each step is looked at for this.
            if outputs.iter().any(changes) {
                self.writing.unknown(machine.unknown_count());
            }
            outputs
        };
        for output in outputs {
            match output {
                Output::Append { entry, bytes } => {
                    self.engine.counters().entry(&entry);
                    self.writing.entry(entry, bytes);
                }
                Output::Errand(errand) => self.errand(errand),
                Output::Deliver(event) => self.event = Some(event),
                Output::Send { exchange, request, key, not_after_ms, .. } => {
                    let after = self.writing.hand_over(real_now_ms());
                    let (outbound, client, not_after_ms) = {
                        let shared = self.shared.lock();
                        let not_after_ms = not_after_ms.map(|at_ms| shared.clock.to_real_ms(at_ms));
                        (shared.outside.outbound(request, key), shared.outside.client.clone(), not_after_ms)
                    };
                    let (store, points) = (self.writing.store().clone(), self.points().clone());
                    let leave = Leave { store, after, not_after_ms, points };
                    self.in_flight.send(exchange, outbound, client, leave, self.sender.clone());
                }
                Output::Abort(exchange) => self.in_flight.abort(exchange),
                Output::Log(line) => self.writing.log(line),
                Output::StatusText(text) => self.writing.status_text(text),
                Output::Rebuild => self.invocation = None,
                Output::Finished(outcome) => {
                    let (status, text) = ended(&outcome);
                    let mut change = RunChange::to(status, real_now_ms());
                    change.outcome = text;
                    // It stays listed what may have happened.
                    change.detail = unknown_text(&self.shared.lock().machine.unknown_steps());
                    self.invocation = None;
                    self.writing.change(change, Some(RunEvent::Ended(outcome)));
                    self.end = Some(End::Done);
                    let machine = &self.shared.lock().machine;
                    if machine.started().parent.is_some() || machine.has_children() {
                        self.others.push(Other::End);
                    }
                }
                Output::Stopped(mismatch) => {
                    let error = Error::new(Code::ReplayMismatch, mismatch.to_string()).never_retried();
                    self.invocation = None;
                    self.pause(&error);
                }
                Output::Verified => {}
            }
        }
        if self.others.is_empty() {
            self.writing.hand_over_if_due(real_now_ms());
        } else {
            // Whoever waits for a reply waits for this commit.
            let ticket = self.writing.hand_over(real_now_ms());
            self.tell_others(ticket);
        }
    }
}

/// Until a real time, or for ever.
async fn until(at_ms: Option<u64>) {
    match at_ms {
        Some(at_ms) => tokio::time::sleep(Duration::from_millis(at_ms.saturating_sub(real_now_ms()))).await,
        None => std::future::pending().await,
    }
}
