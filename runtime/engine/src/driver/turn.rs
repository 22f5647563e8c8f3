//! A run that may not begin yet: it has no instance and does nothing, and is asked and ended like any other.

use stepwell_store::{Status, Turn};

use super::Driver;
use crate::clock::{random, real_now_ms};
use crate::commands::Shared;

impl Driver {
    /// Whether it may begin, or has.
    pub(super) fn may_begin(&self) -> bool {
        !self.turn.is_some_and(Turn::is_to_come)
    }

    /// There may be something to do, and it may not begin: its time to get in line has come, or its time is over.
    pub(super) fn before_its_turn(&mut self) {
        match self.turn {
            Some(Turn::Rests) if !self.shared.lock().machine.is_paused() => self.get_in_line(real_now_ms()),
            Some(Turn::Waits) => self.expire(),
            _ => {}
        }
    }

    /// The store gives it its place in line by this, or lets it begin.
    pub(super) fn get_in_line(&mut self, now_ms: u64) {
        self.turn = Some(Turn::Waits);
        self.begins_at = None;
        self.status(Status::Queued, None, now_ms);
        self.engine.expects(self.key);
    }

    fn expire(&mut self) {
        {
            let mut shared = self.shared.lock();
            let Shared { machine, clock, .. } = &mut *shared;
            machine.expire_unbegun(clock.now_ms(), random());
        }
        self.carry_out();
    }

    /// The store has let it begin. That is told once, and what is told late is looked at again.
    pub(super) fn admitted(&mut self) {
        match self.engine.store().read().turn(self.key) {
            Ok(turn) if !turn.is_some_and(Turn::is_to_come) => {
                self.turn = turn;
                self.fresh |= self.module.is_none() && !self.by_hand && self.shared.lock().machine.has_not_begun();
                self.want();
            }
            Ok(_) => {}
            Err(error) => self.store_failed(&error),
        }
    }

    /// It is left until its turn comes; its time may be over before.
    pub(super) fn await_turn(&self) {
        if self.turn != Some(Turn::Waits) {
            return;
        }
        let at_ms = {
            let machine = &self.shared.lock().machine;
            machine.started().deadline_ms.filter(|_| machine.has_not_begun() && machine.ended().is_none())
        };
        if let Some(at_ms) = at_ms {
            self.engine.arm(at_ms, self.key);
        }
        self.engine.tell_waits(self.key);
    }
}
