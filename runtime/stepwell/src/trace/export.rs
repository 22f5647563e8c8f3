//! Sending spans: gathered for a moment, sent in one request, and left out where the collector does not take them.
//!
//! OTLP over HTTP in its JSON form, which is small enough to be written here; OpenTelemetry's own crates would bring a second way of
//! gathering and of waiting.

use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use stepwell_core::ids::hex;
use tokio::sync::mpsc::Receiver;

use super::spans::Span;

/// Spans in one request, at most.
const MAX_BATCH: usize = 512;
/// How long a span waits for others.
const GATHER: Duration = Duration::from_millis(500);
/// How long the collector may take for a request.
const TIMEOUT: Duration = Duration::from_secs(5);
/// What is read of its answer.
const MAX_ANSWER: usize = 64 << 10;
/// Headers that the collector asks for: NAME=VALUE, separated by commas, values percent-encoded.
const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";
/// What this is called there.
const SERVICE: &str = "OTEL_SERVICE_NAME";
/// OTLP's numbers.
const KIND_INTERNAL: u8 = 1;
const STATUS_ERROR: u8 = 2;

pub(super) struct Exporter {
    http: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    to: Uri,
    headers: HeaderMap,
    resource: Value,
}

impl Exporter {
    /// To a collector.
    pub(super) fn new(text: &str) -> anyhow::Result<Self> {
        let mut url = url::Url::parse(text).with_context(|| format!("--otlp {text:?} is no URL"))?;
        anyhow::ensure!(matches!(url.scheme(), "http" | "https"), "--otlp {text:?} begins with http:// or https://");
        if url.path() == "/" {
            url.set_path("/v1/traces");
        }
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_connect_timeout(Some(TIMEOUT));
        let connector = HttpsConnectorBuilder::new()
            .with_native_roots()
            .context("the system's certificates cannot be read")?
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        let name = std::env::var(SERVICE).ok().filter(|name| !name.is_empty());
        let attributes =
            [("service.name", name.unwrap_or_else(|| "stepwell".to_owned())), ("service.version", version())];
        Ok(Self {
            http: Client::builder(TokioExecutor::new()).build(connector),
            to: url.as_str().parse().with_context(|| format!("--otlp {text:?} is no URL"))?,
            headers: headers(&std::env::var(HEADERS).unwrap_or_default())?,
            resource: json!({ "attributes": attributes.map(|(name, value)| attribute(name, &value)) }),
        })
    }

    /// Sends what comes until nothing more can. `lost` is told how many spans were not taken.
    pub(super) async fn run(self, mut spans: Receiver<Span>, lost: impl Fn(u64)) {
        let mut batch = Vec::new();
        while spans.recv_many(&mut batch, MAX_BATCH).await > 0 {
            let mut gathered = std::pin::pin!(tokio::time::sleep(GATHER));
            while batch.len() < MAX_BATCH {
                let room = MAX_BATCH - batch.len();
                tokio::select! {
                    biased;
                    n = spans.recv_many(&mut batch, room) => if n == 0 { break },
                    () = &mut gathered => break,
                }
            }
            let sent = tokio::time::timeout(TIMEOUT, self.send(&batch)).await;
            if let Err(error) = sent.unwrap_or_else(|_| Err(anyhow::anyhow!("no answer within {TIMEOUT:?}"))) {
                tracing::debug!(%error, n = batch.len(), "spans were not taken");
                lost(batch.len() as u64);
            }
            batch.clear();
        }
    }

    async fn send(&self, spans: &[Span]) -> anyhow::Result<()> {
        let spans: Vec<Value> = spans.iter().map(span).collect();
        let scopes = json!([{ "scope": { "name": "stepwell", "version": version() }, "spans": spans }]);
        let body = json!({ "resourceSpans": [{ "resource": self.resource, "scopeSpans": scopes }] });
        let mut request = Request::post(self.to.clone()).body(Full::new(Bytes::from(body.to_string())))?;
        *request.headers_mut() = self.headers.clone();
        let answer = self.http.request(request).await?;
        let status = answer.status();
        // Read to its end, so that the connection serves again.
        let body =
            Limited::new(answer.into_body(), MAX_ANSWER).collect().await.map_err(|error| anyhow::anyhow!(error))?;
        anyhow::ensure!(status == StatusCode::OK, "the collector answered {status}");
        let answer: Value = serde_json::from_slice(&body.to_bytes()).unwrap_or_default();
        let rejected = &answer["partialSuccess"]["rejectedSpans"];
        let none = rejected.is_null() || *rejected == json!("0") || *rejected == json!(0);
        anyhow::ensure!(none, "the collector has rejected {rejected} of them");
        Ok(())
    }
}

fn version() -> String {
    env!("CARGO_PKG_VERSION").to_owned()
}

/// Headers of every request.
fn headers(text: &str) -> anyhow::Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').with_context(|| format!("{HEADERS}: a part is not NAME=VALUE"))?;
        let value = percent_encoding::percent_decode_str(value.trim()).decode_utf8()?;
        // The value may be a secret: it is not shown.
        let header = name.trim().parse::<HeaderName>().ok().zip(HeaderValue::from_str(&value).ok());
        let (name, value) = header.with_context(|| format!("{HEADERS}: {name:?} or its value is no header"))?;
        headers.insert(name, value);
    }
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(headers)
}

fn attribute(name: &str, value: &str) -> Value {
    json!({ "key": name, "value": { "stringValue": value } })
}

fn span(span: &Span) -> Value {
    let nanos = |at_ms: u64| (u128::from(at_ms) * 1_000_000).to_string();
    let mut attributes: Vec<Value> = span.attributes.iter().map(|(name, value)| attribute(name, value)).collect();
    let mut object = json!({
        "traceId": hex(&span.trace), "spanId": hex(&span.id), "name": span.name, "kind": KIND_INTERNAL,
        "startTimeUnixNano": nanos(span.begun_ms), "endTimeUnixNano": nanos(span.ended_ms),
    });
    if let Some(parent) = &span.parent {
        object["parentSpanId"] = hex(parent).into();
    }
    if let Some(failure) = &span.failure {
        attributes.push(attribute("error.type", &failure.code));
        object["status"] = json!({ "code": STATUS_ERROR, "message": failure.message });
    }
    object["attributes"] = attributes.into();
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_as_they_are_written_elsewhere() {
        let read = headers("authorization=Bearer%20a%3Db, x-team = pay ,").expect("headers");
        assert_eq!(
            (read["authorization"].to_str().ok(), read["x-team"].to_str().ok()),
            (Some("Bearer a=b"), Some("pay"))
        );
        assert_eq!(headers("").expect("none").len(), 1);
        for wrong in ["authorization", "a b=c", "x=%0a"] {
            assert!(headers(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn addresses_are_completed_and_others_refused() {
        let to = |url| Exporter::new(url).map(|exporter| exporter.to.to_string()).ok();
        assert_eq!(to("http://127.0.0.1:4318"), Some("http://127.0.0.1:4318/v1/traces".to_owned()));
        assert_eq!(to("https://otlp.example/in/traces"), Some("https://otlp.example/in/traces".to_owned()));
        assert_eq!((to("otlp.example:4318"), to("ftp://otlp.example"), to("")), (None, None, None));
    }
}
