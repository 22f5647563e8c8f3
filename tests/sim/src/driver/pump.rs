//! Carrying out what the machine says: entries to the journal, requests to the world, events to the guest.

use rand::Rng;
use stepwell_core::contract::{AttemptRef, Event};
use stepwell_core::journal::entry::{AttemptOutcome, Record};
use stepwell_core::run::{Input, Output};

use super::{Driver, Flow};
use crate::guest::Turn;
use crate::host::What;
use crate::world::Sent;

impl Driver {
    /// Does what the machine says, until it says nothing more.
    pub(super) fn pump(&mut self) -> Result<Flow, String> {
        let mut flow = Flow::Still;
        loop {
            let outputs = self.host.borrow_mut().machine.outputs();
            if outputs.is_empty() {
                return Ok(flow);
            }
            flow = Flow::Moved;
            let (mut turn, mut rebuild) = (None, false);
            for output in outputs {
                match self.output(output)? {
                    Next::Go => {}
                    Next::Turn(event) => turn = Some(event),
                    Next::Crash => return self.crash(),
                    // Once all that was said before is done: what follows in the journal is the new instance's.
                    Next::Rebuild => rebuild = true,
                }
            }
            if rebuild {
                self.stats.rebuilds += 1;
                if self.ledger.is_paused() {
                    // Not before it is resumed: nothing is to be told to it.
                    self.guest = None;
                    self.parked = true;
                } else {
                    self.resume()?;
                }
                continue;
            }
            if let Some(event) = turn {
                let Some(guest) = &mut self.guest else { return Err(format!("nobody is there for {event:?}")) };
                let turn = guest.deliver(event);
                self.turned(turn);
                return Ok(flow);
            }
        }
    }

    fn output(&mut self, output: Output) -> Result<Next, String> {
        match output {
            Output::Append { entry, bytes } => {
                self.ledger.entry(&entry)?;
                if let Record::AttemptEnded { op, n, outcome: AttemptOutcome::Succeeded(_) } = entry.record {
                    let attempt = AttemptRef { operation: op, number: n };
                    self.truth.succeeded(attempt, self.epoch, &self.ledger, &self.world)?;
                }
                self.store.append(bytes);
                if self.host.borrow().machine.entries() < self.store.entries().len() as u64 {
                    return Err("an entry was appended that the machine does not count".to_owned());
                }
            }
            Output::Errand(errand) => {
                self.ledger.errand(&errand)?;
                self.others.errands.push((self.store.entries().len(), errand));
            }
            Output::Deliver(event) => {
                self.check_event(&event)?;
                return Ok(Next::Turn(event));
            }
            Output::Send { exchange, attempt, request, key, not_after_ms } => {
                // The body computes on, and the disk is slow.
                if self.chance(0.05) {
                    let late_ms = self.rng.random_range(1..1_500);
                    self.host.borrow_mut().now_ms += late_ms;
                }
                if self.crashes_left > 0 && self.chance(0.01) || self.flush() == Flow::Crashed {
                    return Ok(Next::Crash);
                }
                if not_after_ms.is_some_and(|at| self.now() >= at) {
                    self.refused.push(exchange);
                    return Ok(Next::Go);
                }
                self.check_key(key.as_deref())?;
                self.check_own_key(key.as_deref())?;
                self.ledger.leaves(attempt, key.as_deref(), (&request.method, &request.url), self.now())?;
                let begun = self.ledger.step(attempt.operation).map(|step| &step.begun);
                let Some(begun) = begun else { return Err(format!("a request of {attempt:?}, which is no step's")) };
                let timeout_ms = request.timeout_ms;
                let what = What { method: request.method, url: request.url, label: request.label, body: request.body };
                let sent = Sent::new(
                    (self.epoch, exchange),
                    (attempt, begun.step.clone()),
                    what,
                    (begun.effect, key, begun.key_ttl_ms),
                    request.renew_on,
                    self.now(),
                );
                self.world.send(sent, timeout_ms);
                self.stats.sends += 1;
                if self.crashes_left > 0 && self.chance(0.01) {
                    return Ok(Next::Crash);
                }
            }
            Output::Abort(exchange) => self.world.abort(self.epoch, exchange, self.now()),
            Output::Log(line) => {
                // A line of a turn that is replayed in the same process may come again: as it was.
                let place = (line.turn, line.index);
                if self.logs.insert(place, line.message.clone()).is_some_and(|known| known != line.message) {
                    return Err(format!("a log line comes again, and is another: {line:?}"));
                }
            }
            Output::StatusText(_) => {}
            Output::Rebuild => return Ok(Next::Rebuild),
            Output::Finished(_) if self.ledger.ended() => {
                self.guest = None;
                self.ledger.over(&self.host.borrow().machine)?;
            }
            Output::Finished(_) => return Err("a run is finished whose end is not recorded".to_owned()),
            Output::Stopped(mismatch) => return Err(format!("the same code differs: {mismatch}")),
            Output::Verified => return Err("verified, though nobody asked".to_owned()),
        }
        Ok(Next::Go)
    }

    fn check_event(&mut self, event: &Event) -> Result<(), String> {
        match event {
            Event::Attempt(attempt) => {
                self.check_attempt_key(&attempt.idempotency_key)?;
                self.ledger.attempt(attempt)
            }
            Event::Expired(_) | Event::Answered(..) => Ok(()),
            Event::Completed(..) | Event::Failed(..) | Event::Cancelled => {
                self.delivered += 1;
                self.ledger.delivery(self.delivered - 1, event)
            }
        }
    }

    pub(super) fn turned(&mut self, turn: Turn) {
        match turn {
            Turn::Quiet => {}
            Turn::Returned(result) => {
                self.guest = None;
                self.handle(Input::Returned(result));
            }
            Turn::Trapped(error) => {
                self.guest = None;
                self.handle(Input::Trapped(error));
            }
        }
    }
}

enum Next {
    Go,
    Turn(Event),
    Rebuild,
    Crash,
}
