//! `/v1/runs/{id}/events`: what happens in a run, as server-sent events. Entries are read from the store as fast as the client
//! takes them, so a slow one costs no memory; `Last-Event-ID` goes on after the last entry that it has seen.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream::{self, Stream};
use serde::Serialize;
use stepwell_engine::store::RunRow;
use tokio::sync::{OwnedSemaphorePermit, watch};

use super::app::{App, blocking};
use super::auth::{Principal, Scope, still_admitted};
use super::journal::entries;
use super::problem::{ApiCode, Problem, ProblemBody};
use super::request::{Caller, Name};
use super::views;

/// Entries read at once.
const PAGE: usize = 100;
/// A sign of life for what is in between.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Follow a run.
///
/// Events are `entry` (a journal entry; its number is the event's id), `run` (the run, whenever its status has changed) and `end`
/// (the run; nothing follows); `problem` says why nothing follows before that. A client that comes again with `Last-Event-ID` gets
/// what follows that entry.
#[utoipa::path(
    get, path = "/v1/runs/{id}/events", tag = "runs",
    params(
        ("id" = String, Path, description = "The run"),
        ("Last-Event-ID" = Option<String>, Header, description = "The id of the last event that was seen"),
    ),
    responses(
        (status = 200, description = "Events", content_type = "text/event-stream", body = String),
        (status = 404, body = ProblemBody, content_type = "application/problem+json", description = "There is none"),
    )
)]
pub(crate) async fn follow(
    State(app): State<App>,
    Caller(caller): Caller,
    name: Name,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    caller.may(Scope::Read)?;
    let next_seq = match headers.get("last-event-id") {
        None => 0,
        Some(value) => {
            let id = value.to_str().ok().and_then(|text| text.parse::<u64>().ok()).filter(|id| *id < i64::MAX as u64);
            let text = "Last-Event-ID is the number of an entry";
            id.ok_or_else(|| Problem::new(ApiCode::InvalidRequest, text))? + 1
        }
    };
    let row = app.run(&name.0)?;
    let place = app.followers.clone().try_acquire_owned().map_err(|_| {
        let problem = Problem::new(ApiCode::TooManyFollowers, "as many runs are followed as may be; come again later");
        problem.with_header(header::RETRY_AFTER, HeaderValue::from_static("5"))
    })?;
    // Before anything is read: what comes after that is not missed.
    let changes = app.engine.changes(row.key).await;
    let following =
        Following { app, caller, row, changes, next_seq, shown: None, ready: Vec::new(), over: false, _place: place };
    Ok(Sse::new(events(following)).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response())
}

/// As JSON in one line: a value may have been written in several, with the ends of lines between its parts and nowhere else.
fn line(view: &impl Serialize) -> String {
    views::text(view).replace(['\r', '\n'], " ")
}

struct Following {
    app: App,
    caller: Principal,
    row: RunRow,
    changes: watch::Receiver<()>,
    next_seq: u64,
    /// The run as it was shown last, without its times.
    shown: Option<String>,
    /// Events to be given, the next one last.
    ready: Vec<Event>,
    over: bool,
    _place: OwnedSemaphorePermit,
}

fn events(following: Following) -> impl Stream<Item = Result<Event, Infallible>> {
    stream::unfold(following, |mut following| async move {
        let event = following.next().await?;
        Some((Ok(event), following))
    })
}

impl Following {
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop() {
                return Some(event);
            }
            if self.over {
                return None;
            }
            self.changes.borrow_and_update();
            if let Err(problem) = self.look().await {
                self.over = true;
                return Some(Event::default().event("problem").data(problem.to_json().to_string()));
            }
            if self.ready.is_empty() {
                tokio::select! {
                    changed = self.changes.changed() => self.over = changed.is_err(),
                    // To see whether the token holds, though nothing happens in the run.
                    () = tokio::time::sleep(KEEP_ALIVE) => {}
                    () = self.app.stopped() => self.over = true,
                }
            }
        }
    }

    /// Reads what is new. The row comes first: all entries of what it says are there then.
    async fn look(&mut self) -> Result<(), Problem> {
        let (app, row, from) = (self.app.clone(), self.row.clone(), self.next_seq);
        let caller = self.caller.clone();
        let (row, found) = blocking(move || {
            still_admitted(&app, &caller)?;
            let row = app.run(row.run.as_str())?;
            let found = entries(&app, &row, from, PAGE)?;
            Ok((row, found))
        })
        .await?;
        let more = found.next.is_some();
        for entry in found.entries {
            self.next_seq = entry.seq + 1;
            let event = Event::default().event("entry").id(entry.seq.to_string());
            self.ready.push(event.data(line(&entry)));
        }
        if !more {
            self.show(&row);
        }
        self.ready.reverse();
        self.row = row;
        Ok(())
    }

    fn show(&mut self, row: &RunRow) {
        let view = views::run(row);
        if row.status.is_finished() {
            self.over = true;
            self.ready.push(Event::default().event("end").data(line(&view)));
            return;
        }
        let lasting = views::text(&views::run(row).without_time());
        if self.shown.as_ref() != Some(&lasting) {
            self.ready.push(Event::default().event("run").data(line(&view)));
            self.shown = Some(lasting);
        }
    }
}
