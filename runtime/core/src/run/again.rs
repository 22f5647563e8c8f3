//! A failed run that is taken up again, and the other runs that it has to do with: children are begun again where they have no result,
//! and what was done to others since has to be confirmed.

use super::errand::Errand;
use super::machine::{Machine, Mode, Output};
use super::state::{Again, ItemKind, OpKind};
use crate::contract::Operation;
use crate::fault::{Fault, planted};
use crate::ids::RunId;
use crate::journal::entry::Record;

/// Something that was done to another run, and that may be done again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VoidErrand {
    /// The other run.
    pub run: RunId,
    /// What was done to it.
    pub what: ErrandKind,
}

/// What a run does to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ErrandKind {
    /// It was started as a child, of that workflow. Another is started in its place, with an id and keys of its own.
    Child(String),
    /// An event of that name was sent to it. It is sent again if the code comes to it.
    Event(String),
}

impl std::fmt::Display for VoidErrand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.what {
            ErrandKind::Child(workflow) => write!(f, "child run {} of workflow {workflow:?}", self.run),
            ErrandKind::Event(name) => write!(f, "event {name:?} to run {}", self.run),
        }
    }
}

impl Machine {
    /// What was done to other runs at that place of the script or after it, and the children from before it that have no result: they
    /// are begun again unless they have one by then.
    pub(super) fn void_errands(&self, from: usize) -> Vec<VoidErrand> {
        let mut void = Vec::new();
        let seq = self.state.script.get(from).map_or(self.state.entries, |item| item.seq);
        let begun = self.state.script.iter().filter_map(|item| match item.kind {
            ItemKind::Begin(op) => Some((item.seq >= seq, op)),
            _ => None,
        });
        for (since, op) in begun {
            let state = &self.state.ops[op as usize];
            let told_before =
                state.delivered && !self.told_since(from, op) || state.closed && !self.closed_since(from, op);
            match &state.kind {
                OpKind::Child(child) => {
                    let (child, result) = (child.clone(), matches!(state.outcome, Some(Ok(_))));
                    let again = self.state.cancel.is_none() && !told_before && !result;
                    // One that goes on by itself goes on.
                    let again = again && !(child.abandoned && state.outcome.is_none());
                    if since || again {
                        void.push(VoidErrand { run: child.run, what: ErrandKind::Child(child.workflow) });
                    }
                }
                OpKind::Send { to, name, .. } if since && !matches!(state.outcome, Some(Err(_))) => {
                    void.push(VoidErrand { run: to.clone(), what: ErrandKind::Event(name.clone()) });
                }
                _ => {}
            }
        }
        void
    }

    fn told_since(&self, from: usize, op: Operation) -> bool {
        self.state.script[from..].iter().any(|item| item.kind == ItemKind::Deliver(op))
    }

    fn closed_since(&self, from: usize, op: Operation) -> bool {
        self.state.script[from..].iter().any(|item| item.kind == ItemKind::Close(op))
    }

    /// Begins the children again that are to be, each with an id of its own.
    pub(super) fn begin_children_again(&mut self, now_ms: u64) {
        if self.mode != Mode::Continue || planted(Fault::ChildNotAgain) {
            return;
        }
        // One that the workflow has closed meanwhile is nobody's.
        let again = |op: &Operation| {
            let state = &self.state.ops[*op as usize];
            state.again == Again::Now && state.is_open()
        };
        let ops: Vec<Operation> = (0..self.state.ops.len() as Operation).filter(again).collect();
        for op in ops {
            let what = format!("{op}.{}", self.state.entries);
            let run = RunId::derived(self.run_id(), &what, now_ms.max(self.state.at_ms));
            self.record(now_ms, Record::ChildBegunAgain { op, run });
            if let Some(child) = self.child(op).cloned() {
                self.outputs.push(Output::Errand(Errand::StartAgain(Box::new(child))));
            }
        }
    }
}
