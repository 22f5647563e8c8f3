//! Runs of a server: followed until they end, and retried.

use std::process::ExitCode;
use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use stepwell_core::error::Error;
use stepwell_core::journal::entry::{Entry, Record};
use stepwell_core::journal::print::printable;

use super::client::{Client, Sent, ServerArgs, Unanswered, segment};
use super::steps::not_understood;
use crate::api::{RetryAccepted, RetryOf};
use crate::cli::exit::Exit;
use crate::cli::render::Lines;

/// How often in a row a stream may bring nothing before the watch is given up.
const FRUITLESS: u32 = 10;

/// Follows a run until it ends, across restarts of the server.
pub(crate) async fn watch(server: &ServerArgs, run: &str, json: bool) -> Result<ExitCode, ExitCode> {
    let client = Client::new(server)?;
    let path = format!("/v1/runs/{}/events", segment(run));
    let (mut watch, mut fruitless) = (Watch { json, lines: Lines::default(), last_id: None, seen: false }, 0);
    loop {
        watch.seen = false;
        let why = match client.stream(&path, watch.last_id).await {
            Ok(mut body) => match watch.follow(&mut body, client.patience()).await {
                Followed::Ended(exit) => return Ok(exit),
                Followed::Broken(why) => why,
            },
            Err(Unanswered::Said(exit)) => return Err(exit),
            Err(Unanswered::Broken(why)) => why,
        };
        // One that brings nothing again and again would be followed for ever.
        fruitless = if watch.seen { 0 } else { fruitless + 1 };
        if fruitless > FRUITLESS {
            return Err(Exit::Failed.with(why));
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

struct Watch {
    json: bool,
    lines: Lines,
    last_id: Option<u64>,
    /// Whether the stream has brought anything of the run.
    seen: bool,
}

/// How a stream ended.
enum Followed {
    /// With the run's end, or for good; it has been said.
    Ended(ExitCode),
    /// Otherwise, and why.
    Broken(String),
}

/// An event of a stream.
struct Told {
    name: String,
    data: Box<RawValue>,
}

impl Watch {
    async fn follow(&mut self, body: &mut Incoming, patience: Duration) -> Followed {
        let mut text = Vec::new();
        loop {
            let frame = match tokio::time::timeout(patience, body.frame()).await {
                Ok(Some(Ok(frame))) => frame,
                Ok(Some(Err(error))) => return Followed::Broken(format!("the connection broke off: {error}")),
                Ok(None) => return Followed::Broken("the server ended the stream".to_owned()),
                Err(_) => return Followed::Broken("the server says nothing".to_owned()),
            };
            text.extend(frame.into_data().unwrap_or_default());
            while let Some(told) = self.take(&mut text) {
                if let Some(followed) = self.show(&told) {
                    return followed;
                }
            }
        }
    }

    /// Takes the first event out that is there whole.
    fn take(&mut self, text: &mut Vec<u8>) -> Option<Told> {
        loop {
            let end = text.windows(2).position(|pair| pair == b"\n\n")?;
            let event = String::from_utf8_lossy(&text[..end]).into_owned();
            text.drain(..end + 2);
            let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            // A sign of life has no name.
            let Some(name) = field("event") else { continue };
            let data = field("data").and_then(|data| RawValue::from_string(data.to_owned()).ok()).unwrap_or_default();
            self.last_id = field("id").and_then(|id| id.parse().ok()).or(self.last_id);
            return Some(Told { name: name.to_owned(), data });
        }
    }

    /// Shows an event. How the stream has ended, if it has with this.
    fn show(&mut self, Told { name, data }: &Told) -> Option<Followed> {
        if self.json {
            show!("{{\"event\":{},\"data\":{data}}}", json!(name));
        }
        self.seen |= name != "problem";
        match name.as_str() {
            "entry" if !self.json => {
                let line = Written::of(data).and_then(|entry| self.lines.entry(&entry));
                if let Some(line) = line {
                    say!("{line}");
                }
            }
            "run" if !self.json => {
                if let Ok(run) = serde_json::from_str::<Shown>(data.get()) {
                    let detail = run.detail.map(|detail| format!(": {}", printable(&detail))).unwrap_or_default();
                    say!("  {}{detail}", run.status);
                }
            }
            "end" => {
                let exit = Shown::read(data.get()).map(|run| conclude(&run, self.json));
                return Some(Followed::Ended(exit.unwrap_or_else(|exit| exit)));
            }
            "problem" => return Some(problem(data)),
            _ => {}
        }
        None
    }
}

/// A journal entry as the server writes it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    at_ms: u64,
    entry: Record,
}

impl Written {
    fn of(data: &RawValue) -> Option<Entry> {
        let Self { at_ms, entry } = serde_json::from_str(data.get()).ok()?;
        Some(Entry { at_ms, record: entry })
    }
}

/// Why a stream ends before its run: for good, unless the fault is the server's own.
fn problem(data: &RawValue) -> Followed {
    #[derive(Deserialize, Default)]
    struct Problem {
        status: u16,
        code: String,
        detail: String,
    }
    let Problem { status, code, detail } = serde_json::from_str(data.get()).unwrap_or_default();
    let said = format!("{code}: {detail}");
    if (400..500).contains(&status) { Followed::Ended(Exit::Usage.with(said)) } else { Followed::Broken(said) }
}

/// A run as the server shows it, its values as they were written.
#[derive(Deserialize)]
pub(crate) struct Shown {
    pub(crate) id: String,
    status: String,
    detail: Option<String>,
    result: Option<Box<RawValue>>,
    error: Option<Error>,
    #[serde(rename = "continuedAs")]
    continued_as: Option<String>,
}

impl Shown {
    pub(crate) fn read(body: &str) -> Result<Self, ExitCode> {
        serde_json::from_str(body).map_err(|error| Exit::Failed.with(format!("the answer shows no run: {error}")))
    }
}

/// Shows how a run stands, with the exit code that says so.
pub(crate) fn conclude(run: &Shown, json: bool) -> ExitCode {
    let id = &run.id;
    if let Some(next) = &run.continued_as {
        if !json {
            say!("run {id} has ended, and run {next} goes on; to follow it: stepwell runs watch {next}");
        }
        return Exit::NotYet.into();
    }
    match run.status.as_str() {
        "succeeded" => {
            if !json && let Some(result) = &run.result {
                show!("{result}");
            }
            Exit::Done.into()
        }
        status @ ("failed" | "cancelled" | "terminated") => {
            let error = run.error.as_ref().map(|error| printable(&error.to_string())).unwrap_or_default();
            Exit::RunFailed.with(format!("run {id} has {status}: {error}"))
        }
        status @ ("blocked" | "paused") => {
            let detail = run.detail.as_ref().map(|detail| format!(": {}", printable(detail))).unwrap_or_default();
            Exit::NeedsSomebody.with(format!("run {id} is {status}{detail}"))
        }
        status => {
            if !json {
                say!("run {id} is {status}; to follow it: stepwell runs watch {id}");
            }
            Exit::NotYet.into()
        }
    }
}

/// Takes a failed run up again.
pub(crate) async fn retry(server: &ServerArgs, run: &str, of: &RetryOf, json: bool) -> Result<(), ExitCode> {
    let path = format!("/v1/runs/{}/retry", segment(run));
    let answer = Client::new(server)?.post(&path, Sent::json(&json!(of), None)).await?;
    if json {
        show!("{answer}");
        return Ok(());
    }
    let RetryAccepted { again, .. } = serde_json::from_value(answer).map_err(not_understood)?;
    if !again.is_empty() {
        say!("attempted again: {}", printable(&again.join(", ")));
    }
    say!("to follow it: stepwell runs watch {run}");
    Ok(())
}
