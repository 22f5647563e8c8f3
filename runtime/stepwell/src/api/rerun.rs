//! Reruns: a new run that goes on from the journal of one that has ended, as it was before the beginning of a step. It is started as
//! every run is: a key starts it once, and a run key names one run.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use stepwell_core::error::{Code, Error};
use stepwell_core::ids::Digest;
use stepwell_core::policy::idempotency;
use stepwell_engine::store::{NewRun, RunRow, StoreError};
use stepwell_engine::{Rerun, RerunAs, Rerunning, RunRef};
use utoipa::ToSchema;

use super::app::App;
use super::auth::Scope;
use super::json;
use super::keyed::{Keyed, Reply, once};
use super::problem::{ApiCode, Problem, ProblemBody};
use super::request::{Name, OK, Post};
use super::retry::{Void, VoidOther};
use super::starts::check_tags;
use super::views::{self, Run};

/// How a run is rerun.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RerunFrom {
    /// The step from whose beginning the new run lives by itself: `charge`, `charge#2`; `charge#1` is the first of several.
    pub(crate) from_step: String,
    /// The module, where it is not to be the one that the other run had last. What is before the step has to replay clean on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) digest: Option<String>,
    /// What was done since the step began may be done again.
    #[serde(default)]
    pub(crate) confirm: bool,
    /// A name of the starter's own: at most one run has it, for ever. Starting the same again answers that run.
    #[schema(min_length = 1, max_length = 255)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) run_key: Option<String>,
    /// Marks by which it is found, at most 32; those of the other run where they are left out.
    #[serde(default, deserialize_with = "json::optional_tags", skip_serializing_if = "Option::is_none")]
    pub(crate) tags: Option<BTreeMap<String, String>>,
    /// For people; it stands in the journal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    /// Refused: what is before the step was made with the other run's input.
    #[schema(ignore)]
    #[serde(skip_serializing)]
    pub(crate) input: Option<Box<RawValue>>,
}

/// A new run, and what it does again.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RerunStarted {
    /// The new run.
    #[serde(flatten)]
    run: Run,
    /// Steps from before that are attempted again, under the keys that they had: they were not over, or had failed.
    again: Vec<String>,
    /// What was done, or may have been, since the step began: it is done again where the workflow comes to it.
    effects: Vec<Void>,
    /// What was done to other runs since, and children from before that are begun again.
    others: Vec<VoidOther>,
    /// The names of events that came to the other run since, and stay there: send again what the new one needs.
    events_left: Vec<String>,
}

impl RerunStarted {
    fn of(run: &NewRun, new: &Rerunning) -> Self {
        Self {
            run: views::new_run(run),
            again: new.again.iter().map(ToString::to_string).collect(),
            effects: new.done.effects.iter().map(Void::of).collect(),
            others: new.done.others.iter().map(VoidOther::of).collect(),
            events_left: new.events_left.clone(),
        }
    }
}

/// Rerun a run that has ended, from the beginning of a step.
///
/// A new run has everything from before that step as it was, and lives by itself from there, under keys of its own. What was done since
/// is done again: it is listed, and has to be confirmed. The other run stays as it is.
#[utoipa::path(
    post, path = "/v1/runs/{id}/rerun", tag = "runs", request_body = RerunFrom,
    params(("id" = String, Path, description = "The run"), super::openapi::KeyHeader),
    responses(
        (status = 201, description = "A new run", body = RerunStarted),
        (status = 200, description = "The run that has the run key", body = Run),
        (status = 404, body = ProblemBody, content_type = "application/problem+json", description = "There is no such run, step or module"),
        (status = 409, body = ProblemBody, content_type = "application/problem+json", description = "It has not ended; it has several steps of that name; it needs a confirmation: `effects` and `others` list what was done; it differs on the module: the first difference is told; or the run key belongs to another run"),
        (status = 422, body = ProblemBody, content_type = "application/problem+json", description = "The module has no such workflow"),
    )
)]
pub(crate) async fn rerun(State(app): State<App>, name: Name, post: Post) -> Result<Reply, Problem> {
    post.principal.may(Scope::Run)?;
    let from: RerunFrom = post.object()?;
    check(&from)?;
    let (shared, by) = (app.clone(), post.principal.name.clone());
    once(&app, post.keyed.clone(), move |keyed| async move { started(&shared, &name.0, &from, &by, keyed).await }).await
}

fn check(from: &RerunFrom) -> Result<(), Problem> {
    let invalid = |text: String| Problem::new(ApiCode::InvalidRequest, text);
    if from.input.is_some() {
        let text = "input: what is before the step was made with the other run's input; with another one, start a run";
        return Err(invalid(text.to_owned()));
    }
    if let Some(run_key) = &from.run_key {
        idempotency::check_key(run_key).map_err(|error| invalid(format!("runKey: {error}")))?;
    }
    from.tags.as_ref().map_or(Ok(()), check_tags)
}

/// Starts it, or finds the run that has its run key. Where that key or the module was taken in between, or the other run went on,
/// nothing has been kept, and all is looked at anew.
async fn started(app: &App, of: &str, from: &RerunFrom, by: &str, keyed: Option<Keyed>) -> Result<Reply, Problem> {
    loop {
        let row = app.run(of)?;
        if let Some(run_key) = &from.run_key
            && let Some(holder) = app.reads().run_by_run_key(run_key)?
        {
            let view = existing(&row, &holder, &from.from_step, run_key)?;
            if let Some(keyed) = &keyed {
                app.engine.start_all(Vec::new(), Some(keyed.answer(OK, &view, false))).await?;
            }
            return Ok(Reply::new(OK, view));
        }
        let digest = from.digest.clone().map(Digest::from_text);
        if let Some(digest) = &digest
            && app.reads().module_row(digest)?.is_none()
        {
            return Err(Problem::new(ApiCode::NotFound, format!("there is no module {digest}")));
        }
        let ask = RerunAs {
            rerun: Rerun { from_step: from.from_step.clone(), digest, confirm: from.confirm, ..Rerun::default() },
            run_key: from.run_key.clone(),
            tags: from.tags.clone().map(|tags| tags.into_iter().collect()),
            reason: from.reason.clone().unwrap_or_default(),
            by: by.to_owned(),
        };
        let run = RunRef { id: row.run.clone(), key: row.key };
        let (run, new) = app.engine.prepare_rerun(&run, ask).await?;
        if app.reads().module_row(&run.digest)?.is_none() {
            let text = format!("there is no module {}: name another by its digest", run.digest);
            return Err(Error::new(Code::InvalidModule, text).into());
        }
        let view = RerunStarted::of(&run, &new);
        let answer = keyed.as_ref().map(|keyed| keyed.answer(StatusCode::CREATED, &view, true));
        match app.engine.start_all(vec![run], answer).await {
            Ok(_) => return Ok(Reply::new(StatusCode::CREATED, view)),
            Err(StoreError::RunKeyTaken(_) | StoreError::NoSuchModule(_) | StoreError::Outdated) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The run that has the run key, if it is a rerun of the same run from the same step.
fn existing(of: &RunRow, holder: &RunRow, step: &str, run_key: &str) -> Result<Run, Problem> {
    let step = step.strip_suffix("#1").unwrap_or(step);
    if holder.rerun_of.as_ref().is_some_and(|rerun| rerun.run == of.run && rerun.step == step) {
        return Ok(views::run(holder));
    }
    let text =
        format!("the run key {run_key:?} belongs to run {}, which is no rerun of that run from that step", holder.run);
    Err(Problem::new(ApiCode::RunKeyConflict, text).with("run", holder.run.as_str()))
}
