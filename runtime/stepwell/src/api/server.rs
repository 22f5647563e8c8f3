//! Listening, and ending in order: no new request, those under way answered, then the runs left where they are.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use stepwell_core::policy::retention::Retention;
use stepwell_engine::Engine;
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::connections::Connections;
use super::{ApiSettings, App, retention, router};

/// How the server is reached.
#[derive(Debug, Clone)]
pub(crate) struct ServerSettings {
    pub(crate) listen: SocketAddr,
    pub(crate) max_module_bytes: usize,
    pub(crate) rate_per_token: u32,
    /// Connections that may be open at once.
    pub(crate) max_connections: usize,
    /// How long a connection may take to say what it wants.
    pub(crate) idle: Duration,
    /// How long runs are kept that have ended.
    pub(crate) retention: Retention,
}

/// How long requests under way may take once the server is to end.
const DRAIN: Duration = Duration::from_secs(10);

/// A server that has its address and takes nobody yet.
pub(crate) struct Server {
    listener: TcpListener,
    app: App,
    connections: Connections,
    retention: Retention,
    stop: watch::Sender<bool>,
}

impl Server {
    /// Takes the address.
    ///
    /// # Errors
    /// When it is taken, or reaches beyond this machine while there are no tokens.
    pub(crate) async fn bind(engine: Engine, settings: &ServerSettings) -> anyhow::Result<Self> {
        let beyond = !settings.listen.ip().is_loopback();
        if beyond && !engine.store().read().has_tokens()? {
            anyhow::bail!(
                "{} reaches beyond this machine, and there are no tokens: anybody could do anything. \
                 Make one first: stepwell token create NAME --scope admin --data-dir DIR",
                settings.listen
            );
        }
        let listener = TcpListener::bind(settings.listen).await;
        let listener = listener.with_context(|| format!("cannot listen on {}", settings.listen))?;
        let (stop, stopping) = watch::channel(false);
        let api = ApiSettings {
            max_module_bytes: settings.max_module_bytes,
            rate_per_token: settings.rate_per_token,
            needs_tokens: beyond,
            max_followers: (settings.max_connections / 2).max(1),
        };
        let app = App::new(engine, api, stopping);
        let connections = Connections::new(router(&app), settings.max_connections, settings.idle);
        Ok(Self { listener, app, connections, retention: settings.retention, stop })
    }

    /// Where it is reached.
    pub(crate) fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers until `until`; then ends in order.
    pub(crate) async fn run(self, until: impl Future<Output = ()>) {
        let forgetting = [
            tokio::spawn(retention::forget_answers(self.app.clone())),
            tokio::spawn(retention::forget_runs(self.app.clone(), self.retention)),
        ];
        let mut until = std::pin::pin!(until);
        loop {
            let come = async { (self.connections.place().await, self.listener.accept().await) };
            let (place, accepted) = tokio::select! {
                come = come => come,
                () = &mut until => break,
            };
            match accepted {
                Ok((stream, _)) => self.connections.serve(stream, place),
                Err(error) => {
                    // Out of file descriptors, for one: it passes when others go.
                    tracing::error!(%error, "a connection could not be taken");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
        drop(self.listener);
        // Waits and followed runs end at once, so that nobody keeps the server.
        self.stop.send_replace(true);
        forgetting.iter().for_each(tokio::task::JoinHandle::abort);
        if self.connections.drain(DRAIN).await.is_err() {
            tracing::warn!("requests under way were given up; what they have begun is kept or not, as a whole");
        }
        self.app.engine.stop().await;
    }
}
