//! A guest's commands, answered by its run's machine.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stepwell_core::contract::{AttemptRef, Exchange, Level, Operation, Request, RunOptions, StepOptions};
use stepwell_core::error::Error;
use stepwell_core::json::Json;
use stepwell_core::run::Machine;
use stepwell_host::Commands;

use crate::clock::{RunClock, random};
use crate::effects::Outside;

/// What the run's task and its guest share. The guest runs within the task, so the lock is never contended; it is there because the
/// instance owns its half.
pub(crate) struct Shared {
    pub(crate) machine: Machine,
    pub(crate) clock: RunClock,
    pub(crate) outside: Outside,
}

#[derive(Clone)]
pub(crate) struct Handle(Arc<Mutex<Shared>>);

impl Handle {
    pub(crate) fn new(machine: Machine, clock: RunClock, outside: Outside) -> Self {
        Self(Arc::new(Mutex::new(Shared { machine, clock, outside })))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Shared> {
        // A panic under the lock is a fault of ours in one run; what it left is what its journal will be checked against.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Commands for Handle {
    fn step_begin(&mut self, name: String, options: StepOptions) -> Result<Operation, Error> {
        let mut shared = self.lock();
        let now = shared.clock.now_ms();
        shared.machine.step_begin(&name, &options, now)
    }

    fn sleep(&mut self, ms: u64) -> Result<Operation, Error> {
        let mut shared = self.lock();
        let now = shared.clock.now_ms();
        shared.machine.sleep(ms, now)
    }

    fn wait_event(&mut self, name: String, timeout_ms: Option<u64>) -> Result<Operation, Error> {
        let mut shared = self.lock();
        let now = shared.clock.now_ms();
        shared.machine.wait_event(&name, timeout_ms, now)
    }

    fn start_run(&mut self, workflow: String, input: Json, options: RunOptions) -> Result<Operation, Error> {
        let mut shared = self.lock();
        let now = shared.clock.now_ms();
        shared.machine.start_run(&workflow, input, options, now)
    }

    fn send_event(&mut self, run_id: String, name: String, payload: Json) -> Result<Operation, Error> {
        let mut shared = self.lock();
        let now = shared.clock.now_ms();
        shared.machine.send_event(&run_id, &name, payload, now)
    }

    fn close(&mut self, operation: Operation) -> Result<(), Error> {
        let mut shared = self.lock();
        let now = shared.clock.now_ms();
        shared.machine.close(operation, now, random())
    }

    fn continue_as_new(&mut self, input: Json) -> Result<(), Error> {
        let mut shared = self.lock();
        let now = shared.clock.now_ms();
        shared.machine.continue_as_new(input, now)
    }

    fn step_finish(&mut self, attempt: AttemptRef, outcome: Result<Json, Error>) -> Result<(), Error> {
        let mut shared = self.lock();
        let now = shared.clock.now_ms();
        shared.machine.step_finish(attempt, outcome, now, random())
    }

    fn http_send(&mut self, attempt: AttemptRef, request: Request) -> Result<Exchange, Error> {
        let mut shared = self.lock();
        let now = shared.clock.now_ms();
        // Whether it may be sent at all comes first: its answer says more than any fault of the request's.
        shared.machine.may_send(attempt)?;
        shared.outside.check(&request)?;
        shared.machine.http_send(attempt, request, now)
    }

    fn delay(&mut self, attempt: AttemptRef, ms: u64) -> Result<Exchange, Error> {
        let mut shared = self.lock();
        let now = shared.clock.now_ms();
        shared.machine.delay(attempt, ms, now)
    }

    fn now_ms(&mut self) -> u64 {
        let shared = self.lock();
        shared.machine.now_ms(shared.clock.now_ms())
    }

    fn random_u64(&mut self) -> u64 {
        self.lock().machine.random_u64(random())
    }

    fn log(&mut self, level: Level, message: String, fields: Option<Json>) {
        let mut shared = self.lock();
        let now = shared.clock.now_ms();
        shared.machine.log(level, message, fields, now);
    }

    fn set_status(&mut self, text: String) {
        self.lock().machine.set_status(text);
    }

    fn run_id(&mut self) -> String {
        self.lock().machine.told_run_id().to_string()
    }
}
