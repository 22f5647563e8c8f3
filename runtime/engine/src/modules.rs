//! Modules: compiled once per process, by digest; what they say of themselves as JSON.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};
use stepwell_core::contract::{Definition, RetryFields};
use stepwell_core::error::{Code, Error};
use stepwell_core::ids::Digest;
use stepwell_core::limits;
use stepwell_core::policy::retry::RetryPolicy;
use stepwell_core::policy::timeout;
use stepwell_host::{Host, Module, ModuleError, TurnDeadline};

/// A module that can be run, and the workflows that it has.
#[derive(Clone)]
pub(crate) struct Loaded {
    pub(crate) module: Module,
    pub(crate) workflows: Vec<Definition>,
}

/// Computing time that a module has to describe itself.
const DESCRIBE_BUDGET_MS: u64 = 10_000;

/// The modules of this process.
#[derive(Default)]
pub(crate) struct Modules(Mutex<HashMap<Digest, Loaded>>);

impl Modules {
    pub(crate) fn get(&self, digest: &Digest) -> Option<Loaded> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(digest).cloned()
    }

    /// Compiles a module and asks it what it has. Compiling takes its time, so it has a thread of its own.
    pub(crate) async fn load(&self, host: &Host, bytes: Vec<u8>) -> Result<Loaded, Error> {
        let digest = Digest::of(&bytes);
        if let Some(loaded) = self.get(&digest) {
            return Ok(loaded);
        }
        let compiling = host.clone();
        let compiled = tokio::task::spawn_blocking(move || compiling.compile(&bytes)).await;
        let module = compiled
            .map_err(|error| Error::new(Code::Internal, format!("compiling the module failed: {error}")))?
            .map_err(|error: ModuleError| error.to_error())?;
        let deadline = TurnDeadline::budget_ms(DESCRIBE_BUDGET_MS);
        let workflows = module.describe(host, deadline).await.map_err(|error| error.to_error())?;
        check(&workflows)?;
        let loaded = Loaded { module, workflows };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(digest, loaded.clone());
        Ok(loaded)
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
    for (at, workflow) in workflows.iter().enumerate() {
        let name = &workflow.name;
        if name.is_empty() || name.len() > limits::MAX_NAME_BYTES || name.chars().any(char::is_control) {
            let max = limits::MAX_NAME_BYTES;
            return invalid(format!("the workflow name {name:?} is none: 1 to {max} bytes, no control characters"));
        }
        if workflows[..at].iter().any(|other| other.name == *name) {
            return invalid(format!("two workflows have the name {name:?}"));
        }
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

/// What a module has and may do, as it is stored and shown.
pub(crate) fn description(loaded: &Loaded, instance_memory_bytes: usize) -> Value {
    let retry = |fields: &RetryFields| serde_json::to_value(fields).unwrap_or(Value::Null);
    let all = &loaded.workflows;
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
            "imports": loaded.module.imports(), "instanceMemoryBytes": instance_memory_bytes,
            "destinations": destinations, "secrets": secrets,
        },
    })
}
