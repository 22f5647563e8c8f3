//! How much a write has to write, by what it was given: for the bounds on what is gathered and committed together. It is an estimate:
//! what indices and rows cost besides is left out.

use crate::apply::Write;
use crate::links::{Errand, Successor};
use crate::parts::is_in_parts;
use crate::rows::{Append, LogRow, NewRun, RunKey};
use crate::submission::{Action, Submission};

impl Write {
    /// The run whose writes are kept in their order.
    pub(crate) fn run(&self) -> Option<RunKey> {
        match self {
            Self::Append(batch) => Some(batch.run),
            Self::Part(part) => Some(part.run),
            _ => None,
        }
    }

    /// Whether it is a part of an entry, or has one that is in parts.
    pub(crate) fn has_parts(&self) -> bool {
        match self {
            Self::Part(_) => true,
            Self::Append(batch) => batch.entries.iter().any(|entry| is_in_parts(batch, entry)),
            _ => false,
        }
    }

    /// How many rows it makes.
    pub(crate) fn records(&self) -> usize {
        match self {
            Self::Start(run) => records_of_run(run),
            Self::Append(batch) => {
                let rows = [batch.change.is_some(), batch.unknown.is_some(), batch.answer.is_some()];
                let others = 2 * batch.errands.len() + usize::from(batch.successor.is_some());
                batch.entries.len() + batch.logs.len() + others + rows.into_iter().filter(|row| *row).count()
            }
            Self::Part(_) | Self::Event(_) | Self::Module(_) => 1,
            Self::Submit(submission) => submission.actions.iter().map(records_of).sum::<usize>() + 1,
        }
    }

    /// How many bytes of values and texts it has.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Start(run) => bytes_of_run(run),
            Self::Append(batch) => bytes_of_append(batch),
            Self::Part(part) => part.bytes.len(),
            Self::Event(event) => event.payload.len(),
            Self::Module(module) => module.bytes.len(),
            Self::Submit(submission) => bytes_of_submission(submission),
        }
    }
}

fn records_of_run(run: &NewRun) -> usize {
    1 + run.first.len() + run.inbox.len() + run.tags.len()
}

fn records_of(action: &Action) -> usize {
    match action {
        Action::Fire { run, .. } => 2 + records_of_run(run),
        Action::Start(run) => records_of_run(run),
        Action::ForgetRows { most } | Action::ForgetAnswers { most, .. } => *most as usize,
        _ => 1,
    }
}

fn bytes_of_run(run: &NewRun) -> usize {
    let first: usize = run.first.iter().map(Vec::len).sum();
    first + run.inbox.iter().map(|(_, payload)| payload.len()).sum::<usize>()
}

fn bytes_of_append(batch: &Append) -> usize {
    let line = |row: &LogRow| row.text.len() + row.fields.as_ref().map_or(0, String::len);
    let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let entries: usize = batch.entries.iter().map(Vec::len).sum();
    let change = batch.change.as_ref().map_or(0, |change| text(&change.outcome) + text(&change.detail));
    let answer = batch.answer.as_ref().map_or(0, |answer| answer.body.len());
    let errands: usize = batch.errands.iter().map(bytes_of_errand).sum();
    let successor = batch.successor.as_deref().map_or(0, |Successor { run, .. }| bytes_of_run(run));
    entries + batch.logs.iter().map(line).sum::<usize>() + change + answer + errands + successor
}

fn bytes_of_errand(errand: &Errand) -> usize {
    match errand {
        Errand::Send { payload, .. } => payload.len(),
        Errand::Start { run, .. } => bytes_of_run(run),
        Errand::Refuse { error, .. } => error.len(),
        Errand::Cancel { .. } => 0,
    }
}

fn bytes_of_submission(submission: &Submission) -> usize {
    let action = |action: &Action| match action {
        Action::Start(run) | Action::Fire { run, .. } => bytes_of_run(run),
        Action::Event(event) => event.payload.len(),
        Action::AddModule(module) => module.bytes.len(),
        _ => 0,
    };
    let answer = submission.answer.as_ref().map_or(0, |answer| answer.body.len());
    submission.actions.iter().map(action).sum::<usize>() + answer
}
