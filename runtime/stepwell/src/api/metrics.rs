//! `/metrics` in Prometheus' text form, and whether the server is well.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::app::App;
use super::auth::Scope;
use super::keyed::Reply;
use super::problem::{ApiCode, Problem, ProblemBody};
use super::request::{Caller, OK};

/// Requests by method, route and status.
#[derive(Default)]
pub(crate) struct Counters(Mutex<BTreeMap<(&'static str, String, u16), u64>>);

/// Counts a request once it is answered.
pub(crate) async fn count(State(app): State<App>, request: Request, next: Next) -> Response {
    let method = known(request.method());
    // What is no route of ours is one line, however many names are tried.
    let route = request.extensions().get::<MatchedPath>().map_or("none", MatchedPath::as_str).to_owned();
    let response = next.run(request).await;
    let mut counters = app.counters.0.lock().unwrap_or_else(PoisonError::into_inner);
    *counters.entry((method, route, response.status().as_u16())).or_default() += 1;
    drop(counters);
    response
}

/// A method by its name; one line for all that clients make up.
fn known(method: &Method) -> &'static str {
    let known = ["GET", "POST", "DELETE", "HEAD", "PUT", "PATCH", "OPTIONS"];
    known.into_iter().find(|name| *name == method.as_str()).unwrap_or("other")
}

/// Numbers for Prometheus.
#[utoipa::path(
    get, path = "/metrics", tag = "server",
    responses(
        (status = 200, description = "Prometheus' text form", content_type = "text/plain", body = String),
        (status = 401, body = ProblemBody, content_type = "application/problem+json", description = "No valid token"),
        (status = 403, body = ProblemBody, content_type = "application/problem+json", description = "The token is not good for this"),
        (status = 429, body = ProblemBody, content_type = "application/problem+json", description = "More requests than the token may make"),
        (status = 503, body = ProblemBody, content_type = "application/problem+json", description = "The store cannot be read"),
    )
)]
pub(crate) async fn metrics(State(app): State<App>, Caller(caller): Caller) -> Result<Response, Problem> {
    caller.may(Scope::Read)?;
    let mut text = String::new();
    let mut metric = |name: &str, kind: &str, help: &str, samples: &[(String, u64)]| {
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (labels, value) in samples {
            let _ = writeln!(text, "{name}{labels} {value}");
        }
    };
    let one = |value: u64| vec![(String::new(), value)];
    let counts = app.reads().counts(None)?;
    let runs: Vec<_> = counts
        .iter()
        .map(|(workflow, status, n)| (format!("{{workflow=\"{}\",status=\"{status}\"}}", escaped(workflow)), *n))
        .collect();
    metric("stepwell_runs", "gauge", "Runs in the store.", &runs);
    metric("stepwell_live_runs", "gauge", "Runs that have a task.", &one(app.engine.live_runs() as u64));
    metric("stepwell_armed_timers", "gauge", "Runs that wait for a time.", &one(app.engine.armed_timers() as u64));
    let commits = app.engine.store().commits();
    metric("stepwell_store_commits_total", "counter", "Transactions of the store.", &one(commits));
    let requests = app.counters.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let requests: Vec<_> = requests
        .into_iter()
        .map(|((method, route, status), n)| {
            (format!("{{method=\"{}\",route=\"{}\",status=\"{status}\"}}", method, escaped(&route)), n)
        })
        .collect();
    metric("stepwell_http_requests_total", "counter", "Requests that were answered.", &requests);
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    Ok(([(header::CONTENT_TYPE, kind)], text).into_response())
}

fn escaped(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Whether the process lives.
#[utoipa::path(get, path = "/healthz", tag = "server", responses((status = 200, description = "It does")))]
pub(crate) async fn healthz() -> Reply {
    Reply::new(OK, json!({ "status": "ok" }))
}

/// Whether it takes requests: the store can be read, and the server is not about to end.
#[utoipa::path(
    get, path = "/readyz", tag = "server",
    responses(
        (status = 200, description = "It does"),
        (status = 503, body = ProblemBody, content_type = "application/problem+json", description = "It does not"),
    )
)]
pub(crate) async fn readyz(State(app): State<App>) -> Result<Reply, Problem> {
    if *app.stopping.borrow() {
        return Err(Problem::new(ApiCode::Stopping, "the server is about to end"));
    }
    app.reads().next_wake()?;
    Ok(Reply::new(OK, json!({ "status": "ready" })))
}
