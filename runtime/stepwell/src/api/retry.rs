//! A retry of a failed run: what is asked, what it leads to, and what was done that may be done again by it.

use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use stepwell_core::ids::{Digest, RunId};
use stepwell_engine::{Retried, Retry, RunRef, Said, VoidEffect};
use utoipa::ToSchema;

use super::app::App;
use super::asks::asker;
use super::auth::Scope;
use super::keyed::{Reply, once};
use super::problem::{ApiCode, Problem, ProblemBody};
use super::request::{Name, Post};

/// How a failed run is taken up again.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RetryOf {
    /// For people; it stands in the journal.
    reason: Option<String>,
    /// The step whose failure the run is taken back to; the one that has reached the run's end where it is left out.
    from_step: Option<String>,
    /// The module that it goes on with, where that is another. It has to replay clean on it so far.
    digest: Option<String>,
    /// What was done after that point may be done again.
    #[serde(default)]
    confirm: bool,
}

/// What a retry has led to.
#[derive(Debug, Serialize, ToSchema)]
#[allow(dead_code)] // Describes what `retried` writes.
pub(crate) struct RetryAccepted {
    /// The run.
    run: String,
    /// `retry`.
    accepted: String,
    /// The step whose failure it was taken back to. None where it lives through its own code's last turn anew.
    #[schema(required = false)]
    step: Option<String>,
    /// The steps that are attempted again.
    again: Vec<String>,
    /// What was done, or may have been, after that point.
    effects: Vec<VoidEffectView>,
}

/// A request of a step that was begun after the point that the run was taken back to.
#[derive(Debug, Serialize, ToSchema)]
#[allow(dead_code)] // Describes what `void` writes.
pub(crate) struct VoidEffectView {
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
    key: Option<String>,
    /// It is known that it happened; else it may have.
    done: bool,
}

/// Take a failed run up again, from the failure that ended it.
///
/// The steps that failed are attempted again, under the keys that they had; what was told to the workflow after that point is void.
/// What was done after it is listed, and has to be confirmed.
#[utoipa::path(
    post, path = "/v1/runs/{id}/retry", tag = "runs", request_body(content = Option<RetryOf>),
    params(("id" = String, Path, description = "The run"), super::openapi::KeyHeader),
    responses(
        (status = 202, description = "It goes on", body = RetryAccepted),
        (status = 404, body = ProblemBody, content_type = "application/problem+json", description = "There is no such run or step"),
        (status = 409, body = ProblemBody, content_type = "application/problem+json", description = "It has not failed; or it needs another module, or a confirmation: `effects` lists what was done"),
    )
)]
pub(crate) async fn retry(State(app): State<App>, name: Name, post: Post) -> Result<Reply, Problem> {
    post.principal.may(Scope::Run)?;
    let RetryOf { reason, from_step, digest, confirm } = post.json_or_default()?;
    let by = post.principal.name.clone();
    let reason = reason.unwrap_or_default();
    let retry = Retry { from_step, digest: digest.map(Digest::from_text), confirm };
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
            Said::Retried(of) => retried(&id, of),
            _ => Value::Null,
        });
        let of = shared.engine.retry(&run, by, retry, &reason).await?;
        Ok(Reply::new(StatusCode::ACCEPTED, retried(&row.run, &of)))
    })
    .await
}

fn retried(run: &RunId, of: &Retried) -> Value {
    let again: Vec<String> = of.again.iter().map(ToString::to_string).collect();
    let mut body = json!({ "run": run, "accepted": "retry", "again": again, "effects": void(&of.void) });
    if let Some(step) = &of.step {
        body["step"] = step.to_string().into();
    }
    body
}

pub(super) fn void(effects: &[VoidEffect]) -> Vec<Value> {
    let shown = |of: &VoidEffect| {
        let mut effect = json!({
            "step": of.step.to_string(), "effect": of.effect, "method": of.method, "url": of.url, "done": of.done,
        });
        if let Some(key) = &of.key {
            effect["key"] = key.clone().into();
        }
        effect
    };
    effects.iter().map(shown).collect()
}
