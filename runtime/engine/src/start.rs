//! Starting a run.

use stepwell_core::error::{Code, Error};
use stepwell_core::ids::{Digest, RunId};
use stepwell_core::journal::entry::Started as StartedEntry;
use stepwell_core::json::Json;
use stepwell_core::limits;
use stepwell_core::policy::retry::RetryPolicy;
use stepwell_core::policy::timeout;
use stepwell_core::run::Machine;
use stepwell_store::{NewRun, RunKey, Started};

use crate::clock::real_now_ms;
use crate::driver::Message;
use crate::effects::store_error;
use crate::engine::{Engine, check_event};

/// A run to be started.
#[derive(Debug, Clone)]
pub struct StartRun {
    /// The module.
    pub digest: Digest,
    /// The workflow; where there is only one, it need not be named.
    pub workflow: Option<String>,
    /// Its input.
    pub input: Json,
    /// The starter's own name for it.
    pub run_key: Option<String>,
    /// How long it may be open, in ms, in place of the workflow's own default.
    pub run_timeout_ms: Option<u64>,
    /// Events that are there from the beginning.
    pub events: Vec<(String, Json)>,
}

/// A run by both its names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunRef {
    /// Outside.
    pub id: RunId,
    /// Inside.
    pub key: RunKey,
}

impl Engine {
    /// Writes a run down. It is durable when this returns, and does nothing before [`Engine::go`].
    ///
    /// # Errors
    /// When the module or workflow is not there, a value is out of its range, the run key is taken, or the store fails.
    pub async fn start(&self, start: StartRun) -> Result<RunRef, Error> {
        let loaded = self.loaded(&start.digest).await?;
        let workflow = loaded.workflow(start.workflow.as_deref())?.clone();
        if start.input.len() > limits::MAX_VALUE_BYTES {
            let (len, max) = (start.input.len(), limits::MAX_VALUE_BYTES);
            let text = format!("the input has {len} bytes of JSON; at most {max} are taken");
            return Err(Error::new(Code::ResultTooLarge, text));
        }
        for (name, payload) in &start.events {
            check_event(name, payload)?;
        }
        let invalid = |text: String| Error::new(Code::InvalidPolicy, text).never_retried();
        let run_timeout_ms = start.run_timeout_ms.or(workflow.run_timeout_ms);
        if let Some(ms) = run_timeout_ms {
            timeout::checked("runTimeoutMs", ms, limits::MAX_SLEEP_MS).map_err(|e| invalid(e.to_string()))?;
        }
        let retry = RetryPolicy::default().overridden(&workflow.retry).map_err(|e| invalid(e.to_string()))?;
        let now_ms = real_now_ms();
        let id = RunId::new(format!("run_{}", uuid::Uuid::now_v7().simple()));
        let first = Machine::first_entry(
            now_ms,
            StartedEntry {
                run: id.clone(),
                workflow: workflow.name.clone(),
                digest: start.digest.clone(),
                input: start.input,
                retry,
                step_timeout_ms: workflow.step_timeout_ms,
                deadline_ms: run_timeout_ms.map(|ms| now_ms.saturating_add(ms)),
            },
        );
        let new = NewRun {
            run: id.clone(),
            workflow: workflow.name,
            digest: start.digest,
            run_key: start.run_key,
            created_at_ms: now_ms,
            first: vec![first],
            inbox: start.events.into_iter().map(|(name, payload)| (name, payload.to_string())).collect(),
        };
        match self.store().start_run(new).await.map_err(|error| store_error(&error))? {
            Started::New(key) => Ok(RunRef { id, key }),
            Started::Existing { run, .. } => {
                Err(Error::new(Code::InvalidArgument, format!("the run key is taken by run {run}")))
            }
        }
    }

    /// Lets a run that was just written down begin.
    pub fn go(&self, run: &RunRef) {
        self.tell(run.key, Message::Wake { fresh: true });
    }
}
