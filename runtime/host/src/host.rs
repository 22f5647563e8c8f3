//! The host: wasmtime's engines, the places in the pool, the cache of compiled modules and the epochs' ticker.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use stepwell_core::limits;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use wasmtime::Engine;
use wasmtime::component::Linker;

use crate::cache::Cache;
use crate::guest::Guest;
use crate::memory::Memory;
use crate::settings::{self, HostSettings};
use crate::{commands, wasi};

/// Between two epochs. What spins gives way to others this often, and is stopped at most this late.
const TICK: Duration = Duration::from_millis(4);

/// One per process. Cheap to clone; the engines live until the last clone is gone.
#[derive(Clone)]
pub struct Host(Arc<Inner>);

struct Inner {
    settings: HostSettings,
    pool: Option<Pool>,
    on_demand: Ground,
    /// Once something was compiled beside others.
    aside: OnceLock<Engine>,
    cache: Option<Cache>,
    memory: Arc<Memory>,
    compilers: Compilers,
    _ticker: Ticker,
}

/// Where instances stand: an engine, and what they may import.
pub(crate) struct Ground {
    pub(crate) engine: Engine,
    pub(crate) linker: Linker<Guest>,
}

pub(crate) struct Pool {
    pub(crate) ground: Ground,
    places: Arc<Semaphore>,
}

/// A place in the pool, free again when this is dropped. Drop the instance first.
pub(crate) type Place = OwnedSemaphorePermit;

impl Host {
    /// Sets up wasmtime. A pool that the machine has no room for is done without.
    ///
    /// # Errors
    /// When wasmtime refuses the settings on this machine or the cache's folder cannot be made.
    pub fn new(settings: HostSettings) -> anyhow::Result<Self> {
        let on_demand = Ground::new(settings::on_demand_engine()?)?;
        let pool = make_pool(&settings)?;
        let cache = match &settings.cache_dir {
            Some(dir) => Some(
                Cache::new(dir.clone(), &on_demand.engine)
                    .with_context(|| format!("cannot make the folder for compiled modules, {}", dir.display()))?,
            ),
            None => None,
        };
        let engines = [Some(&on_demand.engine), pool.as_ref().map(|pool| &pool.ground.engine)];
        let ticker = Ticker::start(engines.into_iter().flatten().cloned().collect())?;
        let memory = Arc::new(Memory::new(settings.total_memory_bytes));
        Ok(Self(Arc::new(Inner {
            settings,
            pool,
            on_demand,
            aside: OnceLock::new(),
            cache,
            memory,
            compilers: Compilers::default(),
            _ticker: ticker,
        })))
    }

    /// Whether there is a pool. Without one every instance is made on demand, which costs some 20 us more each.
    #[must_use]
    pub fn has_pool(&self) -> bool {
        self.0.pool.is_some()
    }

    pub(crate) fn settings(&self) -> &HostSettings {
        &self.0.settings
    }

    pub(crate) fn memory(&self) -> &Arc<Memory> {
        &self.0.memory
    }

    pub(crate) fn pool(&self) -> Option<&Pool> {
        self.0.pool.as_ref()
    }

    pub(crate) fn on_demand(&self) -> &Ground {
        &self.0.on_demand
    }

    /// Compiles on one thread.
    pub(crate) fn aside(&self) -> wasmtime::Result<&Engine> {
        match self.0.aside.get() {
            Some(engine) => Ok(engine),
            None => settings::aside_engine().map(|engine| self.0.aside.get_or_init(|| engine)),
        }
    }

    /// Waits until a module may be compiled, on a thread that no run is driven on. `None` where others take too long.
    pub(crate) fn compiler(&self) -> Option<Compiling<'_>> {
        self.0.compilers.place(self.0.settings.compile_limit)
    }

    pub(crate) fn cache(&self) -> Option<&Cache> {
        self.0.cache.as_ref()
    }
}

fn make_pool(settings: &HostSettings) -> anyhow::Result<Option<Pool>> {
    if settings.pool_instances == 0 {
        return Ok(None);
    }
    match settings::pooled_engine(settings) {
        Ok(engine) => {
            let places = Arc::new(Semaphore::new(settings.pool_instances as usize));
            Ok(Some(Pool { ground: Ground::new(engine)?, places }))
        }
        Err(error) => {
            tracing::warn!(error = %format!("{error:#}"), "no pool of instances; each is made on demand");
            Ok(None)
        }
    }
}

impl Pool {
    /// A place for one instance and everything that it may have, or `None` when all are taken. Asking first means that the pool
    /// never runs out half-way, with commands given already.
    pub(crate) fn place(&self) -> Option<Place> {
        self.places.clone().try_acquire_owned().ok()
    }
}

impl Ground {
    fn new(engine: Engine) -> wasmtime::Result<Self> {
        let mut linker = Linker::new(&engine);
        commands::add_to_linker(&mut linker)?;
        wasi::add_to_linker(&mut linker)?;
        Ok(Self { engine, linker })
    }
}

/// Counts the modules that are being compiled. A compilation cannot be interrupted and takes many times the module's size in memory:
/// however many are uploaded at once, they take their turns.
#[derive(Default)]
struct Compilers {
    busy: Mutex<usize>,
    freed: Condvar,
}

/// A place among the compilers, free again when this is dropped.
pub(crate) struct Compiling<'a>(&'a Compilers);

impl Compilers {
    fn place(&self, limit: Duration) -> Option<Compiling<'_>> {
        let all = |busy: &mut usize| *busy >= limits::MAX_CONCURRENT_COMPILATIONS;
        let waited = self.freed.wait_timeout_while(self.busy(), limit, all);
        let (mut busy, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if all(&mut busy) {
            return None;
        }
        *busy += 1;
        Some(Compiling(self))
    }

    fn busy(&self) -> MutexGuard<'_, usize> {
        // Nothing panics under the lock.
        self.busy.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Compiling<'_> {
    fn drop(&mut self) {
        *self.0.busy() -= 1;
        self.0.freed.notify_one();
    }
}

/// The one thread that counts epochs. It ends when this is dropped.
struct Ticker {
    _stop: mpsc::Sender<()>,
}

impl Ticker {
    fn start(engines: Vec<Engine>) -> std::io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        thread::Builder::new().name("epochs".into()).spawn(move || {
            while stopped.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                engines.iter().for_each(Engine::increment_epoch);
            }
        })?;
        Ok(Self { _stop: stop })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::{ample, attempt, blocking, invoke, json, settings};
    use crate::{TurnDeadline, TurnEnd};
    use stepwell_core::contract::Event;

    /// What the ticker does in that time.
    fn pass(host: &Host, time: Duration) {
        for _ in 0..time.as_millis() / TICK.as_millis() {
            host.on_demand().engine.increment_epoch();
            host.pool().iter().for_each(|pool| pool.ground.engine.increment_epoch());
        }
    }

    #[tokio::test]
    async fn an_instance_that_was_idle_for_an_hour_goes_on() {
        let body = r#"
          (func $run (result i32)
            (drop (call $begin))
            (drop (call $next))
            (call $finish)
            (drop (call $next))
            (call $ok-value))
        "#;
        for pool_instances in [4, 0] {
            let host = Host::new(HostSettings { pool_instances, ..settings() }).unwrap();
            let module = host.compile(&blocking(body)).unwrap();
            let (mut invocation, _) = invoke(&host, &module);
            assert_eq!(invocation.turn(None, TurnDeadline::budget_ms(5_000)).await, TurnEnd::Quiet);
            pass(&host, Duration::from_secs(3_600));
            assert_eq!(invocation.turn(Some(attempt()), TurnDeadline::budget_ms(5_000)).await, TurnEnd::Quiet);
            pass(&host, Duration::from_secs(3_600));
            let end = invocation.turn(Some(Event::Completed(0, json("2"))), ample()).await;
            assert_eq!(end, TurnEnd::Returned(Ok(json("2"))));
        }
    }

    #[test]
    fn modules_are_compiled_one_after_another() {
        let compilers = Compilers::default();
        let first = compilers.place(Duration::ZERO).expect("nobody is before it");
        assert!(compilers.place(Duration::ZERO).is_none());
        thread::scope(|scope| {
            let second = scope.spawn(|| compilers.place(Duration::from_secs(60)).is_some());
            assert!(!second.is_finished(), "it waits for the first");
            drop(first);
            assert!(second.join().unwrap());
        });
        assert!(compilers.place(Duration::ZERO).is_some());
    }
}
