//! A server for one test: it does with each connection what the test says, and keeps what it received.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// A request as it arrived.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    /// Request line and headers.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head
            .lines()
            .skip(1)
            .filter_map(|l| l.split_once(": "))
            .find(|(n, _)| n.eq_ignore_ascii_case(name))
            .map(|(_, v)| v)
    }
}

#[derive(Clone, Default)]
pub(crate) struct Record {
    pub(crate) requests: Arc<Mutex<Vec<Seen>>>,
    connections: Arc<Mutex<usize>>,
}

impl Record {
    /// Reads a request to its end and keeps it. `None` when the connection ended first.
    pub(crate) async fn read<S: AsyncRead + Unpin>(&self, stream: &mut S) -> Option<Seen> {
        let mut bytes = Vec::new();
        let end = loop {
            if let Some(at) = bytes.windows(4).position(|w| w == b"\r\n\r\n") {
                break at + 4;
            }
            if stream.read_buf(&mut bytes).await.ok()? == 0 {
                return None;
            }
        };
        let mut seen = Seen { head: String::from_utf8(bytes[..end].to_vec()).unwrap(), body: bytes[end..].to_vec() };
        let length = seen.header("content-length").map_or(0, |l| l.parse().unwrap());
        while seen.body.len() < length {
            if stream.read_buf(&mut seen.body).await.ok()? == 0 {
                return None;
            }
        }
        self.requests.lock().unwrap().push(seen.clone());
        Some(seen)
    }
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) record: Record,
    _tasks: JoinSet<()>,
}

impl Server {
    /// Does this with each connection.
    pub(crate) async fn each<F, T>(serve: F) -> Self
    where
        F: Fn(Record, TcpStream) -> T + Send + 'static,
        T: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let record = Record::default();
        let mut tasks = JoinSet::new();
        let kept = record.clone();
        tasks.spawn(async move {
            let mut serving = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                *record.connections.lock().unwrap() += 1;
                serving.spawn(serve(record.clone(), stream));
            }
        });
        Self { address, record: kept, _tasks: tasks }
    }

    /// Answers each request of each connection with what `answer` makes of it, connections kept alive.
    pub(crate) async fn answering(answer: impl Fn(&Seen) -> Vec<u8> + Clone + Send + Sync + 'static) -> Self {
        Self::each(move |record, mut stream| {
            let answer = answer.clone();
            async move {
                while let Some(seen) = record.read(&mut stream).await {
                    if stream.write_all(&answer(&seen)).await.is_err() {
                        return;
                    }
                }
            }
        })
        .await
    }

    /// Writes this after the first request of each connection, then closes it.
    pub(crate) async fn once(answer: impl Into<Vec<u8>>) -> Self {
        let answer: Vec<u8> = answer.into();
        Self::each(move |record, mut stream| {
            let answer = answer.clone();
            async move {
                if record.read(&mut stream).await.is_some() {
                    let _ = stream.write_all(&answer).await;
                    let _ = stream.shutdown().await;
                }
            }
        })
        .await
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn requests(&self) -> Vec<Seen> {
        self.record.requests.lock().unwrap().clone()
    }

    pub(crate) fn connections(&self) -> usize {
        *self.record.connections.lock().unwrap()
    }
}

pub(crate) fn ok(body: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// How a connection ended, seen from the server.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    /// Bytes that still came.
    pub(crate) bytes: usize,
    /// Cut off, so that what had not arrived was thrown away; not closed after the last byte.
    pub(crate) reset: bool,
}

/// Reads until the other side is gone.
pub(crate) async fn read_to_end<S: AsyncRead + Unpin>(stream: &mut S) -> Ended {
    let mut bytes = Vec::new();
    loop {
        match stream.read_buf(&mut bytes).await {
            Ok(0) => return Ended { bytes: bytes.len(), reset: false },
            Ok(_) => {}
            Err(error) => {
                return Ended { bytes: bytes.len(), reset: error.kind() == std::io::ErrorKind::ConnectionReset };
            }
        }
    }
}
