//! Answers of a server that sends whatever it likes: an answer or a typed error, and what is said of it is so. Never a panic, and never
//! a wait for more once the server has closed.

use std::cell::RefCell;
use std::net::Ipv4Addr;
use std::time::Duration;

use arbitrary::{Result, Unstructured};
use stepwell_core::contract::{EffectKey, Evidence, Request};
use stepwell_host::http::{AddressPolicy, Destinations, HttpClient, HttpSettings, Outbound, Outcome, Teardown};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

/// The most that an answer may have here: small, so that inputs come to it.
const MAX_BYTES: usize = 8 << 10;
/// A client that is still at it so long after the server closed has hung.
const HANGS: Duration = Duration::from_secs(30);

/// The input is an answer, whole or broken off, and the pieces in which it comes.
pub fn http(data: &[u8]) {
    let mut u = Unstructured::new(data);
    let Ok(case) = Case::new(&mut u) else { return };
    thread_local!(static HERE: RefCell<(Runtime, HttpClient)> = RefCell::new(here()));
    HERE.with_borrow(|(runtime, client)| {
        let outcome = runtime.block_on(async { tokio::time::timeout(HANGS, exchange(client, &case)).await });
        let outcome = outcome.unwrap_or_else(|_| panic!("the client hangs: {case:?}"));
        case.check(&outcome);
    });
}

fn here() -> (Runtime, HttpClient) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("there is a runtime");
    let addresses = AddressPolicy { allow_loopback: true, ..AddressPolicy::default() };
    let settings =
        HttpSettings { addresses, max_response_bytes: MAX_BYTES, connect_timeout_ms: 1_000, ..HttpSettings::default() };
    (runtime, HttpClient::new(settings))
}

#[derive(Debug)]
struct Case {
    method: &'static str,
    answer: Vec<u8>,
    /// Lengths of the pieces that are written at a time; what is left over is written at once.
    pieces: Vec<usize>,
    /// The connection ends in a reset.
    reset: bool,
    expected: Expected,
}

/// What the maker of the answer knows.
#[derive(Debug)]
enum Expected {
    /// Nothing: the bytes are the input's.
    Any,
    Complete(u16, Vec<u8>),
    Broken,
    TooLarge(u16),
}

impl Case {
    fn new(u: &mut Unstructured<'_>) -> Result<Self> {
        let made = u.ratio(2, 3)?;
        let pieces = (0..u.int_in_range(0..=4)?).map(|_| u.int_in_range(0..=80)).collect::<Result<_>>()?;
        let method = *u.choose(&["GET", "POST", "HEAD"])?;
        let reset = u.ratio(1, 8)?;
        if made {
            let method = if method == "HEAD" { "GET" } else { method };
            let (answer, expected) = made_answer(u)?;
            let expected = if reset { Expected::Any } else { expected };
            return Ok(Self { method, answer, pieces, reset, expected });
        }
        Ok(Self {
            method,
            answer: {
                let length = u.len();
                u.bytes(length)?.to_vec()
            },
            pieces,
            reset,
            expected: Expected::Any,
        })
    }

    fn check(&self, outcome: &Outcome) {
        let Outcome { evidence, answer } = outcome;
        // The server has read the request to its end.
        assert_ne!(*evidence, Evidence::NotSent, "{self:?}: {outcome:?}");
        if let Ok(response) = answer {
            assert_eq!(*evidence, Evidence::Answered(response.status), "{self:?}: {outcome:?}");
            assert!(response.status >= 200 && response.body.len() <= MAX_BYTES, "{self:?}: {outcome:?}");
            assert!(!response.recorded);
        }
        match (&self.expected, answer) {
            (Expected::Any, _) | (Expected::Broken, Err(_)) => {}
            (Expected::Complete(status, body), Ok(response)) => {
                assert_eq!((response.status, &response.body), (*status, body), "{self:?}: {outcome:?}");
            }
            (Expected::TooLarge(status), Err(_)) => {
                assert!(
                    matches!(evidence, Evidence::Sent) || *evidence == Evidence::Answered(*status),
                    "{self:?}: {outcome:?}"
                );
            }
            _ => panic!("{self:?}: {outcome:?}"),
        }
        if matches!(self.expected, Expected::Broken) {
            assert_eq!(*evidence, Evidence::Sent, "{self:?}: {outcome:?}");
        }
    }
}

/// How an answer says where it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    Length,
    Chunks,
    Close,
}

fn made_answer(u: &mut Unstructured<'_>) -> Result<(Vec<u8>, Expected)> {
    let framing = *u.choose(&[Framing::Length, Framing::Chunks, Framing::Close])?;
    let status = *u.choose(&[200, 201, 302, 400, 409, 429, 500, 503, 599, 999])?;
    let large = u.ratio(1, 16)?;
    let length = if large { MAX_BYTES + u.int_in_range(1..=9)? } else { u.int_in_range(0..=200)? };
    let byte = u.arbitrary::<u8>()?;
    let body: Vec<u8> = (0..length).map(|at| byte.wrapping_add(at as u8)).collect();
    let mut answer = Vec::new();
    for _ in 0..u.int_in_range(0..=2)? {
        answer.extend_from_slice(b"HTTP/1.1 103 Early\r\nlink: <a>\r\n\r\n");
    }
    answer.extend_from_slice(format!("HTTP/1.1 {status} {}\r\n", u.choose(&["", "OK", "\u{e9}"])?).as_bytes());
    for _ in 0..u.int_in_range(0..=3)? {
        let value = *u.choose(&["", " ", "a", "caf\u{e9}", "\"x\"; y=\tz", "${secret:pay}"])?;
        answer.extend_from_slice(format!("x-{}: {value}\r\n", u.int_in_range(0..=9)?).as_bytes());
    }
    match framing {
        Framing::Length => answer.extend_from_slice(format!("Content-Length: {length}\r\n\r\n").as_bytes()),
        Framing::Chunks => answer.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n"),
        Framing::Close => answer.extend_from_slice(b"Connection: close\r\n\r\n"),
    }
    let head = answer.len();
    if framing == Framing::Chunks {
        chunked(&body, &mut answer, u)?;
    } else {
        answer.extend_from_slice(&body);
    }
    if u.ratio(1, 2)? {
        let cut = u.int_in_range(0..=answer.len())?;
        if cut < answer.len() {
            answer.truncate(cut);
            // Where only the end of the connection ends the body, nobody can tell that there was more.
            let expected = match framing {
                Framing::Close if cut >= head && cut - head > MAX_BYTES => Expected::TooLarge(status),
                Framing::Close if cut >= head => Expected::Complete(status, body[..cut - head].to_vec()),
                // Too large is seen before its end.
                _ if large && cut >= head => Expected::Any,
                _ => Expected::Broken,
            };
            return Ok((answer, expected));
        }
    }
    Ok((answer, if large { Expected::TooLarge(status) } else { Expected::Complete(status, body) }))
}

fn chunked(body: &[u8], answer: &mut Vec<u8>, u: &mut Unstructured<'_>) -> Result<()> {
    let mut rest = body;
    while !rest.is_empty() {
        let (chunk, after) = rest.split_at(u.int_in_range(1..=rest.len())?);
        let extension = if u.ratio(1, 8)? { ";a=b" } else { "" };
        answer.extend_from_slice(format!("{:x}{extension}\r\n", chunk.len()).as_bytes());
        answer.extend_from_slice(chunk);
        answer.extend_from_slice(b"\r\n");
        rest = after;
    }
    answer.extend_from_slice(b"0\r\n");
    if u.ratio(1, 4)? {
        answer.extend_from_slice(b"x-trailer: y\r\n");
    }
    answer.extend_from_slice(b"\r\n");
    Ok(())
}

async fn exchange(client: &HttpClient, case: &Case) -> Outcome {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("there is a port");
    let address = listener.local_addr().expect("it is bound to an address");
    let body = (case.method == "POST").then(|| b"{\"amount\":1}".to_vec());
    let request = Request {
        method: case.method.into(),
        url: format!("http://{address}/"),
        headers: Vec::new(),
        body,
        timeout_ms: None,
        key: EffectKey::None,
        label: None,
        renew_on: Vec::new(),
    };
    let outbound = Outbound { request, key_header: None, destinations: Destinations::Any, secrets: None };
    // Nobody else is served: where the client is sent here again by a redirect, it is refused.
    let server = async move {
        if let Ok((stream, _)) = listener.accept().await {
            // The client may be gone before all was said.
            let _ = serve(stream, case).await;
        }
    };
    tokio::join!(client.send(outbound, Teardown::never()), server).0
}

async fn serve(mut stream: TcpStream, case: &Case) -> std::io::Result<()> {
    let mut request = Vec::new();
    let end = if case.method == "POST" { &b"{\"amount\":1}"[..] } else { b"\r\n\r\n" };
    while !request.ends_with(end) {
        if stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    }
    stream.set_nodelay(true)?;
    let mut rest = &case.answer[..];
    for &length in &case.pieces {
        let (piece, after) = rest.split_at(length.min(rest.len()));
        stream.write_all(piece).await?;
        tokio::task::yield_now().await;
        rest = after;
    }
    stream.write_all(rest).await?;
    if case.reset {
        return stream.set_zero_linger();
    }
    stream.shutdown().await?;
    // Until the client has closed too, lest a reset takes away what it has not read.
    while stream.read(&mut [0; 256]).await? > 0 {}
    Ok(())
}
