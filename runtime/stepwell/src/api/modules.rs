//! `/v1/modules`: upload, look at, take away. What is uploaded is compiled and asked what it has before anything is stored.

use std::path::Path;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use stepwell_core::error::{Code, Error};
use stepwell_core::ids::Digest;
use stepwell_engine::ModuleInfo;
use stepwell_engine::store::{Action, Active, ModuleRow, StoreError, Submission};
use utoipa::ToSchema;

use super::app::{App, blocking, now_ms};
use super::auth::Scope;
use super::keyed::{Keyed, Reply, once};
use super::problem::{ApiCode, Problem, ProblemBody};
use super::request::{Caller, Name, OK, Post, Query};

/// A module, and what it may do.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Module {
    /// Its name: the SHA-256 of the component, in hex.
    #[schema(value_type = String)]
    digest: Digest,
    /// The component's size.
    size_bytes: u64,
    /// When it was first uploaded, in ms since the Unix epoch.
    added_at_ms: u64,
    /// Its workflows with their defaults, input schemas, destinations and secrets.
    #[schema(value_type = Vec<Object>)]
    workflows: Box<RawValue>,
    /// What it needs and may reach.
    #[schema(value_type = Capabilities)]
    capabilities: Box<RawValue>,
    /// Those of its workflows whose new runs start on it, in the order of their names.
    active: Vec<String>,
}

/// What a module needs, and all that it may reach.
#[derive(Debug, ToSchema)]
#[schema(rename_all = "camelCase")]
#[allow(dead_code)] // Describes what the engine writes of a module.
pub(crate) struct Capabilities {
    /// The interfaces that it imports. There is none that a workflow does not have: such a module is refused.
    imports: Vec<String>,
    /// Those behind which there is nothing: files, sockets, the environment, which toolchains link in.
    #[schema(required = false)]
    closed_imports: Vec<String>,
    /// The memory that an instance has had once it had said which workflows it has, in bytes.
    #[schema(required = false)]
    memory_bytes: u64,
    /// The most that an instance may have, in bytes.
    instance_memory_bytes: u64,
    /// Where its workflows together may send requests.
    destinations: Vec<String>,
    /// The secrets that they may use.
    secrets: Vec<String>,
}

/// What is taken of a module's description, as it was written: a schema may be nested more deeply than a tree can be.
#[derive(Deserialize, Default)]
struct Description {
    workflows: Box<RawValue>,
    capabilities: Box<RawValue>,
}

fn view(row: &ModuleRow, active: &[Active]) -> Module {
    let Description { workflows, capabilities } = serde_json::from_str(&row.description).unwrap_or_default();
    let of_this = active.iter().filter(|one| one.digest == row.digest);
    let mut active: Vec<String> = of_this.map(|one| one.workflow.clone()).collect();
    active.sort();
    Module {
        digest: row.digest.clone(),
        size_bytes: row.size_bytes,
        added_at_ms: row.added_at_ms,
        workflows,
        capabilities,
        active,
    }
}

/// Upload a module.
///
/// A component (`application/wasm`), a core module with an embedded component type (the same; it becomes a component), or the
/// source of a workflow in one file (`text/typescript`, `text/javascript`). A workflow that has no active module gets this one;
/// another is activated at `/v1/workflows/{name}/activate`. A module that is there already is answered with 200.
#[utoipa::path(
    post, path = "/v1/modules", tag = "modules", params(super::openapi::KeyHeader),
    request_body(content(
        (Vec<u8> = "application/wasm"), (String = "text/typescript"), (String = "text/javascript"),
        (String = "application/typescript"), (String = "application/javascript"),
    )),
    responses(
        (status = 201, description = "Stored", body = Module), (status = 200, description = "It was there", body = Module),
        (status = 413, body = ProblemBody, content_type = "application/problem+json", description = "Too large"),
        (status = 415, body = ProblemBody, content_type = "application/problem+json", description = "Another type"),
        (status = 422, body = ProblemBody, content_type = "application/problem+json", description = "No module; nothing is stored"),
    )
)]
pub(crate) async fn upload(State(app): State<App>, post: Post) -> Result<Reply, Problem> {
    post.principal.may(Scope::Deploy)?;
    let kind = post.media_type();
    let shared = app.clone();
    once(&app, post.keyed.clone(), move |keyed| async move {
        let component = component(&kind, post.body).await?;
        store(&shared, component, keyed).await
    })
    .await
}

/// What was sent as a component.
async fn component(kind: &str, body: Bytes) -> Result<Vec<u8>, Problem> {
    let source = match kind {
        "application/wasm" => None,
        "text/typescript" | "application/typescript" => Some("workflow.ts"),
        "text/javascript" | "application/javascript" => Some("workflow.js"),
        other => {
            let text = format!(
                "the Content-Type {other:?} is no module's: application/wasm, text/typescript or text/javascript is taken"
            );
            return Err(Problem::new(ApiCode::UnsupportedType, text));
        }
    };
    blocking(move || match source {
        Some(name) => build(&body, name),
        None => match body.get(..8) {
            Some([0, b'a', b's', b'm', 1, 0, 0, 0]) => stepwell_build::embed_core_module(&body)
                .map_err(|error| Error::new(Code::InvalidModule, error.to_string()).into()),
            _ => Ok(body.to_vec()),
        },
    })
    .await
}

/// Source is built alone, in a directory of its own: it can import nothing of this machine.
fn build(source: &[u8], name: &str) -> Result<Vec<u8>, Problem> {
    let failed = |error: std::io::Error| {
        Problem::new(ApiCode::StorageFailed, format!("there is no place to build the source in: {error}"))
    };
    let directory = tempfile::tempdir().map_err(failed)?;
    let file: &Path = &directory.path().join(name);
    std::fs::write(file, source).map_err(failed)?;
    let options = stepwell_build::BuildOptions { alone: true, ..stepwell_build::BuildOptions::default() };
    let built = stepwell_build::build(file, &options, &|_| {});
    let shown = directory.path().display().to_string();
    built.map(|built| built.component).map_err(|error| {
        // Where it was built means nothing to whoever sent it.
        let text = error.to_string().replace(&format!("{shown}/"), "");
        Error::new(Code::BuildFailed, text).into()
    })
}

async fn store(app: &App, component: Vec<u8>, keyed: Option<Keyed>) -> Result<Reply, Problem> {
    let (info, module) = app.engine.inspect(component).await?;
    loop {
        let known = app.reads().module_row(&info.digest)?;
        let mut active = app.reads().active()?;
        let unclaimed: Vec<String> =
            info.workflows.iter().filter(|name| !active.iter().any(|one| one.workflow == **name)).cloned().collect();
        let at_ms = now_ms();
        active.extend(unclaimed.iter().map(|name| activation(name, &info, at_ms)));
        let status = if known.is_some() { StatusCode::OK } else { StatusCode::CREATED };
        let row = known.unwrap_or_else(|| ModuleRow {
            digest: module.digest.clone(),
            description: module.description.clone(),
            size_bytes: module.bytes.len() as u64,
            added_at_ms: module.added_at_ms,
        });
        let body = view(&row, &active);
        let mut actions = vec![Action::AddModule(module.clone())];
        actions.extend(unclaimed.into_iter().map(|workflow| Action::Activate {
            workflow,
            digest: info.digest.clone(),
            at_ms,
            only_if_none: true,
        }));
        let answer = keyed.as_ref().map(|keyed| keyed.answer(status, &body, false));
        match app.engine.store().submit(Submission { actions, answer }).await {
            Ok(_) => return Ok(Reply::new(status, body)),
            // Somebody activated one of the workflows in between.
            Err(StoreError::Outdated) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn activation(name: &str, info: &ModuleInfo, at_ms: u64) -> Active {
    Active { workflow: name.to_owned(), digest: info.digest.clone(), activated_at_ms: at_ms }
}

/// Modules in a list.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Modules {
    /// In the order of their digests.
    modules: Vec<Module>,
    /// Gives the next page, where there is one.
    #[schema(required = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    cursor: Option<Digest>,
}

/// List modules, in the order of their digests.
#[utoipa::path(
    get, path = "/v1/modules", tag = "modules", params(super::openapi::Page),
    responses((status = 200, description = "A page", body = Modules))
)]
pub(crate) async fn list(State(app): State<App>, Caller(caller): Caller, query: Query) -> Result<Reply, Problem> {
    caller.may(Scope::Read)?;
    let limit = query.page_limit()?;
    let after = query.one("cursor")?.map(place).transpose()?;
    blocking(move || {
        let active = app.reads().active()?;
        let rows = app.reads().modules(after.as_ref(), limit)?;
        let cursor = rows.last().filter(|_| rows.len() == limit as usize).map(|row| row.digest.clone());
        Ok(Reply::new(OK, Modules { modules: rows.iter().map(|row| view(row, &active)).collect(), cursor }))
    })
    .await
}

/// What a cursor says: the digest of the last module of the page.
fn place(cursor: &str) -> Result<Digest, Problem> {
    if cursor.len() == 64 && cursor.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok(Digest::from_text(cursor));
    }
    let text = format!("cursor is {cursor:?}; the cursor of an earlier answer is taken");
    Err(Problem::new(ApiCode::InvalidRequest, text))
}

fn none(digest: &str) -> Problem {
    Problem::new(ApiCode::NotFound, format!("there is no module {digest:?}"))
}

/// Look at a module.
#[utoipa::path(
    get, path = "/v1/modules/{digest}", tag = "modules", params(("digest" = String, Path, description = "Its digest")),
    responses(
        (status = 200, description = "The module", body = Module),
        (status = 404, body = ProblemBody, content_type = "application/problem+json", description = "There is none"),
    )
)]
pub(crate) async fn show(State(app): State<App>, Caller(caller): Caller, name: Name) -> Result<Reply, Problem> {
    caller.may(Scope::Read)?;
    let row = app.reads().module_row(&Digest::from_text(&*name.0))?.ok_or_else(|| none(&name.0))?;
    Ok(Reply::new(OK, view(&row, &app.reads().active()?)))
}

/// Take a module away. Refused while a workflow starts on it, or a run is open on it or has failed on it.
#[utoipa::path(
    delete, path = "/v1/modules/{digest}", tag = "modules", params(("digest" = String, Path, description = "Its digest")),
    responses(
        (status = 204, description = "It is gone"),
        (status = 404, body = ProblemBody, content_type = "application/problem+json", description = "There is none"),
        (status = 409, body = ProblemBody, content_type = "application/problem+json", description = "It is needed"),
    )
)]
pub(crate) async fn remove(State(app): State<App>, Caller(caller): Caller, name: Name) -> Result<StatusCode, Problem> {
    caller.may(Scope::Deploy)?;
    let actions = vec![Action::RemoveModule(Digest::from_text(&*name.0))];
    match app.engine.store().submit(Submission { actions, answer: None }).await {
        Ok(_) => Ok(StatusCode::NO_CONTENT),
        Err(StoreError::NoSuchModule(_)) => Err(none(&name.0)),
        Err(error) => Err(error.into()),
    }
}
