//! Starting runs, one or many: each key starts once, each run key names one run. One function resolves what is asked for,
//! whichever way it comes.

use std::collections::{BTreeMap, HashMap};

use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::value::RawValue;
use stepwell_core::error::Error;
use stepwell_core::ids::{Digest, RunId};
use stepwell_core::journal::codec;
use stepwell_core::journal::entry::Record;
use stepwell_core::json::Json;
use stepwell_core::limits;
use stepwell_core::policy::idempotency;
use stepwell_engine::StartRun;
use stepwell_engine::store::{Answer, NewRun, RunRow, Status, StoreError};
use utoipa::ToSchema;

use super::app::App;
use super::auth::Scope;
use super::json::{self, Members};
use super::keyed::{Keyed, Reply, once};
use super::problem::{ApiCode, Problem, ProblemBody};
use super::request::{Name, OK, Post, Query, wait_ms};
use super::views::{self, Outcome, Outcomes, Run, raw};

/// Tags of a run.
const MAX_TAGS: usize = limits::MAX_TAGS;
/// Starts in one batch.
const MAX_BATCH: usize = 1_000;

/// A run to be started.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Start {
    /// Its input, any JSON of at most 2 MiB; null where it is left out.
    #[schema(value_type = Option<Value>, required = false)]
    input: Option<Box<RawValue>>,
    /// A name of the starter's own: at most one run has it, for ever. Starting the same again answers that run.
    #[schema(min_length = 1, max_length = 255)]
    run_key: Option<String>,
    /// How long the run may be open, in ms; then it is cancelled.
    #[schema(minimum = 1, maximum = 315576000000u64)]
    run_timeout_ms: Option<u64>,
    /// The module, where it is not to be the workflow's active one.
    digest: Option<String>,
    /// Marks by which it is found, at most 32.
    #[serde(default, deserialize_with = "json::tags")]
    tags: BTreeMap<String, String>,
    /// How long it rests before it begins, in ms.
    #[schema(minimum = 0, maximum = 315576000000u64)]
    #[serde(default)]
    delay_ms: u64,
    /// The run of the same workflow that it is started in the place of: one that has failed, or was cancelled or terminated. Keys are
    /// the new run's own.
    retry_of: Option<String>,
    /// Where its workflow has limits for each key: which it counts for.
    #[schema(min_length = 1, max_length = 200)]
    concurrency_key: Option<String>,
    /// Where it has to wait: before runs of a lower one, after those of its own that were started before it.
    #[schema(minimum = -100, maximum = 100)]
    #[serde(default)]
    priority: i32,
}

/// A run to be started, of this workflow.
#[derive(Debug, ToSchema)]
#[schema(rename_all = "camelCase")]
#[allow(dead_code)] // Describes what `named` reads.
pub(crate) struct BatchStart {
    /// The workflow.
    workflow: String,
    #[serde(flatten)]
    start: Start,
}

/// Runs to be started.
#[derive(Debug, ToSchema)]
#[allow(dead_code)] // Describes what `batch` reads.
pub(crate) struct Batch {
    /// At most 1,000.
    #[schema(max_items = 1000)]
    runs: Vec<BatchStart>,
}

/// Start a run.
///
/// With `wait` the answer comes when the run has ended, or the time is over, and shows the run as it is then, or the one that goes on
/// for it; so does a repetition's.
#[utoipa::path(
    post, path = "/v1/workflows/{name}/runs", tag = "runs", request_body = Start,
    params(
        ("name" = String, Path, description = "The workflow"), super::openapi::KeyHeader,
        ("wait" = Option<String>, Query, description = "Wait for its end for so long, e.g. 30s; at most 60s"),
    ),
    responses(
        (status = 201, description = "A new run", body = Run),
        (status = 200, description = "The run that has the run key", body = Run),
        (status = 404, body = ProblemBody, content_type = "application/problem+json", description = "There is no run to start it in the place of"),
        (status = 409, body = ProblemBody, content_type = "application/problem+json", description = "The run key belongs to another run, or what it is to be started in the place of has not failed"),
        (status = 413, body = ProblemBody, content_type = "application/problem+json", description = "The input is too large"),
        (status = 422, body = ProblemBody, content_type = "application/problem+json", description = "It cannot be started"),
    )
)]
pub(crate) async fn start(State(app): State<App>, name: Name, query: Query, post: Post) -> Result<Reply, Problem> {
    post.principal.may(Scope::Run)?;
    let wait = wait_ms(query.one("wait")?)?;
    let start: Start = post.object()?;
    let shared = app.clone();
    let reply = once(&app, post.keyed.clone(), move |keyed| async move {
        let mut resolved = resolve(&shared, vec![(name.0, start)], keyed, Form::One).await?;
        let nothing = || Err(Problem::new(ApiCode::Internal, "nothing was started"));
        resolved.pop().unwrap_or_else(nothing).map(|(status, run)| Reply::new(status, run))
    })
    .await?;
    match wait {
        None => Ok(reply),
        Some(wait_ms) => {
            let started = RunId::new(views::id_of(&reply.body).unwrap_or_default());
            // A repetition may speak of a run that has been taken away.
            let Some(row) = app.reads().run(&started)? else { return Ok(reply) };
            let row = views::ended(&app, row.key, wait_ms).await?;
            Ok(reply.current(&views::seen(&app, &row)?))
        }
    }
}

/// Start many runs, each with an outcome of its own.
///
/// All that can be started are, in one transaction. Where the server itself fails with one of them, the batch fails, and none is.
#[utoipa::path(
    post, path = "/v1/runs:batch", tag = "runs", request_body = Batch, params(super::openapi::KeyHeader),
    responses((status = 200, description = "What became of each, in order", body = Outcomes))
)]
pub(crate) async fn batch(State(app): State<App>, post: Post) -> Result<Reply, Problem> {
    post.principal.may(Scope::Run)?;
    let batch: RawBatch = post.object()?;
    if batch.runs.len() > MAX_BATCH {
        let text = format!("the batch has {} runs; at most {MAX_BATCH} are taken", batch.runs.len());
        return Err(Problem::new(ApiCode::InvalidRequest, text));
    }
    let starts = batch.runs.iter().enumerate().map(|(index, run)| named(index, run)).collect::<Result<Vec<_>, _>>()?;
    let shared = app.clone();
    once(&app, post.keyed.clone(), move |keyed| async move {
        let outcomes = resolve(&shared, starts, keyed, Form::Batch).await?;
        Ok(Reply::new(OK, told(outcomes)))
    })
    .await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawBatch {
    runs: Vec<Box<RawValue>>,
}

/// A member of a batch: a start with the workflow's name beside it. The input stays as it was written.
fn named(index: usize, text: &RawValue) -> Result<(String, Start), Problem> {
    let invalid = |why: String| {
        Problem::new(ApiCode::InvalidRequest, format!("the body is not understood: runs[{index}]: {why}"))
    };
    let Members(mut members) = json::part::<Members<Box<RawValue>>>(text.get()).map_err(invalid)?;
    let workflow = members.remove("workflow").ok_or_else(|| invalid("missing field `workflow`".to_owned()))?;
    let workflow = serde_json::from_str(workflow.get());
    let workflow = workflow.map_err(|_| invalid("workflow: it is no text".to_owned()))?;
    let rest = serde_json::value::to_raw_value(&members).map_err(|error| invalid(error.to_string()))?;
    Ok((workflow, json::part(rest.get()).map_err(invalid)?))
}

/// The outcomes of a batch.
fn told(outcomes: Vec<Outcomed>) -> Outcomes {
    let outcome = |outcome: Outcomed| match outcome {
        Ok((status, run)) => Outcome { status: status.as_u16(), run: Some(run), problem: None },
        Err(problem) => {
            Outcome { status: problem.status().as_u16(), run: None, problem: Some(raw(&problem.to_json().to_string())) }
        }
    };
    Outcomes { outcomes: outcomes.into_iter().map(outcome).collect() }
}

/// How starts are answered.
#[derive(Clone, Copy)]
enum Form {
    One,
    Batch,
}

impl Form {
    /// A run that is there. A batch leaves results out: a thousand of them could have any size.
    fn shown(self, run: Run) -> Run {
        match self {
            Self::One => run,
            Self::Batch => run.outlined(),
        }
    }
}

type Outcomed = Result<(StatusCode, Run), Problem>;

/// Resolves starts, each to a new run, the one that has its run key, or a refusal; and keeps the new ones with the answer, all at
/// once. Where a run key or a module was taken in between, nothing has been kept, and all is resolved anew.
///
/// # Errors
/// Also where the server failed with one of them: a failure that passes must not be kept under the key as an outcome.
async fn resolve(
    app: &App,
    starts: Vec<(String, Start)>,
    keyed: Option<Keyed>,
    form: Form,
) -> Result<Vec<Outcomed>, Problem> {
    loop {
        let mut new: Vec<NewRun> = Vec::new();
        let mut taken: HashMap<String, Asked> = HashMap::new();
        let mut outcomes: Vec<Outcomed> = Vec::with_capacity(starts.len());
        for (index, (workflow, start)) in starts.iter().enumerate() {
            match one(app, workflow, start, &mut taken).await {
                Ok(Found::Existing(run)) => outcomes.push(Ok((OK, form.shown(*run)))),
                Ok(Found::New(run)) => {
                    outcomes.push(Ok((StatusCode::CREATED, views::new_run(&run))));
                    new.push(*run);
                }
                Err(problem) if problem.status().is_server_error() => {
                    return Err(match form {
                        Form::One => problem,
                        Form::Batch => problem.with("index", index),
                    });
                }
                Err(problem) => outcomes.push(Err(problem)),
            }
        }
        let answer = keyed.as_ref().and_then(|keyed| answer(keyed, form, &outcomes, !new.is_empty()));
        if new.is_empty() && answer.is_none() {
            return Ok(outcomes);
        }
        match app.engine.start_all(new, answer).await {
            Ok(_) => return Ok(outcomes),
            Err(StoreError::RunKeyTaken(_) | StoreError::NoSuchModule(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// What is kept under the key. A refusal leaves it unused.
fn answer(keyed: &Keyed, form: Form, outcomes: &[Outcomed], kept: bool) -> Option<Answer> {
    match (form, outcomes) {
        (Form::Batch, all) => Some(keyed.answer(OK, &told(all.to_vec()), kept)),
        (Form::One, [Ok((status, run))]) => Some(keyed.answer(*status, run, kept)),
        (Form::One, _) => None,
    }
}

/// A run that an earlier start of the same batch has its run key for.
struct Asked {
    run: RunId,
    workflow: String,
    input: Json,
    view: Run,
}

enum Found {
    New(Box<NewRun>),
    Existing(Box<Run>),
}

async fn one(app: &App, workflow: &str, start: &Start, taken: &mut HashMap<String, Asked>) -> Result<Found, Problem> {
    let invalid = |text: String| Problem::new(ApiCode::InvalidRequest, text);
    let input = match &start.input {
        Some(raw) => Json::parse(raw.get()).map_err(|error| invalid(format!("input: {error}")))?,
        None => Json::null(),
    };
    check_tags(&start.tags)?;
    if let Some(run_key) = &start.run_key {
        idempotency::check_key(run_key).map_err(|error| invalid(format!("runKey: {error}")))?;
        if let Some(first) = taken.get(run_key) {
            return match first.workflow == workflow && first.input.same_value(&input) {
                true => Ok(Found::Existing(Box::new(first.view.clone()))),
                false => Err(conflict(run_key, &first.run)),
            };
        }
        if let Some(row) = app.reads().run_by_run_key(run_key)? {
            return existing(app, &row, workflow, &input, run_key);
        }
    }
    if let Some(of) = &start.retry_of {
        check_retry_of(app, workflow, of)?;
    }
    let run = prepared(app, workflow, start, &input).await?;
    if let Some(run_key) = &start.run_key {
        let view = views::new_run(&run);
        let asked = Asked { run: run.run.clone(), workflow: workflow.to_owned(), input, view };
        taken.insert(run_key.clone(), asked);
    }
    Ok(Found::New(Box::new(run)))
}

/// A new run, on the module that is asked for or the active one: where another has become that meanwhile, and this one was taken
/// away, on the other.
async fn prepared(app: &App, workflow: &str, start: &Start, input: &Json) -> Result<NewRun, Problem> {
    loop {
        let digest = match &start.digest {
            Some(digest) => Digest::from_text(digest.clone()),
            None => active(app, workflow)?,
        };
        let run = on_module(app, workflow, start, input, &digest).await;
        if run.is_ok() || start.digest.is_some() || active(app, workflow)? == digest {
            return run;
        }
    }
}

async fn on_module(app: &App, workflow: &str, start: &Start, input: &Json, digest: &Digest) -> Result<NewRun, Problem> {
    if app.reads().module_row(digest)?.is_none() {
        let text = format!("there is no module {digest}");
        return Err(Error::new(stepwell_core::error::Code::InvalidModule, text).into());
    }
    let run = app.engine.prepare(StartRun {
        run_key: start.run_key.clone(),
        run_timeout_ms: start.run_timeout_ms,
        tags: start.tags.clone().into_iter().collect(),
        delay_ms: start.delay_ms,
        retry_of: start.retry_of.clone().map(RunId::new),
        concurrency_key: start.concurrency_key.clone(),
        priority: start.priority,
        ..StartRun::new(digest.clone(), Some(workflow.to_owned()), input.clone())
    });
    Ok(run.await?)
}

pub(crate) fn active(app: &App, workflow: &str) -> Result<Digest, Problem> {
    let active = app.reads().active_of(workflow)?;
    active.map(|active| active.digest).ok_or_else(|| {
        let text = format!("no module is active for workflow {workflow:?}; upload one, or activate one that has it");
        Problem::new(ApiCode::NotActive, text)
    })
}

/// The run that has the run key, if it is what is asked for.
fn existing(app: &App, row: &RunRow, workflow: &str, input: &Json, run_key: &str) -> Result<Found, Problem> {
    // Where another run goes on for the first, what was asked for is still the first one's.
    let same = row.workflow == workflow && input_of(app, row)?.same_value(input);
    if same { Ok(Found::Existing(Box::new(views::run(row)))) } else { Err(conflict(run_key, &row.run)) }
}

fn input_of(app: &App, row: &RunRow) -> Result<Json, Problem> {
    let unreadable = |why: &str| Problem::new(ApiCode::Internal, format!("the input of run {} {why}", row.run));
    let key = match &row.links.first {
        Some(first) => app.run(first.as_str())?.key,
        None => row.key,
    };
    let first = app.reads().entries(key, 0, 1)?;
    let (seq, bytes) = first.first().ok_or_else(|| unreadable("is missing"))?;
    let entry = codec::decode(*seq, bytes).map_err(|error| unreadable(&format!("cannot be read: {error}")))?;
    match entry.record {
        Record::Started(started) => Ok(started.input.clone()),
        _ => Err(unreadable("is not where it should be")),
    }
}

fn conflict(run_key: &str, run: &RunId) -> Problem {
    let text = format!("the run key {run_key:?} belongs to run {run}, which is of another workflow or input");
    Problem::new(ApiCode::RunKeyConflict, text).with("run", run.as_str())
}

/// Nothing is started in the place of a run that goes on, or did what it was to do.
fn check_retry_of(app: &App, workflow: &str, of: &str) -> Result<(), Problem> {
    let row = app.run(of)?;
    if row.workflow != workflow {
        let text = format!("retryOf: run {of} is of workflow {:?}", row.workflow);
        return Err(Problem::new(ApiCode::InvalidRequest, text));
    }
    match row.status {
        Status::Failed | Status::Cancelled | Status::Terminated => Ok(()),
        status => Err(Problem::new(ApiCode::RunNotFailed, format!("retryOf: run {of} is {status}"))),
    }
}

pub(crate) fn check_tags(tags: &BTreeMap<String, String>) -> Result<(), Problem> {
    let max = limits::MAX_NAME_BYTES;
    let fits = |text: &str| (1..=max).contains(&text.len()) && !text.chars().any(char::is_control);
    if tags.len() > MAX_TAGS || !tags.iter().all(|(name, value)| fits(name) && fits(value)) {
        let text = format!("tags: at most {MAX_TAGS}; name and value have 1 to {max} bytes, no control characters");
        return Err(Problem::new(ApiCode::InvalidRequest, text));
    }
    Ok(())
}
