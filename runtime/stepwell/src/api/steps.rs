//! Steps of unknown outcome: the list of them, and what a person has found out of one.

use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use stepwell_core::contract::Operation;
use stepwell_core::json::Json;
use stepwell_engine::store::{RunFilter, RunKey, RunRow};
use stepwell_engine::{Finding, Resolved, RunRef, Said, UnknownStep, found_error};
use utoipa::ToSchema;

use super::app::{App, blocking};
use super::asks::{asker, when};
use super::auth::Scope;
use super::keyed::{Reply, once};
use super::problem::{ApiCode, Problem, ProblemBody};
use super::request::{Caller, Names, OK, Post, Query};
use super::views::RunStatus;

/// Steps in a page.
const PAGE: u64 = 100;
/// The largest page that may be asked for.
const MAX_PAGE: u64 = 1_000;

/// A step of unknown outcome.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code)] // Describes what `shown` writes.
pub(crate) struct Unknown {
    /// Its run.
    run: String,
    /// The run's workflow.
    workflow: String,
    /// Where the run stands. Of a run that has ended, nothing more becomes of the step; it is listed for whoever looks into it.
    run_status: RunStatus,
    /// Its id: `charge`, or `charge#2` for the second of that name.
    step: String,
    /// `unknown`.
    status: String,
    /// Its attempts so far.
    attempts: u32,
    /// What may have happened. Empty where something was done, and its last attempt was lost before it could say so.
    effects: Vec<Effect>,
}

/// A request that may have happened.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code)] // Describes what `shown` writes.
pub(crate) struct Effect {
    /// Its number within the step, from 1.
    effect: u32,
    /// The method.
    method: String,
    /// The URL.
    url: String,
    /// What stood in its `Idempotency-Key` header: what to look for at the other side.
    key: Option<String>,
    /// When it was first sent, in ms since the Unix epoch.
    first_sent_ms: u64,
    /// When it was last sent, in ms since the Unix epoch.
    last_sent_ms: u64,
}

/// A page of steps.
#[derive(Debug, Serialize, ToSchema)]
#[allow(dead_code)] // Describes what `list` writes.
pub(crate) struct Steps {
    /// Those of the latest run first; of one run in the order in which they began.
    steps: Vec<Unknown>,
    /// Gives the next page, where there is one.
    #[schema(required = false)]
    cursor: Option<String>,
    /// Runs that should be in the page and cannot be read.
    unreadable: Vec<String>,
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
    blocking(move || page(&app, &filter)).await
}

/// The statuses that are listed.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[allow(dead_code)] // Describes a parameter.
pub(crate) enum StepStatus {
    Unknown,
}

fn filter(query: &Query) -> Result<Filter, Problem> {
    query.only(&["status", "run", "workflow", "open", "limit", "cursor"])?;
    let invalid = |text: String| Err(Problem::new(ApiCode::InvalidRequest, text));
    if let Some(status) = query.one("status")?.filter(|status| *status != "unknown") {
        return invalid(format!("status is {status:?}; only steps of status unknown are listed"));
    }
    let open = match query.one("open")? {
        None | Some("false") => false,
        Some("true") => true,
        Some(other) => return invalid(format!("open is {other:?}; true or false is taken")),
    };
    let after = match query.one("cursor")? {
        None => None,
        Some(text) => match place(text) {
            Some(place) => Some(place),
            None => return invalid(format!("cursor is {text:?}; the cursor of an earlier answer is taken")),
        },
    };
    let limit = query.number("limit", 1..=MAX_PAGE)?.unwrap_or(PAGE);
    let runs = RunFilter {
        workflow: query.one("workflow")?.map(str::to_owned),
        open,
        unknown: true,
        before: after.map(|(run, op)| if op.is_some() { run.saturating_add(1) } else { run }),
        limit: u32::try_from(limit).unwrap_or(u32::MAX),
        ..RunFilter::default()
    };
    Ok(Filter { runs, run: query.one("run")?.map(str::to_owned), after, limit: limit as usize })
}

fn page(app: &App, filter: &Filter) -> Result<Reply, Problem> {
    let (rows, mut unreadable) = match &filter.run {
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
    let (more, mut steps, mut last) = (rows.len() >= filter.limit, Vec::new(), None);
    for row in rows {
        let after = filter.after.filter(|(run, _)| *run == row.key).and_then(|(_, op)| op);
        let run = RunRef { id: row.run.clone(), key: row.key };
        match app.engine.unknown_steps(&run) {
            Ok(unknown) => {
                for step in unknown.iter().filter(|step| after.is_none_or(|after| step.op > after)) {
                    if steps.len() == filter.limit {
                        return Ok(answer(steps, last, unreadable));
                    }
                    last = Some((row.key, Some(step.op)));
                    steps.push(shown(&row, step));
                }
            }
            // A run that cannot be read hides no other.
            Err(error) => {
                tracing::error!(run = %row.run, %error, "its steps cannot be listed");
                unreadable.push(row.run.to_string());
            }
        }
        last = Some((row.key, None));
    }
    Ok(answer(steps, last.filter(|_| more), unreadable))
}

fn answer(steps: Vec<Value>, last: Option<Place>, unreadable: Vec<String>) -> Reply {
    let mut body = json!({ "steps": steps, "unreadable": unreadable });
    if let Some((run, op)) = last {
        body["cursor"] = op.map_or_else(|| run.to_string(), |op| format!("{run}-{op}")).into();
    }
    Reply::new(OK, body)
}

/// What [`answer`] has written as a cursor.
fn place(text: &str) -> Option<Place> {
    match text.split_once('-') {
        Some((run, op)) => Some((run.parse().ok()?, Some(op.parse().ok()?))),
        None => Some((text.parse().ok()?, None)),
    }
}

fn shown(row: &RunRow, step: &UnknownStep) -> Value {
    let effects: Vec<Value> = step
        .effects
        .iter()
        .map(|of| {
            let mut effect = json!({
                "effect": of.effect, "method": of.method, "url": of.url, "firstSentMs": of.first_sent_ms,
                "lastSentMs": of.last_sent_ms,
            });
            if let Some(key) = &of.key {
                effect["key"] = key.clone().into();
            }
            effect
        })
        .collect();
    json!({
        "run": row.run, "workflow": row.workflow, "runStatus": row.status.as_str(), "step": step.step.to_string(),
        "status": "unknown", "attempts": step.attempts, "effects": effects,
    })
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
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code)] // Describes what `resolved` writes.
pub(crate) struct ResolvedStep {
    /// The run.
    run: String,
    /// The step.
    step: String,
    /// Of a retry: with which keys its requests of unknown outcome are repeated.
    keys: Vec<KeyOfRetry>,
    /// The step is not tried again, since its run was cancelled or the workflow has lost interest in it: it fails with this.
    #[schema(required = false)]
    given_up: Option<Value>,
    /// When the run goes on with it, where that is not now: `once_resumed`, since the run is paused.
    #[schema(required = false)]
    when: Option<String>,
}

/// How a request of unknown outcome is repeated.
#[derive(Debug, Serialize, ToSchema)]
#[allow(dead_code)] // Describes what `resolved` writes.
pub(crate) struct KeyOfRetry {
    /// Its number within the step, from 1.
    effect: u32,
    /// What stood in its `Idempotency-Key` header.
    #[schema(required = false)]
    key: Option<String>,
    /// The same key stands there again; else the other side may have forgotten it, and there is a new one.
    kept: bool,
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
    let found: Found = post.json()?;
    let evidence = found.evidence.clone();
    let finding = finding(found)?;
    let (shared, by) = (app.clone(), post.principal.name.clone());
    once(&app, post.keyed.clone(), move |keyed| async move {
        let row = shared.run(&run)?;
        let run = RunRef { id: row.run.clone(), key: row.key };
        let of = run.clone();
        let by = asker(&by, keyed, StatusCode::OK, move |said| match said {
            Said::Resolved(found) => resolved(&of, found),
            _ => Value::Null,
        });
        let found = shared.engine.resolve(&run, &step, finding, &evidence, by).await?;
        Ok(Reply::new(OK, resolved(&run, &found)))
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

fn resolved(run: &RunRef, found: &Resolved) -> Value {
    let keys = found.keys.iter().map(|of| {
        let mut key = json!({ "effect": of.effect, "kept": of.kept });
        if let Some(name) = &of.key {
            key["key"] = name.clone().into();
        }
        key
    });
    let mut body = json!({
        "run": run.id, "step": found.step.to_string(), "keys": keys.collect::<Vec<_>>(),
    });
    if let Some(error) = &found.given_up {
        body["givenUp"] = json!(error);
    }
    if let Some(when) = when(found.granted) {
        body["when"] = when.into();
    }
    body
}
