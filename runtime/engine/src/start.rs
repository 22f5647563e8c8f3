//! Starting a run.

use stepwell_core::contract::Definition;
use stepwell_core::error::{Code, Error};
use stepwell_core::ids::{Digest, RunId};
use stepwell_core::journal::entry::{Parent, Started as StartedEntry};
use stepwell_core::json::Json;
use stepwell_core::limits;
use stepwell_core::policy::admission::checked_priority;
use stepwell_core::policy::retry::RetryPolicy;
use stepwell_core::policy::timeout;
use stepwell_core::run::{Machine, check_name};
use stepwell_store::{NewRun, QueueAs, RunKey, Started};

use crate::clock::real_now_ms;
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
    /// The starter's marks on it, by which it is found. Names are given once.
    pub tags: Vec<(String, String)>,
    /// How long it rests before it begins, in ms. Its run time-out counts from the start all the same.
    pub delay_ms: u64,
    /// The run that it is started in the place of.
    pub retry_of: Option<RunId>,
    /// Where its workflow has limits for each key: which it counts for.
    pub concurrency_key: Option<String>,
    /// Where it has to wait: before those of a lower one. 0 where nobody says otherwise.
    pub priority: i32,
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
            retry_of: None,
            concurrency_key: None,
            priority: 0,
        }
    }
}

/// A run that begins, whoever starts it.
pub(crate) struct Begun {
    pub(crate) run: RunId,
    /// In ms since the Unix epoch.
    pub(crate) at_ms: u64,
    pub(crate) digest: Digest,
    pub(crate) input: Json,
    pub(crate) run_timeout_ms: Option<u64>,
    pub(crate) run_key: Option<String>,
    pub(crate) tags: Vec<(String, String)>,
    pub(crate) parent: Option<Parent>,
    /// The run that it goes on for.
    pub(crate) continues: Option<RunId>,
    /// What it has in its journal after its first entry, when it is a run's doing that is in doubt.
    pub(crate) doubt: Option<Vec<u8>>,
    /// By which it waits, where its workflow has limits.
    pub(crate) concurrency_key: Option<String>,
    pub(crate) priority: i32,
}

impl Begun {
    /// As the store is to keep it, with the workflow's policies. It begins at once.
    pub(crate) fn of(self, workflow: &Definition) -> Result<NewRun, Error> {
        let invalid = |text: String| Error::new(Code::InvalidPolicy, text).never_retried();
        let retry = RetryPolicy::default().overridden(&workflow.retry).map_err(|e| invalid(e.to_string()))?;
        let deadline_ms = self.run_timeout_ms.map(|ms| self.at_ms.saturating_add(ms));
        let first = Machine::first_entry(
            self.at_ms,
            StartedEntry {
                run: self.run.clone(),
                workflow: workflow.name.clone(),
                digest: self.digest.clone(),
                input: self.input,
                retry,
                step_timeout_ms: workflow.step_timeout_ms,
                deadline_ms,
                parent: self.parent,
                continues: self.continues,
            },
        );
        Ok(NewRun {
            run: self.run,
            workflow: workflow.name.clone(),
            digest: self.digest,
            run_key: self.run_key,
            created_at_ms: self.at_ms,
            first: std::iter::once(first).chain(self.doubt).collect(),
            inbox: Vec::new(),
            tags: self.tags,
            retry_of: None,
            rerun: None,
            begins_at_ms: None,
            queue: QueueAs { key: self.concurrency_key, priority: self.priority, deadline_ms },
        })
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
        let out_of_range = |text: String| Error::new(Code::InvalidArgument, text).never_retried();
        checked_priority(start.priority).map_err(|error| out_of_range(error.to_string()))?;
        if let Some(key) = &start.concurrency_key {
            check_name("concurrency key", key)?;
        }
        let run_timeout_ms = start.run_timeout_ms.or(workflow.run_timeout_ms);
        if let Some(ms) = run_timeout_ms {
            timeout::checked("runTimeoutMs", ms, limits::MAX_SLEEP_MS).map_err(|e| invalid(e.to_string()))?;
        }
        if let Some(ms) = run_timeout_ms.filter(|ms| *ms <= start.delay_ms) {
            let text =
                format!("the run would be over before it begins: delayMs is {}, runTimeoutMs {ms}", start.delay_ms);
            return Err(Error::new(Code::InvalidArgument, text).never_retried());
        }
        let now_ms = real_now_ms();
        let begun = Begun {
            run: RunId::new(format!("run_{}", uuid::Uuid::now_v7().simple())),
            at_ms: now_ms,
            digest: start.digest,
            input: start.input,
            run_timeout_ms,
            run_key: start.run_key,
            tags: start.tags,
            parent: None,
            continues: None,
            doubt: None,
            concurrency_key: start.concurrency_key,
            priority: start.priority,
        };
        Ok(NewRun {
            inbox: start.events.into_iter().map(|(name, payload)| (name, payload.to_string())).collect(),
            retry_of: start.retry_of,
            begins_at_ms: (start.delay_ms > 0).then(|| now_ms.saturating_add(start.delay_ms)),
            ..begun.of(&workflow)?
        })
    }

    /// Lets a run that was just written down begin; one over a limit of its workflow's, when it has a place.
    pub fn go(&self, run: &RunRef) {
        self.begin(run.key);
    }
}
