//! From a target to a connection: names resolved, addresses judged, TCP, TLS. Nothing of a request is sent on the way, so every
//! failure here is one where nothing left.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use http::uri::InvalidUri;
use hyper_rustls::{ConfigBuilderExt, HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::client::legacy::connect::{Connection as _, HttpConnector};
use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use stepwell_core::error::{Code, Error};
use tokio::sync::OnceCell;
use tower_service::Service;

use super::address::AddressPolicy;
use super::connection::Connection;
use super::destination::{Scheme, Target};
use super::failure::chain;
use super::wire::{Socket, Wire};

/// Whose certificates are believed.
#[derive(Debug, Clone, Default)]
pub enum TlsRoots {
    /// Those of the system.
    #[default]
    System,
    /// These, and no others.
    Only(Vec<CertificateDer<'static>>),
}

/// Why there is no connection.
pub(super) enum ConnectError {
    /// The addresses are closed to us.
    Refused(Error),
    /// DNS, TCP or TLS.
    Failed(String),
}

pub(super) struct Connector {
    addresses: AddressPolicy,
    roots: TlsRoots,
    /// Made when it is first needed: reading the system's certificates takes longer than many a run.
    tls: OnceCell<Arc<ClientConfig>>,
    timeout: Duration,
}

impl Connector {
    pub(super) fn new(addresses: AddressPolicy, roots: TlsRoots, timeout: Duration) -> Self {
        Self { addresses, roots, tls: OnceCell::new(), timeout }
    }

    /// Whether a target that is an address is open. A name is judged when it is resolved.
    pub(super) fn check(&self, target: &Target) -> Result<(), Error> {
        match target.address() {
            Some(address) => self.addresses.allows(target, address).map_err(|kind| refused(target, &kind.to_string())),
            None => Ok(()),
        }
    }

    pub(super) async fn connect(&self, target: &Target) -> Result<Connection, ConnectError> {
        match tokio::time::timeout(self.timeout, self.connect_untimed(target)).await {
            Ok(connection) => connection,
            Err(_) => Err(ConnectError::Failed(format!("no connection within {} ms", self.timeout.as_millis()))),
        }
    }

    async fn connect_untimed(&self, target: &Target) -> Result<Connection, ConnectError> {
        let mut tcp = HttpConnector::new_with_resolver(Judged(self.resolve(target).await?));
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(self.timeout));
        let uri: Uri = format!("{}://{}:{}/", target.scheme.as_str(), target.host, target.port)
            .parse()
            .map_err(|error: InvalidUri| failed(&error))?;
        let stream = match target.scheme {
            Scheme::Http => tcp.call(uri).await.map(MaybeHttpsStream::Http).map_err(|error| failed(&error))?,
            Scheme::Https => HttpsConnector::from((tcp, self.tls().await?))
                .call(uri)
                .await
                .map_err(|error| failed(error.as_ref()))?,
        };
        let http2 = stream.connected().is_negotiated_h2();
        let wire = Arc::new(Wire::default());
        let socket = Socket::new(stream, Arc::clone(&wire));
        Connection::open(socket, wire, http2).await.map_err(|error| failed(&error))
    }

    async fn tls(&self) -> Result<Arc<ClientConfig>, ConnectError> {
        let make = || async {
            let roots = self.roots.clone();
            tokio::task::spawn_blocking(move || tls_config(roots))
                .await
                .map_err(|error| failed(&error))?
                .map(Arc::new)
                .map_err(|error| failed(&error))
        };
        self.tls.get_or_try_init(make).await.cloned()
    }

    /// The target's addresses that are open.
    async fn resolve(&self, target: &Target) -> Result<Vec<SocketAddr>, ConnectError> {
        self.check(target).map_err(ConnectError::Refused)?;
        let resolved = tokio::net::lookup_host((target.host_text(), target.port))
            .await
            .map_err(|error| ConnectError::Failed(format!("the name cannot be resolved: {error}")))?;
        let mut open = Vec::new();
        let mut closed = None;
        for address in resolved {
            match self.addresses.allows(target, address.ip()) {
                Ok(()) => open.push(address),
                Err(kind) => closed = Some(kind),
            }
        }
        match closed {
            _ if !open.is_empty() => Ok(open),
            Some(kind) => Err(ConnectError::Refused(refused(target, &format!("a name for {kind}")))),
            None => Err(ConnectError::Failed("the name has no address".to_owned())),
        }
    }
}

fn failed(error: &(dyn std::error::Error + 'static)) -> ConnectError {
    ConnectError::Failed(chain(error))
}

fn refused(target: &Target, what: &str) -> Error {
    let message =
        format!("{target} is {what}, which requests may not reach; the operator can allow it by name or network");
    Error::new(Code::DestinationRefused, message).never_retried()
}

fn tls_config(roots: TlsRoots) -> io::Result<ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?;
    let builder = match roots {
        TlsRoots::System => match builder.clone().with_native_roots() {
            Ok(with_roots) => with_roots,
            Err(error) => {
                // Plain HTTP works without; every https request will fail and say why.
                tracing::warn!(%error, "no certificates of the system's were found");
                builder.with_root_certificates(rustls::RootCertStore::empty())
            }
        },
        TlsRoots::Only(certificates) => {
            let mut store = rustls::RootCertStore::empty();
            for certificate in certificates {
                store.add(certificate).map_err(io::Error::other)?;
            }
            builder.with_root_certificates(store)
        }
    };
    let mut config = builder.with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// Gives the connector the addresses that were judged, whatever it asks for.
#[derive(Clone)]
struct Judged(Vec<SocketAddr>);

impl Service<Name> for Judged {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Name) -> Self::Future {
        ready(Ok(self.0.clone().into_iter()))
    }
}
