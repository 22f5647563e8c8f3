//! Looking at runs: lists with counts, one run, its result.

use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use serde_json::{Value, json};
use stepwell_core::ids::RunId;
use stepwell_engine::store::{RunFilter, Status};
use utoipa::ToSchema;

use super::app::{App, blocking};
use super::auth::Scope;
use super::keyed::Reply;
use super::problem::{ApiCode, Problem, ProblemBody};
use super::request::{Caller, Name, OK, Query, wait_ms};
use super::views::{self, Run};

/// A page of runs.
#[derive(Debug, Serialize, ToSchema)]
#[allow(dead_code)] // Describes what `list` writes.
pub(crate) struct Runs {
    /// The latest first. Results and errors are left out.
    runs: Vec<Run>,
    /// Gives the next page, where there is one.
    cursor: Option<String>,
    /// How many runs there are by status: of the workflow that is asked for, or all. Other filters do not narrow it.
    #[schema(value_type = std::collections::BTreeMap<String, u64>)]
    counts: Value,
    /// Runs that should be in the page and cannot be read.
    unreadable: u64,
}

/// List runs, the latest first.
#[utoipa::path(
    get, path = "/v1/runs", tag = "runs",
    params(
        ("workflow" = Option<String>, Query, description = "Only runs of this workflow"),
        ("status" = Option<views::RunStatus>, Query, description = "Only runs with this status"),
        ("open" = Option<bool>, Query, description = "Only runs that have not ended"),
        ("runKey" = Option<String>, Query, description = "Only the run with this run key"),
        ("parent" = Option<String>, Query, description = "Only runs that this run has started"),
        ("tag" = Option<Vec<String>>, Query, description = "Only runs with this tag, name=value; may be repeated"),
        ("sinceMs" = Option<u64>, Query, maximum = 9223372036854775807u64, description = "Only runs started at this time or later, in ms since the Unix epoch"),
        ("untilMs" = Option<u64>, Query, maximum = 9223372036854775807u64, description = "Only runs started before this time"),
        ("limit" = Option<u64>, Query, minimum = 1, maximum = 1000, description = "At most so many; 100 where it is left out"),
        ("cursor" = Option<String>, Query, description = "The cursor of the page before"),
    ),
    responses((status = 200, description = "A page", body = Runs))
)]
pub(crate) async fn list(State(app): State<App>, Caller(caller): Caller, query: Query) -> Result<Reply, Problem> {
    caller.may(Scope::Read)?;
    let filter = filter(&query)?;
    blocking(move || {
        let list = app.reads().runs(&filter)?;
        let mut counts: serde_json::Map<String, Value> =
            Status::ALL.iter().map(|status| (status.as_str().to_owned(), 0.into())).collect();
        for (_, status, n) in app.reads().counts(filter.workflow.as_deref())? {
            let sum = counts[status.as_str()].as_u64().unwrap_or(0) + n;
            counts.insert(status.as_str().to_owned(), sum.into());
        }
        let full = (list.runs.len() + list.unreadable.len()) as u64 == u64::from(filter.limit);
        let last = list.runs.iter().map(|row| row.key).chain(list.unreadable.iter().map(|run| run.key)).min();
        let cursor = last.filter(|_| full).map(|key| key.to_string());
        let runs: Vec<Run> = list.runs.iter().map(views::run).collect();
        let mut body = json!({ "runs": runs, "counts": counts, "unreadable": list.unreadable.len() });
        if let Some(cursor) = cursor {
            body["cursor"] = cursor.into();
        }
        Ok(Reply::new(OK, body))
    })
    .await
}

fn filter(query: &Query) -> Result<RunFilter, Problem> {
    let invalid = |text: String| Problem::new(ApiCode::InvalidRequest, text);
    let status = match query.one("status")? {
        Some(text) => Some(text.parse::<Status>().map_err(|error| invalid(error.to_string()))?),
        None => None,
    };
    let tags = query.all("tag").map(|text| {
        let pair = text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
        pair.ok_or_else(|| invalid(format!("tag is {text:?}; name=value is taken")))
    });
    let limit = query.page_limit()?;
    Ok(RunFilter {
        status,
        open: query.flag("open")?,
        workflow: query.one("workflow")?.map(str::to_owned),
        run_key: query.one("runKey")?.map(str::to_owned),
        parent: query.one("parent")?.map(RunId::new),
        tags: tags.collect::<Result<_, _>>()?,
        since_ms: query.number("sinceMs", 0..=i64::MAX as u64)?,
        until_ms: query.number("untilMs", 0..=i64::MAX as u64)?,
        before: query.number("cursor", 0..=i64::MAX as u64)?.and_then(|key| i64::try_from(key).ok()),
        limit,
        ..RunFilter::default()
    })
}

/// Look at a run.
#[utoipa::path(
    get, path = "/v1/runs/{id}", tag = "runs", params(("id" = String, Path, description = "The run")),
    responses(
        (status = 200, description = "The run", body = Run),
        (status = 404, body = ProblemBody, content_type = "application/problem+json", description = "There is none"),
    )
)]
pub(crate) async fn show(State(app): State<App>, Caller(caller): Caller, name: Name) -> Result<Reply, Problem> {
    caller.may(Scope::Read)?;
    Ok(Reply::new(OK, views::seen(&app, &app.run(&name.0)?)?))
}

/// How a run ended.
///
/// 202 while it has not. With `wait` the answer comes when it has, or the time is over. Where another run goes on for it, that one is
/// shown: its end is what whoever started the first one waits for.
#[utoipa::path(
    get, path = "/v1/runs/{id}/result", tag = "runs",
    params(
        ("id" = String, Path, description = "The run"),
        ("wait" = Option<String>, Query, description = "Wait for its end for so long, e.g. 30s; at most 60s"),
    ),
    responses(
        (status = 200, description = "It has ended: `result`, or `error`", body = Run),
        (status = 202, description = "It has not", body = Run),
        (status = 404, body = ProblemBody, content_type = "application/problem+json", description = "There is none"),
    )
)]
pub(crate) async fn result(
    State(app): State<App>,
    Caller(caller): Caller,
    name: Name,
    query: Query,
) -> Result<Reply, Problem> {
    caller.may(Scope::Read)?;
    let wait_ms = wait_ms(query.one("wait")?)?.unwrap_or(0);
    let mut row = views::last(&app, app.run(&name.0)?.key)?;
    if !row.status.is_finished() && wait_ms > 0 {
        row = views::ended(&app, row.key, wait_ms).await?;
    }
    let status = if row.status.is_finished() { OK } else { StatusCode::ACCEPTED };
    Ok(Reply::new(status, views::seen(&app, &row)?))
}
