//! A retry of a failed run: what is asked, what it leads to, and what was done that may be done again by it.

use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use stepwell_core::ids::{Digest, RunId};
use stepwell_engine::{ErrandKind, Retried, Retry, RunRef, Said, VoidEffect, VoidErrand};
use utoipa::ToSchema;

use super::app::App;
use super::asks::asker;
use super::auth::Scope;
use super::keyed::{Reply, once};
use super::problem::{ApiCode, Problem, ProblemBody};
use super::request::{Name, Post};

/// How a failed run is taken up again.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RetryOf {
    /// For people; it stands in the journal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    /// The step whose failure the run is taken back to; the one that has reached the run's end where it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) from_step: Option<String>,
    /// The module that it goes on with, where that is another. It has to replay clean on it so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) digest: Option<String>,
    /// What was done after that point may be done again.
    #[serde(default)]
    pub(crate) confirm: bool,
}

/// What a retry has led to.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct RetryAccepted {
    /// The run.
    run: String,
    /// `retry`.
    accepted: String,
    /// The step whose failure it was taken back to. None where it lives through its own code's last turn anew.
    #[schema(required = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<String>,
    /// The steps that are attempted again.
    pub(crate) again: Vec<String>,
    /// What was done, or may have been, after that point.
    effects: Vec<Void>,
    /// What was done to other runs after that point, and children that have no result: each is begun again as a new run.
    #[schema(required = false)]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    others: Vec<VoidOther>,
}

/// What the run did to another.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct VoidOther {
    /// The other run.
    run: String,
    /// It was started as a child of this workflow.
    #[schema(required = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    child: Option<String>,
    /// An event of this name was sent to it.
    #[schema(required = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<String>,
}

impl VoidOther {
    pub(super) fn of(of: &VoidErrand) -> Self {
        let (child, event) = match &of.what {
            ErrandKind::Child(workflow) => (Some(workflow.clone()), None),
            ErrandKind::Event(name) => (None, Some(name.clone())),
        };
        Self { run: of.run.to_string(), child, event }
    }
}

/// A request of a step that was begun after the point that the run was taken back to.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct Void {
    /// The step.
    step: String,
    /// Its number within the step, from 1.
    effect: u32,
    /// The method.
    method: String,
    /// The URL.
    url: String,
    /// What stood in its `Idempotency-Key` header.
    #[schema(required = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    /// It is known that it happened; else it may have.
    done: bool,
}

impl RetryAccepted {
    fn of(run: &RunId, retried: &Retried) -> Self {
        Self {
            run: run.to_string(),
            accepted: "retry".to_owned(),
            step: retried.step.as_ref().map(ToString::to_string),
            again: retried.again.iter().map(ToString::to_string).collect(),
            effects: retried.void.iter().map(Void::of).collect(),
            others: retried.others.iter().map(VoidOther::of).collect(),
        }
    }
}

impl Void {
    pub(super) fn of(of: &VoidEffect) -> Self {
        Self {
            step: of.step.to_string(),
            effect: of.effect,
            method: of.method.clone(),
            url: of.url.clone(),
            key: of.key.clone(),
            done: of.done,
        }
    }
}

/// Take a failed run up again, from the failure that ended it.
///
/// The steps that failed are attempted again, under the keys that they had; what was told to the workflow after that point is void.
/// What was done after it is listed, and has to be confirmed; so are child runs without a result, which are begun again as new runs.
#[utoipa::path(
    post, path = "/v1/runs/{id}/retry", tag = "runs", request_body(content = Option<RetryOf>),
    params(("id" = String, Path, description = "The run"), super::openapi::KeyHeader),
    responses(
        (status = 202, description = "It goes on", body = RetryAccepted),
        (status = 404, body = ProblemBody, content_type = "application/problem+json", description = "There is no such run or step"),
        (status = 409, body = ProblemBody, content_type = "application/problem+json", description = "It has not failed; or it needs another module, or a confirmation: `effects` and `others` list what was done"),
    )
)]
pub(crate) async fn retry(State(app): State<App>, name: Name, post: Post) -> Result<Reply, Problem> {
    post.principal.may(Scope::Run)?;
    let RetryOf { reason, from_step, digest, confirm } = post.object_or_default()?;
    let by = post.principal.name.clone();
    let reason = reason.unwrap_or_default();
    let retry = Retry { from_step, digest: digest.map(Digest::from_text), confirm, ..Retry::default() };
    let shared = app.clone();
    once(&app, post.keyed.clone(), move |keyed| async move {
        let row = shared.run(&name.0)?;
        if let Some(digest) = &retry.digest
            && shared.reads().module_row(digest)?.is_none()
        {
            return Err(Problem::new(ApiCode::NotFound, format!("there is no module {digest}")));
        }
        let run = RunRef { id: row.run.clone(), key: row.key };
        let id = row.run.clone();
        let by = asker(&by, keyed, StatusCode::ACCEPTED, move |said| match said {
            Said::Retried(of) => json!(RetryAccepted::of(&id, of)),
            _ => Value::Null,
        });
        let of = shared.engine.retry(&run, by, retry, &reason).await?;
        Ok(Reply::new(StatusCode::ACCEPTED, RetryAccepted::of(&row.run, &of)))
    })
    .await
}
