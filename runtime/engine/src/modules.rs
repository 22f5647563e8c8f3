//! Modules: compiled once per process, by digest; what they say of themselves as JSON.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use hashlink::LruCache;
use serde_json::{Value, json};
use stepwell_core::contract::{Definition, RetryFields};
use stepwell_core::error::{Code, Error};
use stepwell_core::ids::Digest;
use stepwell_core::limits;
use stepwell_core::policy::retry::RetryPolicy;
use stepwell_core::policy::timeout;
use stepwell_core::run::check_name;
use stepwell_host::{Host, Module, ModuleError, TurnDeadline};
use tokio::sync::{OnceCell, oneshot};

use crate::last::go_last;
use crate::lengths::TurnLengths;
use crate::long::{LongTurns, go_over};
use crate::settings::Settings;

/// A module that can be run, and the workflows that it has.
#[derive(Clone)]
pub(crate) struct Loaded {
    pub(crate) module: Module,
    pub(crate) workflows: Arc<Vec<Definition>>,
    /// Of its turns, in this process.
    pub(crate) lengths: Arc<TurnLengths>,
}

/// What a module is made ready on.
#[derive(Clone, Copy)]
pub(crate) struct On<'a> {
    pub(crate) host: &'a Host,
    pub(crate) long: &'a LongTurns,
    /// Others are at work: not all cores are for this.
    pub(crate) beside: bool,
}

/// Modules that are kept ready. Others are read from the folder of compiled modules when they are needed again; runs that are live
/// keep theirs.
const MAX_KEPT: usize = 128;

/// A larger module is compiled on all cores whoever else is at work: on one it might take longer than it may.
const MAX_BESIDE_BYTES: usize = 8 << 20;

/// A module's place: whoever comes while it is being read and compiled waits for that, and has the same answer.
type Place = Arc<OnceCell<Result<Loaded, Error>>>;

/// The modules of this process.
pub(crate) struct Modules(Mutex<LruCache<Digest, Place>>);

impl Default for Modules {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(MAX_KEPT)))
    }
}

impl Modules {
    /// Reads a module, compiles it and asks it what it has: once, however many ask for it at the same time.
    pub(crate) async fn load(
        &self,
        on: On<'_>,
        settings: &Settings,
        digest: &Digest,
        bytes: impl FnOnce() -> Result<Vec<u8>, Error>,
    ) -> Result<Loaded, Error> {
        let place = self.place(digest);
        let loaded = place.get_or_init(|| async { load(on, bytes()?, settings).await }).await;
        // Whoever waited shares the failure, and whoever comes next tries again.
        if loaded.is_err() {
            self.give_up(digest, &place);
        }
        loaded.clone()
    }

    fn place(&self, digest: &Digest) -> Place {
        let mut kept = self.kept();
        if let Some(place) = kept.get(digest) {
            return place.clone();
        }
        let place = Place::default();
        kept.insert(digest.clone(), place.clone());
        place
    }

    /// Another may have come to the place since.
    fn give_up(&self, digest: &Digest, place: &Place) {
        let mut kept = self.kept();
        if kept.peek(digest).is_some_and(|kept| Arc::ptr_eq(kept, place)) {
            kept.remove(digest);
        }
    }

    fn kept(&self) -> MutexGuard<'_, LruCache<Digest, Place>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn load(on: On<'_>, bytes: Vec<u8>, settings: &Settings) -> Result<Loaded, Error> {
    let On { host, long, beside } = on;
    let module = compile(host, bytes, beside, settings.compile_limit).await?;
    let deadline = TurnDeadline { budget: settings.workflow_turn, at: None };
    let (described, host) = (module.clone(), host.clone());
    let describing = async move {
        // What a module says of itself may be much, and there is no hurry.
        go_over().await;
        described.describe(&host, deadline).await
    };
    let workflows = long.carry(describing).await;
    let workflows = workflows.map_err(|error| error.to_error())?;
    check(&workflows)?;
    Ok(Loaded { module, workflows: Arc::new(workflows), lengths: Arc::default() })
}

/// Compiles on a thread of its own. There is no way to stop it: a module that takes too long is refused, and the thread, on which
/// nobody waits, comes to its end or goes with the process.
async fn compile(host: &Host, bytes: Vec<u8>, beside: bool, limit: Duration) -> Result<Module, Error> {
    let (done, compiled) = oneshot::channel();
    let host = host.clone();
    let beside = beside && bytes.len() <= MAX_BESIDE_BYTES;
    let thread = thread::Builder::new().name("compiler".to_owned());
    let internal = |text: String| Error::new(Code::Internal, text);
    thread
        .spawn(move || {
            go_last();
            let _ = done.send(if beside { host.compile_beside(&bytes) } else { host.compile(&bytes) });
        })
        .map_err(|error| internal(format!("no thread to compile on: {error}")))?;
    // What it waits for others has its own limit.
    match tokio::time::timeout(limit * 2, compiled).await {
        Ok(Ok(module)) => module.map_err(|error: ModuleError| error.to_error()),
        Ok(Err(_)) => Err(internal("compiling the module failed".to_owned()).never_retried()),
        Err(_) => {
            let seconds = limit.as_secs_f64();
            let text = format!(
                "it takes longer than {seconds} s to compile: its functions are too large or too entangled, or the machine is too busy"
            );
            // Not for good: a run of a module that was taken once is not at fault.
            Err(Error::new(Code::InvalidModule, text))
        }
    }
}

impl Loaded {
    /// The workflow of that name; where none is named, the only one.
    pub(crate) fn workflow(&self, name: Option<&str>) -> Result<&Definition, Error> {
        let names = || self.workflows.iter().map(|w| w.name.as_str()).collect::<Vec<_>>().join(", ");
        match (name, &self.workflows[..]) {
            (None, [only]) => Ok(only),
            (None, []) => Err(Error::new(Code::UnknownWorkflow, "the module has no workflow")),
            (None, _) => {
                let text = format!("the module has several workflows ({}): say which one to run", names());
                Err(Error::new(Code::UnknownWorkflow, text))
            }
            (Some(name), all) => all.iter().find(|workflow| workflow.name == name).ok_or_else(|| {
                let text = format!("the module has no workflow {name:?}; it has {}", names());
                Error::new(Code::UnknownWorkflow, text)
            }),
        }
    }
}

/// Refuses what a run could not be started with.
fn check(workflows: &[Definition]) -> Result<(), Error> {
    let invalid = |text: String| Err(Error::new(Code::InvalidModule, text).never_retried());
    let (count, max) = (workflows.len(), limits::MAX_WORKFLOWS);
    if count > max {
        return invalid(format!("the module has {count} workflows; it may have {max}"));
    }
    let mut names = HashSet::new();
    for workflow in workflows {
        let name = &workflow.name;
        check_name("workflow", name).or_else(|error| invalid(error.message))?;
        if !names.insert(name) {
            return invalid(format!("two workflows have the name {name:?}"));
        }
        declared(workflow)?;
        if let Err(error) = RetryPolicy::default().overridden(&workflow.retry) {
            let text = format!("workflow {name:?}: {error}");
            return Err(Error::new(Code::InvalidPolicy, text).never_retried());
        }
        let timeouts = timeout::step_timeout_ms(None, workflow.step_timeout_ms).and(
            workflow.run_timeout_ms.map_or(Ok(1), |ms| timeout::checked("runTimeoutMs", ms, limits::MAX_SLEEP_MS)),
        );
        if let Err(error) = timeouts {
            let text = format!("workflow {name:?}: {error}");
            return Err(Error::new(Code::InvalidPolicy, text).never_retried());
        }
    }
    Ok(())
}

/// Refuses a workflow that declares more than anybody would read.
fn declared(workflow: &Definition) -> Result<(), Error> {
    let name = &workflow.name;
    let invalid = |text: String| Err(Error::new(Code::InvalidModule, text).never_retried());
    let schema = workflow.input_schema.as_ref().map_or(0, |schema| schema.len());
    if schema > limits::MAX_VALUE_BYTES {
        let max = limits::MAX_VALUE_BYTES;
        return invalid(format!("workflow {name:?}: its input schema has {schema} bytes; it may have {max}"));
    }
    for (what, texts) in [("destinations", &workflow.destinations), ("secrets", &workflow.secrets)] {
        let (count, max) = (texts.len(), limits::MAX_DECLARED);
        if count > max {
            return invalid(format!("workflow {name:?} declares {count} {what}; it may declare {max}"));
        }
        if let Some(long) = texts.iter().find(|text| text.len() > limits::MAX_URL_BYTES) {
            let (len, max) = (long.len(), limits::MAX_URL_BYTES);
            return invalid(format!("workflow {name:?} declares {what} with one of {len} bytes; it may have {max}"));
        }
    }
    Ok(())
}

/// A workflow as the stored description of its module has it: what a run of it begins with.
pub(crate) fn described(description: &str, workflow: &str) -> Option<Definition> {
    let description: Value = serde_json::from_str(description).ok()?;
    let found = description["workflows"].as_array()?.iter().find(|found| found["name"] == workflow)?;
    Some(Definition {
        name: workflow.to_owned(),
        retry: serde_json::from_value(found["retry"].clone()).ok()?,
        step_timeout_ms: found["stepTimeoutMs"].as_u64(),
        run_timeout_ms: found["runTimeoutMs"].as_u64(),
        input_schema: None,
        destinations: Vec::new(),
        secrets: Vec::new(),
    })
}

/// What a module has and may do, as it is stored and shown.
pub(crate) fn description(loaded: &Loaded, instance_memory_bytes: usize) -> Value {
    let retry = |fields: &RetryFields| serde_json::to_value(fields).unwrap_or(Value::Null);
    let all = &loaded.workflows[..];
    let workflows: Vec<Value> = all
        .iter()
        .map(|workflow| {
            json!({
                "name": workflow.name,
                "retry": retry(&workflow.retry),
                "stepTimeoutMs": workflow.step_timeout_ms,
                "runTimeoutMs": workflow.run_timeout_ms,
                "inputSchema": workflow.input_schema.as_ref().and_then(|schema| schema.to_value()),
                "destinations": workflow.destinations,
                "secrets": workflow.secrets,
            })
        })
        .collect();
    let destinations: BTreeSet<&String> = all.iter().flat_map(|workflow| &workflow.destinations).collect();
    let secrets: BTreeSet<&String> = all.iter().flat_map(|workflow| &workflow.secrets).collect();
    json!({
        "workflows": workflows,
        "capabilities": {
            "imports": loaded.module.imports(), "closedImports": loaded.module.closed_imports(),
            "memoryBytes": loaded.module.memory_bytes(), "instanceMemoryBytes": instance_memory_bytes,
            "destinations": destinations, "secrets": secrets,
        },
    })
}
