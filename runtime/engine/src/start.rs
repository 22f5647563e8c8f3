//! Starting a run, and taking up one that stopped.

use stepwell_core::error::{Code, Error};
use stepwell_core::ids::{Digest, RunId};
use stepwell_core::journal::entry::Started as StartedEntry;
use stepwell_core::json::Json;
use stepwell_core::limits;
use stepwell_core::policy::retry::RetryPolicy;
use stepwell_core::policy::timeout;
use stepwell_core::run::{Machine, Mode};
use stepwell_store::{Append, NewRun, RunChange, RunKey, Started, Status};

use crate::clock::real_now_ms;
use crate::effects::store_error;
use crate::engine::{Engine, check_event};
use crate::verify::Verdict;

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
    /// The starter's marks on it, by which it is found. Names are given once.
    pub tags: Vec<(String, String)>,
    /// How long it rests before it begins, in ms. Its run time-out counts from the start all the same.
    pub delay_ms: u64,
}

impl StartRun {
    /// A run of a module's workflow with an input, and nothing else said.
    #[must_use]
    pub fn new(digest: Digest, workflow: Option<String>, input: Json) -> Self {
        Self {
            digest,
            workflow,
            input,
            run_key: None,
            run_timeout_ms: None,
            events: Vec::new(),
            tags: Vec::new(),
            delay_ms: 0,
        }
    }
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
        let new = self.prepare(start).await?;
        let id = new.run.clone();
        match self.store().start_run(new).await.map_err(|error| store_error(&error))? {
            Started::New(key) => Ok(RunRef { id, key }),
            Started::Existing { run, .. } => {
                Err(Error::new(Code::InvalidArgument, format!("the run key is taken by run {run}")))
            }
        }
    }

    /// Checks a run that is to be started, and makes what the store is to keep of it. Nothing is written.
    ///
    /// # Errors
    /// When the module or workflow is not there, or a value is out of its range.
    pub async fn prepare(&self, start: StartRun) -> Result<NewRun, Error> {
        let loaded = self.loaded(&start.digest).await?;
        let workflow = loaded.workflow(start.workflow.as_deref())?.clone();
        if start.input.len() > limits::MAX_VALUE_BYTES {
            let (len, max) = (start.input.len(), limits::MAX_VALUE_BYTES);
            let text = format!("the input has {len} bytes of JSON; at most {max} are taken");
            return Err(Error::new(Code::ResultTooLarge, text));
        }
        start.events.iter().try_for_each(|(name, payload)| check_event(name, payload))?;
        let invalid = |text: String| Error::new(Code::InvalidPolicy, text).never_retried();
        if start.delay_ms > limits::MAX_SLEEP_MS {
            let text = format!("delayMs is {}; at most {} (10 years) are taken", start.delay_ms, limits::MAX_SLEEP_MS);
            return Err(Error::new(Code::InvalidArgument, text).never_retried());
        }
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
        Ok(NewRun {
            run: id,
            workflow: workflow.name,
            digest: start.digest,
            run_key: start.run_key,
            created_at_ms: now_ms,
            first: vec![first],
            inbox: start.events.into_iter().map(|(name, payload)| (name, payload.to_string())).collect(),
            tags: start.tags,
            begins_at_ms: (start.delay_ms > 0).then(|| now_ms.saturating_add(start.delay_ms)),
        })
    }

    /// Lets a run that was just written down begin.
    pub fn go(&self, run: &RunRef) {
        self.spawn(run.key, true, false);
    }

    /// Takes up a run that stopped with its process, waits, or was set aside. With a `digest` other than its own it goes on with
    /// that module, if it replays clean on it.
    ///
    /// # Errors
    /// When the run has ended, or differs on the module; nothing is changed then.
    pub async fn resume(&self, run: &RunRef, digest: Option<&Digest>) -> Result<(), Error> {
        let row = self.store().read().run_by_number(run.key).map_err(|error| store_error(&error))?;
        let Some(row) = row else {
            return Err(Error::new(Code::InvalidArgument, format!("there is no run {}", run.id)));
        };
        if row.status.is_finished() {
            let text = format!("run {} has {}: there is nothing to resume", run.id, row.status);
            return Err(Error::new(Code::InvalidArgument, text));
        }
        if let Some(digest) = digest.filter(|digest| **digest != row.digest) {
            self.repin(run, digest).await?;
        }
        self.spawn(run.key, false, true);
        Ok(())
    }

    async fn repin(&self, run: &RunRef, digest: &Digest) -> Result<(), Error> {
        match self.verify_on(run, Some(digest)).await? {
            Verdict::Same => {}
            Verdict::Differs(mismatch) => {
                return Err(Error::new(Code::ReplayMismatch, mismatch.to_string()).never_retried());
            }
        }
        let mut machine = self.machine(run.key, Mode::Continue)?;
        let (first_seq, now_ms) = (machine.entries(), real_now_ms());
        machine.repin(digest.clone(), now_ms);
        let entries = machine.outputs().into_iter().filter_map(|output| match output {
            stepwell_core::run::Output::Append { bytes, .. } => Some(bytes),
            _ => None,
        });
        let mut change = RunChange::to(Status::Queued, now_ms);
        change.digest = Some(digest.clone());
        let append = Append::entries(run.key, first_seq, entries.collect()).with_change(change);
        let ticket = self.store().append(append);
        self.store().durable(ticket).await.map_err(|error| store_error(&error))
    }
}
