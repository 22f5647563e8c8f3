//! Runs, journals and logs as `stepwell runs` shows them, whether they come from a data directory or from a server.

use serde_json::{Value, json};
use stepwell_core::journal::entry::Entry;
use stepwell_core::journal::print::{Printer, printable};

use super::render::{self, clock};

/// A line of a list. `run` is an object of `runs list --json`.
pub(super) fn row(run: &Value) -> String {
    let text = |name: &str| run[name].as_str().unwrap_or_default();
    let detail = run["detail"].as_str().map(|detail| format!("  {}", printable(detail))).unwrap_or_default();
    let (id, status, workflow) = (text("run"), text("status"), text("workflow"));
    format!("{id}  {status:<10} {workflow:<20} {}{detail}", at(&run["createdAtMs"]).unwrap_or_default())
}

/// All of a run, a line a field. `outcome` as it was written.
pub(super) fn fields(run: &Value, outcome: Option<&str>) -> Vec<String> {
    let text = |name: &str| run[name].as_str().map(str::to_owned);
    let of = &run["rerunOf"];
    let rerun =
        of["run"].as_str().map(|run| format!("{run} from step {}", of["fromStep"].as_str().unwrap_or_default()));
    let lines = [
        ("run", text("run")),
        ("workflow", text("workflow")),
        ("status", text("status")),
        ("started", at(&run["createdAtMs"])),
        ("changed", at(&run["changedAtMs"])),
        ("module", text("digest")),
        ("retry of", text("retryOf")),
        ("rerun of", rerun),
        ("parent", text("parent")),
        ("goes on", text("continuedFrom").map(|run| format!("for {run}"))),
        ("goes on", text("continuedAs").map(|run| format!("as {run}"))),
        ("key", text("concurrencyKey")),
        ("priority", run["priority"].as_i64().filter(|priority| *priority != 0).map(|priority| priority.to_string())),
        ("detail", text("detail")),
        ("text", text("statusText")),
        ("until", at(&run["wakeAtMs"])),
        ("outcome", outcome.map(str::to_owned)),
    ];
    let shown = lines.into_iter().filter_map(|(name, value)| Some(format!("{name:<10}{}", printable(&value?))));
    shown.collect()
}

fn at(ms: &Value) -> Option<String> {
    ms.as_u64().map(clock)
}

/// A JSON text as a tree; as its text where it is nested too deeply to be one.
pub(super) fn tree(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

/// A journal entry.
pub(super) fn entry(printer: &mut Printer, seq: u64, entry: &Entry, json: bool) -> String {
    if json {
        json!({ "seq": seq, "atMs": entry.at_ms, "entry": render::tree(&entry.record) }).to_string()
    } else {
        format!("{seq:>5} {}", printer.line(entry))
    }
}

/// A line of a log.
pub(super) struct LogLine<'a> {
    pub(super) at_ms: u64,
    pub(super) level: &'a str,
    pub(super) step: Option<&'a str>,
    pub(super) message: &'a str,
    /// JSON.
    pub(super) fields: Option<&'a str>,
}

impl LogLine<'_> {
    pub(super) fn shown(&self, json: bool) -> String {
        let Self { at_ms, level, step, message, fields } = *self;
        if json {
            let fields = fields.map(tree);
            return json!({ "atMs": at_ms, "level": level, "step": step, "message": message, "fields": fields })
                .to_string();
        }
        let step = step.map(|step| format!(" [{step}]")).unwrap_or_default();
        let fields = fields.map(|fields| format!(" {fields}")).unwrap_or_default();
        format!("{} {level:<5}{step} {}", clock(at_ms), printable(&format!("{message}{fields}")))
    }
}
