//! What handlers take from a request: who asks, the key, the body within its limit, JSON that is what it should be, a query.
//! Each says what is wrong as a problem.

use std::ops::RangeInclusive;

use axum::RequestExt as _;
use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};
use stepwell_core::ids::hex;
use stepwell_core::json::Json;
use stepwell_core::limits;
use stepwell_core::policy::idempotency;

use super::app::App;
use super::auth::Principal;
use super::keyed::Keyed;
use super::problem::{ApiCode, Problem};

/// The largest body of JSON: a batch of starts may have several inputs of the largest size.
const MAX_JSON_BYTES: usize = 8 * limits::MAX_VALUE_BYTES;
/// How long a body may take to arrive.
const BODY_SECONDS: u64 = 60;

/// Things in a page where nobody says how many, and the largest page that may be asked for.
const PAGE: u64 = 100;
const MAX_PAGE: u64 = 1_000;

/// A request that does something.
pub(crate) struct Post {
    pub(crate) principal: Principal,
    /// Its key, where it has one.
    pub(crate) keyed: Option<Keyed>,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Post {
    /// The body as an object of JSON of this form.
    pub(crate) fn object<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        super::json::object(self.text()?).map_err(not_understood)
    }

    /// The same, where nothing at all may be said.
    pub(crate) fn object_or_default<T: DeserializeOwned + Default>(&self) -> Result<T, Problem> {
        if self.body.is_empty() { Ok(T::default()) } else { self.object() }
    }

    /// The body as any JSON; none is null.
    pub(crate) fn value(&self) -> Result<Json, Problem> {
        if self.body.is_empty() {
            return Ok(Json::null());
        }
        Json::parse(self.text()?).map_err(|error| not_understood(error.to_string()))
    }

    fn text(&self) -> Result<&str, Problem> {
        let kind = self.media_type();
        if kind != "application/json" && !(kind.starts_with("application/") && kind.ends_with("+json")) {
            let text = format!("the body's Content-Type is {kind:?}; application/json is taken");
            return Err(Problem::new(ApiCode::UnsupportedType, text));
        }
        std::str::from_utf8(&self.body).map_err(|error| not_understood(error.to_string()))
    }

    /// The body's type without its parameters, in lower case.
    pub(crate) fn media_type(&self) -> String {
        let value = self.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
    }
}

fn not_understood(why: String) -> Problem {
    Problem::new(ApiCode::InvalidRequest, format!("the body is not understood: {why}"))
}

impl FromRequest<App> for Post {
    type Rejection = Problem;

    async fn from_request(mut request: Request, app: &App) -> Result<Self, Problem> {
        let principal = request.extract_parts::<Caller>().await?.0;
        let key = header_key(request.headers())?;
        plain(request.headers())?;
        let path = request.uri().path().to_owned();
        let method = request.method().clone();
        let is_json = !path.ends_with("/modules");
        let limit = if is_json { MAX_JSON_BYTES } else { app.settings.max_module_bytes };
        let (parts, body) = request.into_parts();
        let body = read(body, limit).await?;
        let keyed = key.map(|key| Keyed {
            key,
            principal: principal.name.clone(),
            fingerprint: fingerprint(method.as_str(), &path, &body),
        });
        Ok(Self { principal, keyed, headers: parts.headers, body })
    }
}

/// Bodies are taken as they are: a compressed one would be read as what it is not.
fn plain(headers: &HeaderMap) -> Result<(), Problem> {
    let codings = headers.get_all(header::CONTENT_ENCODING).iter();
    match codings.map(|coding| coding.to_str().unwrap_or("?")).find(|coding| !coding.eq_ignore_ascii_case("identity")) {
        Some(coding) => {
            let text = format!("the body's Content-Encoding is {coding:?}; only what is not encoded is taken");
            Err(Problem::new(ApiCode::UnsupportedType, text))
        }
        None => Ok(()),
    }
}

/// A digest of what is asked. The lengths keep the parts apart.
fn fingerprint(method: &str, path: &str, body: &[u8]) -> String {
    let mut digest = Sha256::new();
    for part in [method.as_bytes(), path.as_bytes(), body] {
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part);
    }
    hex(&digest.finalize())
}

async fn read(body: Body, limit: usize) -> Result<Bytes, Problem> {
    let reading =
        tokio::time::timeout(std::time::Duration::from_secs(BODY_SECONDS), Limited::new(body, limit).collect());
    match reading.await {
        Err(_) => {
            Err(Problem::new(ApiCode::RequestTimeout, format!("the body took longer than {BODY_SECONDS} s to arrive")))
        }
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            Err(Problem::new(ApiCode::BodyTooLarge, format!("the body is larger than {limit} bytes")))
        }
        Ok(Err(error)) => Err(Problem::new(ApiCode::InvalidRequest, format!("the body did not arrive whole: {error}"))),
    }
}

/// The key of the `Idempotency-Key` header.
fn header_key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let invalid = |why: String| {
        let text =
            format!("Idempotency-Key: {why}. It is 1 to 255 printable characters (UTF-8), bare or in quotation marks");
        Problem::new(ApiCode::InvalidKey, text)
    };
    let mut values = headers.get_all("idempotency-key").iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(invalid("it is given more than once".to_owned()));
    }
    let text = std::str::from_utf8(value.as_bytes()).map_err(|_| invalid("it is no UTF-8".to_owned()))?;
    idempotency::header_key(text).map(Some).map_err(|error| invalid(error.to_string()))
}

/// Who asks.
pub(crate) struct Caller(pub(crate) Principal);

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let principal = parts.extensions.get::<Principal>().cloned();
        principal.map(Self).ok_or_else(|| Problem::new(ApiCode::Internal, "the request was let in by nobody"))
    }
}

/// The query's parameters, decoded, in order: those that the description has, and no other.
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// All values of a parameter.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// A parameter that is given once at most.
    pub(crate) fn one(&self, name: &str) -> Result<Option<&str>, Problem> {
        let mut values = self.0.iter().filter(|(other, _)| other == name);
        match (values.next(), values.next()) {
            (Some(_), Some(_)) => {
                Err(Problem::new(ApiCode::InvalidRequest, format!("the parameter {name:?} is given more than once")))
            }
            (first, _) => Ok(first.map(|(_, value)| value.as_str())),
        }
    }

    /// Whether something is asked for; it is not where nothing is said.
    pub(crate) fn flag(&self, name: &str) -> Result<bool, Problem> {
        match self.one(name)? {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(other) => {
                let text = format!("{name} is {other:?}; true or false is taken");
                Err(Problem::new(ApiCode::InvalidRequest, text))
            }
        }
    }

    /// How many things a page of a list has at most.
    pub(crate) fn page_limit(&self) -> Result<u32, Problem> {
        let limit = self.number("limit", 1..=MAX_PAGE)?.unwrap_or(PAGE);
        Ok(u32::try_from(limit).unwrap_or(u32::MAX))
    }

    /// A number within a range.
    pub(crate) fn number(&self, name: &str, range: RangeInclusive<u64>) -> Result<Option<u64>, Problem> {
        let Some(text) = self.one(name)? else { return Ok(None) };
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse::<u64>().ok().filter(|number| digits && range.contains(number)) {
            Some(number) => Ok(Some(number)),
            None => {
                let text = format!("{name} is {text:?}; a number from {} to {} is taken", range.start(), range.end());
                Err(Problem::new(ApiCode::InvalidRequest, text))
            }
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Query {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let query = parts.uri.query().unwrap_or_default().as_bytes();
        Ok(Self(url::form_urlencoded::parse(query).into_owned().collect()))
    }
}

/// A part of the path, decoded.
pub(crate) struct Name(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for Name {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match axum::extract::Path::<String>::from_request_parts(parts, state).await {
            Ok(path) => Ok(Self(path.0)),
            Err(error) => Err(Problem::new(ApiCode::InvalidRequest, error.body_text())),
        }
    }
}

/// Two parts of the path, decoded.
pub(crate) struct Names(pub(crate) String, pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for Names {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match axum::extract::Path::<(String, String)>::from_request_parts(parts, state).await {
            Ok(path) => Ok(Self(path.0.0, path.0.1)),
            Err(error) => Err(Problem::new(ApiCode::InvalidRequest, error.body_text())),
        }
    }
}

/// A length of time in a query: `30s`, `500ms`, `2m`, or seconds alone. At most [`MAX_WAIT_MS`].
pub(crate) fn wait_ms(text: Option<&str>) -> Result<Option<u64>, Problem> {
    let Some(text) = text else { return Ok(None) };
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let factor = match unit {
        "ms" => Some(1),
        "s" | "" => Some(1_000),
        "m" => Some(60_000),
        _ => None,
    };
    let ms = number.parse::<u64>().ok().zip(factor).and_then(|(number, factor)| number.checked_mul(factor));
    match ms {
        Some(ms) if ms <= MAX_WAIT_MS => Ok(Some(ms)),
        _ => {
            let text = format!("wait is {text:?}; it is a number with ms, s or m, and at most 60s");
            Err(Problem::new(ApiCode::InvalidRequest, text))
        }
    }
}

/// The longest that a client may wait for a run's end in one request.
const MAX_WAIT_MS: u64 = 60_000;

/// The status of a reply that makes nothing new.
pub(crate) const OK: StatusCode = StatusCode::OK;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_a_length_of_time() {
        let ms = |text| wait_ms(Some(text)).ok().flatten();
        assert_eq!((ms("30s"), ms("250ms"), ms("1m"), ms("5")), (Some(30_000), Some(250), Some(60_000), Some(5_000)));
        for text in ["", "s", "-1s", "1h", "61s", "99999999999999999999s", "1.5s", "١s"] {
            assert!(wait_ms(Some(text)).is_err(), "{text}");
        }
        assert!(wait_ms(None).is_ok_and(|wait| wait.is_none()));
    }

    #[test]
    fn requests_differ_in_method_path_and_body() {
        let all = [("POST", "/a", "b"), ("PUT", "/a", "b"), ("POST", "/ab", ""), ("POST", "/a", "c")];
        let prints: std::collections::BTreeSet<_> =
            all.iter().map(|(method, path, body)| fingerprint(method, path, body.as_bytes())).collect();
        assert_eq!(prints.len(), all.len());
    }
}
