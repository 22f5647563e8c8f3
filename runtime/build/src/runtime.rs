//! The QuickJS runtime linked with the guest contract: the same for every source, so it is linked and compiled once in a process.
//!
//! It knows nothing of the user's source; `snapshot` evaluates that inside an instance of what is made here.

use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use wasi_preview1_component_adapter_provider::WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER;
use wasmtime::component::Component;
use wasmtime::{Config, Engine, OptLevel};
use wasmtime_wizer::Wizer;
use wit_parser::{Resolve, WorldId};

pub(crate) const CONTRACT: &str = include_str!("../../../guest-sdk/wit/workflow.wit");

/// A guest with an event loop awaits `turns.next`; importing `blocking-turns` as well would offer it a second way to be told.
const WORLD: &str = "\nworld javascript {\n    import commands;\n    import turns;\n    export workflows;\n}\n";

/// The linked runtime, ready to be instantiated and initialised with source.
pub(crate) struct Runtime {
    pub(crate) engine: Engine,
    /// The component before Wizer's instrumentation, which is what a snapshot is written into.
    pub(crate) linked: Vec<u8>,
    /// The instrumented component, compiled.
    pub(crate) component: Component,
    /// Defines `globalThis.wit`, evaluated before any module.
    pub(crate) shim: String,
}

impl Runtime {
    /// The process's runtime; the first call links and compiles it, in about a second.
    pub(crate) fn get() -> Result<Arc<Self>> {
        static RUNTIME: Mutex<Option<Arc<Runtime>>> = Mutex::new(None);
        let mut slot = RUNTIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(runtime) = &*slot {
            return Ok(runtime.clone());
        }
        let runtime = Arc::new(Self::make()?);
        *slot = Some(runtime.clone());
        Ok(runtime)
    }

    fn make() -> Result<Self> {
        let (resolve, world) = javascript_world()?;
        let (mut dylib, metadata) = wit_dylib::create_with_metadata(&resolve, world, None);
        let shim = componentize_qjs::codegen::generate_shim(&resolve, &metadata);
        let utf8 = wit_component::StringEncoding::UTF8;
        wit_component::embed_component_metadata(&mut dylib, &resolve, world, utf8)?;

        let mut linker = wit_component::Linker::default();
        linker.encoder().validate(false);
        linker.library("quickjs.wasm", componentize_qjs::default_runtime_wasm(), false)?;
        linker.library("contract.wasm", &dylib, false)?;
        linker.encoder().adapter("wasi_snapshot_preview1", WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER)?;
        let linked = linker.encode().context("linking the QuickJS runtime with the guest contract")?;

        // The instance lives for a fraction of a second: what counts is how fast it compiles, not how fast it runs.
        let mut config = Config::new();
        config.wasm_component_model_async(true).epoch_interruption(true).cranelift_opt_level(OptLevel::None);
        let engine = Engine::new(&config)?;
        let (_, instrumented) = Wizer::new().instrument_component(&linked)?;
        let component = Component::new(&engine, &instrumented)?;
        Ok(Self { engine, linked, component, shim })
    }
}

/// The contract's package with the world of JavaScript guests.
fn javascript_world() -> Result<(Resolve, WorldId)> {
    let mut resolve = Resolve::default();
    let package = resolve.push_source("workflow.wit", &format!("{CONTRACT}{WORLD}"))?;
    let world = resolve.select_world(&[package], Some("javascript"))?;
    Ok((resolve, world))
}
