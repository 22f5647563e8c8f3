//! A request before it leaves: what makes it one, and what it looks like on the wire.
//!
//! All of it is decided without touching the network, so that a request that is refused here was never dispatched.

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Version};
use http_body_util::Full;
use stepwell_core::contract::Request;
use stepwell_core::error::{Code, Error};
use stepwell_core::limits;
use url::Url;

use super::destination::{Destinations, Target};
use super::secret::{self, Secrets};

/// A request as a run makes it.
#[derive(Debug, Clone)]
pub struct Outbound {
    /// As the guest gives it.
    pub request: Request,
    /// The value of `Idempotency-Key`. With one, the request may not bring its own.
    pub key_header: Option<String>,
    /// Where this run may send. The operator's own list is in the client's settings; both have to allow it.
    pub destinations: Destinations,
    /// The secrets that the run's module declares. `None`: all of the operator's.
    pub secrets: Option<Vec<String>>,
}

const MAX_REQUEST_HEADERS: usize = 100;
const MAX_REQUEST_HEAD_BYTES: usize = 64 << 10;
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const USER_AGENT: HeaderValue = HeaderValue::from_static(concat!("stepwell/", env!("CARGO_PKG_VERSION")));

/// A request that is one. The body travels beside it.
#[derive(Clone)]
pub(super) struct Prepared {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) target: Target,
    /// Values as the guest gives them, secrets not put in.
    pub(super) headers: Vec<(HeaderName, String)>,
    pub(super) key: Option<HeaderValue>,
    pub(super) secrets: Option<Vec<String>>,
}

impl Prepared {
    /// # Errors
    /// `InvalidRequest`, saying what is wrong with it.
    pub(super) fn new(outbound: &Outbound) -> Result<Self, Error> {
        let request = &outbound.request;
        let (url, target) = parse_url(&request.url)?;
        if let Some(body) = &request.body
            && body.len() > limits::MAX_REQUEST_BYTES
        {
            let (is, most) = (body.len(), limits::MAX_REQUEST_BYTES);
            return Err(invalid(format!("the body has {is} bytes, more than the {most} that a request may have")));
        }
        Ok(Self {
            method: method(&request.method)?,
            headers: headers(&request.headers, outbound.key_header.is_some())?,
            key: outbound.key_header.as_deref().map(key).transpose()?,
            secrets: outbound.secrets.clone(),
            url,
            target,
        })
    }

    /// What is sent.
    ///
    /// # Errors
    /// `SecretRefused`.
    pub(super) fn headers(&self, secrets: &Secrets) -> Result<HeaderMap, Error> {
        let mut map = HeaderMap::with_capacity(self.headers.len() + 4);
        for (name, template) in &self.headers {
            let text = secrets.put_in(template, &self.target, self.secrets.as_deref())?;
            let mut value = HeaderValue::from_bytes(text.as_bytes()).map_err(|_| invalid(bad_value(name.as_str())))?;
            value.set_sensitive(secret::asks(template));
            map.append(name, value);
        }
        if let Some(key) = &self.key {
            map.insert(IDEMPOTENCY_KEY, key.clone());
        }
        map.entry(header::USER_AGENT).or_insert(USER_AGENT);
        map.entry(header::ACCEPT).or_insert(HeaderValue::from_static("*/*"));
        map.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        Ok(map)
    }

    /// The request in the form of the connection's HTTP version.
    pub(super) fn request(
        &self,
        mut headers: HeaderMap,
        body: Bytes,
        http2: bool,
    ) -> Result<http::Request<Full<Bytes>>, Error> {
        let mut request = http::Request::builder().method(self.method.clone());
        // Said even of an empty body, where the method leads to expect one. Of others hyper says it.
        if body.is_empty() && [Method::POST, Method::PUT, Method::PATCH].contains(&self.method) {
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        let path = &self.url[url::Position::BeforePath..url::Position::AfterQuery];
        if http2 {
            request = request.version(Version::HTTP_2).uri(format!("{}{path}", self.target));
        } else {
            let host =
                HeaderValue::from_str(&self.target.authority()).map_err(|_| invalid("the host is none".into()))?;
            headers.insert(header::HOST, host);
            request = request.uri(path);
        }
        let mut request =
            request.body(Full::new(body)).map_err(|error| invalid(format!("the URL is none: {error}")))?;
        *request.headers_mut() = headers;
        Ok(request)
    }
}

/// A URL that a request may go to.
pub(super) fn parse_url(text: &str) -> Result<(Url, Target), Error> {
    if text.len() > limits::MAX_URL_BYTES {
        return Err(invalid(format!("the URL is longer than {} bytes", limits::MAX_URL_BYTES)));
    }
    if secret::asks(text) {
        return Err(
            Error::new(Code::SecretRefused, "a secret may stand in a header's value, not in the URL").never_retried()
        );
    }
    let url = Url::parse(text).map_err(|error| invalid(format!("the URL is not an absolute one: {error}")))?;
    let target =
        Target::of(&url).ok_or_else(|| invalid(format!("the URL is {}:, neither http nor https", url.scheme())))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(invalid("the URL holds a user name or password; give them as a secret in a header".into()));
    }
    if target.port == 0 {
        return Err(invalid("port 0 is no port".into()));
    }
    Ok((url, target))
}

fn method(text: &str) -> Result<Method, Error> {
    let method = Method::from_bytes(text.as_bytes()).map_err(|_| invalid(format!("{text:?} is no method")))?;
    match text.to_ascii_uppercase().as_str() {
        // A tunnel would carry what nobody sees; the others repeat a request's headers in the answer.
        "CONNECT" | "TRACE" | "TRACK" => Err(invalid(format!("{method} is not offered"))),
        _ => Ok(method),
    }
}

fn headers(given: &[(String, String)], keyed: bool) -> Result<Vec<(HeaderName, String)>, Error> {
    if given.len() > MAX_REQUEST_HEADERS {
        return Err(invalid(format!("{} headers, more than {MAX_REQUEST_HEADERS}", given.len())));
    }
    if given.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>() > MAX_REQUEST_HEAD_BYTES {
        return Err(invalid(format!("the headers have more than {MAX_REQUEST_HEAD_BYTES} bytes")));
    }
    given.iter().map(|(name, value)| checked_header(name, value, keyed)).collect()
}

fn checked_header(name: &str, value: &str, keyed: bool) -> Result<(HeaderName, String), Error> {
    let parsed = HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid(format!("{name:?} is no header name")))?;
    if HeaderValue::from_bytes(value.as_bytes()).is_err() {
        return Err(invalid(bad_value(name)));
    }
    let why = match parsed.as_str() {
        "host" => "it follows from the URL",
        "content-length" => "it follows from the body",
        "transfer-encoding" | "connection" | "keep-alive" | "proxy-connection" | "te" | "trailer" | "upgrade"
        | "expect" | "http2-settings" => "it is the connection's, not the request's",
        "proxy-authorization" => "there is no proxy",
        // Answers are given to the guest as they come, and secrets are looked for in them.
        "accept-encoding" if !value.trim().eq_ignore_ascii_case("identity") => "answers are taken uncompressed only",
        "idempotency-key" if keyed => {
            "Stepwell sets it; give the request's key as `custom`, or as `none` to set the header yourself"
        }
        _ => return Ok((parsed, value.to_owned())),
    };
    Err(invalid(format!("the header {parsed} cannot be given: {why}")))
}

fn key(text: &str) -> Result<HeaderValue, Error> {
    let printable = text.chars().all(|c| c.is_ascii_graphic() || c == ' ');
    let fits = !text.trim().is_empty() && text.len() <= limits::MAX_KEY_CHARS;
    HeaderValue::from_str(text).ok().filter(|_| printable && fits).ok_or_else(|| {
        invalid(format!("the idempotency key is not 1 to {} printable characters", limits::MAX_KEY_CHARS))
    })
}

/// A value is never repeated in a message.
fn bad_value(name: &str) -> String {
    format!("the value of header {name} has characters that a header may not have")
}

fn invalid(why: String) -> Error {
    Error::new(Code::InvalidRequest, why).never_retried()
}
