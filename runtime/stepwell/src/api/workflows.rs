//! `/v1/workflows`: which module new runs start on, and whether the open ones would go on with another.

use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use stepwell_core::ids::Digest;
use stepwell_engine::store::{Action, RunFilter, StoreError, Submission};
use stepwell_engine::{RunRef, Verdict};
use utoipa::ToSchema;

use super::app::{App, now_ms};
use super::auth::Scope;
use super::keyed::{Keyed, Reply, once};
use super::problem::{ApiCode, Problem, ProblemBody};
use super::request::{Caller, Name, OK, Post};
use super::views::tree;

/// A workflow.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code)] // Describes what `list` writes.
pub(crate) struct Workflow {
    /// Its name.
    name: String,
    /// The module that its new runs start on.
    digest: String,
    /// Since when, in ms since the Unix epoch.
    activated_at_ms: u64,
}

/// Workflows in a list.
#[derive(Debug, Serialize, ToSchema)]
#[allow(dead_code)] // Describes what `list` writes.
pub(crate) struct Workflows {
    workflows: Vec<Workflow>,
}

/// List workflows that runs can be started of.
#[utoipa::path(
    get, path = "/v1/workflows", tag = "workflows",
    responses((status = 200, description = "All of them", body = Workflows))
)]
pub(crate) async fn list(State(app): State<App>, Caller(caller): Caller) -> Result<Reply, Problem> {
    caller.may(Scope::Read)?;
    let active = app.reads().active()?;
    let workflows: Vec<Value> = active
        .iter()
        .map(|one| json!({ "name": one.workflow, "digest": one.digest, "activatedAtMs": one.activated_at_ms }))
        .collect();
    Ok(Reply::new(OK, json!({ "workflows": workflows })))
}

/// Which module, and whether it is only to be looked at.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Activate {
    /// The module.
    digest: String,
    /// Activate nothing; say what the open runs would do on it.
    #[serde(default)]
    dry_run: bool,
}

/// What is active now; with `dryRun`, what the open runs would do.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code)] // Describes what `activate` writes.
pub(crate) struct Activated {
    /// The workflow.
    workflow: String,
    /// The module.
    digest: String,
    /// Whether nothing was changed.
    dry_run: bool,
    /// With `dryRun`: how the workflow's open runs replay on the module.
    #[schema(required = false)]
    report: Option<Value>,
}

/// Let new runs of a workflow start on a module. Runs that are open stay on theirs.
#[utoipa::path(
    post, path = "/v1/workflows/{name}/activate", tag = "workflows",
    params(("name" = String, Path, description = "The workflow"), super::openapi::KeyHeader),
    request_body = Activate,
    responses(
        (status = 200, description = "Active; or, with dryRun, the report", body = Activated),
        (status = 404, body = ProblemBody, content_type = "application/problem+json", description = "There is no such module"),
        (status = 415, body = ProblemBody, content_type = "application/problem+json", description = "Another type"),
        (status = 422, body = ProblemBody, content_type = "application/problem+json", description = "The module has no such workflow"),
    )
)]
pub(crate) async fn activate(State(app): State<App>, name: Name, post: Post) -> Result<Reply, Problem> {
    post.principal.may(Scope::Deploy)?;
    let body: Activate = post.json()?;
    let shared = app.clone();
    once(&app, post.keyed.clone(), move |keyed| async move {
        let digest = Digest::from_text(body.digest);
        has_workflow(&shared, &digest, &name.0)?;
        if body.dry_run {
            let report = report(&shared, &digest, &name.0).await?;
            let body = json!({ "workflow": name.0, "digest": digest, "dryRun": true, "report": report });
            return Ok(Reply::new(OK, body));
        }
        set(&shared, name.0, digest, keyed).await
    })
    .await
}

fn has_workflow(app: &App, digest: &Digest, workflow: &str) -> Result<(), Problem> {
    let row = app.reads().module_row(digest)?;
    let row = row.ok_or_else(|| Problem::new(ApiCode::NotFound, format!("there is no module {digest}")))?;
    let description = tree(&row.description);
    let names = description["workflows"].as_array().into_iter().flatten();
    let names: Vec<&str> = names.filter_map(|one| one["name"].as_str()).collect();
    if names.contains(&workflow) {
        return Ok(());
    }
    let text = format!("module {} has no workflow {workflow:?}; it has {}", digest.short(), names.join(", "));
    let code = stepwell_core::error::Code::UnknownWorkflow;
    Err(stepwell_core::error::Error::new(code, text).into())
}

async fn set(app: &App, workflow: String, digest: Digest, keyed: Option<Keyed>) -> Result<Reply, Problem> {
    let body = json!({ "workflow": workflow, "digest": digest, "dryRun": false });
    let answer = keyed.map(|keyed| keyed.answer(OK, &body, false));
    let actions = vec![Action::Activate { workflow, digest, at_ms: now_ms(), only_if_none: false }];
    match app.engine.store().submit(Submission { actions, answer }).await {
        Ok(_) => Ok(Reply::new(OK, body)),
        Err(StoreError::NoSuchModule(digest)) => {
            Err(Problem::new(ApiCode::NotFound, format!("there is no module {digest}")))
        }
        Err(error) => Err(error.into()),
    }
}

/// Runs looked at in one report; the latest.
const MAX_CHECKED: usize = 10_000;
/// Differences told in one report.
const MAX_TOLD: usize = 100;

/// Replays every open run of the workflow on the module, without effects.
async fn report(app: &App, digest: &Digest, workflow: &str) -> Result<Value, Problem> {
    let (mut checked, mut clean, mut before) = (0usize, 0usize, None);
    let (mut differing, mut failing) = (Vec::new(), Vec::new());
    'pages: loop {
        let filter = RunFilter { workflow: Some(workflow.to_owned()), before, limit: 1_000, ..RunFilter::default() };
        let page = app.reads().runs(&filter)?;
        let Some(last) = page.runs.last() else { break };
        before = Some(last.key);
        for row in page.runs.into_iter().filter(|row| !row.status.is_finished()) {
            if checked == MAX_CHECKED {
                break 'pages;
            }
            checked += 1;
            let run = RunRef { id: row.run, key: row.key };
            match app.engine.check(&run, digest).await {
                Ok(Verdict::Same) => clean += 1,
                Ok(Verdict::Differs(mismatch)) => {
                    differing.push(json!({ "run": run.id, "difference": mismatch.to_string() }));
                }
                Err(error) => failing.push(json!({ "run": run.id, "error": error })),
            }
        }
    }
    let (differs, failed) = (differing.len(), failing.len());
    differing.truncate(MAX_TOLD);
    failing.truncate(MAX_TOLD);
    Ok(json!({
        "checked": checked, "clean": clean, "differs": differs, "failed": failed, "differing": differing, "failing": failing,
    }))
}
