//! What the handlers share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use stepwell_core::error::{Code, Error};
use stepwell_core::ids::RunId;
use stepwell_engine::Engine;
use stepwell_engine::store::{Reads, RunRow};
use tokio::sync::{Semaphore, watch};

use super::keyed::Claims;
use super::limit::Limiter;
use super::metrics::{Counters, Trial};
use super::problem::{ApiCode, Problem};

/// What an operator may set of the API.
#[derive(Debug, Clone)]
pub(crate) struct ApiSettings {
    /// The longest body of a module's upload, in bytes.
    pub(crate) max_module_bytes: usize,
    /// Requests a second that a token may make, in the long run; 0 for as many as it likes.
    pub(crate) rate_per_token: u32,
    /// The server listens beyond this machine, so nobody is let in without a token.
    pub(crate) needs_tokens: bool,
    /// Followed runs at a time. Fewer than connections, so that followers never keep everybody else out.
    pub(crate) max_followers: usize,
}

/// One per server. Cheap to clone.
#[derive(Clone)]
pub(crate) struct App(Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) engine: Engine,
    pub(crate) settings: ApiSettings,
    pub(crate) claims: Arc<Claims>,
    pub(crate) limiter: Limiter,
    pub(crate) counters: Counters,
    pub(crate) trial: Trial,
    pub(crate) followers: Arc<Semaphore>,
    /// Set once a token has been seen. Tokens end, but are never taken away, so this stays true.
    has_tokens: AtomicBool,
    /// True once the server is to end.
    pub(crate) stopping: watch::Receiver<bool>,
}

impl std::ops::Deref for App {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl App {
    pub(crate) fn new(engine: Engine, settings: ApiSettings, stopping: watch::Receiver<bool>) -> Self {
        let limiter = Limiter::new(settings.rate_per_token);
        let followers = Arc::new(Semaphore::new(settings.max_followers));
        Self(Arc::new(Inner {
            engine,
            settings,
            claims: Arc::default(),
            limiter,
            counters: Counters::default(),
            trial: Trial::default(),
            followers,
            has_tokens: AtomicBool::new(false),
            stopping,
        }))
    }

    pub(crate) fn reads(&self) -> &dyn Reads {
        self.engine.store().read()
    }

    /// Whether there is any token, ended ones included: from then on nobody is let in without one.
    pub(crate) fn has_tokens(&self) -> Result<bool, Problem> {
        if !self.has_tokens.load(Ordering::Relaxed) && self.reads().has_tokens()? {
            self.has_tokens.store(true, Ordering::Relaxed);
        }
        Ok(self.has_tokens.load(Ordering::Relaxed))
    }

    /// The run of this name.
    pub(crate) fn run(&self, id: &str) -> Result<RunRow, Problem> {
        let row = self.reads().run(&RunId::new(id))?;
        row.ok_or_else(|| Problem::new(ApiCode::NotFound, format!("there is no run {id:?}")))
    }

    /// Returns when the server is to end.
    pub(crate) async fn stopped(&self) {
        let mut stopping = self.stopping.clone();
        // An error means that the sender is gone, and with it the server.
        let _ = stopping.wait_for(|stopping| *stopping).await;
    }
}

/// Work that blocks, off the threads that answer.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(Error::new(Code::Internal, format!("a part of the server failed: {error}")).into()))
}

/// Ms since the Unix epoch.
pub(crate) fn now_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
