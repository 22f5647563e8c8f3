//! Where the guest is: its cursor in the commands and deliveries of the journal, its turn, and what it may see of time and chance.

use std::collections::BTreeSet;

use super::log::Room;
use super::machine::Machine;
use crate::contract::{AttemptRef, Operation};
use crate::ids::{Digest, RunId};

/// The guest's place in its run.
#[derive(Debug)]
pub(super) struct Guest {
    /// The next item of the script that it has not come to.
    pub(super) cursor: usize,
    /// Deliveries to workflow code so far.
    pub(super) turn: u64,
    /// The recorded time of the latest of them.
    pub(super) turn_ms: u64,
    /// Operations begun and neither delivered nor closed.
    pub(super) open: usize,
    /// Operations begun in all. Before the frontier too, so that a replay counts as the first execution did.
    pub(super) begun: usize,
    /// The number after that of the latest of them.
    pub(super) next_op: Operation,
    /// The number that log lines of the present turn have: of all deliveries to the run, void ones included.
    pub(super) log_turn: u64,
    /// Whose turn it is.
    pub(super) owner: Owner,
    /// The attempt whose turn it is was closed during the turn.
    pub(super) void: bool,
    /// It was told that the run is to be cancelled.
    pub(super) cancelled: bool,
    /// It has ended the run, and another is to go on.
    pub(super) continued: bool,
    /// It has come to the journal's end and was given something new.
    pub(super) live: bool,
    /// Operations that it was told of or has closed, before the journal's end.
    pub(super) over: BTreeSet<Operation>,
    randoms: u64,
    /// Lines that workflow code has logged in this turn, those included that had no room.
    pub(super) log_lines: u32,
    pub(super) turn_log: Room,
    pub(super) run_log: Room,
}

/// Who began the present turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    Workflow,
    Body(AttemptRef),
}

/// Whose room for log lines it is, for people.
const TURN: &str = "this turn";

impl Guest {
    pub(super) fn new(start_ms: u64) -> Self {
        Self {
            cursor: 0,
            turn: 0,
            turn_ms: start_ms,
            open: 0,
            begun: 0,
            next_op: 0,
            log_turn: 0,
            owner: Owner::Workflow,
            void: false,
            cancelled: false,
            continued: false,
            live: false,
            over: BTreeSet::new(),
            randoms: 0,
            log_lines: 0,
            turn_log: Room::of_turn(TURN),
            run_log: Room::of_run("this run's code"),
        }
    }

    /// Workflow code has begun an operation.
    pub(super) fn count_begun(&mut self, op: Operation) {
        self.open += 1;
        self.begun += 1;
        self.next_op = op.saturating_add(1);
    }

    /// A body is told something.
    pub(super) fn body_turn(&mut self, attempt: AttemptRef) {
        self.owner = Owner::Body(attempt);
        self.void = false;
    }

    /// A body is told that its attempt was closed: what it does in this turn is for nothing.
    pub(super) fn expired_turn(&mut self, attempt: AttemptRef) {
        self.body_turn(attempt);
        self.void = true;
    }

    /// A delivery to workflow code begins, at that time and of that number in the journal.
    pub(super) fn workflow_turn(&mut self, at_ms: u64, log_turn: u64) {
        self.turn += 1;
        self.log_turn = log_turn;
        self.turn_ms = at_ms;
        self.owner = Owner::Workflow;
        self.void = false;
        self.randoms = 0;
        self.log_lines = 0;
        self.turn_log = Room::of_turn(TURN);
    }
}

impl Machine {
    /// Recorded time in a workflow turn, `now_ms` in a body's; in ms since the Unix epoch.
    #[must_use]
    pub fn now_ms(&self, now_ms: u64) -> u64 {
        match self.guest.owner {
            Owner::Workflow => self.guest.turn_ms,
            // Never before what the workflow has seen, whatever the clock does.
            Owner::Body(_) => now_ms.max(self.guest.turn_ms),
        }
    }

    /// The run's id, as its guest sees it: in a turn that another run has lived through, of which this is a rerun, that one's.
    #[must_use]
    pub fn told_run_id(&self) -> &RunId {
        match self.guest.owner {
            Owner::Workflow => self.state.lives_in(self.guest.turn),
            Owner::Body(_) => self.run_id(),
        }
    }

    /// In a workflow turn a function of the run, its latest delivery and the number of calls since; in a body's `random`.
    pub fn random_u64(&mut self, random: u64) -> u64 {
        if self.guest.owner != Owner::Workflow {
            return random;
        }
        let call = self.guest.randoms;
        self.guest.randoms += 1;
        let text = format!("{}/{}/{call}", self.state.lives_in(self.guest.turn), self.guest.turn);
        let digest = Digest::of(text.as_bytes());
        // The digest is hex: its first 16 digits are a u64.
        u64::from_str_radix(&digest.as_str()[..16], 16).unwrap_or_default()
    }
}
