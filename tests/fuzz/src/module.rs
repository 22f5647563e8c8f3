//! Bytes that are given to the host as a module: refused with a reason, or a module; and whatever such a module then does is its own
//! harm alone. Never a panic, and never longer than its budget.

use std::sync::OnceLock;

use arbitrary::{Result, Unstructured};
use stepwell_core::contract::{AttemptRef, Exchange, Level, Operation, Request, RunOptions, StepOptions};
use stepwell_core::error::{Code, Error};
use stepwell_core::json::Json;
use stepwell_host::{Commands, Host, HostSettings, Invocation, Module, ModuleError, TurnDeadline};
use tokio::runtime::Runtime;
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};

/// Computing time of a damaged module, in ms.
const BUDGET_MS: u64 = 20;

/// The input as a module, or as the damage done to a good one.
pub fn module(data: &[u8]) {
    let mut u = Unstructured::new(data);
    let Ok(bytes) = bytes(&mut u) else { return };
    let here = here();
    match here.host.compile(&bytes) {
        Ok(module) => here.runtime.block_on(run(&here.host, &module)),
        Err(refused) => {
            assert!(
                !matches!(refused, ModuleError::Host(_)),
                "what is the module's fault is told as the host's: {refused}"
            );
            assert!(!refused.to_error().message.is_empty());
        }
    }
}

struct Here {
    runtime: Runtime,
    host: Host,
    core: Vec<u8>,
    component: Vec<u8>,
}

fn here() -> &'static Here {
    static HERE: OnceLock<Here> = OnceLock::new();
    HERE.get_or_init(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("there is a runtime");
        let settings = HostSettings { pool_instances: 2, instance_memory_bytes: 4 << 20, ..HostSettings::default() };
        let core = core();
        let component = ComponentEncoder::default().module(&core).and_then(|encoder| encoder.validate(true).encode());
        let component = component.unwrap_or_else(|error| panic!("{error:#}"));
        Here { runtime, host: Host::new(settings).expect("there is a host"), core, component }
    })
}

/// A guest that begins a step, waits for what comes, and returns.
fn core() -> Vec<u8> {
    let prelude = include_str!("../../../runtime/host/tests/it/support/guest.wat");
    let body = r#"
      (func (export "stepwell:workflow/workflows@0.1.0#run") (param i32 i32 i32 i32) (result i32)
        (drop (call $now-ms)) (drop (call $next)) (call $ok-null))
      (func (export "stepwell:workflow/workflows@0.1.0#describe") (result i32)
        (i32.store (i32.const 4096) (i32.const 3000)) (i32.store (i32.const 4100) (i32.const 8))
        (i32.store (i32.const 128) (i32.const 4096)) (i32.store (i32.const 132) (i32.const 1)) (i32.const 128))
      (data (i32.const 3000) "checkout")
    "#;
    let mut core = wat::parse_str(format!("(module {prelude} {body})")).unwrap_or_else(|error| panic!("{error}"));
    let mut resolve = wit_parser::Resolve::default();
    let wit = concat!(env!("CARGO_MANIFEST_DIR"), "/../../guest-sdk/wit");
    let (package, _) = resolve.push_path(wit).unwrap_or_else(|error| panic!("{error:#}"));
    let world = resolve.select_world(&[package], Some("workflow")).unwrap_or_else(|error| panic!("{error:#}"));
    embed_component_metadata(&mut core, &resolve, world, StringEncoding::UTF8)
        .unwrap_or_else(|error| panic!("{error:#}"));
    core
}

fn bytes(u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let here = here();
    Ok(match u.int_in_range(0..=7)? {
        0 => u.bytes(u.len())?.to_vec(),
        1 => [b"\0asm\x0d\0\x01\0", u.bytes(u.len())?].concat(),
        2..=4 => damaged(&here.component, u)?,
        _ => {
            let core = if u.ratio(1, 8)? { u.bytes(u.len())?.to_vec() } else { damaged(&here.core, u)? };
            match stepwell_build::embed_core_module(&core) {
                Ok(component) => component,
                Err(refused) => {
                    assert!(!refused.to_string().is_empty());
                    core
                }
            }
        }
    })
}

fn damaged(good: &[u8], u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let mut bytes = good.to_vec();
    for _ in 0..u.int_in_range(1..=3)? {
        if bytes.is_empty() {
            break;
        }
        let at = u.choose_index(bytes.len())?;
        match u.int_in_range(0..=9)? {
            0..=3 => bytes[at] ^= 1 << u.int_in_range(0..=7)?,
            4..=6 => bytes[at] = u.arbitrary()?,
            7 => drop(bytes.remove(at)),
            8 => bytes.insert(at, u.arbitrary()?),
            _ => {
                let end = bytes.len().min(at + u.int_in_range(0..=64)?);
                let piece = bytes[at..end].to_vec();
                let to = u.choose_index(bytes.len())?;
                bytes.splice(to..to, piece);
            }
        }
    }
    Ok(bytes)
}

async fn run(host: &Host, module: &Module) {
    // What it describes, or why not, is not looked at.
    let _ = module.describe(host, TurnDeadline::budget_ms(BUDGET_MS)).await;
    let mut invocation = Invocation::new(host, module, Box::new(Refusing), "checkout", &Json::null());
    let _ = invocation.turn(None, TurnDeadline::budget_ms(BUDGET_MS)).await;
    let cancelled = stepwell_core::contract::Event::Cancelled;
    let _ = invocation.turn(Some(cancelled), TurnDeadline::budget_ms(BUDGET_MS)).await;
}

/// A run that does nothing that it is asked.
struct Refusing;

fn refused<T>() -> std::result::Result<T, Error> {
    Err(Error::new(Code::Unsupported, "nothing is done here").never_retried())
}

type Answer<T> = std::result::Result<T, Error>;

impl Commands for Refusing {
    fn step_begin(&mut self, _: String, _: StepOptions) -> Answer<Operation> {
        refused()
    }
    fn sleep(&mut self, _: u64) -> Answer<Operation> {
        Ok(0)
    }
    fn wait_event(&mut self, _: String, _: Option<u64>) -> Answer<Operation> {
        refused()
    }
    fn start_run(&mut self, _: String, _: Json, _: RunOptions) -> Answer<Operation> {
        refused()
    }
    fn send_event(&mut self, _: String, _: String, _: Json) -> Answer<Operation> {
        refused()
    }
    fn close(&mut self, _: Operation) -> Answer<()> {
        Ok(())
    }
    fn continue_as_new(&mut self, _: Json) -> Answer<()> {
        refused()
    }
    fn step_finish(&mut self, _: AttemptRef, _: Answer<Json>) -> Answer<()> {
        refused()
    }
    fn http_send(&mut self, _: AttemptRef, _: Request) -> Answer<Exchange> {
        refused()
    }
    fn delay(&mut self, _: AttemptRef, _: u64) -> Answer<Exchange> {
        refused()
    }
    fn now_ms(&mut self) -> u64 {
        1_000
    }
    fn random_u64(&mut self) -> u64 {
        7
    }
    fn log(&mut self, _: Level, _: String, _: Option<Json>) {}
    fn set_status(&mut self, _: String) {}
    fn run_id(&mut self) -> String {
        "run_1".into()
    }
}
