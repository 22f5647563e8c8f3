//! HTTP/1.1 on a socket of our own, since a fault has to strike at an exact byte.
//!
//! A request is first looked at without being read (`arrived`), so that a fault before reading knows which request it
//! strikes. Bodies have a `Content-Length`; other framings are refused.

use std::io::{Error, ErrorKind, Result};
use std::time::Duration;

use serde_json::Value;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

/// A request up to this size is looked at in whole before it is read.
const PEEK_BYTES: usize = 16 << 10;
const MAX_HEADERS: usize = 64;
const MAX_BODY_BYTES: usize = 1 << 20;
/// How long the rest of a request may take after its first byte.
const ARRIVAL: Duration = Duration::from_secs(10);

/// The head of a request, as far as the shop needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) method: String,
    /// Without its query.
    pub(crate) path: String,
    /// The `Idempotency-Key` header as sent.
    pub(crate) key: Option<String>,
    /// The client wants the connection closed after the answer.
    pub(crate) close: bool,
    head_bytes: usize,
    body_bytes: usize,
}

impl Head {
    /// `None` while the head is incomplete.
    fn parse(bytes: &[u8]) -> Result<Option<Self>> {
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut request = httparse::Request::new(&mut headers);
        let status = request.parse(bytes).map_err(|e| invalid(e.to_string()))?;
        let httparse::Status::Complete(head_bytes) = status else { return Ok(None) };
        let header = |name: &str| {
            let found = request.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name))?;
            Some(String::from_utf8_lossy(found.value).trim().to_owned())
        };
        if header("transfer-encoding").is_some() {
            return Err(invalid("the body needs a Content-Length"));
        }
        let body_bytes = match header("content-length") {
            Some(text) => text.parse().map_err(|_| invalid("the Content-Length is no number"))?,
            None => 0,
        };
        if body_bytes > MAX_BODY_BYTES {
            return Err(invalid("the body is larger than 1 MiB"));
        }
        let target = request.path.unwrap_or("/");
        Ok(Some(Self {
            method: request.method.unwrap_or_default().to_owned(),
            path: target.split('?').next().unwrap_or(target).to_owned(),
            key: header("idempotency-key"),
            close: header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close")),
            head_bytes,
            body_bytes,
        }))
    }
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidData, message.into())
}

/// Waits for the next request and looks at it, leaving it unread in the socket. The body is there too if it is small enough and
/// came in time. `None` when the client has closed.
///
/// # Errors
/// When what came is no request, or the connection broke.
pub(crate) async fn arrived(stream: &TcpStream) -> Result<Option<(Head, Option<Vec<u8>>)>> {
    let mut buffer = vec![0; PEEK_BYTES];
    let mut deadline = None;
    loop {
        let seen = stream.peek(&mut buffer).await?;
        if seen == 0 {
            return Ok(None);
        }
        let late = Instant::now() > *deadline.get_or_insert_with(|| Instant::now() + ARRIVAL);
        let bytes = &buffer[..seen];
        match Head::parse(bytes)? {
            Some(head) => {
                let end = head.head_bytes + head.body_bytes;
                if let Some(body) = bytes.get(head.head_bytes..end) {
                    let body = body.to_vec();
                    return Ok(Some((head, Some(body))));
                }
                if late || end > PEEK_BYTES {
                    return Ok(Some((head, None)));
                }
            }
            None if late || seen == PEEK_BYTES => {
                return Err(invalid("the request's head did not come, or is too large"));
            }
            None => {}
        }
        // A socket with unread bytes is always ready, so there is nothing to wait on for more of them.
        sleep(Duration::from_millis(1)).await;
    }
}

/// Reads the request that `head` is of, and answers its body.
///
/// # Errors
/// When the connection breaks before its end.
pub(crate) async fn read(stream: &mut TcpStream, head: &Head) -> Result<Vec<u8>> {
    let mut bytes = vec![0; head.head_bytes + head.body_bytes];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes.split_off(head.head_bytes))
}

/// What the shop answers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) retry_after: Option<u64>,
    pub(crate) replayed: bool,
    pub(crate) body: Value,
}

impl Answer {
    pub(crate) fn new(status: u16, body: Value) -> Self {
        Self { status, retry_after: None, replayed: false, body }
    }

    pub(crate) fn refusal(status: u16, why: impl Into<String>) -> Self {
        Self::new(status, serde_json::json!({ "error": why.into() }))
    }

    /// The bytes on the wire.
    pub(crate) fn encode(&self, close: bool) -> Vec<u8> {
        // A 204 or 304 has no body; everything else has one, however short.
        let body = if matches!(self.status, 204 | 304) { String::new() } else { self.body.to_string() };
        let mut text = format!(
            "HTTP/1.1 {} {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n",
            self.status,
            reason(self.status),
            body.len()
        );
        if let Some(seconds) = self.retry_after {
            text.push_str(&format!("Retry-After: {seconds}\r\n"));
        }
        if self.replayed {
            text.push_str("Idempotent-Replayed: true\r\n");
        }
        text.push_str(if close { "Connection: close\r\n\r\n" } else { "\r\n" });
        text.push_str(&body);
        text.into_bytes()
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        400 => "Bad Request",
        404 => "Not Found",
        405 => "Method Not Allowed",
        409 => "Conflict",
        422 => "Unprocessable Content",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "Told To",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_known_once_it_is_complete() {
        let text = b"POST /charges?x=1 HTTP/1.1\r\nHost: a\r\nidempotency-key: k 1 \r\nContent-Length: 2\r\n\r\n{}";
        assert_eq!(Head::parse(&text[..40]).unwrap(), None);
        let head = Head::parse(text).unwrap().unwrap();
        assert_eq!((head.method.as_str(), head.path.as_str()), ("POST", "/charges"));
        assert_eq!(head.key.as_deref(), Some("k 1"));
        assert_eq!((head.head_bytes, head.body_bytes, head.close), (text.len() - 2, 2, false));
    }

    #[test]
    fn other_framings_are_refused() {
        for headers in ["Transfer-Encoding: chunked", "Content-Length: many", "Content-Length: 99999999"] {
            let text = format!("POST / HTTP/1.1\r\n{headers}\r\n\r\n");
            assert!(Head::parse(text.as_bytes()).is_err(), "{headers}");
        }
    }

    #[test]
    fn an_answer_says_how_long_it_is_and_whether_it_is_an_old_one() {
        let mut answer = Answer::new(201, serde_json::json!({"id": "é"}));
        answer.replayed = true;
        let text = String::from_utf8(answer.encode(true)).unwrap();
        assert!(text.contains("Content-Length: 11\r\n"), "{text}");
        assert!(text.contains("Idempotent-Replayed: true\r\n") && text.contains("Connection: close\r\n"), "{text}");
    }
}
