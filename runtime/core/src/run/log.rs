//! The run's log and status text: what the guest says to people. Each line once, however often it is replayed, and never more lines
//! than there is room for: what a guest says within a turn is in memory until the turn is over.

use super::guest::Owner;
use super::machine::{LogLine, Machine, Mode, Output};
use crate::contract::Level;
use crate::json::Json;
use crate::limits;

/// The highest bit of a log line's turn: it is a body's.
const BODY: u64 = 1 << 63;

/// What has been logged, of what may be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    lines: usize,
    bytes: usize,
    full: bool,
    whose: &'static str,
}

/// Whether a line still has room.
enum Fits {
    Yes,
    /// It is the first that has none.
    NoLonger(String),
    No,
}

impl Room {
    /// Of a turn of workflow code, or an attempt.
    pub(super) fn of_turn(whose: &'static str) -> Self {
        Self { lines: limits::MAX_TURN_LOG_LINES, bytes: limits::MAX_TURN_LOG_BYTES, full: false, whose }
    }

    /// Of a run: its workflow code, or its bodies in this process.
    pub(super) fn of_run(whose: &'static str) -> Self {
        Self { lines: limits::MAX_RUN_LOG_LINES, bytes: limits::MAX_RUN_LOG_BYTES, full: false, whose }
    }

    fn take(&mut self, bytes: usize) -> Fits {
        if self.full {
            return Fits::No;
        }
        if self.lines == 0 || self.bytes < bytes {
            self.full = true;
            return Fits::NoLonger(format!(
                "further lines of {} are left out: it has logged as much as it may",
                self.whose
            ));
        }
        self.lines -= 1;
        self.bytes -= bytes;
        Fits::Yes
    }
}

impl Machine {
    /// A log line of the guest. Written once, however often it is replayed; beyond what a turn and a run may log, left out with a
    /// word about it.
    pub fn log(&mut self, level: Level, mut message: String, fields: Option<Json>, now_ms: u64) {
        message.truncate(message.floor_char_boundary(limits::MAX_LOG_LINE_BYTES));
        let fields = fields.filter(|fields| fields.len() <= limits::MAX_LOG_LINE_BYTES);
        let bytes = message.len() + fields.as_ref().map_or(0, Json::len);
        let (turn, index, step, fits) = match self.guest.owner {
            Owner::Workflow => {
                let index = self.guest.log_lines;
                self.guest.log_lines = index.saturating_add(1);
                // What is replayed counts as it did, so that a run's room is the same after a restart.
                let fits = both(&mut self.guest.turn_log, &mut self.guest.run_log, bytes);
                (self.guest.log_turn, index, None, fits)
            }
            Owner::Body(attempt) => {
                let Some(live) = self.live.get_mut(&attempt.operation).filter(|live| live.n == attempt.number) else {
                    return;
                };
                let index = live.log_lines;
                live.log_lines = index.saturating_add(1);
                let fits = both(&mut live.log, &mut self.bodies_log, bytes);
                let turn = BODY | u64::from(attempt.operation) << 31 | u64::from(attempt.number);
                (turn, index, self.step_of(attempt.operation).cloned(), fits)
            }
        };
        let (level, message, fields) = match fits {
            Fits::Yes => (level, message, fields),
            Fits::NoLonger(said) => (Level::Warn, said, None),
            Fits::No => return,
        };
        let replayed = self.mode == Mode::Verify || step.is_none() && self.logged >= Some((turn, index));
        if !replayed && self.stopped.is_none() {
            let at_ms = self.now_ms(now_ms);
            self.outputs.push(Output::Log(LogLine { turn, index, at_ms, level, step, message, fields }));
        }
    }

    /// The run's status text, for people. Of several with nothing between them the last one counts.
    pub fn set_status(&mut self, mut text: String) {
        text.truncate(text.floor_char_boundary(limits::MAX_STATUS_BYTES));
        // A rerun has none yet, and is where the run stood that it goes on from.
        let shown = self.at_frontier() || self.state.reran_now;
        if self.mode != Mode::Continue || !shown || self.stopped.is_some() {
            return;
        }
        match self.outputs.last_mut() {
            Some(Output::StatusText(last)) => *last = text,
            _ => self.outputs.push(Output::StatusText(text)),
        }
    }
}

/// Room in both, the smaller one first: what it leaves out does not count in the other.
fn both(turn: &mut Room, run: &mut Room, bytes: usize) -> Fits {
    match turn.take(bytes) {
        Fits::Yes => run.take(bytes),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_used_up_by_lines_or_by_bytes_and_said_once() {
        let mut room = Room { lines: 2, bytes: 100, full: false, whose: "this turn" };
        assert!(matches!(room.take(60), Fits::Yes));
        assert!(matches!(room.take(60), Fits::NoLonger(said) if said.contains("this turn")));
        // Also what would have fitted: a log with holes in it says nothing.
        assert!(matches!(room.take(1), Fits::No));
        let mut room = Room { lines: 1, bytes: 100, full: false, whose: "this turn" };
        assert!(matches!(room.take(0), Fits::Yes));
        assert!(matches!(room.take(0), Fits::NoLonger(_)));
    }
}
