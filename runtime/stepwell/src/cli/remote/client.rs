//! Speaking to a server: one address, one token, and a key for everything that does something, so that it can be repeated when the
//! connection breaks.

use std::path::PathBuf;
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

/// What a command of a server has beside its own.
#[derive(Debug, Args)]
pub(super) struct Common {
    /// As JSON.
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) server: ServerArgs,
}

impl Common {
    pub(super) fn client(&self) -> Result<Client, ExitCode> {
        Client::new(&self.server)
    }
}

/// A data directory, or a server where one is named.
#[derive(Debug, Clone, Args)]
pub(crate) struct PlaceArgs {
    /// Directory with the runs, their journals and the compiled modules; `.stepwell` where nothing is said. [env: STEPWELL_DATA_DIR]
    #[arg(long, value_name = "DIR", conflicts_with = "url")]
    data_dir: Option<PathBuf>,
    /// A server's address: ask it, and not the data directory. [env: STEPWELL_URL]
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// The token to use there.
    #[arg(long, value_name = "TOKEN", env = "STEPWELL_TOKEN", hide_env_values = true)]
    token: Option<String>,
}

/// Where a command works.
pub(crate) enum Place {
    Directory(PathBuf),
    Server(ServerArgs),
}

impl PlaceArgs {
    /// What the command line names goes before what the environment names, and there a server before a directory.
    pub(crate) fn place(&self) -> Place {
        let server = |url| Place::Server(ServerArgs { url, token: self.token.clone() });
        let of_env = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        match (&self.url, &self.data_dir) {
            (Some(url), _) => server(url.clone()),
            (None, Some(directory)) => Place::Directory(directory.clone()),
            (None, None) => match of_env("STEPWELL_URL") {
                Some(url) => server(url.to_string_lossy().into_owned()),
                None => Place::Directory(of_env("STEPWELL_DATA_DIR").unwrap_or_else(|| ".stepwell".into()).into()),
            },
        }
    }
}

/// How often a request is made, at most, when there is no answer or none yet.
const ATTEMPTS: u32 = 6;
/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long an answer may take: longer than the server gives itself, so that its own word on that is heard.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(90);
/// The same where modules are compiled or runs replayed.
const DEPLOY_TIMEOUT: Duration = Duration::from_secs(630);
/// Sets both, in ms.
const TIMEOUT_VARIABLE: &str = "STEPWELL_TIMEOUT_MS";
/// The longest that a server's word on when to come again is heeded.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

pub(crate) struct Client {
    base: String,
    token: Option<String>,
    timeout: Option<Duration>,
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
        let timeout = std::env::var(TIMEOUT_VARIABLE).ok().map(|text| {
            let ms = text.parse().ok().filter(|ms| *ms > 0).map(Duration::from_millis);
            ms.ok_or_else(|| Exit::Usage.with(format!("{TIMEOUT_VARIABLE} is {text:?}; it is a number of ms")))
        });
        let timeout = timeout.transpose()?;
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_connect_timeout(Some(timeout.unwrap_or(CONNECT_TIMEOUT).min(CONNECT_TIMEOUT)));
        let connector = HttpsConnectorBuilder::new()
            .with_native_roots()
            .map_err(|error| Exit::Failed.with(format!("the system's certificates cannot be read: {error}")))?
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        let http = hyper_util::client::legacy::Client::builder(TokioExecutor::new()).build(connector);
        Ok(Self { base, token: server.token.clone(), timeout, http })
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Value, ExitCode> {
        Ok(tree(&self.ask(Method::GET, path, None, false).await?))
    }

    /// All things of a list, page by page, each given to `show`. `path` has no query.
    pub(crate) async fn list(&self, path: &str, name: &str, mut show: impl FnMut(&Value)) -> Result<(), ExitCode> {
        let mut cursor = String::new();
        loop {
            let page = self.get(&format!("{path}?limit=1000{cursor}")).await?;
            page[name].as_array().into_iter().flatten().for_each(&mut show);
            let Some(next) = page["cursor"].as_str() else { return Ok(()) };
            cursor = format!("&cursor={}", segment(next));
        }
    }

    pub(crate) async fn post(&self, path: &str, sent: Sent<'_>) -> Result<Value, ExitCode> {
        Ok(tree(&self.ask(Method::POST, path, Some(&sent), false).await?))
    }

    /// The same for a command that has a `--key`, with which it is repeated where there was no answer. The answer as it was written.
    pub(crate) async fn post_under_key(&self, path: &str, sent: Sent<'_>) -> Result<String, ExitCode> {
        self.ask(Method::POST, path, Some(&sent), true).await
    }

    /// Any request whose answer is shown as it was written.
    pub(crate) async fn text(&self, method: Method, path: &str, sent: Option<&Sent<'_>>) -> Result<String, ExitCode> {
        self.ask(method, path, sent, false).await
    }

    pub(crate) async fn put(&self, path: &str, sent: Sent<'_>) -> Result<Value, ExitCode> {
        Ok(tree(&self.ask(Method::PUT, path, Some(&sent), false).await?))
    }

    pub(crate) async fn delete(&self, path: &str) -> Result<Value, ExitCode> {
        Ok(tree(&self.ask(Method::DELETE, path, None, false).await?))
    }

    /// An answer as it comes, for what has no end of its own.
    pub(crate) async fn stream(&self, path: &str, last_id: Option<u64>) -> Result<Incoming, Unanswered> {
        let made = self.request(&Method::GET, path, None);
        let mut request = made.map_err(|failure| Unanswered::Said(failure.told()))?;
        if let Some(id) = last_id {
            request.headers_mut().insert("last-event-id", id.into());
        }
        let broken = |why: String| Unanswered::Broken(format!("no answer from {}: {why}", self.base));
        let limit = self.timeout.unwrap_or(ANSWER_TIMEOUT);
        let response = tokio::time::timeout(limit, self.http.request(request)).await;
        let response = response.map_err(|_| broken(late(limit)))?.map_err(|error| broken(chain(&error)))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response.into_body());
        }
        let body = response.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        if is_passing(status, &body, true) {
            return Err(Unanswered::Broken(said(status, &body)));
        }
        Err(Unanswered::Said(refused(status, &body).told()))
    }

    /// How long the stream's next bytes may take.
    pub(crate) fn patience(&self) -> Duration {
        self.timeout.unwrap_or(ANSWER_TIMEOUT)
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        sent: Option<&Sent<'_>>,
        has_key_option: bool,
    ) -> Result<String, ExitCode> {
        self.tried(method, path, sent).await.map_err(|failure| {
            let exit = failure.told();
            self.tell_key(sent, has_key_option && failure.perhaps_done);
            exit
        })
    }

    /// The same for one of many: whoever asks says what has failed.
    pub(crate) async fn try_post(&self, path: &str, sent: &Sent<'_>) -> Result<Value, Failure> {
        self.tried(Method::POST, path, Some(sent)).await.map(|body| tree(&body))
    }

    async fn tried(&self, method: Method, path: &str, sent: Option<&Sent<'_>>) -> Result<String, Failure> {
        let repeatable = method != Method::POST || sent.is_some_and(|sent| sent.key.is_some());
        let deploys = path == "/v1/modules" || path.ends_with("/activate");
        let limit = self.timeout.unwrap_or(if deploys { DEPLOY_TIMEOUT } else { ANSWER_TIMEOUT });
        // Whether an earlier attempt may have been carried out.
        let (mut attempt, mut perhaps_done) = (1, false);
        loop {
            let last = attempt == ATTEMPTS || !repeatable;
            let request = self.request(&method, path, sent)?;
            let answered = tokio::time::timeout(limit, self.answered(request)).await;
            let (why, pause) = match answered.unwrap_or_else(|_| Err((late(limit), true))) {
                Ok(Answered { status, body, .. }) if status.is_success() => {
                    return Ok(String::from_utf8_lossy(&body).into_owned());
                }
                // What was to be taken away is gone.
                Ok(Answered { status: StatusCode::NOT_FOUND, .. }) if method == Method::DELETE && perhaps_done => {
                    return Ok(String::new());
                }
                Ok(Answered { status, body, pause }) => {
                    if last || !is_passing(status, &body, repeatable) {
                        perhaps_done |= status.is_server_error();
                        return Err(Failure { perhaps_done, ..refused(status, &body) });
                    }
                    perhaps_done |= status == StatusCode::GATEWAY_TIMEOUT;
                    (String::new(), pause)
                }
                Err((why, may_be_done)) => {
                    perhaps_done |= may_be_done;
                    (why, None)
                }
            };
            if last {
                let said = format!("no answer from {}: {why}", self.base);
                return Err(Failure { exit: Exit::Failed, said, status: None, code: String::new(), perhaps_done });
            }
            tokio::time::sleep(pause.unwrap_or(Duration::from_millis(100 << attempt))).await;
            attempt += 1;
        }
    }

    /// One attempt's answer; or why there is none, and whether it may have been carried out all the same.
    async fn answered(&self, request: Request<Full<Bytes>>) -> Result<Answered, (String, bool)> {
        let response = self.http.request(request).await.map_err(|error| (chain(&error), !error.is_connect()))?;
        let status = response.status();
        let seconds = response.headers().get(header::RETRY_AFTER).and_then(|after| after.to_str().ok()?.parse().ok());
        let pause = seconds.map(|seconds| Duration::from_secs(seconds).min(LONGEST_PAUSE));
        let body = response.into_body().collect().await.map_err(|error| (chain(&error), true))?;
        Ok(Answered { status, body: body.to_bytes(), pause })
    }

    /// The key under which the command can be repeated: where it may have been carried out, another key would do it once more.
    fn tell_key(&self, sent: Option<&Sent<'_>>, tell: bool) {
        if let Some(key) = sent.and_then(|sent| sent.key.as_ref()).filter(|_| tell) {
            say!("It may have been done all the same. To repeat it safely, give the same again with: --key {key}");
        }
    }

    fn request(&self, method: &Method, path: &str, sent: Option<&Sent<'_>>) -> Result<Request<Full<Bytes>>, Failure> {
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
        let invalid = |error: http::Error| Failure {
            exit: Exit::Usage,
            said: format!("the request cannot be made: {error}"),
            status: None,
            code: String::new(),
            perhaps_done: false,
        };
        request.body(Full::new(body)).map_err(invalid)
    }
}

/// Why something is not done.
pub(crate) struct Failure {
    /// How a command ends with it.
    pub(crate) exit: Exit,
    /// What the server has said, or why it has said nothing.
    pub(crate) said: String,
    /// Of an answer.
    pub(crate) status: Option<StatusCode>,
    /// Of a refusal.
    pub(crate) code: String,
    /// Whether it may have been done all the same.
    pub(crate) perhaps_done: bool,
}

impl Failure {
    /// The exit code, after a word on why.
    pub(crate) fn told(&self) -> ExitCode {
        self.exit.with(&self.said)
    }
}

/// Why nothing is streamed.
pub(crate) enum Unanswered {
    /// The connection is gone; it can be made anew.
    Broken(String),
    /// It was refused, and that has been said.
    Said(ExitCode),
}

struct Answered {
    status: StatusCode,
    body: Bytes,
    /// When to come again, where the server has said so.
    pause: Option<Duration>,
}

fn late(limit: Duration) -> String {
    format!("none within {} ms ({TIMEOUT_VARIABLE} sets how long)", limit.as_millis())
}

/// Whether another attempt may get further. `repeatable`: what is done is not done again, so a failure of the server's own can be
/// tried again, too.
fn is_passing(status: StatusCode, body: &[u8], repeatable: bool) -> bool {
    let in_progress = || {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        body["code"] == "idempotency_in_progress"
    };
    status == StatusCode::TOO_MANY_REQUESTS
        || status == StatusCode::SERVICE_UNAVAILABLE
        || repeatable && status.is_server_error()
        || status == StatusCode::CONFLICT && in_progress()
}

/// An answer that is a refusal.
fn refused(status: StatusCode, body: &[u8]) -> Failure {
    let exit = if status.is_server_error() { Exit::Failed } else { Exit::Usage };
    let problem: Value = serde_json::from_slice(body).unwrap_or_default();
    let code = problem["code"].as_str().unwrap_or_default().to_owned();
    Failure { exit, said: said(status, body), status: Some(status), code, perhaps_done: status.is_server_error() }
}

/// What the server said.
fn said(status: StatusCode, body: &[u8]) -> String {
    let problem: Value = serde_json::from_slice(body).unwrap_or_default();
    match (problem["code"].as_str(), problem["detail"].as_str()) {
        (Some(code), Some(detail)) => format!("{code}: {detail}"),
        _ => format!("the server answered {status}: {}", String::from_utf8_lossy(body)),
    }
}

/// An answer that is looked into. What holds people's values is read as it was written, by who shows it.
fn tree(body: &str) -> Value {
    serde_json::from_str(body).unwrap_or_default()
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
