//! A small server on loopback, in a process of its own: it answers every request with 200, and knows how much time has passed
//! between one request to a path and the next one to the same.
//!
//! It reads just enough of HTTP for the clients of these measurements.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::figures::quantile;
use crate::lab;
use crate::runs::micros;

/// The server's process, ended when this is dropped.
pub(crate) struct Server {
    process: Child,
    port: u16,
}

impl Server {
    pub(crate) fn start() -> Result<Self> {
        let mut process = lab::child("server")?.stdout(Stdio::piped()).stdin(Stdio::piped()).spawn()?;
        let mut line = String::new();
        let stdout = process.stdout.take().context("the server has no output")?;
        BufReader::new(stdout).read_line(&mut line)?;
        let port = line.trim().parse().context("the server did not say its port")?;
        Ok(Self { process, port })
    }

    /// Where the caller of this number posts.
    pub(crate) fn url(&self, caller: u32) -> String {
        format!("{}/{caller}", self.base())
    }

    /// Below which each caller has a path of its own: its number.
    pub(crate) fn base(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// From one request to a path to the next: the median and what 99 of 100 took at most, in us. What was counted is forgotten.
    pub(crate) async fn cycles(&self) -> Result<(f64, f64)> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await?;
        stream.write_all(b"GET /cycles HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        let body = answer.split("\r\n\r\n").nth(1).context("the server did not answer")?;
        let (p50, p99) = body.split_once(' ').context("the server did not answer with two numbers")?;
        Ok((p50.parse()?, p99.parse()?))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It ends by itself when its input does; to wait for it leaves nothing behind.
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

#[derive(Default)]
struct Seen {
    last: HashMap<String, Instant>,
    between: Vec<f64>,
}

/// The child: serves until its input ends.
pub(crate) async fn serve() -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?.port());
    let seen: Arc<Mutex<Seen>> = Arc::default();
    let ended = tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new()));
    let serving = async {
        while let Ok((stream, _)) = listener.accept().await {
            // It can only fail on a socket that is gone.
            let _ = stream.set_nodelay(true);
            tokio::spawn(connection(stream, seen.clone()));
        }
    };
    tokio::select! {
        _ = ended => {}
        () = serving => {}
    }
    Ok(())
}

async fn connection(mut stream: TcpStream, seen: Arc<Mutex<Seen>>) -> Result<()> {
    let mut buffer = Vec::with_capacity(4 << 10);
    loop {
        let (path, length) = loop {
            if let Some(request) = request(&buffer)? {
                break request;
            }
            if stream.read_buf(&mut buffer).await? == 0 {
                return Ok(());
            }
        };
        buffer.drain(..length);
        let body = answer(path, &seen);
        let head = format!("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {}\r\n\r\n", body.len());
        stream.write_all((head + &body).as_bytes()).await?;
        if body.contains(' ') {
            return Ok(());
        }
    }
}

/// The path of a request that is there as a whole, and its length.
fn request(bytes: &[u8]) -> Result<Option<(String, usize)>> {
    let mut headers = [httparse::EMPTY_HEADER; 32];
    let mut request = httparse::Request::new(&mut headers);
    let httparse::Status::Complete(head) = request.parse(bytes)? else { return Ok(None) };
    let path = request.path.unwrap_or_default().to_owned();
    let length = request.headers.iter().find(|header| header.name.eq_ignore_ascii_case("content-length"));
    let body: usize = match length {
        Some(header) => std::str::from_utf8(header.value)?.trim().parse()?,
        None => 0,
    };
    if body > 1 << 20 {
        bail!("a request that none of these measurements makes");
    }
    Ok((bytes.len() >= head + body).then_some((path, head + body)))
}

fn answer(path: String, seen: &Mutex<Seen>) -> String {
    let now = Instant::now();
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    if path == "/cycles" {
        let mut between = std::mem::take(&mut *seen).between;
        return format!("{} {}", quantile(&mut between, 0.5), quantile(&mut between, 0.99));
    }
    if let Some(last) = seen.last.insert(path, now) {
        seen.between.push(micros(now.duration_since(last)));
    }
    "ok".to_owned()
}
