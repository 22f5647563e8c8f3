//! What people ask of a run: cancel, terminate, pause, resume. Each is on record when it is answered; what it comes to in each state
//! of the run is the engine's.

use std::future::Future;

use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::json;
use stepwell_core::error::{Code, Error};
use stepwell_engine::store::Submission;
use stepwell_engine::{AskError, Engine, Granted, Refusal, RunRef};
use utoipa::ToSchema;

use super::app::App;
use super::auth::Scope;
use super::keyed::{Reply, once};
use super::problem::{ApiCode, Problem, ProblemBody};
use super::request::{Name, Post};
use super::steer::Accepted;

/// Why it is asked.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Why {
    /// For people; it stands in the journal. Of a cancel the workflow is told it, and the run's error has it.
    reason: Option<String>,
}

/// Cancel a run. Its workflow is told, may clean up, and ends.
#[utoipa::path(
    post, path = "/v1/runs/{id}/cancel", tag = "runs", request_body(content = Option<Why>),
    params(("id" = String, Path, description = "The run"), super::openapi::KeyHeader),
    responses(
        (status = 202, description = "It will be cancelled, whatever happens to the server", body = Accepted),
        (status = 404, body = ProblemBody, content_type = "application/problem+json", description = "There is no such run"),
        (status = 409, body = ProblemBody, content_type = "application/problem+json", description = "It has ended, or its end is decided"),
    )
)]
pub(crate) async fn cancel(State(app): State<App>, name: Name, post: Post) -> Result<Reply, Problem> {
    let (by, reason) = asked(&post, "cancelled")?;
    ask(&app, name, &post, "cancel", |engine, run| async move { engine.cancel(&run, &by, &reason).await }).await
}

/// End a run at once. No code of it runs any more; what may have happened stays unknown, and listed.
#[utoipa::path(
    post, path = "/v1/runs/{id}/terminate", tag = "runs", request_body(content = Option<Why>),
    params(("id" = String, Path, description = "The run"), super::openapi::KeyHeader),
    responses(
        (status = 202, description = "It ends as soon as its requests are torn down", body = Accepted),
        (status = 404, body = ProblemBody, content_type = "application/problem+json", description = "There is no such run"),
        (status = 409, body = ProblemBody, content_type = "application/problem+json", description = "It has ended"),
    )
)]
pub(crate) async fn terminate(State(app): State<App>, name: Name, post: Post) -> Result<Reply, Problem> {
    let (by, reason) = asked(&post, "terminated")?;
    ask(&app, name, &post, "terminate", |engine, run| async move { engine.terminate(&run, &by, &reason).await }).await
}

/// Pause a run. No attempt starts, no timer fires and its workflow is told nothing until it is resumed.
#[utoipa::path(
    post, path = "/v1/runs/{id}/pause", tag = "runs", request_body(content = Option<Why>),
    params(("id" = String, Path, description = "The run"), super::openapi::KeyHeader),
    responses(
        (status = 202, description = "It is paused; attempts under way come to their end", body = Accepted),
        (status = 404, body = ProblemBody, content_type = "application/problem+json", description = "There is no such run"),
        (status = 409, body = ProblemBody, content_type = "application/problem+json", description = "It has ended, or its end is decided"),
    )
)]
pub(crate) async fn pause(State(app): State<App>, name: Name, post: Post) -> Result<Reply, Problem> {
    let (by, reason) = asked(&post, "paused")?;
    ask(&app, name, &post, "pause", |engine, run| async move { engine.pause(&run, &by, &reason).await }).await
}

/// Take a run up again that was paused, or set aside by the engine.
#[utoipa::path(
    post, path = "/v1/runs/{id}/resume", tag = "runs", request_body(content = Option<Why>),
    params(("id" = String, Path, description = "The run"), super::openapi::KeyHeader),
    responses(
        (status = 202, description = "It goes on", body = Accepted),
        (status = 404, body = ProblemBody, content_type = "application/problem+json", description = "There is no such run"),
        (status = 409, body = ProblemBody, content_type = "application/problem+json", description = "It has ended, or its end is decided"),
    )
)]
pub(crate) async fn resume(State(app): State<App>, name: Name, post: Post) -> Result<Reply, Problem> {
    let (by, _) = asked(&post, "resumed")?;
    ask(&app, name, &post, "resume", |engine, run| async move { engine.resume(&run, &by, None).await }).await
}

/// Who asks, and why.
fn asked(post: &Post, what: &str) -> Result<(String, String), Problem> {
    post.principal.may(Scope::Run)?;
    let why: Why = post.json_or_default()?;
    let by = post.principal.name.clone();
    let reason = why.reason.unwrap_or_else(|| format!("the run was {what} by {by:?}"));
    Ok((by, reason))
}

/// Asks it of the run. The answer is kept under the request's key after it is true: where the process dies between the two, a
/// repetition is answered by the run itself.
async fn ask<F, W>(app: &App, name: Name, post: &Post, what: &'static str, put: F) -> Result<Reply, Problem>
where
    F: FnOnce(Engine, RunRef) -> W + Send + 'static,
    W: Future<Output = Result<Granted, AskError>> + Send + 'static,
{
    let shared = app.clone();
    once(app, post.keyed.clone(), move |keyed| async move {
        let row = shared.run(&name.0)?;
        let run = RunRef { id: row.run.clone(), key: row.key };
        let granted = put(shared.engine.clone(), run).await?;
        let mut body = json!({ "run": row.run, "accepted": what });
        match granted {
            Granted::Now => {}
            Granted::OnResume => body["when"] = json!("once_resumed"),
            Granted::Already => body["when"] = json!("already"),
        }
        if let Some(keyed) = keyed {
            let answer = Some(keyed.answer(StatusCode::ACCEPTED, &body, false));
            let _ = shared.engine.store().submit(Submission { actions: Vec::new(), answer }).await?;
        }
        Ok(Reply::new(StatusCode::ACCEPTED, body))
    })
    .await
}

impl From<AskError> for Problem {
    fn from(error: AskError) -> Self {
        let text = error.to_string();
        match error {
            AskError::NoSuchRun(_) => Self::new(ApiCode::NotFound, text),
            AskError::Refused(Refusal::Ended(_)) => Self::new(ApiCode::RunFinished, text),
            AskError::Refused(Refusal::TooLarge { .. }) => Error::new(Code::ResultTooLarge, text).into(),
            AskError::Refused(Refusal::NoSuchStep(_)) => Self::new(ApiCode::NotFound, text),
            AskError::Refused(Refusal::StepNotUnknown { .. }) => Self::new(ApiCode::StepNotUnknown, text),
            AskError::Refused(Refusal::Ending) => Self::new(ApiCode::RunEnding, text),
            AskError::Store(error) => error.into(),
            AskError::Differs(error) | AskError::Failed(error) => error.into(),
            // That it is being set aside, or went on meanwhile; and whatever may be refused one day.
            _ => Self::new(ApiCode::RunBusy, text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_by_its_code_what_is_to_be_done() {
        let of = |refusal| Problem::from(AskError::Refused(refusal)).to_json()["code"].clone();
        assert_eq!(of(Refusal::Ending), "run_ending");
        assert_eq!(of(Refusal::Stopped), "run_busy");
        assert_eq!(of(Refusal::NoSuchStep("charge".into())), "not_found");
        assert_eq!(
            of(Refusal::StepNotUnknown { step: "charge".into(), stands: "it has succeeded" }),
            "step_not_unknown"
        );
        let full = AskError::Store(stepwell_engine::store::StoreError::DiskFull("no room".into()));
        assert_eq!(Problem::from(full).status(), StatusCode::SERVICE_UNAVAILABLE);
    }
}
