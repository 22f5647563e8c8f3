//! Requests of a body, and what a status that is no success becomes.

use serde_json::Value;

use crate::contract::{Answer, EffectKey, Error, Request, Response, commands};
use crate::error;
use crate::step::Here;

impl Here {
    /// Sends JSON under the effect's own key.
    pub(crate) async fn post(&self, url: &str, body: &Value) -> Result<Response, Error> {
        let json = vec![("content-type".to_owned(), "application/json".to_owned())];
        self.send(&Request { headers: json, body: Some(body.to_string().into_bytes()), ..request("POST", url) }).await
    }

    /// Asks for something.
    pub(crate) async fn get(&self, url: &str) -> Result<Response, Error> {
        self.send(&request("GET", url)).await
    }

    /// Sends a request and waits for its answer.
    pub(crate) async fn send(&self, request: &Request) -> Result<Response, Error> {
        match self.run.answer(commands::http_send(self.attempt.id, request)).await? {
            Answer::Response(response) => Ok(response),
            Answer::Elapsed => Err(error::new("guest.contract", "a request was answered as a delay")),
        }
    }
}

/// A request with nothing but a method and a URL.
pub(crate) fn request(method: &str, url: &str) -> Request {
    Request {
        method: method.to_owned(),
        url: url.to_owned(),
        headers: Vec::new(),
        body: None,
        timeout_ms: None,
        key: EffectKey::Effect,
        label: None,
        renew_on: Vec::new(),
    }
}

/// The answer, if it is a success.
pub(crate) fn ok(response: Response) -> Result<Response, Error> {
    if (200..300).contains(&response.status) {
        return Ok(response);
    }
    let failed = error::new("workflows.http_status", &format!("status {}", response.status));
    let header = |name: &str| response.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str());
    let after = header("retry-after").and_then(|seconds| seconds.parse::<u64>().ok());
    Err(match (response.status, after) {
        (408 | 429 | 500 | 502 | 503 | 504, Some(seconds)) => {
            error::retried_after(failed, seconds.saturating_mul(1000))
        }
        (408 | 429 | 500 | 502 | 503 | 504, None) => failed,
        _ => error::never_retried(failed),
    })
}

/// The answer's body as text.
pub(crate) fn text(response: &Response) -> String {
    String::from_utf8_lossy(&response.body).into_owned()
}
