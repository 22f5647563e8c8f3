//! What was really done, held against what the bodies meant: known to the simulator alone.

use std::collections::BTreeMap;

use stepwell_core::contract::{AttemptRef, EffectClass, Exchange, Operation};

use crate::host::{Note, What};
use crate::invariants::Ledger;
use crate::world::World;

/// What bodies meant to have done, and were told of.
#[derive(Debug, Default)]
pub struct Truth {
    meant: BTreeMap<(Operation, What), BTreeMap<u32, u32>>,
    unheard: BTreeMap<AttemptRef, Vec<Exchange>>,
}

impl Truth {
    /// Takes what the guest noted.
    ///
    /// # Errors
    /// If a body was told that something was done which was not.
    pub fn note(&mut self, note: Note, world: &World) -> Result<(), String> {
        match note {
            Note::Meant(AttemptRef { operation, number }, what) => {
                *self.meant.entry((operation, what)).or_default().entry(number).or_insert(0) += 1;
            }
            Note::Unheard(attempt, exchanges) => {
                self.unheard.insert(attempt, exchanges);
            }
            Note::ToldFromRecord(op, what) | Note::ToldDone(op, what) => {
                if done(world, op, &what) == 0 {
                    return Err(format!("a body of operation {op} was told that {what:?} was done, and it was not"));
                }
            }
        }
        Ok(())
    }

    /// An attempt has succeeded: no request that its body never heard of may have happened, where that could do harm.
    ///
    /// # Errors
    /// The one that may have.
    pub fn succeeded(&self, attempt: AttemptRef, epoch: u32, ledger: &Ledger, world: &World) -> Result<(), String> {
        let Some(step) = ledger.step(attempt.operation) else { return Ok(()) };
        let unheard = self.unheard.get(&attempt).into_iter().flatten();
        for exchange in unheard.filter(|_| step.begun.effect != EffectClass::Repeatable) {
            let Some(sent) = world.sends.iter().find(|s| s.epoch == epoch && s.exchange == *exchange) else { continue };
            if sent.key.is_some() && step.is_unknown(sent.key.as_deref()) {
                return Err(format!("{attempt:?} succeeds, and its body never heard that {:?} is unknown", sent.key));
            }
        }
        Ok(())
    }

    /// Nothing was done more often than one attempt meant it to be, where its class promises that.
    ///
    /// # Errors
    /// What was.
    pub fn check(&self, ledger: &Ledger, world: &World) -> Result<(), String> {
        if let Some(conflict) = world.conflicts.first() {
            return Err(conflict.clone());
        }
        for ((op, what), attempts) in &self.meant {
            let most = attempts.values().copied().max().unwrap_or(0);
            let class = ledger.step(*op).map_or(EffectClass::Repeatable, |step| step.begun.effect);
            let times = done(world, *op, what);
            if class != EffectClass::Repeatable && times > most {
                return Err(format!(
                    "class {class:?}: for operation {op} {what:?} was done {times} times, and no attempt meant it more than \
                     {most} times"
                ));
            }
        }
        Ok(())
    }
}

fn done(world: &World, op: Operation, what: &What) -> u32 {
    let same = world.sends.iter().filter(|sent| sent.attempt.operation == op && sent.what == *what);
    same.map(|sent| sent.done).sum()
}
