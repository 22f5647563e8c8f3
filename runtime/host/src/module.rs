//! A module: checked against the contract, compiled, ready to be instantiated.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use stepwell_core::contract::Definition;
use stepwell_core::error::{Code, Error};
use stepwell_core::ids::Digest;
use wasmtime::Engine;
use wasmtime::component::Component;
use wasmtime::component::types::ComponentItem;

use crate::bindings::WorkflowPre;
use crate::convert;
use crate::guest::Guest;
use crate::host::{Ground, Host, Place};
use crate::invocation;
use crate::memory::MemoryShare;
use crate::trap::Trap;
use crate::turn::TurnDeadline;
use crate::wasi;

/// Why bytes are no module that can be run here.
#[derive(Debug, thiserror::Error)]
pub enum ModuleError {
    /// Something else altogether.
    #[error("not a WebAssembly module: it does not begin with the bytes of one")]
    NotWasm,
    /// A core module.
    #[error(
        "a WebAssembly core module, not a component: build it as a component, or upload it with the contract's WIT embedded"
    )]
    CoreModule,
    /// More than is taken: compiling costs time and memory by its size, and cannot be interrupted.
    #[error("it has {bytes} bytes; a module may have {max}")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// Not valid, or made of what is not offered.
    #[error("not a valid WebAssembly component: {0}")]
    Invalid(String),
    /// It needs something that a workflow does not have.
    #[error("it imports `{import}`, {reason}")]
    Import {
        /// The import's name.
        import: String,
        /// What about it.
        reason: String,
    },
    /// It does not offer what a module must.
    #[error("it does not export `stepwell:workflow/workflows@0.1.0` as the contract has it: {0}")]
    Export(String),
    /// Its `describe` ended without an answer.
    #[error("its `describe` failed: {0}")]
    DescribeTrapped(#[source] Trap),
    /// Its `describe` answered what cannot be taken.
    #[error("its `describe` is not in order: {0}")]
    Described(String),
    /// Not the module's fault.
    #[error("it could not be compiled: {0}")]
    Host(String),
}

impl ModuleError {
    /// The error as a client gets it.
    #[must_use]
    pub fn to_error(&self) -> Error {
        match self {
            Self::Host(_) => Error::new(Code::Internal, self.to_string()).bounded(),
            _ => Error::new(Code::InvalidModule, self.to_string()).never_retried().bounded(),
        }
    }
}

/// A module. Cheap to clone.
#[derive(Clone)]
pub struct Module(Arc<Inner>);

struct Inner {
    digest: Digest,
    /// `None` without a pool, and for a module that is too large for its places.
    pooled: Option<WorkflowPre<Guest>>,
    /// Made from the pooled one when the pool is full for the first time.
    on_demand: OnceLock<WorkflowPre<Guest>>,
    /// What an instance has when it begins; 0 until one has.
    memory_bytes: AtomicUsize,
}

/// The contract's export, without its version.
const WORKFLOWS: &str = "stepwell:workflow/workflows";

impl Host {
    /// Checks and compiles a module, or takes it from the cache. Computes for up to some seconds: not for an async thread.
    ///
    /// # Errors
    /// When the bytes are no module that can be run here, with the reason for its author.
    pub fn compile(&self, bytes: &[u8]) -> Result<Module, ModuleError> {
        self.compile_with(bytes, &self.on_demand().engine)
    }

    /// [`Host::compile`] where others are at work: on one thread, whatever cores there are.
    ///
    /// # Errors
    /// See [`Host::compile`].
    pub fn compile_beside(&self, bytes: &[u8]) -> Result<Module, ModuleError> {
        let engine = self.aside().map_err(|e| ModuleError::Host(format!("{e:#}")))?;
        self.compile_with(bytes, engine)
    }

    /// Compiles with this engine: code is the same for all.
    fn compile_with(&self, bytes: &[u8], engine: &Engine) -> Result<Module, ModuleError> {
        let max = self.settings().module_bytes;
        if bytes.len() > max {
            return Err(ModuleError::TooLarge { bytes: bytes.len(), max });
        }
        check_kind(bytes)?;
        let digest = Digest::of(bytes);
        let component = self.component(&digest, bytes, engine)?;
        let pooled = self.pool().filter(|pool| Engine::same(&pool.ground.engine, component.engine()));
        let ground = pooled.map_or(self.on_demand(), |pool| &pool.ground);
        let pre = link(ground, &component)?;
        let inner = if pooled.is_some() {
            Inner { digest, pooled: Some(pre), on_demand: OnceLock::new(), memory_bytes: AtomicUsize::new(0) }
        } else {
            Inner { digest, pooled: None, on_demand: OnceLock::from(pre), memory_bytes: AtomicUsize::new(0) }
        };
        Ok(Module(Arc::new(inner)))
    }

    /// The compiled component: for the pool if it fits there, else to be instantiated on demand.
    fn component(&self, digest: &Digest, bytes: &[u8], engine: &Engine) -> Result<Component, ModuleError> {
        if let Some(component) = self.kept(digest) {
            return Ok(component);
        }
        let busy = || ModuleError::Host("other modules have been compiling for too long; try again later".into());
        let place = self.compiler().ok_or_else(busy)?;
        // Another may have compiled the same one meanwhile.
        if let Some(component) = self.kept(digest) {
            return Ok(component);
        }
        let compiled = engine.precompile_component(bytes).map_err(|e| ModuleError::Invalid(format!("{e:#}")))?;
        if let Some(cache) = self.cache() {
            cache.write(digest, &compiled);
        }
        drop(place);
        self.load(&compiled).map_err(|e| ModuleError::Host(format!("{e:#}")))
    }

    fn kept(&self, digest: &Digest) -> Option<Component> {
        let kept = self.cache().and_then(|cache| cache.read(digest))?;
        match self.load(&kept) {
            Ok(component) => Some(component),
            Err(error) => {
                tracing::warn!(%digest, %error, "a kept module cannot be loaded; compiling it again");
                None
            }
        }
    }

    fn load(&self, compiled: &[u8]) -> wasmtime::Result<Component> {
        if let Some(pool) = self.pool() {
            match deserialize(&pool.ground.engine, compiled) {
                Ok(component) => return Ok(component),
                Err(error) => tracing::debug!(error = %format!("{error:#}"), "a module does not fit the pool"),
            }
        }
        deserialize(&self.on_demand().engine, compiled)
    }
}

/// wasmtime trusts what it deserialises to be code that it made.
#[allow(unsafe_code)]
fn deserialize(engine: &Engine, compiled: &[u8]) -> wasmtime::Result<Component> {
    // SAFETY: the bytes come from `precompile_component` or `serialize` in this process, or from a file of our own cache that
    // carries their SHA-256; a file that is damaged or of another make has been sorted out there.
    unsafe { Component::deserialize(engine, compiled) }
}

fn check_kind(bytes: &[u8]) -> Result<(), ModuleError> {
    match bytes.get(..8) {
        Some([0, b'a', b's', b'm', 1, 0, 0, 0]) => Err(ModuleError::CoreModule),
        Some([0, b'a', b's', b'm', ..]) => Ok(()),
        _ => Err(ModuleError::NotWasm),
    }
}

/// Resolves the imports and finds the exports.
fn link(ground: &Ground, component: &Component) -> Result<WorkflowPre<Guest>, ModuleError> {
    let engine = &ground.engine;
    let ty = component.component_type();
    let mut linker = ground.linker.clone();
    for (import, item) in ty.imports(engine) {
        let refuse = |reason: String| ModuleError::Import { import: import.to_owned(), reason };
        let (interface, version) = import.split_once('@').unwrap_or((import, ""));
        let ComponentItem::ComponentInstance(instance) = item.ty else {
            return Err(refuse(reason_not_offered(interface, version)));
        };
        let wasi = interface.starts_with("wasi:") && version.starts_with("0.2.");
        let closed = wasi
            && wasi::close(&mut linker, engine, interface, import, &instance)
                .map_err(|e| ModuleError::Host(format!("{e:#}")))?;
        let offered = (wasi && wasi::OFFERED.contains(&interface)) || is_contract(interface, version);
        if !closed && !offered {
            return Err(refuse(reason_not_offered(interface, version)));
        }
    }
    let pre = linker.instantiate_pre(component).map_err(|e| ModuleError::Invalid(format!("{e:#}")))?;
    let exports = |name: &str| name.split_once('@').is_some_and(|(interface, _)| interface == WORKFLOWS);
    if !ty.exports(engine).any(|(name, _)| exports(name)) {
        return Err(ModuleError::Export("it has no such export".into()));
    }
    WorkflowPre::new(pre).map_err(|e| ModuleError::Export(format!("{e:#}")))
}

fn is_contract(interface: &str, version: &str) -> bool {
    let ours = ["types", "commands", "turns", "blocking-turns"];
    version.starts_with("0.1.") && interface.strip_prefix("stepwell:workflow/").is_some_and(|name| ours.contains(&name))
}

fn reason_not_offered(interface: &str, version: &str) -> String {
    if interface.starts_with("stepwell:workflow/") {
        format!("version {version} of the contract; this host offers 0.1.0")
    } else if interface.starts_with("wasi:http/") {
        "which a workflow does not have: requests are made by a step's `http-send`".into()
    } else if interface.starts_with("wasi:") && !version.starts_with("0.2.") {
        format!("version {version} of WASI; this host offers 0.2")
    } else {
        "which a workflow does not have".into()
    }
}

impl Module {
    /// The digest of its bytes.
    #[must_use]
    pub fn digest(&self) -> &Digest {
        &self.0.digest
    }

    /// The interfaces that it imports, in order.
    #[must_use]
    pub fn imports(&self) -> Vec<String> {
        let Some(pre) = self.0.pooled.as_ref().or_else(|| self.0.on_demand.get()) else { return Vec::new() };
        let component = pre.instance_pre().component();
        component.component_type().imports(component.engine()).map(|(import, _)| import.to_owned()).collect()
    }

    /// Those of its imports behind which there is nothing: files, sockets, the environment, for toolchains that link them in.
    #[must_use]
    pub fn closed_imports(&self) -> Vec<String> {
        let interface = |import: &str| import.split_once('@').map_or(import, |(interface, _)| interface).to_owned();
        self.imports().into_iter().filter(|import| wasi::is_closed(&interface(import))).collect()
    }

    /// The memory that an instance of it has been seen to have, in bytes; at least what it begins with, once it has described itself.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.0.memory_bytes.load(Relaxed)
    }

    /// Waits until there is memory for another instance of this, beside all that live. An instance that has described itself has
    /// shown how much that is.
    pub async fn admit(&self, host: &Host) -> Arc<MemoryShare> {
        Arc::new(host.memory().admit(self.0.memory_bytes.load(Relaxed)).await)
    }

    pub(crate) fn needs_memory(&self, bytes: usize) {
        self.0.memory_bytes.fetch_max(bytes, Relaxed);
    }

    /// Asks the module which workflows it has.
    ///
    /// # Errors
    /// When `describe` traps, waits, runs out of time, or answers what cannot be taken.
    pub async fn describe(&self, host: &Host, deadline: TurnDeadline) -> Result<Vec<Definition>, ModuleError> {
        let described = invocation::describe(host, self, deadline).await.map_err(ModuleError::DescribeTrapped)?;
        let definitions: Result<Vec<_>, _> = described.into_iter().map(convert::definition).collect();
        definitions.map_err(|e| ModuleError::Described(e.message))
    }

    /// What to instantiate, and the place in the pool for it unless it goes elsewhere.
    pub(crate) fn ground(&self, host: &Host) -> wasmtime::Result<(WorkflowPre<Guest>, Option<Place>)> {
        if let Some(pooled) = &self.0.pooled
            && let Some(place) = host.pool().and_then(|pool| pool.place())
        {
            return Ok((pooled.clone(), Some(place)));
        }
        if let Some(pre) = self.0.on_demand.get() {
            return Ok((pre.clone(), None));
        }
        // `pooled` is there, or `on_demand` would have been.
        let Some(pooled) = &self.0.pooled else { return Err(wasmtime::Error::msg("a module without code")) };
        let component = deserialize(&host.on_demand().engine, &pooled.instance_pre().component().serialize()?)?;
        let pre = link(host.on_demand(), &component)?;
        Ok((self.0.on_demand.get_or_init(|| pre).clone(), None))
    }
}
