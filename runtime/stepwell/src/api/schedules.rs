//! `/v1/schedules`: workflows that are started by the clock.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use stepwell_core::json::Json;
use stepwell_core::limits;
use stepwell_engine::StartRun;
use stepwell_engine::schedule::{Overlap, ScheduleBy, ScheduleSpec};
use stepwell_engine::store::{Answer, Schedule, StoreError};
use utoipa::ToSchema;

use super::app::{App, now_ms};
use super::auth::Scope;
use super::json;
use super::keyed::{Keyed, Reply, once};
use super::problem::{ApiCode, Problem, ProblemBody};
use super::request::{Caller, Name, OK, Post, Query};
use super::schedule_views::{ScheduleView, Schedules, view};
use super::starts::{active, check_tags};

/// Times that are told of one schedule where nobody says how many, and at most.
const NEXT: u64 = 5;
const MAX_NEXT: u64 = 1_000;

/// A schedule to be made, or what an existing one is to be.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct NewSchedule {
    /// The workflow whose runs it starts, on the module that is active for it then.
    workflow: String,
    /// When: a cron expression of five fields (minute, hour, day of month, month, day of week), or of six with seconds before them.
    #[schema(example = "0 9 * * MON-FRI")]
    cron: String,
    /// On whose clocks: a name of the time zone database.
    #[serde(default = "utc")]
    #[schema(default = "UTC", example = "Europe/Berlin")]
    time_zone: String,
    /// The input of each run; null where it is left out.
    #[schema(value_type = Option<Value>, required = false)]
    #[serde(default)]
    input: Option<Box<RawValue>>,
    /// What becomes of a firing while a run of the schedule is open.
    #[serde(default)]
    overlap: OverlapPolicy,
    /// How many of the times that have passed while nothing could be started are made up for: the latest. `queue` needs at least 1.
    #[serde(default = "one")]
    #[schema(default = 1, maximum = 1000)]
    catch_up: u32,
    /// How long each run may be open, in ms; then it is cancelled.
    #[schema(minimum = 1, maximum = 315576000000u64)]
    run_timeout_ms: Option<u64>,
    /// Marks on each run. The mark `schedule`, with the schedule's name, is on each anyway.
    #[serde(default, deserialize_with = "json::tags")]
    tags: BTreeMap<String, String>,
}

fn utc() -> String {
    "UTC".to_owned()
}

fn one() -> u32 {
    1
}

/// What becomes of a firing while a run of the schedule is open.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OverlapPolicy {
    /// It is passed over.
    #[default]
    Skip,
    /// It waits until that run has ended.
    Queue,
    /// Both run.
    Allow,
}

impl From<OverlapPolicy> for Overlap {
    fn from(policy: OverlapPolicy) -> Self {
        match policy {
            OverlapPolicy::Skip => Self::Skip,
            OverlapPolicy::Queue => Self::Queue,
            OverlapPolicy::Allow => Self::Allow,
        }
    }
}

fn none(name: &str) -> Problem {
    Problem::new(ApiCode::NotFound, format!("there is no schedule {name:?}"))
}

fn find(app: &App, name: &str) -> Result<Schedule, Problem> {
    app.reads().schedule(name)?.ok_or_else(|| none(name))
}

fn refused(error: StoreError) -> Problem {
    match error {
        StoreError::NoSuchSchedule(name) => none(&name),
        other => other.into(),
    }
}

/// Make a schedule, or replace what one starts and when.
///
/// Its first time is the next one after this. One that is replaced stays paused if it was. If it gets other times, it goes on with the
/// next of these; else what is due stays so. The same again changes nothing.
#[utoipa::path(
    put, path = "/v1/schedules/{name}", tag = "schedules", request_body = NewSchedule,
    params(("name" = String, Path, description = "Its name, 1 to 200 bytes"), super::openapi::KeyHeader),
    responses(
        (status = 200, description = "Replaced", body = ScheduleView), (status = 201, description = "Made", body = ScheduleView),
        (status = 413, body = ProblemBody, content_type = "application/problem+json", description = "The input is too large"),
        (status = 422, body = ProblemBody, content_type = "application/problem+json", description = "No module is active for the workflow, or its runs could not be started so"),
    )
)]
pub(crate) async fn put(State(app): State<App>, name: Name, post: Post) -> Result<Reply, Problem> {
    post.principal.may(Scope::Deploy)?;
    check_name(&name.0)?;
    let new: NewSchedule = post.object()?;
    let (workflow, spec) = asked(new)?;
    let by = post.principal.name.clone();
    let shared = app.clone();
    once(&app, post.keyed.clone(), move |keyed| async move {
        // A run that could not be started now could not be started then.
        shared
            .engine
            .prepare(StartRun {
                run_timeout_ms: spec.run_timeout_ms,
                ..StartRun::new(active(&shared, &workflow)?, Some(workflow.clone()), spec.input.clone())
            })
            .await?;
        let status = |is_new: bool| if is_new { StatusCode::CREATED } else { OK };
        let answer = |row: &Schedule, is_new: bool| answer(&shared, keyed.as_ref(), row, status(is_new));
        let by = ScheduleBy { by: &by, answer: &answer };
        let (row, is_new) = shared.engine.put_schedule(&name.0, &workflow, &spec, &by).await.map_err(refused)?;
        Ok(Reply::new(status(is_new), view(&shared, &row)?))
    })
    .await
}

fn check_name(name: &str) -> Result<(), Problem> {
    let max = limits::MAX_NAME_BYTES;
    if (1..=max).contains(&name.len()) && !name.chars().any(char::is_control) {
        return Ok(());
    }
    let text = format!("a schedule's name has 1 to {max} bytes, no control characters");
    Err(Problem::new(ApiCode::InvalidRequest, text))
}

/// What is asked for, checked as far as it can be without the workflow.
fn asked(new: NewSchedule) -> Result<(String, ScheduleSpec), Problem> {
    let invalid = |text: String| Problem::new(ApiCode::InvalidRequest, text);
    check_tags(&new.tags)?;
    let input = match &new.input {
        Some(raw) => Json::parse(raw.get()).map_err(|error| invalid(format!("input: {error}")))?,
        None => Json::null(),
    };
    let spec = ScheduleSpec {
        cron: new.cron,
        time_zone: new.time_zone,
        input,
        overlap: new.overlap.into(),
        catch_up: new.catch_up,
        run_timeout_ms: new.run_timeout_ms,
        tags: new.tags,
    };
    spec.checked(now_ms()).map_err(invalid)?;
    Ok((new.workflow, spec))
}

/// What is kept under a client's key.
fn answer(app: &App, keyed: Option<&Keyed>, row: &Schedule, status: StatusCode) -> Option<Answer> {
    Some(keyed?.answer(status, &view(app, row).ok()?, false))
}

/// List schedules.
#[utoipa::path(
    get, path = "/v1/schedules", tag = "schedules", params(super::openapi::Page),
    responses((status = 200, description = "A page", body = Schedules))
)]
pub(crate) async fn list(State(app): State<App>, Caller(caller): Caller, query: Query) -> Result<Reply, Problem> {
    caller.may(Scope::Read)?;
    let limit = query.page_limit()?;
    let rows = app.reads().schedules(query.one("cursor")?, limit)?;
    let cursor = rows.last().filter(|_| rows.len() == limit as usize).map(|row| row.name.clone());
    let schedules = rows.iter().map(|row| view(&app, row)).collect::<Result<_, _>>()?;
    Ok(Reply::new(OK, Schedules { schedules, cursor }))
}

/// Look at a schedule, with the times at which it fires.
#[utoipa::path(
    get, path = "/v1/schedules/{name}", tag = "schedules",
    params(
        ("name" = String, Path, description = "Its name"),
        ("next" = Option<u64>, Query, minimum = 0, maximum = 1000, description = "How many of the times at which it fires are told, as if it were not paused; 5 where it is left out"),
        ("afterMs" = Option<u64>, Query, maximum = 9223372036854775807u64, description = "Times after this one, in ms since the Unix epoch; now where it is left out"),
    ),
    responses(
        (status = 200, description = "The schedule", body = ScheduleView),
        (status = 404, body = ProblemBody, content_type = "application/problem+json", description = "There is none"),
    )
)]
pub(crate) async fn show(
    State(app): State<App>,
    Caller(caller): Caller,
    name: Name,
    query: Query,
) -> Result<Reply, Problem> {
    caller.may(Scope::Read)?;
    let next = query.number("next", 0..=MAX_NEXT)?.unwrap_or(NEXT);
    let after_ms = query.number("afterMs", 0..=i64::MAX as u64)?;
    let row = find(&app, &name.0)?;
    Ok(Reply::new(OK, view(&app, &row)?.with_next(next as usize, after_ms.unwrap_or_else(now_ms))))
}

/// Take a schedule away. Runs that it has started go on; a time that waits does not fire.
#[utoipa::path(
    delete, path = "/v1/schedules/{name}", tag = "schedules", params(("name" = String, Path, description = "Its name")),
    responses(
        (status = 204, description = "It is gone"),
        (status = 404, body = ProblemBody, content_type = "application/problem+json", description = "There is none"),
    )
)]
pub(crate) async fn remove(State(app): State<App>, Caller(caller): Caller, name: Name) -> Result<StatusCode, Problem> {
    caller.may(Scope::Deploy)?;
    app.engine.remove_schedule(&name.0).await.map_err(refused)?;
    tracing::info!(schedule = name.0, by = caller.name, "a schedule was taken away");
    Ok(StatusCode::NO_CONTENT)
}

/// Pause a schedule: it starts nothing until it is resumed. Runs that it has started go on.
#[utoipa::path(
    post, path = "/v1/schedules/{name}/pause", tag = "schedules",
    params(("name" = String, Path, description = "Its name"), super::openapi::KeyHeader),
    responses(
        (status = 200, description = "It is paused", body = ScheduleView),
        (status = 404, body = ProblemBody, content_type = "application/problem+json", description = "There is none"),
    )
)]
pub(crate) async fn pause(State(app): State<App>, name: Name, post: Post) -> Result<Reply, Problem> {
    paused(&app, name, &post, true).await
}

/// Resume a schedule, from its next time on: what was due while it was paused is not made up for.
#[utoipa::path(
    post, path = "/v1/schedules/{name}/resume", tag = "schedules",
    params(("name" = String, Path, description = "Its name"), super::openapi::KeyHeader),
    responses(
        (status = 200, description = "It fires again", body = ScheduleView),
        (status = 404, body = ProblemBody, content_type = "application/problem+json", description = "There is none"),
    )
)]
pub(crate) async fn resume(State(app): State<App>, name: Name, post: Post) -> Result<Reply, Problem> {
    paused(&app, name, &post, false).await
}

async fn paused(app: &App, name: Name, post: &Post, paused: bool) -> Result<Reply, Problem> {
    post.principal.may(Scope::Deploy)?;
    let (shared, by) = (app.clone(), post.principal.name.clone());
    once(app, post.keyed.clone(), move |keyed| async move {
        // Read before: what cannot be shown is not changed.
        view(&shared, &find(&shared, &name.0)?)?;
        let answer = |row: &Schedule, _| answer(&shared, keyed.as_ref(), row, OK);
        let by = ScheduleBy { by: &by, answer: &answer };
        let row = match paused {
            true => shared.engine.pause_schedule(&name.0, &by).await,
            false => shared.engine.resume_schedule(&name.0, &by).await,
        };
        Ok(Reply::new(OK, view(&shared, &row.map_err(refused)?)?))
    })
    .await
}
