//! A scripted guest: interprets a program as an SDK would, one event a turn, a pure function of what it is told.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use stepwell_core::contract::{
    Answer, Attempt, AttemptRef, Event, Exchange, Operation, ParentClose, RunOptions, StepOptions,
};
use stepwell_core::error::{Code, Error};
use stepwell_core::json::Json;

use crate::body;
use crate::executor::Task;
use crate::host::Host;
use crate::program::{Operation as Begin, OperationKind, Program, StepPlan};
use crate::workflow;

/// One life of an instance.
pub struct Guest {
    /// What its tasks share.
    pub heap: Rc<Heap>,
    tasks: Vec<Task>,
    /// Attempts that were closed and whose bodies do not care.
    zombies: Vec<AttemptRef>,
}

/// What an instance holds in memory.
pub struct Heap {
    /// The way out.
    pub host: Rc<RefCell<Host>>,
    pub(crate) program: Rc<Program>,
    outcomes: RefCell<BTreeMap<Operation, Result<Json, Error>>>,
    /// Answers of requests and delays.
    pub answers: RefCell<BTreeMap<Exchange, Result<Answer, Error>>>,
    plans: RefCell<BTreeMap<Operation, Rc<StepPlan>>>,
    pub(crate) started: RefCell<Vec<(Operation, bool)>>,
    /// All operations of the workflow, in order.
    pub begun: RefCell<Vec<Operation>>,
    pub(crate) seen: RefCell<Vec<String>>,
    /// Unsafe requests of bodies.
    pub unsafe_sent: RefCell<BTreeMap<AttemptRef, Vec<Exchange>>>,
    /// The request for the token that bodies share, and whose it is.
    pub token: Cell<Option<(AttemptRef, Exchange)>>,
    pub(crate) cancelled: Cell<bool>,
    /// Deliveries to workflow code, and how often it has asked for chance since the last one.
    pub(crate) turn: Cell<(u64, u32)>,
    moved: Cell<bool>,
    trap: RefCell<Option<Error>>,
    pub(crate) returned: RefCell<Option<Result<Json, Error>>>,
}

/// How a turn ended.
#[derive(Debug)]
pub enum Turn {
    /// The guest waits for the next event.
    Quiet,
    /// The workflow's function returned.
    Returned(Result<Json, Error>),
    /// The instance is gone.
    Trapped(Error),
}

impl Guest {
    /// A new instance, before its first turn.
    #[must_use]
    pub fn new(host: Rc<RefCell<Host>>, program: Rc<Program>) -> Self {
        let heap = Rc::new(Heap {
            host,
            program,
            outcomes: RefCell::default(),
            answers: RefCell::default(),
            plans: RefCell::default(),
            started: RefCell::default(),
            begun: RefCell::default(),
            seen: RefCell::default(),
            unsafe_sent: RefCell::default(),
            token: Cell::new(None),
            cancelled: Cell::new(false),
            turn: Cell::new((0, 0)),
            moved: Cell::new(false),
            trap: RefCell::default(),
            returned: RefCell::default(),
        });
        let main = Box::pin(workflow::run(heap.clone()));
        Self { heap, tasks: vec![Task { attempt: None, future: main }], zombies: Vec::new() }
    }

    /// Takes an event and runs until it is quiet.
    pub fn deliver(&mut self, event: Event) -> Turn {
        let of_workflow = matches!(event, Event::Completed(..) | Event::Failed(..) | Event::Cancelled);
        match event {
            Event::Attempt(attempt) => self.spawn(&attempt),
            Event::Expired(attempt) => self.expired(attempt),
            Event::Answered(exchange, answer) => {
                if self.heap.answers.borrow_mut().insert(exchange, answer).is_some() {
                    self.heap.violated(format!("exchange {exchange} was answered twice"));
                }
            }
            Event::Completed(op, value) => self.settled(op, Ok(value)),
            Event::Failed(op, error) => self.settled(op, Err(error)),
            Event::Cancelled => {
                if self.heap.cancelled.replace(true) {
                    self.heap.violated("the workflow was told twice that it is cancelled");
                }
            }
        }
        if of_workflow {
            self.heap.turn.set((self.heap.turn.get().0 + 1, 0));
        }
        let turn = self.run();
        for &attempt in &self.zombies {
            body::answer_late(&self.heap, attempt);
        }
        turn
    }

    /// Runs until nothing moves.
    pub fn run(&mut self) -> Turn {
        self.heap.moved.set(true);
        while self.heap.moved.replace(false) {
            let mut at = 0;
            while at < self.tasks.len() {
                if self.tasks[at].poll() {
                    drop(self.tasks.remove(at));
                    self.heap.moved.set(true);
                } else {
                    at += 1;
                }
                if let Some(error) = self.heap.trap.take() {
                    return Turn::Trapped(error);
                }
                if let Some(result) = self.heap.returned.take() {
                    return Turn::Returned(result);
                }
            }
        }
        Turn::Quiet
    }

    /// Whether a body is under way.
    #[must_use]
    pub fn has_bodies(&self) -> bool {
        self.tasks.iter().any(|task| task.attempt.is_some())
    }

    fn settled(&mut self, op: Operation, outcome: Result<Json, Error>) {
        if !self.heap.begun.borrow().contains(&op) {
            self.heap.violated(format!("operation {op} was delivered before it was begun"));
        }
        if self.heap.outcomes.borrow_mut().insert(op, outcome).is_some() {
            self.heap.violated(format!("operation {op} was delivered twice"));
        }
    }

    fn spawn(&mut self, attempt: &Attempt) {
        let Some(plan) = self.heap.plans.borrow().get(&attempt.id.operation).cloned() else {
            self.heap.violated(format!("an attempt of operation {}, which is no step", attempt.id.operation));
            return;
        };
        // In a later epoch than that in which the step began, its name stands between the two.
        let rest = attempt.idempotency_key.strip_prefix(&attempt.operation_key);
        let epoch = rest.and_then(|rest| rest.strip_suffix(&format!(":{}", attempt.id.number)));
        if !epoch.is_some_and(|epoch| epoch.is_empty() || epoch.starts_with(":r")) {
            self.heap.violated(format!("keys of an attempt: {attempt:?}"));
        }
        let running = |task: &Task| task.attempt.is_some_and(|other| other.operation == attempt.id.operation);
        if self.tasks.iter().any(running) {
            self.heap.violated(format!("two bodies of operation {} at once", attempt.id.operation));
        }
        let future = Box::pin(body::run(self.heap.clone(), plan, attempt.id));
        self.tasks.push(Task { attempt: Some(attempt.id), future });
    }

    fn expired(&mut self, attempt: AttemptRef) {
        self.tasks.retain(|task| task.attempt != Some(attempt));
        if let Some((owner, exchange)) = self.heap.token.get()
            && owner == attempt
        {
            self.heap.token.set(None);
            let lost = Error::new(Code::RequestFailed, "the body that fetched the token was closed");
            self.heap.answers.borrow_mut().entry(exchange).or_insert(Err(lost));
        }
        let plan = self.heap.plans.borrow().get(&attempt.operation).cloned();
        if plan.is_some_and(|plan| body::of_attempt(&plan, attempt.number).stubborn) {
            self.zombies.push(attempt);
        }
    }
}

impl Heap {
    /// Says that something must not be.
    pub fn violated(&self, what: impl Into<String>) {
        self.host.borrow_mut().violated(what);
    }

    /// Takes the instance down at the end of this poll.
    pub async fn trap(&self, error: Error) {
        *self.trap.borrow_mut() = Some(error);
        std::future::pending::<()>().await;
    }

    /// A trap ends the instance at once: what else this poll would do never reaches the machine.
    pub(crate) fn untrapped(&self) -> Result<(), Error> {
        self.trap.borrow().clone().map_or(Ok(()), Err)
    }

    /// An operation's outcome, once it was delivered.
    pub async fn outcome(self: &Rc<Self>, op: Operation) -> Result<Json, Error> {
        let heap = self.clone();
        poll_fn(move |_| heap.outcomes.borrow().get(&op).cloned().map_or(Poll::Pending, Poll::Ready)).await
    }

    /// What came of a request or delay. It can be awaited by many.
    pub async fn answer(self: &Rc<Self>, exchange: Exchange) -> Result<Answer, Error> {
        let heap = self.clone();
        poll_fn(move |_| heap.answers.borrow().get(&exchange).cloned().map_or(Poll::Pending, Poll::Ready)).await
    }

    /// A number of the run's own chance, which is the same however often its turn is lived through.
    pub(crate) fn chance(&self) -> u64 {
        let (turn, nth) = self.turn.get();
        self.turn.set((turn, nth + 1));
        let mut host = self.host.borrow_mut();
        let told = (host.machine.random_u64(0), host.machine.told_run_id().to_string());
        let known = host.witness.entry((turn, nth)).or_insert_with(|| told.clone()).clone();
        if known != told {
            host.violated(format!("in turn {turn} workflow code is told {told:?}, and was {known:?}"));
        }
        told.0
    }

    pub(crate) fn see(&self, what: impl Into<String>) {
        self.seen.borrow_mut().push(what.into());
    }

    pub(crate) fn now(&self) -> u64 {
        let host = self.host.borrow();
        host.machine.now_ms(host.now_ms)
    }

    pub(crate) fn begin(&self, begin: &Begin) -> Result<Operation, Error> {
        self.untrapped()?;
        let mut host = self.host.borrow_mut();
        let now_ms = host.now_ms;
        let op = match &begin.kind {
            OperationKind::Sleep(ms) => host.machine.sleep(*ms, now_ms),
            OperationKind::Wait(name, timeout_ms) => host.machine.wait_event(name, *timeout_ms, now_ms),
            OperationKind::Send(name) => {
                let payload = Json::parse("{\"from\": 1}").unwrap_or_else(|_| Json::null());
                host.machine.send_event("run_2", name, payload, now_ms)
            }
            OperationKind::Child { detached, abandoned, .. } => {
                let options = RunOptions {
                    run_key: None,
                    detached: *detached,
                    on_parent_close: if *abandoned { ParentClose::Abandon } else { ParentClose::Cancel },
                    tags: Vec::new(),
                };
                host.machine.start_run("child", Json::null(), options, now_ms)
            }
            OperationKind::Step(plan) => {
                let options = StepOptions {
                    retry: plan.retry,
                    timeout_ms: Some(plan.timeout_ms),
                    effect: Some(plan.class),
                    key_ttl_ms: Some(plan.key_ttl_ms),
                    ..StepOptions::default()
                };
                host.machine.step_begin(&plan.name, &options, now_ms)
            }
        }?;
        if let OperationKind::Child { takes_ms, .. } = &begin.kind {
            host.takes.insert(op, *takes_ms);
        }
        if let OperationKind::Step(plan) = &begin.kind {
            self.plans.borrow_mut().insert(op, plan.clone());
        }
        self.begun.borrow_mut().push(op);
        Ok(op)
    }

    pub(crate) fn close(&self, op: Operation) -> Result<(), Error> {
        self.untrapped()?;
        let mut host = self.host.borrow_mut();
        let (now_ms, random) = (host.now_ms, host.random());
        host.machine.close(op, now_ms, random)
    }

    /// Awaits, remembers, and throws what is not caught.
    pub(crate) async fn join(self: &Rc<Self>, op: Operation, caught: bool) -> Result<(), Error> {
        let outcome = self.outcome(op).await;
        self.take(op, outcome, caught)
    }

    pub(crate) fn take(&self, op: Operation, outcome: Result<Json, Error>, caught: bool) -> Result<(), Error> {
        match outcome {
            Ok(value) => self.see(format!("{op}={value}")),
            Err(error) => {
                self.see(format!("{op}!{error:?}"));
                if !caught {
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}
