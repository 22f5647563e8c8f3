//! As much of HTTP/1.1 as the sweep's servers need: heads, and bodies with a `Content-Length`.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _};

/// A message as it came, and what is looked at of it.
#[derive(Debug, Clone, Default)]
pub struct Message {
    /// The first line.
    pub first: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// Its body.
    pub body: Vec<u8>,
    /// All of it.
    pub raw: Vec<u8>,
}

impl Message {
    /// A header's value.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// Method and path of a request.
    #[must_use]
    pub fn asks(&self) -> (&str, &str) {
        let mut words = self.first.split(' ');
        (words.next().unwrap_or(""), words.next().unwrap_or(""))
    }
}

/// Reads a message. None where the other side closes before its head is whole.
///
/// # Errors
/// When the connection breaks within its body.
pub async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Message>> {
    let mut raw = Vec::new();
    let mut chunk = [0; 4096];
    let end = loop {
        if let Some(at) = raw.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => return Ok(None),
            Ok(read) => raw.extend(&chunk[..read]),
        }
    };
    let head = String::from_utf8_lossy(&raw[..end]).into_owned();
    let mut lines = head.split("\r\n");
    let first = lines.next().unwrap_or("").to_owned();
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length: usize =
        headers.iter().find(|(name, _)| name == "content-length").map_or(0, |(_, v)| v.parse().unwrap_or(0));
    while raw.len() < end + length {
        match stream.read(&mut chunk).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => raw.extend(&chunk[..read]),
        }
    }
    let body = raw[end..end + length].to_vec();
    Ok(Some(Message { first, headers, body, raw }))
}

/// An answer as it is written.
#[must_use]
pub fn answer(status: u16, more: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "HTTP/1.1 {status} Status\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n{more}\r\n{body}"
    )
    .into_bytes()
}
