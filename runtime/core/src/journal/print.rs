//! A journal for people: one line an entry. Used by tests, CLI and logs.

use std::fmt::Write as _;

use super::entry::{
    AttemptOutcome, ChildBegun, Dispatched, Entry, Next, Record, Reply, Resolution, Restored, RunOutcome, Started,
    StepBegun,
};
use crate::contract::{EffectClass, Evidence, Operation};
use crate::ids::StepId;
use crate::json::Json;

/// How much of a value a line shows, in bytes.
const SHOWN_BYTES: usize = 120;

/// How times are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Times {
    /// As milliseconds since the run began.
    Relative,
    /// Not at all: for comparing journals.
    Hidden,
}

/// Prints a journal. Steps are called by their ids.
#[derive(Debug)]
pub struct Printer {
    times: Times,
    start_ms: u64,
    turn: u64,
    steps: Vec<(Operation, StepId)>,
}

impl Printer {
    /// For a journal from its beginning.
    #[must_use]
    pub fn new(times: Times) -> Self {
        Self { times, start_ms: 0, turn: 0, steps: Vec::new() }
    }

    /// A whole journal, a line an entry.
    #[must_use]
    pub fn print(entries: &[Entry], times: Times) -> String {
        let mut printer = Self::new(times);
        entries.iter().fold(String::new(), |mut text, entry| {
            let _ = writeln!(text, "{}", printer.line(entry));
            text
        })
    }

    /// The next entry's line.
    pub fn line(&mut self, entry: &Entry) -> String {
        match &entry.record {
            Record::Started(_) => self.start_ms = entry.at_ms,
            Record::StepBegun(begun) => self.steps.push((begun.op, begun.step.clone())),
            Record::Delivered { .. } | Record::CancelDelivered => self.turn += 1,
            _ => {}
        }
        let what = without_controls(&self.what(&entry.record));
        match self.times {
            Times::Hidden => what,
            Times::Relative => format!("{:>9} {what}", self.since(entry.at_ms)),
        }
    }

    fn since(&self, at_ms: u64) -> String {
        format!("+{}", at_ms.saturating_sub(self.start_ms))
    }

    fn until(&self, at_ms: u64) -> String {
        match self.times {
            Times::Hidden => String::new(),
            Times::Relative => format!(" until {}", self.since(at_ms)),
        }
    }

    fn name(&self, op: Operation) -> String {
        match self.steps.iter().rev().find(|(step, _)| *step == op) {
            Some((_, id)) => format!("{op} {id}"),
            None => format!("{op}"),
        }
    }

    fn what(&self, record: &Record) -> String {
        match record {
            Record::Started(Started { workflow, input, .. }) => format!("started {workflow} {}", shown(input)),
            Record::StepBegun(StepBegun { op, effect, .. }) => {
                format!("step-begun {}{}", self.name(*op), class(*effect))
            }
            Record::SleepBegun { op, ms, due_ms } => format!("sleep-begun {op} {ms} ms{}", self.until(*due_ms)),
            Record::WaitBegun { op, name, due_ms } => {
                format!("wait-begun {op} {name:?}{}", due_ms.map(|due| self.until(due)).unwrap_or_default())
            }
            Record::SendBegun { op, to, name, payload } => {
                format!("send-begun {op} {name:?} to {} {}", line_of(to.as_str()), shown(payload))
            }
            Record::ChildBegun(child) => {
                let ChildBegun { op, run, workflow, input, .. } = &**child;
                let detached = if child.detached { " detached" } else { "" };
                let abandoned = if child.abandoned { " abandoned" } else { "" };
                format!("child-begun {op} {workflow:?} as {run}{detached}{abandoned} {}", shown(input))
            }
            Record::ChildBegunAgain { op, run } => format!("child-begun-again {op} as {run}"),
            Record::ContinuedAsNew { input } => format!("continued-as-new {}", shown(input)),
            Record::Closed { op } => format!("closed {}", self.name(*op)),
            Record::Delivered { op } => format!("delivered {} (turn {})", self.name(*op), self.turn),
            Record::CancelDelivered => format!("cancel-delivered (turn {})", self.turn),
            Record::AttemptStarted { op, n, .. } => format!("attempt-started {} attempt {n}", self.name(*op)),
            Record::AttemptEnded { op, n, outcome } => self.attempt_ended(*op, *n, outcome),
            Record::Dispatched(dispatched) => self.dispatched(dispatched),
            Record::Settled { op, effect, evidence, .. } => {
                format!("settled {} effect {effect} {}", self.name(*op), evidence_text(evidence))
            }
            Record::TimerFired { op } => format!("timer-fired {op}"),
            Record::WaitExpired { op } => format!("wait-expired {op}"),
            Record::EventArrived { name, payload, .. } => format!("event-arrived {name:?} {}", shown(payload)),
            Record::ReplyArrived { op, reply, .. } => match reply {
                Reply::Succeeded(value) => format!("reply-arrived {op} succeeded {}", shown(value)),
                Reply::Failed(error) => format!("reply-arrived {op} failed {}", line_of(&error.to_string())),
            },
            Record::CancelRequested { error, by } => {
                let by = by.as_ref().map(|by| format!(" by {}", line_of(by))).unwrap_or_default();
                format!("cancel-requested {}{by}", error.code)
            }
            Record::TerminateRequested { error, by } => {
                format!("terminate-requested {} by {}", error.code, line_of(by))
            }
            Record::Paused { reason, by } => format!("paused by {}: {}", line_of(by), line_of(reason)),
            Record::Unpaused { by } => format!("unpaused by {}", line_of(by)),
            Record::Resolved { op, resolution, evidence, by } => {
                let what = match resolution {
                    Resolution::Succeeded(value) => format!("succeeded {}", shown(value)),
                    Resolution::Failed(error) => format!("failed {}", line_of(&error.to_string())),
                    Resolution::Retry { renewed } if renewed.is_empty() => "another attempt".to_owned(),
                    Resolution::Retry { renewed } => format!("another attempt, new keys for effects {renewed:?}"),
                };
                format!("resolved {} by {}: {what} ({})", self.name(*op), line_of(by), line_of(evidence))
            }
            Record::Rewound { to, reason, by } => format!("rewound to {to} by {}: {}", line_of(by), line_of(reason)),
            Record::Reran(reran) => format!(
                "a rerun of {} from step {} (entry {}) by {}: {}",
                reran.of,
                reran.step,
                reran.to,
                line_of(&reran.by),
                line_of(&reran.reason)
            ),
            Record::Resumed => "resumed".to_owned(),
            Record::Repinned { digest } => format!("repinned {}", digest.short()),
            Record::Restored(Restored { epoch, in_doubt, by }) => {
                let doubt =
                    if *in_doubt { "; what followed the copy is not known" } else { "; nothing followed the copy" };
                format!("restored by {}, epoch {}{doubt}", line_of(by), line_of(epoch))
            }
            Record::NothingFollowed { evidence, by } => {
                format!("nothing-followed, says {} ({})", line_of(by), line_of(evidence))
            }
            Record::Ended { outcome, .. } => match outcome {
                RunOutcome::Succeeded(value) => format!("ended succeeded {}", shown(value)),
                RunOutcome::Failed(error) => format!("ended failed {}", line_of(&error.to_string())),
                RunOutcome::Cancelled(error) => format!("ended cancelled {}", line_of(&error.to_string())),
                RunOutcome::Terminated(error) => format!("ended terminated {}", line_of(&error.to_string())),
                RunOutcome::Continued(run) => format!("ended, {run} goes on"),
            },
        }
    }

    fn attempt_ended(&self, op: Operation, n: u32, outcome: &AttemptOutcome) -> String {
        let step = self.name(op);
        match outcome {
            AttemptOutcome::Succeeded(value) => format!("attempt-ended {step} attempt {n} succeeded {}", shown(value)),
            AttemptOutcome::Failed { error, next } => {
                let next = match next {
                    Next::Retry { due_ms, alone } => {
                        let due = match self.times {
                            Times::Hidden => String::new(),
                            Times::Relative => format!(" at {}", self.since(*due_ms)),
                        };
                        format!("next attempt{due}{}", if *alone { ", alone" } else { "" })
                    }
                    Next::GiveUp => "no further attempt".to_owned(),
                    Next::Unknown => "outcome unknown".to_owned(),
                };
                format!("attempt-ended {step} attempt {n} failed {}; {next}", line_of(&error.to_string()))
            }
        }
    }

    fn dispatched(&self, d: &Dispatched) -> String {
        let key = d.key.as_ref().map(|key| format!(" key {key}")).unwrap_or_default();
        let step = self.name(d.op);
        format!("dispatched {step} attempt {} effect {} {} {}{key}", d.n, d.effect, d.what.method, d.what.url)
    }
}

fn class(effect: EffectClass) -> &'static str {
    match effect {
        EffectClass::Repeatable => "",
        EffectClass::Keyed => " keyed",
        EffectClass::Once => " once",
    }
}

fn evidence_text(evidence: &Evidence) -> String {
    match evidence {
        Evidence::NotSent => "not-sent".to_owned(),
        Evidence::Sent => "sent".to_owned(),
        Evidence::Answered(status) => format!("answered {status}"),
    }
}

fn shown(json: &Json) -> String {
    line_of(json.as_str())
}

/// One line of bounded length, whatever the text holds.
fn line_of(text: &str) -> String {
    let cut = text.floor_char_boundary(SHOWN_BYTES);
    let mut line = without_controls(&text[..cut]);
    if cut < text.len() {
        let _ = write!(line, "… ({} bytes)", text.len());
    }
    line
}

/// A text of somebody else's for a terminal: it cannot steer it, and a further line of it does not look like one of ours.
#[must_use]
pub fn printable(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(|line| without_controls(&line.replace('\t', "    "))).collect();
    lines.join("\n    ")
}

/// Whatever stands in a journal, it cannot break the line or steer a terminal.
fn without_controls(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}
