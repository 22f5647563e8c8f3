//! `/metrics` in Prometheus' text form, and whether the server is well.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde_json::json;
use stepwell_engine::AttemptEnd;
use stepwell_engine::store::{Action, LimitsRow, QueueCounts, StoreError, Submission};
use tokio::time::Instant;

use super::app::{App, now_ms};
use super::auth::Scope;
use super::exposition::{Exposition, labels};
use super::keyed::Reply;
use super::limits::WaitsFor;
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
    let mut text = Exposition::default();
    runs(&app, &mut text)?;
    work(&app, &mut text);
    let store = app.engine.store();
    text.counter("stepwell_store_commits_total", "Transactions of the store.", store.commits());
    let latencies = store.latencies();
    let help = "How long the oldest write of a commit had waited for it.";
    text.histogram("stepwell_store_queue_seconds", help, &latencies.queued);
    text.histogram("stepwell_store_commit_seconds", "How long a commit took.", &latencies.commits);
    let requests = app.counters.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let requests = requests.into_iter().map(|((method, route, status), n)| {
        (labels(&[("method", method), ("route", &route), ("status", &status.to_string())]), n)
    });
    text.family("stepwell_http_requests_total", "counter", "Requests that were answered.", requests);
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    Ok(([(header::CONTENT_TYPE, kind)], text.into_text()).into_response())
}

/// The runs there are. Their numbers are kept, not counted.
fn runs(app: &App, text: &mut Exposition) -> Result<(), Problem> {
    let counts = app.reads().counts(None)?;
    let runs =
        counts.iter().map(|(workflow, status, n)| (labels(&[("workflow", workflow), ("status", status.as_str())]), *n));
    text.family("stepwell_runs", "gauge", "Runs in the store.", runs);
    let schedules = app.reads().schedule_counts()?;
    let states = [("active", schedules.active), ("paused", schedules.paused), ("failing", schedules.failing)];
    let states = states.map(|(state, n)| (labels(&[("state", state)]), n));
    text.family("stepwell_schedules", "gauge", "Schedules in the store.", states);
    text.gauge("stepwell_live_runs", "Runs that have a task.", app.engine.live_runs() as u64);
    let help = "Runs that have something to do and wait for a place among the live ones.";
    text.gauge("stepwell_ready_runs", help, app.engine.ready_runs() as u64);
    text.gauge("stepwell_live_instances", "Instances that live.", app.engine.live_instances() as u64);
    text.gauge("stepwell_armed_timers", "Runs that wait for a time.", app.engine.armed_timers() as u64);
    queues(app, text)
}

/// Runs of limited workflows that wait to begin, by what the first of them waits for; and those that are under way.
fn queues(app: &App, text: &mut Exposition) -> Result<(), Problem> {
    let limited = app.reads().all_limits()?;
    let counts = limited.iter().map(|row| app.reads().queue_counts(&row.workflow, now_ms()));
    let counts: Vec<QueueCounts> = counts.collect::<Result<_, _>>()?;
    let waiting = counts.iter().map(|counts| {
        let limit = counts.wait.map_or("none", |wait| WaitsFor::of(wait).as_str());
        (labels(&[("workflow", &counts.workflow), ("limit", limit)]), counts.waiting)
    });
    let help = "Runs of limited workflows that wait to begin, by the limit that the first of them waits for.";
    text.family("stepwell_queued_runs", "gauge", help, waiting);
    let under_way = counts.iter().map(|counts| (labels(&[("workflow", &counts.workflow)]), counts.under_way));
    let help = "Runs of limited workflows that have begun and not ended.";
    text.family("stepwell_runs_under_way", "gauge", help, under_way);
    let of = |row: &LimitsRow| row.limits.runs.map(|runs| (labels(&[("workflow", &row.workflow)]), runs.into()));
    let help = "Runs that may be under way at a time.";
    text.family("stepwell_runs_limit", "gauge", help, limited.iter().filter_map(of));
    Ok(())
}

/// What has been done since the server began.
fn work(app: &App, text: &mut Exposition) {
    let counters = app.engine.counters();
    let ended = counters.ended().map(|(status, n)| (labels(&[("status", status)]), n));
    text.family("stepwell_runs_ended_total", "counter", "Runs that have ended.", ended);
    text.counter("stepwell_steps_total", "Steps that have begun.", counters.steps());
    let attempts = AttemptEnd::ALL.map(|end| (labels(&[("outcome", end.as_str())]), counters.attempts(end)));
    text.family("stepwell_attempts_total", "counter", "Attempts that have ended.", attempts);
    let firings = counters.firings().map(|(outcome, n)| (labels(&[("outcome", outcome)]), n));
    let help = "What became of schedules' times: runs started, times passed over, trials to start a run that failed.";
    text.family("stepwell_schedule_firings_total", "counter", help, firings);
    text.counter("stepwell_recoveries_total", "Runs that were rebuilt from their journals.", counters.recoveries());
    let help = "Unsafe requests that were put on record, to be sent.";
    text.counter("stepwell_requests_total", help, counters.requests());
    let help = "How long runs waited for their place among the live ones.";
    text.histogram("stepwell_run_queue_seconds", help, &counters.queued().counted());
}

/// Whether the process lives.
#[utoipa::path(get, path = "/healthz", tag = "server", responses((status = 200, description = "It does")))]
pub(crate) async fn healthz() -> Reply {
    Reply::new(OK, json!({ "status": "ok" }))
}

/// Whether it takes requests: the store can be read and written, and the server is not about to end.
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
    app.trial.passed(&app).await?;
    Ok(Reply::new(OK, json!({ "status": "ready" })))
}

/// Whether the store can be written, found out by writing: no other question tells of a full disk.
#[derive(Default)]
pub(crate) struct Trial(tokio::sync::Mutex<Option<(Instant, Result<(), StoreError>)>>);

/// How long what was found out is taken for true: anybody may ask, and each trial is a write.
const TRIAL_GOOD_FOR: Duration = Duration::from_secs(1);
/// How long a trial may take. A store that is slower keeps nothing of use to anybody.
const TRIAL_WITHIN: Duration = Duration::from_secs(3);

impl Trial {
    async fn passed(&self, app: &App) -> Result<(), StoreError> {
        let mut last = self.0.lock().await;
        if let Some((_, outcome)) = last.as_ref().filter(|(at, _)| at.elapsed() < TRIAL_GOOD_FOR) {
            return outcome.clone();
        }
        let writing = app.engine.store().submit(Submission { actions: vec![Action::TryWriting], answer: None });
        let outcome = match tokio::time::timeout(TRIAL_WITHIN, writing).await {
            Ok(outcome) => outcome.map(drop),
            Err(_) => Err(StoreError::Io(format!("a write has taken more than {} s", TRIAL_WITHIN.as_secs()))),
        };
        *last = Some((Instant::now(), outcome.clone()));
        outcome
    }
}
