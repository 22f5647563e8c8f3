//! Speaking to a server: one address, one token, and a key for everything that does something, so that it can be repeated when the
//! connection breaks.

use std::process::ExitCode;
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;

use crate::cli::exit::Exit;

/// Which server, and as whom.
#[derive(Debug, Clone, Args)]
pub(crate) struct ServerArgs {
    /// The server's address.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:7070", env = "STEPWELL_URL")]
    pub(crate) url: String,
    /// The token to use there.
    #[arg(long, value_name = "TOKEN", env = "STEPWELL_TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,
}

/// A server where one is named: the command works on a data directory otherwise.
#[derive(Debug, Clone, Args)]
pub(crate) struct NamedServerArgs {
    /// A server's address: ask it, and not the data directory.
    #[arg(long, value_name = "URL", env = "STEPWELL_URL")]
    url: Option<String>,
    /// The token to use there.
    #[arg(long, value_name = "TOKEN", env = "STEPWELL_TOKEN", hide_env_values = true)]
    token: Option<String>,
}

impl NamedServerArgs {
    /// The server, if one is named.
    pub(crate) fn server(&self) -> Option<ServerArgs> {
        Some(ServerArgs { url: self.url.clone()?, token: self.token.clone() })
    }
}

/// How often a request is made, at most, when there is no answer or none yet.
const ATTEMPTS: u32 = 6;

pub(crate) struct Client {
    base: String,
    token: Option<String>,
    http: hyper_util::client::legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

/// Something to be sent.
pub(crate) struct Sent<'a> {
    pub(crate) kind: &'a str,
    pub(crate) body: Vec<u8>,
    /// Under which it is repeated safely.
    pub(crate) key: Option<String>,
}

impl Sent<'_> {
    /// JSON, under a key of its own or the one that is given.
    pub(crate) fn json(body: &Value, key: Option<String>) -> Self {
        let key = key.unwrap_or_else(|| uuid::Uuid::new_v4().to_string());
        Sent { kind: "application/json", body: body.to_string().into_bytes(), key: Some(key) }
    }
}

impl Client {
    pub(crate) fn new(server: &ServerArgs) -> Result<Self, ExitCode> {
        let base = server.url.trim_end_matches('/').to_owned();
        if !base.starts_with("http://") && !base.starts_with("https://") {
            return Err(Exit::Usage.with(format!("--url is {base:?}; it begins with http:// or https://")));
        }
        let connector = HttpsConnectorBuilder::new()
            .with_native_roots()
            .map_err(|error| Exit::Failed.with(format!("the system's certificates cannot be read: {error}")))?
            .https_or_http()
            .enable_http1()
            .build();
        let http = hyper_util::client::legacy::Client::builder(TokioExecutor::new()).build(connector);
        Ok(Self { base, token: server.token.clone(), http })
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Value, ExitCode> {
        self.ask(Method::GET, path, None).await
    }

    pub(crate) async fn post(&self, path: &str, sent: Sent<'_>) -> Result<Value, ExitCode> {
        self.ask(Method::POST, path, Some(&sent)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Result<Value, ExitCode> {
        self.ask(Method::DELETE, path, None).await
    }

    /// An answer as it comes, for what has no end of its own.
    pub(crate) async fn stream(&self, path: &str, last_id: Option<u64>) -> Result<Incoming, Unanswered> {
        let mut request = self.request(&Method::GET, path, None).map_err(Unanswered::Said)?;
        if let Some(id) = last_id {
            request.headers_mut().insert("last-event-id", id.into());
        }
        let response = self.http.request(request).await.map_err(|error| Unanswered::Broken(error.to_string()))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response.into_body());
        }
        let body = response.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        if status == StatusCode::SERVICE_UNAVAILABLE {
            return Err(Unanswered::Broken("the server is stopping".to_owned()));
        }
        Err(Unanswered::Said(refused(status, &body)))
    }

    async fn ask(&self, method: Method, path: &str, sent: Option<&Sent<'_>>) -> Result<Value, ExitCode> {
        let repeatable = method != Method::POST || sent.is_some_and(|sent| sent.key.is_some());
        let mut attempt = 1;
        loop {
            let last = attempt == ATTEMPTS || !repeatable;
            let request = self.request(&method, path, sent)?;
            let why = match self.http.request(request).await {
                Ok(response) => {
                    let status = response.status();
                    match response.into_body().collect().await.map(|body| body.to_bytes()) {
                        Ok(body) if status.is_success() => {
                            return Ok(serde_json::from_slice(&body).unwrap_or(Value::Null));
                        }
                        Ok(body) if last || !is_passing(status, &body) => return Err(refused(status, &body)),
                        Ok(_) => format!("it answered {status}"),
                        Err(error) => error.to_string(),
                    }
                }
                Err(error) => chain(&error),
            };
            if last {
                return Err(Exit::Failed.with(format!("no answer from {}: {why}", self.base)));
            }
            tokio::time::sleep(Duration::from_millis(100 << attempt)).await;
            attempt += 1;
        }
    }

    fn request(&self, method: &Method, path: &str, sent: Option<&Sent<'_>>) -> Result<Request<Full<Bytes>>, ExitCode> {
        let mut request = Request::builder().method(method.clone()).uri(format!("{}{path}", self.base));
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        if let Some(sent) = sent {
            request = request.header(header::CONTENT_TYPE, sent.kind);
            if let Some(key) = &sent.key {
                request = request.header("idempotency-key", key);
            }
        }
        let body = sent.map(|sent| Bytes::from(sent.body.clone())).unwrap_or_default();
        let invalid = |error: http::Error| Exit::Usage.with(format!("the request cannot be made: {error}"));
        request.body(Full::new(body)).map_err(invalid)
    }
}

/// Why nothing is streamed.
pub(crate) enum Unanswered {
    /// The connection is gone; it can be made anew.
    Broken(String),
    /// It was refused, and that has been said.
    Said(ExitCode),
}

/// Whether another attempt under the same key may get further.
fn is_passing(status: StatusCode, body: &[u8]) -> bool {
    let in_progress = || {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        body["code"] == "idempotency_in_progress"
    };
    [StatusCode::SERVICE_UNAVAILABLE, StatusCode::TOO_MANY_REQUESTS, StatusCode::BAD_GATEWAY].contains(&status)
        || status == StatusCode::CONFLICT && in_progress()
}

/// The exit of a request that was refused, after a word on why.
fn refused(status: StatusCode, body: &[u8]) -> ExitCode {
    let problem: Value = serde_json::from_slice(body).unwrap_or_default();
    let exit = if status.is_server_error() { Exit::Failed } else { Exit::Usage };
    match (problem["code"].as_str(), problem["detail"].as_str()) {
        (Some(code), Some(detail)) => exit.with(format!("{code}: {detail}")),
        _ => exit.with(format!("the server answered {status}: {}", String::from_utf8_lossy(body))),
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        text = format!("{text}: {source}");
        next = source.source();
    }
    text
}

/// A part of a path, encoded.
pub(crate) fn segment(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}
