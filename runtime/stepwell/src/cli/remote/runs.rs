//! Runs of a server: followed until they end, cancelled, retried.

use std::process::ExitCode;
use std::time::Duration;

use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use stepwell_core::journal::entry::Entry;
use stepwell_core::journal::print::printable;

use super::client::{Client, Sent, ServerArgs, Unanswered, segment};
use crate::cli::exit::Exit;
use crate::cli::render::Lines;

/// Follows a run until it ends, across restarts of the server.
pub(crate) async fn watch(server: &ServerArgs, run: &str, json: bool) -> Result<ExitCode, ExitCode> {
    let client = Client::new(server)?;
    let path = format!("/v1/runs/{}/events", segment(run));
    let (mut watch, mut broken) = (Watch { json, lines: Lines::default(), last_id: None }, 0);
    loop {
        match client.stream(&path, watch.last_id).await {
            Ok(mut body) => {
                broken = 0;
                let mut text = Vec::new();
                while let Some(Ok(frame)) = body.frame().await {
                    text.extend(frame.into_data().unwrap_or_default());
                    if let Some(end) = watch.take(&mut text) {
                        return Ok(conclude(&end, json));
                    }
                }
            }
            Err(Unanswered::Said(exit)) => return Err(exit),
            Err(Unanswered::Broken(why)) if broken == 10 => return Err(Exit::Failed.with(why)),
            Err(Unanswered::Broken(_)) => broken += 1,
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

struct Watch {
    json: bool,
    lines: Lines,
    last_id: Option<u64>,
}

impl Watch {
    /// Shows the events that are there whole, and takes them out. The run, if it has ended.
    fn take(&mut self, text: &mut Vec<u8>) -> Option<Value> {
        while let Some(end) = text.windows(2).position(|pair| pair == b"\n\n") {
            let event = String::from_utf8_lossy(&text[..end]).into_owned();
            text.drain(..end + 2);
            let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            let Some(name) = field("event") else { continue };
            let data: Value = field("data").and_then(|data| serde_json::from_str(data).ok()).unwrap_or_default();
            self.last_id = field("id").and_then(|id| id.parse().ok()).or(self.last_id);
            if self.json {
                anstream::println!("{}", json!({ "event": name, "data": data }));
            } else {
                self.show(name, &data);
            }
            if name == "end" {
                return Some(data);
            }
        }
        None
    }

    fn show(&mut self, name: &str, data: &Value) {
        match name {
            "entry" => {
                let entry = serde_json::from_value(data["entry"].clone());
                let at_ms = data["atMs"].as_u64().unwrap_or(0);
                let line = entry.ok().and_then(|record| self.lines.entry(&Entry { at_ms, record }));
                if let Some(line) = line {
                    anstream::eprintln!("{line}");
                }
            }
            "run" => {
                let detail = data["detail"].as_str().map(|detail| format!(": {detail}")).unwrap_or_default();
                anstream::eprintln!("  {}{detail}", data["status"].as_str().unwrap_or_default());
            }
            _ => {}
        }
    }
}

/// Shows how a run stands, with the exit code that says so.
pub(crate) fn conclude(run: &Value, json: bool) -> ExitCode {
    let id = run["id"].as_str().unwrap_or_default();
    match run["status"].as_str().unwrap_or_default() {
        "succeeded" => {
            if !json {
                anstream::println!("{}", run["result"]);
            }
            Exit::Done.into()
        }
        status @ ("failed" | "cancelled" | "terminated") => {
            let error = &run["error"];
            let (code, message) =
                (error["code"].as_str().unwrap_or_default(), error["message"].as_str().unwrap_or_default());
            Exit::RunFailed.with(format!("run {id} has {status}: {code}: {message}"))
        }
        status => {
            if !json {
                anstream::eprintln!("run {id} is {status}; to follow it: stepwell runs watch {id}");
            }
            Exit::Done.into()
        }
    }
}

/// Asks a run to cancel.
pub(crate) async fn cancel(server: &ServerArgs, run: &str, reason: Option<String>, json: bool) -> Result<(), ExitCode> {
    let body = reason.map_or_else(|| json!({}), |reason| json!({ "reason": reason }));
    let path = format!("/v1/runs/{}/cancel", segment(run));
    let answer = Client::new(server)?.post(&path, Sent::json(&body, None)).await?;
    if json {
        anstream::println!("{answer}");
    }
    Ok(())
}

/// How a failed run is taken up again.
pub(crate) struct RetryOf {
    pub(crate) from_step: Option<String>,
    pub(crate) digest: Option<String>,
    pub(crate) confirm: bool,
    pub(crate) reason: Option<String>,
}

/// Takes a failed run up again.
pub(crate) async fn retry(server: &ServerArgs, run: &str, of: RetryOf, json: bool) -> Result<(), ExitCode> {
    let mut body = json!({ "confirm": of.confirm });
    for (name, value) in [("fromStep", of.from_step), ("digest", of.digest), ("reason", of.reason)] {
        if let Some(value) = value {
            body[name] = value.into();
        }
    }
    let path = format!("/v1/runs/{}/retry", segment(run));
    let answer = Client::new(server)?.post(&path, Sent::json(&body, None)).await?;
    if json {
        anstream::println!("{answer}");
        return Ok(());
    }
    let names: Vec<&str> = answer["again"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if !names.is_empty() {
        anstream::eprintln!("attempted again: {}", printable(&names.join(", ")));
    }
    anstream::eprintln!("to follow it: stepwell runs watch {run}");
    Ok(())
}
