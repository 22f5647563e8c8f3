//! What clients see of a run, and the wait for its end. Values are passed on as they were written: a tree would spell numbers anew, and
//! cannot hold what is nested deeply.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use stepwell_core::ids::RunId;
use stepwell_core::policy::admission::Wait;
use stepwell_engine::store::{self, Links, NewRun, RunKey, RunRow, Status, Turn};
use stepwell_engine::{queue_text, wait_text};
use utoipa::ToSchema;

use super::app::{App, now_ms};
use super::limits::WaitsFor;
use super::problem::{ApiCode, Problem, ProblemBody};

/// A run. What does not apply is left out.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Run {
    /// Its name.
    id: String,
    /// Its workflow.
    workflow: String,
    /// The module that it is pinned to.
    digest: String,
    /// Where it stands.
    #[schema(value_type = RunStatus)]
    status: &'static str,
    /// The starter's own name for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    run_key: Option<String>,
    /// The run that it was started in the place of.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_of: Option<String>,
    /// The run that it is a rerun of, and from where.
    #[serde(skip_serializing_if = "Option::is_none")]
    rerun_of: Option<RerunOf>,
    /// The run that started it, where that is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<String>,
    /// The run that it goes on for.
    #[serde(skip_serializing_if = "Option::is_none")]
    continued_from: Option<String>,
    /// The run that goes on for it, which has the run key. Whoever waits for this run's end waits for that one's.
    #[serde(skip_serializing_if = "Option::is_none")]
    continued_as: Option<String>,
    /// Which of the limits for each key it counts for.
    #[serde(skip_serializing_if = "Option::is_none")]
    concurrency_key: Option<String>,
    /// Before which others it begins, where it is not 0.
    #[schema(minimum = -100, maximum = 100)]
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<i32>,
    /// Its place among the runs of its workflow that wait to begin, where it waits for one; lists leave it out.
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<Queue>,
    /// The starter's marks on it.
    tags: BTreeMap<String, String>,
    /// The workflow's own words on where it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    status_text: Option<String>,
    /// What it waits for, why it is blocked or set aside.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    /// Until when at the latest, in ms since the Unix epoch, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    until_ms: Option<u64>,
    /// How many of its steps have an unknown outcome, where some have: `/v1/steps?run=` lists them.
    #[serde(skip_serializing_if = "Option::is_none")]
    unknown_steps: Option<u32>,
    /// When it was started, in ms since the Unix epoch.
    created_at_ms: u64,
    /// When its status was last written, in ms since the Unix epoch.
    changed_at_ms: u64,
    /// Its result, where it succeeded; lists and batches leave it out.
    #[schema(value_type = Option<Value>, required = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Box<RawValue>>,
    /// Its error, where it ended otherwise; lists and batches leave it out.
    #[schema(value_type = Option<Value>, required = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Box<RawValue>>,
}

/// Of which run another is a rerun.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RerunOf {
    /// The run; it may have been taken away.
    run: String,
    /// The step from whose beginning the rerun lives by itself.
    from_step: String,
}

impl RerunOf {
    fn of(of: &store::RerunOf) -> Self {
        Self { run: of.run.to_string(), from_step: of.step.clone() }
    }
}

impl Run {
    /// Without its result or error, which may be large.
    pub(crate) fn outlined(self) -> Self {
        Self { result: None, error: None, ..self }
    }

    /// Without the time of its last change, by which one is told from another that says nothing new.
    pub(crate) fn without_time(self) -> Self {
        Self { changed_at_ms: 0, ..self }
    }
}

/// A run's place among those that wait to begin.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Queue {
    /// What it waits for; left out where nothing but those before it is in its way.
    #[serde(skip_serializing_if = "Option::is_none")]
    waits_for: Option<WaitsFor>,
    /// Its place, from 1.
    place: u32,
    /// Its place among those with its concurrency key, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    place_in_key: Option<u32>,
    /// Places are counted up to this one, which then is the least that it can be.
    counted_to: u32,
    /// Until when a rate makes it wait at least, in ms since the Unix epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    until_ms: Option<u64>,
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

/// A run as clients see it.
pub(crate) fn run(row: &RunRow) -> Run {
    let outcome = row.outcome.as_deref().map(raw);
    let (result, error) = if row.status == Status::Succeeded { (outcome, None) } else { (None, outcome) };
    let rests = row.turn.is_none_or(|turn| turn == Turn::Rests) && row.wake_at_ms.is_some();
    let begins = match row.turn {
        _ if row.status != Status::Queued => None,
        Some(Turn::Waits) => Some(wait_text(None)),
        _ => rests.then(|| "its delay".to_owned()),
    };
    Run {
        id: row.run.as_str().to_owned(),
        workflow: row.workflow.clone(),
        digest: row.digest.as_str().to_owned(),
        status: row.status.as_str(),
        run_key: row.run_key.clone(),
        retry_of: row.retry_of.as_ref().map(ToString::to_string),
        rerun_of: row.rerun_of.as_ref().map(RerunOf::of),
        parent: row.links.parent.as_ref().map(|(run, _)| run.to_string()),
        continued_from: row.links.continued_from.as_ref().map(ToString::to_string),
        continued_as: row.links.continued_as.as_ref().map(ToString::to_string),
        concurrency_key: row.concurrency_key.clone(),
        priority: Some(row.priority).filter(|priority| *priority != 0),
        queue: None,
        tags: row.tags.iter().cloned().collect(),
        status_text: row.status_text.clone(),
        detail: row.detail.clone().or(begins),
        until_ms: row.wake_at_ms,
        unknown_steps: (row.unknown > 0).then_some(row.unknown),
        created_at_ms: row.created_at_ms,
        changed_at_ms: row.changed_at_ms,
        result,
        error,
    }
}

/// The same with its place, where it waits to begin.
pub(crate) fn seen(app: &App, row: &RunRow) -> Result<Run, Problem> {
    let view = run(row);
    if row.turn != Some(Turn::Waits) || row.status != Status::Queued {
        return Ok(view);
    }
    // It may have begun since the row was read.
    let Some(found) = app.reads().in_queue(row.key, now_ms())? else { return Ok(view) };
    let above = match &row.links.parent {
        Some((parent, _)) if matches!(found.wait, Some(Wait::Runs(_))) => app.reads().run(parent)?,
        _ => None,
    };
    let above = above.filter(|above| above.workflow == row.workflow && !above.status.is_finished());
    let detail = queue_text(&found, above.as_ref().map(|above| &above.run));
    let queue = Queue {
        waits_for: found.wait.map(WaitsFor::of),
        place: found.place,
        place_in_key: found.place_in_key,
        counted_to: found.counted_to,
        until_ms: found.wait.and_then(Wait::until_ms),
    };
    Ok(Run { detail: Some(detail), queue: Some(queue), ..view })
}

/// A run that is about to be started, as its row will have it.
pub(crate) fn new_run(new: &NewRun) -> Run {
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
        retry_of: new.retry_of.clone(),
        rerun_of: new.rerun.as_ref().map(|rerun| rerun.of.clone()),
        tags: new.tags.iter().cloned().collect::<BTreeMap<_, _>>().into_iter().collect(),
        outcome: None,
        recoveries: 0,
        unknown: new.rerun.as_ref().map_or(0, |rerun| rerun.unknown),
        created_at_ms: new.created_at_ms,
        changed_at_ms: new.created_at_ms,
        turn: None,
        concurrency_key: new.queue.key.clone(),
        priority: new.queue.priority,
        links: Links::default(),
    })
}

/// A JSON text as it was written; as a string where it is no JSON.
pub(crate) fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).or_else(|_| serde_json::value::to_raw_value(text)).unwrap_or_default()
}

/// Anything of ours as JSON text.
pub(crate) fn text(view: &impl Serialize) -> String {
    serde_json::to_string(view).expect("views have texts as keys, and memory takes whatever is written")
}

/// What is looked at of a stored answer.
#[derive(Deserialize)]
struct Stored<'a> {
    id: Option<String>,
    #[serde(borrow)]
    outcomes: Option<Vec<StoredOutcome<'a>>>,
}

#[derive(Deserialize)]
struct StoredOutcome<'a> {
    status: u16,
    #[serde(borrow)]
    run: Option<&'a RawValue>,
    #[serde(borrow)]
    problem: Option<&'a RawValue>,
}

/// A stored answer with the runs that it names as they are now; none where none of them is there any more.
pub(crate) fn as_it_is_now(app: &App, body: &str) -> Result<Option<String>, Problem> {
    let Ok(stored) = serde_json::from_str::<Stored<'_>>(body) else { return Ok(Some(body.to_owned())) };
    if let Some(id) = stored.id {
        return Ok(app.reads().run(&RunId::new(id))?.map(|row| text(&run(&row))));
    }
    let (mut outcomes, mut there) = (Vec::new(), false);
    for StoredOutcome { status, run, problem } in stored.outcomes.unwrap_or_default() {
        let mut outcome = Outcome { status, run: None, problem: problem.map(ToOwned::to_owned) };
        if let Some(id) = run.and_then(|run| id_of(run.get())) {
            match app.run(&id) {
                Ok(row) => outcome.run = Some(self::run(&row).outlined()),
                Err(gone) => outcome.problem = Some(raw(&gone.to_json().to_string())),
            }
        }
        there |= outcome.run.is_some();
        outcomes.push(outcome);
    }
    Ok(there.then(|| text(&Outcomes { outcomes })))
}

/// The id of the run that an answer shows.
pub(crate) fn id_of(body: &str) -> Option<String> {
    serde_json::from_str::<Stored<'_>>(body).ok()?.id
}

/// What became of each start of a batch, in order.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Outcomes {
    pub(crate) outcomes: Vec<Outcome>,
}

/// What became of a start: a run, or a problem.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Outcome {
    /// As of a single start: 201 for a new run, 200 for the one that has the run key, else the problem's.
    pub(crate) status: u16,
    /// The run, without its result or error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) run: Option<Run>,
    /// Why there is none.
    #[schema(value_type = Option<ProblemBody>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) problem: Option<Box<RawValue>>,
}

/// The run once it has ended, or the last of those that have gone on for it; as it is when the time is over or the server stops.
pub(crate) async fn ended(app: &App, run: RunKey, wait_ms: u64) -> Result<RunRow, Problem> {
    let wait = async {
        let mut run = run;
        while end_of_one(app, run).await? {
            match last(app, run)? {
                row if row.key == run => break,
                row => run = row.key,
            }
        }
        Ok::<_, Problem>(())
    };
    tokio::select! {
        waited = tokio::time::timeout(Duration::from_millis(wait_ms), wait) => waited.unwrap_or(Ok(()))?,
        () = app.stopped() => {}
    }
    last(app, run)
}

/// Waits until this one has ended. `false`: nothing more is heard of it.
async fn end_of_one(app: &App, run: RunKey) -> Result<bool, Problem> {
    let mut changes = app.engine.changes(run).await;
    loop {
        changes.borrow_and_update();
        let row = app.reads().run_by_number(run)?;
        if row.as_ref().is_none_or(|row| row.status.is_finished()) {
            return Ok(true);
        }
        if changes.changed().await.is_err() {
            return Ok(false);
        }
    }
}

/// The run, or the last of those that have gone on for it.
pub(crate) fn last(app: &App, run: RunKey) -> Result<RunRow, Problem> {
    let gone = || Problem::new(ApiCode::NotFound, "the run is gone");
    let row = app.reads().run_by_number(run)?.ok_or_else(gone)?;
    match &row.links.last {
        Some(last) => app.reads().run(last)?.ok_or_else(gone),
        None => Ok(row),
    }
}
