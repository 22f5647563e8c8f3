//! The lives of an instance and of the host process: built, dropped while the run waits, lost in a crash, built again by replay.

use rand::Rng;
use stepwell_core::run::{Activity, Machine, Mode, Output};

use super::{Driver, Flow, Mail, START_MS};
use crate::guest::Guest;
use crate::invariants::Ledger;
use crate::program::Ask;
use crate::store::Store;

impl Driver {
    /// A new instance, whose first turn runs.
    pub(super) fn instance(&mut self) -> Result<(), String> {
        let mut guest = Guest::new(self.host.clone(), self.program.clone());
        self.delivered = 0;
        self.parked = false;
        let turn = guest.run();
        self.guest = Some(guest);
        self.turned(turn);
        Ok(())
    }

    /// Rebuilds the instance by replay. What says so is durable before it exists.
    pub(super) fn resume(&mut self) -> Result<(), String> {
        self.guest = None;
        {
            let mut host = self.host.borrow_mut();
            let now_ms = host.now_ms;
            if host.machine.resume(now_ms, false).is_err() {
                host.machine.resume(now_ms, true).map_err(|e| e.to_string())?;
            }
        }
        for output in self.host.borrow_mut().machine.outputs() {
            match output {
                Output::Append { entry, bytes } => {
                    self.ledger.entry(&entry)?;
                    self.store.append(bytes);
                }
                other => return Err(format!("{other:?} on resuming")),
            }
        }
        // Whether the disk fails here makes no difference: the next flush is as good.
        let _ = self.store.flush(&mut self.rng, 0.0);
        self.instance()
    }

    /// Builds the instance of a parked run again, if there is something for it.
    pub(super) fn wake(&mut self) -> Result<Flow, String> {
        let needed = {
            let machine = &self.host.borrow().machine;
            // What was paused where nobody knows yet whether its code is still the run's has to come to its journal's end first.
            machine.activity() == Activity::Running || !machine.is_live()
        };
        if !needed || self.ledger.is_paused() {
            return Ok(Flow::Still);
        }
        self.resume()?;
        Ok(Flow::Moved)
    }

    /// Nothing moves: the clock goes on to whatever comes next. Whether there is anything.
    pub(super) fn wait(&mut self) -> Result<bool, String> {
        let now_ms = self.now();
        let can_park = self.host.borrow().machine.can_park();
        if can_park && !self.parked && self.chance(0.3) {
            self.stats.parks += 1;
            self.guest = None;
            self.parked = true;
            if self.chance(0.3) {
                if self.flush() == Flow::Crashed {
                    self.crash()?;
                    return Ok(true);
                }
                self.reload()?;
            }
            return Ok(true);
        }
        // Somebody waits for what is to be done by their commit.
        if !self.others.errands.is_empty() {
            if self.flush() == Flow::Crashed {
                self.crash()?;
            }
            return Ok(true);
        }
        let due = self.host.borrow().machine.next_due_ms();
        let next = [due, self.world.next_ms(), self.next_mail_ms(), self.next_ask_ms()].into_iter().flatten().min();
        if let Some(next_ms) = next {
            let late = if self.chance(0.1) { self.rng.random_range(0..50) } else { 0 };
            let mut host = self.host.borrow_mut();
            host.now_ms = host.now_ms.max(next_ms) + late;
            return Ok(true);
        }
        let activity = self.host.borrow().machine.activity();
        match activity {
            Activity::Blocked(_) => {
                if self.resolve_at_last()? {
                    return Ok(true);
                }
                self.stats.blocked = true;
                Ok(false)
            }
            Activity::Paused => {
                self.resume_at_last();
                Ok(true)
            }
            Activity::Waiting { .. } if self.ledger.awaited().next().is_some() => {
                // Nobody sends it any more: the simulator does, so that every run ends.
                for name in ["paid", "shipped", "x"] {
                    if self.ledger.awaited().any(|awaited| awaited == name) {
                        self.post(now_ms, Mail::Event(name));
                    }
                }
                Ok(true)
            }
            other => Err(format!("nothing happens any more, and the run is {other:?}")),
        }
    }

    pub(super) fn crash(&mut self) -> Result<Flow, String> {
        self.stats.crashes += 1;
        self.crashes_left = self.crashes_left.saturating_sub(1);
        // The driver may not have asked for all that the machine said: that is lost too.
        self.store.crash(&mut self.rng);
        self.lose_errands();
        self.logs.clone_from(&self.durable_logs);
        let downtime = if self.rng.random_bool(0.5) { self.rng.random_range(0..5_000) } else { 0 };
        // The clock of the new process may be a little behind the old one's.
        let back = if self.rng.random_bool(0.2) { self.rng.random_range(0..20) } else { 0 };
        let now_ms = self.now() + downtime - back;
        self.host.borrow_mut().now_ms = now_ms.max(START_MS);
        self.reload()?;
        Ok(Flow::Crashed)
    }

    /// The run as its durable journal has it, in a new process.
    fn reload(&mut self) -> Result<(), String> {
        self.look()?;
        let promised = self.ledger.promised.clone();
        self.read_again(promised, self.asks.get(self.asked).map(|(_, ask)| *ask))
    }

    /// The run as the durable journal has it, of which people were promised that.
    pub(super) fn read_again(&mut self, promised: Vec<Ask>, unanswered: Option<Ask>) -> Result<(), String> {
        self.guest = None;
        self.epoch += 1;
        self.ledger = Ledger::read(self.store.durable())?;
        self.ledger.keeps(promised, unanswered)?;
        let own = |place: &&(u64, u32)| place.0 >> 63 == 0;
        let logged = self.logs.keys().rfind(own).copied();
        let machine = load(&self.store, logged)?;
        if machine.entries() != self.store.durable().len() as u64 {
            return Err("the machine counts other entries than there are".to_owned());
        }
        self.refused.clear();
        self.others.given = machine.last_event();
        let no_instance = machine.ended().is_some() || machine.is_terminating() || machine.is_paused();
        self.parked = machine.is_paused();
        self.host.borrow_mut().machine = machine;
        if no_instance { Ok(()) } else { self.resume() }
    }
}

/// The run as the durable journal has it.
pub(super) fn load(store: &Store, logged: Option<(u64, u32)>) -> Result<Machine, String> {
    Machine::load(store.durable(), logged, Mode::Continue).map_err(|e| e.to_string())
}
