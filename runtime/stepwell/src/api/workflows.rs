//! `/v1/workflows`: which module new runs start on, and whether the open ones would go on with another.

use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use stepwell_core::error::{Code, Error};
use stepwell_core::ids::Digest;
use stepwell_engine::store::{Action, Active, StoreError, Submission};
use stepwell_engine::{RunRef, Verdict};
use utoipa::ToSchema;

use super::app::{App, blocking, now_ms};
use super::auth::Scope;
use super::keyed::{Keyed, Reply, once};
use super::limits::LimitsInForce;
use super::problem::{ApiCode, Problem, ProblemBody};
use super::request::{Caller, Name, OK, Post};

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
    /// Its limits, where it has any.
    limits: Option<LimitsInForce>,
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
    let limits = app.reads().all_limits()?;
    let shown = |one: &Active| {
        let mut shown = json!({ "name": one.workflow, "digest": one.digest, "activatedAtMs": one.activated_at_ms });
        if let Some(row) = limits.iter().find(|row| row.workflow == one.workflow) {
            shown["limits"] = json!(LimitsInForce::from(row.limits));
        }
        shown
    };
    let workflows: Vec<Value> = active.iter().map(shown).collect();
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
pub(crate) struct Activated {
    /// The workflow.
    workflow: String,
    /// The module.
    #[schema(value_type = String)]
    digest: Digest,
    /// Whether nothing was changed.
    dry_run: bool,
    /// With `dryRun`: how the workflow's open runs replay on the module.
    #[schema(required = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    report: Option<Report>,
}

/// How open runs replay on another module.
#[derive(Debug, Default, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report {
    /// Runs that were replayed, the latest first.
    checked: usize,
    /// Open runs that were not: there are more than are looked at in one report.
    left_out: usize,
    /// Runs that would go on as they are.
    clean: usize,
    /// Runs that would differ.
    differs: usize,
    /// Runs that could not be replayed.
    failed: usize,
    /// The first of those that differ.
    differing: Vec<Differing>,
    /// The first of those that could not be replayed.
    failing: Vec<Failing>,
}

/// A run that would differ.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Differing {
    run: String,
    /// Where first, and how.
    difference: String,
}

/// A run that could not be replayed.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Failing {
    run: String,
    #[schema(value_type = Object)]
    error: Error,
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
    let body: Activate = post.object()?;
    let shared = app.clone();
    once(&app, post.keyed.clone(), move |keyed| async move {
        let digest = Digest::from_text(body.digest);
        has_workflow(&shared, &digest, &name.0)?;
        if body.dry_run {
            let report = report(&shared, &digest, &name.0).await?;
            let body = Activated { workflow: name.0, digest, dry_run: true, report: Some(report) };
            if let Some(keyed) = keyed {
                let answer = Some(keyed.answer(OK, &body, false));
                shared.engine.store().submit(Submission { actions: Vec::new(), answer }).await?;
            }
            return Ok(Reply::new(OK, body));
        }
        set(&shared, name.0, digest, keyed).await
    })
    .await
}

/// Refuses a module that is not there, or has no such workflow.
pub(super) fn has_workflow(app: &App, digest: &Digest, workflow: &str) -> Result<(), Problem> {
    let row = app.reads().module_row(digest)?;
    let row = row.ok_or_else(|| Problem::new(ApiCode::NotFound, format!("there is no module {digest}")))?;
    #[derive(Deserialize, Default)]
    struct Described {
        workflows: Vec<Named>,
    }
    #[derive(Deserialize)]
    struct Named {
        name: String,
    }
    let described: Described = serde_json::from_str(&row.description).unwrap_or_default();
    let names: Vec<String> = described.workflows.into_iter().map(|one| one.name).collect();
    if names.iter().any(|name| name == workflow) {
        return Ok(());
    }
    let text = format!("module {} has no workflow {workflow:?}; it has {}", digest.short(), names.join(", "));
    Err(Error::new(Code::UnknownWorkflow, text).into())
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
/// Runs of each kind told in one report.
const MAX_TOLD: usize = 100;

/// Replays every open run of the workflow on the module, without effects.
async fn report(app: &App, digest: &Digest, workflow: &str) -> Result<Report, Problem> {
    let mut report = Report::default();
    let mut open = open_runs(app, workflow).await?;
    report.left_out = open.len().saturating_sub(MAX_CHECKED);
    open.truncate(MAX_CHECKED);
    for run in open {
        let name = run.id.as_str().to_owned();
        match app.engine.check(&run, digest).await {
            Ok(Verdict::Same) => report.clean += 1,
            Ok(Verdict::Differs(mismatch)) => {
                report.differs += 1;
                report.differing.push(Differing { run: name, difference: mismatch.to_string() });
            }
            Err(error) => {
                report.failed += 1;
                report.failing.push(Failing { run: name, error });
            }
        }
        report.differing.truncate(MAX_TOLD);
        report.failing.truncate(MAX_TOLD);
        report.checked += 1;
    }
    Ok(report)
}

/// The workflow's runs that have not ended, the latest first.
async fn open_runs(app: &App, workflow: &str) -> Result<Vec<RunRef>, Problem> {
    let (app, workflow) = (app.clone(), workflow.to_owned());
    blocking(move || {
        let mut open = Vec::new();
        for unfinished in app.reads().unfinished()?.0.into_iter().rev() {
            let row = app.reads().run_by_number(unfinished.key)?;
            if let Some(row) = row.filter(|row| row.workflow == workflow) {
                open.push(RunRef { id: row.run, key: row.key });
            }
        }
        Ok(open)
    })
    .await
}
