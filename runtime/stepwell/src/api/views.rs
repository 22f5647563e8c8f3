//! What clients see of a run, and the wait for its end.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};
use stepwell_engine::store::{NewRun, RunKey, RunRow, Status};
use utoipa::ToSchema;

use super::app::App;
use super::problem::{ApiCode, Problem};

/// A run. What does not apply is left out.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code)] // Describes what `run` writes.
pub(crate) struct Run {
    /// Its name.
    id: String,
    /// Its workflow.
    workflow: String,
    /// The module that it is pinned to.
    digest: String,
    /// Where it stands.
    status: RunStatus,
    /// The starter's own name for it.
    run_key: Option<String>,
    /// The starter's marks on it.
    #[schema(value_type = std::collections::BTreeMap<String, String>)]
    tags: Value,
    /// The workflow's own words on where it is.
    status_text: Option<String>,
    /// What it waits for, why it is blocked or set aside.
    detail: Option<String>,
    /// Until when at the latest, in ms since the Unix epoch, where that is known.
    until_ms: Option<u64>,
    /// How many of its steps have an unknown outcome, where some have: `/v1/steps?run=` lists them.
    #[schema(required = false)]
    unknown_steps: Option<u32>,
    /// When it was started, in ms since the Unix epoch.
    created_at_ms: u64,
    /// When its status was last written, in ms since the Unix epoch.
    changed_at_ms: u64,
    /// Its result, where it succeeded; lists leave it out.
    #[schema(required = false)]
    result: Option<Value>,
    /// Its error, where it ended otherwise; lists leave it out.
    #[schema(required = false)]
    error: Option<Value>,
}

/// Where a run stands. The last four are final.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[allow(dead_code)] // Describes what the store's statuses are called.
pub(crate) enum RunStatus {
    Queued,
    Running,
    Waiting,
    Blocked,
    Paused,
    Succeeded,
    Failed,
    Cancelled,
    Terminated,
}

/// A run as JSON, without what does not apply.
pub(crate) fn run(row: &RunRow) -> Value {
    let tags: serde_json::Map<String, Value> =
        row.tags.iter().map(|(name, value)| (name.clone(), Value::from(value.clone()))).collect();
    let mut view = json!({
        "id": row.run, "workflow": row.workflow, "digest": row.digest, "status": row.status.as_str(), "tags": tags,
        "createdAtMs": row.created_at_ms, "changedAtMs": row.changed_at_ms,
    });
    let begins = (row.status == Status::Queued && row.wake_at_ms.is_some() && row.detail.is_none())
        .then(|| "its delay".to_owned());
    let said = [
        ("runKey", row.run_key.clone().map(Value::from)),
        ("statusText", row.status_text.clone().map(Value::from)),
        ("detail", row.detail.clone().or(begins).map(Value::from)),
        ("untilMs", row.wake_at_ms.map(Value::from)),
        ("unknownSteps", (row.unknown > 0).then(|| row.unknown.into())),
        (if row.status == Status::Succeeded { "result" } else { "error" }, row.outcome.as_deref().map(tree)),
    ];
    for (name, value) in said {
        if let Some(value) = value {
            view[name] = value;
        }
    }
    view
}

/// A run that is about to be started, as its row will have it.
pub(crate) fn new_run(new: &NewRun) -> Value {
    run(&RunRow {
        key: 0,
        run: new.run.clone(),
        workflow: new.workflow.clone(),
        digest: new.digest.clone(),
        run_key: new.run_key.clone(),
        status: Status::Queued,
        detail: None,
        status_text: None,
        wake_at_ms: new.begins_at_ms,
        tags: new.tags.iter().cloned().collect::<std::collections::BTreeMap<_, _>>().into_iter().collect(),
        outcome: None,
        recoveries: 0,
        unknown: 0,
        created_at_ms: new.created_at_ms,
        changed_at_ms: new.created_at_ms,
    })
}

/// A JSON text as a tree; as its text where it is nested too deeply to be one.
pub(crate) fn tree(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

/// A stored answer with the runs that it names as they are now.
pub(crate) fn as_it_is_now(app: &App, mut body: Value) -> Result<Value, Problem> {
    if let Some(outcomes) = body.get_mut("outcomes").and_then(Value::as_array_mut) {
        for outcome in outcomes {
            if let Some(started) = outcome.get_mut("run") {
                *started = now(app, started)?;
            }
        }
        return Ok(body);
    }
    now(app, &body)
}

fn now(app: &App, started: &Value) -> Result<Value, Problem> {
    match started["id"].as_str() {
        Some(id) => Ok(run(&app.run(id)?)),
        None => Ok(started.clone()),
    }
}

/// The run once it has ended; as it is when the time is over or the server stops.
pub(crate) async fn ended(app: &App, run: RunKey, wait_ms: u64) -> Result<RunRow, Problem> {
    let mut changes = app.engine.changes(run).await;
    let wait = async {
        loop {
            changes.borrow_and_update();
            let row = app.reads().run_by_number(run)?;
            if row.as_ref().is_none_or(|row| row.status.is_finished()) {
                return Ok::<_, Problem>(());
            }
            if changes.changed().await.is_err() {
                return Ok(());
            }
        }
    };
    tokio::select! {
        waited = tokio::time::timeout(Duration::from_millis(wait_ms), wait) => waited.unwrap_or(Ok(()))?,
        () = app.stopped() => {}
    }
    let row = app.reads().run_by_number(run)?;
    row.ok_or_else(|| Problem::new(ApiCode::NotFound, "the run is gone"))
}
