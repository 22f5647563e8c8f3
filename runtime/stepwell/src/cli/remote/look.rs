//! Looks at runs of a server: the list of them, one of them, its journal and its log, as those of a data directory are shown.

use std::collections::BTreeMap;
use std::process::ExitCode;

use hyper::Method;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use stepwell_core::journal::entry::{Entry, Record};
use stepwell_core::journal::print::{Printer, Times};
use stepwell_engine::store::RunFilter;

use super::client::{Client, ServerArgs, segment};
use super::steps::not_understood;
use crate::cli::shown::{self, LogLine};

/// The longest page that a server gives.
const PAGE: u32 = 1000;

/// Runs, the latest first, by status, workflow and tags of the filter: as many as its limit says.
pub(crate) async fn list(server: &ServerArgs, filter: &RunFilter, json: bool) -> Result<(), ExitCode> {
    let client = Client::new(server)?;
    let mut filters = String::new();
    let mut only = |name: &str, value: &str| filters += &format!("&{name}={}", segment(value));
    filter.status.iter().for_each(|status| only("status", status.as_str()));
    filter.workflow.iter().for_each(|workflow| only("workflow", workflow));
    filter.tags.iter().for_each(|(name, value)| only("tag", &format!("{name}={value}")));
    let (mut left, mut cursor) = (filter.limit, String::new());
    while left > 0 {
        let page = client.get(&format!("/v1/runs?limit={}{filters}{cursor}", left.min(PAGE))).await?;
        for run in page["runs"].as_array().into_iter().flatten() {
            let run = as_local(run);
            show!("{}", if json { run.to_string() } else { shown::row(&run) });
            left = left.saturating_sub(1);
        }
        if let Some(unreadable @ 1..) = page["unreadable"].as_u64() {
            say!("{unreadable} runs cannot be read");
        }
        let Some(next) = page["cursor"].as_str() else { break };
        cursor = format!("&cursor={}", segment(next));
    }
    Ok(())
}

/// One run.
pub(crate) async fn show(server: &ServerArgs, run: &str, json: bool) -> Result<(), ExitCode> {
    let client = Client::new(server)?;
    let mut fields: BTreeMap<String, Box<RawValue>> = part(&client, &format!("/v1/runs/{}", segment(run))).await?;
    // Apart from the rest, since it may be nested too deeply for a tree.
    let outcome = fields.remove("result").or_else(|| fields.remove("error"));
    let object: Value = fields.into_iter().map(|(name, value)| (name, shown::tree(value.get()))).collect();
    let mut run = as_local(&object);
    let outcome = outcome.as_deref().map(RawValue::get);
    if json {
        run["place"] = object["queue"]["place"].clone();
        run["outcome"] = outcome.map_or(Value::Null, shown::tree);
        show!("{run}");
    } else {
        shown::fields(&run, outcome).iter().for_each(|line| show!("{line}"));
    }
    Ok(())
}

/// A run of the API's, in the form of `runs list --json`.
fn as_local(run: &Value) -> Value {
    let same = |name: &str| run[name].clone();
    json!({
        "run": run["id"], "workflow": same("workflow"), "digest": same("digest"), "status": same("status"), "detail": same("detail"),
        "statusText": same("statusText"), "runKey": same("runKey"), "retryOf": same("retryOf"), "rerunOf": same("rerunOf"),
        "parent": same("parent"), "continuedFrom": same("continuedFrom"), "continuedAs": same("continuedAs"),
        "wakeAtMs": run["untilMs"], "createdAtMs": same("createdAtMs"), "changedAtMs": same("changedAtMs"),
        "concurrencyKey": same("concurrencyKey"), "priority": run["priority"].as_i64().unwrap_or(0),
    })
}

/// A run's journal.
pub(crate) async fn journal(server: &ServerArgs, run: &str, json: bool) -> Result<(), ExitCode> {
    #[derive(Deserialize)]
    struct Page {
        entries: Vec<Numbered>,
        next: Option<u64>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Numbered {
        seq: u64,
        at_ms: u64,
        entry: Record,
    }
    let client = Client::new(server)?;
    let (mut printer, mut from) = (Printer::new(Times::Relative), Some(0));
    while let Some(first) = from {
        let page: Page = part(&client, &format!("/v1/runs/{}/journal?from={first}", segment(run))).await?;
        for Numbered { seq, at_ms, entry } in page.entries {
            show!("{}", shown::entry(&mut printer, seq, &Entry { at_ms, record: entry }, json));
        }
        from = page.next;
    }
    Ok(())
}

/// What a run has logged.
pub(crate) async fn logs(server: &ServerArgs, run: &str, json: bool) -> Result<(), ExitCode> {
    #[derive(Deserialize)]
    struct Page {
        lines: Vec<Line>,
        cursor: Option<String>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Line {
        at_ms: u64,
        level: String,
        step: Option<String>,
        message: String,
        fields: Option<Box<RawValue>>,
    }
    let client = Client::new(server)?;
    let (path, mut cursor) = (format!("/v1/runs/{}/logs?limit={PAGE}", segment(run)), String::new());
    loop {
        let page: Page = part(&client, &format!("{path}{cursor}")).await?;
        for Line { at_ms, level, step, message, fields } in &page.lines {
            let fields = fields.as_deref().map(RawValue::get);
            let line = LogLine { at_ms: *at_ms, level, step: step.as_deref(), message, fields };
            show!("{}", line.shown(json));
        }
        let Some(next) = page.cursor else { return Ok(()) };
        cursor = format!("&cursor={}", segment(&next));
    }
}

/// An answer, with the values in it as they were written.
async fn part<T: DeserializeOwned>(client: &Client, path: &str) -> Result<T, ExitCode> {
    let text = client.text(Method::GET, path, None).await?;
    serde_json::from_str(&text).map_err(not_understood)
}
