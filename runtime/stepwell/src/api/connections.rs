//! Connections: how many there may be, and how long each may keep its place without saying what it wants, or without taking what it
//! asked for. Nobody is known yet on a connection, so nothing here depends on who it is.
//!
//! HTTP/1 alone: its connections are bounded by these times, and a proxy in front speaks it to us whatever its own clients speak.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_io_timeout::TimeoutStream;

/// The longest head of a request, in bytes.
const MAX_HEAD_BYTES: usize = 64 << 10;
/// How many times as long a client may take none of what it is sent.
const PATIENCE_IN_WRITING: u32 = 4;

pub(super) struct Connections {
    places: Arc<Semaphore>,
    http: http1::Builder,
    service: TowerToHyperService<Router>,
    open: GracefulShutdown,
    idle: Duration,
}

/// Room for one connection.
pub(super) type Place = OwnedSemaphorePermit;

impl Connections {
    /// `most` at a time; one that has not said what it wants within `idle`, or is not asked anything further, is closed.
    pub(super) fn new(router: Router, most: usize, idle: Duration) -> Self {
        let mut http = http1::Builder::new();
        // From the first byte on, and again between requests.
        http.timer(TokioTimer::new()).header_read_timeout(idle).max_buf_size(MAX_HEAD_BYTES);
        let service = TowerToHyperService::new(router);
        Self { places: Arc::new(Semaphore::new(most)), http, service, open: GracefulShutdown::new(), idle }
    }

    /// Room for one more. While there is none, whoever comes waits with the operating system, which costs nothing here.
    pub(super) async fn place(&self) -> Place {
        self.places.clone().acquire_owned().await.expect("the semaphore is never closed")
    }

    /// Answers what comes on the connection, in a task of its own.
    pub(super) fn serve(&self, stream: TcpStream, place: Place) {
        let _ = stream.set_nodelay(true);
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(self.idle * PATIENCE_IN_WRITING));
        let connection = self.http.serve_connection(TokioIo::new(Box::pin(stream)), self.service.clone());
        let connection = self.open.watch(connection);
        tokio::spawn(async move {
            // Whoever breaks a connection off knows it.
            let _ = connection.await;
            drop(place);
        });
    }

    /// Lets those under way come to their end, for so long at most.
    ///
    /// # Errors
    /// When some have not.
    pub(super) async fn drain(self, longest: Duration) -> Result<(), tokio::time::error::Elapsed> {
        tokio::time::timeout(longest, self.open.shutdown()).await
    }
}
