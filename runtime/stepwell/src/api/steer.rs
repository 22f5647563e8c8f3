//! Events for runs. Each is durable when it is answered.

use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use serde_json::{Value, json};
use stepwell_core::error::{Code, Error};
use stepwell_core::limits;
use stepwell_engine::Request;
use stepwell_engine::store::StoreError;
use utoipa::ToSchema;

use super::app::App;
use super::auth::Scope;
use super::keyed::{Keyed, Reply, once};
use super::problem::{ApiCode, Problem, ProblemBody};
use super::request::{Names, Post};

/// What was asked of a run and is kept.
#[derive(Debug, Serialize, ToSchema)]
#[allow(dead_code)] // Describes what is answered.
pub(crate) struct Accepted {
    /// The run.
    run: String,
    /// What it will be told or done with: `cancel`, `terminate`, `pause`, `resume`, or the event's name.
    accepted: String,
    /// When that is not now: `once_resumed`, since the run is paused; `already`, since it was so before.
    #[schema(required = false)]
    when: Option<String>,
}

/// Send an event to a run. The body is the event's payload, any JSON; none is null. It is kept until it is awaited, in order.
#[utoipa::path(
    post, path = "/v1/runs/{id}/events/{name}", tag = "runs",
    request_body(content = Option<Value>, content_type = "application/json", description = "The payload"),
    params(
        ("id" = String, Path, description = "The run"), ("name" = String, Path, description = "The event's name"),
        super::openapi::KeyHeader,
    ),
    responses(
        (status = 202, description = "It is kept for the run", body = Accepted),
        (status = 404, body = ProblemBody, content_type = "application/problem+json", description = "There is no such run"),
        (status = 409, body = ProblemBody, content_type = "application/problem+json", description = "It has ended"),
    )
)]
pub(crate) async fn event(State(app): State<App>, names: Names, post: Post) -> Result<Reply, Problem> {
    post.principal.may(Scope::Run)?;
    let Names(run, event) = names;
    check_event_name(&event)?;
    let payload = post.value()?;
    if payload.len() > limits::MAX_VALUE_BYTES {
        let (len, max) = (payload.len(), limits::MAX_VALUE_BYTES);
        let text = format!("the event has {len} bytes of JSON; at most {max} are taken");
        return Err(Error::new(Code::ResultTooLarge, text).into());
    }
    let shared = app.clone();
    once(&app, post.keyed.clone(), move |keyed| async move {
        let row = shared.run(&run)?;
        let body = json!({ "run": row.run, "accepted": event });
        let request = request(keyed.as_ref(), &body);
        shared.engine.deliver(row.key, &event, &payload, request).await.map_err(refused)?;
        Ok(Reply::new(StatusCode::ACCEPTED, body))
    })
    .await
}

fn request(keyed: Option<&Keyed>, body: &Value) -> Request {
    Request {
        answer: keyed.map(|keyed| keyed.answer(StatusCode::ACCEPTED, body, false)),
        dedup: keyed.map(Keyed::dedup),
    }
}

fn refused(error: StoreError) -> Problem {
    match error {
        // The run knows the key, long after its answer was forgotten.
        StoreError::EventDiffers => {
            let text =
                "this Idempotency-Key was used for something else of this run; a new request needs a key of its own";
            Problem::new(ApiCode::KeyReuse, text)
        }
        other => other.into(),
    }
}

fn check_event_name(name: &str) -> Result<(), Problem> {
    let max = limits::MAX_NAME_BYTES;
    if (1..=max).contains(&name.len()) && !name.chars().any(char::is_control) {
        return Ok(());
    }
    let text = format!("the event's name has {} bytes; 1 to {max} are taken, no control characters", name.len());
    Err(Problem::new(ApiCode::InvalidRequest, text))
}
