//! Where the guest is: its cursor in the commands and deliveries of the journal, its turn, and what it may see of time and chance.

use std::collections::BTreeSet;

use super::machine::{LogLine, Machine, Mode, Output};
use crate::contract::{AttemptRef, Level, Operation};
use crate::ids::Digest;
use crate::json::Json;
use crate::limits;

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
    /// Whose turn it is.
    pub(super) owner: Owner,
    /// The attempt whose turn it is was closed during the turn.
    pub(super) void: bool,
    /// It has come to the journal's end and was given something new.
    pub(super) live: bool,
    /// Operations that it was told of or has closed, before the journal's end.
    pub(super) over: BTreeSet<Operation>,
    randoms: u64,
    log_lines: u32,
}

/// Who began the present turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    Workflow,
    Body(AttemptRef),
}

/// The highest bit of a log line's turn: it is a body's.
const BODY: u64 = 1 << 63;

impl Guest {
    pub(super) fn new(start_ms: u64) -> Self {
        Self {
            cursor: 0,
            turn: 0,
            turn_ms: start_ms,
            open: 0,
            owner: Owner::Workflow,
            void: false,
            live: false,
            over: BTreeSet::new(),
            randoms: 0,
            log_lines: 0,
        }
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

    /// A delivery to workflow code begins.
    pub(super) fn workflow_turn(&mut self, at_ms: u64) {
        self.turn += 1;
        self.turn_ms = at_ms;
        self.owner = Owner::Workflow;
        self.void = false;
        self.randoms = 0;
        self.log_lines = 0;
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

    /// In a workflow turn a function of the run, its latest delivery and the number of calls since; in a body's `random`.
    pub fn random_u64(&mut self, random: u64) -> u64 {
        if self.guest.owner != Owner::Workflow {
            return random;
        }
        let call = self.guest.randoms;
        self.guest.randoms += 1;
        let text = format!("{}/{}/{call}", self.state.started.run, self.guest.turn);
        let digest = Digest::of(text.as_bytes());
        // The digest is hex: its first 16 digits are a u64.
        u64::from_str_radix(&digest.as_str()[..16], 16).unwrap_or_default()
    }

    /// A log line of the guest. Written once, however often it is replayed.
    pub fn log(&mut self, level: Level, mut message: String, fields: Option<Json>, now_ms: u64) {
        message.truncate(message.floor_char_boundary(limits::MAX_LOG_LINE_BYTES));
        let fields = fields.filter(|fields| fields.len() <= limits::MAX_LOG_LINE_BYTES);
        let (turn, index, step) = match self.guest.owner {
            Owner::Workflow => {
                let index = self.guest.log_lines;
                self.guest.log_lines += 1;
                (self.guest.turn, index, None)
            }
            Owner::Body(attempt) => {
                let Some(live) = self.live.get_mut(&attempt.operation).filter(|live| live.n == attempt.number) else {
                    return;
                };
                let index = live.log_lines;
                live.log_lines += 1;
                let turn = BODY | u64::from(attempt.operation) << 31 | u64::from(attempt.number);
                (turn, index, self.step_of(attempt.operation).cloned())
            }
        };
        let replayed = self.mode == Mode::Verify || step.is_none() && self.logged >= Some((turn, index));
        if !replayed && self.stopped.is_none() {
            let at_ms = self.now_ms(now_ms);
            self.outputs.push(Output::Log(LogLine { turn, index, at_ms, level, step, message, fields }));
        }
    }

    /// The run's status text, for people.
    pub fn set_status(&mut self, mut text: String) {
        text.truncate(text.floor_char_boundary(limits::MAX_STATUS_BYTES));
        if self.mode == Mode::Continue && self.guest.cursor >= self.state.script.len() && self.stopped.is_none() {
            self.outputs.push(Output::StatusText(text));
        }
    }
}
