//! A server that keeps every byte of what it is sent and answers as the test says: for what the shop does not do.
//!
//! While it does not listen its port stays its own, so that a refused connection is one.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use socket2::{Domain, Socket, Type};

use crate::process::HANGS;

/// A request as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// From 1, in the order of arrival.
    pub number: usize,
    /// Its method.
    pub method: String,
    /// Its path with the query.
    pub path: String,
    /// In the order received, names in lower case.
    pub headers: Vec<(String, String)>,
    /// Its body.
    pub body: Vec<u8>,
    /// Every byte of it.
    pub raw: Vec<u8>,
    /// How many earlier requests were left without an answer and had not been given up by the client when this one came.
    pub hanging: usize,
}

/// What the server does with a request.
#[derive(Debug, Clone)]
pub enum Reply {
    /// Answers.
    Answer(u16, String),
    /// Sends these bytes and closes. An answer that does not say `connection: close` promises otherwise: the next request may be
    /// on its way along the same connection by then, and is lost.
    Raw(Vec<u8>),
    /// Closes.
    Drop,
    /// Refuses further connections, and then closes.
    DropAndRefuse,
    /// Says nothing until the client closes.
    Hang,
    /// Sends the first bytes at once and the others at one a second, until the client closes.
    Trickle(Vec<u8>, Vec<u8>),
}

/// A server on a port of its own.
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    handler: Box<dyn Fn(&Request) -> Reply + Send + Sync>,
    state: Mutex<State>,
    arrived: Condvar,
}

#[derive(Default)]
struct State {
    requests: Vec<Request>,
    hanging: Vec<TcpStream>,
    /// Bound, not listening yet.
    bound: Vec<Socket>,
    listening: Option<TcpListener>,
}

impl Server {
    /// One that listens.
    #[must_use]
    pub fn start(handler: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        let server = Self::refusing(handler);
        server.listen();
        server
    }

    /// One that refuses connections until it is told to listen.
    ///
    /// # Panics
    /// If there is no port.
    #[must_use]
    pub fn refusing(handler: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        let first = bound(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        let address = first.local_addr().ok().and_then(|a| a.as_socket()).expect("it is bound to an address");
        // One for each time that it begins to listen.
        let state = State { bound: vec![bound(address), first], ..State::default() };
        Self {
            address,
            shared: Arc::new(Shared { handler: Box::new(handler), state: Mutex::new(state), arrived: Condvar::new() }),
        }
    }

    /// Accepts connections from now on. At most twice in its life.
    ///
    /// # Panics
    /// If it listens already, or the third time.
    pub fn listen(&self) {
        let mut state = self.shared.lock();
        assert!(state.listening.is_none(), "it listens already");
        let socket = state.bound.pop().expect("it listens at most twice");
        socket.listen(128).expect("a bound socket can listen");
        let listener = TcpListener::from(socket);
        state.listening = Some(listener.try_clone().expect("a listener can be cloned"));
        let shared = self.shared.clone();
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let shared = shared.clone();
                std::thread::spawn(move || shared.serve(stream));
            }
        });
    }

    /// Its address, e.g. `http://127.0.0.1:4810`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Waits until so many requests have come.
    ///
    /// # Panics
    /// If they do not.
    pub fn wait_for(&self, count: usize) {
        let state = self.shared.lock();
        let come = self.shared.arrived.wait_timeout_while(state, HANGS, |state| state.requests.len() < count);
        let (state, hung) = come.unwrap_or_else(PoisonError::into_inner);
        assert!(!hung.timed_out(), "{count} requests were to come: {:#?}", state.requests);
    }

    /// Every request so far.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.shared.lock().requests.clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.refuse();
    }
}

fn bound(address: SocketAddr) -> Socket {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("there are sockets");
    // So that both of a server's sockets can have its port.
    socket.set_reuse_address(true).expect("an address can be shared");
    socket.bind(&address.into()).unwrap_or_else(|error| panic!("{address}: {error}"));
    socket
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// No connection is accepted any more when this returns.
    fn refuse(&self) {
        if let Some(listener) = self.lock().listening.take() {
            let _ = Socket::from(listener).shutdown(Shutdown::Both);
        }
    }

    fn serve(&self, mut stream: TcpStream) {
        while let Some(mut request) = read(&mut stream) {
            {
                let mut state = self.lock();
                request.number = state.requests.len() + 1;
                request.hanging = state.hanging.iter().filter(|stream| is_open(stream)).count();
                state.requests.push(request.clone());
                self.arrived.notify_all();
            }
            match (self.handler)(&request) {
                Reply::Answer(status, body) => {
                    let length = body.len();
                    let answer = format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n\r\n{body}");
                    if stream.write_all(answer.as_bytes()).is_err() {
                        return;
                    }
                }
                Reply::Raw(bytes) => {
                    let _ = stream.write_all(&bytes);
                    return;
                }
                Reply::Drop => return,
                Reply::DropAndRefuse => return self.refuse(),
                Reply::Hang => return self.hang(stream),
                Reply::Trickle(first, rest) => {
                    self.hold(&stream);
                    if stream.write_all(&first).is_err() {
                        return;
                    }
                    for byte in rest {
                        if stream.write_all(&[byte]).is_err() {
                            return;
                        }
                        std::thread::sleep(Duration::from_secs(1));
                    }
                    return;
                }
            }
        }
    }

    fn hold(&self, stream: &TcpStream) {
        self.lock().hanging.push(stream.try_clone().expect("a stream can be cloned"));
    }

    fn hang(&self, mut stream: TcpStream) {
        self.hold(&stream);
        while matches!(stream.read(&mut [0; 256]), Ok(1..)) {}
    }
}

/// Whether the client has not closed its side.
fn is_open(stream: &TcpStream) -> bool {
    let Ok(socket) = stream.try_clone().map(Socket::from) else { return false };
    let mut one = [std::mem::MaybeUninit::uninit(); 1];
    // MSG_DONTWAIT is not in the standard library, and changing the mode would change it for the thread that reads, too.
    const DONTWAIT: i32 = 0x40;
    const PEEK: i32 = 0x02;
    match socket.recv_with_flags(&mut one, DONTWAIT | PEEK) {
        Ok(read) => read > 0,
        Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
    }
}

/// The next request of a connection; none where the client has closed it.
fn read(stream: &mut TcpStream) -> Option<Request> {
    let mut raw = Vec::new();
    let mut byte = [0];
    while !raw.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => raw.push(byte[0]),
            _ => return None,
        }
    }
    let head = String::from_utf8_lossy(&raw).into_owned();
    let mut lines = head.split("\r\n");
    let mut first = lines.next()?.split(' ');
    let (method, path) = (first.next()?.to_owned(), first.next()?.to_owned());
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length = headers.iter().find(|(name, _)| name == "content-length").and_then(|(_, value)| value.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).ok()?;
    raw.extend(&body);
    Some(Request { number: 0, method, path, headers, body, raw, hanging: 0 })
}

impl Request {
    /// A header's value.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// Its `Idempotency-Key`.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        self.header("idempotency-key")
    }
}
