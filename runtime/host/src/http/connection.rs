//! One connection to one target, HTTP/1.1 or HTTP/2, with at most one request on it at a time.
//!
//! HTTP/2 is not multiplexed: alone on its connection, a request's progress can be read off the socket and ending it is closing
//! the socket, exactly as with HTTP/1.1.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::rt::Executor;

use super::wire::{Socket, Tasks, Wire};

/// Headers of an answer.
const MAX_ANSWER_HEADERS: usize = 128;
/// An answer's status line and headers, in bytes.
const MAX_ANSWER_HEAD_BYTES: usize = 64 << 10;

type Body = Full<Bytes>;

enum Sender {
    Http1(http1::SendRequest<Body>),
    Http2(http2::SendRequest<Body>),
}

pub(super) struct Connection {
    sender: Sender,
    tasks: Tasks,
    wire: Arc<Wire>,
    /// A request is under way: dropped now, the socket is cut off.
    busy: bool,
}

impl Connection {
    /// Nothing of a request is sent here; for HTTP/2 the preface may be.
    pub(super) async fn open(socket: Socket, wire: Arc<Wire>, http2: bool) -> hyper::Result<Self> {
        let tasks = Tasks::new();
        let sender = if http2 {
            let mut builder = http2::Builder::new(tasks.clone());
            builder.max_header_list_size(MAX_ANSWER_HEAD_BYTES as u32);
            let (sender, connection) = builder.handshake(socket).await?;
            tasks.execute(async { drop(connection.await) });
            Sender::Http2(sender)
        } else {
            let mut builder = http1::Builder::new();
            builder.max_headers(MAX_ANSWER_HEADERS).max_header_size(MAX_ANSWER_HEAD_BYTES);
            let (sender, connection) = builder.handshake(socket).await?;
            tasks.execute(async { drop(connection.await) });
            Sender::Http1(sender)
        };
        Ok(Self { sender, tasks, wire, busy: false })
    }

    pub(super) fn is_http2(&self) -> bool {
        matches!(self.sender, Sender::Http2(_))
    }

    /// Bytes that may have left so far.
    pub(super) fn written(&self) -> u64 {
        self.wire.written()
    }

    /// Before a request on a connection that was idle.
    pub(super) fn look_before_writing(&self) {
        self.wire.look_first();
    }

    /// Sends; the answer's body is still to be read.
    pub(super) async fn send(&mut self, request: Request<Body>) -> hyper::Result<Response<Incoming>> {
        self.busy = true;
        match &mut self.sender {
            Sender::Http1(sender) => sender.send_request(request).await,
            Sender::Http2(sender) => sender.send_request(request).await,
        }
    }

    /// The answer was read to its end. Waits until another request may be sent.
    pub(super) async fn rest(&mut self) -> hyper::Result<()> {
        match &mut self.sender {
            Sender::Http1(sender) => sender.ready().await?,
            Sender::Http2(sender) => sender.ready().await?,
        }
        self.busy = false;
        Ok(())
    }

    /// As far as is known without asking the system.
    pub(super) fn is_usable(&self) -> bool {
        match &self.sender {
            Sender::Http1(sender) => sender.is_ready(),
            Sender::Http2(sender) => sender.is_ready(),
        }
    }

    /// Cuts the socket off: unsent bytes are discarded, the other side gets a reset. When this returns the socket is closed and
    /// [`Self::written`] is final.
    pub(super) async fn cut(&mut self) {
        self.wire.cut();
        if let Some(mut tasks) = self.tasks.take() {
            tasks.shutdown().await;
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if self.busy {
            self.wire.cut();
        }
        // Dropping the set ends the tasks, and with them the socket.
        drop(self.tasks.take());
    }
}
