//! The socket beneath a connection: it counts what was written, looks before it writes, and can be cut off.
//!
//! Everything that is said of a request's progress rests on this count. It knows nothing of HTTP.

use std::future::Future;
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};

use hyper::rt::{Executor, Read, ReadBufCursor, Write};
use hyper_rustls::MaybeHttpsStream;
use hyper_util::rt::TokioIo;
use socket2::SockRef;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// What the socket and its owner both see.
#[derive(Default)]
pub(super) struct Wire {
    /// Bytes that may have left. For TLS those that an attempt was made to write, since the record layer may send a part and fail.
    written: AtomicU64,
    /// The connection was idle: before the next write it is looked at, whether the other side has closed it.
    look_first: AtomicBool,
    /// On close, what has not left is thrown away and the other side is told at once.
    cut: AtomicBool,
}

impl Wire {
    pub(super) fn written(&self) -> u64 {
        self.written.load(Ordering::SeqCst)
    }

    pub(super) fn look_first(&self) {
        self.look_first.store(true, Ordering::SeqCst);
    }

    pub(super) fn cut(&self) {
        self.cut.store(true, Ordering::SeqCst);
    }
}

type Stream = MaybeHttpsStream<TokioIo<TcpStream>>;

pub(super) struct Socket {
    stream: Stream,
    wire: Arc<Wire>,
}

impl Socket {
    pub(super) fn new(stream: Stream, wire: Arc<Wire>) -> Self {
        Self { stream, wire }
    }

    fn tcp(&self) -> &TcpStream {
        match &self.stream {
            MaybeHttpsStream::Http(tcp) => tcp.inner(),
            MaybeHttpsStream::Https(tls) => tls.inner().get_ref().0.inner().inner(),
        }
    }

    /// Refuses to write on a connection that was idle and has something to read: its end, or what a server says before it closes.
    /// The system is asked itself, since the runtime may not have heard of it yet.
    fn check_idle(&self) -> io::Result<()> {
        if !self.wire.look_first.swap(false, Ordering::SeqCst) {
            return Ok(());
        }
        match SockRef::from(self.tcp()).peek(&mut [MaybeUninit::uninit(); 1]) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error),
            Ok(_) => Err(io::Error::new(io::ErrorKind::BrokenPipe, "closed while idle")),
        }
    }

    fn write_with(
        &mut self,
        write: impl FnOnce(Pin<&mut Stream>) -> Poll<io::Result<usize>>,
        offered: usize,
    ) -> Poll<io::Result<usize>> {
        if offered > 0 {
            self.check_idle()?;
        }
        let tls = matches!(self.stream, MaybeHttpsStream::Https(_));
        if tls {
            self.wire.written.fetch_add(offered as u64, Ordering::SeqCst);
        }
        let done = write(Pin::new(&mut self.stream));
        if !tls && let Poll::Ready(Ok(written)) = done {
            self.wire.written.fetch_add(written as u64, Ordering::SeqCst);
        }
        done
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if self.wire.cut.load(Ordering::SeqCst) {
            // It can fail only on a socket that is gone already.
            let _ = self.tcp().set_zero_linger();
        }
    }
}

impl Read for Socket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl Write for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.write_with(|stream| stream.poll_write(cx, buf), buf.len())
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let offered = bufs.iter().map(|b| b.len()).sum();
        self.write_with(|stream| stream.poll_write_vectored(cx, bufs), offered)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// The tasks of one connection. They end with it, so that its socket has no other owner.
#[derive(Clone)]
pub(super) struct Tasks(Arc<Mutex<Option<JoinSet<()>>>>);

impl Tasks {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(Some(JoinSet::new()))))
    }

    /// What is executed afterwards is dropped.
    pub(super) fn take(&self) -> Option<JoinSet<()>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Tasks {
    fn execute(&self, task: F) {
        if let Some(tasks) = self.0.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            while tasks.try_join_next().is_some() {}
            tasks.spawn(task);
        }
    }
}
