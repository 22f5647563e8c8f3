//! A served data directory and its HTTP API, spoken to byte by byte over loopback: no client of ours in between.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;

use serde_json::Value;

use crate::module::Module;
use crate::process::{Finished, HANGS, Running};
use crate::project::Project;

/// `stepwell serve`, taking requests. It is killed when this is dropped.
pub struct Serving {
    running: Running,
    api: Api,
}

/// Where an API is, and who asks.
#[derive(Debug, Clone)]
pub struct Api {
    address: String,
    headers: Vec<(String, String)>,
}

/// What was answered.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body; null where there is none, a text where it is no JSON.
    pub body: Value,
}

impl Project {
    /// Starts the server on a port of its own and waits until it takes requests.
    ///
    /// # Panics
    /// If it does not.
    #[must_use]
    pub fn serve(&self, args: &[&str]) -> Serving {
        let mut all = vec!["serve", "--listen", "127.0.0.1:0", "--json"];
        all.extend(args);
        let mut running = self.spawn(&all);
        let address = running.until(|event| {
            (event["event"] == "listening").then(|| event["address"].as_str().expect("an address is text").to_owned())
        });
        Serving { running, api: Api { address, headers: Vec::new() } }
    }

    /// The same with a module uploaded, whose compiled form is there already.
    ///
    /// # Panics
    /// If it does not take the module.
    #[must_use]
    pub fn serve_with(&self, module: &Module) -> Serving {
        module.put_into(&self.data_dir());
        let serving = self.serve(&[]);
        serving.upload(module);
        serving
    }
}

impl std::ops::Deref for Serving {
    type Target = Api;

    fn deref(&self) -> &Api {
        &self.api
    }
}

impl Serving {
    /// SIGKILL, and waits until it is dead.
    pub fn kill(mut self) {
        self.running.kill();
    }

    /// SIGTERM, and how it ended.
    #[must_use]
    pub fn stop(self) -> Finished {
        self.running.signal("TERM");
        self.running.wait()
    }
}

impl Api {
    /// Where it is.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The same with a header on every request.
    #[must_use]
    pub fn with(&self, name: &str, value: &str) -> Self {
        let mut api = self.clone();
        api.headers.push((name.to_owned(), value.to_owned()));
        api
    }

    /// The same with this token.
    #[must_use]
    pub fn as_token(&self, token: &str) -> Self {
        self.with("authorization", &format!("Bearer {token}"))
    }

    /// The same with this idempotency key.
    #[must_use]
    pub fn keyed(&self, key: &str) -> Self {
        self.with("idempotency-key", key)
    }

    /// GET.
    ///
    /// # Panics
    /// If there is no answer.
    #[must_use]
    pub fn get(&self, path: &str) -> Answer {
        self.request("GET", path, None).unwrap_or_else(|error| panic!("GET {path}: {error}"))
    }

    /// GET from a server that may die meanwhile.
    ///
    /// # Errors
    /// When there is no whole answer.
    pub fn try_get(&self, path: &str) -> std::io::Result<Answer> {
        self.request("GET", path, None)
    }

    /// DELETE.
    ///
    /// # Panics
    /// If there is no answer.
    #[must_use]
    pub fn delete(&self, path: &str) -> Answer {
        self.request("DELETE", path, None).unwrap_or_else(|error| panic!("DELETE {path}: {error}"))
    }

    /// PUT of JSON.
    ///
    /// # Panics
    /// If there is no answer.
    #[must_use]
    pub fn put(&self, path: &str, body: &Value) -> Answer {
        let body = body.to_string();
        let sent = Some(("application/json", body.as_bytes()));
        self.request("PUT", path, sent).unwrap_or_else(|error| panic!("PUT {path}: {error}"))
    }

    /// POST of JSON.
    ///
    /// # Panics
    /// If there is no answer.
    #[must_use]
    pub fn post(&self, path: &str, body: &Value) -> Answer {
        self.try_post(path, body).unwrap_or_else(|error| panic!("POST {path}: {error}"))
    }

    /// POST of JSON to a server that may die meanwhile.
    ///
    /// # Errors
    /// When there is no whole answer.
    pub fn try_post(&self, path: &str, body: &Value) -> std::io::Result<Answer> {
        self.request("POST", path, Some(("application/json", body.to_string().as_bytes())))
    }

    /// Any method, with JSON.
    ///
    /// # Panics
    /// If there is no answer.
    #[must_use]
    pub fn send(&self, method: &str, path: &str, body: &Value) -> Answer {
        let body = body.to_string();
        let sent = self.request(method, path, Some(("application/json", body.as_bytes())));
        sent.unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    /// POST of anything.
    ///
    /// # Panics
    /// If there is no answer.
    #[must_use]
    pub fn post_as(&self, path: &str, kind: &str, body: &[u8]) -> Answer {
        self.request("POST", path, Some((kind, body))).unwrap_or_else(|error| panic!("POST {path}: {error}"))
    }

    /// Uploads a module.
    ///
    /// # Panics
    /// If it is not taken.
    pub fn upload(&self, module: &Module) -> Answer {
        let bytes = std::fs::read(module.wasm()).expect("the module can be read");
        let answer = self.post_as("/v1/modules", "application/wasm", &bytes);
        assert!([200, 201].contains(&answer.status), "{answer:#?}");
        answer
    }

    /// A run once it has ended.
    ///
    /// # Panics
    /// If it does not within a minute.
    #[must_use]
    pub fn ended(&self, run: &str) -> Value {
        let answer = self.get(&format!("/v1/runs/{run}/result?wait=60s"));
        assert_eq!(answer.status, 200, "{answer:#?}");
        answer.body
    }

    /// Sends these bytes and reads an answer.
    ///
    /// # Errors
    /// When there is no whole answer.
    pub fn raw(&self, request: &[u8]) -> std::io::Result<Answer> {
        let mut stream = self.connect()?;
        stream.write_all(request)?;
        answer(stream)
    }

    /// GET with the answer's headers, names in lower case, and its body as the bytes that came. Of version 1.0, so that it is not in
    /// chunks.
    ///
    /// # Panics
    /// If there is no whole answer.
    #[must_use]
    pub fn get_bytes(&self, path: &str) -> (Vec<(String, String)>, Vec<u8>) {
        let mut stream = self.connect().expect("the server takes connections");
        let head = self.head("GET", path).replace("HTTP/1.1", "HTTP/1.0");
        stream.write_all(format!("{head}\r\n").as_bytes()).expect("the request is taken");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("there is an answer");
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("the answer has a head");
        let head = String::from_utf8_lossy(&answer[..end]).into_owned();
        let headers = head.lines().skip(1).filter_map(|line| line.split_once(": "));
        let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect();
        (headers, answer.split_off(end + 4))
    }

    /// The lines of an endless answer, as they come.
    ///
    /// # Panics
    /// If it is none.
    pub fn lines(&self, path: &str) -> impl Iterator<Item = String> + use<> {
        let mut stream = self.connect().expect("the server takes connections");
        // Of version 1.0, so that the body is not in chunks.
        let head = self.head("GET", path).replace("HTTP/1.1", "HTTP/1.0");
        stream.write_all(format!("{head}\r\n").as_bytes()).expect("the request is taken");
        let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
        let status = lines.next().unwrap_or_default();
        assert!(status.contains(" 200 "), "{path}: {status}");
        lines.skip_while(|line| !line.is_empty()).skip(1)
    }

    fn connect(&self) -> std::io::Result<TcpStream> {
        let stream = TcpStream::connect(&self.address)?;
        stream.set_read_timeout(Some(HANGS))?;
        Ok(stream)
    }

    fn head(&self, method: &str, path: &str) -> String {
        let mut head = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
        if !self.headers.iter().any(|(name, _)| name == "host") {
            head += &format!("host: {}\r\n", self.address);
        }
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        head
    }

    fn request(&self, method: &str, path: &str, body: Option<(&str, &[u8])>) -> std::io::Result<Answer> {
        let mut request = self.head(method, path).into_bytes();
        if let Some((kind, bytes)) = body {
            request.extend(format!("content-type: {kind}\r\ncontent-length: {}\r\n\r\n", bytes.len()).bytes());
            request.extend(bytes);
        } else {
            request.extend(b"\r\n");
        }
        self.raw(&request)
    }
}

fn answer(stream: TcpStream) -> std::io::Result<Answer> {
    let cut = || std::io::Error::new(std::io::ErrorKind::UnexpectedEof, "the answer was cut short");
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let status = line.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(cut)?;
    let mut headers = Vec::new();
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Err(cut());
        }
        match line.trim_end().split_once(':') {
            Some((name, value)) => headers.push((name.to_ascii_lowercase(), value.trim().to_owned())),
            None => break,
        }
    }
    let mut body = Vec::new();
    reader.read_to_end(&mut body)?;
    let answer = Answer { status, headers, body: Value::Null };
    if answer
        .header("content-length")
        .and_then(|length| length.parse::<usize>().ok())
        .is_some_and(|length| body.len() != length)
    {
        return Err(cut());
    }
    let text = String::from_utf8_lossy(&body).into_owned();
    let body = if text.is_empty() { Value::Null } else { serde_json::from_str(&text).unwrap_or(Value::String(text)) };
    Ok(Answer { body, ..answer })
}

impl Answer {
    /// A header's value.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// Itself, if it has this status.
    ///
    /// # Panics
    /// If not.
    #[must_use]
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{self:#?}");
        self
    }

    /// Itself, if it is a problem with this status and code.
    ///
    /// # Panics
    /// If not.
    #[must_use]
    pub fn problem(self, status: u16, code: &str) -> Self {
        assert_eq!((self.status, self.body["code"].as_str()), (status, Some(code)), "{self:#?}");
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:#?}");
        self
    }

    /// The id of the run that it shows.
    ///
    /// # Panics
    /// If it shows none.
    #[must_use]
    pub fn run(&self) -> String {
        self.body["id"].as_str().unwrap_or_else(|| panic!("no run: {self:#?}")).to_owned()
    }
}
