//! A rerun: a new run goes on from the journal of one that has ended, as it was before the beginning of a step.
//!
//! A pure function over the journal; the cut itself is in `prefix.rs`. Of what was begun before it all stays, also what was found out
//! later; what was begun since does not exist. The other run is left as it is, and is not needed any more.

use std::fmt;

use super::again::{ErrandKind, VoidErrand};
use super::ask::{Refusal, bounded_name, bounded_text};
use super::machine::{LoadError, Machine, Mode};
use super::prefix::{Cut, Prefix};
use super::retry::VoidEffect;
use super::state::{Again, OpKind};
use crate::contract::Operation;
use crate::fault::{Fault, planted};
use crate::ids::{Digest, RunId, StepId};
use crate::journal::codec;
use crate::journal::entry::{Entry, Record, Reran, Restored, RunOutcome};
use crate::json::Json;

/// From where a run is rerun.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rerun {
    /// The step, as `charge` or `charge#2`; `charge#1` is the first of several.
    pub from_step: String,
    /// The module that the new run is pinned to, where it is not the one that the other had last.
    pub digest: Option<Digest>,
    /// What was done since the step's beginning may be done again.
    pub confirm: bool,
    /// The restorations that the database has behind it, the earliest first: a run that has ended was not told of them.
    pub restored: Vec<Restored>,
}

/// What is new of the new run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Birth {
    /// The new run.
    pub run: RunId,
    /// When it is started, in ms since the Unix epoch.
    pub at_ms: u64,
    /// Why, for people.
    pub reason: String,
    /// Who asked.
    pub by: String,
}

/// A run that is to be started, with the journal that it goes on from.
#[derive(Debug, Clone, PartialEq)]
pub struct Rerunning {
    /// The run that it is a rerun of.
    pub of: RunId,
    /// The step from whose beginning it lives by itself.
    pub step: StepId,
    /// Its workflow.
    pub workflow: String,
    /// Its module. The journal has to replay clean on it.
    pub digest: Digest,
    /// The module that the other run had last.
    pub other_digest: Digest,
    /// Its entries, as they are written.
    pub journal: Vec<Vec<u8>>,
    /// The events that are in its journal, in the order of their numbers, which begin at 1.
    pub inbox: Vec<(String, Json)>,
    /// When its time is over, in ms since the Unix epoch.
    pub deadline_ms: Option<u64>,
    /// How many of its steps have an unknown outcome from the beginning.
    pub unknown: u32,
    /// The steps from before the cut that are attempted again, since they were not over or had failed.
    pub again: Vec<StepId>,
    /// The names of events that came to the other run after the cut, and to nothing that was begun before it: they stay there.
    pub events_left: Vec<String>,
    /// What is done again.
    pub done: DoneSince,
}

/// What was done since the cut, or may have been: the rerun does it again if the code comes to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DoneSince {
    /// Requests of steps that were begun since, and of those that a retry of the other run has made void.
    pub effects: Vec<VoidEffect>,
    /// What was done to other runs since; and the children from before that have no result: they are begun again.
    pub others: Vec<VoidErrand>,
    /// The other run was restored from a copy: what it did after that is not known.
    pub in_doubt: bool,
}

impl DoneSince {
    fn is_nothing(&self) -> bool {
        self.effects.is_empty() && self.others.is_empty() && !self.in_doubt
    }

    fn of(other: &Machine, cut: &Cut, new: &Machine) -> Self {
        let (mut effects, mut others) = (Vec::new(), Vec::new());
        for (op, state) in (0..).zip(&other.state.ops) {
            let gone = cut.is_gone(other, op);
            let again = |op: Operation| new.state.ops.get(op as usize).is_some_and(|new| new.again == Again::Now);
            match &state.kind {
                OpKind::Step(step) if gone => effects.extend(VoidEffect::of(step)),
                OpKind::Child(child) if gone || again(op) => {
                    others.push(VoidErrand { run: child.run.clone(), what: ErrandKind::Child(child.workflow.clone()) });
                }
                OpKind::Send { to, name, .. } if gone && !matches!(state.outcome, Some(Err(_))) => {
                    others.push(VoidErrand { run: to.clone(), what: ErrandKind::Event(name.clone()) });
                }
                _ => {}
            }
        }
        Self { effects, others, in_doubt: new.state.in_doubt }
    }
}

impl fmt::Display for DoneSince {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this was done, or may have been, and is not part of what the rerun goes on from")?;
        for of in &self.effects {
            write!(f, "; {} {} by step {}", of.method, of.url, of.step)?;
        }
        for other in &self.others {
            write!(f, "; {other}")?;
        }
        if self.in_doubt {
            f.write_str("; whatever the run did after the copy was made from which the database was restored")?;
        }
        f.write_str(". The rerun does it again, under keys of its own, where the workflow comes to it: confirm it")
    }
}

/// Why there is no rerun.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum RerunError {
    /// The other run, or the step, is not such that there can be one.
    Refused(Refusal),
    /// The other run's journal cannot be read.
    Unreadable(LoadError),
}

impl From<Refusal> for RerunError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// Cuts a journal before the beginning of a step, and makes the new run's of it.
///
/// # Errors
/// When the run has not ended, has no such step, or several; when something was done since that is not confirmed; when what is before
/// the step cannot be gone on from.
pub fn rerun<B: AsRef<[u8]>>(journal: &[B], ask: &Rerun, birth: &Birth) -> Result<Rerunning, RerunError> {
    let unreadable = |error| RerunError::Unreadable(LoadError(error));
    let other = Machine::load(journal, None, Mode::Verify).map_err(RerunError::Unreadable)?;
    if other.state.ended.is_none() {
        return Err(Refusal::NotEnded.into());
    }
    let cut = Cut::before(&other, &ask.from_step)?;
    let entries = (0..).zip(journal).map(|(seq, bytes)| codec::decode(seq, bytes.as_ref()));
    let entries: Vec<Entry> = entries.collect::<Result<_, _>>().map_err(unreadable)?;
    let had = cut.events_had(&entries).map_err(unreadable)?;
    let mut new = Prefix::of(&entries, &cut, &had, birth);
    for restored in other.not_told_since_its_end(&ask.restored) {
        new.push(birth.at_ms, Record::Restored(restored));
    }
    let digest = ask.digest.clone().unwrap_or_else(|| other.state.digest.clone());
    new.push(
        birth.at_ms,
        Record::Reran(Box::new(Reran {
            of: other.run_id().clone(),
            step: cut.step.clone(),
            to: new.number_of(cut.seq),
            digest: digest.clone(),
            deadline_ms: other.run_timeout_ms().map(|ms| birth.at_ms.saturating_add(ms)),
            reason: bounded_text(&birth.reason),
            by: bounded_name(&birth.by),
        })),
    );
    let machine = new.checked(&other, &cut)?;
    let done = DoneSince::of(&other, &cut, &machine);
    if !done.is_nothing() && !ask.confirm && !planted(Fault::RerunUnconfirmed) {
        return Err(Refusal::RerunNeedsConfirm(Box::new(done)).into());
    }
    Ok(Rerunning {
        of: other.run_id().clone(),
        step: cut.step,
        workflow: other.started().workflow.clone(),
        digest,
        other_digest: other.state.digest.clone(),
        deadline_ms: machine.started().deadline_ms,
        unknown: machine.unknown_count(),
        again: machine.attempted_next(),
        inbox: new.inbox,
        events_left: new.events_left,
        journal: new.journal,
        done,
    })
}

impl Machine {
    /// The restorations that have to be told before anybody goes on from this run. Nothing of one that had not failed can have gone on
    /// after a copy.
    fn not_told_since_its_end(&self, restored: &[Restored]) -> Vec<Restored> {
        let failed = matches!(self.state.ended, Some((RunOutcome::Failed(_), _)));
        if failed { self.not_told(restored) } else { Vec::new() }
    }
}
