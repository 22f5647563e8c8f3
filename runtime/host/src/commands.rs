//! A guest's commands: the trait that the engine answers them with, and the glue that brings them there.
//!
//! Commands return at once. Whatever they lead to comes through `next`, see `port`.

use stepwell_core::contract::{AttemptRef, Exchange, Level, Operation, Request, RunOptions, StepOptions};
use stepwell_core::error::Error;
use stepwell_core::json::Json;
use stepwell_core::limits::{MAX_LOG_LINE_BYTES, MAX_STATUS_BYTES};
use wasmtime::component::{Accessor, HasSelf, Linker};

use crate::bindings::{blocking_turns, commands, turns, types as wit};
use crate::convert;
use crate::guest::Guest;

/// Where a guest's commands go. All return at once; an `Err` is a refusal, which the guest sees at its call. See the WIT for what
/// each means.
#[allow(missing_docs, clippy::missing_errors_doc, reason = "they are the contract's functions, documented there")]
pub trait Commands: Send + 'static {
    fn step_begin(&mut self, name: String, options: StepOptions) -> Result<Operation, Error>;
    fn sleep(&mut self, ms: u64) -> Result<Operation, Error>;
    fn wait_event(&mut self, name: String, timeout_ms: Option<u64>) -> Result<Operation, Error>;
    fn start_run(&mut self, workflow: String, input: Json, options: RunOptions) -> Result<Operation, Error>;
    fn send_event(&mut self, run_id: String, name: String, payload: Json) -> Result<Operation, Error>;
    fn close(&mut self, operation: Operation) -> Result<(), Error>;
    fn continue_as_new(&mut self, input: Json) -> Result<(), Error>;
    fn step_finish(&mut self, attempt: AttemptRef, outcome: Result<Json, Error>) -> Result<(), Error>;
    fn http_send(&mut self, attempt: AttemptRef, request: Request) -> Result<Exchange, Error>;
    fn delay(&mut self, attempt: AttemptRef, ms: u64) -> Result<Exchange, Error>;
    /// In ms since the Unix epoch.
    fn now_ms(&mut self) -> u64;
    fn random_u64(&mut self) -> u64;
    /// Messages are at most [`MAX_LOG_LINE_BYTES`] long when they come here.
    fn log(&mut self, level: Level, message: String, fields: Option<Json>);
    /// Texts are at most [`MAX_STATUS_BYTES`] long when they come here.
    fn set_status(&mut self, text: String);
    fn run_id(&mut self) -> String;
}

/// Adds the contract's three imported interfaces.
pub(crate) fn add_to_linker(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    commands::add_to_linker::<_, HasSelf<Guest>>(linker, |guest| guest)?;
    turns::add_to_linker::<_, HasSelf<Guest>>(linker, |guest| guest)?;
    blocking_turns::add_to_linker::<_, HasSelf<Guest>>(linker, |guest| guest)?;
    Ok(())
}

impl wit::Host for Guest {}
impl turns::Host for Guest {}

impl<T: Send + 'static> turns::HostWithStore<T> for HasSelf<Guest> {
    async fn next(accessor: &Accessor<T, Self>) -> wasmtime::Result<wit::Event> {
        let shared = accessor.with(|mut access| access.get().shared.clone());
        Ok(convert::event_to_guest(shared.port.next()?.await))
    }
}

impl blocking_turns::Host for Guest {
    async fn next(&mut self) -> wasmtime::Result<wit::Event> {
        Ok(convert::event_to_guest(self.shared.port.next()?.await))
    }
}

/// A refusal as the guest sees it.
type Refusable<T> = Result<T, wit::Error>;

fn refusable<T>(answer: Result<T, Error>) -> Refusable<T> {
    answer.map_err(convert::error_to_guest)
}

impl commands::Host for Guest {
    fn step_begin(&mut self, name: String, options: wit::StepOptions) -> Refusable<Operation> {
        refusable(self.commands.step_begin(name, convert::step_options(options)))
    }

    fn sleep(&mut self, ms: u64) -> Refusable<Operation> {
        refusable(self.commands.sleep(ms))
    }

    fn wait_event(&mut self, name: String, timeout_ms: Option<u64>) -> Refusable<Operation> {
        refusable(self.commands.wait_event(name, timeout_ms))
    }

    fn start_run(&mut self, workflow: String, input: String, options: wit::RunOptions) -> Refusable<Operation> {
        let input = convert::json(&input, "the input");
        refusable(input.and_then(|input| self.commands.start_run(workflow, input, convert::run_options(options))))
    }

    fn send_event(&mut self, run_id: String, name: String, payload: String) -> Refusable<Operation> {
        let payload = convert::json(&payload, "the payload");
        refusable(payload.and_then(|payload| self.commands.send_event(run_id, name, payload)))
    }

    fn close(&mut self, operation: Operation) -> Refusable<()> {
        refusable(self.commands.close(operation))
    }

    fn continue_as_new(&mut self, input: String) -> Refusable<()> {
        refusable(convert::json(&input, "the input").and_then(|input| self.commands.continue_as_new(input)))
    }

    fn step_finish(&mut self, attempt: wit::AttemptRef, outcome: Result<String, wit::Error>) -> Refusable<()> {
        let attempt = convert::attempt_ref(attempt);
        refusable(self.commands.step_finish(attempt, convert::outcome(outcome)))
    }

    fn http_send(&mut self, attempt: wit::AttemptRef, request: wit::Request) -> Refusable<Exchange> {
        refusable(self.commands.http_send(convert::attempt_ref(attempt), convert::request(request)))
    }

    fn delay(&mut self, attempt: wit::AttemptRef, ms: u64) -> Refusable<Exchange> {
        refusable(self.commands.delay(convert::attempt_ref(attempt), ms))
    }

    fn now_ms(&mut self) -> u64 {
        self.commands.now_ms()
    }

    fn random_u64(&mut self) -> u64 {
        self.commands.random_u64()
    }

    fn log(&mut self, level: wit::Level, mut message: String, fields: Option<String>) {
        // A log line cannot be refused: fields that are none are left out, with a word about it.
        let fields = match fields.as_deref().map(Json::parse) {
            Some(Ok(fields)) => Some(fields),
            Some(Err(_)) => {
                message.push_str(" (its fields were no JSON and were left out)");
                None
            }
            None => None,
        };
        cut(&mut message, MAX_LOG_LINE_BYTES);
        self.commands.log(convert::level(level), message, fields);
    }

    fn set_status(&mut self, mut text: String) {
        cut(&mut text, MAX_STATUS_BYTES);
        self.commands.set_status(text);
    }

    fn run_id(&mut self) -> String {
        self.commands.run_id()
    }
}

fn cut(text: &mut String, max: usize) {
    text.truncate(text.floor_char_boundary(max));
}
