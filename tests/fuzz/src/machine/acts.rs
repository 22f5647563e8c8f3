//! What happens next, as the input has it: the guest acts in its turn, the world and the clock at any time.

use arbitrary::{Result, Unstructured};
use stepwell_core::contract::{AttemptRef, Level};
use stepwell_core::error::{Code, Error};
use stepwell_core::run::Input;

use super::{Guest, Play, given};

impl Play {
    /// One thing happens.
    pub(super) fn act(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        let ended = self.machine.ended().is_some();
        let before = self.journal.len();
        match (self.guest, u.int_in_range(0..=19)?) {
            (Guest::InTurn, 0..=11) => self.guest_acts(u)?,
            (Guest::InTurn, _) => self.quiet(u.arbitrary()?),
            (Guest::Quiet, 0..=8) => self.quiet(u.arbitrary()?),
            _ => self.world_acts(u)?,
        }
        self.carry_out();
        let grown = self.journal.len() > before;
        assert!(!ended || !grown || self.ledger.is_none(), "an entry follows the run's end\n{}", self.shown());
        Ok(())
    }

    fn guest_acts(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        let (now_ms, random) = (self.now_ms, u.arbitrary()?);
        let of_workflow = !self.machine.turn_limit().of_body;
        match u.int_in_range(0..=19)? {
            0..=7 if of_workflow => self.command(u)?,
            0..=1 => self.command(u)?,
            2..=7 => {
                let (attempt, outcome) = (self.attempt(u)?, given::outcome(u)?);
                let _ = self.machine.step_finish(attempt, outcome, now_ms, random);
            }
            8..=14 => {
                let (attempt, request) = (self.attempt(u)?, given::request(u)?);
                let _ = self.machine.http_send(attempt, request, now_ms);
            }
            15 => {
                let (attempt, ms) = (self.attempt(u)?, given::length(u)?);
                let _ = self.machine.delay(attempt, ms, now_ms);
            }
            16 => self.machine.log(Level::Info, crate::entries::text(u)?, None, now_ms),
            17 => self.machine.set_status(crate::entries::text(u)?),
            18 => {
                self.guest = Guest::Gone;
                self.machine.handle(Input::Trapped(given::trap(u)?), now_ms, random);
            }
            _ if of_workflow && u.ratio(1, 2)? => {
                self.guest = Guest::Gone;
                let result = given::outcome(u)?;
                self.result = Some(result.clone());
                self.machine.handle(Input::Returned(result), now_ms, random);
            }
            _ if u.ratio(1, 4)? => {
                self.guest = Guest::Gone;
                self.machine.handle(Input::Idle, now_ms, random);
            }
            _ => {}
        }
        Ok(())
    }

    /// A command of workflow code; in a body's turn it must be refused.
    fn command(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        let operations = u32::try_from(self.script.operations()).unwrap_or(u32::MAX);
        let command = given::command(u, operations)?;
        let of_body = self.machine.turn_limit().of_body;
        let had = command.give(&mut self.machine, self.now_ms);
        if !of_body {
            self.script.did(command, had);
        } else if self.ledger.is_some() {
            assert!(!had.is_accepted(), "{command:?} in a body's turn: {had:?}");
        }
        Ok(())
    }

    /// An attempt that was begun, mostly the latest; or any numbers.
    fn attempt(&mut self, u: &mut Unstructured<'_>) -> Result<AttemptRef> {
        if u.ratio(1, 20)? || self.attempts.is_empty() {
            return Ok(AttemptRef { operation: u.arbitrary()?, number: u.arbitrary()? });
        }
        let back = if u.ratio(2, 3)? { 0 } else { u.int_in_range(0..=self.attempts.len() - 1)? };
        Ok(self.attempts[self.attempts.len() - 1 - back])
    }

    fn world_acts(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        let random = u.arbitrary()?;
        match u.int_in_range(0..=19)? {
            0..=8 => self.settles(u, random)?,
            9..=10 => {
                self.now_ms += given::length(u)?.min(1 << 40);
                self.machine.handle(Input::Time, self.now_ms, random);
            }
            11..=12 => {
                // What is due next, and not a moment later.
                let due_ms = self.machine.next_due_ms().unwrap_or(self.now_ms);
                self.now_ms = self.now_ms.max(due_ms.min(u64::MAX / 8));
                self.machine.handle(Input::Time, self.now_ms, random);
            }
            13..=14 => {
                self.events += 1;
                let (id, name, payload) = (self.events, given::event(u)?, crate::entries::json(u)?);
                self.machine.handle(Input::Event { id, name, payload }, self.now_ms, random);
            }
            15 => {
                let error = Error::new(Code::Cancelled, crate::entries::text(u)?).never_retried();
                let _ = self.machine.cancel(error, "fuzz", self.now_ms, random);
            }
            16..=17 => {
                let kept = u.int_in_range(0..=self.journal.len())?;
                // The clock of the new process may be behind the old one's.
                self.now_ms = self.now_ms.saturating_sub(u.int_in_range(0..=20)?).max(super::START_MS);
                self.crash(kept, u.ratio(1, 10)?);
            }
            18 if self.machine.can_park() => self.rebuild(),
            19 if u.ratio(1, 8)? => self.machine.drain(),
            _ => {}
        }
        Ok(())
    }

    /// A request of this process is over; or one that is over already is said to be so again.
    fn settles(&mut self, u: &mut Unstructured<'_>, random: u64) -> Result<()> {
        let (evidence, answer) = given::settlement(u)?;
        let exchange = if self.under_way.is_empty() || u.ratio(1, 20)? {
            u.arbitrary()?
        } else {
            let at = u.choose_index(self.under_way.len())?;
            self.under_way[at].0
        };
        self.machine.handle(Input::Settled { exchange, evidence, answer }, self.now_ms, random);
        Ok(())
    }
}
