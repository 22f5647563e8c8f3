//! What must hold of operations on other runs: each is done by the commit that has it, once, and what became of it is told.

use stepwell_core::contract::Operation;
use stepwell_core::journal::entry::{Reply, RunOutcome};
use stepwell_core::json::Json;
use stepwell_core::run::{Continue, Errand};

use super::{Again, Kind, Ledger};

impl Ledger {
    /// Operations that are done by their commit, and whose reply has not arrived.
    pub(super) fn without_reply(&self) -> impl Iterator<Item = Operation> {
        let waits = |kind: &Kind| {
            matches!(kind, Kind::Send { replied: false } | Kind::Child { awaited: false, replied: false, .. })
        };
        (0..).zip(&self.ops).filter(move |(_, op)| waits(&op.kind)).map(|(at, _)| at)
    }

    pub(super) fn replied(&mut self, id: u64, op: Operation, reply: &Reply) -> Result<(), String> {
        // In a rerun's journal the replies of the other run have no numbers of their own.
        if id < self.last_event {
            return Err(format!("reply {id} arrives after event {}", self.last_event));
        }
        self.last_event = id;
        let cancelled = self.cancel.is_some();
        let state = self.op(op)?;
        let open = state.is_open();
        if let Kind::Child { again, replied, .. } = &mut state.kind {
            let failed = matches!(reply, Reply::Failed(_)) && open && !cancelled && !*replied;
            if std::mem::replace(again, Again::No) == Again::IfFailed && failed {
                (*again, *replied) = (Again::Now, true);
                return Ok(());
            }
        }
        match &mut state.kind {
            Kind::Send { replied: replied @ false } | Kind::Child { replied: replied @ false, .. } => *replied = true,
            _ => return Err(format!("operation {op} is replied to, and does not wait for that")),
        }
        // Also of one that is closed: its run may be taken back to before that.
        if state.outcome.is_none() {
            state.outcome = Some(match reply {
                Reply::Succeeded(value) => Ok(value.clone()),
                Reply::Failed(error) => Err(error.clone()),
            });
        }
        Ok(())
    }

    /// A child that has no result, of a run that was taken up again.
    pub(super) fn child_begun_again(&mut self, op: Operation) -> Result<(), String> {
        let state = self.op(op)?;
        match &mut state.kind {
            Kind::Child { again: again @ Again::Now, replied, .. } => (*again, *replied) = (Again::No, false),
            _ => return Err(format!("operation {op} is begun again, and is no child without a result")),
        }
        if !state.is_open() || state.outcome.is_some() {
            return Err(format!("the child of operation {op} is begun again, and is over"));
        }
        self.again = Some(op);
        Ok(())
    }

    /// Children that are asked to cancel when the run ends now.
    #[must_use]
    pub fn children_asked_at_end(&self) -> Vec<Operation> {
        let asked = |kind: &Kind| matches!(kind, Kind::Child { awaited: true, abandoned: false, replied: false, .. });
        (0..).zip(&self.ops).filter(|(_, op)| asked(&op.kind)).map(|(at, _)| at).collect()
    }

    /// What was done to other runs at that entry or after it, and children that have no result. Not events that did not arrive.
    #[must_use]
    pub fn others_since(&self, to: u64) -> usize {
        let counts = |op: &&super::Op| {
            let since = op.begun_at >= to;
            let result = matches!(op.outcome, Some(Ok(_)));
            let open = !(op.delivered && op.told_at < to || op.closed && op.closed_at < to);
            match op.kind {
                Kind::Send { .. } => since && !matches!(op.outcome, Some(Err(_))),
                Kind::Child { abandoned, .. } => {
                    let goes_on = abandoned && op.outcome.is_none();
                    since || open && !result && !goes_on && self.cancel.is_none()
                }
                _ => false,
            }
        };
        self.ops.iter().filter(|op| !op.void).filter(counts).count()
    }

    /// All children that are to be begun again have been.
    pub(super) fn children_begun_again(&self) -> Result<(), String> {
        // One that the workflow has closed before is nobody's.
        let waits = |op: &super::Op| op.is_open() && matches!(op.kind, Kind::Child { again: Again::Now, .. });
        match self.ops.iter().position(waits) {
            Some(op) => Err(format!("the child of operation {op} has no result, and is not begun again")),
            None => Ok(()),
        }
    }

    /// Something is to be done on another run: the entry that says so was the last one.
    ///
    /// # Errors
    /// If it was not.
    pub fn errand(&mut self, errand: &Errand) -> Result<(), String> {
        let begun = |op: Operation| {
            let last = self.ops.len().checked_sub(1) == Some(op as usize);
            let waits =
                |kind: &Kind| matches!(kind, Kind::Send { replied: false } | Kind::Child { replied: false, .. });
            last && self.ops.last().is_some_and(|op| waits(&op.kind))
        };
        let says_so = match errand {
            Errand::Send { op, .. } => begun(*op),
            Errand::Start(child) => begun(child.op),
            Errand::StartAgain(child) => self.again.take() == Some(child.op),
            other => match self.owed.iter().position(|owed| same(owed, other)) {
                Some(at) => {
                    self.owed.remove(at);
                    true
                }
                None => false,
            },
        };
        if says_so { Ok(()) } else { Err(format!("this is done, and the journal does not say so: {errand:?}")) }
    }

    /// The workflow has lost interest in it: a child that it awaits, and that is not to go on, is asked to cancel.
    pub(super) fn give_up_child(&mut self, op: Operation) {
        let Some(state) = self.ops.get(op as usize) else { return };
        // Before it is begun again there is none.
        let gives_up = match state.kind {
            Kind::Child { awaited, abandoned, replied, again } => {
                awaited && !abandoned && !replied && again != Again::Now
            }
            _ => false,
        };
        // A cancel has failed it before, and with that asked the child.
        if gives_up && state.is_open() && !(state.cancelled && state.outcome.is_some() && self.asked_before(op)) {
            self.given_up.push(op);
            self.owed.push(Errand::Cancel { op });
        }
    }

    fn asked_before(&self, op: Operation) -> bool {
        self.given_up.contains(&op)
    }

    /// All that the last entry says of other runs has been done.
    pub(super) fn nothing_owed(&self) -> Result<(), String> {
        match self.owed.first() {
            Some(owed) => Err(format!("the journal says that this is done, and it is not: {owed:?}")),
            None => Ok(()),
        }
    }

    /// Whether the run ends so that another goes on, and what that one is given.
    pub(super) fn goes_on(&mut self, outcome: &RunOutcome) -> Result<(), String> {
        let may = self.continued && self.cancel.is_none() && self.terminate.is_none();
        match outcome {
            RunOutcome::Continued(run) if may => {
                let handed = self.ops.iter().filter(|op| op.is_open()).filter_map(|op| match &op.kind {
                    Kind::Wait { event, .. } => *event,
                    _ => None,
                });
                let mut events: Vec<u64> = self.kept.iter().map(|(id, _)| *id).chain(handed).collect();
                events.sort_unstable();
                let next = Continue { run: run.clone(), input: Json::null(), events, seen: self.last_event };
                self.owed.push(Errand::Continue(Box::new(next)));
                Ok(())
            }
            RunOutcome::Continued(_) => Err("the run goes on in another, and is not to".to_owned()),
            RunOutcome::Succeeded(_) if self.continued => Err("the run has continued, and none goes on".to_owned()),
            _ => Ok(()),
        }
    }
}

/// The same but for a value that the journal has already.
fn same(owed: &Errand, done: &Errand) -> bool {
    match (owed, done) {
        (Errand::Continue(a), Errand::Continue(b)) => (&a.run, &a.events, a.seen) == (&b.run, &b.events, b.seen),
        (a, b) => a == b,
    }
}
