//! The cut of a journal: what a rerun has of the other run's.
//!
//! All that is before the cut stays as it is. Of what came later there stays what is about operations from before it, in its order;
//! what the other run's workflow did and was told meanwhile is among that, so that all fits together, and is void.

use std::collections::BTreeSet;

use super::ask::Refusal;
use super::machine::{Machine, Mode};
use super::rerun::Birth;
use super::state::{ItemKind, State};
use crate::contract::Operation;
use crate::fault::{Fault, planted};
use crate::ids::StepId;
use crate::journal::codec::{self, Unreadable};
use crate::journal::entry::{Entry, Record, Started};
use crate::json::Json;
use crate::limits;

/// Where a journal is cut.
pub(super) struct Cut {
    /// The step whose beginning is the first thing that is void.
    pub(super) step: StepId,
    /// Its operation. Those with smaller numbers were begun before.
    op: Operation,
    /// The number of the entry by which it began.
    pub(super) seq: u64,
}

impl Cut {
    /// Before the beginning of that step.
    pub(super) fn before(other: &Machine, step: &str) -> Result<Self, Refusal> {
        let begun = other.state.script.iter().filter_map(|item| match item.kind {
            ItemKind::Begin(op) => Some((item.seq, op, other.step_of(op)?)),
            _ => None,
        });
        // A `#` of a name's own is written otherwise, so that it only ever separates the occurrence.
        let named = |id: &StepId| StepId { occurrence: 1, ..id.clone() }.to_string() == step;
        let same = begun.clone().filter(|(_, _, id)| named(id));
        let ids: Vec<String> = same.map(|(_, _, id)| format!("{step}#{}", id.occurrence)).collect();
        if ids.len() > 1 {
            return Err(Refusal::StepAmbiguous { step: step.to_owned(), ids });
        }
        let wanted = step.strip_suffix("#1").unwrap_or(step);
        let found = begun.into_iter().find(|(_, _, id)| id.to_string() == wanted);
        let (seq, op, id) = found.ok_or_else(|| Refusal::NoSuchStep(step.to_owned()))?;
        let late = u32::from(planted(Fault::RerunCutLate));
        Ok(Self { step: id.clone(), op: op + late, seq: seq + u64::from(late) })
    }

    /// Whether an operation was begun before.
    fn has(&self, op: Operation) -> bool {
        op < self.op
    }

    /// Whether what was begun by that operation does not exist in the new run.
    pub(super) fn is_gone(&self, other: &Machine, op: Operation) -> bool {
        !self.has(op) || other.state.ops.get(op as usize).is_some_and(|op| op.void)
    }

    /// The numbers of the events that came after the cut and were ever given to a wait from before it.
    pub(super) fn events_had(&self, entries: &[Entry]) -> Result<BTreeSet<u64>, Unreadable> {
        let mut had = BTreeSet::new();
        let Some((Entry { at_ms, record: Record::Started(started) }, rest)) = entries.split_first() else {
            return Ok(had);
        };
        let mut state = State::new(*at_ms, started.clone(), 0);
        let mut waits = None;
        for (seq, entry) in (1..).zip(rest) {
            if seq == self.seq {
                waits = Some(state.waits_not_told());
            }
            state.apply(entry, 0).map_err(|reason| Unreadable { seq, reason })?;
            let Some(waits) = &waits else { continue };
            // Only by these does an event go anywhere.
            let goes = matches!(
                entry.record,
                Record::EventArrived { .. } | Record::Closed { .. } | Record::Rewound { .. } | Record::Reran(_)
            );
            if goes {
                had.extend(waits.iter().filter_map(|op| state.event_of(*op)));
            }
        }
        Ok(had)
    }

    /// Whether the entry is of the new run's journal too.
    fn keeps(&self, seq: u64, record: &Record, had: &BTreeSet<u64>) -> bool {
        if seq < self.seq {
            return true;
        }
        if planted(Fault::RerunForgetsResults) {
            return false;
        }
        match record {
            Record::Closed { op }
            | Record::Delivered { op }
            | Record::AttemptStarted { op, .. }
            | Record::AttemptEnded { op, .. }
            | Record::Settled { op, .. }
            | Record::TimerFired { op }
            | Record::WaitExpired { op }
            | Record::ReplyArrived { op, .. }
            | Record::ChildBegunAgain { op, .. }
            | Record::Resolved { op, .. } => self.has(*op),
            Record::Dispatched(dispatched) => self.has(dispatched.op),
            Record::EventArrived { id, .. } => had.contains(id),
            // What follows from these for what was begun before is undone where it has to be, and in order until then.
            Record::CancelRequested { .. }
            | Record::CancelDelivered
            | Record::Rewound { .. }
            | Record::Reran(_)
            | Record::Restored(_)
            | Record::NothingFollowed { .. }
            | Record::Ended { .. } => true,
            Record::Started(_)
            | Record::StepBegun(_)
            | Record::SleepBegun { .. }
            | Record::WaitBegun { .. }
            | Record::SendBegun { .. }
            | Record::ChildBegun(_)
            | Record::ContinuedAsNew { .. }
            | Record::TerminateRequested { .. }
            | Record::Paused { .. }
            | Record::Unpaused { .. }
            | Record::Resumed
            | Record::Repinned { .. } => false,
        }
    }
}

/// The new run's journal while it is made.
pub(super) struct Prefix {
    pub(super) journal: Vec<Vec<u8>>,
    /// The events that are in it.
    pub(super) inbox: Vec<(String, Json)>,
    /// The names of those that stay where they are.
    pub(super) events_left: Vec<String>,
    /// The numbers that its entries have in the other journal.
    numbers: Vec<u64>,
    at_ms: u64,
}

impl Prefix {
    /// What stays of the other journal.
    pub(super) fn of(entries: &[Entry], cut: &Cut, had: &BTreeSet<u64>, birth: &Birth) -> Self {
        let (journal, numbers) = (Vec::new(), Vec::new());
        let mut new = Self { journal, inbox: Vec::new(), events_left: Vec::new(), numbers, at_ms: 0 };
        // An end that a retry has undone is among what was.
        let end = entries.iter().rposition(|entry| matches!(entry.record, Record::Ended { .. }));
        for (seq, entry) in (0..).zip(entries) {
            if Some(seq as usize) == end {
                continue;
            }
            if cut.keeps(seq, &entry.record, had) {
                let record = new.renumbered(entry.record.clone(), birth);
                new.numbers.push(seq);
                new.push(entry.at_ms, record);
            } else if let Record::EventArrived { name, .. } = &entry.record {
                new.events_left.push(name.clone());
            }
        }
        new
    }

    /// An entry as it stands in the new journal, whose numbers are others, and whose inbox begins anew.
    fn renumbered(&mut self, mut record: Record, birth: &Birth) -> Record {
        match &mut record {
            // It is nobody's child: what becomes of the other was told, or is told, of that one.
            Record::Started(started) if !planted(Fault::RerunUnderOldKeys) => {
                *started = Started { run: birth.run.clone(), parent: None, continues: None, ..started.clone() };
            }
            Record::EventArrived { id, name, payload } => {
                self.inbox.push((name.clone(), payload.clone()));
                *id = self.inbox.len() as u64;
            }
            // It stands in this journal, and needs no place in an inbox.
            Record::ReplyArrived { id, .. } => *id = self.inbox.len() as u64,
            Record::Rewound { to, .. } => *to = self.number_of(*to),
            Record::Reran(reran) => reran.to = self.number_of(reran.to),
            _ => {}
        }
        record
    }

    /// The number here of what has that number in the other journal, or of what follows it.
    pub(super) fn number_of(&self, seq: u64) -> u64 {
        self.numbers.partition_point(|number| *number < seq) as u64
    }

    pub(super) fn push(&mut self, at_ms: u64, record: Record) {
        self.at_ms = self.at_ms.max(at_ms);
        self.journal.push(codec::encode(&Entry { at_ms: self.at_ms, record }));
    }

    /// The new run as its journal has it, once that holds together.
    pub(super) fn checked(&self, other: &Machine, cut: &Cut) -> Result<Machine, Refusal> {
        let bytes: usize = self.journal.iter().map(Vec::len).sum();
        if self.journal.len() > limits::MAX_JOURNAL_ENTRIES || bytes > limits::MAX_JOURNAL_BYTES {
            let text = "its journal would have as much as one may have already; choose an earlier step";
            return Err(Refusal::NoRerun(text.to_owned()));
        }
        if let Some(op) = other.state.errands.iter().find(|op| !cut.is_gone(other, **op)) {
            let what = other.recorded_text(ItemKind::Begin(*op));
            return Err(Refusal::NoRerun(format!("it had not heard what became of {what}; choose an earlier step")));
        }
        let new = Machine::load(&self.journal, None, Mode::Continue).map_err(|error| {
            Refusal::NoRerun(format!("what came later does not fit what was before ({error}); choose another step"))
        })?;
        let before = other.state.script.iter().filter(|item| item.seq < cut.seq).map(|item| item.kind);
        if !before.eq(new.state.script.iter().map(|item| item.kind)) {
            return Err(Refusal::NoRerun("what was before the step could not be kept as it was".to_owned()));
        }
        Ok(new)
    }
}
