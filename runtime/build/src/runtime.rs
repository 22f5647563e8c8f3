//! The QuickJS runtime linked with the guest contract: the same for every source, so it is linked and compiled once in a process,
//! and kept on disk for the next one.
//!
//! It knows nothing of the user's source; `snapshot` evaluates that inside an instance of what is made here.

use std::hash::{Hash, Hasher};
use std::path::Path;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};
use wasi_preview1_component_adapter_provider::WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER;
use wasmtime::component::Component;
use wasmtime::{Config, Engine, OptLevel};
use wasmtime_wizer::Wizer;
use wit_parser::{Resolve, WorldId};

use crate::cache;

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
    /// The process's runtime. The first call takes it from `dir`, or links and compiles it, in about a second, and keeps it there.
    pub(crate) fn get(dir: Option<&Path>) -> Result<Arc<Self>> {
        static RUNTIME: Mutex<Option<Arc<Runtime>>> = Mutex::new(None);
        let mut slot = RUNTIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(runtime) = &*slot {
            return Ok(runtime.clone());
        }
        let runtime = Arc::new(Self::load(dir)?);
        *slot = Some(runtime.clone());
        Ok(runtime)
    }

    fn load(dir: Option<&Path>) -> Result<Self> {
        // The instance lives for a fraction of a second: what counts is how fast it compiles, not how fast it runs.
        let mut config = Config::new();
        config.wasm_component_model_async(true).epoch_interruption(true).cranelift_opt_level(OptLevel::None);
        let engine = Engine::new(&config)?;
        let Some(dir) = dir else { return Self::make(engine) };
        let path = dir.join(format!("{}.runtime", key(&engine)));
        if let Some([shim, linked, compiled]) = cache::read(&path)
            && let Ok(shim) = String::from_utf8(shim)
        {
            match deserialize(&engine, &compiled) {
                Ok(component) => return Ok(Self { engine, linked, component, shim }),
                Err(error) => tracing::warn!(path = %path.display(), %error, "a kept runtime cannot be loaded"),
            }
        }
        let runtime = Self::make(engine)?;
        let kept = runtime
            .component
            .serialize()
            .map_err(anyhow::Error::from)
            .and_then(|compiled| Ok(cache::write(&path, [runtime.shim.as_bytes(), &runtime.linked, &compiled])?));
        if let Err(error) = kept {
            tracing::warn!(path = %path.display(), %error, "the JavaScript runtime could not be kept");
        }
        Ok(runtime)
    }

    fn make(engine: Engine) -> Result<Self> {
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

        let (_, instrumented) = Wizer::new().instrument_component(&linked)?;
        let component = Component::new(&engine, &instrumented)?;
        Ok(Self { engine, linked, component, shim })
    }
}

/// The key of everything that the runtime is made from, and of the machine that it is compiled for.
fn key(engine: &Engine) -> String {
    let mut hasher = Sha256Hasher(Sha256::new());
    cache::tools().hash(&mut hasher);
    WORLD.hash(&mut hasher);
    WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER.hash(&mut hasher);
    engine.precompile_compatibility_hash().hash(&mut hasher);
    cache::hex(&hasher.0.finalize())
}

/// SHA-256 as a `Hasher`, since the standard one promises nothing across versions of Rust.
struct Sha256Hasher(Sha256);

impl Hasher for Sha256Hasher {
    fn finish(&self) -> u64 {
        let digest = self.0.clone().finalize();
        digest[..8].iter().fold(0, |n, byte| n << 8 | u64::from(*byte))
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }
}

/// wasmtime trusts what it deserialises to be code that it made.
#[allow(unsafe_code)]
fn deserialize(engine: &Engine, compiled: &[u8]) -> wasmtime::Result<Component> {
    // SAFETY: the bytes come from `serialize` of our own, from a file of our own cache that carries their SHA-256, under a name
    // that holds the versions and settings they were made with. Who can write to that directory can run code as Stepwell anyway:
    // it holds the modules' machine code too.
    unsafe { Component::deserialize(engine, compiled) }
}

/// The contract's package with the world of JavaScript guests.
fn javascript_world() -> Result<(Resolve, WorldId)> {
    let mut resolve = Resolve::default();
    let package = resolve.push_source("workflow.wit", &format!("{CONTRACT}{WORLD}"))?;
    let world = resolve.select_world(&[package], Some("javascript"))?;
    Ok((resolve, world))
}
