//! Guests made from text, and commands that write down what they were asked.

use std::sync::{Arc, Mutex};

use stepwell_core::contract::{
    Attempt, AttemptKind, AttemptRef, Event, Exchange, Level, Operation, Request, RunOptions, StepOptions,
};
use stepwell_core::error::Error;
use stepwell_core::json::Json;
use stepwell_host::{Commands, Host, HostSettings, Invocation, MemoryShare, Module, TurnDeadline, TurnEnd};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};

const PRELUDE: &str = include_str!("guest.wat");

/// The exports of a guest that blocks in `next`, with an empty `describe`.
const BLOCKING: &str = r#"
  (func (export "stepwell:workflow/workflows@0.1.0#run") (param i32 i32 i32 i32) (result i32) (call $run))
  (func (export "stepwell:workflow/workflows@0.1.0#describe") (result i32) (i32.const 128))
"#;

/// A component whose guest blocks in `next`. `body` defines `$run`.
pub(crate) fn blocking(body: &str) -> Vec<u8> {
    component(&format!("(module {PRELUDE} {body} {BLOCKING})"))
}

/// A component whose guest brings its own exports.
pub(crate) fn with_exports(body: &str) -> Vec<u8> {
    component(&format!("(module {PRELUDE} {body})"))
}

/// A component whose guest blocks in `next` and speaks WASI's first preview too, as Rust, Go and C guests do. `imports` come first.
pub(crate) fn wasi(imports: &str, body: &str) -> Vec<u8> {
    component(&format!("(module {imports} {PRELUDE} {body} {BLOCKING})"))
}

/// A component from a whole core module in the names that toolchains use.
pub(crate) fn component(text: &str) -> Vec<u8> {
    let mut core = wat::parse_str(text).expect("a module's text");
    let mut resolve = wit_parser::Resolve::default();
    let wit = concat!(env!("CARGO_MANIFEST_DIR"), "/../../guest-sdk/wit");
    let (package, _) = resolve.push_path(wit).expect("the contract");
    let world = resolve.select_world(&[package], Some("workflow")).expect("its world");
    embed_component_metadata(&mut core, &resolve, world, StringEncoding::UTF8).expect("metadata");
    let adapter = wasi_preview1_component_adapter_provider::WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER;
    let mut encoder = ComponentEncoder::default();
    encoder.module(&core).expect("a core module");
    encoder.adapter("wasi_snapshot_preview1", adapter).expect("an adapter");
    encoder.validate(true).encode().expect("a component")
}

/// A small pool, so that many hosts fit one test process.
pub(crate) fn settings() -> HostSettings {
    HostSettings { pool_instances: 4, instance_memory_bytes: 4 << 20, ..HostSettings::default() }
}

pub(crate) fn host() -> Host {
    Host::new(settings()).expect("a host")
}

/// More than any of these guests needs, on however busy a machine.
pub(crate) fn ample() -> TurnDeadline {
    TurnDeadline::budget_ms(30_000)
}

/// For guests that never end by themselves.
pub(crate) fn short() -> TurnDeadline {
    TurnDeadline::budget_ms(50)
}

/// What a guest asked, in order.
#[derive(Clone, Default)]
pub(crate) struct Asked(Arc<Mutex<Vec<String>>>);

impl Asked {
    pub(crate) fn list(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    fn push(&self, text: String) -> u32 {
        let mut asked = self.0.lock().unwrap();
        asked.push(text);
        u32::try_from(asked.len() - 1).unwrap()
    }
}

/// Commands that are all accepted and written down. Time is 1,000 and each random number is 7.
pub(crate) struct Writing(pub(crate) Asked);

impl Commands for Writing {
    fn step_begin(&mut self, name: String, options: StepOptions) -> Result<Operation, Error> {
        assert_eq!(options, StepOptions::default());
        Ok(self.0.push(format!("step-begin {name}")))
    }
    fn sleep(&mut self, ms: u64) -> Result<Operation, Error> {
        Ok(self.0.push(format!("sleep {ms}")))
    }
    fn wait_event(&mut self, name: String, _: Option<u64>) -> Result<Operation, Error> {
        Ok(self.0.push(format!("wait-event {name}")))
    }
    fn start_run(&mut self, workflow: String, input: Json, _: RunOptions) -> Result<Operation, Error> {
        Ok(self.0.push(format!("start-run {workflow} {input}")))
    }
    fn send_event(&mut self, run_id: String, name: String, payload: Json) -> Result<Operation, Error> {
        Ok(self.0.push(format!("send-event {run_id} {name} {payload}")))
    }
    fn close(&mut self, operation: Operation) -> Result<(), Error> {
        self.0.push(format!("close {operation}"));
        Ok(())
    }
    fn continue_as_new(&mut self, input: Json) -> Result<(), Error> {
        self.0.push(format!("continue-as-new {input}"));
        Ok(())
    }
    fn step_finish(&mut self, attempt: AttemptRef, outcome: Result<Json, Error>) -> Result<(), Error> {
        let AttemptRef { operation, number } = attempt;
        self.0.push(match outcome {
            Ok(value) => format!("step-finish {operation}:{number} ok {value}"),
            Err(error) => format!("step-finish {operation}:{number} {error}"),
        });
        Ok(())
    }
    fn http_send(&mut self, _: AttemptRef, request: Request) -> Result<Exchange, Error> {
        Ok(self.0.push(format!("http-send {} {}", request.method, request.url)))
    }
    fn delay(&mut self, _: AttemptRef, ms: u64) -> Result<Exchange, Error> {
        Ok(self.0.push(format!("delay {ms}")))
    }
    fn now_ms(&mut self) -> u64 {
        1_000
    }
    fn random_u64(&mut self) -> u64 {
        7
    }
    fn log(&mut self, level: Level, message: String, fields: Option<Json>) {
        let fields = fields.map_or_else(String::new, |fields| format!(" {fields}"));
        self.0.push(format!("log {level:?} {message}{fields}"));
    }
    fn set_status(&mut self, text: String) {
        self.0.push(format!("set-status {text}"));
    }
    fn run_id(&mut self) -> String {
        "run_1".into()
    }
}

/// A guest and what it asked.
pub(crate) fn invoke(host: &Host, module: &Module) -> (Invocation, Asked) {
    let asked = Asked::default();
    let commands = Box::new(Writing(asked.clone()));
    let share = Arc::new(MemoryShare::uncounted());
    (Invocation::new(host, module, share, commands, "w", &Json::null()), asked)
}

/// The end of the first turn of a guest with this `$run`.
pub(crate) async fn first_turn(host: &Host, body: &str) -> TurnEnd {
    let module = host.compile(&blocking(body)).expect("a module");
    invoke(host, &module).0.turn(None, ample()).await
}

/// The event that begins an attempt of operation 0.
pub(crate) fn attempt() -> Event {
    Event::Attempt(Attempt {
        id: AttemptRef { operation: 0, number: 1 },
        kind: AttemptKind::Execute,
        idempotency_key: "run_1:a:1".into(),
        operation_key: "run_1:a".into(),
        deadline_ms: Some(2_000),
        unknown: Vec::new(),
    })
}

pub(crate) fn json(text: &str) -> Json {
    Json::parse(text).expect("JSON")
}

/// Fails unless the turn ended in a trap of that kind; answers its text.
#[track_caller]
pub(crate) fn trapped(end: TurnEnd, kind: stepwell_host::TrapKind) -> String {
    match end {
        TurnEnd::Trapped(trap) if trap.kind == kind => trap.message,
        other => panic!("expected a trap of kind {kind:?}, got {other:?}"),
    }
}
