//! HTTP effects: sends one request of a step's body and says exactly how far it got.
//!
//! - It knows nothing of runs or journals. Keys and outcomes are decided by `core`; here is what the wire can tell of them.
//! - It repeats nothing. `NotSent` means that no byte of the request left; what is doubtful is `Sent`.
//! - No connection goes to an address that the operator has not opened, and no secret to a destination that it is not bound to.
//! - There are no proxies, no cookies, no cache, no compression, no HTTP/3, and no multiplexing on HTTP/2 connections.

mod address;
mod connect;
mod connection;
mod destination;
mod exchange;
mod failure;
mod outbound;
mod pool;
mod secret;
mod strike;
mod teardown;
mod wire;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use stepwell_core::contract::Evidence;
use stepwell_core::error::{Code, Error};
use stepwell_core::limits;

pub use address::{AddressPolicy, AllowNet};
pub use connect::TlsRoots;
pub use destination::{Destinations, Pattern, PatternError};
pub use failure::Outcome;
pub use outbound::Outbound;
pub use secret::{SecretError, SecretFlag, SecretSource, Secrets};
pub use teardown::{Teardown, TeardownHandle};

use connect::Connector;
use exchange::{StopSignal, exchange};
use failure::Stop;
use outbound::Prepared;
use pool::Pool;
use strike::Striker;

/// How long a connection may take to get ready for the next request, after an answer.
const REST_WITHIN: Duration = Duration::from_secs(1);

/// What an operator may change.
#[derive(Debug, Clone)]
pub struct HttpSettings {
    /// Where any run may send.
    pub allow: Destinations,
    /// What addresses are open.
    pub addresses: AddressPolicy,
    /// The secrets that there are.
    pub secrets: Secrets,
    /// Whose certificates are believed.
    pub roots: TlsRoots,
    /// Name, TCP and TLS together, in ms.
    pub connect_timeout_ms: u64,
    /// The body of an answer, in bytes.
    pub max_response_bytes: usize,
    /// How long a connection may have been idle, in ms, to carry a safe request.
    pub idle_ms: u64,
    /// The same for other methods. Short: a connection that the server closes at the very moment it is written to leaves an
    /// outcome unknown that a new connection would not have.
    pub idle_unsafe_ms: u64,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            allow: Destinations::Any,
            addresses: AddressPolicy::default(),
            secrets: Secrets::default(),
            roots: TlsRoots::default(),
            connect_timeout_ms: 10_000,
            max_response_bytes: limits::MAX_RESPONSE_BYTES,
            idle_ms: 30_000,
            idle_unsafe_ms: 1_000,
        }
    }
}

/// Sends requests. Cheap to clone; clones share their connections.
#[derive(Clone)]
pub struct HttpClient(Arc<Inner>);

struct Inner {
    connector: Connector,
    pool: Pool,
    allow: Destinations,
    secrets: Secrets,
    striker: Striker,
    max_response_bytes: usize,
    idle: Duration,
    idle_unsafe: Duration,
}

impl HttpClient {
    /// A client without connections.
    #[must_use]
    pub fn new(settings: HttpSettings) -> Self {
        let idle = Duration::from_millis(settings.idle_ms);
        let idle_unsafe = Duration::from_millis(settings.idle_unsafe_ms);
        let connect_timeout = Duration::from_millis(settings.connect_timeout_ms);
        Self(Arc::new(Inner {
            connector: Connector::new(settings.addresses, settings.roots, connect_timeout),
            pool: Pool::new(idle.max(idle_unsafe)),
            allow: settings.allow,
            striker: Striker::new(&settings.secrets),
            secrets: settings.secrets,
            max_response_bytes: settings.max_response_bytes,
            idle,
            idle_unsafe,
        }))
    }

    /// Everything that can be said of a request before it is dispatched, without touching the network.
    ///
    /// A host name's addresses are judged when it is resolved; [`Self::send`] then answers `NotSent` with the same code.
    ///
    /// # Errors
    /// `InvalidRequest`, `DestinationRefused`, `SecretRefused`; never retried.
    pub fn check(&self, outbound: &Outbound) -> Result<(), Error> {
        let prepared = self.0.prepared(outbound)?;
        prepared.headers(&self.0.secrets).map(drop)
    }

    /// Sends the request and reads its answer to the end. A redirect is an answer: whoever wants to follow it makes another
    /// request, which is checked like the first.
    ///
    /// When `teardown` fires or the request's time-out passes, the socket is closed before this returns. Dropping the future
    /// closes it too. Must run on tokio.
    pub async fn send(&self, outbound: Outbound, teardown: Teardown) -> Outcome {
        let stop = pin!(stop_signal(teardown, outbound.request.timeout_ms));
        let mut outcome = self.0.send(outbound, stop).await;
        outcome.answer = match outcome.answer {
            Ok(response) => Ok(self.0.striker.response(response)),
            Err(error) => Err(self.0.striker.error(error)),
        };
        outcome
    }

    /// Connections that wait for another request.
    #[must_use]
    pub fn idle_connections(&self) -> usize {
        self.0.pool.len()
    }
}

async fn stop_signal(teardown: Teardown, timeout_ms: Option<u64>) -> Stop {
    let timed_out = async {
        match timeout_ms {
            Some(after_ms) => {
                tokio::time::sleep(Duration::from_millis(after_ms)).await;
                Stop::TimedOut { after_ms }
            }
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        () = teardown.fired() => Stop::TornDown,
        stop = timed_out => stop,
    }
}

impl Inner {
    fn allowed(&self, prepared: &Prepared, destinations: &Destinations) -> Result<(), Error> {
        let refuse = |why: &str| {
            Err(Error::new(Code::DestinationRefused, format!("{} {}: {why}", prepared.method, prepared.target))
                .never_retried())
        };
        if !destinations.allow(&prepared.target) {
            return refuse("the workflow does not declare this destination; add it to its `destinations`");
        }
        if !self.allow.allow(&prepared.target) {
            return refuse("the operator does not allow this destination");
        }
        self.connector.check(&prepared.target)
    }

    fn prepared(&self, outbound: &Outbound) -> Result<Prepared, Error> {
        let prepared = Prepared::new(outbound)?;
        self.allowed(&prepared, &outbound.destinations)?;
        Ok(prepared)
    }

    async fn send(self: &Arc<Self>, outbound: Outbound, stop: StopSignal<'_>) -> Outcome {
        let prepared = match self.prepared(&outbound) {
            Ok(prepared) => prepared,
            Err(error) => return Outcome::failed(Evidence::NotSent, error),
        };
        let body = Bytes::from(outbound.request.body.unwrap_or_default());
        exchange(self, &prepared, &body, stop).await
    }
}
