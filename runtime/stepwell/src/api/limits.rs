//! `/v1/workflows/{name}/limits`: how many runs of a workflow may be under way, and how many begin in a time.

use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use stepwell_core::limits::MAX_NAME_BYTES;
use stepwell_core::policy::admission::{Limits, Rate, Wait};
use stepwell_engine::store::{Action, LimitsRow, Submission};
use utoipa::ToSchema;

use super::app::{App, blocking, now_ms};
use super::auth::Scope;
use super::json;
use super::keyed::{Keyed, Reply, once};
use super::problem::{ApiCode, Problem, ProblemBody};
use super::request::{Caller, Name, OK, Post};

/// Changes told of a workflow's limits; the latest.
const CHANGES: u32 = 20;

/// How many runs may be under way at a time: from their beginning to their end, whatever they do meanwhile.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ConcurrencyBody {
    /// Of the workflow. With 0 none begins.
    #[schema(minimum = 0, maximum = 1000000)]
    #[serde(skip_serializing_if = "Option::is_none")]
    runs: Option<u32>,
    /// With the same `concurrencyKey`. Runs without one are not held to it.
    #[schema(minimum = 1, maximum = 1000000)]
    #[serde(skip_serializing_if = "Option::is_none")]
    per_key: Option<u32>,
}

/// How many runs begin in a time, at most: in any window of it, wherever it begins.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RateBody {
    /// So many.
    #[schema(minimum = 1, maximum = 100000)]
    runs: u32,
    /// In so many ms; at most 31 days.
    #[schema(minimum = 1, maximum = 2678400000u64)]
    per_ms: u64,
    /// Of each `concurrencyKey`, not of the workflow. Runs without one are not held to it then.
    #[serde(default)]
    per_key: bool,
}

/// The limits of a workflow. What is left out is not limited.
#[derive(Debug, Clone, Copy, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct LimitsBody {
    #[serde(default, deserialize_with = "json::optional")]
    concurrency: Option<ConcurrencyBody>,
    #[serde(default, deserialize_with = "json::optional")]
    rate: Option<RateBody>,
}

impl LimitsBody {
    fn checked(self) -> Result<Limits, Problem> {
        let ConcurrencyBody { runs, per_key } = self.concurrency.unwrap_or_default();
        let rate = self.rate.map(|rate| Rate { runs: rate.runs, per_ms: rate.per_ms, per_key: rate.per_key });
        let invalid = |text: String| Problem::new(ApiCode::InvalidRequest, text);
        let limits = Limits { runs, per_key, rate }.checked().map_err(|error| invalid(error.to_string()))?;
        if limits.is_empty() {
            return Err(invalid("no limit is named; DELETE takes the limits of a workflow away".to_owned()));
        }
        Ok(limits)
    }
}

/// The same in an answer, beside what else that has.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
pub(crate) struct LimitsInForce {
    #[serde(skip_serializing_if = "Option::is_none")]
    concurrency: Option<ConcurrencyBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<RateBody>,
}

impl From<Limits> for LimitsInForce {
    fn from(limits: Limits) -> Self {
        let Limits { runs, per_key, rate } = limits;
        Self {
            concurrency: (runs.is_some() || per_key.is_some()).then_some(ConcurrencyBody { runs, per_key }),
            rate: rate.map(|rate| RateBody { runs: rate.runs, per_ms: rate.per_ms, per_key: rate.per_key }),
        }
    }
}

/// The limits of a workflow, and how it stands with them.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WorkflowLimits {
    /// The workflow.
    workflow: String,
    #[serde(flatten)]
    limits: LimitsInForce,
    /// Runs that have begun and not ended.
    under_way: u64,
    /// Runs that wait to begin.
    queued: u64,
    /// What the first of them waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    waits_for: Option<WaitsFor>,
    /// How the limits came to be so, the latest change first; the last 20.
    changes: Vec<LimitsChange>,
}

/// The limits that a workflow has from now on.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LimitsSet {
    /// The workflow.
    workflow: String,
    #[serde(flatten)]
    limits: LimitsInForce,
}

/// A change of limits: all that were in force from then on.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LimitsChange {
    /// When, in ms since the Unix epoch.
    at_ms: u64,
    /// Whose token it was.
    by: String,
    #[serde(flatten)]
    limits: LimitsInForce,
}

/// Which limit a run waits for.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum WaitsFor {
    /// `concurrency.runs`.
    Concurrency,
    /// `concurrency.perKey`.
    ConcurrencyPerKey,
    /// `rate`.
    Rate,
    /// `rate` with `perKey`.
    RatePerKey,
}

impl WaitsFor {
    pub(crate) fn of(wait: Wait) -> Self {
        match wait {
            Wait::Runs(_) => Self::Concurrency,
            Wait::PerKey(_) => Self::ConcurrencyPerKey,
            Wait::Rate { .. } => Self::Rate,
            Wait::KeyRate { .. } => Self::RatePerKey,
        }
    }

    /// As the API spells it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Concurrency => "concurrency",
            Self::ConcurrencyPerKey => "concurrencyPerKey",
            Self::Rate => "rate",
            Self::RatePerKey => "ratePerKey",
        }
    }
}

/// The limits of a workflow; without any where it has none.
#[utoipa::path(
    get, path = "/v1/workflows/{name}/limits", tag = "workflows",
    params(("name" = String, Path, description = "The workflow")),
    responses((status = 200, description = "Its limits, and how it stands with them", body = WorkflowLimits))
)]
pub(crate) async fn show(State(app): State<App>, Caller(caller): Caller, name: Name) -> Result<Reply, Problem> {
    caller.may(Scope::Read)?;
    blocking(move || Ok(Reply::new(OK, view(&app, name.0)?))).await
}

fn view(app: &App, workflow: String) -> Result<WorkflowLimits, Problem> {
    let limits = app.reads().limits_of(&workflow)?.map(|row| row.limits).unwrap_or_default();
    let counts = app.reads().queue_counts(&workflow, now_ms())?;
    let changes = app.reads().limit_changes(&workflow, CHANGES)?;
    let change = |row: LimitsRow| LimitsChange { at_ms: row.set_at_ms, by: row.set_by, limits: row.limits.into() };
    Ok(WorkflowLimits {
        workflow,
        limits: limits.into(),
        under_way: counts.under_way,
        queued: counts.waiting,
        waits_for: counts.wait.map(WaitsFor::of),
        changes: changes.into_iter().map(change).collect(),
    })
}

/// Set the limits of a workflow, in place of those that it has.
///
/// They count at once, also for the runs that wait. Runs that are under way are never stopped by it. A workflow can be limited before
/// there is a module that has it.
#[utoipa::path(
    put, path = "/v1/workflows/{name}/limits", tag = "workflows", request_body = LimitsBody,
    params(("name" = String, Path, description = "The workflow"), super::openapi::KeyHeader),
    responses((status = 200, description = "Set", body = LimitsSet))
)]
pub(crate) async fn set(State(app): State<App>, name: Name, post: Post) -> Result<Reply, Problem> {
    post.principal.may(Scope::Admin)?;
    let limits = post.object::<LimitsBody>()?.checked()?;
    check_name(&name.0)?;
    let shared = app.clone();
    let by = post.principal.name.clone();
    once(&app, post.keyed.clone(), move |keyed| async move { keep(&shared, name.0, limits, by, keyed).await }).await
}

/// Take the limits of a workflow away: runs that wait begin.
#[utoipa::path(
    delete, path = "/v1/workflows/{name}/limits", tag = "workflows",
    params(("name" = String, Path, description = "The workflow")),
    responses(
        (status = 204, description = "It has none"),
        (status = 404, body = ProblemBody, content_type = "application/problem+json", description = "It had none"),
    )
)]
pub(crate) async fn remove(State(app): State<App>, Caller(caller): Caller, name: Name) -> Result<StatusCode, Problem> {
    caller.may(Scope::Admin)?;
    if app.reads().limits_of(&name.0)?.is_none() {
        return Err(Problem::new(ApiCode::NotFound, format!("workflow {:?} has no limits", name.0)));
    }
    keep(&app, name.0, Limits::default(), caller.name, None).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn keep(
    app: &App,
    workflow: String,
    limits: Limits,
    set_by: String,
    keyed: Option<Keyed>,
) -> Result<Reply, Problem> {
    let row = LimitsRow { workflow: workflow.clone(), limits, set_at_ms: now_ms(), set_by };
    tracing::warn!(workflow, by = row.set_by, ?limits, "the limits of a workflow are set");
    let body = LimitsSet { workflow, limits: limits.into() };
    let answer = keyed.map(|keyed| keyed.answer(OK, &body, false));
    app.engine.store().submit(Submission { actions: vec![Action::SetLimits(row)], answer }).await?;
    Ok(Reply::new(OK, body))
}

fn check_name(workflow: &str) -> Result<(), Problem> {
    if (1..=MAX_NAME_BYTES).contains(&workflow.len()) && !workflow.chars().any(char::is_control) {
        return Ok(());
    }
    let text = format!("a workflow's name has 1 to {MAX_NAME_BYTES} bytes, no control characters");
    Err(Problem::new(ApiCode::InvalidRequest, text))
}
