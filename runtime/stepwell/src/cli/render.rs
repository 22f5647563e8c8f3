//! What happens in a run, as lines for people and as JSON for programs.

use std::collections::HashMap;

use anstyle::{AnsiColor, Reset};
use serde_json::{Value, json};
use stepwell_core::contract::{Level, Operation};
use stepwell_core::ids::StepId;
use stepwell_core::journal::entry::{AttemptOutcome, Entry, Next, Record, RunOutcome};
use stepwell_core::journal::print::printable;
use stepwell_engine::RunEvent;

use super::exit::style;

/// Turns a run's events into lines.
#[derive(Default)]
pub(super) struct Lines {
    steps: HashMap<Operation, StepId>,
    began: HashMap<Operation, u64>,
}

impl Lines {
    /// The line of an event, for people. Most entries have none: a line an attempt is what one wants to see.
    pub(super) fn line(&mut self, event: &RunEvent) -> Option<String> {
        match event {
            RunEvent::Entry { entry, .. } => self.entry(entry),
            RunEvent::Log(line) => {
                let step = line.step.as_ref().map(|step| format!(" [{step}]")).unwrap_or_default();
                let fields = line.fields.as_ref().map(|fields| format!(" {fields}")).unwrap_or_default();
                let text = printable(&format!("{}{fields}", line.message));
                Some(format!("  {}{step} {text}", level(line.level)))
            }
            RunEvent::StatusText(text) => Some(format!("  status: {}", printable(text))),
            RunEvent::Waiting { what, until_ms } => {
                let until = until_ms.map(|at| format!(" until {}", clock(at))).unwrap_or_default();
                Some(format!("  waiting for {what}{until}"))
            }
            _ => None,
        }
    }

    /// The line of a journal entry.
    pub(super) fn entry(&mut self, entry: &Entry) -> Option<String> {
        match &entry.record {
            Record::StepBegun(begun) => {
                self.steps.insert(begun.op, begun.step.clone());
                None
            }
            Record::AttemptStarted { op, .. } => {
                self.began.insert(*op, entry.at_ms);
                None
            }
            Record::AttemptEnded { op, n, outcome } => {
                let step = self.steps.get(op).map(ToString::to_string).unwrap_or_default();
                let took = entry.at_ms.saturating_sub(self.began.get(op).copied().unwrap_or(entry.at_ms));
                Some(attempt_line(&step, *n, took, outcome, entry.at_ms))
            }
            Record::SleepBegun { ms, due_ms, .. } => Some(format!("  sleeping {} until {}", span(*ms), clock(*due_ms))),
            Record::WaitBegun { name, due_ms, .. } => {
                let until = due_ms.map(|at| format!(" until {}", clock(at))).unwrap_or_default();
                Some(format!("  waiting for event {name:?}{until}"))
            }
            Record::SendBegun { to, name, .. } => {
                Some(format!("  sending event {name:?} to {}", printable(to.as_str())))
            }
            Record::ChildBegun(child) => Some(format!("  starting {:?} as {}", child.workflow, child.run)),
            Record::EventArrived { name, .. } => Some(format!("  event {name:?} came")),
            Record::Rewound { by, .. } => Some(format!("  taken up again by {}", printable(by))),
            Record::Reran(reran) => {
                let step = reran.step.to_string();
                Some(format!(
                    "  goes on from run {} before step {}, asked by {}",
                    reran.of,
                    printable(&step),
                    printable(&reran.by)
                ))
            }
            Record::CancelRequested { error, .. } => Some(format!("  cancelling: {}", printable(&error.message))),
            _ => None,
        }
    }
}

fn attempt_line(step: &str, n: u32, took_ms: u64, outcome: &AttemptOutcome, now_ms: u64) -> String {
    let (green, red, reset) = (style(AnsiColor::Green).render(), style(AnsiColor::Red).render(), Reset.render());
    match outcome {
        AttemptOutcome::Succeeded(_) => format!("{green}ok{reset}      {step} attempt {n} ({})", span(took_ms)),
        AttemptOutcome::Failed { error, next } => {
            let next = match next {
                Next::Retry { due_ms, .. } => {
                    format!("next attempt in {} at {}", span(due_ms.saturating_sub(now_ms)), clock(*due_ms))
                }
                Next::GiveUp => "no further attempt".to_owned(),
                Next::Unknown => "outcome unknown: somebody has to find out what happened".to_owned(),
            };
            let error = printable(&error.to_string());
            format!("{red}failed{reset}  {step} attempt {n} ({}) {error}; {next}", span(took_ms))
        }
    }
}

/// An event as one JSON object.
pub(super) fn json_event(event: &RunEvent) -> Value {
    match event {
        RunEvent::Entry { seq, entry } => {
            json!({ "event": "entry", "seq": seq, "atMs": entry.at_ms, "entry": tree(&entry.record) })
        }
        RunEvent::Log(line) => json!({
            "event": "log", "atMs": line.at_ms, "level": line.level, "step": line.step.as_ref().map(ToString::to_string),
            "message": line.message, "fields": line.fields.as_ref().map(tree),
        }),
        RunEvent::StatusText(text) => json!({ "event": "status", "text": text }),
        RunEvent::Waiting { what, until_ms } => json!({ "event": "waiting", "for": what, "untilMs": until_ms }),
        RunEvent::Blocked(steps) => {
            json!({ "event": "blocked", "steps": steps.iter().map(ToString::to_string).collect::<Vec<_>>() })
        }
        RunEvent::Ended(outcome) => match outcome {
            RunOutcome::Succeeded(value) => json!({ "event": "ended", "status": "succeeded", "result": tree(value) }),
            RunOutcome::Continued(run) => json!({ "event": "ended", "status": "succeeded", "continuedAs": run }),
            RunOutcome::Failed(error) => json!({ "event": "ended", "status": "failed", "error": tree(error) }),
            RunOutcome::Cancelled(error) => json!({ "event": "ended", "status": "cancelled", "error": tree(error) }),
            RunOutcome::Terminated(error) => json!({ "event": "ended", "status": "terminated", "error": tree(error) }),
        },
        RunEvent::Paused(error) => json!({ "event": "paused", "error": tree(error) }),
        RunEvent::Parked => json!({ "event": "parked" }),
    }
}

/// Anything as a tree; as its text where a value in it is nested too deeply to be one.
pub(super) fn tree<T: serde::Serialize + ?Sized>(value: &T) -> Value {
    serde_json::to_value(value)
        .unwrap_or_else(|_| Value::String(serde_json::to_string(value).unwrap_or_else(|error| error.to_string())))
}

fn level(level: Level) -> &'static str {
    match level {
        Level::Trace => "trace",
        Level::Debug => "debug",
        Level::Info => "info ",
        Level::Warn => "warn ",
        Level::Error => "error",
    }
}

/// A time of day in UTC; with the date where it is not today's.
pub(super) fn clock(at_ms: u64) -> String {
    let at = i64::try_from(at_ms).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    let Some(at) = at else { return format!("{at_ms} ms") };
    let (text, today) = (at.strftime("%H:%M:%S").to_string(), jiff::Timestamp::now().strftime("%Y-%m-%d").to_string());
    let date = at.strftime("%Y-%m-%d").to_string();
    if date == today { format!("{text} UTC") } else { format!("{date} {text} UTC") }
}

/// A length of time for people.
pub(super) fn span(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..120_000 => format!("{:.1} s", ms as f64 / 1_000.0),
        120_000..7_200_000 => format!("{:.0} min", ms as f64 / 60_000.0),
        7_200_000..172_800_000 => format!("{:.1} h", ms as f64 / 3_600_000.0),
        _ => format!("{:.1} days", ms as f64 / 86_400_000.0),
    }
}
