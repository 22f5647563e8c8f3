//! Replay: the guest's commands are checked against the journal, and the journal's deliveries are made again.
//!
//! Before the journal's end every command must be the recorded one, and the guest must be quiet exactly where a delivery was made.
//! Policies, time-outs and durations are not compared: the recorded ones win.

use super::guest::Owner;
use super::machine::{Machine, Mode};
use super::state::{ItemKind, OpKind};
use crate::contract::{Event, Operation};
use crate::error::{Code, Error};
use crate::fault::{Fault, planted};
use crate::ids::RunId;
use crate::journal::entry::RunOutcome;
use crate::journal::mismatch::Mismatch;
use crate::json::Json;

/// A command as it is compared.
#[derive(Debug, Clone, Copy)]
pub(super) enum Came<'a> {
    Step(&'a str),
    Sleep,
    Wait(&'a str),
    Send { to: &'a RunId, name: &'a str, payload: &'a Json },
    Child { workflow: &'a str, input: &'a Json },
    Continue(&'a Json),
    Close(Operation),
}

impl Came<'_> {
    fn text(&self) -> String {
        match self {
            Self::Step(name) => format!("step {name:?}"),
            Self::Sleep => "a sleep".to_owned(),
            Self::Wait(name) => format!("a wait for event {name:?}"),
            Self::Send { to, name, payload } => send_text(to, name, payload),
            Self::Child { workflow, input } => child_text(workflow, input),
            Self::Continue(input) => continue_text(input),
            Self::Close(op) => format!("the close of operation {op}"),
        }
    }
}

impl Machine {
    /// Whether the guest has come to the end of what is recorded.
    #[must_use]
    pub fn at_frontier(&self) -> bool {
        self.guest.cursor >= self.state.script.len()
    }

    /// Whether the run has gone past its journal's end, so that new things may be recorded.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.guest.live
    }

    /// Whether the attempt whose turn this is was closed during it: what its body still does is for nothing.
    #[must_use]
    pub fn turn_is_void(&self) -> bool {
        self.guest.void
    }

    /// Whether the run's end is decided and only its requests are waited for.
    #[must_use]
    pub fn is_ending(&self) -> bool {
        self.ending.is_some()
    }

    /// The recorded time of the latest entry, in ms since the Unix epoch.
    #[must_use]
    pub fn recorded_ms(&self) -> u64 {
        self.state.at_ms
    }

    /// Checks a command against the journal. `Some` is the recorded operation; `None` where the command is new.
    pub(super) fn replayed(&mut self, came: Came<'_>) -> Result<Option<Operation>, Error> {
        if let Some(mismatch) = &self.stopped {
            return Err(Error::new(Code::ReplayMismatch, mismatch.to_string()).never_retried());
        }
        let Some(item) = self.state.script.get(self.guest.cursor).copied() else {
            return match self.mode {
                Mode::Continue => Ok(None),
                // The run's last turn was cut short, by a kill for instance: what would have come next is not recorded.
                Mode::Verify if !self.ended_by_return() => Err(self.verified()),
                Mode::Verify => Err(self.differs("the end of the run's journal", &came.text())),
            };
        };
        let found = match (item.kind, came) {
            // It has no number, and nobody asks for one.
            (ItemKind::Continue, Came::Continue(input)) => {
                self.state.continued.as_ref().is_some_and(|recorded| recorded.same_value(input)).then_some(0)
            }
            (ItemKind::Close(op), Came::Close(closed)) if op == closed => Some(op),
            (ItemKind::Begin(op), _) => match (&self.state.ops[op as usize].kind, came) {
                (OpKind::Step(step), Came::Step(name)) if step.begun.step.name == name => Some(op),
                (OpKind::Step(_), Came::Step(_)) if planted(Fault::SkipMismatch) => Some(op),
                (OpKind::Sleep { .. }, Came::Sleep) => Some(op),
                (OpKind::Wait { name: recorded, .. }, Came::Wait(name)) if recorded == name => Some(op),
                (OpKind::Send { to, name, payload }, Came::Send { to: t, name: n, payload: p }) => {
                    (to == t && name == n && payload.same_value(p)).then_some(op)
                }
                (OpKind::Child(child), Came::Child { workflow, input }) => {
                    (child.workflow == workflow && child.input.same_value(input)).then_some(op)
                }
                _ => None,
            },
            _ => None,
        };
        let Some(op) = found else {
            let recorded = self.recorded_text(item.kind);
            return Err(self.differs(&recorded, &came.text()));
        };
        self.guest.cursor += 1;
        if let ItemKind::Close(op) = item.kind {
            self.guest.over.insert(op);
        }
        Ok(Some(op))
    }

    /// The next recorded delivery, if the guest is before the journal's end. Quiet where a command was recorded is a difference.
    pub(super) fn redelivered(&mut self) -> Option<Event> {
        let mut item = *self.state.script.get(self.guest.cursor)?;
        if planted(Fault::ReplayOutOfOrder) {
            self.swap_deliveries(&mut item.kind);
        }
        if planted(Fault::SkipDelivery)
            && let Some(next) = self.state.script.get(self.guest.cursor + 1)
            && matches!((item.kind, next.kind), (ItemKind::Deliver(_), ItemKind::Deliver(_)))
        {
            item = *next;
            self.guest.cursor += 1;
            self.guest.open = self.guest.open.saturating_sub(1);
        }
        let event = match item.kind {
            ItemKind::Deliver(op) => self.outcome_event(op),
            ItemKind::Cancel => Some(Event::Cancelled),
            ItemKind::Begin(_) | ItemKind::Close(_) | ItemKind::Continue => None,
        };
        let Some(event) = event else {
            let recorded = self.recorded_text(item.kind);
            self.differs(&recorded, "no further command in this turn");
            return None;
        };
        self.guest.cursor += 1;
        self.guest.cancelled |= matches!(item.kind, ItemKind::Cancel);
        if let ItemKind::Deliver(op) = item.kind {
            self.guest.over.insert(op);
            self.guest.open = self.guest.open.saturating_sub(1);
        }
        self.guest.workflow_turn(item.at_ms, item.turn);
        Some(event)
    }

    fn swap_deliveries(&mut self, kind: &mut ItemKind) {
        let next = self.guest.cursor + 1;
        if let (ItemKind::Deliver(a), Some(ItemKind::Deliver(b))) = (*kind, self.state.script.get(next).map(|i| i.kind))
            && b < a
        {
            self.state.script[next].kind = ItemKind::Deliver(a);
            *kind = ItemKind::Deliver(b);
        }
    }

    /// What the workflow is told of a settled operation: always from the recorded outcome.
    pub(super) fn outcome_event(&self, op: Operation) -> Option<Event> {
        match self.state.ops.get(op as usize)?.outcome.clone()? {
            Ok(value) => Some(Event::Completed(op, value)),
            Err(error) => Some(Event::Failed(op, error)),
        }
    }

    /// In a verification: the guest has come to the end of what is recorded. What it does from there on is not looked at.
    fn verified(&mut self) -> Error {
        self.outputs.push(super::machine::Output::Verified);
        Error::new(Code::Unsupported, "the run is only compared with its journal, which ends here").never_retried()
    }

    /// In a verification: the guest returned. Its result must be the recorded one.
    pub(super) fn verify_end(&mut self, result: &Result<Json, Error>) {
        let Some((recorded, _)) = self.state.ended.clone() else { return };
        let same = match (&recorded, result) {
            (RunOutcome::Succeeded(a), Ok(b)) => a.same_value(b),
            (RunOutcome::Failed(a), Err(b)) => a.code == b.code && a.message == b.clone().bounded().message,
            (RunOutcome::Cancelled(_), Err(_)) | (RunOutcome::Continued(_), Ok(_)) => true,
            // It would have gone on in another run, and was cancelled instead.
            (RunOutcome::Cancelled(_), Ok(_)) => self.guest.continued,
            _ => false,
        };
        if same {
            self.outputs.push(super::machine::Output::Verified);
            return;
        }
        let text = |ok: Option<&Json>, error: Option<&Error>| match (ok, error) {
            (Some(value), _) => format!("the result {}", shortened(value.as_str())),
            (_, Some(error)) => format!("the error {}", shortened(&error.to_string())),
            _ => String::new(),
        };
        let recorded = match &recorded {
            RunOutcome::Continued(run) => format!("the end, so that run {run} goes on"),
            RunOutcome::Succeeded(value) => text(Some(value), None),
            RunOutcome::Failed(error) | RunOutcome::Cancelled(error) | RunOutcome::Terminated(error) => {
                text(None, Some(error))
            }
        };
        let came = match result {
            Ok(value) => text(Some(value), None),
            Err(error) => text(None, Some(error)),
        };
        self.differs(&recorded, &came);
    }

    /// The steps whose bodies ran live and do not on replay, of those that the guest has begun; the latest first.
    fn suspects(&self) -> Vec<String> {
        let begun = &self.state.script[..self.guest.cursor.min(self.state.script.len())];
        let steps = begun.iter().rev().filter_map(|item| match item.kind {
            ItemKind::Begin(op) => self.state.step(op).filter(|step| step.attempts > 0),
            _ => None,
        });
        steps.map(|step| format!("{:?}", step.begun.step.to_string())).collect()
    }

    /// Stops the run at a difference, and gives the refusal for the command that showed it.
    pub(super) fn differs(&mut self, recorded: &str, came: &str) -> Error {
        let seq = self.state.script.get(self.guest.cursor).map_or(self.state.entries, |item| item.seq);
        let mismatch = Mismatch {
            seq,
            turn: self.guest.turn,
            recorded: recorded.to_owned(),
            came: came.to_owned(),
            likely: Mismatch::cause_in_same_code(&self.suspects()),
        };
        let error = Error::new(Code::ReplayMismatch, mismatch.to_string()).never_retried();
        self.stop(mismatch);
        error
    }

    pub(super) fn recorded_text(&self, kind: ItemKind) -> String {
        let name = |op: Operation| match self.state.ops.get(op as usize).map(|op| &op.kind) {
            Some(OpKind::Step(step)) => format!("step {:?}", step.begun.step.name),
            Some(OpKind::Sleep { .. }) => "a sleep".to_owned(),
            Some(OpKind::Wait { name, .. }) => format!("a wait for event {name:?}"),
            Some(OpKind::Send { to, name, payload }) => send_text(to, name, payload),
            Some(OpKind::Child(child)) => child_text(&child.workflow, &child.input),
            None => format!("operation {op}"),
        };
        match kind {
            ItemKind::Begin(op) => name(op),
            ItemKind::Continue => self.state.continued.as_ref().map_or_else(String::new, continue_text),
            ItemKind::Close(op) => format!("the close of operation {op} ({})", name(op)),
            ItemKind::Deliver(op) => format!("the end of the turn, then the outcome of {}", name(op)),
            ItemKind::Cancel => "the end of the turn, then the request to cancel".to_owned(),
        }
    }

    /// What is recorded next, for a guest that did something else than a command.
    pub(super) fn next_recorded_text(&self) -> Option<String> {
        self.state.script.get(self.guest.cursor).map(|item| self.recorded_text(item.kind))
    }

    pub(super) fn in_body(&self) -> bool {
        matches!(self.guest.owner, Owner::Body(_))
    }
}

fn send_text(to: &RunId, name: &str, payload: &Json) -> String {
    format!("the event {name:?} to run {to} with {}", shortened(payload.as_str()))
}

fn child_text(workflow: &str, input: &Json) -> String {
    format!("a child run of workflow {workflow:?} with the input {}", shortened(input.as_str()))
}

fn continue_text(input: &Json) -> String {
    format!("the run's end, so that another goes on with the input {}", shortened(input.as_str()))
}

fn shortened(text: &str) -> String {
    let cut = text.floor_char_boundary(300);
    if cut < text.len() { format!("{}… ({} bytes)", &text[..cut], text.len()) } else { text.to_owned() }
}
