//! What people ask of a run: cancel, terminate, pause, resume. Each is on record when it is answered; what it comes to in each state
//! of the run is the engine's.

use std::future::Future;

use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use stepwell_core::error::{Code, Error};
use stepwell_core::ids::{Digest, RunId};
use stepwell_engine::{AskError, Asker, Engine, Granted, Refusal, RunRef, Said};
use utoipa::ToSchema;

use super::app::App;
use super::auth::Scope;
use super::keyed::{Keyed, Reply, once};
use super::problem::{ApiCode, Problem, ProblemBody};
use super::request::{Name, Post};
use super::retry::{Void, VoidOther};
use super::steer::Accepted;
use super::workflows::has_workflow;

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
    let reason = asked(&post, "cancelled")?;
    ask(&app, name, &post, "cancel", |engine, run, by| async move { Ok(engine.cancel(&run, by, &reason).await?) }).await
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
    let reason = asked(&post, "terminated")?;
    ask(&app, name, &post, "terminate", |engine, run, by| async move { Ok(engine.terminate(&run, by, &reason).await?) })
        .await
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
    let reason = asked(&post, "paused")?;
    ask(&app, name, &post, "pause", |engine, run, by| async move { Ok(engine.pause(&run, by, &reason).await?) }).await
}

/// Why a run is taken up again, and on what.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResumeOn {
    /// For people.
    #[allow(dead_code)] // Taken as with the others; the journal has who resumed a run, and no reason.
    reason: Option<String>,
    /// The module that the run is to go on with; its own where it is left out.
    digest: Option<String>,
}

/// Take a run up again that was paused, or set aside by the engine.
///
/// With a `digest` it goes on with that module, if it replays on it as its journal has it. A run that is live is paused first.
#[utoipa::path(
    post, path = "/v1/runs/{id}/resume", tag = "runs", request_body(content = Option<ResumeOn>),
    params(("id" = String, Path, description = "The run"), super::openapi::KeyHeader),
    responses(
        (status = 202, description = "It goes on", body = Accepted),
        (status = 404, body = ProblemBody, content_type = "application/problem+json", description = "There is no such run or module"),
        (status = 409, body = ProblemBody, content_type = "application/problem+json", description = "It has ended, or its end is decided; or it is live on its module, or differs on the other one: the first difference is told"),
        (status = 422, body = ProblemBody, content_type = "application/problem+json", description = "The module has no such workflow"),
    )
)]
pub(crate) async fn resume(State(app): State<App>, name: Name, post: Post) -> Result<Reply, Problem> {
    post.principal.may(Scope::Run)?;
    let on: ResumeOn = post.object_or_default()?;
    let digest = on.digest.map(Digest::from_text);
    let (shared, to) = (app.clone(), digest.clone());
    ask(&app, name, &post, "resume", |engine, run, by| async move {
        if let Some(digest) = &digest {
            let row = engine.store().read().run(&run.id)?;
            let row = row.ok_or_else(|| Problem::from(AskError::NoSuchRun(run.id.clone())))?;
            has_workflow(&shared, digest, &row.workflow)?;
        }
        Ok(engine.resume(&run, by, to.as_ref()).await?)
    })
    .await
}

/// Why it is asked.
fn asked(post: &Post, what: &str) -> Result<String, Problem> {
    post.principal.may(Scope::Run)?;
    let why: Why = post.object_or_default()?;
    Ok(why.reason.unwrap_or_else(|| format!("the run was {what} by {:?}", post.principal.name)))
}

/// Whoever asks by this request. What `body` makes of the answer is kept under the request's key, in the commit that has what was
/// asked: so a repetition is answered as the first one was, whenever the process dies.
pub(super) fn asker(
    by: &str,
    keyed: Option<Keyed>,
    status: StatusCode,
    body: impl Fn(&Said) -> Value + Send + Sync + 'static,
) -> Asker {
    let asker = Asker::from(by);
    match keyed {
        Some(keyed) => asker.keeping(move |said| keyed.answer(status, &body(said), false)),
        None => asker,
    }
}

/// Asks it of the run.
async fn ask<F, W>(app: &App, name: Name, post: &Post, what: &'static str, put: F) -> Result<Reply, Problem>
where
    F: FnOnce(Engine, RunRef, Asker) -> W + Send + 'static,
    W: Future<Output = Result<Granted, Problem>> + Send + 'static,
{
    let (shared, by) = (app.clone(), post.principal.name.clone());
    once(app, post.keyed.clone(), move |keyed| async move {
        let row = shared.run(&name.0)?;
        let run = RunRef { id: row.run.clone(), key: row.key };
        let id = row.run.clone();
        let by = asker(&by, keyed, StatusCode::ACCEPTED, move |said| accepted(&id, what, said.granted()));
        let granted = put(shared.engine.clone(), run, by).await?;
        Ok(Reply::new(StatusCode::ACCEPTED, accepted(&row.run, what, granted)))
    })
    .await
}

fn accepted(run: &RunId, what: &str, granted: Granted) -> Value {
    let mut body = json!({ "run": run, "accepted": what });
    if let Some(when) = when(granted) {
        body["when"] = when.into();
    }
    body
}

/// When it takes its course, where that is not now.
pub(super) fn when(granted: Granted) -> Option<&'static str> {
    match granted {
        Granted::Now => None,
        Granted::OnResume => Some("once_resumed"),
        Granted::Already => Some("already"),
    }
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
            AskError::Refused(Refusal::NotFailed) => Self::new(ApiCode::RunNotFailed, text),
            AskError::Refused(Refusal::StepNotFailed(_)) => Self::new(ApiCode::StepNotFailed, text),
            AskError::Refused(Refusal::NeedsCode) => Self::new(ApiCode::RetryNeedsModule, text),
            AskError::Refused(Refusal::NeedsConfirm(effects, others)) => {
                let effects: Vec<Void> = effects.iter().map(Void::of).collect();
                let others: Vec<VoidOther> = others.iter().map(VoidOther::of).collect();
                Self::new(ApiCode::RetryNeedsConfirm, text)
                    .with("effects", json!(effects))
                    .with("others", json!(others))
            }
            AskError::Refused(Refusal::NotEnded) => Self::new(ApiCode::RunNotEnded, text),
            AskError::Refused(Refusal::StepAmbiguous { ids, .. }) => {
                Self::new(ApiCode::StepAmbiguous, text).with("steps", json!(ids))
            }
            AskError::Refused(Refusal::NoRerun(_)) => Self::new(ApiCode::RerunImpossible, text),
            AskError::Refused(Refusal::RerunNeedsConfirm(done)) => {
                let effects: Vec<Void> = done.effects.iter().map(Void::of).collect();
                let others: Vec<VoidOther> = done.others.iter().map(VoidOther::of).collect();
                Self::new(ApiCode::RerunNeedsConfirm, text)
                    .with("effects", json!(effects))
                    .with("others", json!(others))
                    .with("inDoubt", done.in_doubt)
            }
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
