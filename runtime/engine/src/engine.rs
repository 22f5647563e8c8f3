//! The engine: what the CLI and the API reach. It starts runs, wakes and resumes them, and keeps one task for each live one.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stepwell_core::error::{Code, Error};
use stepwell_core::ids::{Digest, RunId};
use stepwell_core::journal::entry::RunOutcome;
use stepwell_core::json::Json;
use stepwell_core::limits;
use stepwell_core::run::{Machine, Mode, check_name};
use stepwell_host::http::HttpClient;
use stepwell_host::{Host, HostSettings};
use stepwell_store::{RunKey, RunRow, SqliteOptions, SqliteStore, Store};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{Notify, Semaphore};

use crate::admission::Admission;
use crate::counters::Counters;
use crate::effects::{store_error, unread};
use crate::fault::{Fault, planted};
use crate::later::Later;
use crate::long::LongTurns;
use crate::modules::{Loaded, Modules, On};
use crate::reach::Reach;
use crate::rest::Rest;
use crate::settings::Settings;
use crate::start::RunRef;
use crate::tasks::Tasks;
use crate::watch::{Interest, RunEvent, Watchers};

/// One per data directory. Cheap to clone.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

struct Inner {
    settings: Settings,
    store: Arc<dyn Store>,
    host: Host,
    client: HttpClient,
    reach: Reach,
    modules: Modules,
    watchers: Arc<Watchers>,
    tasks: Tasks,
    /// Runs that wait for a time, by it.
    timers: Mutex<BTreeSet<(u64, RunKey)>>,
    timers_changed: Arc<Notify>,
    schedules_changed: Arc<Notify>,
    later: Later,
    admission: Admission,
    places: Arc<Semaphore>,
    rebuilds: Arc<Semaphore>,
    long: LongTurns,
    rest: Arc<Rest>,
    counters: Counters,
}

/// A module that is in the store.
#[derive(Debug, Clone, PartialEq)]
pub struct ModuleInfo {
    /// Its name.
    pub digest: Digest,
    /// Its workflows.
    pub workflows: Vec<String>,
    /// What it says of itself, as JSON.
    pub description: serde_json::Value,
}

impl Engine {
    /// Opens the data directory and sets wasmtime up. No run is taken up by this.
    ///
    /// # Errors
    /// When another process holds the directory, the database cannot be opened, or wasmtime cannot be set up.
    pub fn open(settings: Settings, client: HttpClient, reach: Reach) -> anyhow::Result<Self> {
        let options = SqliteOptions {
            durability: settings.durability,
            max_size_bytes: settings.max_database_bytes,
            ..SqliteOptions::default()
        };
        let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&settings.data_dir, options)?);
        let host = Host::new(HostSettings {
            cache_dir: Some(settings.data_dir.join("compiled")),
            pool_instances: settings.pool_instances,
            instance_memory_bytes: settings.instance_memory_bytes,
            total_memory_bytes: settings.total_memory_bytes,
            compile_limit: settings.compile_limit,
            ..HostSettings::default()
        })?;
        Ok(Self::over(settings, store, host, client, reach))
    }

    /// The same over a store and a host that are there already, for a caller with a store of its own; [`Engine::open`] is the usual
    /// way. To be called within a runtime. The data directory of the settings is not looked at.
    #[must_use]
    pub fn over(settings: Settings, store: Arc<dyn Store>, host: Host, client: HttpClient, reach: Reach) -> Self {
        let places = Arc::new(Semaphore::new(settings.max_live));
        let rebuilds = Arc::new(Semaphore::new(settings.rebuilds_at_once.max(1)));
        let watchers = Arc::new(Watchers::new(settings.tap.clone()));
        let (tasks, came) = Tasks::new();
        let engine = Self(Arc::new(Inner {
            settings,
            store,
            host,
            client,
            reach,
            modules: Modules::default(),
            watchers,
            tasks,
            timers: Mutex::default(),
            timers_changed: Arc::default(),
            schedules_changed: Arc::default(),
            later: Later::default(),
            admission: Admission::default(),
            places,
            rebuilds,
            long: LongTurns::default(),
            rest: Arc::default(),
            counters: Counters::default(),
        }));
        crate::timers::start(&engine);
        crate::ready::start(&engine, came);
        crate::admission::start(&engine);
        engine
    }

    /// Keeps a module: compiled, asked what it has, and stored.
    ///
    /// # Errors
    /// When it is no module, or describes what cannot be run. Nothing is stored then.
    pub async fn add_module(&self, bytes: Vec<u8>) -> Result<ModuleInfo, Error> {
        let (info, module) = self.inspect(bytes).await?;
        self.store().put_module(module).await.map_err(|error| store_error(&error))?;
        Ok(info)
    }

    /// How many instances live.
    #[must_use]
    pub fn live_instances(&self) -> usize {
        self.settings().max_live.saturating_sub(self.places().available_permits())
    }

    /// What has been done since the engine was opened.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.0.counters
    }

    /// How many runs wait for a time.
    #[must_use]
    pub fn armed_timers(&self) -> usize {
        self.timers().len()
    }

    /// A run's row.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn run(&self, run: &RunId) -> Result<Option<RunRow>, Error> {
        self.store().read().run(run).map_err(|error| store_error(&error))
    }

    /// How a run ended; `None` while it has not.
    ///
    /// # Errors
    /// When the run or its journal cannot be read.
    pub fn outcome(&self, run: &RunRef) -> Result<Option<RunOutcome>, Error> {
        match self.run(&run.id)? {
            Some(row) if row.status.is_finished() => Ok(self.machine(run.key, Mode::Verify)?.ended().cloned()),
            _ => Ok(None),
        }
    }

    /// Changes whenever something of the run has become durable; what, the store says. However slowly its owner looks, it costs
    /// no more than one place. When this returns, all that was handed over before is durable: who reads then misses nothing.
    pub async fn changes(&self, run: RunKey) -> tokio::sync::watch::Receiver<()> {
        let changes = self.0.watchers.changes(run);
        // What was handed over while nobody watched is told to nobody. After an empty write it can be read.
        if let Err(error) = self.store().submit(stepwell_store::Submission::default()).await {
            tracing::warn!(%error, "what a run has done lately cannot be seen yet");
        }
        changes
    }

    /// Tells what happens in a run from now on, once it is durable.
    #[must_use]
    pub fn watch(&self, run: RunKey) -> UnboundedReceiver<RunEvent> {
        self.0.watchers.watch(run, Interest::All)
    }

    /// Tells only where a run comes to rest from now on, once it is durable: that it waits, and every event that
    /// [is the last](RunEvent::is_last). For whoever waits for its end, and for many runs at once.
    #[must_use]
    pub fn watch_rests(&self, run: RunKey) -> UnboundedReceiver<RunEvent> {
        self.0.watchers.watch(run, Interest::Rests)
    }

    /// Where runs and their journals are.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.0.store
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.0.settings
    }

    pub(crate) fn host(&self) -> &Host {
        &self.0.host
    }

    pub(crate) fn client(&self) -> &HttpClient {
        &self.0.client
    }

    pub(crate) fn reach(&self) -> &Reach {
        &self.0.reach
    }

    pub(crate) fn watchers(&self) -> &Arc<Watchers> {
        &self.0.watchers
    }

    pub(crate) fn places(&self) -> &Arc<Semaphore> {
        &self.0.places
    }

    pub(crate) fn long(&self) -> &LongTurns {
        &self.0.long
    }

    pub(crate) fn rest(&self) -> &Arc<Rest> {
        &self.0.rest
    }

    pub(crate) fn rebuilds(&self) -> &Arc<Semaphore> {
        &self.0.rebuilds
    }

    pub(crate) fn timers(&self) -> MutexGuard<'_, BTreeSet<(u64, RunKey)>> {
        self.0.timers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn timers_changed(&self) -> &Arc<Notify> {
        &self.0.timers_changed
    }

    pub(crate) fn schedules_changed(&self) -> &Arc<Notify> {
        &self.0.schedules_changed
    }

    pub(crate) fn tasks(&self) -> &Tasks {
        &self.0.tasks
    }

    pub(crate) fn admission(&self) -> &Admission {
        &self.0.admission
    }

    pub(crate) fn later(&self) -> &Later {
        &self.0.later
    }

    pub(crate) fn downgrade(&self) -> WeakEngine {
        WeakEngine(Arc::downgrade(&self.0))
    }

    /// A module of the store, compiled.
    pub(crate) async fn loaded(&self, digest: &Digest) -> Result<Loaded, Error> {
        let absent = || Error::new(Code::InvalidModule, format!("module {} is not in the store", digest.short()));
        let bytes = || match self.store().read().module(digest) {
            Ok(bytes) => bytes.ok_or_else(|| absent().never_retried()),
            Err(error) => Err(store_error(&error)),
        };
        self.0.modules.load(self.on(), self.settings(), digest, bytes).await
    }

    /// A module that is not in the store yet, compiled.
    pub(crate) async fn inspected(&self, digest: &Digest, bytes: Vec<u8>) -> Result<Loaded, Error> {
        self.0.modules.load(self.on(), self.settings(), digest, || Ok(bytes)).await
    }

    fn on(&self) -> On<'_> {
        On { host: &self.0.host, long: self.long(), beside: self.store().is_waited_for() }
    }

    /// The run's machine, as its journal has it.
    pub(crate) fn machine(&self, run: RunKey, mode: Mode) -> Result<Machine, Error> {
        let reads = self.store().read();
        let journal = reads.journal(run).map_err(|error| unread(&error))?;
        let logged = crate::batch::logged(reads.last_log(run).map_err(|error| unread(&error))?);
        let entries = journal.into_iter().map(|(_, bytes)| {
            if planted(Fault::ForgetSettlements) { crate::fault::without_settlement(bytes) } else { bytes }
        });
        Machine::load(entries, logged, mode).map_err(|error| Error::new(Code::JournalUnreadable, error.to_string()))
    }

    pub(crate) fn arm(&self, at_ms: u64, run: RunKey) {
        self.timers().insert((at_ms, run));
        self.0.timers_changed.notify_one();
    }
}

/// Whether an event can be sent at all.
///
/// # Errors
/// When its name is none, or it is too large.
pub fn check_event(name: &str, payload: &Json) -> Result<(), Error> {
    check_name("event", name)?;
    if payload.len() > limits::MAX_VALUE_BYTES {
        let (len, max) = (payload.len(), limits::MAX_VALUE_BYTES);
        let text = format!("the event {name:?} has {len} bytes of JSON; at most {max} are taken");
        return Err(Error::new(Code::ResultTooLarge, text));
    }
    Ok(())
}

/// An engine that does not keep itself alive.
pub(crate) struct WeakEngine(std::sync::Weak<Inner>);

impl WeakEngine {
    pub(crate) fn upgrade(&self) -> Option<Engine> {
        self.0.upgrade().map(Engine)
    }
}
