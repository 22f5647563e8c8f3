//! Repeated requests: a key is claimed before its request is carried out, in memory, since this process is the only one; its
//! answer commits with what the request does. What a repetition gets is decided by the core.
//!
//! A request with a key is carried out in a task of its own: a client that goes away does not end it, or its key would be free
//! while its write is still on the way.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use stepwell_core::policy::idempotency::{Answered, Asked, Decision, WAIT_MS, decide};
use stepwell_engine::store::Answer;
use tokio::sync::watch;
use tokio::time::Instant;

use super::app::{App, now_ms};
use super::problem::{ApiCode, Problem};
use super::views;

/// A client's key, and who asked for what under it.
#[derive(Debug, Clone)]
pub(crate) struct Keyed {
    pub(crate) key: String,
    pub(crate) principal: String,
    pub(crate) fingerprint: String,
}

impl Keyed {
    fn asked(&self) -> Asked<'_> {
        Asked { principal: &self.principal, fingerprint: &self.fingerprint }
    }

    /// The answer to be kept. `kept`: it starts runs, which hold the key.
    pub(crate) fn answer(&self, status: StatusCode, body: &impl Serialize, kept: bool) -> Answer {
        Answer {
            key: self.key.clone(),
            principal: self.principal.clone(),
            fingerprint: self.fingerprint.clone(),
            at_ms: now_ms(),
            kept,
            status: status.as_u16(),
            body: views::text(body),
        }
    }

    /// By which a run's inbox tells a repetition, long after the answer is forgotten.
    pub(crate) fn dedup(&self) -> String {
        format!("{}\n{}", self.principal, self.key)
    }
}

/// What a request is answered with: a status and JSON text.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) body: String,
    /// How it comes to be, where it is not the first answer.
    replayed: Option<&'static str>,
}

impl Reply {
    pub(crate) fn new(status: StatusCode, body: impl Serialize) -> Self {
        Self { status, body: views::text(&body), replayed: None }
    }

    /// With what is true now in the place of what was answered first; said where that is another answer.
    pub(crate) fn current(mut self, body: &impl Serialize) -> Self {
        self.body = views::text(body);
        if self.replayed.is_some() {
            self.replayed = Some("current-state");
        }
        self
    }
}

/// Set where an answer was given before.
pub(crate) const REPLAYED: header::HeaderName = header::HeaderName::from_static("idempotent-replayed");

impl IntoResponse for Reply {
    fn into_response(self) -> Response {
        let json = (header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let mut response = (self.status, [json], self.body).into_response();
        if let Some(replayed) = self.replayed {
            response.headers_mut().insert(REPLAYED, HeaderValue::from_static(replayed));
        }
        response
    }
}

/// The keys whose requests are being carried out.
#[derive(Default)]
pub(crate) struct Claims(Mutex<HashMap<String, Claimed>>);

struct Claimed {
    principal: String,
    fingerprint: String,
    /// Closed when the claim ends.
    over: watch::Receiver<()>,
}

/// A key is held until this is dropped.
struct Claim {
    claims: Arc<Claims>,
    key: String,
    _over: watch::Sender<()>,
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.claims.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.key);
    }
}

impl Claims {
    /// Claims the key, or says who has it.
    fn claim(self: &Arc<Self>, keyed: &Keyed) -> Result<Claim, (Decision, watch::Receiver<()>)> {
        let mut claims = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(first) = claims.get(&keyed.key) {
            let asked = Asked { principal: &first.principal, fingerprint: &first.fingerprint };
            return Err((decide(keyed.asked(), None, Some(asked), now_ms()), first.over.clone()));
        }
        let (sender, over) = watch::channel(());
        let Keyed { key, principal, fingerprint } = keyed.clone();
        claims.insert(key.clone(), Claimed { principal, fingerprint, over });
        Ok(Claim { claims: self.clone(), key, _over: sender })
    }
}

/// Carries a request out, once for its key. `work` is given the key, so that it keeps its answer with what it does.
pub(crate) async fn once<F, W>(app: &App, keyed: Option<Keyed>, work: F) -> Result<Reply, Problem>
where
    F: FnOnce(Option<Keyed>) -> W + Send + 'static,
    W: Future<Output = Result<Reply, Problem>> + Send + 'static,
{
    let Some(keyed) = keyed else { return in_task(work(None)).await };
    let until = Instant::now() + Duration::from_millis(WAIT_MS);
    loop {
        match app.claims.claim(&keyed) {
            Ok(claim) => {
                if let Some(reply) = answered(app, &keyed)? {
                    return Ok(reply);
                }
                let work = work(Some(keyed));
                return in_task(async move {
                    let outcome = work.await;
                    drop(claim);
                    outcome
                })
                .await;
            }
            Err((Decision::Wait, mut over)) => {
                let waited = async { while over.changed().await.is_ok() {} };
                if tokio::time::timeout_at(until, waited).await.is_err() {
                    let text = "the first request with this key has not been answered yet; repeat it later";
                    return Err(Problem::new(ApiCode::InProgress, text));
                }
            }
            Err(_) => return Err(reuse()),
        }
    }
}

fn reuse() -> Problem {
    let text = "this Idempotency-Key was used for another request; a new request needs a key of its own";
    Problem::new(ApiCode::KeyReuse, text)
}

async fn in_task(work: impl Future<Output = Result<Reply, Problem>> + Send + 'static) -> Result<Reply, Problem> {
    let done = tokio::spawn(work).await;
    done.unwrap_or_else(|error| {
        tracing::error!(%error, "a request failed");
        Err(Problem::new(ApiCode::Internal, "the request was given up by a fault of the server's own"))
    })
}

/// The answer that the key has already; none where the request is to be carried out.
fn answered(app: &App, keyed: &Keyed) -> Result<Option<Reply>, Problem> {
    let Some(first) = app.reads().answer(&keyed.key)? else { return Ok(None) };
    let asked = Asked { principal: &first.principal, fingerprint: &first.fingerprint };
    let known = Answered { asked, at_ms: first.at_ms, kept: first.kept };
    let status = StatusCode::from_u16(first.status).map_err(|error| unreadable(&error.to_string()))?;
    match decide(keyed.asked(), Some(known), None, now_ms()) {
        Decision::Replay => Ok(Some(Reply { status, body: first.body, replayed: Some("true") })),
        // None where its runs have been taken away meanwhile, and the key with them.
        Decision::CurrentState => {
            let body = views::as_it_is_now(app, &first.body)?;
            Ok(body.map(|body| Reply { status, body, replayed: Some("current-state") }))
        }
        Decision::Reuse => Err(reuse()),
        Decision::Proceed | Decision::Wait => Ok(None),
    }
}

fn unreadable(error: &str) -> Problem {
    Problem::new(ApiCode::Internal, format!("the stored answer cannot be read: {error}"))
}
