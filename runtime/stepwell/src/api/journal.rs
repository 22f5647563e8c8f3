//! What a run has written: its journal and its log, in pages. A page ends at so many bytes as well as at so many lines, and has one
//! at least: what is asked for costs the server no more memory than that, whatever the run has written.

use axum::extract::State;
use serde::Serialize;
use serde_json::value::RawValue;
use stepwell_core::journal::codec;
use stepwell_core::journal::entry::Record;
use stepwell_engine::store::{LogPlace, LogRow, RunRow};
use utoipa::ToSchema;

use super::app::{App, blocking};
use super::auth::Scope;
use super::keyed::Reply;
use super::problem::{ApiCode, Problem, ProblemBody};
use super::request::{Caller, Name, OK, Query};
use super::views::raw;

/// Entries or lines in a page, at most and where it is left out.
const MAX_PAGE: u64 = 1_000;
/// A page ends before it has more bytes than this.
const MAX_PAGE_BYTES: usize = 4 << 20;
/// Entries read from the store at once: each may be as large as a value.
const ENTRIES_AT_ONCE: u32 = 8;
/// The same for lines, which are small.
const LINES_AT_ONCE: u32 = 100;

/// A part of a run's journal.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Journal {
    /// Each with `seq`, `atMs` and `entry`, in order.
    #[schema(value_type = Vec<Object>)]
    pub(crate) entries: Vec<Numbered>,
    /// `from` of the next part, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<u64>,
}

/// A journal entry with its number.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Numbered {
    pub(crate) seq: u64,
    at_ms: u64,
    entry: Record,
}

/// Read a run's journal.
#[utoipa::path(
    get, path = "/v1/runs/{id}/journal", tag = "runs",
    params(
        ("id" = String, Path, description = "The run"),
        ("from" = Option<u64>, Query, maximum = 9223372036854775807u64, description = "The first entry's number; 0 where it is left out"),
        ("limit" = Option<u64>, Query, minimum = 1, maximum = 1000, description = "At most so many; 1,000 where it is left out. Large entries make a part shorter"),
    ),
    responses(
        (status = 200, description = "Entries", body = Journal),
        (status = 404, body = ProblemBody, content_type = "application/problem+json", description = "There is none"),
    )
)]
pub(crate) async fn journal(
    State(app): State<App>,
    Caller(caller): Caller,
    name: Name,
    query: Query,
) -> Result<Reply, Problem> {
    caller.may(Scope::Read)?;
    let from = query.number("from", 0..=i64::MAX as u64)?.unwrap_or(0);
    let limit = query.number("limit", 1..=MAX_PAGE)?.unwrap_or(MAX_PAGE);
    blocking(move || {
        let row = app.run(&name.0)?;
        Ok(Reply::new(OK, entries(&app, &row, from, limit as usize)?))
    })
    .await
}

/// A part of a run's journal: at most `limit` entries.
pub(crate) fn entries(app: &App, row: &RunRow, from: u64, limit: usize) -> Result<Journal, Problem> {
    let mut page = Page::new(limit);
    let mut at = from;
    while page.has_room() {
        let some = app.reads().entries(row.key, at, ENTRIES_AT_ONCE)?;
        let last = some.len() < ENTRIES_AT_ONCE as usize;
        for (seq, bytes) in some {
            if !page.has_room() {
                break;
            }
            let entry = codec::decode(seq, &bytes)
                .map_err(|error| Problem::new(ApiCode::Internal, format!("entry {seq} of run {}: {error}", row.run)))?;
            page.take(bytes.len(), Numbered { seq, at_ms: entry.at_ms, entry: entry.record });
            at = seq + 1;
        }
        if last {
            break;
        }
    }
    let next = (!page.has_room()).then(|| page.items.last().map_or(from, |last| last.seq + 1));
    Ok(Journal { entries: page.items, next })
}

/// A page that is being filled.
struct Page<T> {
    items: Vec<T>,
    limit: usize,
    bytes: usize,
    full: bool,
}

impl<T> Page<T> {
    fn new(limit: usize) -> Self {
        Self { items: Vec::new(), limit, bytes: 0, full: false }
    }

    fn has_room(&self) -> bool {
        !self.full
    }

    /// Takes one more of this size, if there is room; what comes after one that has none has none either.
    fn take(&mut self, bytes: usize, item: T) {
        self.full |= !self.items.is_empty() && self.bytes + bytes > MAX_PAGE_BYTES;
        if !self.full {
            self.bytes += bytes;
            self.items.push(item);
            self.full = self.items.len() == self.limit;
        }
    }
}

/// A part of a run's log.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Logs {
    /// In the order in which they were written.
    lines: Vec<Line>,
    /// Gives the next part, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
}

/// A line of a run's log.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Line {
    /// When it was written, in ms since the Unix epoch.
    at_ms: u64,
    /// `trace`, `debug`, `info`, `warn` or `error`.
    level: &'static str,
    /// The step whose body wrote it.
    step: Option<String>,
    /// What it says.
    message: String,
    /// Its fields.
    #[schema(value_type = Option<Value>)]
    fields: Option<Box<RawValue>>,
    #[serde(skip)]
    place: LogPlace,
}

fn line(row: LogRow) -> Line {
    let level = ["trace", "debug", "info", "warn", "error"].get(usize::from(row.level));
    Line {
        at_ms: row.at_ms,
        level: level.copied().unwrap_or("info"),
        step: row.step,
        message: row.text,
        fields: row.fields.as_deref().map(raw),
        place: (row.turn, row.index),
    }
}

/// Read what a run has logged.
#[utoipa::path(
    get, path = "/v1/runs/{id}/logs", tag = "runs",
    params(
        ("id" = String, Path, description = "The run"),
        ("cursor" = Option<String>, Query, description = "The cursor of the part before"),
        ("limit" = Option<u64>, Query, minimum = 1, maximum = 1000, description = "At most so many; 1,000 where it is left out. Long lines make a part shorter"),
    ),
    responses(
        (status = 200, description = "Lines", body = Logs),
        (status = 404, body = ProblemBody, content_type = "application/problem+json", description = "There is none"),
    )
)]
pub(crate) async fn logs(
    State(app): State<App>,
    Caller(caller): Caller,
    name: Name,
    query: Query,
) -> Result<Reply, Problem> {
    caller.may(Scope::Read)?;
    let after = query.one("cursor")?.map(place).transpose()?;
    let limit = query.number("limit", 1..=MAX_PAGE)?.unwrap_or(MAX_PAGE);
    blocking(move || {
        let row = app.run(&name.0)?;
        let (mut page, mut after) = (Page::new(limit as usize), after);
        while page.has_room() {
            let some = app.reads().logs(row.key, after, LINES_AT_ONCE)?;
            let last = some.len() < LINES_AT_ONCE as usize;
            for row in some {
                after = Some((row.turn, row.index));
                page.take(row.text.len() + row.fields.as_ref().map_or(0, String::len), line(row));
            }
            if last {
                break;
            }
        }
        let last = page.items.last().filter(|_| !page.has_room());
        let cursor = last.map(|line| format!("{}.{}", line.place.0, line.place.1));
        Ok(Reply::new(OK, Logs { lines: page.items, cursor }))
    })
    .await
}

/// The place that a cursor names.
fn place(cursor: &str) -> Result<LogPlace, Problem> {
    let place = cursor.split_once('.').and_then(|(turn, line)| Some((turn.parse().ok()?, line.parse().ok()?)));
    place.ok_or_else(|| Problem::new(ApiCode::InvalidRequest, format!("cursor is {cursor:?}; it is none of these")))
}
