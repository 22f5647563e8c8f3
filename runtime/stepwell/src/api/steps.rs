//! Steps of unknown outcome: the list of them, and what a person has found out of one.

use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use stepwell_core::contract::Operation;
use stepwell_core::error::Error;
use stepwell_core::json::Json;
use stepwell_engine::store::{RunFilter, RunKey, RunRow};
use stepwell_engine::{Finding, Resolved, RunRef, Said, UnknownStep, found_error};
use utoipa::ToSchema;

use super::app::{App, blocking};
use super::asks::{asker, when};
use super::auth::Scope;
use super::json;
use super::keyed::{Reply, once};
use super::problem::{ApiCode, Problem, ProblemBody};
use super::request::{Caller, Names, OK, Post, Query};
use super::views::RunStatus;

/// A step of unknown outcome.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Unknown {
    /// Its run.
    pub(crate) run: String,
    /// The run's workflow.
    pub(crate) workflow: String,
    /// Where the run stands. Of a run that has ended, nothing more becomes of the step; it is listed for whoever looks into it.
    #[schema(value_type = RunStatus)]
    pub(crate) run_status: String,
    /// Its id: `charge`, or `charge#2` for the second of that name.
    pub(crate) step: String,
    /// `unknown`.
    status: StepStatus,
    /// The run was taken back to before it by a retry: it is nobody's to resolve, unless the workflow begins it again.
    #[schema(required = false)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) void: Option<bool>,
    /// Its attempts so far.
    attempts: u32,
    /// It may have been attempted after the copy was made from which the database was restored.
    #[serde(default)]
    pub(crate) after_copy: bool,
    /// What may have happened. Empty where something was done, and its last attempt was lost before it could say so.
    pub(crate) effects: Vec<Effect>,
}

/// A request that may have happened.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Effect {
    /// Its number within the step, from 1.
    effect: u32,
    /// The method.
    pub(crate) method: String,
    /// The URL.
    pub(crate) url: String,
    /// What stood in its `Idempotency-Key` header: what to look for at the other side.
    #[schema(required = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<String>,
    /// When it was first sent, in ms since the Unix epoch.
    pub(crate) first_sent_ms: u64,
    /// When it was last sent, in ms since the Unix epoch.
    pub(crate) last_sent_ms: u64,
}

/// The statuses that are listed.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum StepStatus {
    Unknown,
}

impl Unknown {
    pub(crate) fn of(row: &RunRow, step: &UnknownStep) -> Self {
        let effects = step.effects.iter().map(|of| Effect {
            effect: of.effect,
            method: of.method.clone(),
            url: of.url.clone(),
            key: of.key.clone(),
            first_sent_ms: of.first_sent_ms,
            last_sent_ms: of.last_sent_ms,
        });
        Self {
            run: row.run.to_string(),
            workflow: row.workflow.clone(),
            run_status: row.status.as_str().to_owned(),
            step: step.step.to_string(),
            status: StepStatus::Unknown,
            void: step.void.then_some(true),
            attempts: step.attempts,
            after_copy: step.after_copy,
            effects: effects.collect(),
        }
    }
}

/// A page of steps.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
pub(crate) struct Steps {
    /// Those of the latest run first; of one run in the order in which they began.
    pub(crate) steps: Vec<Unknown>,
    /// Gives the next page, where there is one.
    #[schema(required = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cursor: Option<String>,
    /// Runs that should be in the page and cannot be read.
    pub(crate) unreadable: Vec<String>,
}

/// Where a page ends: at a step of a run, or after all of its steps.
type Place = (RunKey, Option<Operation>);

/// What to list.
struct Filter {
    runs: RunFilter,
    /// Only steps of this run.
    run: Option<String>,
    /// Only what comes after this step of this run, or after all of it.
    after: Option<Place>,
    limit: usize,
}

/// List steps of unknown outcome, with what was sent for them.
#[utoipa::path(
    get, path = "/v1/steps", tag = "steps",
    params(
        ("status" = Option<StepStatus>, Query, description = "Only steps with this status; there is no other that is listed"),
        ("run" = Option<String>, Query, description = "Only steps of this run"),
        ("workflow" = Option<String>, Query, description = "Only steps of this workflow's runs"),
        ("open" = Option<bool>, Query, description = "Only steps of runs that have not ended, which somebody has to resolve"),
        ("limit" = Option<u64>, Query, minimum = 1, maximum = 1000, description = "At most so many; 100 where it is left out"),
        ("cursor" = Option<String>, Query, description = "The cursor of the page before"),
    ),
    responses(
        (status = 200, description = "A page", body = Steps),
        (status = 404, body = ProblemBody, content_type = "application/problem+json", description = "There is no such run"),
    )
)]
pub(crate) async fn list(State(app): State<App>, Caller(caller): Caller, query: Query) -> Result<Reply, Problem> {
    caller.may(Scope::Read)?;
    let filter = filter(&query)?;
    blocking(move || Ok(Reply::new(OK, page(&app, &filter)?))).await
}

fn filter(query: &Query) -> Result<Filter, Problem> {
    let invalid = |text: String| Err(Problem::new(ApiCode::InvalidRequest, text));
    if let Some(status) = query.one("status")?.filter(|status| *status != "unknown") {
        return invalid(format!("status is {status:?}; only steps of status unknown are listed"));
    }
    let open = query.flag("open")?;
    let after = match query.one("cursor")? {
        None => None,
        Some(text) => match place(text) {
            Some(place) => Some(place),
            None => return invalid(format!("cursor is {text:?}; the cursor of an earlier answer is taken")),
        },
    };
    let limit = query.page_limit()?;
    let runs = RunFilter {
        workflow: query.one("workflow")?.map(str::to_owned),
        open,
        unknown: true,
        before: after.map(|(run, op)| if op.is_some() { run.saturating_add(1) } else { run }),
        limit,
        ..RunFilter::default()
    };
    Ok(Filter { runs, run: query.one("run")?.map(str::to_owned), after, limit: limit as usize })
}

fn page(app: &App, filter: &Filter) -> Result<Steps, Problem> {
    let (rows, unreadable) = match &filter.run {
        Some(run) => {
            let row = app.run(run)?;
            let of = |row: &RunRow| {
                filter.runs.workflow.as_ref().is_none_or(|workflow| row.workflow == *workflow)
                    && !(filter.runs.open && row.status.is_finished())
                    && filter.runs.before.is_none_or(|before| row.key < before)
            };
            (Some(row).filter(of).into_iter().collect(), Vec::new())
        }
        None => {
            let list = app.reads().runs(&filter.runs)?;
            (list.runs, list.unreadable.into_iter().map(|run| format!("number {}", run.key)).collect())
        }
    };
    let more = rows.len() >= filter.limit;
    let (mut page, mut last) = (Steps { unreadable, ..Steps::default() }, None);
    for row in rows {
        let after = filter.after.filter(|(run, _)| *run == row.key).and_then(|(_, op)| op);
        let run = RunRef { id: row.run.clone(), key: row.key };
        match app.engine.unknown_steps(&run) {
            Ok(unknown) => {
                for step in unknown.iter().filter(|step| after.is_none_or(|after| step.op > after)) {
                    if page.steps.len() == filter.limit {
                        page.cursor = last.map(cursor);
                        return Ok(page);
                    }
                    last = Some((row.key, Some(step.op)));
                    page.steps.push(Unknown::of(&row, step));
                }
            }
            // A run that cannot be read hides no other.
            Err(error) => {
                tracing::error!(run = %row.run, %error, "its steps cannot be listed");
                page.unreadable.push(row.run.to_string());
            }
        }
        last = Some((row.key, None));
    }
    page.cursor = last.filter(|_| more).map(cursor);
    Ok(page)
}

fn cursor((run, op): Place) -> String {
    op.map_or_else(|| run.to_string(), |op| format!("{run}-{op}"))
}

/// What [`cursor`] has written.
fn place(text: &str) -> Option<Place> {
    match text.split_once('-') {
        Some((run, op)) => Some((run.parse().ok()?, Some(op.parse().ok()?))),
        None => Some((text.parse().ok()?, None)),
    }
}

/// What a person has found out of a step.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Found {
    /// What became of it, or is to become of it.
    outcome: FoundOutcome,
    /// `succeeded`: the step's result; null where it is left out.
    #[serde(default)]
    #[schema(value_type = Option<Value>)]
    result: Option<Box<RawValue>>,
    /// `failed`: what the step fails with.
    #[serde(default, deserialize_with = "json::optional")]
    error: Option<FoundError>,
    /// How it was found out. It stands in the journal.
    #[schema(min_length = 1)]
    evidence: String,
}

/// What a person says became of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum FoundOutcome {
    /// It happened: the step has the result.
    Succeeded,
    /// It did not happen, and is not to be tried again: the step fails with the error.
    Failed,
    /// It is tried again: under the same key while the other side knows it, else under a new one. Its attempts are counted anew.
    Retry,
}

/// What a step fails with.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FoundError {
    /// For the workflow and for people.
    message: String,
}

/// What resolving a step has led to.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ResolvedStep {
    /// The run.
    pub(crate) run: String,
    /// The step.
    pub(crate) step: String,
    /// Of a retry: with which keys its requests of unknown outcome are repeated.
    pub(crate) keys: Vec<KeyOfRetry>,
    /// The step is not tried again, since its run was cancelled or the workflow has lost interest in it: it fails with this.
    #[schema(value_type = Option<Value>, required = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) given_up: Option<Error>,
    /// When the run goes on with it, where that is not now: `once_resumed`, since the run is paused.
    #[schema(required = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) when: Option<String>,
}

/// How a request of unknown outcome is repeated.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct KeyOfRetry {
    /// Its number within the step, from 1.
    effect: u32,
    /// What stood in its `Idempotency-Key` header.
    #[schema(required = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<String>,
    /// The same key stands there again; else the other side may have forgotten it, and there is a new one.
    pub(crate) kept: bool,
}

impl ResolvedStep {
    pub(crate) fn of(run: &RunRef, found: &Resolved) -> Self {
        let keys = found.keys.iter().map(|of| KeyOfRetry { effect: of.effect, key: of.key.clone(), kept: of.kept });
        Self {
            run: run.id.to_string(),
            step: found.step.to_string(),
            keys: keys.collect(),
            given_up: found.given_up.clone(),
            when: when(found.granted).map(str::to_owned),
        }
    }
}

/// Say what became of a step whose outcome is unknown. The run goes on with it.
#[utoipa::path(
    post, path = "/v1/runs/{id}/steps/{stepId}/resolve", tag = "steps", request_body(content = Found),
    params(
        ("id" = String, Path, description = "The run"),
        ("stepId" = String, Path, description = "The step, as it is listed: `charge`, or `charge#2` (its `#` encoded as `%23`)"),
        super::openapi::KeyHeader,
    ),
    responses(
        (status = 200, description = "It is on record", body = ResolvedStep),
        (status = 404, body = ProblemBody, content_type = "application/problem+json", description = "There is no such run or step"),
        (status = 409, body = ProblemBody, content_type = "application/problem+json", description = "The step's outcome is not unknown, or the run has ended, or its end is decided"),
    )
)]
pub(crate) async fn resolve(State(app): State<App>, names: Names, post: Post) -> Result<Reply, Problem> {
    post.principal.may(Scope::Run)?;
    let Names(run, step) = names;
    let found: Found = post.object()?;
    let evidence = found.evidence.clone();
    let finding = finding(found)?;
    let (shared, by) = (app.clone(), post.principal.name.clone());
    once(&app, post.keyed.clone(), move |keyed| async move {
        let row = shared.run(&run)?;
        let run = RunRef { id: row.run.clone(), key: row.key };
        let of = run.clone();
        let by = asker(&by, keyed, StatusCode::OK, move |said| match said {
            Said::Resolved(found) => json!(ResolvedStep::of(&of, found)),
            _ => Value::Null,
        });
        let found = shared.engine.resolve(&run, &step, finding, &evidence, by).await?;
        Ok(Reply::new(OK, ResolvedStep::of(&run, &found)))
    })
    .await
}

fn finding(found: Found) -> Result<Finding, Problem> {
    let invalid = |text: &str| Err(Problem::new(ApiCode::InvalidRequest, text));
    if found.evidence.trim().is_empty() {
        return invalid("evidence is empty; say how it was found out: it stands in the journal");
    }
    match (found.outcome, found.result, found.error) {
        (FoundOutcome::Succeeded, result, None) => {
            let text = result.map_or_else(|| "null".to_owned(), |raw| raw.get().to_owned());
            let value = Json::parse(&text).map_err(|error| {
                Problem::new(ApiCode::InvalidRequest, format!("the result is not understood: {error}"))
            })?;
            Ok(Finding::Succeeded(value))
        }
        (FoundOutcome::Failed, None, Some(error)) => Ok(Finding::Failed(found_error(&error.message))),
        (FoundOutcome::Retry, None, None) => Ok(Finding::Retry),
        (FoundOutcome::Failed, None, None) => invalid("a step that failed has an error: { \"message\": ... }"),
        _ => invalid("a result belongs to succeeded, an error to failed, and neither to retry"),
    }
}
