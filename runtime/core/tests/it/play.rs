//! A run that a test plays by hand: the guest's commands, the world's answers, the clock. What happens is written down as a text.
//!
//! The journal's lines stand at the left; indented is what the guest is told (`guest <-`), what it is refused (`guest !!`), what
//! leaves (`world <-`) and what the test does besides (`--`). The text is compared with `tests/golden/<name>.txt`; with
//! `UPDATE_GOLDEN=1` in the environment it is written there. At the end every beginning of the journal is replayed: `replay`.

mod given;
mod replay;
mod show;

pub(crate) use given::{class, declined, json, post, started, status_error};

use std::fmt::Write as _;

use stepwell_core::contract::{
    Attempt, AttemptRef, Event, Evidence, Exchange, Operation, Request, Response, RunOptions, StepOptions,
};
use stepwell_core::error::{Code, Error};
use stepwell_core::journal::entry::{Reply, Started};
use stepwell_core::journal::print::{Printer, Times};
use stepwell_core::json::Json;
use stepwell_core::policy::effect::dead_key;
use stepwell_core::run::{Activity, Granted, Input, Machine, Mode, Output, Refusal, Retried, Retry};

use replay::Act;
use show::{errand_text, event_text};

/// When runs begin, in ms since the Unix epoch.
pub(crate) const START_MS: u64 = 1_000_000;
/// Of what is due later than this nothing is said.
const HOUR_MS: u64 = 3_600_000;

/// A run under way.
pub(crate) struct Play {
    pub(crate) machine: Machine,
    pub(crate) journal: Vec<Vec<u8>>,
    text: String,
    printer: Printer,
    now_ms: u64,
    /// What workflow code did and was told, for its replay.
    acts: Vec<Act>,
    /// The same of earlier lives, which ended with so many entries: the run had failed, and was taken up again.
    lives: Vec<(usize, Vec<Act>)>,
    delivered: Option<Event>,
    result: Option<Result<Json, Error>>,
    sent: usize,
    torn: Vec<Exchange>,
}

impl Play {
    pub(crate) fn new() -> Self {
        Self::of(started())
    }

    /// A run of which nothing has run yet.
    pub(crate) fn queued() -> Self {
        let mut play = Self::new();
        play.machine = Machine::load(&play.journal, None, Mode::Continue).unwrap();
        play
    }

    pub(crate) fn of(started: Started) -> Self {
        let journal = vec![Machine::first_entry(START_MS, started)];
        let mut printer = Printer::new(Times::Relative);
        let first = stepwell_core::journal::codec::decode(0, &journal[0]).unwrap();
        let text = format!("{}\n", printer.line(&first));
        let mut machine = Machine::load(&journal, None, Mode::Continue).unwrap();
        machine.begin();
        Self {
            machine,
            journal,
            text,
            printer,
            now_ms: START_MS,
            acts: Vec::new(),
            lives: Vec::new(),
            delivered: None,
            result: None,
            sent: 0,
            torn: Vec::new(),
        }
    }

    /// A run that goes on from a journal, in its first instance.
    pub(crate) fn of_journal(journal: Vec<Vec<u8>>) -> Self {
        let mut machine = Machine::load(&journal, None, Mode::Continue).unwrap();
        machine.begin();
        let now_ms = machine.recorded_ms();
        Self { machine, journal, now_ms, ..Self::new() }
    }

    /// The guest begins a step that is in the journal, and is told of its result.
    pub(crate) fn redone(&mut self, name: &str, op: Operation) {
        assert_eq!(self.step(name), op);
        assert!(matches!(self.quiet(), Some(Event::Completed(of, _)) if of == op));
    }

    /// A line of the test's own.
    pub(crate) fn note(&mut self, text: &str) {
        self.line("--", text);
    }

    fn line(&mut self, mark: &str, text: &str) {
        let _ = writeln!(self.text, "{:>14} {mark} {text}", "");
    }

    fn refused(&mut self, error: &Error) {
        self.line("guest !!", &error.to_string());
    }

    /// Takes the machine's outputs in.
    fn drain(&mut self) {
        for output in self.machine.outputs() {
            match output {
                Output::Append { entry, bytes } => {
                    self.journal.push(bytes);
                    let line = self.printer.line(&entry);
                    let _ = writeln!(self.text, "{line}");
                }
                Output::Deliver(event) => {
                    let told = event_text(&event);
                    self.line("guest <-", &told);
                    if let Some(act) = Act::told(&event) {
                        self.acts.push(act);
                    }
                    assert!(self.delivered.replace(event).is_none(), "two events in one turn");
                }
                Output::Send { request, key, not_after_ms, .. } => {
                    let key = key.as_ref().map(|key| format!(", key {key}")).unwrap_or_default();
                    let until = not_after_ms.filter(|at_ms| *at_ms < self.now_ms + HOUR_MS);
                    let until = until.map(|at_ms| format!(", within {} ms", at_ms - self.now_ms)).unwrap_or_default();
                    self.line("world <-", &format!("{} {}{key}{until}", request.method, request.url));
                    self.sent += 1;
                }
                Output::Abort(exchange) => {
                    self.line("world <-", "tear the request down");
                    self.torn.push(exchange);
                }
                Output::Rebuild => self.line("--", "rebuild"),
                Output::Finished(_) => self.line("--", "finished"),
                Output::Stopped(mismatch) => self.line("--", &format!("stopped: {mismatch}")),
                Output::Verified => self.line("--", "verified"),
                Output::Errand(errand) => {
                    let told = errand_text(&errand);
                    self.line("store <-", &told);
                }
                Output::StatusText(_) | Output::Log(_) => {}
            }
        }
    }

    fn handle(&mut self, input: Input) {
        self.machine.handle(input, self.now_ms, 0);
        self.drain();
    }

    // The guest.

    pub(crate) fn step_with(&mut self, name: &str, options: &StepOptions) -> Operation {
        let op = self.machine.step_begin(name, options, self.now_ms).unwrap();
        self.acts.push(Act::Step(op, name.into(), options.clone()));
        self.drain();
        op
    }

    pub(crate) fn step(&mut self, name: &str) -> Operation {
        self.step_with(name, &StepOptions::default())
    }

    pub(crate) fn sleep(&mut self, ms: u64) -> Operation {
        let op = self.machine.sleep(ms, self.now_ms).unwrap();
        self.acts.push(Act::Sleep(op, ms));
        self.drain();
        op
    }

    pub(crate) fn wait(&mut self, name: &str, timeout_ms: Option<u64>) -> Operation {
        let op = self.machine.wait_event(name, timeout_ms, self.now_ms).unwrap();
        self.acts.push(Act::Wait(op, name.into(), timeout_ms));
        self.drain();
        op
    }

    pub(crate) fn send_to(&mut self, to: &str, name: &str, payload: &str) -> Operation {
        let op = self.machine.send_event(to, name, json(payload), self.now_ms).unwrap();
        self.acts.push(Act::Send(op, to.into(), name.into(), json(payload)));
        self.drain();
        op
    }

    pub(crate) fn start(&mut self, workflow: &str, input: &str, options: RunOptions) -> Operation {
        let op = self.machine.start_run(workflow, json(input), options.clone(), self.now_ms).unwrap();
        self.acts.push(Act::Start(op, workflow.into(), json(input), options));
        self.drain();
        op
    }

    pub(crate) fn continue_as_new(&mut self, input: &str) {
        self.machine.continue_as_new(json(input), self.now_ms).unwrap();
        self.acts.push(Act::Continue(json(input)));
        self.drain();
    }

    pub(crate) fn close(&mut self, op: Operation) {
        self.machine.close(op, self.now_ms, 0).unwrap();
        self.acts.push(Act::Close(op));
        self.drain();
    }

    /// A command that is refused, for the text.
    pub(crate) fn refuses<T: std::fmt::Debug>(
        &mut self,
        command: impl FnOnce(&mut Machine, u64) -> Result<T, Error>,
    ) -> Error {
        let error = command(&mut self.machine, self.now_ms).unwrap_err();
        self.drain();
        self.refused(&error);
        error
    }

    /// The guest is quiet; the event that it is given, if any.
    pub(crate) fn quiet(&mut self) -> Option<Event> {
        self.handle(Input::Quiet);
        self.delivered.take()
    }

    /// The guest is quiet, and is given an attempt.
    pub(crate) fn attempt(&mut self) -> Attempt {
        match self.quiet() {
            Some(Event::Attempt(attempt)) => attempt,
            other => panic!("no attempt but {other:?}\n{}", self.text),
        }
    }

    /// The guest is quiet, and nothing is there for it.
    pub(crate) fn nothing(&mut self) {
        let event = self.quiet();
        assert!(event.is_none(), "{event:?}\n{}", self.text);
    }

    pub(crate) fn finish(&mut self, attempt: &Attempt, outcome: Result<&str, Error>) {
        self.machine.step_finish(attempt.id, outcome.map(json), self.now_ms, 0).unwrap();
        self.drain();
    }

    /// A body's request, which is sent or answered from the record.
    pub(crate) fn send(&mut self, attempt: &Attempt, request: Request) -> Exchange {
        let exchange = self.machine.http_send(attempt.id, request, self.now_ms).unwrap();
        self.drain();
        exchange
    }

    /// A body's request that is refused.
    pub(crate) fn send_refused(&mut self, attempt: &Attempt, request: Request) -> Error {
        let id: AttemptRef = attempt.id;
        self.refuses(move |machine, now_ms| machine.http_send(id, request, now_ms))
    }

    pub(crate) fn returns(&mut self, result: Result<&str, Error>) {
        let result = result.map(json);
        self.result = Some(result.clone());
        self.handle(Input::Returned(result));
    }

    /// The instance traps.
    pub(crate) fn traps(&mut self, code: Code) {
        self.handle(Input::Trapped(Error::new(code, "the guest trapped")));
    }

    // The world.

    /// The request is answered with this status and body.
    pub(crate) fn answered(&mut self, exchange: Exchange, status: u16, body: &str) {
        let response = Response { status, headers: Vec::new(), body: body.into(), recorded: false };
        self.handle(Input::Settled { exchange, evidence: Evidence::Answered(status), answer: Ok(response) });
    }

    /// The request left, and no answer came.
    pub(crate) fn lost(&mut self, exchange: Exchange) {
        let answer = Err(Error::new(Code::RequestFailed, "the connection broke before the answer"));
        self.handle(Input::Settled { exchange, evidence: Evidence::Sent, answer });
    }

    /// Nothing of the request left.
    pub(crate) fn not_sent(&mut self, exchange: Exchange) {
        let answer = Err(Error::new(Code::ConnectFailed, "connection refused"));
        self.handle(Input::Settled { exchange, evidence: Evidence::NotSent, answer });
    }

    /// The host let nothing of the request leave, since its key had died.
    pub(crate) fn dead(&mut self, exchange: Exchange) {
        self.handle(Input::Settled { exchange, evidence: Evidence::NotSent, answer: Err(dead_key()) });
    }

    /// The requests that were to be torn down since the last call.
    pub(crate) fn torn(&mut self) -> Vec<Exchange> {
        std::mem::take(&mut self.torn)
    }

    pub(crate) fn event(&mut self, id: u64, name: &str, payload: &str) {
        self.handle(Input::Event { id, name: name.into(), payload: json(payload) });
    }

    /// What became of an operation on another run is in the inbox.
    pub(crate) fn reply(&mut self, id: u64, op: Operation, reply: Result<&str, Error>) {
        let reply = match reply {
            Ok(value) => Reply::Succeeded(json(value)),
            Err(error) => Reply::Failed(error),
        };
        self.handle(Input::Reply { id, op, reply });
    }

    // People.

    /// What a person asks, and is answered.
    pub(crate) fn ask(
        &mut self,
        ask: impl FnOnce(&mut Machine, u64) -> Result<Granted, Refusal>,
    ) -> Result<Granted, Refusal> {
        let answer = ask(&mut self.machine, self.now_ms);
        self.drain();
        self.note(&match &answer {
            Ok(granted) => format!("granted: {granted:?}"),
            Err(refusal) => format!("refused: {refusal}"),
        });
        answer
    }

    pub(crate) fn cancel(&mut self) -> Result<Granted, Refusal> {
        let error = Error::new(Code::Cancelled, "asked to").never_retried();
        self.ask(|machine, now_ms| machine.cancel(error, "ana", now_ms, 0))
    }

    pub(crate) fn terminate(&mut self) -> Result<Granted, Refusal> {
        let error = Error::new(Code::Terminated, "asked to").never_retried();
        self.ask(|machine, now_ms| machine.terminate(error, "ana", now_ms, 0))
    }

    pub(crate) fn pause(&mut self) -> Result<Granted, Refusal> {
        self.ask(|machine, now_ms| machine.pause("the bank is down", "ana", now_ms))
    }

    pub(crate) fn unpause(&mut self) -> Result<Granted, Refusal> {
        self.ask(|machine, now_ms| machine.unpause("ana", now_ms, 0))
    }

    /// The failed run is taken up again, and its instance is built.
    pub(crate) fn retry(&mut self, retry: &Retry) -> Result<Retried, Refusal> {
        let mut retried = None;
        let answer = self.ask(|machine, now_ms| {
            let answer = machine.retry(retry, "the bank is back", "ana", now_ms);
            retried = answer.clone().ok();
            answer.map(|retried| retried.granted)
        });
        answer?;
        let rewound = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).contains("rewound");
        // What it is told before that belongs to the life that ended.
        let entries = self.journal.iter().rposition(rewound).expect("it was taken back");
        self.lives.push((entries, self.acts.clone()));
        self.result = None;
        self.rebuild();
        Ok(retried.expect("it was granted"))
    }

    /// The clock shows this, in ms since the run began.
    pub(crate) fn clock(&mut self, ms: u64) {
        self.now_ms = START_MS + ms;
        self.handle(Input::Time);
    }

    /// The clock shows the next due time.
    pub(crate) fn next_due(&mut self) {
        let due_ms = self.machine.next_due_ms().expect("something falls due");
        self.clock(due_ms - START_MS);
    }

    /// The process dies, with the journal's entries up to `kept` on disk, and the run is built again from them.
    pub(crate) fn crash_keeping(&mut self, kept: usize) {
        self.note(&format!("crash; {kept} entries are on disk"));
        self.journal.truncate(kept);
        self.machine = Machine::load(&self.journal, None, Mode::Continue).unwrap();
        self.rebuild();
    }

    /// The process dies with everything on disk, and the run is built again.
    pub(crate) fn crash(&mut self) {
        self.crash_keeping(self.journal.len());
    }

    /// The process dies with everything on disk, and the run is read again. Nothing of it runs.
    pub(crate) fn lose_process(&mut self) {
        self.note("crash");
        self.machine = Machine::load(&self.journal, None, Mode::Continue).unwrap();
    }

    /// The database is lost, and restored from a copy that has the journal's entries up to `kept`.
    pub(crate) fn restore_keeping(&mut self, kept: usize, epoch: &str) {
        self.note(&format!("restored from a copy of {kept} entries"));
        self.journal.truncate(kept);
        self.machine = Machine::load(&self.journal, None, Mode::Continue).unwrap();
        self.machine.restore((epoch, true), "restored from a copy", "ana", self.now_ms, 0).unwrap();
        self.drain();
    }

    /// A person resumes the run, and it is built again.
    pub(crate) fn taken_up(&mut self) {
        assert_eq!(self.unpause(), Ok(Granted::Now));
        self.rebuild();
    }

    /// The instance is built again: workflow code does what it did.
    pub(crate) fn rebuild(&mut self) {
        self.machine.resume(self.now_ms, false).unwrap();
        self.drain();
        self.delivered = None;
        let acts = std::mem::take(&mut self.acts);
        let done = replay::follow(&mut self.machine, &acts, self.now_ms);
        self.acts = acts;
        self.acts.truncate(done);
    }

    // Looking.

    /// How many requests have left.
    pub(crate) fn sends(&self) -> usize {
        self.sent
    }

    pub(crate) fn activity(&mut self) -> Activity {
        let activity = self.machine.activity();
        self.note(&format!("{activity:?}"));
        activity
    }

    /// Compares the text with its golden file, and replays every beginning of the journal.
    pub(crate) fn check(self, name: &str) {
        golden(name, &self.text);
        let mut from = 1;
        for (until, acts) in self.lives {
            replay::every_beginning(&self.journal[..until], from, &acts, &self.text);
            from = until + 1;
        }
        replay::every_beginning(&self.journal, from, &self.acts, &self.text);
        if let Some(result) = self.result.filter(|_| self.machine.ended_by_return()) {
            replay::verified(&self.journal, &self.acts, result);
        }
    }
}

pub(crate) fn golden(name: &str, text: &str) {
    let path = format!("{}/tests/golden/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    assert!(expected == text, "{path} differs; this came (UPDATE_GOLDEN=1 writes it):\n{text}");
}
